#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "tenon/base/expected.h"

namespace tenon {

/// The bytes of a regular file or pipe; "-" is a name like any other. Fails with Errc::unavailable,
/// the path and the system's reason, or with Errc::limit_exceeded once more than `max_bytes` were
/// read, even if the file grows meanwhile.
///
///     Expected<std::string> tools = read_file(path, 1 << 20);
///     if (!tools) return Unexpected(tools.error());   // "tools.json: No such file or directory"
[[nodiscard]] Expected<std::string> read_file(const std::filesystem::path& path,
                                              std::size_t max_bytes);

}  // namespace tenon
