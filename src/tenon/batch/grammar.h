#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"

/// The command `tenon grammar`, without its command line.
namespace tenon::batch {

/// `rules` in the language `to` of `request` ("gbnf" if it is missing, "ebnf" or "lark"), as
/// print_line() answers.
[[nodiscard]] Expected<json::Object> print_rules(const grammar::Rules& rules,
                                                 const json::Object& request);

/// Answers a line of `tenon grammar --batch`, which has
///
///     schema, or grammar and syntax   as requested_rules() has them, property_order is "schema"
///     whitespace?                     of a schema; "spaced" where the line is silent
///     to?                             "gbnf" (default), "ebnf", "lark", "json-schema"
///
/// with `{"grammar", "relaxed": [{"schema_path", "keyword", "message"}]}`. `relaxed` says what
/// `grammar` allows beyond the request.
[[nodiscard]] Expected<json::Object> print_line(const json::Object& request);

}  // namespace tenon::batch
