#include "tenon/format/schema_types.h"

#include <array>

namespace tenon::format {
namespace {

// The number of schemas visited for one question, because references can multiply a few schemas.
// Beyond it a schema counts as saying nothing.
constexpr int kMaxTypeVisits = 500;
constexpr unsigned kMaxTypeDepth = 16;  // references count too
constexpr std::array<std::string_view, 3> kParts = {"allOf", "anyOf", "oneOf"};

Types type_named(std::string_view name) {
  if (name == "string") return kText;
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return name == "number" || name == "integer" ? kNumber : 0;
}

// The types in a `type` keyword.
Types types_named(const json::Value& type) {
  if (type.if_string() != nullptr) return type_named(*type.if_string());
  if (type.if_array() == nullptr) return kAnyType;
  Types types = 0;
  for (const json::Value& item : *type.if_array()) {
    if (item.if_string() != nullptr) types |= type_named(*item.if_string());
  }
  return types;
}

// Keywords beside a `$ref` apply too.
Types types_of(const json::Value& schema, const json::Value& root, unsigned depth, int& visits) {
  if (depth > kMaxTypeDepth || --visits < 0 || schema.if_object() == nullptr) return kAnyType;
  Types types = kAnyType;
  if (const json::Value* target = target_of(schema, root)) {
    types = types_of(*target, root, depth + 1, visits);
  }
  if (const json::Value* type = schema.find("type")) types &= types_named(*type);
  if (const json::Value* value = schema.find("const")) types &= type_of(value->kind());
  if (const json::Value* values = schema.find("enum"); values && values->if_array() != nullptr) {
    Types listed = 0;
    for (const json::Value& value : *values->if_array()) listed |= type_of(value.kind());
    types &= listed;
  }
  for (const std::string_view key : kParts) {
    const json::Value* parts = schema.find(key);
    if (parts == nullptr || parts->if_array() == nullptr || parts->if_array()->empty()) continue;
    const bool is_all = key == "allOf";
    Types of_parts = is_all ? kAnyType : 0;
    for (const json::Value& part : *parts->if_array()) {
      const Types of_part = types_of(part, root, depth + 1, visits);
      of_parts = is_all ? of_parts & of_part : of_parts | of_part;
    }
    types &= of_parts;
  }
  return types == 0 ? kAnyType : types;  // no value fits; that does not help the caller
}

// The first result of `find` in the schemas to which `schema` refers or of which it consists.
template <class F>
const json::Value* first_beside(const json::Value& schema, const json::Value& root, F find) {
  if (const json::Value* target = target_of(schema, root)) {
    if (const json::Value* found = find(*target)) return found;
  }
  for (const std::string_view key : kParts) {
    const json::Value* parts = schema.find(key);
    if (parts == nullptr || parts->if_array() == nullptr) continue;
    for (const json::Value& part : *parts->if_array()) {
      if (const json::Value* found = find(part)) return found;
    }
  }
  return nullptr;
}

// The schema's own property wins, then those of its parts, then `additionalProperties`; what
// several parts say is not joined, because only the type is asked for.
const json::Value* member_schema(const json::Value& schema, std::string_view key,
                                 const json::Value& root, unsigned depth, int& visits) {
  if (depth > kMaxTypeDepth || --visits < 0) return nullptr;
  if (const json::Value* properties = schema.find("properties")) {
    if (const json::Value* property = properties->find(key)) return property;
  }
  const auto find = [&](const json::Value& other) {
    return member_schema(other, key, root, depth + 1, visits);
  };
  if (const json::Value* found = first_beside(schema, root, find)) return found;
  const json::Value* others = schema.find("additionalProperties");
  return others != nullptr && others->if_object() != nullptr ? others : nullptr;
}

const json::Value* item_schema(const json::Value& schema, const json::Value& root, unsigned depth,
                               int& visits) {
  if (depth > kMaxTypeDepth || --visits < 0) return nullptr;
  const json::Value* items = schema.find("items");
  if (items != nullptr && items->if_object() != nullptr) return items;
  return first_beside(schema, root, [&](const json::Value& other) {
    return item_schema(other, root, depth + 1, visits);
  });
}

}  // namespace

Types type_of(json::Kind kind) {
  return type_named(kind_name(kind));
}

const json::Value* target_of(const json::Value& schema, const json::Value& root) {
  const json::Value* reference = schema.find("$ref");
  const std::string* text = reference != nullptr ? reference->if_string() : nullptr;
  // Other documents are not read here, and a reference to one says nothing.
  if (text == nullptr || !text->starts_with('#')) return nullptr;
  return json::at_pointer(root, std::string_view(*text).substr(1));
}

Types types_of(const json::Value& schema, const json::Value& root) {
  int visits = kMaxTypeVisits;
  return types_of(schema, root, 0, visits);
}

const json::Value* member_schema(const json::Value* schema, std::string_view key,
                                 const json::Value& root) {
  int visits = kMaxTypeVisits;
  return schema != nullptr ? member_schema(*schema, key, root, 0, visits) : nullptr;
}

const json::Value* item_schema(const json::Value* schema, const json::Value& root) {
  int visits = kMaxTypeVisits;
  return schema != nullptr ? item_schema(*schema, root, 0, visits) : nullptr;
}

}  // namespace tenon::format
