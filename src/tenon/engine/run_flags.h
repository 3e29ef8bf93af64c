#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tenon/engine/engine.h"

/// What engines with one thread of their own have in common.
namespace tenon::engine {

/// Wakes an engine's thread: any thread rings, the engine's sleeps until then. A ring while it is
/// awake is kept, so none is lost. Thread-safe.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    condition_.notify_one();
  }

  /// Rings, and also tells the thread to leave a long computation: interrupts() has risen.
  void interrupt() {
    interrupts_.fetch_add(1, std::memory_order_release);
    ring();
  }
  [[nodiscard]] std::uint64_t interrupts() const {
    return interrupts_.load(std::memory_order_acquire);
  }

  /// Returns if there was a ring since the last wait, or at the next ring, or at `until`.
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
  std::atomic<std::uint64_t> interrupts_ = 0;
};

/// What the holder of a Run asks for, set by any thread; and whether the run has ended, set by the
/// engine's thread, so that destroying the Run then wakes no thread.
struct RunFlags {
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> is_paused = false;
  std::atomic<bool> is_over = false;
};

/// A Run that sets flags and rings the engine's bell. It may outlive the engine.
class FlagRun final : public Run {
 public:
  FlagRun(std::shared_ptr<RunFlags> flags, std::shared_ptr<Bell> bell)
      : flags_(std::move(flags)), bell_(std::move(bell)) {}
  ~FlagRun() override { stop(); }
  FlagRun(const FlagRun&) = delete;
  FlagRun& operator=(const FlagRun&) = delete;

  void cancel() override { stop(); }
  void pause() override { set_paused(true); }
  void resume() override { set_paused(false); }

 private:
  void stop() const {
    if (flags_->is_over.load(std::memory_order_acquire)) return;
    if (!flags_->is_cancelled.exchange(true, std::memory_order_acq_rel)) bell_->interrupt();
  }
  void set_paused(bool value) const {
    if (flags_->is_paused.exchange(value, std::memory_order_acq_rel) != value) bell_->ring();
  }

  std::shared_ptr<RunFlags> flags_;
  std::shared_ptr<Bell> bell_;
};

}  // namespace tenon::engine
