#include "tenon/api/workers.h"

#include <exception>
#include <string>
#include <utility>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"

// Threads that take tasks from one queue. A task that throws is logged and ends alone. stop() drops
// what waits and joins the threads; later tasks are dropped, too.

namespace tenon::api {

Workers::Workers(unsigned threads) {
  try {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    stop();  // without it the destructors of the started threads would wait for ever
    throw;
  }
}

Workers::~Workers() {
  stop();
}

void Workers::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    waiting_.push_back(std::move(task));
  }
  wake_.notify_one();
}

std::size_t Workers::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Workers::stop() {
  std::deque<std::function<void()>> dropped;  // destroyed after the lock, since tasks own much
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(waiting_);
  }
  wake_.notify_all();
  threads_.clear();
}

void Workers::run() {
  // A stack for the crash handler, since one that has overflowed cannot be used to report it.
  const crash::ThreadStack stack;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return is_stopped_ || !waiting_.empty(); });
    if (is_stopped_) return;
    std::function<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      task();
    } catch (const std::exception& thrown) {
      log::error(std::string("a task failed: ") + thrown.what());
    }
    task = nullptr;  // destroyed before the lock is taken
    lock.lock();
  }
}

}  // namespace tenon::api
