#pragma once

#include <string>
#include <string_view>

namespace tenon::json {

/// Appends a key as a JSON pointer has it (RFC 6901), without the slash before it.
inline void append_pointer_key(std::string& out, std::string_view key) {
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
}

}  // namespace tenon::json
