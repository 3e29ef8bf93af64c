#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/jinja/args.h"
#include "tenon/jinja/runtime.h"

/// jinja2's tests: the words that follow `is`.
namespace tenon::jinja {

/// The number of the test `defined`, which is by far the most common.
inline constexpr std::uint32_t kDefinedTest = 0;

/// The number of a test, or kNoBuiltin.
[[nodiscard]] std::uint32_t test_of_name(std::string_view name);
[[nodiscard]] bool call_test(Runtime& rt, std::uint32_t test, const Value& value, const Args& args);

}  // namespace tenon::jinja
