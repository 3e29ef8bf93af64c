#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

#include "tenon/api/call.h"
#include "tenon/api/workers.h"

namespace tenon::api {

/// Runs the tasks of calls on workers, so that health, metrics and streams never wait for a body
/// that is parsed or a prompt that is rendered. Thread-safe.
class CallRunner {
 public:
  static constexpr unsigned kQuickThreads = 4;

  struct Options {
    std::size_t max_waiting = 1024;           ///< Calls that no thread has begun; more get 503.
    std::chrono::milliseconds time_limit{0};  ///< For questions to an upstream; 0: no limit.
  };
  explicit CallRunner(Options options) : options_(options) {}

  /// Moves a call with a body to a worker. Large bodies wait for each other on one thread, so that
  /// small ones do not wait for them.
  void hand_over(Task task, Call call);
  void post(Workers& workers, Task task, Call call);
  /// Does the task on this thread. If it throws, the call gets an error and the others go on.
  void run(const Task& task, Call& call);

  /// From now on tasks are not done: their calls get an error that says that the server stops.
  void cut() { is_cutting_ = true; }
  [[nodiscard]] bool is_cutting() const { return is_cutting_; }
  /// Drops the tasks that wait, and returns when those that run have ended.
  void stop();

  [[nodiscard]] std::size_t max_waiting() const { return options_.max_waiting; }
  [[nodiscard]] Workers& quick() { return quick_; }
  /// For large bodies, and for answers with log probabilities.
  [[nodiscard]] Workers& large() { return large_; }

 private:
  const Options options_;
  std::atomic<bool> is_cutting_ = false;
  Workers quick_{kQuickThreads};
  Workers large_{1};
};

}  // namespace tenon::api
