#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tenon::rlm {

/// What a worker may use in all its life. The kernel keeps these; a worker that reaches the CPU
/// time ends, the others are errors of the cell that reached them.
struct WorkerLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< Of address space, interpreter included.
  std::chrono::seconds cpu{3600};                       ///< Of all threads together.
  std::uint32_t threads = 64;
  std::uint32_t open_files = 64;
};

/// What one cell may use, or one command. The host keeps these, whatever the code makes of the
/// worker.
struct CellLimits {
  /// While sub-calls are waited for, the worker's CPU time counts, and not the clock's. At its end
  /// the cell is interrupted, and where it goes on for `grace`, the worker is killed.
  std::chrono::milliseconds wall{30'000};
  std::chrono::milliseconds grace{500};
  std::size_t max_output_chars = 20'000;  ///< Of stdout, and of stderr; the rest is counted.
  std::size_t max_final_chars = std::size_t{16} << 20;  ///< Of the final answer; cut there.
};

}  // namespace tenon::rlm
