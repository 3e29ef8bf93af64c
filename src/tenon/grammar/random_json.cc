#include "tenon/grammar/random_json.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

// Random values and schemas from few names, strings and numbers, so that those of a value often are
// those of the schema. A schema is made by adding one to three groups of keywords (kAdders) at each
// place. Groups that contain schemas are left out at the last level. The definition "t" refers to
// itself only from a member or an item, so no reference is a cycle for one instance. mutated()
// changes a value in one place, which makes a valid value just wrong, or the reverse.

namespace tenon::grammar {

namespace {

// No name ends with a line feed, because Python's '$' would match before it.
constexpr std::string_view kNames[] = {"a", "b", "ab", "key", "x1", "é\n\""};
constexpr std::string_view kStrings[] = {"",   "a", "b",      "ab",        "aab",
                                         "x1", "é", "\\\n\"", "2024-02-29"};
constexpr std::string_view kNumbers[] = {"0", "1", "2", "3", "5", "-1", "1.5", "10", "0.25", "1e2"};
constexpr std::string_view kPatterns[] = {"^a",   "b$",     "^[a-z]+$", "^a*b?$",
                                          "1|^$", "^.{2}$", "[^a]"};
constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};

}  // namespace

std::string RandomJson::name() {
  return std::string(kNames[pick(std::size(kNames))]);
}

json::Value RandomJson::leaf() {
  switch (pick(6)) {
    case 0:
      return nullptr;
    case 1:
      return one_in(2);
    case 2:
    case 3:
      return json::Number{std::string(kNumbers[pick(std::size(kNumbers))])};
    default:
      return kStrings[pick(std::size(kStrings))];
  }
}

json::Value RandomJson::value(int depth) {
  if (depth == 0 || one_in(3)) return leaf();
  if (one_in(2)) {
    json::Array items(pick(4));
    for (json::Value& item : items) item = value(depth - 1);
    return items;
  }
  json::Object members;
  for (std::size_t count = pick(4); count > 0; --count) members[name()] = value(depth - 1);
  return members;
}

json::Value RandomJson::mutated(const json::Value& given) {
  if (const json::Array* items = given.if_array(); items != nullptr && !one_in(4)) {
    json::Array changed = *items;
    if (changed.empty() || one_in(4)) {
      changed.push_back(value(1));
    } else if (one_in(3)) {
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(pick(changed.size())));
    } else {
      json::Value& item = changed[pick(changed.size())];
      item = mutated(item);
    }
    return changed;
  }
  if (const json::Object* members = given.if_object(); members != nullptr && !one_in(4)) {
    json::Object changed = *members;
    if (changed.empty() || one_in(4)) {
      changed[name()] = value(1);
      return changed;
    }
    const std::string key = changed.members()[pick(changed.size())].key;
    if (one_in(3)) {
      changed.erase(key);
    } else {
      changed[key] = mutated(*members->find(key));
    }
    return changed;
  }
  return value(2);
}

// ---- Schemas ------------------------------------------------------------------------------------

json::Value RandomJson::schema() {
  const Place root{.depth = 3};
  json::Value made = node(root);
  if (json::Object* object = made.if_object()) {
    (*object)["$defs"] = json::Object{{"t", node({.depth = 2, .may_refer = false})}};
  }
  return made;
}

json::Value RandomJson::node(Place place) {
  if (one_in(30)) return !one_in(4);
  static constexpr Add kAdders[] = {
      &RandomJson::add_type,
      &RandomJson::add_values,
      &RandomJson::add_string,
      &RandomJson::add_number,
      &RandomJson::add_items,
      &RandomJson::add_counts_of_items,
      &RandomJson::add_contains,
      &RandomJson::add_properties,
      &RandomJson::add_properties,
      &RandomJson::add_patterns,
      &RandomJson::add_counts_of_properties,
      &RandomJson::add_dependents,
      &RandomJson::add_unevaluated,
      &RandomJson::add_combination,
      &RandomJson::add_condition,
      &RandomJson::add_reference,
  };
  constexpr std::size_t kOfLeaves = 4;  // the first ones contain no schemas
  json::Object made;
  const std::size_t count = 1 + pick(3);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t choice = pick(place.depth == 0 ? kOfLeaves : std::size(kAdders));
    (this->*kAdders[choice])(made, place);
  }
  if (!made.contains("type") && one_in(2)) add_type(made, place);
  return made;
}

json::Value RandomJson::inner(Place place) {
  return node({.depth = place.depth - 1, .may_refer = place.may_refer});
}

json::Value RandomJson::below(Place place) {
  return node({.depth = place.depth - 1});
}

json::Array RandomJson::nodes(Place place, bool is_same_instance) {
  json::Array made(1 + pick(3));
  for (json::Value& each : made) each = is_same_instance ? inner(place) : below(place);
  return made;
}

json::Array RandomJson::names() {
  json::Array made;
  for (const std::string_view each : kNames) {
    if (one_in(4)) made.emplace_back(each);
  }
  return made;
}

// Adds a type to which the schema's keywords apply, if there are any.
void RandomJson::add_type(json::Object& schema, Place /*place*/) {
  std::string_view type = kTypes[pick(std::size(kTypes))];
  if (schema.contains("properties") || schema.contains("required")) type = "object";
  if (schema.contains("items") || schema.contains("contains")) type = "array";
  if (schema.contains("minLength") || schema.contains("pattern")) type = "string";
  if (one_in(4)) {
    schema["type"] = type == "null" ? json::Array{"null"} : json::Array{type, "null"};
  } else {
    schema["type"] = type;
  }
}

void RandomJson::add_values(json::Object& schema, Place /*place*/) {
  if (one_in(2)) {
    schema["const"] = value(1);
    return;
  }
  json::Array values;
  for (std::size_t i = 0; i < 4; ++i) {
    json::Value made = value(1);
    bool is_new = true;
    for (const json::Value& other : values) is_new = is_new && !(other == made);
    if (is_new) values.push_back(std::move(made));
  }
  schema["enum"] = std::move(values);
}

void RandomJson::add_string(json::Object& schema, Place /*place*/) {
  if (one_in(2)) schema["pattern"] = kPatterns[pick(std::size(kPatterns))];
  if (one_in(2)) schema["minLength"] = pick(3);
  if (one_in(2)) schema["maxLength"] = 1 + pick(5);
}

void RandomJson::add_number(json::Object& schema, Place /*place*/) {
  constexpr std::string_view kSteps[] = {"2", "3", "0.5", "0.25"};
  if (one_in(2)) schema[one_in(2) ? "minimum" : "exclusiveMinimum"] = pick(4);
  if (one_in(2)) {
    schema[one_in(2) ? "maximum" : "exclusiveMaximum"] = json::Number{one_in(2) ? "4.5" : "9"};
  }
  if (one_in(3)) schema["multipleOf"] = json::Number{std::string(kSteps[pick(std::size(kSteps))])};
}

void RandomJson::add_items(json::Object& schema, Place place) {
  if (one_in(2)) schema["prefixItems"] = nodes(place, false);
  if (!one_in(3)) schema["items"] = one_in(4) ? json::Value(false) : below(place);
}

void RandomJson::add_counts_of_items(json::Object& schema, Place /*place*/) {
  if (one_in(2)) schema["minItems"] = pick(3);
  if (one_in(2)) schema["maxItems"] = 1 + pick(3);
  if (one_in(3)) schema["uniqueItems"] = true;
}

void RandomJson::add_contains(json::Object& schema, Place place) {
  schema["contains"] = below(place);
  if (one_in(3)) schema["minContains"] = pick(3);
  if (one_in(3)) schema["maxContains"] = 1 + pick(2);
}

void RandomJson::add_properties(json::Object& schema, Place place) {
  json::Object properties;
  for (std::size_t i = 1 + pick(3); i > 0; --i) properties[name()] = below(place);
  schema["properties"] = std::move(properties);
  if (one_in(2)) schema["required"] = names();
  if (one_in(3)) schema["additionalProperties"] = one_in(2) ? json::Value(false) : below(place);
}

void RandomJson::add_patterns(json::Object& schema, Place place) {
  if (one_in(3)) {
    schema["propertyNames"] = json::Object{{"pattern", kPatterns[pick(std::size(kPatterns))]}};
    return;
  }
  json::Object properties;
  for (std::size_t i = 1 + pick(2); i > 0; --i) {
    properties[kPatterns[pick(std::size(kPatterns))]] = below(place);
  }
  schema["patternProperties"] = std::move(properties);
}

void RandomJson::add_counts_of_properties(json::Object& schema, Place /*place*/) {
  if (one_in(2)) schema["minProperties"] = pick(3);
  if (one_in(2)) schema["maxProperties"] = 1 + pick(3);
}

void RandomJson::add_dependents(json::Object& schema, Place place) {
  if (one_in(2)) {
    schema["dependentRequired"] = json::Object{{name(), names()}};
  } else {
    schema["dependentSchemas"] = json::Object{{name(), inner(place)}};
  }
}

void RandomJson::add_unevaluated(json::Object& schema, Place place) {
  schema[one_in(3) ? "unevaluatedItems" : "unevaluatedProperties"] =
      one_in(2) ? json::Value(false) : below(place);
}

void RandomJson::add_combination(json::Object& schema, Place place) {
  switch (pick(4)) {
    case 0:
      schema["not"] = inner(place);
      return;
    case 1:
      schema["allOf"] = nodes(place, true);
      return;
    case 2:
      schema["anyOf"] = nodes(place, true);
      return;
    default:
      schema["oneOf"] = nodes(place, true);
  }
}

void RandomJson::add_condition(json::Object& schema, Place place) {
  schema["if"] = inner(place);
  if (!one_in(4)) schema["then"] = inner(place);
  if (!one_in(4)) schema["else"] = inner(place);
}

void RandomJson::add_reference(json::Object& schema, Place place) {
  if (place.may_refer) schema["$ref"] = "#/$defs/t";
}

void note_verdict(const json::Value& schema, std::string_view text, bool is_valid) {
  static std::ofstream lines = [] {
    const char* const file = std::getenv("TENON_PROOF_TEXTS");
    return file == nullptr ? std::ofstream() : std::ofstream(file);
  }();
  if (!lines.is_open()) return;
  lines << json::to_string(json::Object{{"schema", schema}, {"text", text}, {"valid", is_valid}})
        << '\n';
}

}  // namespace tenon::grammar
