#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace tenon::engine {

/// Keeps the run (or answer) under way of something that may be begun more than once, and passes
/// requests to cancel or pause on to it, also those that came before the run was there. Any thread
/// may call, also from within the run's callbacks.
///
///     const unsigned number = slot.next();
///     slot.attach(*engine.start(request, sink), number);  // the run may be over already
///
/// If pause and resume are both asked for, the later one wins. cancel() waits for neither, so the
/// sink of a run may cancel it while another thread pauses it.
template <class Run>
class RunSlot {
 public:
  /// The number of the run that is about to be begun; earlier runs are not wanted any more.
  unsigned next() {
    const std::lock_guard lock(mutex_);
    return ++number_;
  }

  /// Puts the run in; a run that is not the latest one is destroyed.
  void attach(std::unique_ptr<Run> run, unsigned number = 0) {
    std::shared_ptr<Run> gone = std::move(run);  // destroyed without the locks
    std::shared_ptr<Run> attached;
    const std::lock_guard flow(flow_mutex_);
    bool is_cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      if (number != number_) return;
      run_.swap(gone);
      attached = run_;
      is_cancelled = is_cancelled_;
    }
    if (is_cancelled) attached->cancel();
    if (is_paused_) attached->pause();
  }

  void cancel() {
    std::shared_ptr<Run> run;
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
      run = run_;
    }
    if (run != nullptr) run->cancel();
  }

  void set_paused(bool value) {
    const std::lock_guard flow(flow_mutex_);
    is_paused_ = value;
    const std::shared_ptr<Run> run = current();
    if (run != nullptr) value ? run->pause() : run->resume();
  }

  /// Releases the run, which is over.
  void clear() {
    std::shared_ptr<Run> gone;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    gone = std::move(run_);
  }

  /// Releases the run, which cancels it; runs that come later are cancelled, too.
  void detach() {
    std::shared_ptr<Run> gone;
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    gone = std::move(run_);
  }

  [[nodiscard]] bool is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return is_cancelled_;
  }

 private:
  std::shared_ptr<Run> current() const {
    const std::lock_guard lock(mutex_);
    return run_;
  }

  // Held while the run is paused or resumed. Locked before mutex_.
  std::mutex flow_mutex_;
  bool is_paused_ = false;

  mutable std::mutex mutex_;  // guards the members below; never held while the run is called
  std::shared_ptr<Run> run_;
  unsigned number_ = 0;  // the number of the run that run_ is, or will be
  bool is_cancelled_ = false;
};

}  // namespace tenon::engine
