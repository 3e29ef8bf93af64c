#pragma once

#include "tenon/jinja/args.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"

/// The global functions of templates: jinja2's, and those of transformers.
namespace tenon::jinja {

[[nodiscard]] Value call_function(Runtime& rt, FunctionId id, const Args& args);
/// dict(mapping or pairs, **more); a namespace is made of the same arguments.
[[nodiscard]] Value make_mapping(Runtime& rt, const Args& args);

}  // namespace tenon::jinja
