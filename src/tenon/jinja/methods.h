#pragma once

#include "tenon/jinja/args.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"

/// The methods of Python's types. `self` must have the method: see has_method().
namespace tenon::jinja {

[[nodiscard]] Value call_method(Runtime& rt, const Value& self, MethodId id, const Args& args);

}  // namespace tenon::jinja
