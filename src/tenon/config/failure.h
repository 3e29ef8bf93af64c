#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tenon/base/expected.h"

/// Failures as this layer tells them: `unavailable` is an engine, a server or the system; every
/// other code is what was given, the files that it names included.
namespace tenon::config {

[[nodiscard]] inline Unexpected invalid(std::string message) {
  return Unexpected(Error{Errc::invalid, std::move(message)});
}

[[nodiscard]] inline Unexpected unavailable(std::string message) {
  return Unexpected(Error{Errc::unavailable, std::move(message)});
}

/// `error` as a fault of what was given: a file that cannot be read should not have been named.
/// `where` stands before its message.
[[nodiscard]] inline Unexpected at_fault(const Error& error, std::string_view where = {}) {
  const Errc code = error.code == Errc::unavailable ? Errc::invalid : error.code;
  return Unexpected(Error{code, std::string(where) + error.message});
}

}  // namespace tenon::config
