#include "tenon/engine/llama/drafter.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

std::vector<TokenId> drafter_tokens_of(std::string_view text) {
  return {text.begin(), text.end()};
}

struct DrafterRow {
  std::string_view text;
  std::size_t most;
  std::string_view draft;
};

TEST(Drafter, GuessesWhatFollowedTheLastTwoTokens) {
  const DrafterRow rows[] = {
      {"", 8, ""},
      {"a", 8, ""},
      {"abcab", 8, "cab"},
      {"abcdefab", 8, "cdef"},  // the first guess has four tokens
      {"abcdefab", 2, "cd"},
      {"abcdefab", 0, ""},
      {"abcxabdxab", 8, "dxab"},  // the last place counts
      {"aaaa", 8, "a"},
      {"abcdbc", 8, "dbc"},
      {"abcbd", 8, ""},
  };
  for (const DrafterRow& row : rows) {
    // The text comes at once, and byte by byte.
    for (const bool bytewise : {false, true}) {
      Drafter drafter;
      std::vector<TokenId> draft;
      const std::vector<TokenId> tokens = drafter_tokens_of(row.text);
      for (std::size_t size = bytewise ? 0 : tokens.size(); size <= tokens.size(); ++size) {
        drafter.guess(std::span(tokens).first(size), row.most, draft);
      }
      EXPECT_EQ(draft, drafter_tokens_of(row.draft)) << row.text;
    }
  }
}

TEST(Drafter, FindsWhatStandsInLongTexts) {
  Drafter drafter;
  std::vector<TokenId> draft;
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < 100'000; ++id) tokens.push_back(id);
  tokens.push_back(70'000);
  tokens.push_back(70'001);
  drafter.guess(tokens, 8, draft);
  EXPECT_EQ(draft, (std::vector<TokenId>{70'002, 70'003, 70'004, 70'005}));
}

TEST(Drafter, GuessesMoreWhereItIsRight) {
  Drafter drafter;
  std::vector<TokenId> draft;
  const std::vector<TokenId> tokens = drafter_tokens_of("abcdefghijklmnopqrstab");
  const auto length = [&] {
    drafter.guess(tokens, 100, draft);
    return draft.size();
  };
  EXPECT_EQ(length(), 4U);
  drafter.learn(4, 4);
  EXPECT_EQ(length(), 8U);
  drafter.learn(8, 8);
  EXPECT_EQ(length(), Drafter::kMost);
  EXPECT_GT(drafter.hope(), 0.5);
  for (int i = 0; i < 40; ++i) drafter.learn(8, 0);
  EXPECT_EQ(length(), 1U);
  EXPECT_LT(drafter.hope(), 0.1);
  for (int i = 0; i < 200; ++i) drafter.forget();
  EXPECT_GT(drafter.hope(), 0.4);
}

TEST(BatchCost, WeighsOneMoreTokenAgainstOneMoreBatch) {
  struct Case {
    double fixed;
    double per_token;
    double hope;
    std::size_t runs;
    bool is_worth;
  };
  const Case cases[] = {
      {10.0, 0.1, 0.1, 1, true},   {10.0, 0.1, 0.005, 1, false}, {1.0, 1.0, 0.6, 1, true},
      {1.0, 1.0, 0.4, 1, false},   {1.0, 1.0, 0.6, 8, false},    {0.0, 1.0, 0.9, 1, false},
      {10.0, 0.1, 0.1, 16, false}, {10.0, 0.0, 0.001, 16, true},
  };
  for (const Case& row : cases) {
    BatchCost cost;
    for (std::size_t i = 0; i < 100; ++i) {
      const std::size_t tokens = 1 + i % 5;
      cost.learn(tokens, row.fixed + row.per_token * static_cast<double>(tokens));
    }
    EXPECT_EQ(cost.is_worth(row.hope, row.runs), row.is_worth)
        << row.fixed << " " << row.per_token << " " << row.hope << " " << row.runs;
  }
  BatchCost cost;
  EXPECT_TRUE(cost.is_worth(0.1, 1)) << "nothing is known";
  for (int i = 0; i < 100; ++i) cost.learn(1, 1.0);
  EXPECT_TRUE(cost.is_worth(0.1, 1)) << "nothing is known of larger batches";
}

}  // namespace
}  // namespace tenon::engine
