#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"

namespace tenon {

/// Steps and bytes that several budgets share. Each of those budgets also has limits of its own,
/// and names the allowance in `Limits::shared`. A budget reports its steps a thousand at a time, so
/// each may use up to that many more. For one thread at a time.
class Allowance {
 public:
  Allowance(std::uint64_t max_steps, std::uint64_t max_bytes)
      : max_steps_(max_steps), max_bytes_(max_bytes) {}

  /// Each counts what is taken and returns false if that was more than is left.
  [[nodiscard]] bool take_steps(std::uint64_t steps) {
    steps_used_ += steps;
    return steps_used_ <= max_steps_;
  }
  [[nodiscard]] bool take_bytes(std::uint64_t bytes) {
    bytes_used_ += bytes;
    return bytes_used_ <= max_bytes_;
  }
  void give_back_bytes(std::uint64_t bytes) { bytes_used_ -= bytes; }

  void set_max_steps(std::uint64_t max_steps) { max_steps_ = max_steps; }
  [[nodiscard]] std::uint64_t max_steps() const { return max_steps_; }
  [[nodiscard]] std::uint64_t max_bytes() const { return max_bytes_; }
  [[nodiscard]] std::uint64_t steps_used() const { return steps_used_; }
  [[nodiscard]] std::uint64_t bytes_used() const { return bytes_used_; }

 private:
  std::uint64_t max_steps_;
  std::uint64_t max_bytes_;
  std::uint64_t steps_used_ = 0;
  std::uint64_t bytes_used_ = 0;
};

/// What one compile, parse, render or mask may cost.
struct Limits {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t max_steps = kUnlimited;  ///< In the unit of the work: instructions, states, nodes.
  std::uint64_t max_bytes = kUnlimited;  ///< Bytes that the work produces or keeps.
  std::uint32_t max_depth = std::numeric_limits<std::uint32_t>::max();
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::optional<CancelToken> cancel;
  Allowance* shared = nullptr;  ///< Outlives the work. Null: there is no shared allowance.
};

/// Counts what a piece of work costs against its limits. Once a limit is reached, every later call
/// returns false, so nested code need only return.
///
///     Budget budget("template", {.max_steps = 1'000'000, .max_bytes = 8 << 20, .max_depth = 100});
///     Status render(const Node& node, Budget& budget) {
///       const Budget::Level level(budget);
///       if (!level || !budget.step()) return Unexpected(budget.error());
///       ...
///     }
///
/// A step costs a subtraction; the clock and the token are read at one step in 1024. Bytes that are
/// freed may be given back. One budget serves one piece of work, from one thread.
class Budget {
 public:
  /// `what` begins the error's sentence.
  Budget(std::string what, Limits limits)
      : what_(std::move(what)),
        limits_(std::move(limits)),
        steps_left_(limits_.max_steps),
        bytes_left_(limits_.max_bytes) {}

  /// Each returns false once a limit is reached.
  [[nodiscard]] bool step(std::uint64_t steps = 1) {
    if (spent_ != Spent::nothing || steps > steps_left_) return stop(Spent::steps);
    steps_left_ -= steps;
    if (steps < until_check_) {
      until_check_ -= static_cast<std::uint32_t>(steps);
      return true;
    }
    return check_time();
  }
  [[nodiscard]] bool take_bytes(std::uint64_t bytes) {
    if (spent_ != Spent::nothing || bytes > bytes_left_) return stop(Spent::bytes);
    bytes_left_ -= bytes;
    return limits_.shared == nullptr || limits_.shared->take_bytes(bytes) ||
           stop(Spent::shared_bytes);
  }
  void give_back_bytes(std::uint64_t bytes) {
    bytes_left_ += bytes;
    if (limits_.shared != nullptr) limits_.shared->give_back_bytes(bytes);
  }

  /// One level of nesting, until the object is destroyed; false if that is one level too many.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.max_depth) budget_.stop(Spent::depth);
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    explicit operator bool() const { return budget_.spent_ == Spent::nothing; }

   private:
    Budget& budget_;
  };

  /// Reads the clock and the token now, for work whose steps are long, and reports what is shared.
  [[nodiscard]] bool check_time();

  [[nodiscard]] bool is_spent() const { return spent_ != Spent::nothing; }
  [[nodiscard]] std::uint64_t steps_used() const { return limits_.max_steps - steps_left_; }
  [[nodiscard]] std::uint64_t bytes_used() const { return limits_.max_bytes - bytes_left_; }
  /// "template: more than 1000000 steps": Errc::limit_exceeded, or Errc::unavailable if cancelled.
  /// Call it only after a limit was reached.
  [[nodiscard]] Error error() const;

 private:
  enum class Spent : std::uint8_t {
    nothing,
    steps,
    bytes,
    depth,
    time,
    cancelled,
    shared_steps,
    shared_bytes,
  };
  static constexpr std::uint32_t kStepsPerCheck = 1024;

  // The first limit that is reached is the one the error names.
  bool stop(Spent what) {
    if (spent_ == Spent::nothing) spent_ = what;
    return false;
  }

  std::string what_;
  Limits limits_;
  std::uint64_t steps_left_;
  std::uint64_t bytes_left_;
  std::uint64_t steps_reported_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t until_check_ = kStepsPerCheck;
  Spent spent_ = Spent::nothing;
};

}  // namespace tenon
