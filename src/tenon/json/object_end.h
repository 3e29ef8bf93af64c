#pragma once

#include <cstddef>
#include <string_view>

namespace tenon::json {

/// Where the object or list that begins at `begin` ends, by its brackets and strings alone; npos if
/// it does not. Each byte looked at is taken off `budget`, and where that is used up the answer is
/// npos.
inline std::size_t object_end(std::string_view text, std::size_t begin, std::size_t& budget) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = begin; i < text.size() && budget > 0; ++i, --budget) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace tenon::json
