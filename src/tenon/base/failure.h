#pragma once

#include <string>
#include <utility>

#include "tenon/base/expected.h"

/// The failures that are made most often, for `return invalid("...: ...");`. Not in expected.h,
/// which every file reads.
namespace tenon {

[[nodiscard]] inline Unexpected invalid(std::string message) {
  return Unexpected(Error{Errc::invalid, std::move(message)});
}

[[nodiscard]] inline Unexpected unavailable(std::string message) {
  return Unexpected(Error{Errc::unavailable, std::move(message)});
}

}  // namespace tenon
