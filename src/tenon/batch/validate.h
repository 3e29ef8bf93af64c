#pragma once

#include <iosfwd>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// The command `tenon validate --batch`: JSON lines in, JSON lines out.
namespace tenon::batch {

/// Each line is an object with
///
///     schema
///     instance | instance_text   a value, or the text of one
///     draft?                     "draft4" to "draft2020-12", where `$schema` is silent
///     documents?                 {address: schema}, for references
///     assert_format?             true: `format` constrains
///
/// and is answered with `{"valid", "errors": [{"instance_path", "schema_path", "message"}]}` as
/// json::answer_lines does.
void validate_batch(std::istream& in, std::ostream& out);

/// Answers one line.
[[nodiscard]] Expected<json::Object> validate_line(const json::Object& request);

/// The options `draft`, `documents` and `assert_format` of a line, for other commands that take
/// schemas. `documents` of the result points into `request`.
[[nodiscard]] Expected<schema::CompileOptions> compile_options_of(const json::Object& request);

/// The member `errors` of an answer.
[[nodiscard]] json::Value violations_json(const std::vector<schema::Violation>& violations);

}  // namespace tenon::batch
