#include "tenon/api/workers.h"

#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"

// Threads that take tasks from one queue. A task that throws is logged and ends alone. at_once_
// tasks are under way at a time; one that waits does not count, and when it goes on there may be
// more for a while. Further threads are started when a task may begin and no thread is idle, and
// end when there is nothing to do for a while. stop() drops what waits and joins the threads; later
// tasks are dropped, too.

namespace tenon::api {

Workers::Workers(unsigned at_once) : at_once_(at_once) {
  const std::lock_guard lock(mutex_);
  try {
    while (threads_.size() < at_once_) start_one();
  } catch (...) {
    is_stopped_ = true;  // those that were started end, and are joined by the members' destructors
    throw;
  }
}

Workers::~Workers() {
  stop();
}

void Workers::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  waiting_.push_back(std::move(task));
  let_in();
}

std::size_t Workers::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;  // destroyed after the lock, since tasks own much
  Threads ending;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(waiting_);
    ending.splice(ending.end(), threads_);
    ending.splice(ending.end(), ended_);
  }
  wake_.notify_all();
  ending.clear();
}

// Lets a thread take the next task, if one may begin. A thread that takes one comes here again for
// the task behind it, so one call for each task and each place that becomes free is enough. Under
// the lock.
void Workers::let_in() {
  if (is_stopped_ || waiting_.empty() || going_ >= at_once_) return;
  if (idle_ > 0) return wake_.notify_one();
  if (threads_.size() >= at_once_ + kMostThatWait) return;
  try {
    start_one();
  } catch (const std::exception& thrown) {
    // A thread that is there takes the task when it is idle.
    log::warn(std::string("no thread for a task: ") + thrown.what());
  }
}

void Workers::start_one() {
  ended_.clear();  // these have given the lock back for good
  threads_.emplace_back();
  const auto self = std::prev(threads_.end());
  try {
    *self = std::jthread([this, self] { run(self); });
  } catch (...) {
    threads_.pop_back();
    throw;
  }
  ++idle_;
}

void Workers::begins_to_wait() {
  const std::lock_guard lock(mutex_);
  --going_;
  let_in();
}

void Workers::has_waited() {
  const std::lock_guard lock(mutex_);
  ++going_;
}

void Workers::run(Threads::iterator self) {
  // A stack for the crash handler, since one that has overflowed cannot be used to report it.
  const crash::ThreadStack stack;
  const patience::Hosted hosted(*this);
  std::unique_lock lock(mutex_);
  // It has been counted as idle since it was started.
  while (true) {
    const auto may_begin = [this] {
      return is_stopped_ || (!waiting_.empty() && going_ < at_once_);
    };
    const bool is_one_more = threads_.size() > at_once_;
    if (!is_one_more) wake_.wait(lock, may_begin);
    const bool is_woken = !is_one_more || wake_.wait_for(lock, kIdle, may_begin);
    if (!is_woken && threads_.size() <= at_once_) continue;
    --idle_;
    if (is_stopped_) return;
    if (!is_woken) return ended_.splice(ended_.end(), threads_, self);
    std::function<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    ++going_;
    let_in();
    lock.unlock();
    try {
      task();
    } catch (const std::exception& thrown) {
      log::error(std::string("a task failed: ") + thrown.what());
    }
    task = nullptr;  // destroyed before the lock is taken
    lock.lock();
    --going_;
    ++idle_;
  }
}

}  // namespace tenon::api
