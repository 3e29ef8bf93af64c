#pragma once

#include <string>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::config {

/// Registers the tool-call formats of users: each path is a definition (docs/formats.md), or a
/// folder whose *.toml files are, no two of them with one name. One that has the name of a known
/// format replaces it.
[[nodiscard]] Status load_formats(const std::vector<std::string>& paths);

}  // namespace tenon::config
