#include "tenon/rlm/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/log.h"

namespace tenon::rlm {
namespace {

// How long to wait after a start that failed before the next try.
constexpr std::chrono::seconds kPause{1};

}  // namespace

// One thread keeps `options.warm` workers ready, so that a run need not wait for a start. It starts
// them one after the other and without the lock, so take() never waits for a start of another.
struct WorkerPool::Impl {
  std::shared_ptr<Sandbox> sandbox;
  Options options;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::unique_ptr<Worker>> warm;
  bool is_over = false;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (!is_over) {
      wake.wait(lock, [this] { return is_over || warm.size() < options.warm; });
      if (is_over) return;
      lock.unlock();
      auto worker = sandbox->start(options.limits);
      lock.lock();
      if (worker) {
        warm.push_back(*std::move(worker));
        continue;
      }
      log::warn("no worker of a recursive model is kept ready: " + worker.error().message);
      wake.wait_for(lock, kPause, [this] { return is_over; });
    }
  }
};

WorkerPool::WorkerPool(std::shared_ptr<Sandbox> sandbox, const Options& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->sandbox = std::move(sandbox);
  impl_->options = options;
  impl_->thread = std::thread([this] { impl_->run(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_over = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

Expected<std::unique_ptr<Worker>> WorkerPool::take() {
  while (true) {
    std::unique_ptr<Worker> worker;
    {
      const std::lock_guard lock(impl_->mutex);
      if (impl_->warm.empty()) break;
      worker = std::move(impl_->warm.back());
      impl_->warm.pop_back();
    }
    impl_->wake.notify_all();
    if (worker->is_alive()) return worker;  // otherwise it has been killed
  }
  return impl_->sandbox->start(impl_->options.limits);
}

std::size_t WorkerPool::ready() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->warm.size();
}

}  // namespace tenon::rlm
