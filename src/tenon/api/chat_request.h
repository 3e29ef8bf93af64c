#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Decodes Chat Completions: the body of a request becomes a message::ChatRequest.
namespace tenon::api {

struct ChatCompletionRequest {
  message::ChatRequest chat;
  unsigned choices = 1;  ///< `n`
  bool stream = false;
  bool include_usage = false;                 ///< Adds a last chunk with the usage.
  bool token_ids = false;                     ///< `return_token_ids`
  bool has_functions = false;                 ///< The tools came as `functions`.
  std::vector<message::Diagnostic> left_out;  ///< What was left out, each with its path.
};

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> chat_completion_fields();

/// Decodes a request. Fails with 400 at the first wrong field, named by its path
/// (`messages[0].role`); codes are invalid_type, invalid_value, missing_required_parameter,
/// unknown_parameter and unsupported_parameter. What an answer can be right without is left out and
/// reported: unknown fields and members, content of earlier messages and of results that is not
/// text, tools of other kinds. Nothing is dropped in silence.
[[nodiscard]] Result<ChatCompletionRequest, ApiError> decode_chat_completion(
    const json::Value& body, const DecodeOptions& options = {});

/// Reads one tool as it stands in `tools`, and the `tool_calls` of a message, by themselves. Errors
/// name places below `path`, the caller's name for the value. Nothing is left out.
[[nodiscard]] Result<message::Tool, ApiError> decode_tool(const json::Value& tool,
                                                          const std::string& path);
[[nodiscard]] Result<std::vector<message::ToolCall>, ApiError> decode_tool_calls(
    const json::Value& calls, const std::string& path);

}  // namespace tenon::api
