#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Completions, the way in: a text to go on from, as OpenAI's API had it before there was chat.
/// Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

/// The bounds of what one request may ask for, beside RequestReader's.
inline constexpr std::size_t kMaxAnswers = 64;  ///< Of all prompts together: `best_of` or `n` each.
inline constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 18;

struct CompletionRequest {
  message::ChatRequest chat;                   ///< Without the continuation, which is one of these:
  std::vector<message::Continuation> prompts;  ///< Never empty.
  unsigned choices = 1;                        ///< `n`, for each prompt.
  unsigned candidates = 1;                     ///< `best_of`, at least `n`.
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  std::vector<message::Diagnostic> left_out;  ///< What was not read, each with its path.
};

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> completion_fields();

/// Decodes a request, as decode_chat_completion() does its own. Whether the model can read tokens
/// and a suffix is for the model to say.
[[nodiscard]] Result<CompletionRequest, ApiError> decode_completion(
    const json::Value& body, const DecodeOptions& options = {});

}  // namespace tenon::api
