#include "tenon/api/answer_parts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include "tenon/api/fields.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/model.h"
#include "tenon/format/json_filter.h"
#include "tenon/http/sse.h"

// What the encoders share: the member `tenon` of an answer (AnswerNote), log probabilities, usage,
// arguments as an object for dialects that want one (call_input), and events of streams.

namespace tenon::api {
namespace {

using message::TokenLogprob;

// A token may be a part of a character, so `bytes` has what it is, and `token` a replacement
// character for what is not text by itself.
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

std::string_view word_of(message::TokenSource::From from) {
  using enum message::TokenSource::From;
  switch (from) {
    case chat_template:
      return "template";
    case message:
      return "message";
    case tools:
      return "tools";
    case given:
      return "given";
    case model:
      return "model";
    case other:
      break;
  }
  return "other";
}

// `{"from": "message", "message": 2, "role": "user", "tokens": 17}`: a run of tokens, and where it
// comes from.
json::Value encode_source(const message::TokenSource& source) {
  json::Object out{{"from", word_of(source.from)}};
  if (source.from == message::TokenSource::From::message) {
    out.set("message", std::uint64_t{source.message});
    out.set("role", message::role_name(source.role));
  }
  out.set("tokens", std::uint64_t{source.tokens});
  return out;
}

// What a model that learns from the answer should learn: what it wrote, now and in earlier turns.
// `sources` are runs of tokens that cover the prompt; with the answer's own run added they cover
// prompt and output, and the mask has a number for each of these tokens.
json::Value encode_tokens(const message::AnswerTokens& tokens, bool has_ids) {
  json::Object out;
  if (has_ids) {
    out.set("prompt_token_ids", encode_ids(tokens.prompt));
    out.set("token_ids", encode_ids(tokens.output));
  }
  if (!tokens.logprobs.empty()) {
    out.set("logprobs", json::Array(tokens.logprobs.begin(), tokens.logprobs.end()));
  }
  std::vector<message::TokenSource> sources = tokens.sources;
  if (sources.empty()) return out;
  sources.push_back({.from = message::TokenSource::From::model,
                     .tokens = static_cast<std::uint32_t>(tokens.output.size())});
  json::Array runs;
  json::Array mask;
  for (const message::TokenSource& source : sources) {
    const bool is_learned = source.from == message::TokenSource::From::model ||
                            (source.from == message::TokenSource::From::message &&
                             source.role == message::Role::assistant);
    mask.insert(mask.end(), source.tokens, json::Value(is_learned ? 1 : 0));
    runs.push_back(encode_source(source));
  }
  out.set("sources", std::move(runs));
  out.set("loss_mask", std::move(mask));
  return out;
}

// Cuts the last member off if it has begun but its value has not: `{"a": 1, "b` and `{"a": 1, "b":`
// become `{"a": 1`. Such a member has no value that could be closed. `levels` has the open objects
// and arrays, of which only the innermost can have such a member.
std::string_view without_begun_member(std::string_view json) {
  struct Level {
    bool is_object = false;
    bool has_value = false;     // the value of the present member, or item, has begun
    std::size_t member_at = 0;  // where the member begins, with the comma before it
  };
  std::vector<Level> levels;
  bool is_string = false;
  bool is_after_colon = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == ':') {
      is_after_colon = true;
      continue;
    }
    if (c == ',') {
      if (!levels.empty()) levels.back() = {levels.back().is_object, false, i};
      continue;
    }
    if (c == '}' || c == ']') {
      if (!levels.empty()) levels.pop_back();
      continue;
    }
    is_string = c == '"';
    if (!levels.empty() && (is_after_colon || !levels.back().is_object)) {
      levels.back().has_value = true;
    }
    is_after_colon = false;
    if (c == '{' || c == '[') levels.push_back({c == '{', false, i + 1});
  }
  const bool is_begun = !levels.empty() && levels.back().is_object && !levels.back().has_value;
  return is_begun ? json.substr(0, levels.back().member_at) : json;
}

}  // namespace

// `{"a": "x` becomes {"a": "x"}, and `[1]` becomes {"input": [1]}. What cannot be closed to JSON
// becomes an empty object: this dialect has no other place for it.
json::Object call_input(std::string_view arguments) {
  format::JsonFilter filter;
  std::string closed;
  filter.feed(without_begun_member(arguments), closed);
  filter.close(closed);
  Expected<json::Value> value = json::parse(closed);
  if (!value) return {};
  if (json::Object* object = value->if_object()) return std::move(*object);
  return {{std::string(message::kInput), *std::move(value)}};
}

// Collects what the answer's `tenon` tells. Most of it comes with Finish, once for each choice.
void AnswerNote::add(const message::ChatEvent& event) {
  if (std::holds_alternative<message::CallBegin>(event)) is_due_ = true;
  if (const auto* repair = std::get_if<message::Diagnostic>(&event)) {
    if (repair->code == chat::kTaintUnenforced) {
      is_tainted_ = true;
      return;
    }
    // Kept apart, because every choice reports the same ones: they are about the request.
    std::vector<message::Diagnostic>& list = repair->code == kLeftOut ? left_out_ : repairs_;
    if (list.size() < kMaxRepairs) list.push_back(*repair);
  }
  const auto* finish = std::get_if<message::Finish>(&event);
  if (finish != nullptr && is_due_) guarantee_ = finish->guarantee;
  if (finish != nullptr && !finish->format.empty()) format_ = finish->format;
  if (finish != nullptr && finish->usage.is_estimated) is_estimated_ = true;
  if (finish != nullptr && !finish->rlm.empty()) rlm_ = finish->rlm;
  if (finish != nullptr && finish->loop.repeats > 0) loop_ = finish->loop;
  if (finish != nullptr && finish->prefix.of > 0) prefix_ = finish->prefix;
  if (finish != nullptr && finish->tokens != nullptr) tokens_.push_back(finish->tokens);
}

void AnswerNote::add(const AnswerNote& choice) {
  is_tainted_ = is_tainted_ || choice.is_tainted_;
  is_estimated_ = is_estimated_ || choice.is_estimated_;
  if (!choice.rlm_.empty()) rlm_ = choice.rlm_;
  if (choice.loop_.repeats > 0) loop_ = choice.loop_;
  if (choice.prefix_.of > 0) prefix_ = choice.prefix_;
  tokens_.insert(tokens_.end(), choice.tokens_.begin(), choice.tokens_.end());
  if (choice.guarantee_) {
    // Guarantees are in the order of their strength, the weakest first.
    guarantee_ = std::min(guarantee_.value_or(*choice.guarantee_), *choice.guarantee_);
    format_ = choice.format_;
  }
  if (left_out_.empty()) left_out_ = choice.left_out_;
  const std::size_t room = std::min(kMaxRepairs - repairs_.size(), choice.repairs_.size());
  std::copy_n(choice.repairs_.begin(), room, std::back_inserter(repairs_));
}

json::Value AnswerNote::encode() const {
  json::Array list;
  for (const auto* const repairs : {&left_out_, &repairs_}) {
    for (const message::Diagnostic& repair : *repairs) {
      json::Object entry{{"code", repair.code}, {"message", repair.message}};
      if (!repair.path.empty()) entry.set("path", repair.path);
      list.emplace_back(std::move(entry));
    }
  }
  json::Object note{
      {"guarantee", guarantee_ ? json::Value(message::guarantee_name(*guarantee_)) : json::Value()},
      {"repairs", std::move(list)},
      {"format", format_.empty() ? json::Value() : json::Value(format_)}};
  if (is_tainted_) note.set("taint", "unenforced");
  if (is_estimated_) note.set("usage", "estimated");
  if (!rlm_.empty()) note.set("rlm", rlm_);
  if (loop_.repeats > 0) {
    note.set("loop", json::Object{{"tool", loop_.tool},
                                  {"repeats", std::uint64_t{loop_.repeats}},
                                  {"steps", std::uint64_t{loop_.steps}}});
  }
  if (prefix_.of > 0) {
    const bool is_lost = !prefix_.why.empty();
    note.set("prefix", json::Object{{"kept", std::uint64_t{prefix_.kept}},
                                    {"of", std::uint64_t{prefix_.of}},
                                    {"lost_at", is_lost ? json::Value(std::uint64_t{prefix_.kept})
                                                        : json::Value()},
                                    {"why", is_lost ? json::Value(prefix_.why) : json::Value()}});
  }
  if (!tokens_.empty()) {
    json::Array all;
    for (const auto& tokens : tokens_) all.emplace_back(encode_tokens(*tokens, has_ids_));
    // All choices tell the same parts, so the first one speaks for all.
    const bool is_empty = all.front() == json::Value(json::Object());
    json::Value told = all.size() == 1 ? std::move(all.front()) : json::Value(std::move(all));
    if (!is_empty) note.set("tokens", std::move(told));
  }
  return note;
}

bool wants_json(const message::ChatRequest& request) {
  return request.response_format.kind != message::ResponseFormat::Kind::text;
}

// The encoders need only the names: the arguments of these tools are written as an input.
std::vector<std::string> custom_names(const std::vector<message::Tool>& tools) {
  std::vector<std::string> names;
  for (const message::Tool& tool : tools) {
    if (tool.is_custom) names.push_back(tool.name);
  }
  return names;
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

json::Array encode_ids(std::span<const std::int32_t> ids) {
  return {ids.begin(), ids.end()};
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

void append_error_event(const ApiError& error, std::string& out) {
  http::append_sse(out, json::to_string(to_json(error)));
}

void append_done(std::string& out) {
  http::append_sse(out, "[DONE]");
}

// A comment, which parsers of server-sent events skip.
void append_keep_alive(std::string& out) {
  out += ": keep-alive\n\n";
}

void append_members(std::initializer_list<json::Member> members, std::string& data) {
  for (const json::Member& member : members) {
    data += ',';
    json::append_quoted(data, member.key);
    data += ':';
    json::append(data, member.value);
  }
}

void append_event(std::string_view type, std::initializer_list<json::Member> members,
                  std::string& out) {
  std::string data = R"({"type":)" + json::quoted(type);
  append_members(members, data);
  data += '}';
  http::append_sse(out, data, type);
}

void append_event(std::string_view type, const json::Object& members, std::string& out) {
  json::Object event{{"type", type}};
  for (const json::Member& member : members) event.set(member.key, member.value);
  http::append_sse(out, json::to_string(event), type);
}

}  // namespace tenon::api
