#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "tenon/base/expected.h"

struct sock_filter;  // NOLINT: the kernel's

namespace tenon::rlm {

/// A descriptor that is closed at the end, never inherited by a program that is started.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read, write;
};
/// Both ends are above the descriptors that a started program gets.
[[nodiscard]] Expected<Pipe> make_pipe();
/// "what: the system's reason for `number`", as Errc::unavailable.
[[nodiscard]] Unexpected system_error(std::string_view what, int number);

/// A resource (RLIMIT_AS, ...) and its soft and hard limit.
struct ResourceLimit {
  int resource;
  std::uint64_t soft, hard;
};

/// A program to start: all of it is made before, since between fork and exec nothing may be.
struct Start {
  std::vector<std::string> arguments;    ///< The first is the program's absolute path.
  std::vector<std::string> environment;  ///< NAME=value; nothing else is passed on.
  std::vector<int> descriptors;          ///< Become 0, 1, 2, ...; all others are closed.
  std::vector<ResourceLimit> limits;
  int landlock = -1;                       ///< A ruleset to enter; -1: none.
  std::span<const std::byte> filter = {};  ///< A seccomp program to enter; empty: none.
  /// A datagram socket that is told the process's number (a pid_t) before the program begins; -1:
  /// none.
  int notices = -1;
  bool outlives = false;  ///< It is not ended with its parent.
};

/// Starts programs from one thread that lives as long as this, since the kernel ends a program
/// whose parent's *thread* has ended when it is asked to end it with its parent. Thread-safe.
///
/// Started programs have a session of their own, default signals, "/" as folder, no new privileges;
/// a host that runs as root starts them as nobody (65534).
class Spawner {
 public:
  Spawner();
  ~Spawner();
  /// The process, which the caller kills and waits for. Its memory is not copied at any time.
  [[nodiscard]] Expected<pid_t> start(const Start& start);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
