#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::api {

/// Threads for work that would delay others: parsing, rendering, tokenising, encoding. Tasks begin
/// in the order in which they were posted; an exception of a task is logged. Thread-safe.
///
///     Workers workers(4);
///     if (workers.waiting() < kMost) workers.post([call] { answer(*call); });
class Workers {
 public:
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// After stop() the task is dropped.
  void post(std::function<void()> task);
  /// Tasks that no thread has begun yet.
  [[nodiscard]] std::size_t waiting() const;
  /// Drops the tasks that wait, and returns when those that run have ended. Not from a task.
  void stop();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;  // guarded by mutex_
  bool is_stopped_ = false;                    // guarded by mutex_
  std::vector<std::jthread> threads_;          // last: they use the members above
};

}  // namespace tenon::api
