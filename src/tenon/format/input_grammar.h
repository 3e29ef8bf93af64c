#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// What a custom tool takes, from its grammar: Lark as in docs/grammars.md, or a regular expression
/// as OpenAI has it (Rust's syntax), which the whole text matches. Fails with `invalid` and the
/// place (line and column, or byte of a pattern), and with `unsupported` naming what cannot be part
/// of a text, such as %json.
[[nodiscard]] Expected<grammar::Rules> read_input_grammar(const message::TextGrammar& grammar);

/// What the text of an answer is to be (message::ResponseFormat), which may have tokens and JSON
/// schemas, too. Fails in the same ways, and where there is nothing to choose from.
[[nodiscard]] Expected<grammar::Rules> read_text_grammar(const message::TextGrammar& grammar);

}  // namespace tenon::format
