#include <string>
#include <utility>

#include "verify/dialects.h"

// Anthropic's Messages.
namespace tenon::app::verify {
namespace {

json::Value parsed_or_empty(const std::string& text) {
  auto value = json::parse(text);
  return value && value->if_object() != nullptr ? *std::move(value) : json::Value(json::Object{});
}

json::Value messages_turn(const Turn& turn) {
  if (turn.calls.empty()) return json::Object{{"role", turn.role}, {"content", turn.text}};
  json::Array blocks;
  if (!turn.text.empty()) {
    blocks.emplace_back(json::Object{{"type", "text"}, {"text", turn.text}});
  }
  for (const PlainCall& call : turn.calls) {
    blocks.emplace_back(json::Object{{"type", "tool_use"},
                                     {"id", call.id},
                                     {"name", call.name},
                                     {"input", parsed_or_empty(call.arguments)}});
  }
  return json::Object{{"role", turn.role}, {"content", std::move(blocks)}};
}

// Results in a row are blocks of one message of the user.
void append_result(const Turn& turn, bool continues, json::Array& messages) {
  json::Value block =
      json::Object{{"type", "tool_result"}, {"tool_use_id", turn.call_id}, {"content", turn.text}};
  if (continues) {
    messages.back().find("content")->if_array()->push_back(std::move(block));
  } else {
    messages.emplace_back(
        json::Object{{"role", "user"}, {"content", json::Array{std::move(block)}}});
  }
}

json::Value messages_choice(const Choice& choice) {
  switch (choice.kind) {
    case Choice::Kind::none:
      return json::Object{{"type", "none"}};
    case Choice::Kind::required:
      return json::Object{{"type", "any"}};
    case Choice::Kind::named:
      return json::Object{{"type", "tool"}, {"name", choice.names.front()}};
    default:
      return json::Object{{"type", "auto"}};
  }
}

void set_choice(const Question& question, json::Object& body) {
  if (question.choice.kind == Choice::Kind::absent && !question.is_parallel) return;
  json::Value choice = messages_choice(question.choice);
  if (question.is_parallel) {
    choice.if_object()->set("disable_parallel_tool_use", !*question.is_parallel);
  }
  body.set("tool_choice", std::move(choice));
}

void read_stop(const json::Value& said, Answer& answer) {
  answer.finish_word = word_at(said, "stop_reason");
  if (answer.finish_word == "end_turn" || answer.finish_word == "stop_sequence") {
    answer.finish = Finish::stop;
  } else if (answer.finish_word == "tool_use") {
    answer.finish = Finish::calls;
  } else if (answer.finish_word == "max_tokens") {
    answer.finish = Finish::length;
  }
}

void read_block(const json::Value& block, Answer& answer) {
  const std::string_view type = word_at(block, "type");
  if (type == "text") {
    answer.text += word_at(block, "text");
  } else if (type == "thinking") {
    answer.reasoning += word_at(block, "thinking");
  } else if (type == "tool_use") {
    const json::Value* const input = block.find("input");
    if (input == nullptr || input->if_object() == nullptr) {
      answer.add_flaw("arguments_are_json", "the `input` of a call is no object");
    }
    answer.calls.push_back({std::string(word_at(block, "id")), std::string(word_at(block, "name")),
                            input == nullptr ? "" : json::to_string(*input)});
  }
}

// ---- streams

class MessagesStream {
 public:
  explicit MessagesStream(Answer& answer) : answer_(answer) {}

  void take(const ReadEvent& event) {
    const std::string_view type = word_at(event.data, "type");
    if (type != event.type) {
      answer_.add_flaw("chunk_shape", "the event '" + std::string(event.type) +
                                          "' has data of the type '" + std::string(type) + "'");
    }
    if (type == "ping") return;
    if (type == "error") {
      answer_.error = json::to_string(event.data);
      return;
    }
    if (is_first_ && type != "message_start") {
      answer_.add_flaw("begins_with_role", "the first event is not message_start");
    }
    is_first_ = false;
    if (is_ended_) answer_.add_flaw("ends_with_done", "an event comes after message_stop");
    take_known(type, event.data);
  }

  void end_stream() {
    if (!is_ended_) answer_.add_flaw("ends_with_done", "the last event is not message_stop");
    if (is_open_) answer_.add_flaw("chunk_shape", "a block has no content_block_stop");
    for (GivenCall& call : answer_.calls) {
      if (call.arguments.empty()) call.arguments = "{}";  // a call without a delta has no arguments
    }
  }

 private:
  void take_known(std::string_view type, const json::Value& data) {
    if (type == "message_start") {
      begin(data);
    } else if (type == "content_block_start") {
      begin_block(data);
    } else if (type == "content_block_delta") {
      take_delta(data);
    } else if (type == "content_block_stop") {
      check_index(data);
      is_open_ = false;
      ++index_;
    } else if (type == "message_delta") {
      end_message(data);
    } else if (type == "message_stop") {
      is_ended_ = true;
    }
  }

  void begin(const json::Value& data) {
    const json::Value* const role = json::at_pointer(data, "/message/role");
    if (role == nullptr || role->if_string() == nullptr || *role->if_string() != "assistant") {
      answer_.add_flaw("begins_with_role", "message_start has not the role `assistant`");
    }
    start_usage_ = json::at_pointer(data, "/message/usage");
  }

  void check_index(const json::Value& data) {
    if (!is_open_ || data.find("index") == nullptr || count_at(data, "index") != index_) {
      answer_.add_flaw("index_counts_up", "an event of block " + std::to_string(index_) +
                                              " has another index, or the block is not open");
    }
  }

  void begin_block(const json::Value& data) {
    if (is_open_) answer_.add_flaw("chunk_shape", "a block begins within another");
    is_open_ = true;
    check_index(data);
    const json::Value* const block = data.find("content_block");
    if (block == nullptr) return;
    is_call_ = word_at(*block, "type") == "tool_use";
    if (!is_call_) return;
    if (word_at(*block, "id").empty() || word_at(*block, "name").empty()) {
      answer_.add_flaw("call_begins_with_name", "the first event of a call has no id or name");
    }
    answer_.calls.push_back(
        {std::string(word_at(*block, "id")), std::string(word_at(*block, "name")), ""});
  }

  void take_delta(const json::Value& data) {
    check_index(data);
    const json::Value* const delta = data.find("delta");
    if (delta == nullptr) return answer_.add_flaw("chunk_shape", "a delta is missing");
    const std::string_view type = word_at(*delta, "type");
    if (type == "text_delta") {
      answer_.text += word_at(*delta, "text");
    } else if (type == "thinking_delta") {
      answer_.reasoning += word_at(*delta, "thinking");
    } else if (type == "input_json_delta" && is_call_) {
      ++answer_.argument_pieces;
      answer_.calls.back().arguments +=
          text_at(*delta, "partial_json", answer_, "arguments_are_text");
    }
  }

  void end_message(const json::Value& data) {
    if (answer_.finish != Finish::unknown) {
      answer_.add_flaw("finish_comes_once", "stop_reason comes twice");
    }
    if (const json::Value* delta = data.find("delta")) read_stop(*delta, answer_);
    if (const json::Value* note = data.find("tenon")) answer_.note = *note;
    const json::Value* const usage = data.find("usage");
    if (usage == nullptr) return;
    // What the end does not say again stands in message_start.
    json::Value both = start_usage_ == nullptr ? json::Value(json::Object{}) : *start_usage_;
    if (usage->if_object() != nullptr && both.if_object() != nullptr) {
      for (const json::Member& member : *usage->if_object()) {
        both.if_object()->set(member.key, member.value);
      }
    }
    read_usage(&both, "input_tokens", "output_tokens", "", answer_);
  }

  Answer& answer_;
  const json::Value* start_usage_ = nullptr;  // in the first event
  std::int64_t index_ = 0;
  bool is_open_ = false;
  bool is_call_ = false;
  bool is_first_ = true;
  bool is_ended_ = false;
};

}  // namespace

json::Object messages_body(const Question& question) {
  json::Array messages;
  std::string system;
  bool was_result = false;
  for (const Turn& turn : question.turns) {
    const bool is_result = turn.role == "tool";
    if (turn.role == "system" || turn.role == "developer") {
      system += (system.empty() ? "" : "\n") + turn.text;
    } else if (is_result) {
      append_result(turn, was_result, messages);
    } else {
      messages.push_back(messages_turn(turn));
    }
    was_result = is_result;
  }
  json::Object body{{"messages", std::move(messages)}};
  if (question.max_tokens) body.set("max_tokens", *question.max_tokens);
  if (question.temperature) body.set("temperature", *question.temperature);
  if (!system.empty()) body.set("system", system);
  json::Array tools;
  for (const OfferedTool& tool : question.tools) {
    json::Object said{
        {"name", tool.name}, {"description", tool.description}, {"input_schema", tool.parameters}};
    if (tool.strict) said.set("strict", true);
    tools.emplace_back(std::move(said));
  }
  if (!tools.empty()) body.set("tools", std::move(tools));
  set_choice(question, body);
  if (!question.stop.empty()) body.set("stop_sequences", json::Array{question.stop});
  if (question.answer_schema) {
    body.set("output_config",
             json::Object{{"format", json::Object{{"type", "json_schema"},
                                                  {"schema", *question.answer_schema}}}});
  }
  if (question.is_streamed) body.set("stream", true);
  return body;
}

void read_messages(const json::Value& document, Answer& answer) {
  if (word_at(document, "type") != "message" || word_at(document, "role") != "assistant" ||
      !is_text(document, "id") || !is_text(document, "model")) {
    answer.add_flaw("answer_shape", "`type`, `role`, `id` or `model` is missing or wrong");
  }
  const json::Value* const content = document.find("content");
  if (content == nullptr || content->if_array() == nullptr) {
    return answer.add_flaw("answer_shape", "`content` is no list");
  }
  for (const json::Value& block : *content->if_array()) read_block(block, answer);
  read_stop(document, answer);
  read_usage(document.find("usage"), "input_tokens", "output_tokens", "", answer);
  if (const json::Value* note = document.find("tenon")) answer.note = *note;
}

void read_messages_stream(const std::vector<ReadEvent>& events, Answer& answer) {
  MessagesStream stream(answer);
  for (const ReadEvent& event : events) stream.take(event);
  stream.end_stream();
}

}  // namespace tenon::app::verify
