#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Tools and messages, written in code.
///
///     using message::JsonSchema;
///     Expected<message::Tool> weather =
///         message::ToolDefinition("get_weather")
///             .description("Get current weather for a location")
///             .parameter("location", JsonSchema::string())
///             .parameter("units", JsonSchema::enum_values({"celsius", "fahrenheit"}))
///             .required({"location"})
///             .build();
///     message::ChatRequest request{.messages = {message::user("How is the weather in Rome?")},
///                                  .tools = {*weather}};
namespace tenon::message {

/// The schema of a parameter. A JsonSchema is a json::Value, so whatever these functions cannot
/// express can be written as one.
class JsonSchema {
 public:
  JsonSchema(json::Value schema) : schema_(std::move(schema)) {}  // NOLINT: both are schemas

  [[nodiscard]] static JsonSchema string() { return of_type("string"); }
  [[nodiscard]] static JsonSchema number() { return of_type("number"); }
  [[nodiscard]] static JsonSchema integer() { return of_type("integer"); }
  [[nodiscard]] static JsonSchema boolean() { return of_type("boolean"); }
  /// One of these strings.
  [[nodiscard]] static JsonSchema enum_values(std::initializer_list<std::string_view> values);
  [[nodiscard]] static JsonSchema array(JsonSchema items);
  /// `required` names members of `properties`; others may be missing.
  [[nodiscard]] static JsonSchema object(
      std::initializer_list<std::pair<std::string_view, JsonSchema>> properties,
      std::initializer_list<std::string_view> required = {});

  /// Sets the description for the model.
  [[nodiscard]] JsonSchema description(std::string_view text) &&;
  [[nodiscard]] const json::Value& value() const { return schema_; }

 private:
  [[nodiscard]] static JsonSchema of_type(std::string_view type);

  json::Value schema_;
};

/// Builds a tool. build() reports all errors, so that the other calls can be chained.
class ToolDefinition {
 public:
  explicit ToolDefinition(std::string_view name) : name_(name) {}

  ToolDefinition& description(std::string_view text);
  /// Parameters keep the order in which they are added; it is also the order of a model's
  /// arguments.
  ToolDefinition& parameter(std::string_view name, JsonSchema type);
  ToolDefinition& required(std::initializer_list<std::string_view> names);
  /// Demands that the whole schema is enforced, like OpenAI's `strict`.
  ToolDefinition& strict(bool value = true);

  /// Fails with `invalid` if the name is not allowed (see is_tool_name), a parameter is added
  /// twice, or a required name is not a parameter.
  [[nodiscard]] Expected<Tool> build() const;

 private:
  std::string name_;
  std::string description_;
  std::vector<std::pair<std::string, json::Value>> parameters_;
  std::vector<std::string> required_;
  std::optional<bool> strict_;
};

/// A function with this name, description and schema (null: it takes no arguments), as clients
/// define it.
[[nodiscard]] Tool function_tool(std::string name, std::string description, json::Value parameters);

inline constexpr std::size_t kMaxToolNameBytes = 128;
/// Allows OpenAI's characters [a-zA-Z0-9_-] and '.', ':' and '/', with which tool servers separate
/// name spaces; so a name cannot contain a control token or a format's marker. The length is 1 to
/// kMaxToolNameBytes.
[[nodiscard]] bool is_tool_name(std::string_view name);

[[nodiscard]] Message system(std::string text);
[[nodiscard]] Message user(std::string text);
[[nodiscard]] Message assistant(std::string text);
/// The message with the output of the tool that `call` called.
[[nodiscard]] Message tool_result(const ToolCall& call, std::string output);

/// What a model reads of code that has been run, from what that wrote to stdout and to stderr.
[[nodiscard]] std::string code_output(std::string_view out, std::string_view err);

/// `message` in the form of OpenAI's Chat Completions, with `reasoning_content` and unknown keys.
/// The inverse of message_from_json().
[[nodiscard]] json::Object to_json(const Message& message);
/// Fails with `invalid`, naming the member. Unknown keys become Message::extra.
[[nodiscard]] Expected<Message> message_from_json(const json::Value& value);

}  // namespace tenon::message
