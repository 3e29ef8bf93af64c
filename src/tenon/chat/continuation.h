#pragma once

#include <vector>

#include "tenon/chat/responder.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// What the model reads of a continuation. Its text begins with bos where the tokenizer asks for it
/// and the text does not; token ids are taken as they are. One that is empty begins a document:
/// bos, or eos where there is none. Text with a suffix is written as models were trained to fill
/// gaps, by the control tokens that the vocabulary has for it; refused with unsupported_parameter
/// of `suffix` where it has none. Waits for a tokenizer that runs elsewhere.
[[nodiscard]] Result<std::vector<vocab::TokenId>, Refusal> tokens_of(
    const message::Continuation& asked, const vocab::Tokenizer& tokenizer);

}  // namespace tenon::chat
