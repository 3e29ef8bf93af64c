#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

/// SipHash-1-3 of `text` under a key drawn once per process, for tables whose keys come from
/// outside: an attacker who cannot read our memory cannot choose keys that collide. The value
/// differs from run to run, so it must not be stored. Thread-safe.
[[nodiscard]] std::uint64_t keyed_hash(std::string_view text);

/// The same function under a given key.
[[nodiscard]] std::uint64_t siphash13(std::string_view text, std::uint64_t key0,
                                      std::uint64_t key1);

}  // namespace tenon
