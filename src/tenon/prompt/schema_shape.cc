#include "tenon/prompt/schema_shape.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/json/members.h"
#include "tenon/json/pointer.h"
#include "tenon/schema/uri.h"

// What a template cannot express of a tool's schema becomes text in a description: "(JSON Schema:
// {...})". shape_tool() first gives the tool the members that the template needs, then simplifies
// each property (types in lists, no type, objects inside), and at last writes down what the
// template would leave out (write_losses). The schema that answers are checked against is another
// copy and does not change.
namespace tenon::prompt {
namespace {

// Whether the schema has properties, itself or in the items of lists.
bool has_inside(const json::Object& schema) {
  if (schema.contains("properties")) return true;
  const json::Value* items = schema.find("items");
  return items != nullptr && items->if_object() != nullptr && has_inside(*items->if_object());
}

// `description`, followed by a schema.
std::string with_schema(std::string description, const json::Value& schema) {
  const std::string text = json::dumps(schema, {.ensure_ascii = false, .keep_numbers = true});
  if (description.empty()) return "JSON Schema: " + text;
  return std::move(description) + " (JSON Schema: " + text + ")";
}

// Writes one type instead of a list of types, which stands in the description then.
bool choose_type(json::Object& schema) {
  json::Value* type = schema.find("type");
  if (type == nullptr || type->if_array() == nullptr) return false;
  // The first type that is not null: ["string", "null"] becomes "string".
  json::Value chosen = "string";
  for (const json::Value& name : *type->if_array()) {
    if (name == json::Value("null")) continue;
    chosen = name;
    break;
  }
  const json::Value list = std::exchange(*type, std::move(chosen));
  if (list.if_array()->size() > 1) {
    schema.set("description",
               with_schema(json::text_in(schema, "description"), json::Object{{"type", list}}));
  }
  return true;
}

// The type of a schema that has no `type`, as its other keywords say.
json::Value type_of(const json::Object& schema) {
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const json::Value* branches = schema.find(key);
    if (branches == nullptr || branches->if_array() == nullptr) continue;
    for (const json::Value& branch : *branches->if_array()) {
      const json::Value* type = branch.find("type");
      if (type != nullptr && *type != json::Value("null")) return *type;
    }
  }
  if (schema.contains("$ref") || schema.contains("properties")) return "object";
  return "string";
}

bool simplify(json::Value& schema, const Capabilities& capabilities);

// Shapes the schema of one property. What the template cannot express goes into the property's
// description, so nothing is lost.
bool simplify_property(json::Value& property, const Capabilities& capabilities) {
  json::Object* object = property.if_object();
  bool changed = object == nullptr;
  if (object == nullptr) {
    // `true` and `false` are schemas, too; a template that reads members of them fails.
    const bool takes_any =
        capabilities.bare_properties && capabilities.untyped && !capabilities.losses.any();
    if (property.if_bool() == nullptr || takes_any) return false;
    property = json::Object{};
    object = property.if_object();
  }
  if (!capabilities.bare_properties && !object->contains("description")) {
    object->set("description", "");
    changed = true;
  }
  if (!capabilities.type_lists) changed |= choose_type(*object);
  if (!capabilities.untyped && !object->contains("type")) {
    json::Value type = type_of(*object);
    if (type.if_string() == nullptr) type = "string";
    describe(*object, SchemaForm::described_untyped);
    object->set("type", std::move(type));
    return true;
  }
  if (capabilities.nested != SchemaForm::whole && has_inside(*object)) {
    describe(*object, capabilities.nested);
    return true;
  }
  return simplify(property, capabilities) || changed;
}

bool simplify(json::Value& schema, const Capabilities& capabilities) {
  json::Object* object = schema.if_object();
  if (object == nullptr) return false;
  bool changed = false;
  if (json::Value* properties = object->find("properties");
      properties != nullptr && properties->if_object() != nullptr) {
    std::vector<json::Member> members = properties->if_object()->members();
    for (json::Member& member : members) changed |= simplify_property(member.value, capabilities);
    if (changed) *properties = json::Object(std::move(members));
  }
  if (json::Value* items = object->find("items")) {
    changed |= simplify_property(*items, capabilities);
  }
  return changed;
}

// Some clients write null for a member that is not there.
bool drop_nulls(json::Value* object) {
  if (object == nullptr || object->if_object() == nullptr) return false;
  bool changed = false;
  for (const std::string_view key : {"description", "properties", "required"}) {
    const json::Value* member = object->find(key);
    if (member != nullptr && member->is_null()) changed |= object->if_object()->erase(key);
  }
  return changed;
}

// Members that some templates read without asking whether they are there.
bool fill_in(json::Object& function) {
  bool changed = false;
  if (!function.contains("description")) {
    function.set("description", "");
    changed = true;
  }
  const json::Value* parameters = function.find("parameters");
  if (parameters == nullptr || parameters->if_object() == nullptr) {
    function.set("parameters", json::Object{{"type", "object"}, {"properties", json::Object{}}});
    changed = true;
  } else if (!parameters->if_object()->contains("properties")) {
    function.find("parameters")->if_object()->set("properties", json::Object{});
    changed = true;
  }
  return changed;
}

// Calls `found(name)` for each reference in `schema` that begins with `before`.
template <class Found>
void each_reference(const json::Value& schema, std::string_view before, const Found& found) {
  if (const json::Array* items = schema.if_array()) {
    for (const json::Value& item : *items) each_reference(item, before, found);
  }
  const json::Object* object = schema.if_object();
  if (object == nullptr) return;
  for (const json::Member& member : *object) {
    each_reference(member.value, before, found);
    // "#/$defs/a%20b/properties/x" is a reference to the definition "a b".
    const std::string* written = member.value.if_string();
    if (member.key != "$ref" || written == nullptr) continue;
    const auto reference = schema::percent_decoded(*written);
    if (!reference || !reference->starts_with(before)) continue;
    const std::string_view name = std::string_view(*reference).substr(before.size());
    found(json::pointer_key(name.substr(0, name.find('/'))));
  }
}

// The definitions that `schema` needs, out of `all`, which stand under `key`.
json::Object used_definitions(const json::Value& schema, const std::string& key,
                              const json::Object& all) {
  json::Object used;
  std::vector<const json::Value*> open{&schema};  // whose references have not been followed
  // Each definition is followed once, so references in circles come to an end.
  while (!open.empty()) {
    const json::Value* next = open.back();
    open.pop_back();
    each_reference(*next, "#/" + key + "/", [&](const std::string& name) {
      const json::Value* definition = all.find(name);
      if (definition == nullptr || used.contains(name)) return;
      used.set(name, *definition);
      open.push_back(definition);
    });
  }
  return used;
}

// How many bytes of definitions may be repeated in one tool. Each property has the definitions that
// it needs, and a request may have thousands of properties. Beyond this limit all definitions stand
// once, in the tool's description.
constexpr std::size_t kMaxRepeated = std::size_t{128} << 10U;

// A schema with the definitions that it needs, so that it can stand alone, as long as `left` has
// room for them.
json::Value standing_alone(json::Object schema, const json::Object& parameters, std::size_t& left) {
  json::Value whole = std::move(schema);
  if (left == 0) return whole;
  for (const std::string key : {"$defs", "definitions"}) {
    const json::Value* definitions = parameters.find(key);
    if (definitions == nullptr || definitions->if_object() == nullptr) continue;
    json::Object used = used_definitions(whole, key, *definitions->if_object());
    if (!used.empty()) left -= std::min(left, json::to_string(json::Value(used)).size());
    if (!used.empty() && whole.find(key) == nullptr) whole.if_object()->set(key, std::move(used));
  }
  return whole;
}

// Puts what the template leaves out of `parameters` (as they were sent) into the descriptions of
// `properties` (as they are now), or into the tool's description if the template does not write
// those. True if something was left out.
bool write_losses(json::Object& function, json::Object& properties, const json::Object& parameters,
                  const SchemaLosses& losses) {
  const json::Value* sent = parameters.find("properties");
  if (sent == nullptr || sent->if_object() == nullptr) return false;
  bool changed = false;
  json::Object left_out;
  std::size_t room = kMaxRepeated;
  for (const json::Member& member : *sent->if_object()) {
    json::Value* property = properties.find(member.key);
    const json::Object* given = member.value.if_object();
    if (property == nullptr || property->if_object() == nullptr || given == nullptr) continue;
    const bool is_refused = fails_at(losses, SchemaPlace::parameter, *property);
    if (!is_refused && !loses(losses, SchemaPlace::parameter, member.key, *property)) continue;
    changed = true;
    json::Object schema = *given;
    const std::string description = json::text_in(schema, "description");
    if (hides_description(losses, member.key)) {
      // The parameter's own description would not come out either.
      left_out.set(member.key, schema);
    }
    schema.erase("description");
    // Only what every template takes is left; if even the type fails, it becomes "string".
    if (is_refused) {
      json::Value type = given->contains("type") ? *given->find("type") : type_of(*given);
      if (type.if_string() == nullptr) type = "string";
      *property = json::Object{{"type", std::move(type)}, {"description", ""}};
      if (fails_at(losses, SchemaPlace::parameter, *property)) {
        property->if_object()->set("type", "string");
      }
    }
    if (hides_description(losses, member.key)) continue;
    property->if_object()->set(
        "description",
        with_schema(description, standing_alone(std::move(schema), parameters, room)));
  }
  if (!left_out.empty() || room == 0) {
    json::Object schema;
    if (!left_out.empty()) schema.set("properties", std::move(left_out));
    for (const std::string key : {"$defs", "definitions"}) {
      const json::Value* all = room == 0 ? parameters.find(key) : nullptr;
      if (all != nullptr) schema.set(key, *all);
    }
    function.set("description", with_schema(json::text_in(function, "description"),
                                            standing_alone(std::move(schema), parameters, room)));
  }
  return changed;
}

}  // namespace

void describe(json::Object& property, SchemaForm form) {
  if (form == SchemaForm::whole) return;
  std::string description;
  if (const json::Value* given = property.find("description");
      given != nullptr && given->if_string() != nullptr) {
    description = *given->if_string();
  }
  property.erase("description");
  if (!property.empty()) {
    description += (description.empty() ? "JSON Schema: " : " (JSON Schema: ") +
                   json::dumps(property, {.ensure_ascii = false, .keep_numbers = true}) +
                   (description.empty() ? "" : ")");
  }
  // The type and the type of items stay, if the form has them, so that the template writes
  // something.
  json::Object described;
  if (const json::Value* type = property.find("type")) described.set("type", *type);
  if (const json::Value* items = property.find("items")) {
    const json::Value* type = items->find("type");
    described.set("items", json::Object{{"type", type == nullptr ? json::Value("object") : *type}});
  }
  if (form == SchemaForm::described_untyped) described.erase("type");
  if (form == SchemaForm::described_text) described = {{"type", "string"}};
  described.set("description", std::move(description));
  property = std::move(described);
}

bool shape_tool(json::Value& tool, const Capabilities& capabilities) {
  bool changed = false;
  // A bare function, {"name": ...}, is wrapped as clients of Chat Completions send it.
  if (tool.find("function") == nullptr && tool.find("name") != nullptr) {
    json::Object wrapped{{"type", "function"}};
    wrapped.set("function", std::move(tool));
    tool = std::move(wrapped);
    changed = true;
  }
  json::Value* function = tool.find("function");
  if (function == nullptr || function->if_object() == nullptr) return changed;
  changed |= drop_nulls(function);
  changed |= drop_nulls(function->find("parameters"));
  if (!capabilities.bare_tools) changed |= fill_in(*function->if_object());
  json::Value* parameters = function->find("parameters");
  if (parameters == nullptr || parameters->if_object() == nullptr) return changed;
  if (!capabilities.losses.any()) return simplify(*parameters, capabilities) || changed;
  // Losses are written as they were sent, not as simplified.
  const json::Value sent = *parameters;
  changed |= simplify(*parameters, capabilities);
  json::Value* properties = parameters->find("properties");
  if (properties == nullptr || properties->if_object() == nullptr) return changed;
  json::Object written = *properties->if_object();
  if (!write_losses(*function->if_object(), written, *sent.if_object(), capabilities.losses)) {
    return changed;
  }
  parameters = function->find("parameters");  // a new description may have moved it
  *parameters->find("properties") = std::move(written);
  return true;
}

}  // namespace tenon::prompt
