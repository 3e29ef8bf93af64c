#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "verify/dialects.h"

// OpenAI's Responses.
namespace tenon::app::verify {
namespace {

void append_items(const Turn& turn, json::Array& items) {
  if (turn.role == "tool") {
    items.emplace_back(json::Object{
        {"type", "function_call_output"}, {"call_id", turn.call_id}, {"output", turn.text}});
    return;
  }
  if (!turn.text.empty() || turn.calls.empty()) {
    items.emplace_back(
        json::Object{{"type", "message"}, {"role", turn.role}, {"content", turn.text}});
  }
  for (const PlainCall& call : turn.calls) {
    items.emplace_back(json::Object{{"type", "function_call"},
                                    {"call_id", call.id},
                                    {"name", call.name},
                                    {"arguments", call.arguments}});
  }
}

json::Value responses_tool(const OfferedTool& tool) {
  return json::Object{{"type", "function"},
                      {"name", tool.name},
                      {"description", tool.description},
                      {"parameters", tool.parameters},
                      {"strict", tool.strict}};
}

json::Value responses_choice(const Choice& choice) {
  switch (choice.kind) {
    case Choice::Kind::none:
      return "none";
    case Choice::Kind::required:
      return "required";
    case Choice::Kind::named:
      return json::Object{{"type", "function"}, {"name", choice.names.front()}};
    case Choice::Kind::allowed: {
      json::Array tools;
      for (const std::string& name : choice.names) {
        tools.emplace_back(json::Object{{"type", "function"}, {"name", name}});
      }
      return json::Object{
          {"type", "allowed_tools"}, {"mode", "required"}, {"tools", std::move(tools)}};
    }
    default:
      return "auto";
  }
}

// "text" of each part in the list `key` of an item.
std::string parts_text(const json::Value& item, std::string_view key) {
  std::string text;
  const json::Value* const parts = item.find(key);
  if (parts == nullptr || parts->if_array() == nullptr) return text;
  for (const json::Value& part : *parts->if_array()) text += word_at(part, "text");
  return text;
}

void read_item(const json::Value& item, Answer& answer) {
  const std::string_view type = word_at(item, "type");
  if (type == "message") {
    answer.text += parts_text(item, "content");
  } else if (type == "reasoning") {
    const std::string whole = parts_text(item, "content");
    answer.reasoning += whole.empty() ? parts_text(item, "summary") : whole;
  } else if (type == "function_call") {
    answer.calls.push_back({std::string(word_at(item, "call_id")),
                            std::string(word_at(item, "name")),
                            text_at(item, "arguments", answer, "arguments_are_text")});
  }
  if (!is_text(item, "id")) answer.add_flaw("answer_shape", "an item has no `id`");
}

void read_end(const json::Value& response, Answer& answer) {
  answer.finish_word = word_at(response, "status");
  if (answer.finish_word == "incomplete") answer.finish = Finish::length;
  if (answer.finish_word == "completed") {
    answer.finish = answer.calls.empty() ? Finish::stop : Finish::calls;
  }
  if (answer.finish_word == "failed") {
    const json::Value* const message = json::at_pointer(response, "/error/message");
    answer.error = message == nullptr ? "failed" : json::to_string(*message);
  }
  read_usage(response.find("usage"), "input_tokens", "output_tokens", "total_tokens", answer);
  if (const json::Value* note = response.find("tenon")) answer.note = *note;
}

// ---- streams

class ResponsesStream {
 public:
  explicit ResponsesStream(Answer& answer) : answer_(answer) {}

  void take(const ReadEvent& event) {
    const std::string_view type = word_at(event.data, "type");
    if (type != event.type) {
      answer_.add_flaw("chunk_shape", "the event '" + std::string(event.type) +
                                          "' has data of the type '" + std::string(type) + "'");
    }
    check_order(event.data, type);
    if (type == "response.output_item.added") return begin_item(event.data);
    if (type == "response.output_text.delta") {
      const std::string_view delta = word_at(event.data, "delta");
      answer_.text += delta;
      texts_[part_of(event.data)] += delta;
    } else if (type == "response.output_text.done") {
      end_text(event.data, event.data);
    } else if (type == "response.content_part.done") {
      const json::Value* const part = event.data.find("part");
      if (part != nullptr && word_at(*part, "type") == "output_text") end_text(event.data, *part);
    } else if (type == "response.output_item.done") {
      end_item(event.data);
    } else if (type == "response.reasoning_text.delta" ||
               type == "response.reasoning_summary_text.delta") {
      answer_.reasoning += word_at(event.data, "delta");
    } else if (type == "response.function_call_arguments.delta") {
      take_arguments(event.data);
    } else if (type == "response.function_call_arguments.done") {
      end_arguments(event.data);
    } else if (type == "response.completed" || type == "response.incomplete" ||
               type == "response.failed") {
      end(event.data);
    } else if (type == "error") {
      answer_.error = json::to_string(event.data);
    }
  }

  void end_stream() {
    if (!is_ended_) answer_.add_flaw("ends_with_done", "the last event is no end of a response");
  }

 private:
  void check_order(const json::Value& data, std::string_view type) {
    if (is_first_ && type != "response.created") {
      answer_.add_flaw("begins_with_role", "the first event is not response.created");
    }
    is_first_ = false;
    if (is_ended_) answer_.add_flaw("finish_comes_once", "an event comes after the end");
    if (data.find("sequence_number") == nullptr || count_at(data, "sequence_number") != next_) {
      answer_.add_flaw("sequence_counts_up",
                       "event " + std::to_string(next_) + " has another sequence_number");
    }
    ++next_;
  }

  void begin_item(const json::Value& data) {
    const std::int64_t at = count_at(data, "output_index");
    if (at != items_) answer_.add_flaw("index_counts_up", "an item has a wrong output_index");
    ++items_;
    const json::Value* const item = data.find("item");
    if (item == nullptr || word_at(*item, "type") != "function_call") return;
    if (word_at(*item, "name").empty() || word_at(*item, "call_id").empty()) {
      answer_.add_flaw("call_begins_with_name", "the first event of a call has no id or name");
    }
    places_[at] = {answer_.calls.size(), std::string(word_at(*item, "id"))};
    answer_.calls.push_back(
        {std::string(word_at(*item, "call_id")), std::string(word_at(*item, "name")), ""});
  }

  GivenCall* call_of(const json::Value& data) {
    const auto place = places_.find(count_at(data, "output_index"));
    if (place == places_.end()) {
      answer_.add_flaw("index_counts_up", "arguments have the output_index of no call");
      return nullptr;
    }
    if (word_at(data, "item_id") != place->second.id) {
      answer_.add_flaw("call_id_stays", "the item_id of a call's arguments is another one");
    }
    return &answer_.calls[place->second.call];
  }

  void take_arguments(const json::Value& data) {
    ++answer_.argument_pieces;
    if (GivenCall* call = call_of(data)) {
      call->arguments += text_at(data, "delta", answer_, "arguments_are_text");
    }
  }

  void end_arguments(const json::Value& data) {
    const GivenCall* const call = call_of(data);
    if (call != nullptr && call->arguments != word_at(data, "arguments")) {
      answer_.add_flaw("arguments_fold_to_json",
                       "the pieces of arguments are not those at the end");
    }
  }

  using Part = std::pair<std::int64_t, std::int64_t>;  // output_index and content_index
  static Part part_of(const json::Value& data) {
    return {count_at(data, "output_index"), count_at(data, "content_index")};
  }

  void end_text(const json::Value& data, const json::Value& said) {
    if (texts_[part_of(data)] == word_at(said, "text")) return;
    answer_.add_flaw("text_folds_to_whole", "the pieces of a text are not the text at its end");
  }

  void end_item(const json::Value& data) {
    ++ended_items_;
    const json::Value* const item = data.find("item");
    if (item == nullptr) return answer_.add_flaw("chunk_shape", "the end of an item has no `item`");
    if (word_at(*item, "type") == "function_call") {
      const GivenCall* const call = call_at(count_at(data, "output_index"));
      if (call == nullptr || call->id != word_at(*item, "call_id") ||
          call->name != word_at(*item, "name") || call->arguments != word_at(*item, "arguments")) {
        answer_.add_flaw("calls_fold_to_whole", "the pieces of a call are not the call at its end");
      }
    } else if (word_at(*item, "type") == "message") {
      std::string text;
      for (const auto& [part, piece] : texts_) {
        if (part.first == count_at(data, "output_index")) text += piece;
      }
      if (text != parts_text(*item, "content")) {
        answer_.add_flaw("text_folds_to_whole", "the pieces of a message are not that at its end");
      }
    }
  }

  GivenCall* call_at(std::int64_t index) {
    const auto place = places_.find(index);
    return place == places_.end() ? nullptr : &answer_.calls[place->second.call];
  }

  void end(const json::Value& data) {
    is_ended_ = true;
    if (ended_items_ != items_) {
      answer_.add_flaw("chunk_shape", "an item has no response.output_item.done");
    }
    const json::Value* const response = data.find("response");
    if (response == nullptr) return answer_.add_flaw("chunk_shape", "the end has no `response`");
    read_end(*response, answer_);
    Answer whole;
    read_responses(*response, whole);
    if (whole.text != answer_.text) {
      answer_.add_flaw("text_folds_to_whole", "the pieces of text are not the response's own text");
    }
    const auto is_same = [](const GivenCall& a, const GivenCall& b) {
      return a.id == b.id && a.name == b.name && a.arguments == b.arguments;
    };
    if (!std::ranges::equal(whole.calls, answer_.calls, is_same)) {
      answer_.add_flaw("calls_fold_to_whole",
                       "the calls of the events are not those of the response at the end");
    }
  }

  struct Place {
    std::size_t call = 0;
    std::string id;
  };
  Answer& answer_;
  std::map<std::int64_t, Place> places_;  // of calls, by output_index
  std::map<Part, std::string> texts_;
  std::int64_t ended_items_ = 0;
  std::int64_t next_ = 0;
  std::int64_t items_ = 0;
  bool is_first_ = true;
  bool is_ended_ = false;
};

}  // namespace

json::Object responses_body(const Question& question) {
  json::Array input;
  for (const Turn& turn : question.turns) append_items(turn, input);
  json::Object body{{"input", std::move(input)}, {"store", false}};
  if (question.max_tokens) body.set("max_output_tokens", *question.max_tokens);
  if (question.temperature) body.set("temperature", *question.temperature);
  json::Array tools;
  for (const OfferedTool& tool : question.tools) tools.push_back(responses_tool(tool));
  if (!tools.empty()) body.set("tools", std::move(tools));
  if (question.choice.kind != Choice::Kind::absent) {
    body.set("tool_choice", responses_choice(question.choice));
  }
  if (question.is_parallel) body.set("parallel_tool_calls", *question.is_parallel);
  if (question.is_json_wanted) {
    body.set("text", json::Object{{"format", json::Object{{"type", "json_object"}}}});
  }
  if (question.answer_schema) {
    body.set("text", json::Object{{"format", json::Object{{"type", "json_schema"},
                                                          {"name", "answer"},
                                                          {"strict", true},
                                                          {"schema", *question.answer_schema}}}});
  }
  if (question.is_streamed) body.set("stream", true);
  return body;
}

void read_responses(const json::Value& document, Answer& answer) {
  if (word_at(document, "object") != "response" || !is_text(document, "id") ||
      !is_text(document, "model") || !is_text(document, "status")) {
    answer.add_flaw("answer_shape", "`object`, `id`, `model` or `status` is missing or wrong");
  }
  const json::Value* const output = document.find("output");
  if (output == nullptr || output->if_array() == nullptr) {
    return answer.add_flaw("answer_shape", "`output` is no list");
  }
  for (const json::Value& item : *output->if_array()) read_item(item, answer);
  read_end(document, answer);
}

void read_responses_stream(const std::vector<ReadEvent>& events, Answer& answer) {
  ResponsesStream stream(answer);
  for (const ReadEvent& event : events) stream.take(event);
  stream.end_stream();
}

}  // namespace tenon::app::verify
