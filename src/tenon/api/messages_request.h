#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tenon/api/context_edits.h"
#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Decodes Anthropic Messages. Source: the types of the Python package `anthropic` 2.11.0.
namespace tenon::api {

struct MessagesRequest {
  message::ChatRequest chat;
  bool stream = false;
  bool omits_thinking = false;                ///< `thinking.display` is "omitted".
  std::vector<message::Diagnostic> left_out;  ///< What was left out, each with its path.
  /// The edits of `context_management`; no value if the request has no such field.
  std::optional<std::vector<ContextEdit>> edits;
  /// The answer with whose prompt this one is compared (`diagnostics`); "": none yet, but the next
  /// request will name this answer. No value: no diagnosis is asked for.
  std::optional<std::string> previous_id;
};

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> messages_fields();

/// Decodes a request, with the errors of decode_chat_completion(). Results of tools become messages
/// of their own, before the text that follows them. If the last message is text of the assistant,
/// the answer continues it.
[[nodiscard]] Result<MessagesRequest, ApiError> decode_messages(const json::Value& body,
                                                                const DecodeOptions& options = {});

/// The same for a request whose tokens are to be counted: `max_tokens` may be absent.
[[nodiscard]] Result<MessagesRequest, ApiError> decode_count_tokens(
    const json::Value& body, const DecodeOptions& options = {});

}  // namespace tenon::api
