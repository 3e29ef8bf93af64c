// Chat Completions, Completions, and the prompt that a chat request becomes.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tenon/api/chat_encode.h"
#include "tenon/api/chat_request.h"
#include "tenon/api/completion_encode.h"
#include "tenon/api/completion_request.h"
#include "tenon/api/routes.h"
#include "tenon/base/ids.h"
#include "tenon/base/utf8.h"

namespace tenon::api {
namespace {

void answer_chat(ServiceParts& parts, Call& call, chat::Model& model,
                 ChatCompletionRequest& request) {
  ChatCompletionHead head{.id = random_id("chatcmpl-"),
                          .created = unix_time(),
                          .model = request.chat.model,
                          .fingerprint = parts.fingerprint,
                          .format = format_name(model),
                          .custom_tools = custom_names(request.chat.tools),
                          .has_functions = request.has_functions,
                          .is_json = wants_json(request.chat),
                          .token_ids = request.token_ids,
                          .usage_field = request.include_usage};
  auto encoder = std::make_unique<ChatCompletionEncoder>(
      std::move(head), ChatCompletionEncoder::Options{.choices = request.choices,
                                                      .include_usage = request.include_usage,
                                                      .logprobs = request.chat.logprobs});
  parts.answers.start(call, model,
                      {.encoder = std::move(encoder),
                       .chat = std::move(request.chat),
                       .choices = request.choices,
                       .stream = request.stream,
                       .left_out = std::move(request.left_out)});
}

void chat_completions(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, decode_chat_completion);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [&parts](auto& own, auto& model, auto& asked) {
    answer_chat(parts, own, model, asked);
  });
}

// The text of a prompt for the echo; ids are told by their bytes.
std::string text_of(const message::Continuation& prompt, const vocab::Tokenizer& tokenizer) {
  if (prompt.tokens.empty()) return prompt.text;
  std::string bytes;
  for (const vocab::TokenId id : prompt.tokens) bytes += tokenizer.bytes(id);
  return utf8::sanitized(bytes);
}

// Each candidate of each prompt is a choice of the answer; the encoder finds out which are given
// back.
void answer_completion(ServiceParts& parts, Call& call, chat::Model& model,
                       CompletionRequest& request) {
  if (!has_prompts(model, call)) return;
  CompletionHead head{.id = random_id("cmpl-"),
                      .created = unix_time(),
                      .model = request.chat.model,
                      .fingerprint = parts.fingerprint,
                      .prompts = request.prompts.size(),
                      .choices = request.choices,
                      .candidates = request.candidates,
                      .echoes = {},
                      .logprobs = request.chat.logprobs,
                      .token_ids = request.token_ids,
                      .is_json = wants_json(request.chat),
                      .include_usage = request.include_usage};
  for (const message::Continuation& prompt : request.prompts) {
    if (request.echo) head.echoes.push_back(text_of(prompt, model.engine()->tokenizer()));
  }
  // The best answers are found by their log probabilities.
  if (request.candidates > request.choices) request.chat.logprobs = true;
  const auto answers = static_cast<unsigned>(request.prompts.size() * request.candidates);
  parts.answers.start(call, model,
                      {.encoder = std::make_unique<CompletionEncoder>(std::move(head)),
                       .chat = std::move(request.chat),
                       .prompts = std::move(request.prompts),
                       .choices = answers,
                       .stream = request.stream,
                       .left_out = std::move(request.left_out)});
}

void completions(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, decode_completion);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [&parts](auto& own, auto& model, auto& asked) {
    answer_completion(parts, own, model, asked);
  });
}

// What the model would read, without asking it: the text, whose bytes are the template's and whose
// are data, the ids, and what was changed for the template.
void show_prompt(Call& call, chat::Model& model, const ChatCompletionRequest& request) {
  add_left_out(call, request.left_out);
  if (const auto refused = refused_by(request.chat, model)) return respond_error(call, *refused);
  auto prepared = model.prepare(request.chat);
  if (!prepared) return respond_error(call, from_refusal(prepared.error()));

  prompt::Prompt& prompt = prepared->prompt;
  // The beginning of the answer that a required call forces is a part of the prompt, too; it is the
  // template's own text.
  const std::size_t opening = prompt.text.size();
  for (const auto& [bytes, is_control] : prepared->opening) prompt.text += bytes;
  if (prompt.text.size() > opening) prompt.spans.push_back({opening, prompt.text.size(), false});
  json::Array spans;
  for (const jinja::Span& span : prompt.spans) {
    spans.emplace_back(json::Array{static_cast<std::uint64_t>(span.begin),
                                   static_cast<std::uint64_t>(span.end),
                                   span.is_data ? "data" : "template"});
  }
  json::Array tokens;
  for (const vocab::TokenId id : prepared->tokens) tokens.emplace_back(id);
  json::Array shaping;
  for (const std::string& change : prompt.shaping) shaping.emplace_back(change);
  json::Object ids;
  for (const auto& [sent, read] : prompt.ids) ids.set(sent, read);
  respond_json(call,
               json::Object{{"model", model.name()},
                            {"prompt", std::move(prompt.text)},
                            {"spans", std::move(spans)},
                            {"tokens", std::move(tokens)},
                            {"token_count", static_cast<std::uint64_t>(prepared->tokens.size())},
                            {"context_tokens", std::uint64_t{model.capabilities().context_tokens}},
                            {"shaping", std::move(shaping)},
                            {"ids", std::move(ids)}});
}

void render(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, decode_chat_completion);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), show_prompt);
}

}  // namespace

std::vector<Route> chat_routes(ServiceParts& parts) {
  return routes_of(parts, {{"POST", "/v1/chat/completions", chat_completions},
                           {"POST", "/v1/chat/completions/render", render},
                           {"POST", "/v1/completions", completions}});
}

}  // namespace tenon::api
