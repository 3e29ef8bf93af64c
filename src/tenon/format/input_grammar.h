#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// The grammar of a custom tool's input: Lark as in docs/grammars.md, or a regular expression as
/// OpenAI defines it (Rust's syntax), which must match the whole text. Fails with `invalid` and the
/// place (line and column, or byte of a pattern), and with `unsupported`, naming a part that cannot
/// be text, such as %json.
[[nodiscard]] Expected<grammar::Rules> read_input_grammar(const message::TextGrammar& grammar);

/// The grammar of an answer's text (message::ResponseFormat), which may also have tokens and JSON
/// schemas. Fails in the same ways, and if a list of choices is empty.
[[nodiscard]] Expected<grammar::Rules> read_text_grammar(const message::TextGrammar& grammar);

}  // namespace tenon::format
