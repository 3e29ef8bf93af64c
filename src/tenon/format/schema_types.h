#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/json/value.h"

/// The little that a format must know of a parameter's schema to distinguish text from JSON, and an
/// object from an array.
namespace tenon::format {

/// Sets of JSON's types, as bits.
using Types = std::uint8_t;
inline constexpr Types kText = 1, kNull = 2, kBoolean = 4, kNumber = 8, kArray = 16, kObject = 32;
inline constexpr Types kAnyType = 63;

[[nodiscard]] Types type_of(json::Kind kind);

/// The schema to which `$ref` leads in the document `root`, or null.
[[nodiscard]] const json::Value* target_of(const json::Value& schema, const json::Value& root);

/// The types that a value of `schema` may have, by `type`, `enum` and `const`, also through `$ref`,
/// `allOf`, `anyOf` and `oneOf`. kAnyType: the schema does not say.
[[nodiscard]] Types types_of(const json::Value& schema, const json::Value& root);

/// The schema of the member `key` of an object, or null; `schema` may be null.
[[nodiscard]] const json::Value* member_schema(const json::Value* schema, std::string_view key,
                                               const json::Value& root);
/// The schema of an array's items, or null; `schema` may be null.
[[nodiscard]] const json::Value* item_schema(const json::Value* schema, const json::Value& root);

}  // namespace tenon::format
