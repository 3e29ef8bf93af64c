#include "tenon/engine/llama/repetition_detector.h"

#include <algorithm>

namespace tenon::engine {

// The repeats of a period are the tokens that were equal to the one a period before, and the first
// round, which they repeat.
void RepetitionDetector::add(vocab::TokenId token) {
  period_ = 0;
  const std::size_t longest = std::min(kLongestPeriod, count_);
  for (std::size_t period = longest; period > 0; --period) {
    held_[period] = before(period) == token ? held_[period] + 1 : 0;
    const std::size_t tokens = held_[period] + period;
    if (tokens >= kLeastTokens && tokens >= kLeastRepeats * period) period_ = period;
  }
  last_[count_ % kLongestPeriod] = token;
  ++count_;
}

std::vector<vocab::TokenId> RepetitionDetector::round() const {
  std::vector<vocab::TokenId> round;
  for (std::size_t back = period_; back > 0; --back) round.push_back(before(back));
  return round;
}

}  // namespace tenon::engine
