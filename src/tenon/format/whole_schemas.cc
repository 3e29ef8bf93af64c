#include "tenon/format/whole_schemas.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/format/schema_types.h"

// of() follows references as long as they say nothing else, and joins a schema with its target and
// its `allOf` otherwise (flat). Merger joins two objects keyword by keyword: bounds become the
// tighter one, types and lists what both allow, members and items an `allOf` that is joined when it
// is asked for. What it cannot join goes into `allOf` of the result. A result is kept by its text,
// so that a schema that contains itself meets the same object again.

namespace tenon::format {
namespace {

using json::Array;
using json::Object;
using json::Value;

constexpr unsigned kMaxDepth = 16;  // of nested references and `allOf`
// The number of schemas of one document that are joined. Beyond it references are followed, and the
// keywords beside them are ignored.
constexpr std::size_t kMaxVisits = 5'000;
// The number of schemas visited for one question about a type.
constexpr unsigned kMaxSteps = 500;

// Keywords that say nothing about values.
constexpr std::array<std::string_view, 14> kNotes = {
    "$schema", "$id",      "$anchor",    "$comment", "$defs",     "definitions", "title",
    "default", "examples", "deprecated", "readOnly", "writeOnly", "description", "nullable"};
// The lower of two bounds applies; for other keywords the higher.
constexpr std::array<std::string_view, 3> kMost = {"maxLength", "maxItems", "maxProperties"};
constexpr std::array<std::string_view, 3> kLeast = {"minLength", "minItems", "minProperties"};
// Keywords that belong together.
constexpr std::array<std::string_view, 9> kTied = {"if",
                                                   "then",
                                                   "else",
                                                   "contains",
                                                   "minContains",
                                                   "maxContains",
                                                   "prefixItems",
                                                   "additionalItems",
                                                   "unevaluatedItems"};

bool holds(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

// The schema allows every value.
bool is_bare(const Object& schema) {
  return std::ranges::all_of(schema, [](const json::Member& m) { return holds(kNotes, m.key); });
}

// Only of an lvalue: a temporary would not live long enough.
const Array* list_in(const auto& schema, std::string_view key) {
  const Value* const list = schema.find(key);
  return list != nullptr && list->if_array() != nullptr && !list->if_array()->empty()
             ? list->if_array()
             : nullptr;
}

Array as_list(const Value& value) {
  return value.if_array() != nullptr ? *value.if_array() : Array{value};
}

// Both in one `allOf`, to be joined when needed.
// Null stands for a schema that is not there; `true` and `false` are resolved at once.
Value all_of(const Value* one, const Value* other) {
  if (one == nullptr) return *other;
  if (other == nullptr || *one == *other) return *one;
  for (const auto& [sure, rest] : {std::pair(one, other), std::pair(other, one)}) {
    if (const bool* const all = sure->if_bool()) return *all ? *rest : Value(false);
  }
  return Object{{"allOf", Array{*one, *other}}};
}

// The names of `type` that both have.
Array common_types(const Value& one, const Value& other) {
  Array common;
  const auto has = [](const Array& list, std::string_view name) {
    return std::ranges::any_of(list, [name](const Value& item) { return item == Value(name); });
  };
  const Array ones = as_list(one);
  const Array others = as_list(other);
  for (const Value& type : ones) {
    // JSON Schema's "number" includes "integer", so what both allow is the narrower one.
    const bool is_number = type == Value("number");
    if (has(others, type.if_string() != nullptr ? *type.if_string() : "")) common.push_back(type);
    if (is_number && !has(others, "number") && has(others, "integer")) common.push_back("integer");
    if (type == Value("integer") && !has(others, "integer") && has(others, "number")) {
      common.push_back(type);
    }
  }
  return common;
}

// The values of `const` or `enum`; nullopt: the schema lists none.
std::optional<Array> listed(const Object& schema) {
  if (const Value* const value = schema.find("const")) return Array{*value};
  const Value* const list = schema.find("enum");
  if (list == nullptr || list->if_array() == nullptr) return std::nullopt;
  return *list->if_array();
}

class Merger {
 public:
  Merger(const Object& one, const Object& other)
      : all_(one), one_(one), other_(other), is_tied_(have_tied(one, other)) {}

  Value merged() {
    merge_members();
    if (!merge_list()) return false;
    for (const json::Member& member : other_) {
      if (!merge(member.key, member.value)) return false;
    }
    if (!rest_.empty()) {
      Array parts;
      if (const Array* const before = list_in(all_, "allOf")) parts = *before;
      if (std::ranges::find(parts, Value(rest_)) == parts.end()) parts.emplace_back(rest_);
      all_["allOf"] = std::move(parts);
    }
    return std::move(all_);
  }

 private:
  // The meaning of `items` depends on `prefixItems`, of `then` on `if`, and so on. If both schemas
  // have such keywords, those of the other one are kept together in rest_.
  static bool have_tied(const Object& one, const Object& other) {
    const auto has = [](const Object& schema) {
      return std::ranges::any_of(schema, [](const json::Member& m) { return holds(kTied, m.key); });
    };
    const bool one_has = has(one);
    const bool other_has = has(other);
    return (one_has && (other_has || other.contains("items"))) ||
           (other_has && one.contains("items"));
  }

  // False: no value fits both.
  bool merge(const std::string& key, const Value& value) {
    static constexpr std::array<std::string_view, 6> kDone = {
        "properties", "additionalProperties", "patternProperties", "required", "const", "enum"};
    if (holds(kDone, key)) return true;
    Value* const own = all_.find(key);
    if (own != nullptr && (*own == value || holds(kNotes, key))) return true;
    if (is_tied_ && (holds(kTied, key) || key == "items")) {
      rest_[key] = value;
      return true;
    }
    if (own == nullptr) {
      all_[key] = value;
      return true;
    }
    if (key == "type") {
      Array types = common_types(*own, value);
      if (types.empty()) return false;
      *own = types.size() == 1 ? types.front() : Value(std::move(types));
    } else if (holds(kMost, key) || holds(kLeast, key)) {
      const auto number = [](const Value& bound) {
        return bound.if_number() != nullptr ? bound.if_number()->to_int64() : std::nullopt;
      };
      const auto mine = number(*own);
      const auto its = number(value);
      if (mine && its && (*its < *mine) == holds(kMost, key)) *own = value;
    } else if (key == "items") {
      *own = all_of(own, &value);
    } else if (key == "allOf" && own->if_array() != nullptr) {
      for (const Value& part : as_list(value)) own->if_array()->push_back(part);
    } else {
      rest_[key] = value;
    }
    return true;
  }

  // False: the lists have no value in common.
  bool merge_list() {
    const auto ours = listed(one_);
    const auto its = listed(other_);
    if (!its) return true;
    Array both = *its;
    if (ours) std::erase_if(both, [&](const Value& value) { return !holds(*ours, value); });
    all_.erase("const");
    all_["enum"] = std::move(both);
    return !all_.find("enum")->if_array()->empty();
  }

  // What an object says of undeclared members, if it can be decided by the name.
  static const Value* others_of(const Object& schema) {
    return schema.contains("patternProperties") ? nullptr : schema.find("additionalProperties");
  }
  // What one object says of undeclared members applies to those that the other declares.
  void merge_members() {
    const Value* const ours = one_.find("properties");
    const Value* const its = other_.find("properties");
    const Value* const our_others = others_of(one_);
    const Value* const its_others = others_of(other_);
    Object members;
    if (ours != nullptr && ours->if_object() != nullptr) {
      for (const json::Member& member : *ours->if_object()) {
        const Value* const same = its != nullptr ? its->find(member.key) : nullptr;
        members[member.key] = all_of(&member.value, same != nullptr ? same : its_others);
      }
    }
    if (its != nullptr && its->if_object() != nullptr) {
      for (const json::Member& member : *its->if_object()) {
        if (!members.contains(member.key)) members[member.key] = all_of(&member.value, our_others);
      }
    }
    if (!members.empty()) all_["properties"] = std::move(members);
    const Value* const others = other_.find("additionalProperties");
    if (others != nullptr) {
      all_["additionalProperties"] = all_of(one_.find("additionalProperties"), others);
    }
    merge_patterns();
    if (const Array* const required = list_in(other_, "required")) {
      Array names;
      if (const Array* const before = list_in(one_, "required")) names = *before;
      for (const Value& name : *required) {
        if (!holds(names, name)) names.push_back(name);
      }
      all_["required"] = std::move(names);
    }
  }
  void merge_patterns() {
    const Value* const its = other_.find("patternProperties");
    if (its == nullptr || its->if_object() == nullptr) return;
    Object members;
    const Value* const ours = one_.find("patternProperties");
    if (ours != nullptr && ours->if_object() != nullptr) members = *ours->if_object();
    for (const json::Member& member : *its->if_object()) {
      members[member.key] = all_of(members.find(member.key), &member.value);
    }
    all_["patternProperties"] = std::move(members);
  }

  Object all_;
  const Object& one_;
  const Object& other_;
  const bool is_tied_;
  Object rest_;  // of the other: keywords that both have and that cannot be joined
};

Value merged(const Value& one, const Value& other) {
  if (one.if_object() == nullptr || other.if_object() == nullptr) return all_of(&one, &other);
  return Merger(*one.if_object(), *other.if_object()).merged();
}

}  // namespace

const Value& WholeSchemas::keep(Value schema) {
  std::string text = json::dumps(schema);
  return made_.try_emplace(std::move(text), std::move(schema)).first->second;
}

const Value& WholeSchemas::of(const Value& schema) {
  const Value* found = &schema;
  for (unsigned depth = 0; depth < kMaxDepth; ++depth) {
    const Object* const members = found->if_object();
    const Array* const parts = list_in(*found, "allOf");
    const Value* target = target_of(*found, *root_);
    if (members == nullptr || (target == nullptr && parts == nullptr)) break;
    Object beside = *members;
    beside.erase(target != nullptr ? "$ref" : "allOf");
    if (target == nullptr && parts->size() == 1) target = &parts->front();
    const bool only_refers = target != nullptr && is_bare(beside);
    if (!only_refers && visits_ < kMaxVisits) {
      const auto [known, is_new] = flat_.try_emplace(json::dumps(*found));
      // flat() does not call of(), so the new entry is not read while it is null.
      if (is_new) known->second = &keep(flat(*found, 0));
      return *known->second;
    }
    if (target == nullptr) break;
    found = target;
  }
  return *found;
}

Value WholeSchemas::flat(const Value& schema, unsigned depth) {
  const Object* const members = schema.if_object();
  if (members == nullptr || depth > kMaxDepth || ++visits_ > kMaxVisits) return schema;
  Object beside = *members;
  for (const char* const key : {"$defs", "definitions", "allOf"}) beside.erase(key);
  Value whole(true);
  if (const Value* const target = target_of(schema, *root_)) {
    beside.erase("$ref");
    whole = flat(*target, depth + 1);
  }
  whole = merged(whole, beside);
  if (const Array* const parts = list_in(schema, "allOf")) {
    for (const Value& part : *parts) whole = merged(whole, flat(part, depth + 1));
  }
  return whole;
}

std::vector<const Value*> WholeSchemas::ways(const Value& schema) {
  const Value& whole = of(schema);
  for (const char* const key : {"anyOf", "oneOf"}) {
    const Array* const list = list_in(whole, key);
    if (list == nullptr) continue;
    Object beside = *whole.if_object();
    beside.erase(key);
    const bool stand_alone = is_bare(beside) || visits_ >= kMaxVisits;
    std::vector<const Value*> parts;
    for (const Value& part : *list) {
      parts.push_back(&keep(stand_alone ? part : merged(beside, flat(part, 0))));
    }
    return parts;
  }
  return {&whole};
}

bool WholeSchemas::says_more_than_type(const Value& schema) {
  unsigned left = kMaxSteps;
  return says_more(schema, left);
}

bool WholeSchemas::says_more(const Value& schema, unsigned& left) {
  const Object* const members = of(schema).if_object();
  if (members == nullptr) return false;
  // Too large to look through: then the careful answer.
  if (left == 0) return true;
  --left;
  return std::ranges::any_of(*members, [&](const json::Member& member) {
    // `format` is an annotation by default, so it requires nothing of a value.
    if (member.key != "anyOf" && member.key != "oneOf") {
      return member.key != "type" && member.key != "format" && !holds(kNotes, member.key);
    }
    const Array parts = as_list(member.value);
    return std::ranges::any_of(parts, [&](const Value& part) { return says_more(part, left); });
  });
}

}  // namespace tenon::format
