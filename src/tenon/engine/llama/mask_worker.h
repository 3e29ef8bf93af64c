#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>

#include "tenon/engine/llama/constraint.h"

namespace tenon::engine {

/// Makes masks on a thread of its own, while the model computes the logits that they belong to.
///
///     worker.begin(constraints);
///     decoder.decode(batch, must_stop);
///     worker.finish();             // from here on the constraints are the caller's again
///
/// If that thread gets no processor time, finish() makes the masks: each thread takes the next mask
/// that is not begun. Only one thread may call.
class MaskWorker {
 public:
  MaskWorker();
  /// Destroy it after finish() has returned.
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  /// `constraints` must not change until finish() returns.
  void begin(std::span<Constraint* const> constraints);
  void finish();

 private:
  void work();
  bool make_one(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // guards the members below; not held while a mask is made
  std::condition_variable work_came_;
  std::condition_variable work_went_;
  std::span<Constraint* const> to_do_;
  std::size_t in_hand_ = 0;
  bool is_closing_ = false;

  std::thread thread_;  // last: it uses the members above
};

}  // namespace tenon::engine
