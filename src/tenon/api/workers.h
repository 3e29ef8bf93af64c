#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "tenon/base/patience.h"

namespace tenon::api {

/// Threads for work that would delay others: parsing, rendering, tokenising, encoding. Tasks begin
/// in the order in which they were posted; an exception of a task is logged. A task that waits for
/// a server (patience::Waiting) lets another one begin, so that a server far away costs its own
/// requests time and not those behind them. Thread-safe.
///
///     Workers workers(4);
///     if (workers.waiting() < kMost) workers.post([call] { answer(*call); });
class Workers final : private patience::Host {
 public:
  /// Tasks that may wait at a time, each of which keeps a thread.
  static constexpr unsigned kMostThatWait = 128;
  /// After which threads that are more than `at_once` end if they have nothing to do.
  static constexpr std::chrono::milliseconds kIdle{500};

  /// At most `at_once` tasks are under way, not counting those that wait. Tasks whose wait has
  /// ended go on at once, so there may be more until they are done.
  explicit Workers(unsigned at_once);
  ~Workers() override;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// After stop() the task is dropped.
  void post(std::function<void()> task);
  /// Tasks that no thread has begun yet.
  [[nodiscard]] std::size_t waiting() const;
  /// Drops the tasks that wait, and returns when those that run have ended. Not from a task.
  void stop();

 private:
  using Threads = std::list<std::jthread>;

  void run(Threads::iterator self);
  void let_in();
  void start_one();
  void begins_to_wait() override;
  void has_waited() override;

  const unsigned at_once_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool is_stopped_ = false;
  unsigned going_ = 0;  // tasks under way that do not wait
  unsigned idle_ = 0;   // threads without a task, or that begin
  Threads threads_;
  Threads ended_;  // those that have left threads_, and are joined when the next one is started
};

}  // namespace tenon::api
