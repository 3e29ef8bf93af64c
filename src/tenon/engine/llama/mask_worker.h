#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>

#include "tenon/engine/llama/constraint.h"

namespace tenon::engine {

/// Makes masks on a thread of its own, while the model computes the logits that they are for.
///
///     worker.begin(constraints);
///     decoder.decode(batch, must_stop);
///     worker.finish();             // from here on the constraints are the caller's again
///
/// On a machine where that thread gets no time they are made by finish(): each by whoever comes to
/// it first. One thread calls.
class MaskWorker {
 public:
  MaskWorker();
  /// finish() has returned.
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  /// `constraints` stays as it is until finish() returns.
  void begin(std::span<Constraint* const> constraints);
  void finish();

 private:
  void work();
  bool make_one(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // guards what follows; not held while a mask is made
  std::condition_variable work_came_;
  std::condition_variable work_went_;
  std::span<Constraint* const> to_do_;
  std::size_t in_hand_ = 0;
  bool is_closing_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tenon::engine
