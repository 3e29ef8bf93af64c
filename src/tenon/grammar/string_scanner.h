#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/grammar/scanner.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Which spellings of a character a JSON string may hold beside the character itself. Escapes of
/// quote, backslash, slash and the control characters always may; NUL never.
enum class UnicodeEscapes : std::uint8_t {
  controls,  ///< \u for control characters only.
  any,       ///< \u for every character, pairs of surrogates included.
};

struct StringOptions {
  UnicodeEscapes escapes = UnicodeEscapes::controls;
  regex::Expr any_character = regex::ExprSet::kNothing;  ///< Of which contents are made.
  /// Contents that are not accepted. Every text must begin another one that is: so they cost
  /// nothing but where a text is one of them so far.
  std::vector<std::string> excluded;
};

/// JSON strings, after the opening quote and the closing one included, whose content is in
/// `content`, a language over UTF-8 within `exprs` (repeat(any character) intersected, so that it
/// holds valid UTF-8 only). Both are shared: `exprs` by all scanners of a machine.
[[nodiscard]] std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                                           regex::Expr content,
                                                           StringOptions options);

}  // namespace tenon::grammar
