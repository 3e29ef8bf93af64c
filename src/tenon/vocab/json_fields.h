#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::vocab {

/// Reads the members of a JSON object by name, and refuses members that the caller has not read:
///
///     Fields fields(value, "model", error);
///     const bool fuse = fields.boolean("fuse_unk", false);
///     fields.finish();
///     if (error) return Unexpected(*error);
///
/// The first failure goes into `error` and names the place; after it everything reads as missing.
/// The object, the value and the error must outlive it.
class Fields {
 public:
  Fields(const json::Value* value, std::string place, std::optional<Error>& error);

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] std::string place_of(std::string_view name) const;

  /// Null if the member is missing or null.
  [[nodiscard]] const json::Value* any(std::string_view name);
  [[nodiscard]] const json::Array* array(std::string_view name);  ///< Empty if it is missing.
  [[nodiscard]] std::optional<std::string> string(std::string_view name);
  [[nodiscard]] std::string needed_string(std::string_view name);
  [[nodiscard]] bool boolean(std::string_view name, bool otherwise);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name);
  /// Reads a member and drops it, for members that do not matter here.
  void skip(std::string_view name) { read_.insert(name); }

  void fail(Errc code, std::string_view what);
  /// Fails at a member that was not read and is not null, because it is unknown.
  void finish();

 private:
  const json::Value* value_;
  std::string place_;
  std::optional<Error>& error_;
  std::set<std::string_view> read_;  // names in our own code
};

}  // namespace tenon::vocab
