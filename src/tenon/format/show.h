#pragma once

#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

namespace tenon::format {

/// What `tenon formats show` prints: `{"name", "aliases", "summary", "parallel", "tools",
/// "definition", "call"?, "calls"?, "results"?, "grammar"?}`. `tools` are an example, `call` and
/// `calls` are what a model writes to call one of them and two, `results` how results are written
/// where a template has no place for them, `grammar` is that of a demanded call in the dialect `to`
/// ("gbnf", "ebnf", "lark"), and `definition` the TOML. A definition without
/// `[[syntax]]` has no calls, and nothing of them is there. Fails where `to` is none of these or
/// cannot say it.
[[nodiscard]] Expected<json::Object> describe(const Format& format, std::string_view to);

}  // namespace tenon::format
