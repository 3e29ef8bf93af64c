#pragma once

#include <string>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::config {

/// Registers the tool-call formats of users. Each path is a definition (docs/formats.md), or a
/// folder of such *.toml files, no two with the same name. A format with the name of a known one
/// replaces it.
[[nodiscard]] Status load_formats(const std::vector<std::string>& paths);

}  // namespace tenon::config
