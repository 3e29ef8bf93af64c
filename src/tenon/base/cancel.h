#pragma once

#include <atomic>
#include <memory>

namespace tenon {

/// A flag that many may read and anyone may set, once. Copies share it. Thread-safe.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true, std::memory_order_release); }
  [[nodiscard]] bool is_cancelled() const { return flag_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace tenon
