#pragma once

#include <chrono>
#include <cstdint>

namespace tenon {

/// Seconds since 1970, in UTC, as clients and stored responses have them. Thread-safe.
[[nodiscard]] inline std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tenon
