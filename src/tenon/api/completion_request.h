#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Decodes Completions: a text to continue, as in OpenAI's API before there was chat.
/// Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

/// Limits of one request, besides those of RequestReader.
inline constexpr std::size_t kMaxAnswers =
    64;  ///< For all prompts together: `best_of` or `n` each.

struct CompletionRequest {
  message::ChatRequest chat;                   ///< Without the continuation, which is in `prompts`.
  std::vector<message::Continuation> prompts;  ///< Never empty.
  unsigned choices = 1;                        ///< `n`, for each prompt.
  unsigned candidates = 1;                     ///< `best_of`, at least `n`.
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool token_ids = false;                     ///< `return_token_ids`
  std::vector<message::Diagnostic> left_out;  ///< What was left out, each with its path.
};

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> completion_fields();

/// Decodes a request, with the errors of decode_chat_completion(). Whether the model can read
/// tokens and a suffix is checked later, by the model.
[[nodiscard]] Result<CompletionRequest, ApiError> decode_completion(
    const json::Value& body, const DecodeOptions& options = {});

}  // namespace tenon::api
