#pragma once

#include <cstddef>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::rlm {

/// The system calls that a worker may make, as a seccomp program for the kernel and for bubblewrap.
/// It is a list of the calls that an interpreter needs to compute, read files and use its pipes.
/// All others fail: known calls that are refused (processes, sockets, signals, mounts, ...) with
/// EPERM, and the rest with ENOSYS, for which C libraries have a substitute. Calls of another
/// architecture end the process. With `has_folder` calls that make, change and remove files are
/// allowed, too: mounts must say where they may.
[[nodiscard]] Expected<std::vector<std::byte>> make_filter(bool has_folder = false);

}  // namespace tenon::rlm
