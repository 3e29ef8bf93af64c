#include "tenon/format/member_hold.h"

#include <algorithm>

namespace tenon::format {

// The text is valid JSON, so commas, brackets and quotes outside of strings tell where members
// begin. A member is held from the comma or brace before it up to the first byte of its value.
std::string MemberHold::pass(std::string_view json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (is_string_) {
      i += pass_text(json.substr(i), out) - 1;
      continue;
    }
    const bool is_blank = byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
    // Bytes that are neither a name nor a value.
    const bool is_apart = is_blank || byte == ':' || byte == ',';
    const bool begins_name = byte == '"' && is_member_ && !is_named_;
    if (!is_apart && !begins_name) begin_value(out);
    if (byte == ',' && !is_object_.empty()) {
      is_passed_ = false;
      is_member_ = is_object_.back();
      is_named_ = false;
    }
    put(byte, out);
    is_string_ = byte == '"';
    if (byte == '{' || byte == '[') {
      is_object_.push_back(byte == '{');
      is_passed_ = false;
      is_member_ = byte == '{';
      is_named_ = false;
    }
    if ((byte == '}' || byte == ']') && !is_object_.empty()) is_object_.pop_back();
  }
  if (held_.size() > kMaxHeld) {
    out += release();
    is_passed_ = true;
  }
  return out;
}

// Passes the bytes of a string on, at least one, up to its closing quote; returns their number.
std::size_t MemberHold::pass_text(std::string_view json, std::string& out) {
  const std::size_t plain = is_escaped_ ? 0 : std::min(json.find_first_of("\"\\"), json.size());
  (is_member_ ? held_ : out).append(json.substr(0, plain));
  if (plain == json.size()) return plain;
  const char byte = json[plain];
  put(byte, out);
  const bool is_end = byte == '"' && !is_escaped_;
  is_escaped_ = byte == '\\' && !is_escaped_;
  is_string_ = !is_end;
  if (is_end && is_member_) is_named_ = true;
  return plain + 1;
}

void MemberHold::begin_value(std::string& out) {
  out += release();
  is_member_ = false;
  is_passed_ = false;
}

// `{"a": 1, "b` with the rest `":null}` ends as `{"a": 1}`.
std::string MemberHold::end_without(std::string_view rest) {
  held_.clear();
  is_member_ = false;
  return std::string(rest.substr(rest.find_last_not_of("]}") + 1));
}

}  // namespace tenon::format
