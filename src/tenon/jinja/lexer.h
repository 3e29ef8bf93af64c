#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::jinja {

enum class Token : std::uint8_t {
  end,
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,  // text: between the quotes, escapes as written
  integer,
  real,
  add,
  subtract,
  divide,
  floor_divide,
  multiply,
  modulo,
  power,
  tilde,
  left_bracket,
  right_bracket,
  left_paren,
  right_paren,
  left_brace,
  right_brace,
  eq,
  ne,
  gt,
  ge,
  lt,
  le,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon,
};

struct Lexeme {
  Token token;
  std::uint32_t begin, size;  // of its text in the source
};

/// A token in jinja2's words: "end of print statement", "(", "name", ...
[[nodiscard]] std::string_view describe(Token token);

/// `source` with every line end made
/// , and without the last one.
[[nodiscard]] std::string normalize_newlines(std::string_view source);

/// Cuts `source` (normalised) into tokens; the last one is `end`. Linear, in one pass. Throws
/// Fault.
[[nodiscard]] std::vector<Lexeme> tokenize(std::string_view source, bool trim_blocks,
                                           bool lstrip_blocks);

}  // namespace tenon::jinja
