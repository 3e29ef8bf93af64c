#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::api {

/// Threads for what would keep others waiting: parsing, rendering, tokenising, encoding. Tasks are
/// begun in the order in which they were posted; what one throws is logged. Thread-safe.
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
  /// Drops what waits and returns when what runs has ended. Not from a task.
  void stop();

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;  // guarded by mutex_
  bool is_stopped_ = false;                    // guarded by mutex_
  std::vector<std::jthread> threads_;          // last: they use all of the above
};

}  // namespace tenon::api
