#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tenon/json/value.h"

/// Compares many values by value.
namespace tenon::schema {

/// Two values have the same text exactly if they are equal (1 and 1.0, members in any order). It is
/// not JSON. Linear in the value, in bounded stack space.
[[nodiscard]] std::string canonical_text(const json::Value& value);

/// Equal values (1 and 1.0, members in any order) have equal hashes. The hash is keyed, so that an
/// attacker cannot choose values that collide. Linear in the value, in bounded stack space.
[[nodiscard]] std::uint64_t hash_of(const json::Value& value);

/// The indices of the first two items that are equal.
[[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> equal_items(
    const json::Array& items);

/// The size of `value` in steps, keys included.
[[nodiscard]] std::uint64_t size_of(const json::Value& value);

}  // namespace tenon::schema
