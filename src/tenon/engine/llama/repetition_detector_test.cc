#include "tenon/engine/llama/repetition_detector.h"

#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"

namespace tenon::engine {
namespace {

using vocab::TokenId;

/// The header's words: the shortest period of the longest end of `text` that has it.
std::size_t naive_period(const std::vector<TokenId>& text) {
  for (std::size_t period = 1; period <= RepetitionDetector::kLongestPeriod; ++period) {
    std::size_t begin = text.size();
    while (begin > 0 &&
           (begin + period > text.size() || text[begin - 1] == text[begin - 1 + period])) {
      --begin;
    }
    const std::size_t tokens = text.size() - begin;
    if (tokens >= RepetitionDetector::kLeastTokens &&
        tokens >= RepetitionDetector::kLeastRepeats * period) {
      return period;
    }
  }
  return 0;
}

// Stretches of random tokens and of repetitions, of all periods around the longest one, over few
// tokens (so that short periods hold by chance within long ones) and many, cut off anywhere.
TEST(RepetitionDetector, FindsWhatALookAtTheWholeTextFinds) {
  std::mt19937 random(41 + proof_seed());
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::size_t texts = is_long_test() ? 2000 : 200;
  std::size_t repetitions = 0;
  for (std::size_t i = 0; i < texts; ++i) {
    const std::size_t kinds = i % 2 == 0 ? 2 : 1000;
    std::vector<TokenId> text;
    RepetitionDetector detector;
    for (std::size_t stretch = 0; stretch < 3; ++stretch) {
      std::vector<TokenId> round(1 + below(RepetitionDetector::kLongestPeriod + 4));
      for (TokenId& token : round) token = static_cast<TokenId>(below(kinds));
      const std::size_t size = below(500);
      for (std::size_t n = 0; n < size; ++n) {
        text.push_back(stretch % 2 == i % 3 % 2 ? round[n % round.size()]
                                                : static_cast<TokenId>(below(kinds)));
        detector.add(text.back());
        const std::size_t period = naive_period(text);
        ASSERT_EQ(detector.period(), period) << "text " << i << ", token " << text.size();
        const TokenId next = static_cast<TokenId>(below(kinds));
        ASSERT_EQ(detector.goes_on_with(next), period > 0 && text[text.size() - period] == next);
        if (period > 0) ++repetitions;
      }
    }
  }
  EXPECT_GT(repetitions, texts);
}

TEST(RepetitionDetector, NeedsSoManyTokensAndRounds) {
  struct Row {
    const char* name;
    std::size_t period;
    std::size_t tokens;  // the first number of tokens that is a repetition; 0: none is
  };
  const Row rows[] = {{"OneToken", 1, 200},
                      {"SomeTokens", 7, 200},
                      {"RoundsCount", 40, 240},
                      {"Longest", 64, 384},
                      {"TooLong", 65, 0}};
  for (const Row& row : rows) {
    RepetitionDetector detector;
    std::size_t found = 0;
    for (std::size_t n = 0; n < 1000 && found == 0; ++n) {
      detector.add(static_cast<TokenId>(n % row.period));
      if (detector.period() > 0) found = n + 1;
    }
    EXPECT_EQ(found, row.tokens) << row.name;
    if (found == 0) continue;
    EXPECT_EQ(detector.period(), row.period) << row.name;
    detector.clear();
    EXPECT_EQ(detector.period(), 0U) << row.name;
    EXPECT_FALSE(detector.goes_on_with(0)) << row.name;
  }
}

}  // namespace
}  // namespace tenon::engine
