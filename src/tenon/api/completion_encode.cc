#include "tenon/api/completion_encode.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <variant>

#include "tenon/base/hex.h"
#include "tenon/base/utf8.h"
#include "tenon/http/sse.h"

// How completions are written
//
// A request has several prompts, each with several answers ("candidates", `best_of`), of which the
// likeliest become choices. answers_ has them all: those of the first prompt, then those of the
// second. In a stream each answer is a choice (best_of is refused there), with a chunk for each
// event. Offsets of log probabilities count characters from the beginning of the choice's text,
// which is the prompt if the client asked for an echo.

namespace tenon::api {
namespace {

using message::Finish;
using message::FinishReason;
using message::TokenLogprob;

// Whether it is a byte of a UTF-8 character behind its first.
bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// As OpenAI writes tokens that are not text by themselves.
std::string token_text(const std::string& bytes) {
  if (utf8::is_valid(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text += "\\x";
    append_hex(text, static_cast<unsigned char>(byte));
  }
  return text;
}

// Includes the chosen token, which may not be among the likeliest.
json::Value encode_top(const TokenLogprob& token) {
  json::Object top;
  for (const auto& [bytes, logprob] : token.top) {
    const std::string text = token_text(bytes);
    if (!top.contains(text)) top.set(text, logprob);
  }
  const std::string chosen = token_text(token.bytes);
  if (!top.contains(chosen)) top.set(chosen, token.logprob);
  return top;
}

// The mean per token, so that short answers are not the likeliest just because they are short.
double mean(const std::vector<TokenLogprob>& logprobs) {
  if (logprobs.empty()) return 0.0;
  double sum = 0.0;
  for (const TokenLogprob& token : logprobs) sum += token.logprob;
  return sum / static_cast<double>(logprobs.size());
}

}  // namespace

CompletionEncoder::CompletionEncoder(CompletionHead head)
    : head_(std::move(head)),
      answers_(head_.prompts * head_.candidates, Answer{.note = AnswerNote("", head_.is_json)}) {
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    answers_[i].offset = utf8::length(echo_of(i));
    if (head_.token_ids) answers_[i].note.leave_out_ids();
  }
}

std::string_view CompletionEncoder::echo_of(std::size_t answer) const {
  if (head_.echoes.empty()) return {};
  return head_.echoes[answer / head_.candidates];
}

json::Object CompletionEncoder::document(json::Array choices) const {
  return json::Object{{"id", head_.id},
                      {"object", "text_completion"},
                      {"created", head_.created},
                      {"model", head_.model},
                      {"system_fingerprint", head_.fingerprint},
                      {"choices", std::move(choices)}};
}

json::Value CompletionEncoder::choice(std::size_t index, std::string_view text,
                                      json::Value logprobs, const Finish* finish) const {
  // A completion has no calls, so every other reason is "stop".
  const bool is_cut = finish != nullptr && finish->reason == FinishReason::length;
  json::Object out{{"text", text},
                   {"index", static_cast<std::uint64_t>(index)},
                   {"logprobs", std::move(logprobs)},
                   {"finish_reason",
                    finish == nullptr ? json::Value() : json::Value(is_cut ? "length" : "stop")}};
  if (head_.token_ids && finish != nullptr && finish->tokens != nullptr) {
    out.set("prompt_token_ids", encode_ids(finish->tokens->prompt));
    out.set("token_ids", encode_ids(finish->tokens->output));
  }
  return out;
}

// Four lists of the same length. `offset` is where the first token begins, in characters of the
// choice's text, and becomes where the next one will.
json::Value CompletionEncoder::encode_logprobs(const std::vector<TokenLogprob>& logprobs,
                                               std::size_t& offset) const {
  json::Array tokens;
  json::Array values;
  json::Array tops;
  json::Array offsets;
  for (const TokenLogprob& token : logprobs) {
    tokens.emplace_back(token_text(token.bytes));
    values.emplace_back(token.logprob);
    tops.push_back(encode_top(token));
    // The offset of a token inside a character is that of the character.
    const bool is_inside =
        offset > 0 && !token.bytes.empty() && continues_character(token.bytes.front());
    offsets.emplace_back(static_cast<std::uint64_t>(offset - (is_inside ? 1 : 0)));
    offset += static_cast<std::size_t>(
        std::ranges::count_if(token.bytes, [](char byte) { return !continues_character(byte); }));
  }
  return json::Object{{"tokens", std::move(tokens)},
                      {"token_logprobs", std::move(values)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

// `finished`: not null if the choice ends with this chunk.
void CompletionEncoder::append_chunk(json::Value choice, const Answer* finished,
                                     std::string& out) const {
  json::Object chunk = document(json::Array{std::move(choice)});
  if (finished != nullptr) chunk.set("tenon", finished->note.encode());
  if (head_.include_usage) chunk.set("usage", nullptr);
  http::append_sse(out, json::to_string(chunk));
}

void CompletionEncoder::begin(std::string& out) {
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const std::string_view echo = echo_of(i);
    if (!echo.empty()) append_chunk(choice(i, echo, nullptr, nullptr), nullptr, out);
  }
}

void CompletionEncoder::add(unsigned answer, const message::ChatEvent& event,
                            const std::vector<TokenLogprob>& logprobs, std::string& out) {
  Answer& of = answers_[answer];
  const auto* content = std::get_if<message::ContentDelta>(&event);
  const auto* finish = std::get_if<Finish>(&event);
  const bool is_failure = finish != nullptr && (finish->reason == FinishReason::error ||
                                                finish->reason == FinishReason::cancelled);
  of.note.add(event);
  // A failure is written by fail(), for all answers at once.
  if (is_failure || (content == nullptr && finish == nullptr && logprobs.empty())) return;
  json::Value tokens;
  if (head_.logprobs && !logprobs.empty()) tokens = encode_logprobs(logprobs, of.offset);
  const std::string_view text = content == nullptr ? std::string_view() : content->text;
  append_chunk(choice(answer, text, std::move(tokens), finish), finish == nullptr ? nullptr : &of,
               out);
}

void CompletionEncoder::end(const message::Usage& usage, std::string& out) {
  if (head_.include_usage) {
    json::Object chunk = document({});
    chunk.set("usage", encode_usage(usage));
    http::append_sse(out, json::to_string(chunk));
  }
  append_done(out);
}

void CompletionEncoder::fail(const ApiError& error, std::string& out) {
  append_error_event(error, out);
  append_done(out);
}

void CompletionEncoder::keep_alive(std::string& out) {
  append_keep_alive(out);
}

void CompletionEncoder::keep(unsigned answer, const message::ChatEvent& event,
                             const std::vector<TokenLogprob>& logprobs) {
  Answer& of = answers_[answer];
  of.note.add(event);
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) of.text += content->text;
  if (const auto* finish = std::get_if<Finish>(&event)) of.finish = *finish;
  of.logprobs.insert(of.logprobs.end(), logprobs.begin(), logprobs.end());
}

// The indices of the answers that become choices: for each prompt the likeliest, best first.
std::vector<std::size_t> CompletionEncoder::chosen() const {
  std::vector<std::size_t> places;
  for (std::size_t prompt = 0; prompt < head_.prompts; ++prompt) {
    std::vector<std::size_t> candidates(head_.candidates);
    std::iota(candidates.begin(), candidates.end(), prompt * head_.candidates);
    if (head_.candidates > head_.choices) {
      std::ranges::stable_sort(candidates, std::greater<>(),
                               [this](std::size_t place) { return answers_[place].likelihood; });
    }
    places.insert(places.end(), candidates.begin(), candidates.begin() + head_.choices);
  }
  return places;
}

json::Value CompletionEncoder::whole(const message::Usage& usage) {
  for (Answer& answer : answers_) answer.likelihood = mean(answer.logprobs);
  json::Array choices;
  AnswerNote note("", head_.is_json);
  if (head_.token_ids) note.leave_out_ids();
  for (const std::size_t place : chosen()) {
    Answer& answer = answers_[place];
    note.add(answer.note);
    json::Value logprobs;
    if (head_.logprobs) logprobs = encode_logprobs(answer.logprobs, answer.offset);
    choices.push_back(choice(choices.size(), std::string(echo_of(place)) + answer.text,
                             std::move(logprobs), &answer.finish));
  }
  json::Object out = document(std::move(choices));
  out.set("usage", encode_usage(usage));
  out.set("tenon", note.encode());
  return out;
}

}  // namespace tenon::api
