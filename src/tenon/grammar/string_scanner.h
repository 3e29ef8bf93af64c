#pragma once

#include <memory>

#include "tenon/grammar/scanner.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Which spellings of a character a JSON string may hold beside the character itself. Escapes of
/// quote, backslash, slash and the control characters always may; NUL never.
enum class UnicodeEscapes : std::uint8_t {
  controls,  ///< \u for control characters only.
  any,       ///< \u for every character, pairs of surrogates included.
};

/// JSON strings, the quotes included (the opening one has been read where `is_open`), whose content
/// is in `content`, a language over UTF-8 within `exprs` (repeat(any character) intersected, so
/// that it holds valid UTF-8 only). Both are shared: `exprs` by all scanners of a machine.
[[nodiscard]] std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                                           regex::Expr content,
                                                           UnicodeEscapes escapes,
                                                           bool is_open = false);

}  // namespace tenon::grammar
