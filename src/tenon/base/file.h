#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "tenon/base/expected.h"

namespace tenon {

/// The bytes of a regular file or pipe, "-" not being special. Fails with Errc::unavailable naming
/// the path and the system's reason, or with Errc::limit_exceeded once there are more than
/// `max_bytes`, which a file that grows while it is read cannot evade.
///
///     Expected<std::string> tools = read_file(path, 1 << 20);
///     if (!tools) return Unexpected(tools.error());   // "tools.json: No such file or directory"
[[nodiscard]] Expected<std::string> read_file(const std::filesystem::path& path,
                                              std::size_t max_bytes);

}  // namespace tenon
