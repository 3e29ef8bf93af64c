#pragma once

#include <cstddef>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/rlm/sandbox.h"

namespace tenon::rlm {

/// Workers that are started before they are needed.
///
///     WorkerPool pool(sandbox, {.limits = {}, .warm = 4});
///     Expected<std::unique_ptr<Worker>> worker = pool.take();    // at once, where one is ready
///
/// For each worker that is taken, a thread of the pool starts another. Thread-safe.
class WorkerPool {
 public:
  struct Options {
    WorkerLimits limits;
    std::size_t warm = 2;  ///< The number of workers kept ready.
  };
  WorkerPool(std::shared_ptr<Sandbox> sandbox, const Options& options);
  /// Ends the workers that were not taken.
  ~WorkerPool();

  /// A living worker; if none is ready, one is started now. Fails as Sandbox::start.
  [[nodiscard]] Expected<std::unique_ptr<Worker>> take();
  /// The number of workers that are ready.
  [[nodiscard]] std::size_t ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
