#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/regex/syntax.h"

namespace tenon::regex {

/// A tokenizer's pre-tokenizer: the pattern whose matches are cut into tokens one by one.
///
///     const auto splitter = Splitter::compile(R"(\p{L}+| ?\p{N}{1,3}|\s+(?!\S)|\s+)");
///     std::vector<Splitter::Piece> pieces;
///     if (Status found = (*splitter)->find_all(text, pieces); !found) return found;
///
/// Unlike Regex it has an order among the ways to match: the first choice that fits wins, greedy
/// takes the most, possessive gives nothing back. May be shared between threads.
class Splitter {
 public:
  /// Bytes of the text.
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

  /// Appends the matches in `utf8`, each the first behind the one before; empty ones are no pieces.
  /// Fails with Errc::limit_exceeded after 200 steps for each byte, which no tokenizer's pattern
  /// comes near to.
  [[nodiscard]] Status find_all(std::string_view utf8, std::vector<Piece>& pieces) const;

 private:
  struct Program;
  explicit Splitter(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
};

}  // namespace tenon::regex
