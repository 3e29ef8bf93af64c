#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/scanner.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/lengths.h"

namespace tenon::grammar {

/// Which escapes a JSON string may have for a character besides the character itself. Escapes of
/// quote, backslash, slash and the control characters are always allowed; NUL never is.
enum class UnicodeEscapes : std::uint8_t {
  /// \u for every character, including pairs of surrogates; in a list of texts, only for characters
  /// beyond ASCII.
  any,
  controls,  ///< For control characters only.
};

struct StringOptions {
  UnicodeEscapes escapes = UnicodeEscapes::any;
  regex::Expr any_character = regex::ExprSet::kNothing;  ///< The characters of which contents are
                                                         ///< made.
  /// The number of characters of the content, in addition to its language.
  std::uint64_t least = 0;
  std::uint64_t most = regex::Lengths::kUnbounded;
  /// Contents that are not accepted. Every one must be a prefix of an accepted one, so they cost
  /// nothing unless the text is a prefix of one of them.
  std::vector<std::string> excluded;
  /// If given, the content is one of these, which are sorted and without duplicates, and nothing
  /// else matters.
  std::optional<std::vector<std::string>> values;
  /// Called when a limit is reached: the state is dead then, which is not a verdict.
  std::function<void(const Error&)> on_error;
};

/// JSON strings, from after the opening quote to the closing one, whose content is in `content`, a
/// language over UTF-8 within `exprs` (intersected with repeat(any character), so that it has only
/// valid UTF-8). All scanners of a machine share `exprs`.
[[nodiscard]] std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                                           regex::Expr content,
                                                           StringOptions options);

}  // namespace tenon::grammar
