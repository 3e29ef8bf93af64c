#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "tenon/engine/llama/constraint.h"

namespace tenon::engine {

/// Makes masks on a thread of its own, while the model computes the logits that they are for.
///
///     worker.begin(constraints);
///     decoder.decode(batch, must_stop);
///     worker.wait();               // from here on the constraints are the caller's again
///
/// One thread calls.
class MaskWorker {
 public:
  MaskWorker();
  /// wait() has returned.
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  /// `constraints` stays as it is until wait() returns.
  void begin(std::span<Constraint* const> constraints);
  void wait();

  /// How long the masks of the last begin() took.
  [[nodiscard]] std::chrono::nanoseconds took() const { return took_; }

 private:
  enum State : std::uint32_t { idle, busy, closing };

  void work();

  std::span<Constraint* const> constraints_;
  std::chrono::nanoseconds took_{0};
  std::atomic<std::uint32_t> state_ = idle;  // hands the above from thread to thread
  std::thread thread_;
};

}  // namespace tenon::engine
