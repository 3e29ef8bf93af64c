#include "tenon/engine/llama/mask_worker.h"

namespace tenon::engine {

MaskWorker::MaskWorker() : thread_([this] { work(); }) {}

MaskWorker::~MaskWorker() {
  state_.store(closing, std::memory_order_release);
  state_.notify_all();
  thread_.join();
}

void MaskWorker::begin(std::span<Constraint* const> constraints) {
  constraints_ = constraints;
  if (constraints.empty()) return;
  state_.store(busy, std::memory_order_release);
  state_.notify_all();
}

void MaskWorker::wait() {
  state_.wait(busy, std::memory_order_acquire);
}

void MaskWorker::work() {
  while (true) {
    state_.wait(idle, std::memory_order_acquire);
    if (state_.load(std::memory_order_acquire) == closing) return;
    const auto begin = std::chrono::steady_clock::now();
    for (Constraint* const constraint : constraints_) constraint->prepare_mask();
    took_ = std::chrono::steady_clock::now() - begin;
    state_.store(idle, std::memory_order_release);
    state_.notify_all();
  }
}

}  // namespace tenon::engine
