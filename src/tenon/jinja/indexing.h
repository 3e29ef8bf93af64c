#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"

/// Python's indexing and slicing, and the attributes of values by the rules of jinja2's sandbox.
namespace tenon::jinja {

[[nodiscard]] Value item(Runtime& rt, const Value& object, const Value& index);  // object[index]
[[nodiscard]] Value slice(Runtime& rt, const Value& object, const Slice& bounds);
/// object.name. `method` is the number of a method of that name, or kNoBuiltin.
[[nodiscard]] Value attribute(Runtime& rt, const Value& object, std::string_view name,
                              std::uint32_t method, bool falls_back = true);
/// `is_unsafe`: the sandbox forbids the method.
[[nodiscard]] bool has_method(const Runtime& rt, const Value& object, MethodId id, bool& is_unsafe);

}  // namespace tenon::jinja
