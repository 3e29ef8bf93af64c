#pragma once

#include <span>
#include <vector>

#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/prompt/prompt.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// Where each token of a prompt comes from, in runs that cover `ids`. The prompt says which bytes
/// are data; which message they are of is found by their letters and digits, in the order of the
/// messages, because a template may have trimmed a text or written arguments in its own way. A
/// token that reaches across a border counts where it begins. After a bounded amount of searching,
/// data is `other`.
[[nodiscard]] std::vector<message::TokenSource> token_sources(const prompt::Prompt& prompt,
                                                              const message::ChatRequest& request,
                                                              std::span<const vocab::TokenId> ids,
                                                              const vocab::Tokenizer& tokenizer);

}  // namespace tenon::chat
