#include "tenon/api/chat_encode.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "tenon/http/sse.h"

// How chunks are written
//
// A stream has a chunk for each token, so a chunk is put together from texts and not from a tree of
// JSON values:
//
//     prefix_ {"id":...,"choices":[{"index":0,"delta":{
//     delta_  "content":"Hi"
//             },"logprobs":null,"finish_reason":null}]
//     suffix_ ,"usage":null            (if a chunk with the usage follows)
//             }
//
// prefix_ and suffix_ are made once for each choice. A whole answer is folded from the same events
// (message::Fold) and encoded once, at its end.

namespace tenon::api {
namespace {

using message::FinishReason;
using message::TokenLogprob;

json::Value encode_logprobs(const std::vector<TokenLogprob>& logprobs) {
  return json::Object{{"content", encode_token_logprobs(logprobs)}, {"refusal", nullptr}};
}

json::Object head_of(const ChatCompletionHead& head, std::string_view object) {
  json::Object out;
  out.set("id", head.id);
  out.set("object", object);
  out.set("created", head.created);
  out.set("model", head.model);
  out.set("system_fingerprint", head.fingerprint);
  return out;
}

std::string chunk_prefix(const ChatCompletionHead& head, unsigned choice) {
  std::string prefix = json::to_string(head_of(head, "chat.completion.chunk"));
  prefix.pop_back();  // the closing brace
  prefix += R"(,"choices":[{"index":)" + std::to_string(choice) + R"(,"delta":{)";
  return prefix;
}

void append_member(std::string& out, std::string_view key, std::string_view text) {
  out += '"';
  out += key;
  out += "\":";
  json::append_quoted(out, text);
}

// Empty for a failure, for which this dialect has no reason: the stream ends with an error event.
std::string_view wire_reason(FinishReason reason, bool has_functions) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return has_functions ? "function_call" : "tool_calls";
    default:
      return {};
  }
}

bool is_custom(const std::vector<std::string>& custom_tools, const std::string& name) {
  return std::ranges::find(custom_tools, name) != custom_tools.end();
}

// A custom tool's call has its input decoded, not the arguments around it: `{"input": "a\nb"}`
// becomes two lines of text.
json::Value encode_call(const message::ToolCall& call, const ChatCompletionHead& head) {
  if (!is_custom(head.custom_tools, call.name)) {
    json::Object function{{"name", call.name}, {"arguments", call.arguments}};
    return json::Object{{"id", call.id}, {"type", "function"}, {"function", std::move(function)}};
  }
  InputReader reader;
  std::string input;
  reader.feed(call.arguments, input);
  reader.finish(input);
  json::Object custom{{"name", call.name}, {"input", std::move(input)}};
  return json::Object{{"id", call.id}, {"type", "custom"}, {"custom", std::move(custom)}};
}

json::Value encode_message(const message::Message& message, const ChatCompletionHead& head) {
  json::Object out;
  out.set("role", "assistant");
  out.set("content", message.content ? json::Value(*message.content) : json::Value());
  out.set("refusal", nullptr);
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  if (message.tool_calls.empty()) return out;
  // The form before tools: one call, without an id, in place of the list.
  if (head.has_functions) {
    const message::ToolCall& call = message.tool_calls.front();
    out.set("function_call", json::Object{{"name", call.name}, {"arguments", call.arguments}});
    return out;
  }
  json::Array calls;
  for (const message::ToolCall& call : message.tool_calls) {
    calls.push_back(encode_call(call, head));
  }
  out.set("tool_calls", std::move(calls));
  return out;
}

// `tenon.approvals`: the calls that wait, and the messages of the answer, with which the client
// goes on.
json::Value encode_approvals(const message::ApprovalsWanted& wanted,
                             const ChatCompletionHead& head) {
  json::Array calls;
  for (const auto& one : wanted.calls) {
    calls.emplace_back(json::Object{{"id", one.call.id},
                                    {"server", one.tool.server},
                                    {"tool", one.tool.tool},
                                    {"name", one.call.name},
                                    {"arguments", one.call.arguments}});
  }
  json::Array messages;
  for (const message::Message& message : wanted.messages) {
    if (message.role != message::Role::tool) {
      messages.push_back(encode_message(message, head));
      continue;
    }
    messages.emplace_back(json::Object{
        {"role", "tool"}, {"tool_call_id", message.tool_call_id}, {"content", message.text()}});
  }
  return json::Object{{"calls", std::move(calls)}, {"messages", std::move(messages)}};
}

}  // namespace

ChunkEncoder::ChunkEncoder(const ChatCompletionHead& head, unsigned choice)
    : prefix_(chunk_prefix(head, choice)),
      suffix_(head.usage_field ? R"(,"usage":null)" : ""),
      custom_tools_(head.custom_tools),
      has_functions_(head.has_functions),
      has_token_ids_(head.token_ids),
      note_(head.format, head.is_json) {
  if (has_token_ids_) note_.leave_out_ids();
}

// The first chunk has the role and no content, as at OpenAI.
void ChunkEncoder::begin(std::string& out) {
  delta_ = R"("role":"assistant","content":null)";
  append_chunk({}, nullptr, out);
}

void ChunkEncoder::add(const message::ChatEvent& event, const std::vector<TokenLogprob>& logprobs,
                       std::string& out) {
  note_.add(event);
  const auto* finish = std::get_if<message::Finish>(&event);
  if (finish != nullptr && wire_reason(finish->reason, has_functions_).empty()) finish = nullptr;
  delta_.clear();
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    append_member(delta_, "content", content->text);
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    append_member(delta_, "reasoning_content", reasoning->text);
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    append_call_begin(*begin);
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    append_arguments(arguments->index, arguments->text);
  } else if (const auto* end = std::get_if<message::CallEnd>(&event)) {
    append_end(end->index);
  } else if (const auto* wanted = std::get_if<message::ApprovalsWanted>(&event)) {
    // The calls that wait come as calls of functions, whole, so that a client which does not know
    // approvals sees why the answer has ended.
    approvals_ = encode_approvals(*wanted, {.custom_tools = custom_tools_});
    json::Array calls;
    for (const auto& one : wanted->calls) {
      json::Object function{{"name", one.call.name}, {"arguments", one.call.arguments}};
      calls.emplace_back(json::Object{{"index", std::uint64_t{calls.size()}},
                                      {"id", one.call.id},
                                      {"type", "function"},
                                      {"function", std::move(function)}});
    }
    delta_ = "\"tool_calls\":";
    json::append(delta_, calls);
  }
  // An event without text may still carry tokens with logprobs.
  if (delta_.empty() && finish == nullptr && logprobs.empty()) return;
  append_chunk(logprobs, finish, out);
}

// The first piece of a call has all of its members, with empty arguments; later pieces have only
// the index and more arguments. Clients join them by the index.
void ChunkEncoder::append_call_begin(const message::CallBegin& event) {
  if (has_functions_) {
    delta_ += R"("function_call":{)";
    append_member(delta_, "name", event.name);
    delta_ += R"(,"arguments":""})";
    return;
  }
  const bool has_input = is_custom(custom_tools_, event.name);
  if (has_input) inputs_.try_emplace(event.index);
  delta_ += R"("tool_calls":[{"index":)" + std::to_string(event.index) + ',';
  append_member(delta_, "id", event.id);
  delta_ += has_input ? R"(,"type":"custom","custom":{)" : R"(,"type":"function","function":{)";
  append_member(delta_, "name", event.name);
  delta_ += has_input ? R"(,"input":""}}])" : R"(,"arguments":""}}])";
}

// A custom tool's arguments become pieces of its input. A piece that has none of the input, such as
// `{"inp`, writes nothing.
void ChunkEncoder::append_arguments(std::uint32_t index, std::string_view text) {
  if (has_functions_) {
    delta_ += R"("function_call":{)";
    append_member(delta_, "arguments", text);
    delta_ += '}';
    return;
  }
  const auto custom = inputs_.find(index);
  if (custom == inputs_.end()) return append_call_delta(index, "function", "arguments", text);
  std::string input;
  custom->second.feed(text, input);
  if (!input.empty()) append_call_delta(index, "custom", "input", input);
}

void ChunkEncoder::append_end(std::uint32_t index) {
  const auto custom = inputs_.find(index);
  if (custom == inputs_.end()) return;
  std::string input;
  custom->second.finish(input);
  if (!input.empty()) append_call_delta(index, "custom", "input", input);
  inputs_.erase(custom);
}

void ChunkEncoder::append_call_delta(std::uint32_t index, std::string_view kind,
                                     std::string_view key, std::string_view text) {
  delta_ += R"("tool_calls":[{"index":)";
  delta_ += std::to_string(index);
  delta_ += ",\"";
  delta_ += kind;
  delta_ += "\":{";
  append_member(delta_, key, text);
  delta_ += "}}]";
}

void ChunkEncoder::append_chunk(const std::vector<TokenLogprob>& logprobs,
                                const message::Finish* finish, std::string& out) {
  out += "data: ";  // one line, since the JSON has no line breaks
  out += prefix_;
  out += delta_;
  out += R"(},"logprobs":)";
  if (logprobs.empty()) {
    out += "null";
  } else {
    json::append(out, encode_logprobs(logprobs));
  }
  out += R"(,"finish_reason":)";
  if (finish == nullptr) {
    out += "null}]";
  } else {
    json::append_quoted(out, wire_reason(finish->reason, has_functions_));
    // As vLLM places them: the ids of the output beside the choice's reason, those of the prompt
    // beside the choices.
    const bool tells_ids = has_token_ids_ && finish->tokens != nullptr;
    if (tells_ids) {
      out += R"(,"token_ids":)";
      json::append(out, encode_ids(finish->tokens->output));
    }
    out += "}]";
    if (tells_ids) {
      out += R"(,"prompt_token_ids":)";
      json::append(out, encode_ids(finish->tokens->prompt));
    }
    out += R"(,"tenon":)";
    json::Value note = note_.encode();
    if (!approvals_.is_null()) note.if_object()->set("approvals", std::move(approvals_));
    json::append(out, note);
  }
  out += suffix_;
  out += "}\n\n";
}

void append_usage_chunk(const ChatCompletionHead& head, const message::Usage& usage,
                        std::string& out) {
  json::Object chunk = head_of(head, "chat.completion.chunk");
  chunk.set("choices", json::Array());
  chunk.set("usage", encode_usage(usage));
  http::append_sse(out, json::to_string(chunk));
}

ChatCompletionEncoder::ChatCompletionEncoder(ChatCompletionHead head, Options options)
    : head_(std::move(head)), options_(options) {
  encoders_.reserve(options.choices);
  for (unsigned i = 0; i < options.choices; ++i) encoders_.emplace_back(head_, i);
}

// Errors of the layers below name Chat Completions' fields, `tools[0].function.name` for example; a
// request with `functions` has them under other paths.
std::span<const FieldName> ChatCompletionEncoder::field_names() const {
  static constexpr FieldName kOfFunctions[] = {{"tools", "functions"}, {".function.", "."}};
  if (head_.has_functions) return kOfFunctions;
  return {};
}

void ChatCompletionEncoder::begin(std::string& out) {
  for (ChunkEncoder& encoder : encoders_) encoder.begin(out);
}

void ChatCompletionEncoder::end(const message::Usage& usage, std::string& out) {
  if (options_.include_usage) append_usage_chunk(head_, usage, out);
  append_done(out);
}

void ChatCompletionEncoder::fail(const ApiError& error, std::string& out) {
  append_error_event(error, out);
  append_done(out);
}

void ChatCompletionEncoder::keep(unsigned choice, const message::ChatEvent& event,
                                 const std::vector<TokenLogprob>& logprobs) {
  // A stream never comes here, so it pays nothing for them.
  if (kept_.empty()) {
    kept_.resize(options_.choices,
                 {.fold = {}, .note = AnswerNote(head_.format, head_.is_json), .logprobs = {}});
  }
  Kept& kept = kept_[choice];
  kept.note.add(event);
  if (const auto* wanted = std::get_if<message::ApprovalsWanted>(&event)) {
    kept.approvals = encode_approvals(*wanted, head_);
  }
  if (!std::holds_alternative<message::Diagnostic>(event))
    kept.fold.add(event);  // the note has them
  kept.logprobs.insert(kept.logprobs.end(), logprobs.begin(), logprobs.end());
}

// One document of all choices. The note is that of all of them, and the prompt's ids are told once.
json::Value ChatCompletionEncoder::whole(const message::Usage& usage) {
  json::Array list;
  std::shared_ptr<const message::AnswerTokens> prompt;  // the same for all choices
  AnswerNote note(head_.format, head_.is_json);
  if (head_.token_ids) note.leave_out_ids();
  for (const Kept& choice : kept_) {
    note.add(choice.note);
    json::Object entry;
    entry.set("index", std::uint64_t{list.size()});
    entry.set("message", encode_message(choice.fold.message(), head_));
    entry.set("logprobs", options_.logprobs ? encode_logprobs(choice.logprobs) : json::Value());
    entry.set("finish_reason", wire_reason(choice.fold.finish().reason, head_.has_functions));
    const auto& tokens = choice.fold.finish().tokens;
    if (head_.token_ids && tokens != nullptr) {
      entry.set("token_ids", encode_ids(tokens->output));
      prompt = tokens;
    }
    list.emplace_back(std::move(entry));
  }
  json::Object out = head_of(head_, "chat.completion");
  out.set("choices", std::move(list));
  if (prompt != nullptr) out.set("prompt_token_ids", encode_ids(prompt->prompt));
  out.set("usage", encode_usage(usage));
  json::Value told = note.encode();
  for (Kept& choice : kept_) {
    if (!choice.approvals.is_null()) {
      told.if_object()->set("approvals", std::move(choice.approvals));
    }
  }
  out.set("tenon", std::move(told));
  return out;
}

}  // namespace tenon::api
