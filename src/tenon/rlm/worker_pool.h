#pragma once

#include <cstddef>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/rlm/sandbox.h"

namespace tenon::rlm {

/// Workers that have been started before they are needed.
///
///     WorkerPool pool(sandbox, {.limits = {}, .warm = 4});
///     Expected<std::unique_ptr<Worker>> worker = pool.take();    // at once, where one is ready
///
/// A thread of the pool starts one for each that is taken. Thread-safe.
class WorkerPool {
 public:
  struct Options {
    WorkerLimits limits;
    std::size_t warm = 2;  ///< How many are kept ready.
  };
  WorkerPool(std::shared_ptr<Sandbox> sandbox, const Options& options);
  /// Ends those that nobody took.
  ~WorkerPool();

  /// A worker that lives; none being ready, it is started now. Fails as Sandbox::start.
  [[nodiscard]] Expected<std::unique_ptr<Worker>> take();
  /// How many are ready.
  [[nodiscard]] std::size_t ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
