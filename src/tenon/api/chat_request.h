#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Chat Completions, the way in: from the body of a request to a message::ChatRequest.
namespace tenon::api {

struct ChatCompletionRequest {
  message::ChatRequest chat;
  unsigned choices = 1;  ///< `n`
  bool stream = false;
  bool include_usage = false;  ///< A last chunk with the usage.
  bool has_functions = false;  ///< The tools came as `functions`.
};

/// Every field that a request may have, in the order of docs/api.md. Any other is refused.
[[nodiscard]] std::span<const FieldInfo> chat_completion_fields();

/// Decodes a request. Fails with 400 at the first field that is wrong, named by its path
/// (`messages[0].role`); codes are invalid_type, invalid_value, missing_required_parameter,
/// unknown_parameter and unsupported_parameter. Nothing is dropped in silence.
[[nodiscard]] Result<ChatCompletionRequest, ApiError> decode_chat_completion(
    const json::Value& body);

}  // namespace tenon::api
