#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

/// Members of an object or a value whose absence is no error: one that is missing, or of another
/// type, is "", 0 or false.
namespace tenon::json {

template <class Container>
[[nodiscard]] std::string text_in(const Container& from, std::string_view name) {
  const Value* const value = from.find(name);
  return value == nullptr || value->if_string() == nullptr ? std::string() : *value->if_string();
}

template <class Container>
[[nodiscard]] std::int64_t number_in(const Container& from, std::string_view name) {
  const Value* const value = from.find(name);
  if (value == nullptr || value->if_number() == nullptr) return 0;
  return value->if_number()->to_int64().value_or(0);
}

template <class Container>
[[nodiscard]] bool flag_in(const Container& from, std::string_view name) {
  const Value* const value = from.find(name);
  return value != nullptr && value->if_bool() != nullptr && *value->if_bool();
}

}  // namespace tenon::json
