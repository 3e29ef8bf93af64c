#pragma once

#include <iosfwd>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// The command `tenon grammar --batch` without the command line: JSON lines in, JSON lines out.
namespace tenon::grammar {

/// For each line an object with
///
///     schema, or grammar and syntax   as requested_rules() has them, property_order is "schema"
///     whitespace?                     of a schema; "spaced" where the line is silent
///     to?                             "gbnf" (default), "ebnf", "lark", "json-schema"
///
/// answers `{"grammar", "relaxed": [{"schema_path", "keyword", "message"}]}`, in the manner of
/// json::answer_lines. `relaxed` says what `grammar` accepts beyond what was asked for.
void print_batch(std::istream& in, std::ostream& out);

/// One line of it.
[[nodiscard]] Expected<json::Object> print_line(const json::Object& request);

}  // namespace tenon::grammar
