#include "tenon/api/chat_encode.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "tenon/base/utf8.h"
#include "tenon/http/sse.h"

namespace tenon::api {
namespace {

using message::FinishReason;
using message::TokenLogprob;

// Enough to see what is going on; a model that errs at every step must not fill our memory.
constexpr std::size_t kMaxRepairs = 64;

json::Value encode_token(const std::string& bytes, double logprob) {
  json::Array values;
  for (const char byte : bytes)
    values.emplace_back(static_cast<int>(static_cast<unsigned char>(byte)));
  json::Object entry;
  entry.set("token", utf8::sanitized(bytes));
  entry.set("logprob", logprob);
  entry.set("bytes", std::move(values));
  return entry;
}

json::Value encode_logprobs(const std::vector<TokenLogprob>& logprobs) {
  return json::Object{{"content", encode_token_logprobs(logprobs)}, {"refusal", nullptr}};
}

json::Object head_of(const AnswerHead& head, std::string_view object) {
  json::Object out;
  out.set("id", head.id);
  out.set("object", object);
  out.set("created", head.created);
  out.set("model", head.model);
  out.set("system_fingerprint", head.fingerprint);
  return out;
}

std::string chunk_prefix(const AnswerHead& head, unsigned choice) {
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

json::Value encode_call(const message::ToolCall& call, const AnswerHead& head) {
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

json::Value encode_message(const message::Message& message, const AnswerHead& head) {
  json::Object out;
  out.set("role", "assistant");
  const bool is_silent = !message.content && !message.tool_calls.empty();
  out.set("content", is_silent ? json::Value() : json::Value(message.content.value_or("")));
  out.set("refusal", nullptr);
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  if (message.tool_calls.empty()) return out;
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

}  // namespace

std::vector<std::string> custom_names(const std::vector<message::Tool>& tools) {
  std::vector<std::string> names;
  for (const message::Tool& tool : tools) {
    if (tool.is_custom) names.push_back(tool.name);
  }
  return names;
}

ChunkEncoder::ChunkEncoder(const AnswerHead& head, unsigned choice)
    : prefix_(chunk_prefix(head, choice)),
      suffix_(head.usage_field ? R"(,"usage":null)" : ""),
      format_(head.format),
      custom_tools_(head.custom_tools),
      has_functions_(head.has_functions),
      has_guarantee_(head.is_json) {}

void ChunkEncoder::begin(std::string& out) {
  delta_ = R"("role":"assistant","content":null)";
  append_chunk({}, nullptr, out);
}

void ChunkEncoder::add(const message::ChatEvent& event, const std::vector<TokenLogprob>& logprobs,
                       std::string& out) {
  if (const auto* repair = std::get_if<message::Diagnostic>(&event)) {
    if (repairs_.size() < kMaxRepairs) repairs_.push_back(*repair);
  }
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
  }
  // What says nothing may still have tokens with logprobs behind it.
  if (delta_.empty() && finish == nullptr && logprobs.empty()) return;
  append_chunk(logprobs, finish, out);
}

void ChunkEncoder::append_call_begin(const message::CallBegin& event) {
  has_guarantee_ = true;
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
  out += "data: ";  // one line: JSON breaks none
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
    out += R"(}],"tenon":)";
    std::optional<message::Guarantee> guarantee;
    if (has_guarantee_) guarantee = finish->guarantee;
    json::append(out, encode_guarantee(format_, guarantee, repairs_));
  }
  out += suffix_;
  out += "}\n\n";
}

void append_usage_chunk(const AnswerHead& head, const message::Usage& usage, std::string& out) {
  json::Object chunk = head_of(head, "chat.completion.chunk");
  chunk.set("choices", json::Array());
  chunk.set("usage", encode_usage(usage));
  http::append_sse(out, json::to_string(chunk));
}

void append_error_event(const ApiError& error, std::string& out) {
  http::append_sse(out, json::to_string(to_json(error)));
}

void append_done(std::string& out) {
  http::append_sse(out, "[DONE]");
}

void append_keep_alive(std::string& out) {
  out += ": keep-alive\n\n";
}

json::Array encode_token_logprobs(const std::vector<TokenLogprob>& logprobs) {
  json::Array content;
  for (const TokenLogprob& token : logprobs) {
    json::Value entry = encode_token(token.bytes, token.logprob);
    json::Array top;
    for (const auto& [bytes, logprob] : token.top) top.push_back(encode_token(bytes, logprob));
    entry.if_object()->set("top_logprobs", std::move(top));
    content.push_back(std::move(entry));
  }
  return content;
}

json::Value encode_usage(const message::Usage& usage) {
  const auto number = [](std::uint64_t count) { return json::Value(count); };
  json::Object prompt_details{{"cached_tokens", number(usage.cached_tokens)}};
  json::Object completion_details{{"reasoning_tokens", number(usage.reasoning_tokens)}};
  return json::Object{
      {"prompt_tokens", number(usage.prompt_tokens)},
      {"completion_tokens", number(usage.completion_tokens)},
      {"total_tokens", number(std::uint64_t{usage.prompt_tokens} + usage.completion_tokens)},
      {"prompt_tokens_details", std::move(prompt_details)},
      {"completion_tokens_details", std::move(completion_details)}};
}

json::Value encode_guarantee(const std::string& format, std::optional<message::Guarantee> guarantee,
                             const std::vector<message::Diagnostic>& repairs) {
  json::Array list;
  for (const message::Diagnostic& repair : repairs) {
    if (list.size() == kMaxRepairs) break;
    list.emplace_back(json::Object{{"code", repair.code}, {"message", repair.message}});
  }
  return json::Object{
      {"guarantee", guarantee ? json::Value(message::guarantee_name(*guarantee)) : json::Value()},
      {"repairs", std::move(list)},
      {"format", format.empty() ? json::Value() : json::Value(format)}};
}

json::Value encode_completion(const AnswerHead& head, const std::vector<ChoiceResult>& choices,
                              const message::Usage& usage) {
  json::Array list;
  std::optional<message::Guarantee> guarantee;  // the weakest
  std::vector<message::Diagnostic> repairs;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const ChoiceResult& choice = choices[i];
    const message::Finish& finish = choice.fold.finish();
    if (head.is_json || !choice.fold.message().tool_calls.empty()) {
      guarantee = std::min(guarantee.value_or(finish.guarantee), finish.guarantee);
    }
    const std::vector<message::Diagnostic>& found = choice.fold.diagnostics();
    repairs.insert(repairs.end(), found.begin(), found.end());
    json::Object entry;
    entry.set("index", static_cast<std::int64_t>(i));
    entry.set("message", encode_message(choice.fold.message(), head));
    entry.set("logprobs", choice.wants_logprobs ? encode_logprobs(choice.logprobs) : json::Value());
    entry.set("finish_reason", wire_reason(finish.reason, head.has_functions));
    list.emplace_back(std::move(entry));
  }
  json::Object out = head_of(head, "chat.completion");
  out.set("choices", std::move(list));
  out.set("usage", encode_usage(usage));
  out.set("tenon", encode_guarantee(head.format, guarantee, repairs));
  return out;
}

ChatCompletionEncoder::ChatCompletionEncoder(AnswerHead head, Options options)
    : head_(std::move(head)), options_(options) {
  encoders_.reserve(options.choices);
  for (unsigned i = 0; i < options.choices; ++i) encoders_.emplace_back(head_, i);
}

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
  if (results_.empty()) results_.resize(options_.choices, {.wants_logprobs = options_.logprobs});
  ChoiceResult& result = results_[choice];
  result.fold.add(event);
  result.logprobs.insert(result.logprobs.end(), logprobs.begin(), logprobs.end());
}

}  // namespace tenon::api
