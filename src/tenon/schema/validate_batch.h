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
/// answers `{"valid", "errors": [{"instance_path", "schema_path", "message"}]}`, in the manner of
/// json::answer_lines.
void validate_batch(std::istream& in, std::ostream& out);

/// One line of it.
[[nodiscard]] Expected<json::Object> validate_line(const json::Object& request);

/// `draft`, `documents` and `assert_format` of a line, for other commands that take schemas.
/// `documents` of the result points into `request`.
[[nodiscard]] Expected<CompileOptions> compile_options_of(const json::Object& request);

/// `errors` of an answer.
[[nodiscard]] json::Value violations_json(const std::vector<Violation>& violations);

}  // namespace tenon::schema
