#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// Reading the fields of a request, each named by its path: `messages[0].role`.
namespace tenon::api {

/// How many things left out of a request are reported; further ones are left out, too.
inline constexpr std::size_t kMaxLeftOut = 64;

[[nodiscard]] std::string at(std::string_view path, std::size_t index);
[[nodiscard]] std::string in(std::string_view path, std::string_view key);
/// Text from the client, made fit for an error message.
[[nodiscard]] std::string shown(std::string_view text);
/// The member `key` of an object; null pointer if it is absent or null, which mean the same.
[[nodiscard]] const json::Value* present(const json::Value& object, std::string_view key);

/// Code of the diagnostics that report what was left out of a request.
inline constexpr std::string_view kLeftOut = "left_out";

/// Base of the decoders. Every method that returns a bool returns false after fail(), which keeps
/// the first error; codes are invalid_type, invalid_value, missing_required_parameter,
/// unknown_parameter and unsupported_parameter.
///
///     if (!required_string(value, path, "name", out.name)) return false;
///     const Value* schema = required(value, path, "schema", Kind::object);
///     if (schema == nullptr) return false;
class FieldReader {
 protected:
  bool fail(ErrorCode code, std::string param, std::string message);
  bool refuse(std::string_view param, std::string_view why);
  /// The answer can be right without the value at `path`: it is not read, and the client is told
  /// so, as "PATH is left out: WHY". An error if the server leaves nothing out.
  bool leave_out(std::string_view path, std::string_view why);
  /// A field or member that is not known: left out, or an error if the server refuses such.
  bool unknown(std::string_view path, std::string message);
  /// Null after fail().
  const json::Value* required(const json::Value& object, std::string_view path,
                              std::string_view key);
  /// The same, of this kind.
  const json::Value* required(const json::Value& object, std::string_view path,
                              std::string_view key, json::Kind wanted);
  bool required_string(const json::Value& object, std::string_view path, std::string_view key,
                       std::string& out);
  /// Leaves `out` as it is if there is no such member.
  bool optional_string(const json::Value& object, std::string_view path, std::string_view key,
                       std::string& out);
  /// A member that is one of `words`; "" after fail().
  std::string_view required_word(const json::Value& object, std::string_view path,
                                 std::string_view key,
                                 std::initializer_list<std::string_view> words);
  /// Calls unknown() for members of `object` with other names, unless they are null.
  bool only(const json::Value& object, std::string_view path,
            std::initializer_list<std::string_view> names);

  bool kind(const json::Value& value, json::Kind wanted, std::string_view path);
  bool string(const json::Value& value, std::string_view path, std::string& out);
  /// A string that is one of `words`.
  bool one_of(const json::Value& value, std::string_view path,
              std::initializer_list<std::string_view> words);
  bool boolean(const json::Value& value, std::string_view path, bool& out);
  bool number(const json::Value& value, std::string_view path, double least, double most,
              double& out);
  bool integer(const json::Value& value, std::string_view path, std::int64_t least,
               std::int64_t most, std::int64_t& out);
  /// A limit on work, checked before any is done.
  bool at_most(std::size_t most, std::size_t count, std::string_view path, std::string_view what);

  std::optional<ApiError> error_;
  bool refuses_unknown_ = true;                // nothing is left out
  std::vector<message::Diagnostic> left_out_;  // at most kMaxLeftOut
};

}  // namespace tenon::api
