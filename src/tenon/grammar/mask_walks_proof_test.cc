// Random walks with masks through schemas with many counts, alternatives and looks, and through
// grammars in all languages, over real vocabularies. fuzz/schema_masks.cc and fuzz/grammar_masks.cc
// do the same for a fuzzer's inputs.
#include <algorithm>
#include <array>
#include <iostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/base/sanitizers_for_test.h"
#include "tenon/grammar/mask_walks.h"

namespace tenon::grammar {
namespace {

std::string random_input(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string input(200 + random() % 400, '\0');
  for (char& c : input) c = static_cast<char>(random());
  return input;
}

void walk(const std::shared_ptr<VocabIndex>& index, std::uint32_t first, std::uint32_t count) {
  MaskWalkCounts counts;
  for (std::uint32_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    const auto broken = play_mask_walk(random_input(seed), index, counts);
    EXPECT_FALSE(broken) << "seed " << seed << ": " << *broken;
  }
  std::cerr << counts.inputs << " schemas, " << counts.refused << " refused, " << counts.limited
            << " walks ended by a limit, " << counts.masks << " masks, " << counts.trials
            << " trials, the longest call " << counts.most_us / 1000 << " ms\n";
  EXPECT_GE(counts.masks, counts.inputs);
  EXPECT_LT(counts.most_us, with_sanitizers(2) * 1e6);
}

TEST(MaskWalksProof, OverTheBundledVocabulary) {
  const auto index = bundled_index(TENON_SOURCE_DIR);
  ASSERT_TRUE(index);
  walk(index, 1, is_long_test() ? 4000 : 15);
}

/// A slice of the vocabulary `name` of a set.
void walk_over(Data data, const char* name) {
  if (!is_there(data)) GTEST_SKIP() << why_skipped(data);
  const auto index =
      index_of_tokens((folder_of(data) / "vocab" / name / "tokens.bin").string(), 20'000);
  ASSERT_TRUE(index);
  walk(index, 1, is_long_test() ? 1000 : 4);
}

class GrammarWalksProof : public ::testing::TestWithParam<Dialect> {};

TEST_P(GrammarWalksProof, OverTheBundledVocabulary) {
  const auto index = bundled_index(TENON_SOURCE_DIR);
  ASSERT_TRUE(index);
  MaskWalkCounts counts;
  const std::uint32_t count = is_long_test() ? 4000 : 12;
  for (std::uint32_t seed = 1; seed <= count && !HasFailure(); ++seed) {
    const auto broken = play_grammar_walk(random_input(seed), GetParam(), index, counts);
    EXPECT_FALSE(broken) << "seed " << seed << ": " << *broken;
  }
  std::cerr << counts.inputs << " grammars, " << counts.refused << " refused, " << counts.limited
            << " walks ended by a limit, " << counts.masks << " masks, the longest call "
            << counts.most_us / 1000 << " ms\n";
  EXPECT_LT(counts.refused, counts.inputs / 2);
  EXPECT_GE(counts.masks, counts.inputs);
}

std::string name_of(const ::testing::TestParamInfo<Dialect>& one) {
  constexpr std::array kNames{"Gbnf", "Ebnf", "Lark", "Tags"};
  return kNames[static_cast<std::size_t>(one.param)];
}
INSTANTIATE_TEST_SUITE_P(Dialects, GrammarWalksProof,
                         ::testing::Values(Dialect::gbnf, Dialect::ebnf, Dialect::lark,
                                           Dialect::structural_tag),
                         name_of);

TEST(MaskWalksProof, OverBytes) {
  walk_over(Data::own, "bytes");
}

TEST(MaskWalksProof, OverPieces) {
  walk_over(Data::own, "pieces");
}

TEST(MaskWalksProof, OverASliceOfLlama3) {
  walk_over(Data::large, "llama3");
}

}  // namespace
}  // namespace tenon::grammar
