#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::rlm {

using TimePoint = std::chrono::steady_clock::time_point;

/// How long to wait, and what can end the wait earlier.
struct Wait {
  TimePoint deadline;
  /// A descriptor: receive returns null as soon as it is readable, even at the deadline.
  int wake = -1;
  /// Setting one of them ends the wait within 50 ms: receive returns null, and send fails as at the
  /// deadline.
  const CancelToken* cancel = nullptr;
  const CancelToken* stop = nullptr;

  [[nodiscard]] bool is_cancelled() const {
    return (cancel != nullptr && cancel->is_cancelled()) ||
           (stop != nullptr && stop->is_cancelled());
  }
};

/// A process with two pipes to it. A frame is 4 bytes of length, most significant first, and that
/// much JSON. When the object is destroyed, the process is killed and waited for.
///
/// For one thread at a time. Sandbox makes workers.
class Worker {
 public:
  static constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;

  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Writes a frame. Fails with Errc::unavailable if the worker has ended (the message says how),
  /// and with Errc::limit_exceeded above kMaxFrameBytes and at the deadline, after which the worker
  /// can only be killed.
  [[nodiscard]] Status send(std::string_view json, const Wait& wait);
  /// Writes any number of bytes that follow a frame.
  [[nodiscard]] Status send_bytes(std::string_view bytes, const Wait& wait);
  /// Waits for a frame, which is an object with a text "op". Fails with Errc::limit_exceeded at the
  /// deadline, after which it may be called again; otherwise as send. A violation of the protocol
  /// fails with Errc::invalid and ends the worker.
  [[nodiscard]] Expected<json::Value> receive(const Wait& wait);

  /// Makes the pipe to the worker large for long texts, or small again.
  void widen(bool wide);
  /// Asks the interpreter to stop the current cell.
  void interrupt() const;
  /// The CPU time of all its threads since its start; 0 if it has ended.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const;
  /// Whether the worker is still running.
  [[nodiscard]] bool is_alive();
  /// Kills the worker with all its processes and waits until they are gone, which takes some
  /// milliseconds.
  void kill();
  /// How it ended: "it was killed by SIGSEGV"; "" while it lives, or if only kill() ended it.
  [[nodiscard]] const std::string& ending() const;
  /// The process that was started, for logs and tests.
  [[nodiscard]] pid_t pid() const;

 private:
  [[nodiscard]] Unexpected ended();
  [[nodiscard]] Status fill(std::size_t bytes, const Wait& wait, bool& woken);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
