#pragma once

#include <vector>

#include "tenon/chat/refusal.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// The tokens that the model reads for a continuation. A text gets bos at its beginning if the
/// tokenizer asks for it and the text lacks it; token ids are taken as they are. An empty text
/// begins a document: bos, or eos if there is no bos. A text with a suffix is written as models
/// were trained to fill gaps, with the vocabulary's control tokens for that; without such tokens it
/// is refused with unsupported_parameter (`suffix`). Waits for the tokenizer of an upstream.
[[nodiscard]] Result<std::vector<vocab::TokenId>, Refusal> tokens_of(
    const message::Continuation& asked, const vocab::Tokenizer& tokenizer);

}  // namespace tenon::chat
