#pragma once

#include <chrono>
#include <optional>

#include "tenon/base/cancel.h"

/// How long a thread may wait for others, and who may call it off: what blocks deep within, where
/// nobody passes a deadline on, looks here.
///
///     const patience::Scope scope({.deadline = now + time_limit, .cancel = gone});
///     tokenizer.encode(...);  // which may ask a server elsewhere
namespace tenon::patience {

using Clock = std::chrono::steady_clock;

struct Limit {
  Clock::time_point deadline = Clock::time_point::max();
  std::optional<CancelToken> cancel{};

  /// Nothing is worth waiting for any more.
  [[nodiscard]] bool is_over() const {
    return Clock::now() >= deadline || (cancel && cancel->is_cancelled());
  }
};

/// While it lives, `limit` is this thread's, the deadline no later than that of the Scope around
/// it, and that one's token where it has none.
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

/// Of this thread; outside of every Scope there is no limit.
[[nodiscard]] const Limit& current();

/// When `limit` is over, from now on; 0: never.
[[nodiscard]] Clock::time_point after(std::chrono::milliseconds limit);
/// Until the deadline of this thread, at least 1 ms; 0: there is none.
[[nodiscard]] std::chrono::milliseconds time_left();

}  // namespace tenon::patience
