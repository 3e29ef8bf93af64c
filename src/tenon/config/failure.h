#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/base/failure.h"

/// Failures as this layer tells them: `unavailable` is an engine, a server or the system; every
/// other code is what was given, the files that it names included.
namespace tenon::config {

/// `error` as a fault of what was given: a file that cannot be read should not have been named.
/// `where` stands before its message.
[[nodiscard]] inline Unexpected at_fault(const Error& error, std::string_view where = {}) {
  const Errc code = error.code == Errc::unavailable ? Errc::invalid : error.code;
  return Unexpected(Error{code, std::string(where) + error.message});
}

}  // namespace tenon::config
