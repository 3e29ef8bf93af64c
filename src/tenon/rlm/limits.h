#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tenon::rlm {

/// The limits of a worker for its whole life. The kernel enforces them. A worker that reaches the
/// CPU time ends; the other limits are errors of the cell that reached them.
struct WorkerLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< Address space, including the
                                                        ///< interpreter.
  std::chrono::seconds cpu{3600};                       ///< For all threads together.
  std::uint32_t threads = 64;
  std::uint32_t open_files = 64;
};

/// The limits of one cell or one command. The host enforces them, whatever the code does to the
/// worker.
struct CellLimits {
  /// While the cell waits for sub-calls, the worker's CPU time counts instead of the clock's. At
  /// the limit the cell is interrupted; if it still runs after `grace`, the worker is killed.
  std::chrono::milliseconds wall{30'000};
  std::chrono::milliseconds grace{500};
  std::size_t max_output_chars = 20'000;  ///< Each of stdout and stderr; the rest is only counted.
  std::size_t max_final_chars = std::size_t{16} << 20;  ///< The final answer, which is cut
                                                        ///< there.
};

}  // namespace tenon::rlm
