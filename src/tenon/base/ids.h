#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

/// `prefix` and `length` characters of [0-9A-Za-z] from the system's random source: identifiers
/// that cannot be guessed (24 characters hold 142 bits). Thread-safe.
///
///     response.id = random_id("chatcmpl-");
[[nodiscard]] std::string random_id(std::string_view prefix, std::size_t length = 24);

/// Fills `size` bytes from the system's random source. Thread-safe.
void fill_random(unsigned char* bytes, std::size_t size);

}  // namespace tenon
