#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/prompt/prompt.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// Renders a request, with or without the beginning of the next answer.
using Render = std::function<Expected<prompt::Prompt>(const message::ChatRequest& request,
                                                      bool adds_generation_prompt)>;

/// The prompt from the byte `begin` on.
[[nodiscard]] prompt::Prompt rest_of(const prompt::Prompt& prompt, std::size_t begin);

/// ChatRequest::previous_token_ids for the request that comes after an answer; empty: the answer
/// did not tell its tokens.
[[nodiscard]] std::vector<vocab::TokenId> tokens_so_far(const message::Finish& answer);

/// For an engine that takes no tokens (`no_tokens`).
[[nodiscard]] message::KeptPrefix nothing_kept(const message::ChatRequest& request);

/// Whether an answer can end with a token.
using EndsTurn = std::function<bool(vocab::TokenId)>;

/// Makes `tokens`, those of the prompt `rendered` of `request`, begin with
/// ChatRequest::previous_token_ids: the model's earlier answer keeps the tokens that the model
/// chose, whatever the tokenizer would make of its text. What follows is the template's text behind
/// the assistant's last message, from the token on that ends it; that token is added if the answer
/// was cut. Where that is impossible, `tokens` stay, and the result says why:
///
///  - `no_answer`: there is no message of the assistant's;
///  - `template_not_prefix_stable`: the template writes the conversation up to there in another way
///    than before, or without a token that ends the turn.
[[nodiscard]] message::KeptPrefix keep_tokens(const message::ChatRequest& request,
                                              const prompt::Prompt& rendered,
                                              const vocab::Tokenizer& tokenizer,
                                              const Render& render, const EndsTurn& ends_turn,
                                              std::vector<vocab::TokenId>& tokens);

}  // namespace tenon::chat
