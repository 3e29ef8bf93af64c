#pragma once

#include <string_view>

#include "tenon/json/space.h"

namespace tenon::format {

// White space between the parts of a call.
using json::is_space;
using json::kSpace;
using json::trimmed;

/// Some models write white space as two characters, `\\n`: a backslash and one of these letters.
inline bool is_space_code(char letter) {
  return letter == 'n' || letter == 'r' || letter == 't';
}

/// Without white space at its beginning, also where it is written as two characters.
inline std::string_view without_space_before(std::string_view text) {
  while (!text.empty()) {
    const bool is_code = text.size() > 1 && text[0] == '\\' && is_space_code(text[1]);
    if (!is_code && !is_space(text[0])) break;
    text.remove_prefix(is_code ? 2 : 1);
  }
  return text;
}

/// The same at both ends.
inline std::string_view without_space_around(std::string_view text) {
  text = trimmed(without_space_before(text));
  while (text.size() > 1 && text[text.size() - 2] == '\\' && is_space_code(text.back())) {
    text = trimmed(text.substr(0, text.size() - 2));
  }
  return text;
}

}  // namespace tenon::format
