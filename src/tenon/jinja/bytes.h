#pragma once

#include <string_view>

#include "tenon/jinja/args.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"

/// Python's bytes.
namespace tenon::jinja {

[[nodiscard]] Value make_bytes(TextBuffer& out, std::string_view bytes, bool is_data);
[[nodiscard]] Value call_bytes_method(Runtime& rt, const Value& self, MethodId id,
                                      const Args& args);

}  // namespace tenon::jinja
