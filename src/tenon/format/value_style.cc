#include "tenon/format/value_style.h"

#include <algorithm>
#include <utility>

namespace tenon::format {
namespace {

void append_string(std::string& out, std::string_view text, const ValueStyle& style) {
  if (style.quote.empty()) {
    json::append_quoted(out, text);
  } else {
    out.append(style.quote).append(text).append(style.quote);
  }
}

}  // namespace

bool is_element_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kLongest && is_letter(name[0]) &&
         std::ranges::all_of(name, is_inner);
}

// Any of these bytes would end the key, or begin something else, when it is read again.
bool is_bare_key(std::string_view key, const ValueStyle& style) {
  return style.has_bare_keys && !key.empty() && key.front() != '\'' &&
         key.find_first_of(" \t\r\n{}[],:\"\\<>") == std::string_view::npos;
}

void append_key(std::string& out, std::string_view key, const ValueStyle& style) {
  if (is_bare_key(key, style)) {
    out += key;
  } else {
    append_string(out, key, style);
  }
}

// {"a": [true, null]} is {"a": [True, None]} in Python's style and {a:[true,null]} as members.
void append_value(std::string& out, const json::Value& value, const ValueStyle& style) {
  std::string_view separator;
  if (const json::Array* items = value.if_array()) {
    out += '[';
    for (const json::Value& item : *items) {
      out += std::exchange(separator, style.separator);
      append_value(out, item, style);
    }
    out += ']';
  } else if (const json::Object* members = value.if_object()) {
    out += '{';
    for (const json::Member& member : *members) {
      out += std::exchange(separator, style.separator);
      append_key(out, member.key, style);
      out += style.colon;
      append_value(out, member.value, style);
    }
    out += '}';
  } else if (const bool* boolean = value.if_bool()) {
    out += *boolean ? style.yes : style.no;
  } else if (value.is_null()) {
    out += style.null;
  } else if (const std::string* text = value.if_string()) {
    append_string(out, *text, style);
  } else {
    json::append(out, value);
  }
}

}  // namespace tenon::format
