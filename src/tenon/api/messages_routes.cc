// Anthropic's Messages, and the count of their tokens.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tenon/api/context_edits.h"
#include "tenon/api/messages_encode.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/prompt_prints.h"
#include "tenon/api/routes.h"
#include "tenon/base/ids.h"

namespace tenon::api {
namespace {

// The tokens of the prompt: counted, or estimated if it does not fit or an upstream makes it.
std::uint64_t tokens_of(const chat::Model& model, const message::ChatRequest& chat) {
  if (model.engine() == nullptr) return guessed_tokens(chat);
  const auto prepared = model.prepare(chat);
  return prepared ? prepared->tokens.size() : guessed_tokens(chat);
}

// Applies `context_management`. Null: there was nothing to apply.
json::Value edit(const chat::Model& model, MessagesRequest& request) {
  if (!request.edits) return {};
  return json::Object{
      {"applied_edits", apply_edits(*request.edits, request.chat,
                                    [&](const auto& chat) { return tokens_of(model, chat); })}};
}

// Whether the prompt begins as that of an earlier answer, and if not, why. Its print is kept under
// the id of this answer, when its tokens are known.
void diagnose(ServiceParts& parts, const Call& call, const MessagesRequest& request,
              MessageHead& head) {
  if (!request.previous_id) return;
  PromptPrint print = print_of(request.chat);
  const std::string owner(call.key.name());
  head.diagnostics.emplace();
  if (!request.previous_id->empty()) {
    if (const auto miss = parts.prints->compare(owner, *request.previous_id, print)) {
      json::Object reason{{"type", miss->type}};
      if (miss->tokens) reason.set("cache_missed_input_tokens", *miss->tokens);
      head.diagnostics = json::Object{{"cache_miss_reason", std::move(reason)}};
    }
  }
  head.ended = [prints = parts.prints, owner, id = head.id,
                print = std::move(print)](const message::Usage& usage) {
    prints->keep(owner, id, print, usage.prompt_tokens);
  };
}

void answer_message(ServiceParts& parts, Call& call, chat::Model& model, MessagesRequest& request) {
  json::Value applied = edit(model, request);
  // An upstream that makes the prompt itself says how long it was only at the end.
  const std::uint64_t guessed = model.engine() == nullptr ? guessed_tokens(request.chat) : 0;
  MessageHead head{
      .id = random_id("msg_"),
      .model = request.chat.model,
      .format = format_name(model),
      .request_id = call.headers.front().value,
      .omits_thinking = request.omits_thinking,
      .is_json = wants_json(request.chat),
      .context_management = std::move(applied),
      .guessed_tokens = guessed,
      .code_type = request.chat.code ? request.chat.code->type : std::string(),
  };
  diagnose(parts, call, request, head);
  auto encoder = std::make_unique<MessagesEncoder>(std::move(head));
  parts.answers.start(call, model,
                      {.encoder = std::move(encoder),
                       .chat = std::move(request.chat),
                       .stream = request.stream,
                       .left_out = std::move(request.left_out)});
}

void messages(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, decode_messages);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [&parts](auto& own, auto& model, auto& asked) {
    answer_message(parts, own, model, asked);
  });
}

void count_message(Call& call, chat::Model& model, MessagesRequest& request) {
  add_left_out(call, request.left_out);
  json::Object members;
  if (request.edits) {
    const std::uint64_t before = tokens_of(model, request.chat);
    static_cast<void>(edit(model, request));
    members.set("context_management", json::Object{{"original_input_tokens", before}});
  }
  respond_count(call, model, request.chat, std::move(members), kMessagesNames);
}

void count_tokens(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, decode_count_tokens);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), count_message);
}

}  // namespace

std::vector<Route> messages_routes(ServiceParts& parts) {
  return routes_of(parts, {{"POST", "/v1/messages", messages},
                           {"POST", "/v1/messages/count_tokens", count_tokens}});
}

}  // namespace tenon::api
