#include "tenon/format/calls_as_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tenon/format/definition.h"

namespace tenon::format {
namespace {

using json::Value;

// The text that is written, if it is always the same.
bool append_text(std::span<const Piece> pieces, std::string& text) {
  for (const Piece& piece : pieces) {
    const bool is_text = piece.kind == Piece::Kind::literal || piece.kind == Piece::Kind::space;
    if (!is_text) return false;
    text += piece.text;
  }
  return true;
}

// Whether the schema has a reference to another part of the tool's schema.
bool has_reference(const Value& schema) {
  if (const json::Array* items = schema.if_array())
    return std::ranges::any_of(*items, has_reference);
  const json::Object* members = schema.if_object();
  return members != nullptr && std::ranges::any_of(*members, [](const json::Member& member) {
           return member.key.starts_with('$') || has_reference(member.value);
         });
}

// `strict: false` allows any object; a tool without parameters takes no arguments.
Value arguments_of(const message::Tool& tool) {
  if (tool.strict == false) return json::Object{{"type", "object"}};
  if (!tool.parameters.is_null()) return tool.parameters;
  return json::Object{
      {"type", "object"}, {"properties", json::Object{}}, {"additionalProperties", false}};
}

// An object schema with exactly these members, all required.
Value object_of(std::initializer_list<json::Member> members) {
  json::Object properties;
  json::Array required;
  for (const json::Member& member : members) {
    properties.set(member.key, member.value);
    required.emplace_back(member.key);
  }
  return json::Object{{"type", "object"},
                      {"properties", std::move(properties)},
                      {"required", std::move(required)},
                      {"additionalProperties", false}};
}

Value call_of(const message::Tool& tool, const ObjectKeys& keys) {
  if (keys.name_is_key) return object_of({{tool.name, arguments_of(tool)}});
  return object_of({{keys.name.front(), json::Object{{"const", tool.name}}},
                    {keys.arguments.front(), arguments_of(tool)}});
}

}  // namespace

std::optional<CallsAsJson> calls_as_json(const Format& format,
                                         std::span<const message::Tool* const> tools,
                                         bool parallel) {
  if (format.syntaxes.empty() || tools.empty()) return std::nullopt;
  const Syntax& syntax = format.syntaxes.front();
  const auto object = std::ranges::find(syntax.call, Piece::Kind::object, &Piece::kind);
  if (object == syntax.call.end() || syntax.object.writes_id) return std::nullopt;
  CallsAsJson calls;
  const bool is_text = append_text(syntax.open, calls.before) &&
                       append_text({syntax.call.begin(), object}, calls.before) &&
                       append_text({object + 1, syntax.call.end()}, calls.behind) &&
                       append_text(syntax.close, calls.behind);
  if (!is_text) return std::nullopt;
  json::Array ways;
  for (const message::Tool* tool : tools) {
    // A reference would lead to another place once the schema is part of a larger one.
    if (tool->grammar || has_reference(tool->parameters)) return std::nullopt;
    ways.push_back(call_of(*tool, syntax.object));
  }
  calls.schema =
      ways.size() == 1 ? std::move(ways.front()) : json::Object{{"anyOf", std::move(ways)}};
  // The brackets of a list are part of the JSON.
  if (calls.before.ends_with('[') && calls.behind.starts_with(']')) {
    calls.before.pop_back();
    calls.behind.erase(0, 1);
    json::Object list{{"type", "array"}, {"items", std::move(calls.schema)}, {"minItems", 1}};
    if (!parallel) list.set("maxItems", 1);
    calls.schema = std::move(list);
  }
  return calls;
}

}  // namespace tenon::format
