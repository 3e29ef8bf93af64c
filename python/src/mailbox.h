#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tenon::python {

/// Carries items from the library's threads to a thread of Python's. The library never waits for
/// the GIL: a reader either waits without it (next()), or lets its event loop watch fd() and takes
/// what is there (take()).
template <typename T>
class Mailbox {
 public:
  Mailbox() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) {
      PyErr_SetFromErrno(PyExc_OSError);
      nanobind::raise_python_error();
    }
  }
  ~Mailbox() { ::close(fd_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void put(T item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    wake();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
    wake();
  }

  /// The next item; no value at the end. Call it with the GIL; it waits without it, and Ctrl-C
  /// interrupts it.
  [[nodiscard]] std::optional<T> next() {
    for (;;) {
      {
        const nanobind::gil_scoped_release released;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::milliseconds(50),
                          [this] { return is_ended_ || !items_.empty(); });
        if (!items_.empty()) {
          T item = std::move(items_.front());
          items_.pop_front();
          return item;
        }
        if (is_ended_) return std::nullopt;
      }
      if (PyErr_CheckSignals() != 0) nanobind::raise_python_error();
    }
  }

  /// All items that are there, and whether that was the end. Does not wait, and resets fd().
  [[nodiscard]] std::pair<std::deque<T>, bool> take() {
    const std::lock_guard lock(mutex_);
    std::uint64_t wakes = 0;
    while (::read(fd_, &wakes, sizeof(wakes)) > 0) {
    }
    return {std::exchange(items_, {}), is_ended_};
  }

  /// Call it without the GIL. False: it has not ended yet.
  [[nodiscard]] bool wait_for_end(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return is_ended_; });
  }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return is_ended_;
  }

 private:
  void wake() {
    const std::uint64_t one = 1;
    // It fails only if the counter is full, and then fd() is readable already.
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
    changed_.notify_all();
  }

  const int fd_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;    // guarded by mutex_
  bool is_ended_ = false;  // guarded by mutex_
};

}  // namespace tenon::python
