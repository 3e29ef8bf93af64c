#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/engine/engine.h"

namespace tenon::engine {

/// A sink for tests: keeps what comes and lets a test wait for it. Thread-safe.
class RecordingSink final : public EventSink {
 public:
  /// `on_each` is called after each token, on the engine's thread, without a lock.
  explicit RecordingSink(std::function<void(std::size_t count)> on_each = {})
      : on_each_(std::move(on_each)) {}

  void on_token(const Token& token) override {
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      ids_.push_back(token.id);
      text_ += token.bytes;
      if (token.logprob != nullptr) logprobs_.push_back(*token.logprob);
      if (end_) ++after_end_;
      count = ids_.size();
    }
    changed_.notify_all();
    if (on_each_) on_each_(count);
  }

  void on_end(const RunEnd& end) override {
    const std::lock_guard lock(mutex_);
    if (end_) ++after_end_;
    end_ = end;
    changed_.notify_all();  // under the lock: a waiter may destroy this as soon as it is released
  }

  /// Whether the run ended in time.
  [[nodiscard]] bool wait_end(std::chrono::milliseconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return end_.has_value(); });
  }
  /// Whether `count` tokens came in time.
  [[nodiscard]] bool wait_tokens(std::size_t count,
                                 std::chrono::milliseconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return ids_.size() >= count; });
  }

  [[nodiscard]] std::vector<TokenId> ids() const { return locked(ids_); }
  [[nodiscard]] std::string text() const { return locked(text_); }
  [[nodiscard]] std::vector<message::TokenLogprob> logprobs() const { return locked(logprobs_); }
  [[nodiscard]] std::optional<RunEnd> end() const { return locked(end_); }
  /// Calls after on_end, a second on_end included: 0 with an engine that keeps its contract.
  [[nodiscard]] std::size_t calls_after_end() const { return locked(after_end_); }

 private:
  template <class T>
  T locked(const T& member) const {
    const std::lock_guard lock(mutex_);
    return member;
  }

  const std::function<void(std::size_t)> on_each_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> ids_;
  std::string text_;
  std::vector<message::TokenLogprob> logprobs_;
  std::optional<RunEnd> end_;
  std::size_t after_end_ = 0;
};

}  // namespace tenon::engine
