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

/// Tools and messages written in code.
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

/// What a parameter may be. Whatever these functions do not say is said by a json::Value, which a
/// JsonSchema is made of and turns into.
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

  /// What the model is told of it.
  [[nodiscard]] JsonSchema description(std::string_view text) &&;
  [[nodiscard]] const json::Value& value() const { return schema_; }

 private:
  [[nodiscard]] static JsonSchema of_type(std::string_view type);

  json::Value schema_;
};

/// A tool in the making. build() tells of all that is wrong with it at once, so that calls chain.
class ToolDefinition {
 public:
  explicit ToolDefinition(std::string_view name) : name_(name) {}

  ToolDefinition& description(std::string_view text);
  /// Parameters come in the order in which they are told, which is that of a model's arguments.
  ToolDefinition& parameter(std::string_view name, JsonSchema type);
  ToolDefinition& required(std::initializer_list<std::string_view> names);
  /// Demands that the schema is enforced in full, as OpenAI's `strict` does.
  ToolDefinition& strict(bool value = true);

  /// Fails with `invalid` where the name is none (see is_tool_name), a parameter comes twice, or a
  /// required one is no parameter.
  [[nodiscard]] Expected<Tool> build() const;

 private:
  std::string name_;
  std::string description_;
  std::vector<std::pair<std::string, json::Value>> parameters_;
  std::vector<std::string> required_;
  std::optional<bool> strict_;
};

/// A function of this name, description and schema (null: it takes none), as clients define them.
[[nodiscard]] Tool function_tool(std::string name, std::string description, json::Value parameters);

inline constexpr std::size_t kMaxToolNameBytes = 128;
/// OpenAI's characters [a-zA-Z0-9_-] and '.', ':' and '/', by which servers of tools separate name
/// spaces: no name can spell a control token or a format's marker. 1 to kMaxToolNameBytes of them.
[[nodiscard]] bool is_tool_name(std::string_view name);

[[nodiscard]] Message system(std::string text);
[[nodiscard]] Message user(std::string text);
[[nodiscard]] Message assistant(std::string text);
/// What the tool said that was called in `call`.
[[nodiscard]] Message tool_result(const ToolCall& call, std::string output);

/// `message` in the shape of OpenAI's Chat Completions, `reasoning_content` and unknown keys
/// included. The inverse of message_from_json().
[[nodiscard]] json::Object to_json(const Message& message);
/// Fails with `invalid`, naming the member. Keys that it does not know become Message::extra.
[[nodiscard]] Expected<Message> message_from_json(const json::Value& value);

}  // namespace tenon::message
