#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace tenon::engine {

/// Decides how many threads compute a step, while other programs come and go.
///
/// libllama's threads wait for one another by spinning, some hundred times in a step. If another
/// program takes a processor away from one of them, the others spin until it is given back, so two
/// threads on a busy machine are slower than one: Qwen2.5-Coder-0.5B (Q4_K_M) on 2 cores with nine
/// other runnable programs makes 0.8 to 2.9 tokens/s on two threads and 5.8 to 8.6 on one, for a
/// tenth of the processor time (shared 2-core machine, 2026-11-28).
///
///     ThreadPlan plan(most, first_threads(most, load_average));
///     compute(plan.threads());
///     plan.add({.rows = rows, .wall = ..., .cpu = ...}, now);
///
/// A step's cost is its time on the clock. The plan tries fewer threads (a half, a quarter, …, one)
/// when the computing thread was kept from its processor, and half as many from time to time in any
/// case; it tries twice as many when the thread was not kept from it. It stays with what was
/// fastest. A trial is over after a few steps, or after one slow step, and the time until the next
/// trial of its kind doubles as long as they fail.
class ThreadPlan {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::nanoseconds;

  struct Step {
    std::size_t rows = 1;  ///< How many tokens were computed.
    Duration wall{};
    Duration cpu{};  ///< Processor time of the thread that computes and waits for the others.
  };

  /// `most` is at least 1; `first` is between 1 and `most`.
  ThreadPlan(int most, int first);

  [[nodiscard]] int threads() const { return levels_[is_trying_ ? trial_ : level_]; }
  /// Reports a step with threads() threads. Steps with many rows (prompts) are ignored.
  void add(const Step& step, Clock::time_point now);

 private:
  static constexpr std::size_t kMostRows = 16;

  // Steps at one level that have the same number of rows.
  struct Window {
    std::size_t rows = 0;
    int steps = 0;
    Duration wall{};
    Duration cpu{};
    [[nodiscard]] Duration cost() const { return steps == 0 ? Duration{} : wall / steps; }
    [[nodiscard]] double share() const {
      return wall.count() == 0
                 ? 1
                 : static_cast<double>(cpu.count()) / static_cast<double>(wall.count());
    }
  };
  // When a direction is tried next, and how long it rests after that.
  struct Direction {
    Clock::time_point next;
    Duration rest;
  };

  void settle(Clock::time_point now);
  void begin_trials(std::size_t first, std::size_t last);
  void end_trial(Clock::time_point now);
  void decide(Clock::time_point now);

  std::vector<int> levels_;  // rising: …, most / 2, most
  std::size_t level_;        // the level in use between trials
  bool is_trying_ = false;
  std::size_t trial_ = 0;       // the level that is tried
  std::size_t last_trial_ = 0;  // the level at which the trial ends; at most trial_
  std::size_t best_ = 0;        // the fastest of those that were tried
  Duration best_cost_{};
  bool has_begun_ = false;  // whether a step was added
  Window window_;           // the one that is being filled
  Window settled_;          // the last full one of level_
  Direction down_;
  Direction up_;
};

/// How many of `most` threads to begin with if `load` programs want a processor and there are
/// `cores`.
[[nodiscard]] int first_threads(int most, int cores, double load);

}  // namespace tenon::engine
