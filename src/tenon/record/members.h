#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

/// Members of a recording's lines. One that is missing, or of another type, is 0, "" or false.
namespace tenon::record {

[[nodiscard]] inline std::int64_t number_in(const json::Value& line, std::string_view name) {
  const json::Value* const value = line.find(name);
  if (value == nullptr || value->if_number() == nullptr) return 0;
  return value->if_number()->to_int64().value_or(0);
}

[[nodiscard]] inline std::uint32_t count_in(const json::Value& line, std::string_view name) {
  return static_cast<std::uint32_t>(number_in(line, name));
}

[[nodiscard]] inline std::string text_in(const json::Value& line, std::string_view name) {
  const json::Value* const value = line.find(name);
  return value == nullptr || value->if_string() == nullptr ? std::string() : *value->if_string();
}

[[nodiscard]] inline bool flag_in(const json::Value& line, std::string_view name) {
  const json::Value* const value = line.find(name);
  return value != nullptr && value->if_bool() != nullptr && *value->if_bool();
}

}  // namespace tenon::record
