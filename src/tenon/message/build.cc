#include "tenon/message/build.h"

#include <algorithm>
#include <utility>

// Tools and messages from code, and the JSON of Chat Completions both ways. to_json() and
// message_from_json() are inverses of each other: what a Message has no member for is kept as JSON
// (Message::extra, ContentPart::raw) and written back as it came. Tool definitions are checked
// once, in build(), so that the calls before it can be chained.
namespace tenon::message {
namespace {

json::Array texts(std::initializer_list<std::string_view> values) {
  return {values.begin(), values.end()};
}

Unexpected wrong(std::string message) {
  return Unexpected(Error{Errc::invalid, std::move(message)});
}

// A part that came from a client is written as it came.
json::Value part_json(const ContentPart& part) {
  if (!part.raw.is_null()) return part.raw;
  return json::Object{{"type", part.type}, {"text", part.text}};
}

// Arguments are the text of JSON, as Chat Completions has them.
json::Value call_json(const ToolCall& call) {
  return json::Object{
      {"id", call.id},
      {"type", "function"},
      {"function", json::Object{{"name", call.name}, {"arguments", call.arguments}}}};
}

// {"type": "text", "text": "Hi"}. A part with any other member, or of another type, keeps its JSON,
// so that an image or a cache mark reaches the upstream.
Expected<ContentPart> part_from(const json::Value& value) {
  const json::Value* const type = value.find("type");
  if (type == nullptr || type->if_string() == nullptr) {
    return wrong("content: a part has no type");
  }
  ContentPart part{.type = *type->if_string()};
  const json::Value* const text = value.find("text");
  if (text != nullptr && text->if_string() != nullptr) part.text = *text->if_string();
  const bool is_plain = part.type == "text" && text != nullptr && text->if_string() != nullptr &&
                        value.if_object()->size() == 2;
  if (!is_plain) part.raw = value;
  return part;
}

// {"id": "c1", "function": {"name": "add", "arguments": "{}"}}; each of the three must be a string.
Expected<ToolCall> call_from(const json::Value& value) {
  ToolCall call;
  for (const auto& [pointer, member] :
       {std::pair{"/id", &ToolCall::id}, std::pair{"/function/name", &ToolCall::name},
        std::pair{"/function/arguments", &ToolCall::arguments}}) {
    const json::Value* const found = json::at_pointer(value, pointer);
    if (found == nullptr || found->if_string() == nullptr) {
      return wrong("tool_calls: a call has no string at " + std::string(pointer));
    }
    call.*member = *found->if_string();
  }
  return call;
}

// The items of an array, each read by `read`. Stops at the first one that is wrong.
template <class T>
Status read_list(const json::Value& value, std::string_view key,
                 Expected<T> (*read)(const json::Value&), std::vector<T>& out) {
  const json::Array* const items = value.if_array();
  if (items == nullptr) return wrong(std::string(key) + " must be an array");
  for (const json::Value& item : *items) {
    auto one = read(item);
    if (!one) return Unexpected(std::move(one.error()));
    out.push_back(*std::move(one));
  }
  return {};
}

Status read_content(const json::Value& value, Message& message) {
  // `content` is null beside tool calls.
  if (value.is_null()) return {};
  if (value.if_array() != nullptr) return read_list(value, "content", part_from, message.parts);
  if (value.if_string() == nullptr) return wrong("content must be a string, an array or null");
  message.content = *value.if_string();
  return {};
}

Status read_member(const json::Member& member, Message& message) {
  const auto& [key, value] = member;
  if (key == "content") return read_content(value, message);
  if (key == "tool_calls") return read_list(value, key, call_from, message.tool_calls);
  // Members that are plain strings; all others go to `extra` and are written back by to_json().
  std::string* const text = key == "reasoning_content" ? &message.reasoning
                            : key == "tool_call_id"    ? &message.tool_call_id
                            : key == "name"            ? &message.name
                                                       : nullptr;
  if (text == nullptr) {
    message.extra.set(key, value);
    return {};
  }
  if (value.if_string() == nullptr) return wrong(key + " must be a string");
  *text = *value.if_string();
  return {};
}

}  // namespace

JsonSchema JsonSchema::of_type(std::string_view type) {
  return {json::Object{{"type", type}}};
}

JsonSchema JsonSchema::enum_values(std::initializer_list<std::string_view> values) {
  return {json::Object{{"type", "string"}, {"enum", texts(values)}}};
}

JsonSchema JsonSchema::array(JsonSchema items) {
  return {json::Object{{"type", "array"}, {"items", std::move(items.schema_)}}};
}

JsonSchema JsonSchema::object(
    std::initializer_list<std::pair<std::string_view, JsonSchema>> properties,
    std::initializer_list<std::string_view> required) {
  json::Object members;
  for (const auto& [name, type] : properties) members.set(std::string(name), type.schema_);
  json::Object schema{{"type", "object"}, {"properties", std::move(members)}};
  if (required.size() > 0) schema.set("required", texts(required));
  return {std::move(schema)};
}

JsonSchema JsonSchema::description(std::string_view text) && {
  // Schemas such as `true` have no place for a description.
  if (json::Object* const members = schema_.if_object()) members->set("description", text);
  return std::move(*this);
}

ToolDefinition& ToolDefinition::description(std::string_view text) {
  description_ = text;
  return *this;
}

ToolDefinition& ToolDefinition::parameter(std::string_view name, JsonSchema type) {
  parameters_.emplace_back(name, type.value());
  return *this;
}

ToolDefinition& ToolDefinition::required(std::initializer_list<std::string_view> names) {
  required_.assign(names.begin(), names.end());
  return *this;
}

ToolDefinition& ToolDefinition::strict(bool value) {
  strict_ = value;
  return *this;
}

Expected<Tool> ToolDefinition::build() const {
  if (!is_tool_name(name_)) {
    return wrong("the tool's name must be 1 to " + std::to_string(kMaxToolNameBytes) +
                 " of the characters a-z A-Z 0-9 _ - . : /, not " + json::quoted(name_));
  }
  json::Object properties;
  for (const auto& [name, type] : parameters_) {
    // set() returns false if the key was there.
    if (!properties.set(name, type)) {
      return wrong("tool " + name_ + ": the parameter " + json::quoted(name) + " is there twice");
    }
  }
  for (const std::string& name : required_) {
    if (properties.contains(name)) continue;
    return wrong("tool " + name_ + ": required " + json::quoted(name) + " is no parameter");
  }
  json::Object parameters{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required_.empty())
    parameters.set("required", json::Array(required_.begin(), required_.end()));
  // `raw` is what an upstream or a template reads, so `strict` goes there too.
  Tool tool = function_tool(name_, description_, std::move(parameters));
  tool.strict = strict_;
  if (strict_) tool.raw.find("function")->if_object()->set("strict", *strict_);
  return tool;
}

Tool function_tool(std::string name, std::string description, json::Value parameters) {
  json::Object function{{"name", name}};
  if (!description.empty()) function.set("description", description);
  if (!parameters.is_null()) function.set("parameters", parameters);
  return {.name = std::move(name),
          .description = std::move(description),
          .parameters = std::move(parameters),
          .raw = json::Object{{"type", "function"}, {"function", std::move(function)}}};
}

bool is_tool_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kMaxToolNameBytes && std::ranges::all_of(name, is_allowed);
}

Message system(std::string text) {
  return {.role = Role::system, .content = std::move(text)};
}

Message user(std::string text) {
  return {.role = Role::user, .content = std::move(text)};
}

Message assistant(std::string text) {
  return {.role = Role::assistant, .content = std::move(text)};
}

std::string code_output(std::string_view out, std::string_view err) {
  std::string text(out);
  if (!text.empty() && !err.empty() && !text.ends_with('\n')) text += '\n';
  text += err;
  return text.empty() ? "The code printed nothing. Print what you want to see." : text;
}

Message tool_result(const ToolCall& call, std::string output) {
  return {
      .role = Role::tool, .content = std::move(output), .tool_call_id = call.id, .name = call.name};
}

json::Object to_json(const Message& message) {
  json::Object out{{"role", role_name(message.role)}};
  if (message.content) {
    out.set("content", *message.content);
  } else if (!message.parts.empty()) {
    json::Array parts;
    for (const ContentPart& part : message.parts) parts.push_back(part_json(part));
    out.set("content", std::move(parts));
  } else {
    // Chat Completions wants the member, also where a message has no content.
    out.set("content", nullptr);
  }
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  if (!message.tool_calls.empty()) {
    json::Array calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(call_json(call));
    out.set("tool_calls", std::move(calls));
  }
  if (!message.tool_call_id.empty()) out.set("tool_call_id", message.tool_call_id);
  if (!message.name.empty()) out.set("name", message.name);
  // A member of Message wins over one of the same name.
  for (const json::Member& member : message.extra) {
    if (!out.contains(member.key)) out.set(member.key, member.value);
  }
  return out;
}

Expected<Message> message_from_json(const json::Value& value) {
  const json::Object* const object = value.if_object();
  if (object == nullptr) return wrong("a message must be an object");
  const json::Value* const role = object->find("role");
  const auto known = role != nullptr && role->if_string() != nullptr
                         ? role_from_name(*role->if_string())
                         : std::nullopt;
  if (!known) return wrong("role must be system, developer, user, assistant or tool");
  Message message{.role = *known};
  for (const json::Member& member : *object) {
    if (member.key == "role") continue;
    if (Status read = read_member(member, message); !read) return Unexpected(read.error());
  }
  return message;
}

}  // namespace tenon::message
