#include "tenon/api/fields.h"

#include <algorithm>
#include <utility>

#include "tenon/base/utf8.h"

// What the rows of a decoder's table are written with
//
// A decoder reads one request and stops at its first mistake: fail() keeps that error, and every
// reader returns its false on to the caller. leave_out() and unknown() are where a strict server
// and a lenient one differ.

namespace tenon::api {

using json::Kind;
using json::Value;

std::string at(std::string_view path, std::size_t index) {
  return std::string(path) + '[' + std::to_string(index) + ']';
}

std::string in(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + '.' + std::string(key);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 64;
  return json::quoted(text.size() <= kMost ? text : text.substr(0, kMost));
}

const Value* present(const Value& object, std::string_view key) {
  const Value* found = object.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool FieldReader::fail(ErrorCode code, std::string param, std::string message) {
  if (!error_) {
    error_ = ApiError{.message = std::move(message), .param = std::move(param), .code = code};
  }
  return false;
}

bool FieldReader::refuse(std::string_view param, std::string_view why) {
  return fail("unsupported_parameter", std::string(param),
              std::string(param) + " is not supported: " + std::string(why));
}

// The list is bounded, since a request may have a million unknown members; further ones are left
// out unsaid.
bool FieldReader::leave_out(std::string_view path, std::string_view why) {
  if (refuses_unknown_) return refuse(path, why);
  if (left_out_.size() < kMaxLeftOut) {
    constexpr std::size_t kMostOfPath = 200;  // members' names come from the client
    const std::string place = path.size() <= kMostOfPath
                                  ? std::string(path)
                                  : utf8::sanitized(path.substr(0, kMostOfPath)) + "...";
    left_out_.push_back({.code = std::string(kLeftOut),
                         .message = place + " is left out: " + std::string(why),
                         .path = place});
  }
  return true;
}

bool FieldReader::unknown(std::string_view path, std::string message) {
  if (refuses_unknown_) return fail("unknown_parameter", std::string(path), std::move(message));
  return leave_out(path, message);
}

const Value* FieldReader::required(const Value& object, std::string_view path,
                                   std::string_view key) {
  const Value* found = present(object, key);
  if (found == nullptr) {
    const std::string where = in(path, key);
    fail("missing_required_parameter", where, where + " is required");
  }
  return found;
}

const Value* FieldReader::required(const Value& object, std::string_view path, std::string_view key,
                                   Kind wanted) {
  const Value* found = required(object, path, key);
  return found != nullptr && kind(*found, wanted, in(path, key)) ? found : nullptr;
}

bool FieldReader::required_string(const Value& object, std::string_view path, std::string_view key,
                                  std::string& out) {
  const Value* found = required(object, path, key);
  return found != nullptr && string(*found, in(path, key), out);
}

bool FieldReader::optional_string(const Value& object, std::string_view path, std::string_view key,
                                  std::string& out) {
  const Value* found = present(object, key);
  return found == nullptr || string(*found, in(path, key), out);
}

std::string_view FieldReader::required_word(const Value& object, std::string_view path,
                                            std::string_view key,
                                            std::initializer_list<std::string_view> words) {
  const Value* found = required(object, path, key);
  if (found == nullptr || !one_of(*found, in(path, key), words)) return {};
  return *found->if_string();
}

// Null counts as absent, so a member with null is not unknown.
bool FieldReader::only(const Value& object, std::string_view path,
                       std::initializer_list<std::string_view> names) {
  for (const json::Member& member : *object.if_object()) {
    const bool is_known = std::find(names.begin(), names.end(), member.key) != names.end();
    if (is_known || member.value.is_null()) continue;
    const std::string of = path.empty() ? "this request" : std::string(path);
    if (!unknown(in(path, member.key), shown(member.key) + " is not a field of " + of))
      return false;
  }
  return true;
}

bool FieldReader::kind(const Value& value, Kind wanted, std::string_view path) {
  if (value.kind() == wanted) return true;
  const std::string what = path.empty() ? "the body" : std::string(path);
  return fail("invalid_type", std::string(path),
              what + " must be of type " + std::string(json::kind_name(wanted)) + ", not " +
                  std::string(json::kind_name(value.kind())));
}

bool FieldReader::string(const Value& value, std::string_view path, std::string& out) {
  if (!kind(value, Kind::string, path)) return false;
  out = *value.if_string();
  return true;
}

bool FieldReader::one_of(const Value& value, std::string_view path,
                         std::initializer_list<std::string_view> words) {
  if (!kind(value, Kind::string, path)) return false;
  const std::string_view given = *value.if_string();
  if (std::ranges::find(words, given) != words.end()) return true;
  std::string list;
  for (const std::string_view& word : words) {
    // "a, b or c"
    if (&word != words.begin()) list += &word + 1 == words.end() ? " or " : ", ";
    list += word;
  }
  return fail("invalid_value", std::string(path),
              std::string(path) + " must be " + list + ", not " + shown(given));
}

bool FieldReader::boolean(const Value& value, std::string_view path, bool& out) {
  if (!kind(value, Kind::boolean, path)) return false;
  out = *value.if_bool();
  return true;
}

bool FieldReader::number(const Value& value, std::string_view path, double least, double most,
                         double& out) {
  if (!kind(value, Kind::number, path)) return false;
  out = value.if_number()->to_double();
  if (out >= least && out <= most) return true;
  std::string range = json::to_string(least) + " to " + json::to_string(most);
  return fail("invalid_value", std::string(path),
              std::string(path) + " must be a number from " + range);
}

// `1.0` and `1e3` are integers, as in JSON Schema; `1.5` and numbers beyond 64 bits are not.
bool FieldReader::integer(const Value& value, std::string_view path, std::int64_t least,
                          std::int64_t most, std::int64_t& out) {
  if (!kind(value, Kind::number, path)) return false;
  const std::optional<std::int64_t> number = value.if_number()->to_int64();
  if (number && *number >= least && *number <= most) {
    out = *number;
    return true;
  }
  return fail("invalid_value", std::string(path),
              std::string(path) + " must be an integer from " + std::to_string(least) + " to " +
                  std::to_string(most));
}

bool FieldReader::at_most(std::size_t most, std::size_t count, std::string_view path,
                          std::string_view what) {
  if (count <= most) return true;
  return fail("invalid_value", std::string(path),
              std::string(path) + " has " + std::to_string(count) + ' ' + std::string(what) +
                  ", more than " + std::to_string(most));
}

}  // namespace tenon::api
