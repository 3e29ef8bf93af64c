#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::batch {

/// Makes the grammar of a line of `tenon mask --batch` that has tools, with tool_grammar():
///
///     tools                  OpenAI's list
///     format                 a name
///     tool_choice?           "auto" (default), "none", "required", or {"function": {"name"}}
///     parallel_tool_calls?   default true
///     prompt_tail?           end of the prompt, from which an open reasoning section is known
[[nodiscard]] Expected<grammar::Rules> requested_calls(const json::Object& request,
                                                       const grammar::JsonOptions& options,
                                                       const vocab::Tokenizer& tokenizer);

/// The same for `tenon grammar`, in the language of another engine: the members above,
/// `whitespace?` and `to?`. The answer is that of grammar::print_line().
[[nodiscard]] Expected<json::Object> print_calls(const json::Object& request);

}  // namespace tenon::batch
