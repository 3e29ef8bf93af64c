#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// Tells whether a text repeats itself: its last tokens are the same few ones again and again, at
/// least kLeastRepeats times and kLeastTokens tokens long. Only exact repeats count, so a list of
/// numbers that grow does not repeat itself.
///
/// A token costs a comparison for each period (0.2 us), and nothing is allocated: 64 counters say
/// how long each period has held, so no earlier token is looked at again.
///
///     RepetitionDetector repetitions;
///     repetitions.add(token);                       // each token of the answer
///     if (repetitions.goes_on_with(next)) { ... }   // `next` would be one more of the repetition
class RepetitionDetector {
 public:
  static constexpr std::size_t kLongestPeriod = 64;
  static constexpr std::size_t kLeastRepeats = 6;
  static constexpr std::size_t kLeastTokens = 200;

  void add(vocab::TokenId token);
  /// The number of tokens that are repeated, the shortest if there are several; 0: no repetition.
  [[nodiscard]] std::size_t period() const { return period_; }
  /// How many tokens at the end of the text the repetition takes, with its first round; 0: no
  /// repetition.
  [[nodiscard]] std::size_t tokens() const { return period_ > 0 ? held_[period_] + period_ : 0; }
  /// Whether there is a repetition, and it goes on with `token`.
  [[nodiscard]] bool goes_on_with(vocab::TokenId token) const {
    return period_ > 0 && before(period_) == token;
  }
  /// Forgets the text.
  void clear() { *this = {}; }
  /// The tokens that come next if the repetition goes on: period() of them.
  [[nodiscard]] std::vector<vocab::TokenId> round() const;

 private:
  // The token `back` places before the next one; 1: the last one.
  [[nodiscard]] vocab::TokenId before(std::size_t back) const {
    return last_[(count_ - back) % kLongestPeriod];
  }

  std::array<vocab::TokenId, kLongestPeriod> last_{};  // a ring; token i is at i % kLongestPeriod
  std::array<std::uint32_t, kLongestPeriod + 1> held_{};  // by period: tokens equal to that before
  std::size_t count_ = 0;
  std::size_t period_ = 0;
};

}  // namespace tenon::engine
