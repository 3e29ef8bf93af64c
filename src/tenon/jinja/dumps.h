#pragma once

#include "tenon/jinja/runtime.h"

/// JSON in templates.
namespace tenon::jinja {

/// json.dumps(value). `options` are four: ensure_ascii, indent, separators, sort_keys.
[[nodiscard]] Value dumps(Runtime& rt, const Value& value, const Value* options);
/// json.loads(text): values that the template may change.
[[nodiscard]] Value from_json(Runtime& rt, const Value& text);

}  // namespace tenon::jinja
