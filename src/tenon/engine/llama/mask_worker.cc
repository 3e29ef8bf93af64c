#include "tenon/engine/llama/mask_worker.h"

#include "tenon/base/crash.h"

namespace tenon::engine {

MaskWorker::MaskWorker() : thread_([this] { work(); }) {}

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  work_came_.notify_one();
  thread_.join();
}

void MaskWorker::begin(std::span<Constraint* const> constraints) {
  if (constraints.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    to_do_ = constraints;
  }
  work_came_.notify_one();
}

// The caller makes masks too, and waits at last for the one that the worker has in hand.
void MaskWorker::finish() {
  std::unique_lock lock(mutex_);
  while (make_one(lock)) continue;
  work_went_.wait(lock, [this] { return in_hand_ == 0; });
}

void MaskWorker::work() {
  const crash::ThreadStack stack;
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    // begin() notifies with to_do_ already set, and make_one() looks at it with the lock, so no
    // notification is missed.
    if (!make_one(lock)) work_came_.wait(lock);
  }
}

// False: no mask is left to begin with.
bool MaskWorker::make_one(std::unique_lock<std::mutex>& lock) {
  if (to_do_.empty()) return false;
  Constraint* const constraint = to_do_.front();
  to_do_ = to_do_.subspan(1);
  ++in_hand_;
  // Without the lock, so that the other thread takes the next mask meanwhile.
  lock.unlock();
  constraint->prepare_mask();
  lock.lock();
  if (--in_hand_ == 0) work_went_.notify_one();
  return true;
}

}  // namespace tenon::engine
