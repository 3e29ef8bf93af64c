#pragma once

#include <string>
#include <string_view>

#include "tenon/json/value.h"

namespace tenon::format {

/// How a JSON value is written in a format that does not use JSON.
struct ValueStyle {
  std::string_view yes, no, null;
  std::string_view separator;      ///< Between items and members.
  std::string_view colon;          ///< Between key and value.
  std::string_view quote;          ///< Strings are between these and have no escapes; empty: JSON's
                                   ///< strings.
  bool has_bare_keys = false;      ///< Keys that need no quotes have none.
  bool has_single_quotes = false;  ///< Strings may also be between these, as in Python's repr.

  [[nodiscard]] static ValueStyle python() {
    return {"True", "False", "None", ", ", ": ", "", false, true};
  }
  /// The style of `${members}`.
  [[nodiscard]] static ValueStyle members(std::string_view quote) {
    return {"true", "false", "null", ",", ":", quote, true, false};
  }
};

/// The names of elements that no schema declares: a pattern, and whether `name` matches it.
inline constexpr std::string_view kElementName = "[A-Za-z_][A-Za-z0-9_.-]{0,63}";
[[nodiscard]] bool is_element_name(std::string_view name);

void append_value(std::string& out, const json::Value& value, const ValueStyle& style);
/// The key is written without quotes.
[[nodiscard]] bool is_bare_key(std::string_view key, const ValueStyle& style);
void append_key(std::string& out, std::string_view key, const ValueStyle& style);

}  // namespace tenon::format
