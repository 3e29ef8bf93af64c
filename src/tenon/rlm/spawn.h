#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/expected.h"

struct sock_filter;  // NOLINT: the kernel's

namespace tenon::rlm {

struct Pipe {
  Descriptor read, write;
};
/// Both ends are above the descriptors that a started program gets, and it does not inherit them.
[[nodiscard]] Expected<Pipe> make_pipe();
/// "what: the system's reason for `number`", with Errc::unavailable.
[[nodiscard]] Unexpected system_error(std::string_view what, int number);

/// A resource (RLIMIT_AS, ...) and its soft and hard limit.
struct ResourceLimit {
  int resource;
  std::uint64_t soft, hard;
};

/// A program to start. Everything is prepared before, because nothing can be allocated between fork
/// and exec.
struct Start {
  std::vector<std::string> arguments;    ///< The first is the program's absolute path.
  std::vector<std::string> environment;  ///< NAME=value; nothing else is passed on.
  std::vector<int> descriptors;          ///< Become 0, 1, 2, ...; all others are closed.
  std::vector<ResourceLimit> limits;
  int landlock = -1;                       ///< A ruleset to enter; -1: none.
  std::span<const std::byte> filter = {};  ///< A seccomp program to enter; empty: none.
  /// A datagram socket that receives the process's number (a pid_t) before the program begins; -1:
  /// no socket.
  int notices = -1;
  bool outlives = false;  ///< The program is not ended with its parent.
};

/// The user and the group of started programs, `nobody`, if the host runs as root.
inline constexpr unsigned kWorkerUser = 65534;

/// The CPU time of a process with all its threads; 0 if it has ended.
[[nodiscard]] std::chrono::nanoseconds cpu_time_of(pid_t pid);

/// How long to wait for a program that begins. It may take as long as it works, since a busy
/// machine and large imports make a beginning long; one that hangs takes no CPU time.
class StartWait {
 public:
  static constexpr std::chrono::seconds kStill{20};  ///< Without CPU time.
  static constexpr std::chrono::seconds kMost{600};  ///< In all.

  using TimePoint = std::chrono::steady_clock::time_point;
  explicit StartWait(TimePoint now) : begun_(now), worked_(now) {}
  /// `cpu` is the CPU time that the program has taken until `now`.
  [[nodiscard]] bool is_over(TimePoint now, std::chrono::nanoseconds cpu);
  /// Whether the program has taken no CPU time for kStill, as is_over() has seen it.
  [[nodiscard]] bool is_still(TimePoint now) const { return now - worked_ >= kStill; }

 private:
  TimePoint begun_;
  TimePoint worked_;  // when its CPU time was last seen to grow
  std::chrono::nanoseconds cpu_{0};
};

/// Starts programs from one thread that lives as long as this object: a program that asks the
/// kernel to end it with its parent is ended when the parent's *thread* ends. Thread-safe.
///
/// Started programs have a session of their own, default signals, "/" as their folder, and no new
/// privileges. If the host runs as root, they run as kWorkerUser.
class Spawner {
 public:
  Spawner();
  ~Spawner();
  /// The process, which the caller must kill and wait for. The host's memory is never copied.
  [[nodiscard]] Expected<pid_t> start(const Start& start);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
