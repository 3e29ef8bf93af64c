#pragma once

#include <string>
#include <string_view>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Tools that a request names by their type alone: the client runs them, and both sides know their
/// schema. For the model they are functions. Source: the types of the Python packages
/// `openai` 3.57.0 and `anthropic` 2.14.0, and Anthropic's documentation of its client tools.
namespace tenon::api {

struct ClientTool {
  std::string_view type;  ///< For Messages without its date: "bash_" of `bash_20250124`.
  std::string_view name;  ///< The model's name for it, if the request gives none.
  std::string_view description;
  std::string_view schema;  ///< JSON Schema of its arguments.
  /// For Responses: the type of its calls, and their member that has the arguments.
  std::string_view call_type{};
  std::string_view call_member{};
};

/// The tool of Messages that `type` names, like `text_editor_20250728`; null for other types.
[[nodiscard]] const ClientTool* client_tool_of_messages(std::string_view type);

/// The tool of Responses that `type` names, like `local_shell`; null for other types.
[[nodiscard]] const ClientTool* client_tool_of_responses(std::string_view type);
/// The same by the type of a call, `local_shell_call`, or of a result, `local_shell_call_output`.
[[nodiscard]] const ClientTool* client_tool_of_call(std::string_view type);
[[nodiscard]] const ClientTool* client_tool_of_result(std::string_view type);

/// The tool as the model sees it.
[[nodiscard]] message::Tool function_of(const ClientTool& tool, std::string name);

/// Turns the arguments of a call into the member of its item, `action` or `operation`, and back.
[[nodiscard]] json::Value item_member(const ClientTool& tool, json::Object arguments);
[[nodiscard]] std::string arguments_of_item(const ClientTool& tool, const json::Object& member);

}  // namespace tenon::api
