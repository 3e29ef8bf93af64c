#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/regex/syntax.h"

namespace tenon::regex {

/// A tokenizer's pre-tokenizer: a pattern whose matches are the pieces that are cut into tokens one
/// by one.
///
///     const auto splitter = Splitter::compile(R"(\p{L}+| ?\p{N}{1,3}|\s+(?!\S)|\s+)");
///     std::vector<Splitter::Piece> pieces;
///     if (Status found = (*splitter)->find_all(text, pieces); !found) return found;
///
/// Unlike Regex it distinguishes the ways to match: the first choice that fits wins, greedy
/// quantifiers take the most, possessive ones never give back. May be shared between threads.
class Splitter {
 public:
  /// A range of bytes of the text.
  struct Piece {
    std::size_t begin;
    std::size_t end;
    bool operator==(const Piece&) const = default;
  };

  /// Fails as parse() does, and with Errc::unsupported at a look behind of more than one character.
  [[nodiscard]] static Expected<std::shared_ptr<const Splitter>> compile(
      std::string_view pattern, Dialect dialect = Dialect::oniguruma, const Limits& limits = {});
  ~Splitter();
  Splitter(const Splitter&) = delete;
  Splitter& operator=(const Splitter&) = delete;

  /// Appends the matches in `utf8`, each the first one after the match before it; empty matches are
  /// skipped. Fails with Errc::limit_exceeded after 200 steps for each byte; patterns of tokenizers
  /// need far fewer.
  [[nodiscard]] Status find_all(std::string_view utf8, std::vector<Piece>& pieces) const;

 private:
  struct Program;
  explicit Splitter(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
};

}  // namespace tenon::regex
