#pragma once

#include <string_view>
#include <vector>

#include "verify/answer.h"
#include "verify/question.h"

#include "tenon/http/sse.h"
#include "tenon/json/value.h"

/// The three dialects: how a question is written, and how an answer is read. Readers fill the
/// answer and list every rule of their dialect that it breaks as a flaw; they never fail.
namespace tenon::app::verify {

/// A body without `model`.
[[nodiscard]] json::Object chat_body(const Question& question);
[[nodiscard]] json::Object responses_body(const Question& question);
[[nodiscard]] json::Object messages_body(const Question& question);

void read_chat(const json::Value& document, Answer& answer);
void read_responses(const json::Value& document, Answer& answer);
void read_messages(const json::Value& document, Answer& answer);

/// An event of a stream whose data is JSON.
struct ReadEvent {
  std::string_view type;  ///< The field `event`; "message" without one.
  json::Value data;
};
/// `has_done`: the last event was `[DONE]`, which is not among `events`.
void read_chat_stream(const std::vector<ReadEvent>& events, bool has_done, Answer& answer);
void read_responses_stream(const std::vector<ReadEvent>& events, Answer& answer);
void read_messages_stream(const std::vector<ReadEvent>& events, Answer& answer);

}  // namespace tenon::app::verify
