#pragma once

#include <string_view>

/// JSON's white space.
namespace tenon::json {

inline constexpr std::string_view kSpace = " \t\r\n";

[[nodiscard]] inline bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace tenon::json
