#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/scanner.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/lengths.h"

namespace tenon::grammar {

/// Which spellings of a character a JSON string may hold beside the character itself. Escapes of
/// quote, backslash, slash and the control characters always may; NUL never.
enum class UnicodeEscapes : std::uint8_t {
  /// \u for every character, pairs of surrogates included; in one of a list of texts, for those
  /// that
  /// are not ASCII.
  any,
  controls,  ///< For control characters only.
};

struct StringOptions {
  UnicodeEscapes escapes = UnicodeEscapes::any;
  regex::Expr any_character = regex::ExprSet::kNothing;  ///< Of which contents are made.
  /// How many characters the content has, beside being in its language.
  std::uint64_t least = 0;
  std::uint64_t most = regex::Lengths::kUnbounded;
  /// Contents that are not accepted. Every text must begin another one that is: so they cost
  /// nothing but where a text is one of them so far.
  std::vector<std::string> excluded;
  /// If given, the content is one of these, which are in order and without doubles, and nothing
  /// else matters.
  std::optional<std::vector<std::string>> values;
  /// Called where a limit is reached: the state is dead then, which is no verdict.
  std::function<void(const Error&)> on_error;
};

/// JSON strings, after the opening quote and the closing one included, whose content is in
/// `content`, a language over UTF-8 within `exprs` (repeat(any character) intersected, so that it
/// holds valid UTF-8 only). Both are shared: `exprs` by all scanners of a machine.
[[nodiscard]] std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                                           regex::Expr content,
                                                           StringOptions options);

}  // namespace tenon::grammar
