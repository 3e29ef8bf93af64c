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

/// How long to wait, and what ends it earlier.
struct Wait {
  TimePoint deadline;
  /// A descriptor: receive returns null as soon as it can be read, also at the deadline.
  int wake = -1;
  /// Either ends the wait within 50 ms: receive returns null, send fails as at the deadline.
  const CancelToken* cancel = nullptr;
  const CancelToken* stop = nullptr;

  [[nodiscard]] bool is_cancelled() const {
    return (cancel != nullptr && cancel->is_cancelled()) ||
           (stop != nullptr && stop->is_cancelled());
  }
};

/// A process and the two pipes to it: frames of 4 bytes of length, most significant first, and that
/// much JSON. Ends with the object: then the process is dead and waited for.
///
/// One thread at a time. Sandbox makes them.
class Worker {
 public:
  static constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;

  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Writes a frame. Fails with Errc::unavailable where the worker has ended (the message says
  /// how), with Errc::limit_exceeded at the deadline, after which kill() is all that is left, and
  /// above kMaxFrameBytes.
  [[nodiscard]] Status send(std::string_view json, const Wait& wait);
  /// Writes bytes that follow a frame, any number.
  [[nodiscard]] Status send_bytes(std::string_view bytes, const Wait& wait);
  /// Waits for a frame; it is an object with a text "op". Fails with Errc::limit_exceeded at the
  /// deadline, and may be called again; otherwise as send. What breaks the protocol fails with
  /// Errc::invalid and ends the worker.
  [[nodiscard]] Expected<json::Value> receive(const Wait& wait);

  /// Makes the pipe to the worker large, or as it was, for what is long.
  void widen(bool wide);
  /// Asks the interpreter to stop the cell that it runs.
  void interrupt() const;
  /// Of all its threads, since its start; 0 where it has ended.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const;
  /// Whether it has not ended on its own.
  [[nodiscard]] bool is_alive();
  /// Kills it with all of its processes and waits until they are gone, some milliseconds.
  void kill();
  /// How it ended: "it was killed by SIGSEGV"; "" while it lives or after kill() alone.
  [[nodiscard]] const std::string& ending() const;
  /// The process that we started, for logs and tests.
  [[nodiscard]] pid_t pid() const;

 private:
  [[nodiscard]] Unexpected ended();
  [[nodiscard]] Status fill(std::size_t bytes, const Wait& wait, bool& woken);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
