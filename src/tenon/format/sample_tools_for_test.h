#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"
#include "tenon/schema/schema.h"

/// The tools that the proof tests call.
namespace tenon::format {

inline constexpr std::string_view kSampleTools = R"([
  {"name": "open", "parameters": {"type": "object", "properties": {}}},
  {"name": "get", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}},
  {"name": "get_all", "parameters": {"type": "object", "additionalProperties": false,
    "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}, "required": ["text"]}},
  {"name": "set.value-2", "parameters": {"type": "object", "additionalProperties": false,
    "properties": {"x": {"type": "number", "minimum": -9, "maximum": 99},
                   "flag": {"type": "boolean"}, "unit": {"enum": ["C", "F", "true", "1"]}},
    "required": ["x", "flag"]}},
  {"name": "list", "parameters": {"type": "object", "additionalProperties": false,
    "$defs": {"item": {"type": "object", "properties": {"id": {"type": "integer"}, "s": {"type": "string"}},
                       "required": ["id"], "additionalProperties": false}},
    "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 3},
                   "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
                   "note": {"type": ["string", "null"]}},
    "required": ["items"]}},
  {"name": "either", "parameters": {"type": "object", "additionalProperties": false,
    "properties": {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                   "d": {"type": "string", "pattern": "^[0-9]{4}-[01][0-9]$"}}}},
  {"name": "map", "parameters": {"type": "object", "additionalProperties": false,
    "properties": {"m": {"type": "object", "additionalProperties": {"enum": [7, true]}, "maxProperties": 2},
                   "p": {"type": "array", "prefixItems": [{"type": "integer"}, {"enum": ["C", "F"]}],
                         "items": false, "minItems": 2}},
    "required": ["m"]}},
  {"name": "marked", "parameters": {"type": "object", "additionalProperties": false,
    "properties": {"e": {"enum": ["a b", "</tool_call>", "<|im_end|>", "<escape>", "</parameter>", "12"]},
                   "o": {"type": "object", "properties": {"a.b-c": {"enum": ["x"]}},
                         "additionalProperties": false}},
    "required": ["e"]}}
])";

struct SampleTools {
  std::vector<message::Tool> list;
  ParseOptions options;
  std::vector<std::shared_ptr<const schema::Schema>> schemas;
};

inline const SampleTools& tools() {
  static const SampleTools kMade = [] {
    SampleTools made;
    const auto parsed = json::parse(kSampleTools);
    for (const json::Value& tool : *parsed->if_array()) {
      const std::string& name = *tool.find("name")->if_string();
      const json::Value& parameters = *tool.find("parameters");
      made.list.push_back({.name = name, .parameters = parameters});
      made.options.tools.push_back(name);
      made.options.schemas.push_back(parameters);
      made.schemas.push_back(*schema::Schema::compile(parameters, {}));
    }
    return made;
  }();
  return kMade;
}

/// Empty if the call is one of tools() with valid arguments; otherwise what is wrong.
inline std::string fault_of_call(const std::string& name, const std::string& arguments) {
  const auto& names = tools().options.tools;
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return "no tool is called " + name;
  const auto value = json::parse(arguments);
  if (!value) return "arguments are no JSON: " + arguments;
  const auto& schema = tools().schemas[static_cast<std::size_t>(found - names.begin())];
  const auto valid = schema->is_valid(*value);
  return valid && *valid ? "" : name + " does not take " + arguments;
}

}  // namespace tenon::format
