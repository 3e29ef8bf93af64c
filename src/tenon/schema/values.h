#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "tenon/json/value.h"

/// Values compared by value, many at a time.
namespace tenon::schema {

/// Equal for equal values (1 and 1.0, members in any order); keyed, so that nobody can choose
/// values that collide. Linear in the value, in bounded stack space.
[[nodiscard]] std::uint64_t hash_of(const json::Value& value);

/// The first two items that are equal, by their indices.
[[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> equal_items(
    const json::Array& items);

/// Values counted as steps: how large `value` is, keys included.
[[nodiscard]] std::uint64_t size_of(const json::Value& value);

}  // namespace tenon::schema
