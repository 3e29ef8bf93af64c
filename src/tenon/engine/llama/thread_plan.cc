#include "tenon/engine/llama/thread_plan.h"

#include <algorithm>

// A window is a few steps with the same number of rows and threads; steps are compared only by
// whole windows, because a single one may be slow by chance. settle() takes a window at the present
// level and may begin trials; end_trial() takes the window of one trial, from more threads to
// fewer; decide() keeps the fastest level or lets the direction rest.

namespace tenon::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kWindowSteps = 4;
constexpr auto kWindowTime = 200ms;  // after this time a window is full, even with few steps
constexpr double kCrowded = 0.8;  // share of the clock's time on a processor; others had the rest
constexpr double kFree = 0.9;     // above this share there may be more processors to use
constexpr double kFaster = 0.9;   // of the cost; a smaller gain is noise
constexpr double kSlow = 1.5;     // of the cost; one such step is enough to see it
constexpr auto kFirstRest = 2s;   // after a trial in one direction that did not help
constexpr auto kFirstPeriodic = 10s;  // until fewer threads are tried without a reason
constexpr auto kLongestRest = 120s;

}  // namespace

// 12 threads at most give the levels 1, 3, 6, 12; `first` = 4 begins with 3.
ThreadPlan::ThreadPlan(int most, int first) {
  for (int threads = std::max(1, most); threads > 1; threads /= 2) levels_.push_back(threads);
  levels_.push_back(1);
  std::ranges::reverse(levels_);
  const auto above = std::ranges::upper_bound(levels_, std::max(1, first));
  level_ = static_cast<std::size_t>(above - levels_.begin()) - 1;
}

void ThreadPlan::add(const Step& step, Clock::time_point now) {
  if (levels_.size() == 1 || step.rows > kMostRows || step.rows == 0) return;
  if (!has_begun_) {
    has_begun_ = true;
    down_ = {.next = now + kFirstPeriodic, .rest = kFirstPeriodic};
    up_ = {.next = now + kFirstRest, .rest = kFirstRest};
  }
  if (window_.rows != step.rows) {
    // The trial cannot be compared any more, since steps have another number of rows now.
    is_trying_ = is_trying_ && settled_.rows == step.rows;
    window_ = {.rows = step.rows};
  }
  ++window_.steps;
  window_.wall += step.wall;
  window_.cpu += step.cpu;
  const bool is_whole = window_.steps >= kWindowSteps || window_.wall >= kWindowTime;
  const bool is_slow = is_trying_ && static_cast<double>(step.wall.count()) >
                                         kSlow * static_cast<double>(settled_.cost().count());
  if (!is_whole && !is_slow) return;
  if (is_trying_) {
    end_trial(now);
  } else {
    settle(now);
  }
  window_ = {.rows = step.rows};
}

void ThreadPlan::settle(Clock::time_point now) {
  settled_ = window_;
  const bool is_crowded = settled_.share() < kCrowded;
  // A crowd is a reason not to wait for the period, but only for the rest after a vain trial.
  const bool may_go_down =
      level_ > 0 && (now >= down_.next || (is_crowded && down_.rest == kFirstPeriodic));
  if (may_go_down) {
    begin_trials(level_ - 1, is_crowded ? 0 : level_ - 1);
  } else if (level_ + 1 < levels_.size() && settled_.share() >= kFree && now >= up_.next) {
    begin_trials(level_ + 1, level_ + 1);
  }
}

void ThreadPlan::begin_trials(std::size_t first, std::size_t last) {
  is_trying_ = true;
  trial_ = first;
  last_trial_ = last;
  best_cost_ = Duration::max();
}

void ThreadPlan::end_trial(Clock::time_point now) {
  if (window_.cost() < best_cost_) {
    best_cost_ = window_.cost();
    best_ = trial_;
  }
  if (trial_ > last_trial_) {
    --trial_;
  } else {
    is_trying_ = false;
    decide(now);
  }
}

void ThreadPlan::decide(Clock::time_point now) {
  const bool is_faster = static_cast<double>(best_cost_.count()) <
                         kFaster * static_cast<double>(settled_.cost().count());
  if (!is_faster) {
    // Trials went in one direction only, and best_ is one of them, so it tells which.
    Direction& direction = best_ < level_ ? down_ : up_;
    direction.rest = std::min<Duration>(2 * direction.rest, kLongestRest);
    direction.next = now + direction.rest;
    return;
  }
  // Goes on in the same direction at once, and back only after a while.
  const bool goes_up = best_ > level_;
  level_ = best_;
  down_ = {.next = now + kFirstPeriodic, .rest = kFirstPeriodic};
  up_ = {.next = goes_up ? now : now + kFirstRest, .rest = kFirstRest};
}

// The load average of the last minute says how many cores other programs want.
int first_threads(int most, int cores, double load) {
  const int busy = static_cast<int>(std::clamp(load, 0.0, 4096.0));
  return std::clamp(cores - busy, 1, std::max(1, most));
}

}  // namespace tenon::engine
