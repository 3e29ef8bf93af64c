// Random walks with masks through schemas with many counts, alternatives and looks, over real
// vocabularies. fuzz/schema_masks.cc does the same for a fuzzer's inputs.
#include <algorithm>
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
