#pragma once

#include <string>
#include <utility>

#include "tenon/base/expected.h"

/// Short ways to make the most common failures: `return invalid("...: ...");`. They are not in
/// expected.h because every file includes that one.
namespace tenon {

[[nodiscard]] inline Unexpected invalid(std::string message) {
  return Unexpected(Error{Errc::invalid, std::move(message)});
}

[[nodiscard]] inline Unexpected unavailable(std::string message) {
  return Unexpected(Error{Errc::unavailable, std::move(message)});
}

}  // namespace tenon
