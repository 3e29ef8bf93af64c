#include "tenon/api/client_tools.h"

#include <algorithm>
#include <span>
#include <utility>

// Tools that have a type and no schema in the request, because clients know them: a shell, an
// editor, a patch. The tables give them the name, the description and the schema that a model
// needs; the functions below turn calls of them into the items that the client expects, and back.

namespace tenon::api {
namespace {

using json::Value;

// Types are prefixes, behind which a date stands: "bash_20250124". One schema covers all versions
// of a tool, so "undo_edit" is among the commands although later versions have it no more.
constexpr ClientTool kOfMessages[] = {
    {"bash_", "bash", "Runs a command in a shell that stays open between calls, or restarts it",
     R"({"type": "object", "properties": {
         "command": {"type": "string", "description": "The command"},
         "restart": {"type": "boolean", "description": "true: begins a new shell instead"}},
         "anyOf": [{"required": ["command"]}, {"required": ["restart"]}],
         "additionalProperties": false})"},
    {"text_editor_", "str_replace_based_edit_tool", "Looks at files, creates them and edits them",
     R"({"type": "object", "properties": {
         "command": {"type": "string",
                     "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
         "path": {"type": "string", "description": "Absolute path of a file or a folder"},
         "file_text": {"type": "string", "description": "create: what the file holds"},
         "old_str": {"type": "string", "description": "str_replace: text that is there once"},
         "new_str": {"type": "string", "description": "str_replace: what it becomes"},
         "insert_line": {"type": "integer", "minimum": 0,
                         "description": "insert: the line behind which the text comes"},
         "insert_text": {"type": "string", "description": "insert: the text"},
         "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2,
                        "maxItems": 2, "description": "view: first and last line, -1: the end"}},
         "required": ["command", "path"], "additionalProperties": false})"},
    {"memory_", "memory", "Keeps notes in files below /memories, which last between conversations",
     R"({"type": "object", "properties": {
         "command": {"type": "string",
                     "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
         "path": {"type": "string", "description": "Path below /memories"},
         "file_text": {"type": "string", "description": "create: what the file holds"},
         "old_str": {"type": "string", "description": "str_replace: text that is there once"},
         "new_str": {"type": "string", "description": "str_replace: what it becomes"},
         "insert_line": {"type": "integer", "minimum": 0,
                         "description": "insert: the line behind which the text comes"},
         "insert_text": {"type": "string", "description": "insert: the text"},
         "old_path": {"type": "string", "description": "rename: from"},
         "new_path": {"type": "string", "description": "rename: to"},
         "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2,
                        "maxItems": 2, "description": "view: first and last line, -1: the end"}},
         "required": ["command"], "additionalProperties": false})"},
    {"computer_", "computer", "Uses the screen, the mouse and the keyboard of a computer",
     R"({"type": "object", "properties": {
         "action": {"type": "string",
                    "enum": ["screenshot", "left_click", "right_click", "middle_click",
                             "double_click", "triple_click", "left_click_drag", "left_mouse_down",
                             "left_mouse_up", "mouse_move", "cursor_position", "key", "hold_key",
                             "type", "scroll", "wait", "zoom"]},
         "coordinate": {"type": "array", "items": {"type": "integer"}, "minItems": 2,
                        "maxItems": 2, "description": "x and y in pixels"},
         "start_coordinate": {"type": "array", "items": {"type": "integer"}, "minItems": 2,
                              "maxItems": 2},
         "region": {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4},
         "text": {"type": "string", "description": "What is typed, or the keys"},
         "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
         "scroll_amount": {"type": "integer", "minimum": 0},
         "duration": {"type": "number", "minimum": 0, "description": "Seconds"}},
         "required": ["action"], "additionalProperties": false})"},
};

// The last two columns are the type of a call's item, and its member that has the arguments:
// `{"type": "shell_call", "action": {"commands": [...]}}`.
constexpr ClientTool kOfResponses[] = {
    {"local_shell", "local_shell", "Runs a program on the user's machine and answers its output",
     R"({"type": "object", "properties": {
         "command": {"type": "array", "items": {"type": "string"}, "minItems": 1,
                     "description": "The program and its arguments"},
         "working_directory": {"type": "string"},
         "timeout_ms": {"type": "integer", "minimum": 1}},
         "required": ["command"], "additionalProperties": false})",
     "local_shell_call", "action"},
    {"shell", "shell", "Runs commands in a shell on the user's machine and answers their output",
     R"({"type": "object", "properties": {
         "commands": {"type": "array", "items": {"type": "string"}, "minItems": 1},
         "timeout_ms": {"type": "integer", "minimum": 1},
         "max_output_length": {"type": "integer", "minimum": 1}},
         "required": ["commands"], "additionalProperties": false})",
     "shell_call", "action"},
    {"apply_patch", "apply_patch", "Creates, changes or deletes one file on the user's machine",
     R"({"type": "object", "properties": {
         "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
         "path": {"type": "string", "description": "Path of the file"},
         "diff": {"type": "string", "description": "What changes, as a V4A diff"}},
         "required": ["type", "path"], "additionalProperties": false})",
     "apply_patch_call", "operation"},
};

constexpr std::string_view kResult = "_output";

// The action of this tool has a `type` besides the arguments.
constexpr std::string_view kLocalShell = "local_shell";

const ClientTool* found(std::span<const ClientTool> tools, const auto& fits) {
  const auto tool = std::ranges::find_if(tools, fits);
  return tool == tools.end() ? nullptr : &*tool;
}

}  // namespace

// "bash_20250124" is "bash_" and digits; "bash_code_execution_20250522" is not.
const ClientTool* client_tool_of_messages(std::string_view type) {
  return found(kOfMessages, [&](const ClientTool& tool) {
    const bool begins = type.starts_with(tool.type) && type.size() > tool.type.size();
    return begins && type.find_first_not_of("0123456789", tool.type.size()) == type.npos;
  });
}

const ClientTool* client_tool_of_responses(std::string_view type) {
  return found(kOfResponses, [&](const ClientTool& tool) { return tool.type == type; });
}

const ClientTool* client_tool_of_call(std::string_view type) {
  return found(kOfResponses, [&](const ClientTool& tool) { return tool.call_type == type; });
}

const ClientTool* client_tool_of_result(std::string_view type) {
  if (!type.ends_with(kResult)) return nullptr;
  type.remove_suffix(kResult.size());
  return client_tool_of_call(type);
}

message::Tool function_of(const ClientTool& tool, std::string name) {
  auto schema = json::parse(tool.schema);
  message::Tool out;
  out.name = std::move(name);
  out.description = tool.description;
  out.parameters = schema ? *std::move(schema) : Value();
  json::Object function{{"name", out.name}, {"description", out.description}};
  function.set("parameters", out.parameters);
  out.raw = json::Object{{"type", "function"}, {"function", std::move(function)}};
  return out;
}

// The member of a call's item, from the model's arguments. The SDK's type of a local shell's action
// requires `type`, `command` and `env`, whatever the model wrote.
Value item_member(const ClientTool& tool, json::Object arguments) {
  if (tool.type != kLocalShell) return arguments;
  json::Object action{{"type", "exec"}};
  for (const json::Member& member : arguments.members()) action.set(member.key, member.value);
  if (!action.contains("command")) action.set("command", json::Array());
  if (!action.contains("env")) action.set("env", json::Object());
  return action;
}

// The other way round, for a call in an earlier turn.
std::string arguments_of_item(const ClientTool& tool, const json::Object& member) {
  json::Object arguments;
  for (const json::Member& each : member.members()) {
    if (each.value.is_null() || (tool.type == kLocalShell && each.key == "type")) continue;
    arguments.set(each.key, each.value);
  }
  return json::to_string(arguments);
}

}  // namespace tenon::api
