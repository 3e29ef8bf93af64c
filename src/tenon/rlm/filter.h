#pragma once

#include <cstddef>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::rlm {

/// The system calls that a worker may make, as a seccomp program for the kernel and for bubblewrap:
/// a list of what an interpreter needs to compute, read files and use its pipes. All else fails:
/// with EPERM what is known and refused (processes, sockets, signals, mounts, ...), with ENOSYS the
/// rest, on which C libraries fall back. Calls of another architecture end the process.
[[nodiscard]] Expected<std::vector<std::byte>> make_filter();

}  // namespace tenon::rlm
