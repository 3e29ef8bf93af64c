#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/base/failure.h"

/// Failures of this layer have two kinds: `unavailable` is about an engine, a server or the system;
/// every other code is about what the caller gave, including the files that it names.
namespace tenon::config {

/// `error` as a fault of what was given: a file that cannot be read should not have been named.
/// `where` goes before its message.
[[nodiscard]] inline Unexpected at_fault(const Error& error, std::string_view where = {}) {
  const Errc code = error.code == Errc::unavailable ? Errc::invalid : error.code;
  return Unexpected(Error{code, std::string(where) + error.message});
}

}  // namespace tenon::config
