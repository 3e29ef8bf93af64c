#include <map>
#include <string>
#include <utility>

#include "verify/dialects.h"

// Chat Completions.
namespace tenon::app::verify {
namespace {

json::Value chat_turn(const Turn& turn) {
  json::Object message{{"role", turn.role}, {"content", turn.text}};
  if (!turn.calls.empty()) {
    if (turn.text.empty()) message.set("content", nullptr);
    json::Array calls;
    for (const PlainCall& call : turn.calls) {
      calls.emplace_back(json::Object{
          {"id", call.id},
          {"type", "function"},
          {"function", json::Object{{"name", call.name}, {"arguments", call.arguments}}}});
    }
    message.set("tool_calls", std::move(calls));
  }
  if (turn.role == "tool") message.set("tool_call_id", turn.call_id);
  return message;
}

json::Value chat_tool(const OfferedTool& tool) {
  json::Object function{
      {"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}};
  if (tool.strict) function.set("strict", true);
  return json::Object{{"type", "function"}, {"function", std::move(function)}};
}

json::Value named_function(const std::string& name) {
  return json::Object{{"type", "function"}, {"function", json::Object{{"name", name}}}};
}

json::Value chat_choice(const Choice& choice) {
  switch (choice.kind) {
    case Choice::Kind::none:
      return "none";
    case Choice::Kind::required:
      return "required";
    case Choice::Kind::named:
      return named_function(choice.names.front());
    case Choice::Kind::allowed: {
      json::Array tools;
      for (const std::string& name : choice.names) tools.push_back(named_function(name));
      return json::Object{
          {"type", "allowed_tools"},
          {"allowed_tools", json::Object{{"mode", "required"}, {"tools", std::move(tools)}}}};
    }
    default:
      return "auto";
  }
}

Finish finish_of(std::string_view word) {
  if (word == "stop") return Finish::stop;
  if (word == "tool_calls") return Finish::calls;
  return word == "length" ? Finish::length : Finish::unknown;
}

void read_finish(const json::Value& choice, Answer& answer) {
  answer.finish_word = word_at(choice, "finish_reason");
  answer.finish = finish_of(answer.finish_word);
}

void read_said(const json::Value& message, Answer& answer) {
  answer.text += text_at(message, "content", answer, "answer_shape");
  const bool has_long_name = message.find("reasoning_content") != nullptr;
  answer.reasoning +=
      text_at(message, has_long_name ? "reasoning_content" : "reasoning", answer, "answer_shape");
}

void read_chat_usage(const json::Value& document, Answer& answer) {
  read_usage(document.find("usage"), "prompt_tokens", "completion_tokens", "total_tokens", answer);
}

void read_call(const json::Value& call, Answer& answer) {
  const json::Value* const function = call.find("function");
  if (function == nullptr || word_at(call, "type") != "function") {
    answer.add_flaw("answer_shape", "a call is not of the type 'function' with a `function`");
    if (function == nullptr) return;
  }
  answer.calls.push_back({std::string(word_at(call, "id")), std::string(word_at(*function, "name")),
                          text_at(*function, "arguments", answer, "arguments_are_text")});
}

void check_document(const json::Value& document, Answer& answer) {
  if (word_at(document, "object") != "chat.completion") {
    answer.add_flaw("answer_shape", "`object` is not \"chat.completion\"");
  }
  for (const char* key : {"id", "model"}) {
    if (!is_text(document, key)) {
      answer.add_flaw("answer_shape", std::string("`") + key + "` is missing");
    }
  }
  if (document.find("created") == nullptr) answer.add_flaw("answer_shape", "`created` is missing");
}

// ---- streams

class ChatStream {
 public:
  explicit ChatStream(Answer& answer) : answer_(answer) {}

  void take(const json::Value& chunk) {
    if (const json::Value* error = chunk.find("error"); error != nullptr && !error->is_null()) {
      answer_.error = word_at(*error, "message");
      if (answer_.error.empty()) answer_.error = json::to_string(*error);
      return;
    }
    check_chunk(chunk);
    read_chat_usage(chunk, answer_);
    if (const json::Value* note = chunk.find("tenon")) answer_.note = *note;
    const json::Value* const choice = json::at_pointer(chunk, "/choices/0");
    if (choice != nullptr) take_choice(*choice);
  }

 private:
  void check_chunk(const json::Value& chunk) {
    if (word_at(chunk, "object") != "chat.completion.chunk" || !is_text(chunk, "id") ||
        chunk.find("choices") == nullptr) {
      answer_.add_flaw("chunk_shape", "a chunk has no `id`, `choices` or right `object`");
    }
    if (id_.empty()) id_ = word_at(chunk, "id");
    if (word_at(chunk, "id") != id_) {
      answer_.add_flaw("chunk_id_stays", "the id of the chunks changes from '" + id_ + "' to '" +
                                             std::string(word_at(chunk, "id")) + "'");
    }
  }

  void take_choice(const json::Value& choice) {
    const json::Value* const delta = choice.find("delta");
    if (delta == nullptr) return answer_.add_flaw("chunk_shape", "a choice has no `delta`");
    if (is_first_ && word_at(*delta, "role") != "assistant") {
      answer_.add_flaw("begins_with_role", "the first chunk has not the role `assistant`");
    }
    is_first_ = false;
    const std::size_t text_before = answer_.text.size();
    read_said(*delta, answer_);
    const json::Value* const calls = delta->find("tool_calls");
    const bool has_calls =
        calls != nullptr && calls->if_array() != nullptr && !calls->if_array()->empty();
    if (has_finish_ && (has_calls || answer_.text.size() > text_before)) {
      answer_.add_flaw("finish_comes_once", "text or a call comes after the finish_reason");
    }
    if (has_calls) {
      for (const json::Value& call : *calls->if_array()) take_call(call);
    }
    if (!is_text(choice, "finish_reason")) return;
    if (has_finish_) answer_.add_flaw("finish_comes_once", "finish_reason comes twice");
    has_finish_ = true;
    read_finish(choice, answer_);
  }

  void take_call(const json::Value& part) {
    const json::Value* const index = part.find("index");
    const std::int64_t at = count_at(part, "index");
    if (index == nullptr || index->if_number() == nullptr) {
      answer_.add_flaw("index_counts_up", "a part of a call has no `index`");
    }
    const json::Value none;
    const json::Value* const function = part.find("function");
    const json::Value& said = function == nullptr ? none : *function;
    if (!places_.contains(at)) {
      begin_call(at, part, said);
    } else if (!word_at(part, "id").empty() || !word_at(said, "name").empty()) {
      // Clients that add up the parts would add these up, too.
      answer_.add_flaw("call_name_comes_once", "a later part of a call has an id or a name again");
    }
    GivenCall& call = answer_.calls[places_.at(at)];
    const std::string_view id = word_at(part, "id");
    if (!id.empty() && id != call.id) {
      answer_.add_flaw("call_id_stays", "the id of a call changes from '" + call.id + "' to '" +
                                            std::string(id) + "'");
    }
    const std::string piece = text_at(said, "arguments", answer_, "arguments_are_text");
    answer_.argument_pieces += piece.empty() ? 0 : 1;
    call.arguments += piece;
  }

  void begin_call(std::int64_t at, const json::Value& part, const json::Value& said) {
    if (at != static_cast<std::int64_t>(answer_.calls.size())) {
      answer_.add_flaw("index_counts_up", "call " + std::to_string(answer_.calls.size()) +
                                              " has the index " + std::to_string(at));
    }
    if (word_at(part, "id").empty() || word_at(said, "name").empty()) {
      answer_.add_flaw("call_begins_with_name", "the first part of a call has no id or no name");
    }
    places_[at] = answer_.calls.size();
    answer_.calls.push_back(
        {std::string(word_at(part, "id")), std::string(word_at(said, "name")), ""});
  }

  Answer& answer_;
  std::string id_;
  std::map<std::int64_t, std::size_t> places_;  // of calls, by index
  bool is_first_ = true;
  bool has_finish_ = false;
};

}  // namespace

json::Object chat_body(const Question& question) {
  json::Array messages;
  for (const Turn& turn : question.turns) messages.push_back(chat_turn(turn));
  json::Object body{{"messages", std::move(messages)}};
  if (question.max_tokens) body.set(question.limit_key, *question.max_tokens);
  if (question.temperature) body.set("temperature", *question.temperature);
  json::Array tools;
  for (const OfferedTool& tool : question.tools) tools.push_back(chat_tool(tool));
  if (!tools.empty()) body.set("tools", std::move(tools));
  if (question.choice.kind != Choice::Kind::absent) {
    body.set("tool_choice", chat_choice(question.choice));
  }
  if (question.is_parallel) body.set("parallel_tool_calls", *question.is_parallel);
  if (question.seed) body.set("seed", *question.seed);
  if (!question.stop.empty()) body.set("stop", json::Array{question.stop});
  if (question.is_json_wanted) {
    body.set("response_format", json::Object{{"type", "json_object"}});
  }
  if (question.answer_schema) {
    body.set("response_format",
             json::Object{{"type", "json_schema"},
                          {"json_schema", json::Object{{"name", "answer"},
                                                       {"strict", true},
                                                       {"schema", *question.answer_schema}}}});
  }
  if (question.is_streamed) {
    body.set("stream", true);
    body.set("stream_options", json::Object{{"include_usage", true}});
  }
  return body;
}

void read_chat(const json::Value& document, Answer& answer) {
  check_document(document, answer);
  read_chat_usage(document, answer);
  if (const json::Value* note = document.find("tenon")) answer.note = *note;
  const json::Value* const choice = json::at_pointer(document, "/choices/0");
  const json::Value* const message = choice == nullptr ? nullptr : choice->find("message");
  if (message == nullptr) return answer.add_flaw("answer_shape", "choices[0].message is missing");
  if (word_at(*message, "role") != "assistant") {
    answer.add_flaw("answer_shape", "the message's role is not `assistant`");
  }
  if (message->find("content") == nullptr) {
    answer.add_flaw("answer_shape", "the message has no `content`, not even null");
  }
  read_said(*message, answer);
  const json::Value* const calls = message->find("tool_calls");
  if (calls != nullptr && calls->if_array() != nullptr) {
    for (const json::Value& call : *calls->if_array()) read_call(call, answer);
  }
  read_finish(*choice, answer);
}

void read_chat_stream(const std::vector<ReadEvent>& events, bool has_done, Answer& answer) {
  ChatStream stream(answer);
  for (const ReadEvent& event : events) stream.take(event.data);
  if (!has_done) answer.add_flaw("ends_with_done", "the last event is not [DONE]");
}

}  // namespace tenon::app::verify
