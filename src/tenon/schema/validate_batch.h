#pragma once

#include <iosfwd>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// The command `tenon validate` without the command line: JSON lines in, JSON lines out.
namespace tenon::schema {

/// For each line an object with
///
///     schema
///     instance | instance_text   a value, or the text of one
///     draft?                     "draft4" to "draft2020-12", where `$schema` is silent
///     documents?                 {address: schema}, for references
///     assert_format?             true: `format` constrains
///
/// writes `{"id"?, "valid", "errors": [{"instance_path", "schema_path", "message"}]}` or
/// `{"id"?, "error": {"code", "message"}}` and flushes, before it reads the next line. Returns the
/// command's exit status: 0, however many lines failed; each says so itself.
int validate_batch(std::istream& in, std::ostream& out);

/// One line of it: the answer, or why there is none.
[[nodiscard]] Expected<json::Value> validate_line(const json::Value& request);

/// `draft`, `documents` and `assert_format` of a line, for other commands that take schemas.
/// `documents` of the result points into `request`.
[[nodiscard]] Expected<CompileOptions> compile_options_of(const json::Value& request);

/// `errors` of an answer.
[[nodiscard]] json::Value violations_json(const std::vector<Violation>& violations);

}  // namespace tenon::schema
