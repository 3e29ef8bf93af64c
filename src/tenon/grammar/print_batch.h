#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules.h"
#include "tenon/json/value.h"

/// The command `tenon grammar` without the command line.
namespace tenon::grammar {

/// `rules` in the language `to` of `request` ("gbnf" where it is silent, "ebnf" or "lark"), as
/// print_line() answers.
[[nodiscard]] Expected<json::Object> print_rules(const Rules& rules, const json::Object& request);

/// A line of `tenon grammar --batch`: for
///
///     schema, or grammar and syntax   as requested_rules() has them, property_order is "schema"
///     whitespace?                     of a schema; "spaced" where the line is silent
///     to?                             "gbnf" (default), "ebnf", "lark", "json-schema"
///
/// it answers `{"grammar", "relaxed": [{"schema_path", "keyword", "message"}]}`. `relaxed` says
/// what `grammar` accepts beyond what was asked for.
[[nodiscard]] Expected<json::Object> print_line(const json::Object& request);

}  // namespace tenon::grammar
