#pragma once

#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"

namespace tenon::prompt {

/// Moves what `property`, an object's schema, says of its inside into its description, so far as
/// `form` asks for.
void describe(json::Object& property, SchemaForm form);

/// Gives `tool` the shape `{"type": "function", "function": {...}}` and what the template misses in
/// it, and simplifies of its schema what the template cannot take. True if something was changed.
bool shape_tool(json::Value& tool, const Capabilities& capabilities);

}  // namespace tenon::prompt
