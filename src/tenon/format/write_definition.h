#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"

/// Pieces of TOML for definitions that a program writes.
namespace tenon::format {

/// A format's name made from a model's name: lower case letters and digits, dashes and dots; '_'
/// for everything else.
[[nodiscard]] inline std::string as_name(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool stays =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    name += stays ? c : '_';
  }
  return name;
}

/// `literal` as part of a pattern: a dollar sign is doubled.
[[nodiscard]] inline std::string as_pattern(std::string_view literal) {
  std::string text;
  for (const char c : literal) text.append(c == '$' ? 2 : 1, c);
  return text;
}

/// A string of TOML; JSON's escapes are valid in TOML.
[[nodiscard]] inline std::string as_toml(std::string_view text) {
  return json::quoted(text);
}

[[nodiscard]] inline std::string as_toml(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? ", " : "") + as_toml(text);
  return list + "]";
}

}  // namespace tenon::format
