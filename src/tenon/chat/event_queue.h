#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/message/event.h"

namespace tenon::chat {

/// Carries events from an engine's thread to the asking thread. Thread-safe.
class EventQueue final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    changed_.notify_one();
  }

  /// The events that have come; waits for the first, at most `most`.
  [[nodiscard]] std::vector<message::ChatEvent> wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [this] { return !events_.empty(); });
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<message::ChatEvent> events_;  // guarded by mutex_
};

}  // namespace tenon::chat
