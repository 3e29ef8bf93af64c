#pragma once

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::schema {

/// The schema of a tool's arguments, from a function definition as clients send it:
///
///     {"name": "add", "parameters": {"type": "object", "properties": {...}}, "required": ["a"]}
///
/// The names of a `required` beside `parameters` are added to those inside. Without parameters, or
/// with null, a tool takes no arguments. Fails with Errc::invalid, naming the member.
/// Schema::compile checks the schema itself.
[[nodiscard]] Expected<json::Value> tool_parameters(const json::Value& function);

}  // namespace tenon::schema
