#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/runtime.h"

/// Python's arithmetic and its other operators on two values.
namespace tenon::jinja {

[[nodiscard]] Value binary(Runtime& rt, Op op, const Value& a, const Value& b);
[[nodiscard]] Value negate(Runtime& rt, const Value& a, bool is_positive);
/// The value as an index. Fails if it is no integer.
[[nodiscard]] std::int64_t index_of(const Budget& budget, const Value& value);

}  // namespace tenon::jinja
