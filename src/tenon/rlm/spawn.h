#pragma once

#include <array>
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

/// Starts programs from one thread that lives as long as this object: a program that asks the
/// kernel to end it with its parent is ended when the parent's *thread* ends. Thread-safe.
///
/// Started programs have a session of their own, default signals, "/" as their folder, and no new
/// privileges. If the host runs as root, they run as user nobody (65534).
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
