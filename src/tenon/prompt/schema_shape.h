#pragma once

#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"

namespace tenon::prompt {

/// Moves the inner part of `property`, the schema of an object, into its description, as far as
/// `form` asks for.
void describe(json::Object& property, SchemaForm form);

/// Gives `tool` the shape `{"type": "function", "function": {...}}`, adds members that the template
/// needs, and simplifies the parts of its schema that the template cannot express. True if
/// something was changed.
bool shape_tool(json::Value& tool, const Capabilities& capabilities);

}  // namespace tenon::prompt
