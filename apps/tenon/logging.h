#pragma once

#include <string_view>

#include "tenon/base/expected.h"

namespace tenon::app {

/// Sends the log to stderr from `level` ("trace" to "error") upwards; a second call changes the
/// level. Fails with `invalid` at any other word.
[[nodiscard]] Status start_logging(std::string_view level);

}  // namespace tenon::app
