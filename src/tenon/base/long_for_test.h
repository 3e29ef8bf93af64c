#pragma once

#include <cstdlib>

namespace tenon {

/// Whether `make test-long` runs the test, which may then take minutes.
inline bool is_long_test() {
  const char* value = std::getenv("TENON_LONG");  // NOLINT(concurrency-mt-unsafe): never set here
  return value != nullptr && *value != '\0';
}

}  // namespace tenon
