#include "tenon/engine/llama/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

using message::Sampling;
using Logits = std::vector<float>;

constexpr float kSamplerInfinity = std::numeric_limits<float>::infinity();
constexpr float kSamplerNan = std::numeric_limits<float>::quiet_NaN();

Logits logs_of(const std::vector<double>& probabilities) {
  Logits logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3.0F);
  return logits;
}

/// Shares of each token among `draws` draws from the same logits.
std::vector<double> shares(const Sampling& sampling, const Logits& logits, int draws,
                           std::uint64_t seed = 1) {
  Sampler sampler(sampling, logits.size(), seed);
  SamplerScratch scratch;
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    Logits row = logits;
    const auto id = sampler.sample(row, scratch);
    EXPECT_TRUE(id);
    if (id) counts[static_cast<std::size_t>(*id)] += 1.0;
  }
  for (double& count : counts) count /= draws;
  return counts;
}

struct Distribution {
  std::string_view name;
  Sampling sampling;
  std::vector<double> probabilities;  // what the model says
  std::vector<double> expected;       // what the draws should show
};

const Distribution kDistributions[] = {
    {"Plain", {}, {0.5, 0.3, 0.15, 0.05}, {0.5, 0.3, 0.15, 0.05}},
    {"PlainUnsorted", {}, {0.05, 0.5, 0.15, 0.3}, {0.05, 0.5, 0.15, 0.3}},
    {"TemperatureHalf", {.temperature = 0.5}, {0.5, 0.25, 0.25}, {2.0 / 3, 1.0 / 6, 1.0 / 6}},
    {"TemperatureTwo", {.temperature = 2.0}, {0.64, 0.32, 0.04}, {0.4531, 0.3204, 0.1133}},
    {"TopK", {.top_k = 2}, {0.1, 0.5, 0.3, 0.1}, {0, 0.625, 0.375, 0}},
    {"TopKOfAll", {.top_k = 9}, {0.5, 0.3, 0.2}, {0.5, 0.3, 0.2}},
    {"TopKTieGoesToTheLowerId", {.top_k = 2}, {0.25, 0.25, 0.25, 0.25}, {0.5, 0.5, 0, 0}},
    {"TopP", {.top_p = 0.7}, {0.2, 0.5, 0.25, 0.05}, {0, 2.0 / 3, 1.0 / 3, 0}},
    {"TopPOfOne", {.top_p = 0.4}, {0.3, 0.5, 0.2}, {0, 1, 0}},
    {"TopPZeroIsTheBest", {.top_p = 0.0}, {0.3, 0.5, 0.2}, {0, 1, 0}},
    {"TopPAfterTopK", {.top_p = 0.6, .top_k = 2}, {0.4, 0.3, 0.3}, {1.0 * 4 / 7, 3.0 / 7, 0}},
    {"TopPAfterTemperature", {.temperature = 0.5, .top_p = 0.6}, {0.5, 0.25, 0.25}, {1, 0, 0}},
    {"MinP", {.min_p = 0.5}, {0.1, 0.5, 0.3, 0.1}, {0, 0.625, 0.375, 0}},
    {"MinPOne", {.min_p = 1.0}, {0.1, 0.5, 0.4}, {0, 1, 0}},
    {"MinPAndTopP", {.top_p = 0.95, .min_p = 0.5}, {0.5, 0.3, 0.1, 0.1}, {0.625, 0.375, 0, 0}},
    {"BiasForbids", {.logit_bias = {{0, -1000.0}}}, {0.5, 0.3, 0.2}, {0, 0.6, 0.4}},
    {"BiasForces", {.logit_bias = {{2, 100.0}}}, {0.5, 0.3, 0.2}, {0, 0, 1}},
    {"BiasAdds", {.logit_bias = {{0, std::log(2.0)}}}, {0.25, 0.5}, {0.5, 0.5}},
};

class Sampled : public ::testing::TestWithParam<Distribution> {};

TEST_P(Sampled, HasTheExpectedShares) {
  constexpr int kDraws = 40'000;
  double sum = 0.0;
  for (const double p : GetParam().expected) sum += p;
  const auto counted = shares(GetParam().sampling, logs_of(GetParam().probabilities), kDraws);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const double expected = GetParam().expected[i] / sum;
    // Five standard deviations; an expectation of zero allows no draw at all.
    const double tolerance = 5 * std::sqrt(expected * (1 - expected) / kDraws);
    EXPECT_NEAR(counted[i], expected, tolerance) << "token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Sampled, ::testing::ValuesIn(kDistributions),
                         [](const auto& test) { return std::string(test.param.name); });

// Sizes up to a real vocabulary's, so that blocks, lanes and remainders occur: compared with plain
// arithmetic.
TEST(Sampler, DrawsOverALargeVocabularyAsPlainArithmeticDoes) {
  for (const std::size_t size : {1U, 3U, 63U, 64U, 65U, 4678U}) {
    SCOPED_TRACE(size);
    Logits logits(size);
    std::uint32_t state = 7;
    for (float& logit : logits) {
      state = state * 1664525U + 1013904223U;
      logit = static_cast<float>(state >> 16) / 8192.0F - 4.0F;  // -4 to 4
    }
    double total = 0.0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    constexpr int kDraws = 20'000;
    const auto counted = shares({}, logits, kDraws);
    for (std::size_t i = 0; i < size; ++i) {
      const double p = std::exp(static_cast<double>(logits[i])) / total;
      EXPECT_NEAR(counted[i], p, 6 * std::sqrt(p / kDraws) + 5.0 / kDraws) << i;  // Poisson
    }
  }
}

// Two ways through the code that must give the same distribution.
TEST(Sampler, ABoundThatCutsNothingChangesNothing) {
  constexpr int kDraws = 20'000;
  Logits logits(100);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = std::sin(static_cast<float>(i) * 12.9898F) * 3.0F;
  }
  const auto all = shares({}, logits, kDraws);
  const auto cut = shares({.min_p = 1e-9}, logits, kDraws);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(all[i], cut[i], 6 * std::sqrt(2 * all[i] / kDraws) + 5.0 / kDraws);
  }
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  SamplerScratch scratch;
  for (const Sampling& sampling : {Sampling{.temperature = 0.0}, Sampling{.top_k = 1}}) {
    Sampler sampler(sampling, 6, 1);
    Logits row = {1.0F, -kSamplerInfinity, 5.0F, kSamplerNan, 5.0F, 2.0F};
    EXPECT_EQ(sampler.sample(row, scratch), 2);
  }
}

TEST(Sampler, NeverDrawsNanOrMinusInfinity) {
  for (const Sampling& sampling :
       {Sampling{}, Sampling{.top_p = 0.999}, Sampling{.top_k = 3}, Sampling{.min_p = 0.001},
        Sampling{.temperature = 100.0}, Sampling{.temperature = 1e-6}}) {
    const auto counted =
        shares(sampling,
               {kSamplerNan, 0.0F, -kSamplerInfinity, 0.0F, kSamplerNan, -kSamplerInfinity}, 500);
    EXPECT_EQ(counted[0] + counted[2] + counted[4] + counted[5], 0.0);
  }
}

TEST(Sampler, GivesUpWhereNothingIsANumber) {
  SamplerScratch scratch;
  for (const Logits& logits :
       {Logits{kSamplerNan, kSamplerNan}, Logits{-kSamplerInfinity, -kSamplerInfinity},
        Logits{0.0F, kSamplerInfinity}, Logits{-kSamplerInfinity, kSamplerNan}}) {
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 0.0}}) {
      Sampler sampler(sampling, 2, 1);
      Logits row = logits;
      EXPECT_EQ(sampler.sample(row, scratch), std::nullopt);
    }
  }
}

TEST(Sampler, SameSeedSameTokens) {
  const Logits logits = logs_of({0.2, 0.2, 0.2, 0.2, 0.2});
  const auto draw = [&](std::uint64_t seed) {
    Sampler sampler({}, logits.size(), seed);
    SamplerScratch scratch;
    std::vector<TokenId> ids;
    for (int i = 0; i < 50; ++i) {
      Logits row = logits;
      ids.push_back(sampler.sample(row, scratch).value_or(-1));
    }
    return ids;
  };
  EXPECT_EQ(draw(42), draw(42));
  EXPECT_NE(draw(42), draw(43));
  EXPECT_NE(draw(0), draw(1));
}

// The sequence is a promise to users who keep seeds: it may change only with a major version.
TEST(Sampler, ASeedMeansTheseTokens) {
  const Logits logits = logs_of({0.1, 0.2, 0.3, 0.25, 0.15});
  Sampler sampler({}, logits.size(), 2026);
  SamplerScratch scratch;
  std::string drawn;
  for (int i = 0; i < 32; ++i) {
    Logits row = logits;
    drawn += static_cast<char>('0' + sampler.sample(row, scratch).value_or(-1));
  }
  EXPECT_EQ(drawn, "42323343212421311232333122344322");
}

struct Penalty {
  std::string_view name;
  Sampling sampling;
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // each forced by a large logit, in this order
  Logits logits;
  TokenId chosen;  // the greedy choice
};

const Penalty kPenalties[] = {
    {"None", {}, {0}, {0}, {1.0F, 0.9F}, 0},
    {"PresenceCountsTheAnswer", {.presence_penalty = 0.2}, {}, {0}, {1.0F, 0.9F}, 1},
    {"PresenceCountsOnce", {.presence_penalty = 0.05}, {}, {0, 0, 0, 0}, {1.0F, 0.9F}, 0},
    {"PresenceIgnoresThePrompt", {.presence_penalty = 0.2}, {0}, {}, {1.0F, 0.9F}, 0},
    {"FrequencyCountsEach", {.frequency_penalty = 0.05}, {}, {0, 0, 0, 0}, {1.0F, 0.9F}, 1},
    {"FrequencyIgnoresThePrompt", {.frequency_penalty = 1.0}, {0}, {}, {1.0F, 0.9F}, 0},
    {"RepetitionCountsThePrompt", {.repetition_penalty = 1.2}, {0}, {}, {1.0F, 0.9F}, 1},
    {"RepetitionCountsTheAnswer", {.repetition_penalty = 1.2}, {}, {0}, {1.0F, 0.9F}, 1},
    {"RepetitionOfANegativeLogit", {.repetition_penalty = 1.2}, {0}, {}, {-1.0F, -1.1F}, 1},
    {"NegativePresenceRewards", {.presence_penalty = -0.2}, {}, {1}, {1.0F, 0.9F}, 1},
};

class Penalised : public ::testing::TestWithParam<Penalty> {};

TEST_P(Penalised, ChoosesTheOther) {
  Sampling sampling = GetParam().sampling;
  sampling.temperature = 0.0;
  Sampler sampler(sampling, 2, 1);
  SamplerScratch scratch;
  sampler.see_prompt(GetParam().prompt);
  for (const TokenId id : GetParam().answer) {
    Logits row(2, -1e6F);
    row[static_cast<std::size_t>(id)] = 1e6F;
    ASSERT_EQ(sampler.sample(row, scratch), id);
  }
  Logits row = GetParam().logits;
  EXPECT_EQ(sampler.sample(row, scratch), GetParam().chosen);
}

INSTANTIATE_TEST_SUITE_P(Rules, Penalised, ::testing::ValuesIn(kPenalties),
                         [](const auto& test) { return std::string(test.param.name); });

// A row whose size is not a multiple of a mask word, and masks that leave few, half and most
// tokens.
TEST(Sampler, AMaskIsTheSameAsLogitsThatForbid) {
  constexpr std::size_t kTokens = 1003;
  std::mt19937 dice(5);
  std::uniform_real_distribution<float> logit(-3.0F, 5.0F);
  const Sampling samplings[] = {
      {.temperature = 0.0}, {},
      {.top_p = 0.9},       {.top_k = 40},
      {.min_p = 0.05},      {.presence_penalty = 0.5, .logit_bias = {{1, 20.0}, {2, 20.0}}}};
  for (const Sampling& sampling : samplings) {
    for (const unsigned share : {2U, 500U, 990U}) {
      Sampler masked(sampling, kTokens, 1);
      Sampler forbidden(sampling, kTokens, 1);
      SamplerScratch scratch;
      int same = 0;
      for (int i = 0; i < 50; ++i) {
        Logits row(kTokens);
        for (float& each : row) each = logit(dice);
        Logits other = row;
        std::vector<std::uint32_t> mask((kTokens + 31) / 32, 0);
        for (std::size_t id = 0; id < kTokens; ++id) {
          if (id == 1002 || dice() % 1000 < share) {
            mask[id / 32] |= 1U << id % 32;
          } else {
            other[id] = -kSamplerInfinity;
          }
        }
        const auto id = masked.sample(row, scratch, mask);
        ASSERT_TRUE(id);
        EXPECT_NE(mask[static_cast<std::size_t>(*id) / 32] >> *id % 32 & 1U, 0U);
        same += forbidden.sample(other, scratch) == id ? 1 : 0;
      }
      // The sums are rounded differently.
      EXPECT_GE(same, 48) << share;
    }
  }
}

TEST(Sampler, WithoutALegalTokenThereIsNone) {
  Sampler sampler({}, 3, 1);
  SamplerScratch scratch;
  Logits row{1.0F, 2.0F, -kSamplerInfinity};
  EXPECT_EQ(sampler.sample(row, scratch, std::vector<std::uint32_t>{0b100}), std::nullopt);
  EXPECT_EQ(sampler.sample(row, scratch, std::vector<std::uint32_t>{0}), std::nullopt);
}

TEST(Sampler, LogprobsWithAMaskAreThoseOfTheModel) {
  Sampler sampler({.temperature = 0.0}, 4, 1);
  SamplerScratch scratch;
  RawLogprobs logprobs;
  Logits row = logs_of({0.4, 0.3, 0.2, 0.1});
  const std::vector<std::uint32_t> mask{0b1100};
  ASSERT_EQ(sampler.sample(row, scratch, mask, &logprobs, 1), 2);
  EXPECT_NEAR(logprobs.chosen, std::log(0.2), 1e-5);
  EXPECT_EQ(logprobs.top[0].first, 0);
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  // Bias and temperature change the choice, not the reported log probabilities.
  Sampler sampler({.temperature = 0.0, .logit_bias = {{2, 50.0}}}, 4, 1);
  SamplerScratch scratch;
  RawLogprobs logprobs;
  Logits row = logs_of({0.4, 0.3, 0.2, 0.1});
  ASSERT_EQ(sampler.sample(row, scratch, {}, &logprobs, 2), 2);
  EXPECT_NEAR(logprobs.chosen, std::log(0.2), 1e-5);
  ASSERT_EQ(logprobs.top.size(), 2U);
  EXPECT_EQ(logprobs.top[0].first, 0);
  EXPECT_NEAR(logprobs.top[0].second, std::log(0.4), 1e-5);
  EXPECT_EQ(logprobs.top[1].first, 1);
  EXPECT_NEAR(logprobs.top[1].second, std::log(0.3), 1e-5);
}

TEST(Sampler, LogprobsOfEveryTokenSumToOne) {
  Logits logits(100);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 17) / 3.0F;
  Sampler sampler({}, logits.size(), 1);
  SamplerScratch scratch;
  RawLogprobs logprobs;
  ASSERT_TRUE(sampler.sample(logits, scratch, {}, &logprobs, logits.size()));
  double sum = 0.0;
  for (const auto& [id, logprob] : logprobs.top) sum += std::exp(logprob);
  EXPECT_NEAR(sum, 1.0, 1e-5);
  EXPECT_TRUE(std::is_sorted(logprobs.top.begin(), logprobs.top.end(),
                             [](const auto& a, const auto& b) { return a.second > b.second; }));
}

// Once warm, sampling does not move its buffers: it allocates nothing per token.
TEST(Sampler, ReusesItsBuffers) {
  Logits logits(4678);
  std::iota(logits.begin(), logits.end(), 0.0F);
  for (float& logit : logits) logit /= 500.0F;
  SamplerScratch scratch;
  for (const Sampling& sampling :
       {Sampling{}, Sampling{.top_p = 0.9}, Sampling{.top_k = 40}, Sampling{.min_p = 0.05}}) {
    Sampler sampler(sampling, logits.size(), 1);
    Logits row = logits;
    ASSERT_TRUE(sampler.sample(row, scratch));
    const auto* candidates = scratch.candidates.data();
    const auto* blocks = scratch.blocks.data();
    for (int i = 0; i < 20; ++i) {
      row = logits;
      ASSERT_TRUE(sampler.sample(row, scratch));
    }
    EXPECT_EQ(scratch.candidates.data(), candidates);
    EXPECT_EQ(scratch.blocks.data(), blocks);
  }
}

}  // namespace
}  // namespace tenon::engine
