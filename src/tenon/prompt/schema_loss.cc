#include "tenon/prompt/schema_loss.h"

#include <algorithm>
#include <string_view>
#include <utility>

// Some templates do not print the schemas of tools as JSON, but walk over them and write what they
// know: names, types, descriptions, perhaps enums. What they do not know is lost without an error.
// A Part is one thing that a schema can say. A probe is a schema that says one of them with a word
// that stands nowhere else; probed_parameters() puts all probes into one tool, and a word that does
// not come out means that its part is lost at that place. The losses are bits, so that a request's
// schemas are compared with them quickly (parts_of, loses).
namespace tenon::prompt {
namespace {

enum Part : std::uint8_t {
  part_name,
  part_description,
  part_enum_of_text,
  part_enum_of_numbers,
  part_enum_untyped,
  part_constant,
  part_any_of,
  part_one_of,
  part_all_of,
  part_reference,
  part_bare_object,  // without properties
  part_bare_list,    // without items
  part_minimum,
  part_maximum,
  part_exclusive_minimum,
  part_exclusive_maximum,
  part_multiple,
  part_min_length,
  part_max_length,
  part_pattern,
  part_format,
  part_min_items,
  part_max_items,
  part_other_members,  // additionalProperties with a schema
  part_members_by_pattern,
  part_tuple,  // prefixItems
  part_default,
  part_examples,
  part_not,
  part_condition,
};
// Bits of a 32-bit number, in the order of Part.
constexpr std::size_t kParts = 30;
static_assert(kParts <= 32);

// The parts that are one keyword whose value is a number or a word.
struct Constraint {
  Part part;
  std::string_view key;   // in JSON Schema
  std::string_view type;  // that a schema with it has
};
constexpr Constraint kConstraints[] = {{part_minimum, "minimum", "integer"},
                                       {part_maximum, "maximum", "integer"},
                                       {part_exclusive_minimum, "exclusiveMinimum", "integer"},
                                       {part_exclusive_maximum, "exclusiveMaximum", "integer"},
                                       {part_multiple, "multipleOf", "integer"},
                                       {part_min_length, "minLength", "string"},
                                       {part_max_length, "maxLength", "string"},
                                       {part_pattern, "pattern", "string"},
                                       {part_format, "format", "string"},
                                       {part_min_items, "minItems", "array"},
                                       {part_max_items, "maxItems", "array"}};

const Constraint* constraint_of(Part part) {
  const auto* found = std::ranges::find(kConstraints, part, &Constraint::part);
  return found == std::end(kConstraints) ? nullptr : found;
}

// Whether the probe's word must be digits, since the keyword takes a number.
bool is_number(Part part) {
  const Constraint* constraint = constraint_of(part);
  return part == part_enum_of_numbers ||
         (constraint != nullptr && part != part_pattern && part != part_format);
}

// Keywords of JSON Schema that some templates look for among the names of properties.
constexpr std::string_view kNames[] = {
    "description", "type",  "properties", "required", "nullable", "enum",   "items",
    "title",       "name",  "default",    "format",   "const",    "anyOf",  "oneOf",
    "allOf",       "$defs", "parameters", "function", "minimum",  "maximum"};
static_assert(std::size(kNames) <= 32);

constexpr SchemaPlace kPlaces[] = {SchemaPlace::parameter, SchemaPlace::property, SchemaPlace::item,
                                   SchemaPlace::item_property};

std::uint32_t bit_of(Part part) {
  return 1U << part;
}

std::size_t at(SchemaPlace place) {
  return static_cast<std::size_t>(place);
}

// Two branches, of which the first has the word.
json::Value branches(const std::string& word) {
  return json::Array{json::Object{{"type", "string"}, {"enum", json::Array{word}}},
                     json::Object{{"type", "integer"}}};
}

// A schema with `word` in this part. The schema's description is a part by itself.
json::Value schema_with(Part part, const std::string& word) {
  json::Object schema{{"type", "string"}, {"description", "what"}};
  switch (part) {
    case part_name:
      break;
    case part_description:
      schema.set("description", word);
      break;
    case part_enum_of_text:
      schema.set("enum", json::Array{word});
      break;
    case part_enum_of_numbers:
      schema.set("type", "integer");
      schema.set("enum", json::Array{*json::parse(word)});
      break;
    case part_enum_untyped:
      schema.erase("type");
      schema.set("enum", json::Array{word});
      break;
    case part_constant:
      schema.erase("type");
      schema.set("const", word);
      break;
    case part_any_of:
    case part_one_of:
    case part_all_of:
      schema.erase("type");
      schema.set(part == part_any_of   ? "anyOf"
                 : part == part_one_of ? "oneOf"
                                       : "allOf",
                 branches(word));
      break;
    case part_reference:
      schema.erase("type");
      schema.set("$ref", "#/$defs/the" + word);
      break;
    case part_other_members:
    case part_members_by_pattern: {
      json::Object inner{{"type", "object"},
                         {"properties", json::Object{{word, json::Object{{"type", "string"}}}}}};
      schema.set("type", "object");
      schema.set("properties", json::Object{{"known", json::Object{{"type", "string"}}}});
      if (part == part_other_members) {
        schema.set("additionalProperties", std::move(inner));
      } else {
        schema.set("patternProperties", json::Object{{"^x", std::move(inner)}});
      }
      break;
    }
    case part_tuple:
      schema.set("type", "array");
      schema.set("items", json::Object{{"type", "string"}});
      schema.set("prefixItems",
                 json::Array{json::Object{{"type", "string"}, {"enum", json::Array{word}}}});
      break;
    case part_default:
      schema.set("default", word);
      break;
    case part_examples:
      schema.set("examples", json::Array{word});
      break;
    case part_not:
      schema.set("not", json::Object{{"enum", json::Array{word}}});
      break;
    case part_condition:
      schema.set("if", json::Object{{"const", word}});
      schema.set("then", json::Object{{"minLength", 1}});
      break;
    case part_bare_object:
    case part_bare_list:
      schema.set("type", part == part_bare_object ? "object" : "array");
      schema.set("description", word);
      break;
    // The keywords of kConstraints.
    default: {
      const Constraint& constraint = *constraint_of(part);
      schema.set("type", constraint.type);
      if (constraint.type == "array") {
        schema.set("items", json::Object{{"type", "string"}});
      }
      schema.set(std::string(constraint.key),
                 is_number(part) ? *json::parse(word) : json::Value(word));
      break;
    }
  }
  return schema;
}

// The part that `schema`'s enum counts as.
Part enum_part(const json::Object& schema) {
  const json::Value* type = schema.find("type");
  if (type == nullptr) return part_enum_untyped;
  return *type == json::Value("string") ? part_enum_of_text : part_enum_of_numbers;
}

// The parts that `schema` has, without those of schemas inside it, as bits.
std::uint32_t parts_of(const json::Object& schema) {
  std::uint32_t parts = bit_of(part_name);
  const auto add = [&](std::string_view key, Part part) {
    if (schema.contains(key)) parts |= bit_of(part);
  };
  const json::Value* description = schema.find("description");
  if (description != nullptr && *description != json::Value("")) parts |= bit_of(part_description);
  if (schema.contains("enum")) parts |= bit_of(enum_part(schema));
  add("const", part_constant);
  add("anyOf", part_any_of);
  add("oneOf", part_one_of);
  add("allOf", part_all_of);
  add("$ref", part_reference);
  add("patternProperties", part_members_by_pattern);
  add("prefixItems", part_tuple);
  add("default", part_default);
  add("examples", part_examples);
  add("not", part_not);
  add("if", part_condition);
  const json::Value* others = schema.find("additionalProperties");
  if (others != nullptr && others->if_object() != nullptr && !others->if_object()->empty()) {
    parts |= bit_of(part_other_members);
  }
  for (const Constraint& constraint : kConstraints) add(constraint.key, constraint.part);
  const json::Value* type = schema.find("type");
  if (type != nullptr && *type == json::Value("object") && !schema.contains("properties")) {
    parts |= bit_of(part_bare_object);
  }
  if (type != nullptr && *type == json::Value("array") && !schema.contains("items")) {
    parts |= bit_of(part_bare_list);
  }
  return parts;
}

// 0 for ordinary names.
std::uint32_t name_bit(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  return found == std::end(kNames) ? 0 : 1U << static_cast<unsigned>(found - std::begin(kNames));
}

using Lost = bool (*)(const SchemaLosses&, SchemaPlace, std::string_view, const json::Object&);

// Whether `lost` is true for `schema` or for a schema inside it.
bool holds(const SchemaLosses& losses, SchemaPlace place, std::string_view name,
           const json::Value& value, Lost lost) {
  const json::Object* schema = value.if_object();
  if (schema == nullptr) return false;
  if (lost(losses, place, name, *schema)) return true;
  // A schema deeper than these places counts as the place that contains it.
  const bool is_in_list = place == SchemaPlace::item || place == SchemaPlace::item_property;
  const SchemaPlace inside = is_in_list ? SchemaPlace::item_property : SchemaPlace::property;
  const json::Value* properties = schema->find("properties");
  if (properties != nullptr && properties->if_object() != nullptr) {
    for (const json::Member& member : *properties->if_object()) {
      if (holds(losses, inside, member.key, member.value, lost)) return true;
    }
  }
  const json::Value* items = schema->find("items");
  return items != nullptr && holds(losses, SchemaPlace::item, {}, *items, lost);
}

}  // namespace

// One probe for each part of a schema at each place where a template may print it. The word of a
// probe occurs nowhere else, so its absence in the rendered prompt means that the template drops
// this part there.
std::vector<SchemaProbe> schema_probes() {
  std::vector<SchemaProbe> probes;
  const auto word = [&](std::string_view before) {
    return std::string(before) + std::to_string(1000 + probes.size());
  };
  for (const SchemaPlace place : kPlaces) {
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto part = static_cast<Part>(i);
      if (part == part_name && place == SchemaPlace::item) continue;  // an item has no name
      SchemaProbe probe{.place = place, .bit = bit_of(part)};
      // Digits with a beginning of their own: numbers must not occur in the template by chance
      // either.
      probe.word = is_number(part) ? word("7654") : word("probepart");
      probe.name = part == part_name ? probe.word : word("probeproperty");
      probe.schema = schema_with(part, probe.word);
      // The word of a reference is in the definition that it names: "#/$defs/theprobepart1003"
      // leads to "ofprobepart1003".
      if (part == part_reference) probe.word.insert(0, "of");
      probes.push_back(std::move(probe));
    }
    if (place == SchemaPlace::item) continue;
    for (const std::string_view name : kNames) {
      SchemaProbe probe{.place = place, .is_name = true, .bit = name_bit(name)};
      // The description shows whether the parameter is written; its name is an ordinary word.
      probe.word = word("probenamed");
      probe.name = name;
      probe.schema = json::Object{{"type", "string"}, {"description", probe.word}};
      probes.push_back(std::move(probe));
    }
  }
  return probes;
}

// All probes as the parameters of one tool, so that one rendering answers them all.
json::Value probed_parameters(std::span<const SchemaProbe> probes) {
  json::Object properties;
  json::Object nested;
  json::Object item_properties;
  json::Object definitions;
  for (const SchemaProbe& probe : probes) {
    if (probe.schema.find("$ref") != nullptr) {
      // The definition that it refers to must be there, too.
      definitions.set("the" + probe.word.substr(2),
                      json::Object{{"type", "string"}, {"enum", json::Array{probe.word}}});
    }
    switch (probe.place) {
      case SchemaPlace::parameter:
        properties.set(probe.name, probe.schema);
        break;
      case SchemaPlace::property:
        nested.set(probe.name, probe.schema);
        break;
      case SchemaPlace::item:
        properties.set(
            probe.name,
            json::Object{{"type", "array"}, {"description", "what"}, {"items", probe.schema}});
        break;
      case SchemaPlace::item_property:
        item_properties.set(probe.name, probe.schema);
        break;
    }
  }
  if (!nested.empty()) {
    properties.set("probeobject", json::Object{{"type", "object"},
                                               {"description", "what"},
                                               {"properties", std::move(nested)}});
  }
  if (!item_properties.empty()) {
    properties.set(
        "probelist",
        json::Object{{"type", "array"},
                     {"description", "what"},
                     {"items", json::Object{{"type", "object"},
                                            {"properties", std::move(item_properties)}}}});
  }
  json::Object parameters{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", json::Array{}}};
  if (!definitions.empty()) parameters.set("$defs", std::move(definitions));
  return parameters;
}

bool loses(const SchemaLosses& losses, SchemaPlace place, std::string_view name,
           const json::Value& schema) {
  return holds(losses, place, name, schema,
               [](const SchemaLosses& all, SchemaPlace there, std::string_view called,
                  const json::Object& object) {
                 const bool has_name = (all.names[at(there)] & name_bit(called)) != 0;
                 return has_name || (all.parts[at(there)] & parts_of(object)) != 0;
               });
}

bool fails_at(const SchemaLosses& losses, SchemaPlace place, const json::Value& schema) {
  return holds(
      losses, place, {}, schema,
      [](const SchemaLosses& all, SchemaPlace there, std::string_view, const json::Object& object) {
        return (all.failing[at(there)] & parts_of(object)) != 0;
      });
}

bool hides_description(const SchemaLosses& losses, std::string_view name) {
  const std::size_t parameter = at(SchemaPlace::parameter);
  constexpr unsigned kShown = 1U << part_name | 1U << part_description;
  return (losses.parts[parameter] & kShown) != 0 || (losses.names[parameter] & name_bit(name)) != 0;
}

}  // namespace tenon::prompt
