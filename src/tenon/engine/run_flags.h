#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tenon/engine/engine.h"

/// What engines that make their tokens on one thread of their own have in common.
namespace tenon::engine {

/// The bell of an engine's thread: anyone rings, the thread sleeps until then. A ring while the
/// thread is awake is kept, so none is lost. Thread-safe.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    condition_.notify_one();
  }

  /// Returns at a ring since the last wait, or at `until`.
  void wait(std::optional<std::chrono::steady_clock::time_point> until) {
    std::unique_lock lock(mutex_);
    const auto is_rung = [this] { return rung_; };
    if (until) {
      condition_.wait_until(lock, *until, is_rung);
    } else {
      condition_.wait(lock, is_rung);
    }
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool rung_ = false;
};

/// What the holder of a Run asked for. Set by any thread, read by the engine's.
struct RunFlags {
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_paused = false;
};

/// A Run that sets flags and rings the engine's bell. It may outlive the engine.
class FlagRun final : public Run {
 public:
  FlagRun(std::shared_ptr<RunFlags> flags, std::shared_ptr<Bell> bell)
      : flags_(std::move(flags)), bell_(std::move(bell)) {}
  ~FlagRun() override { set(flags_->is_cancelled, true); }
  FlagRun(const FlagRun&) = delete;
  FlagRun& operator=(const FlagRun&) = delete;

  void cancel() override { set(flags_->is_cancelled, true); }
  void pause() override { set(flags_->is_paused, true); }
  void resume() override { set(flags_->is_paused, false); }

 private:
  void set(std::atomic<bool>& flag, bool value) const {
    if (flag.exchange(value, std::memory_order_acq_rel) != value) bell_->ring();
  }

  std::shared_ptr<RunFlags> flags_;
  std::shared_ptr<Bell> bell_;
};

}  // namespace tenon::engine
