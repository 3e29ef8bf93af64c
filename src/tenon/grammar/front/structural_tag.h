#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// Adds a structural tag in the form of xgrammar, vLLM and SGLang, and returns its node:
///
///     {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<call"],
///      "tags": [{"type": "tag", "begin": "<call f>", "content": {"type": "json_schema",
///                "json_schema": {...}}, "end": "</call>"}]}}
///     {"structures": [{"begin": "<call f>", "schema": {...}, "end": "</call>"}],
///      "triggers": ["<call"]}                                        // the older form of the same
///
/// Styles of json_schema are in parameter_style.h. Fails with the path of the error
/// ("format.tags[0].end: ..."). An unknown member is refused, because it would be ignored
/// otherwise. docs/grammars.md has the formats.
[[nodiscard]] Expected<NodeId> add_structural_tag(Rules& rules, const json::Value& tag);

}  // namespace tenon::grammar
