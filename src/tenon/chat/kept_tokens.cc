#include "tenon/chat/kept_tokens.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::chat {
namespace {

using message::ChatRequest;
using message::KeptPrefix;
using prompt::Prompt;
using vocab::TokenId;

// The end of the assistant's last message in a prompt.
struct AnswerEnd {
  TokenId marker = 0;
  std::size_t at = 0;  // where the marker's text begins
};

// Where the template's text at the end of a prompt begins.
std::size_t end_of_data(const Prompt& prompt) {
  std::size_t end = 0;
  for (const jinja::Span& span : prompt.spans) {
    if (span.is_data) end = span.end;
  }
  return end;
}

// The token that ends a turn in the text of the prompt from `begin` on.
std::optional<TokenId> end_in_template(const Prompt& answered, std::size_t begin,
                                       const vocab::Tokenizer& tokenizer,
                                       const EndsTurn& ends_turn) {
  std::vector<TokenId> ids;
  if (!prompt::tokenize(tokenizer, rest_of(answered, begin), ids)) return std::nullopt;
  const auto end = std::ranges::find_if(ids, ends_turn);
  return end == ids.end() ? std::nullopt : std::optional(*end);
}

// Finds where the assistant's last message ends: renders the conversation up to it, and looks for
// the end-of-turn token in the template's text behind it. Nothing if the whole prompt does not
// begin in the same way, since the kept tokens would then not be followed by what the template
// means.
std::optional<AnswerEnd> end_of_answer(const ChatRequest& request, const Prompt& rendered,
                                       std::size_t answer, const vocab::Tokenizer& tokenizer,
                                       const Render& render, const EndsTurn& ends_turn) {
  ChatRequest until = request;
  until.messages.resize(answer + 1);
  const auto answered = render(until, /*adds_generation_prompt=*/false);
  if (!answered) return std::nullopt;
  const TokenId last = request.previous_token_ids.back();
  const std::size_t behind = end_of_data(*answered);
  // A model may end its turn with another token than the template's.
  const bool is_written =
      ends_turn(last) && answered->text.find(tokenizer.bytes(last), behind) != std::string::npos;
  const auto id =
      is_written ? std::optional(last) : end_in_template(*answered, behind, tokenizer, ends_turn);
  const std::string_view marker = id ? tokenizer.bytes(*id) : std::string_view();
  const std::size_t at = answered->text.rfind(marker);
  if (marker.empty() || at == std::string::npos || at < behind) return std::nullopt;
  const std::string_view begin = std::string_view(answered->text).substr(0, at + marker.size());
  if (!rendered.text.starts_with(begin)) return std::nullopt;
  return AnswerEnd{*id, at};
}

// The tokens of the prompt from the marker at `begin` on, without the marker's own.
std::optional<std::vector<TokenId>> tokens_behind(const Prompt& prompt, std::size_t begin,
                                                  TokenId marker,
                                                  const vocab::Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  if (!prompt::tokenize(tokenizer, rest_of(prompt, begin), ids)) return std::nullopt;
  // A tokenizer may add its first token to any text, also in the middle of a prompt.
  const bool has_bos = !ids.empty() && tokenizer.bos() == ids.front() && ids.front() != marker;
  const auto first = ids.begin() + (has_bos ? 1 : 0);
  if (first == ids.end() || *first != marker) return std::nullopt;
  return std::vector<TokenId>(first + 1, ids.end());
}

}  // namespace

Prompt rest_of(const Prompt& prompt, std::size_t begin) {
  Prompt rest{.text = prompt.text.substr(begin)};
  for (const jinja::Span& span : prompt.spans) {
    if (span.end <= begin) continue;
    rest.spans.push_back({std::max(span.begin, begin) - begin, span.end - begin, span.is_data});
  }
  return rest;
}

std::vector<TokenId> tokens_so_far(const message::Finish& answer) {
  if (answer.tokens == nullptr) return {};
  std::vector<TokenId> tokens = answer.tokens->prompt;
  tokens.insert(tokens.end(), answer.tokens->output.begin(), answer.tokens->output.end());
  return tokens;
}

KeptPrefix nothing_kept(const ChatRequest& request) {
  const std::size_t count = request.previous_token_ids.size();
  return {.of = count, .why = count > 0 ? "no_tokens" : ""};
}

KeptPrefix keep_tokens(const ChatRequest& request, const Prompt& rendered,
                       const vocab::Tokenizer& tokenizer, const Render& render,
                       const EndsTurn& ends_turn, std::vector<TokenId>& tokens) {
  const std::span<const TokenId> before = request.previous_token_ids;
  KeptPrefix prefix{.of = before.size()};
  const auto lost = [&](std::string why) {
    const auto [one, other] = std::ranges::mismatch(before, tokens);
    prefix.kept = static_cast<std::size_t>(one - before.begin());
    if (prefix.kept < prefix.of) prefix.why = std::move(why);
    return prefix;
  };
  const auto last = std::ranges::find(request.messages.rbegin(), request.messages.rend(),
                                      message::Role::assistant, &message::Message::role);
  if (last == request.messages.rend()) return lost("no_answer");
  const auto answer = static_cast<std::size_t>(request.messages.rend() - last) - 1;
  const auto end = end_of_answer(request, rendered, answer, tokenizer, render, ends_turn);
  const auto behind = end ? tokens_behind(rendered, end->at, end->marker, tokenizer) : std::nullopt;
  if (!behind) return lost("template_not_prefix_stable");
  tokens.assign(before.begin(), before.end());
  if (before.back() != end->marker) tokens.push_back(end->marker);
  tokens.insert(tokens.end(), behind->begin(), behind->end());
  prefix.kept = before.size();
  return prefix;
}

}  // namespace tenon::chat
