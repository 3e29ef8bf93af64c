#pragma once

#include <chrono>
#include <optional>

#include "tenon/base/cancel.h"

/// How long a thread may wait for others, and which token cancels the wait. Code that blocks deep
/// in a call, where no deadline is passed as an argument, looks here.
///
///     const patience::Scope scope({.deadline = now + time_limit, .cancel = gone});
///     tokenizer.encode(...);  // which may ask an upstream
namespace tenon::patience {

using Clock = std::chrono::steady_clock;

struct Limit {
  Clock::time_point deadline = Clock::time_point::max();
  std::optional<CancelToken> cancel{};

  /// Whether the deadline has passed or the token is cancelled.
  [[nodiscard]] bool is_over() const {
    return Clock::now() >= deadline || (cancel && cancel->is_cancelled());
  }
};

/// While it lives, `limit` holds for this thread. Its deadline is never later than that of the
/// Scope around it; without a token it takes that Scope's token.
class Scope {
 public:
  explicit Scope(Limit limit);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Limit limit_;
  const Limit* const outer_;
};

/// The owner of threads, which is told while one of them waits for others, so that it can let
/// another thread go on meanwhile. It is told on the thread that waits.
class Host {
 public:
  virtual ~Host() = default;
  virtual void begins_to_wait() = 0;
  virtual void has_waited() = 0;
};

/// While it lives, this thread is one of the host's.
class Hosted {
 public:
  explicit Hosted(Host& host);
  ~Hosted();
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;
};

/// While it lives, this thread waits for others, and its host, if it has one, knows it.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

/// The limit of this thread; outside of every Scope there is no limit.
[[nodiscard]] const Limit& current();

/// The time at which `limit` from now is over; 0 means never.
[[nodiscard]] Clock::time_point after(std::chrono::milliseconds limit);
/// The time until this thread's deadline, at least 1 ms; 0 if there is no deadline.
[[nodiscard]] std::chrono::milliseconds time_left();

}  // namespace tenon::patience
