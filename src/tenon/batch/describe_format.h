#pragma once

#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

namespace tenon::batch {

/// The output of `tenon formats show`: `{"name", "aliases", "summary", "parallel", "tools",
/// "definition", "call"?, "calls"?, "results"?, "grammar"?}`. `tools` are an example; `call` and
/// `calls` are what a model writes to call one and two of them; `results` is how results are
/// written if a template has no place for them; `grammar` is the grammar of a required call in the
/// language `to` ("gbnf", "ebnf", "lark"); `definition` is the TOML. A definition without
/// `[[syntax]]` has no calls, and these members are missing. Fails if `to` is not one of the three,
/// or cannot express the grammar.
[[nodiscard]] Expected<json::Object> describe(const format::Format& format, std::string_view to);

}  // namespace tenon::batch
