#include "verify/answer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "verify/dialects.h"

#include "tenon/base/utf8.h"
#include "tenon/http/sse.h"

namespace tenon::app::verify {
namespace {

// The server's words, in the form of the dialects or in another that servers have.
std::string error_text(const json::Value& document) {
  for (const char* path : {"/error/message", "/error", "/message", "/detail", "/detail/0/msg"}) {
    const json::Value* const text = json::at_pointer(document, path);
    if (text != nullptr && text->if_string() != nullptr && !text->if_string()->empty()) {
      return *text->if_string();
    }
  }
  return "";
}

// {"error": {"message"}} in every dialect; Messages has "type": "error" beside it.
void read_error(Dialect dialect, const json::Value& document, Answer& answer) {
  answer.error = error_text(document);
  const json::Value* const message = json::at_pointer(document, "/error/message");
  if (message == nullptr || message->if_string() == nullptr || message->if_string()->empty()) {
    answer.add_flaw("error_body_has_message", "the body of an error has no text in error.message");
    return;
  }
  const json::Value* const type = json::at_pointer(document, "/error/type");
  if (type == nullptr || type->if_string() == nullptr) {
    answer.add_flaw("error_body_has_message", "error.type is no text");
  }
  if (dialect == Dialect::messages && word_at(document, "type") != "error") {
    answer.add_flaw("error_body_has_message", "the body's type is not \"error\"");
  }
}

void read_document(Dialect dialect, Answer& answer) {
  if (!answer.content_type.starts_with("application/json")) {
    answer.add_flaw("content_type_is_json", "the content type is '" + answer.content_type + "'");
  }
  const auto document = json::parse(answer.body);
  if (!document) {
    answer.add_flaw(utf8::is_valid(answer.body) ? "answer_shape" : "unicode_whole",
                    "the body is not JSON: " + document.error().message);
    if (answer.status != 200) {
      answer.add_flaw("error_body_has_message", "the body of an error is not JSON");
    }
    return;
  }
  if (answer.status != 200) return read_error(dialect, *document, answer);
  switch (dialect) {
    case Dialect::chat:
      return read_chat(*document, answer);
    case Dialect::responses:
      return read_responses(*document, answer);
    case Dialect::messages:
      return read_messages(*document, answer);
  }
}

// The events before `[DONE]`, if there is one.
std::vector<ReadEvent> read_events(const std::vector<http::SseEvent>& events, bool& has_done,
                                   Answer& answer) {
  std::vector<ReadEvent> read;
  for (const http::SseEvent& event : events) {
    if (has_done) answer.add_flaw("ends_with_done", "an event comes after [DONE]");
    if (event.data == "[DONE]") {
      has_done = true;
      continue;
    }
    auto data = json::parse(event.data);
    if (data) {
      read.push_back({event.type, *std::move(data)});
    } else {
      answer.add_flaw(utf8::is_valid(event.data) ? "events_are_json" : "unicode_whole",
                      "an event is not JSON: " + data.error().message);
    }
  }
  return read;
}

void read_stream(Dialect dialect, Answer& answer) {
  if (!answer.trouble.empty()) {
    answer.add_flaw("ends_with_done", "the stream was cut: " + answer.trouble);
  }
  http::SseDecoder decoder(kMostBytes);
  std::vector<http::SseEvent> events;
  if (Status fed = decoder.feed(answer.body, events); !fed || decoder.is_mid_event()) {
    answer.add_flaw("events_are_json", "the stream ends within an event");
  }
  bool has_done = false;
  const std::vector<ReadEvent> read = read_events(events, has_done, answer);
  switch (dialect) {
    case Dialect::chat:
      return read_chat_stream(read, has_done, answer);
    case Dialect::responses:
      return read_responses_stream(read, answer);
    case Dialect::messages:
      return read_messages_stream(read, answer);
  }
}

// Rules about calls, which are the same everywhere.
void check_calls(Answer& answer) {
  std::set<std::string_view> ids;
  for (const GivenCall& call : answer.calls) {
    if (call.id.empty()) answer.add_flaw("call_has_id", "the call of " + call.name + " has no id");
    if (!call.id.empty() && !ids.insert(call.id).second) {
      answer.add_flaw("call_ids_differ", "two calls have the id " + call.id);
    }
    const auto arguments = json::parse(call.arguments);
    if (answer.finish != Finish::length && (!arguments || arguments->if_object() == nullptr)) {
      answer.add_flaw(answer.is_streamed ? "arguments_fold_to_json" : "arguments_are_json",
                      "the arguments are no JSON object: " + call.arguments.substr(0, 200),
                      /*may_be_models=*/true);
    }
  }
  const bool says_calls = answer.finish == Finish::calls;
  if (!answer.calls.empty() && !says_calls && answer.finish != Finish::length) {
    answer.add_flaw("finish_says_calls",
                    "there is a call, and the answer ends with '" + answer.finish_word + "'");
  }
  if (answer.calls.empty() && says_calls) {
    answer.add_flaw("finish_says_stop",
                    "there is no call, and the answer ends with '" + answer.finish_word + "'");
  }
  if (answer.finish == Finish::unknown) {
    answer.add_flaw("finish_is_known", "the answer ends with '" + answer.finish_word + "'");
  }
}

}  // namespace

void Answer::add_flaw(std::string_view rule, std::string what, bool may_be_models) {
  if (flaw(rule) == nullptr) flaws.push_back({rule, std::move(what), may_be_models});
}

const Flaw* Answer::flaw(std::string_view rule) const {
  const auto found = std::ranges::find(flaws, rule, &Flaw::rule);
  return found == flaws.end() ? nullptr : &*found;
}

bool Answer::is_told_unenforced() const {
  return word_at(note, "guarantee") == "unenforced";
}

void read_answer(Dialect dialect, bool was_stream_wanted, Answer& answer) {
  if (answer.status == 0) return;
  if (answer.status != 200 || !was_stream_wanted) {
    read_document(dialect, answer);
  } else {
    answer.is_streamed = true;
    if (!answer.content_type.starts_with("text/event-stream")) {
      answer.add_flaw("content_type_is_event_stream",
                      "the content type is '" + answer.content_type + "'");
    }
    read_stream(dialect, answer);
  }
  if (answer.status == 200 && answer.error.empty()) check_calls(answer);
}

bool is_text(const json::Value& object, std::string_view key) {
  const json::Value* const value = object.find(key);
  return value != nullptr && value->if_string() != nullptr;
}

std::string_view word_at(const json::Value& object, std::string_view key) {
  const json::Value* const value = object.find(key);
  return value == nullptr || value->if_string() == nullptr ? std::string_view{}
                                                           : *value->if_string();
}

std::string text_at(const json::Value& object, std::string_view key, Answer& answer,
                    std::string_view rule) {
  const json::Value* const value = object.find(key);
  if (value == nullptr || value->is_null()) return "";
  if (value->if_string() != nullptr) return *value->if_string();
  answer.add_flaw(rule, std::string(key) + " is no text but of the type " +
                            std::string(json::kind_name(value->kind())));
  return json::to_string(*value);
}

std::int64_t count_at(const json::Value& object, std::string_view key) {
  const json::Value* const value = object.find(key);
  if (value == nullptr || value->if_number() == nullptr) return 0;
  return value->if_number()->to_int64().value_or(0);
}

void read_usage(const json::Value* usage, std::string_view prompt, std::string_view completion,
                std::string_view total, Answer& answer) {
  if (usage == nullptr || usage->if_object() == nullptr) return;
  answer.usage = GivenUsage{count_at(*usage, prompt) + count_at(*usage, "cache_read_input_tokens") +
                                count_at(*usage, "cache_creation_input_tokens"),
                            count_at(*usage, completion)};
  if (total.empty() || usage->find(total) == nullptr) return;
  const std::int64_t sum = answer.usage->prompt + answer.usage->completion;
  if (sum != count_at(*usage, total)) {
    answer.add_flaw("usage_adds_up", "prompt and completion come to " + std::to_string(sum) +
                                         ", the total is " +
                                         std::to_string(count_at(*usage, total)));
  }
}

}  // namespace tenon::app::verify
