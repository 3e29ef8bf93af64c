#include "tenon/base/budget.h"

#include <utility>

namespace tenon {

bool Budget::check_time() {
  until_check_ = kStepsPerCheck;
  if (spent_ != Spent::nothing) return false;
  // Asked once in kStepsPerCheck steps, since clock and shared counter cost more than a step.
  if (limits_.cancel && limits_.cancel->is_cancelled()) return stop(Spent::cancelled);
  if (limits_.deadline && std::chrono::steady_clock::now() >= *limits_.deadline) {
    return stop(Spent::time);
  }
  if (limits_.shared != nullptr) {
    // Only what was added since the last report.
    const std::uint64_t steps = steps_used() - std::exchange(steps_reported_, steps_used());
    if (!limits_.shared->take_steps(steps)) return stop(Spent::shared_steps);
  }
  return true;
}

Error Budget::error() const {
  const auto exceeded = [this](std::uint64_t limit, const char* unit) {
    return Error{Errc::limit_exceeded, what_ + ": more than " + std::to_string(limit) + unit};
  };
  switch (spent_) {
    case Spent::steps:
      return exceeded(limits_.max_steps, " steps");
    case Spent::bytes:
      return exceeded(limits_.max_bytes, " bytes");
    case Spent::depth:
      return exceeded(limits_.max_depth, " levels of nesting");
    case Spent::time:
      return {Errc::limit_exceeded, what_ + ": not done in time"};
    case Spent::cancelled:
      return {Errc::unavailable, what_ + ": cancelled"};
    case Spent::shared_steps:
      return exceeded(limits_.shared->max_steps(), " steps in all");
    case Spent::shared_bytes:
      return exceeded(limits_.shared->max_bytes(), " bytes in all");
    case Spent::nothing:
      break;
  }
  return {Errc::limit_exceeded, what_ + ": within its limits"};
}

}  // namespace tenon
