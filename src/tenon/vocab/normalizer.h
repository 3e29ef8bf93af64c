#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/regex/splitter.h"
#include "tenon/vocab/unicode.h"

namespace tenon::vocab {

/// The place of a piece of text, for steps that put a space before it.
enum class Place : std::uint8_t {
  start,         ///< No text comes before it.
  continuation,  ///< It continues a text that was tokenised before.
  after_token,   ///< An added token comes before it.
};

/// SentencePiece's table of characters and their replacements ("precompiled charsmap").
class Charsmap {
 public:
  /// The pieces of a text that are looked up.
  enum class Unit : std::uint8_t {
    longest,  ///< The longest beginning that the table has: SentencePiece itself.
    cluster,  ///< Grapheme clusters below 6 bytes, then characters, each replaced by what their
              ///< shortest beginning becomes: the `tokenizers` package.
  };

  /// `bytes`: a length (u32), a double array of so many bytes, and replacements that end with NUL.
  /// Fails with `invalid` if the lengths do not fit.
  [[nodiscard]] static Expected<Charsmap> parse(std::string_view bytes, Unit unit);

  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  struct Match {
    std::size_t length = 0;  // 0: no match
    std::string_view replacement;
  };

  [[nodiscard]] std::uint32_t node(std::size_t index) const;
  [[nodiscard]] Match match(std::string_view text) const;
  [[nodiscard]] std::string apply_longest(std::string_view text) const;
  [[nodiscard]] std::string apply_clusters(std::string_view text) const;

  std::vector<std::uint32_t> nodes_;
  std::string replacements_;
  Unit unit_ = Unit::longest;
};

/// The changes to a text before it is cut: a list of steps. Immutable, hence thread-safe.
class Normalizer {
 public:
  struct Step {
    enum class Kind : std::uint8_t { form, lowercase, replace, prepend, strip, charsmap };
    Kind kind = Kind::form;
    NormalForm form = NormalForm::nfc;
    std::string text = {};  ///< `replace`: the text to search for, unless there is a pattern.
    std::string with = {};  ///< `replace`, `prepend`
    bool once = false;      ///< `prepend`: not after tokens.
    bool left = false;
    bool right = false;                                        ///< `strip`
    std::shared_ptr<const regex::Splitter> pattern = nullptr;  ///< `replace`
    std::shared_ptr<const Charsmap> charsmap = nullptr;
  };

  explicit Normalizer(std::vector<Step> steps = {}) : steps_(std::move(steps)) {}

  [[nodiscard]] bool is_empty() const { return steps_.empty(); }
  /// Fails with `limit_exceeded` if the text would grow to more than 64 times its size or 1 GiB.
  [[nodiscard]] Expected<std::string> apply(std::string_view text, Place place) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace tenon::vocab
