#pragma once

#include <cstdint>

#include "tenon/jinja/runtime.h"

/// What filters and methods share that sort, group and select by an attribute.
namespace tenon::jinja {

/// The attribute path of map, sort and similar filters: "a.b.0" or an integer.
[[nodiscard]] Value make_path(Values& values, const Value& attribute);
/// What the path leads to from `value`. `fallback` (if not missing) takes the place of what is
/// undefined.
[[nodiscard]] Value follow(Runtime& rt, const Value& path, Value value, const Value& fallback);
/// A string in lower case, any other value as it is.
[[nodiscard]] Value ignore_case(Runtime& rt, const Value& value);
/// Sorts items by their keys, stably.
void sort_values(Values& values, Value* items, const Value* keys, std::uint32_t size,
                 bool is_reversed);

}  // namespace tenon::jinja
