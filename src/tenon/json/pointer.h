#pragma once

#include <string>
#include <string_view>

namespace tenon::json {

/// Appends a key as RFC 6901 writes it in a JSON pointer, without the slash before it.
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

/// The key that a token of a JSON pointer stands for.
inline std::string pointer_key(std::string_view token) {
  std::string key;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char next = i + 1 < token.size() ? token[i + 1] : ' ';
    const bool is_escape = token[i] == '~' && (next == '0' || next == '1');
    key += !is_escape ? token[i] : next == '0' ? '~' : '/';
    if (is_escape) ++i;
  }
  return key;
}

}  // namespace tenon::json
