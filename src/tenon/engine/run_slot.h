#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace tenon::engine {

/// Holds what is under way of something that may be begun more than once, a run or an answer, and
/// tells it what was wanted of it, also before it was there. Any thread may call, those that the
/// run calls among them.
///
///     const unsigned number = slot.next();
///     slot.attach(*engine.start(request, sink), number);  // perhaps it is over already
///
/// What was wanted last of pausing and resuming is done last. cancel() waits for neither, so that
/// whoever takes in what a run makes may cancel it while another thread pauses it.
template <class Run>
class RunSlot {
 public:
  /// The number of the run that is about to be begun; one before it is not wanted any more.
  unsigned next() {
    const std::lock_guard lock(mutex_);
    return ++number_;
  }

  /// Puts the run in; one that is not the last that was to be begun is destroyed.
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

  /// Lets go of the run, which is over.
  void clear() {
    std::shared_ptr<Run> gone;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    gone = std::move(run_);
  }

  /// Lets go of the run, which cancels it, and so are those that would come.
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

  // Held while the run is paused or resumed. Taken before mutex_.
  std::mutex flow_mutex_;
  bool is_paused_ = false;

  mutable std::mutex mutex_;  // guards what follows; never held while the run is called
  std::shared_ptr<Run> run_;
  unsigned number_ = 0;  // of the run that run_ is, or will be
  bool is_cancelled_ = false;
};

}  // namespace tenon::engine
