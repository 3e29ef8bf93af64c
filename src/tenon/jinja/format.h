#pragma once

#include "tenon/jinja/args.h"
#include "tenon/jinja/runtime.h"

/// Python's two ways of filling in text.
namespace tenon::jinja {

/// format % arguments
[[nodiscard]] Value percent(Runtime& rt, const Value& format, const Value& arguments);
/// format.format(*args), or format.format_map(mapping) if there is a mapping.
[[nodiscard]] Value format_string(Runtime& rt, const Value& format, const Args& args,
                                  const Value* mapping);

}  // namespace tenon::jinja
