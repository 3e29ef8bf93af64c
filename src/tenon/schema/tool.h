#pragma once

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::schema {

/// The schema of a tool's arguments, from a function definition as clients send it:
///
///     {"name": "add", "parameters": {"type": "object", "properties": {...}}, "required": ["a"]}
///
/// The names of a `required` beside `parameters` come to those inside. Without parameters, or with
/// null, a tool takes none. Fails with Errc::invalid naming the member. What the schema itself says
/// is for Schema::compile to judge.
[[nodiscard]] Expected<json::Value> tool_parameters(const json::Value& function);

}  // namespace tenon::schema
