#include "tenon/engine/llama/cache_plan.h"

#include <string>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

constexpr std::uint64_t kKiB = 1024;

struct CachePlanRow {
  const char* name;
  CacheNeeds needs;
  CachePlan plan;
};

// 512 MiB are 32,768 tokens of 16 KiB.
const CachePlanRow kCachePlanRows[] = {
    {"CheapIsAContextForEachRun", {0, 4096, 8, 16 * kKiB}, {32'768, true}},
    {"DearIsTwoContexts", {0, 16'384, 8, 16 * kKiB}, {32'768, false}},
    {"DearHas2048ForEachRun", {0, 4096, 32, 16 * kKiB}, {65'536, false}},
    {"OneRunHasItsContext", {0, 65'536, 1, 16 * kKiB}, {65'536, true}},
    {"AskedIsShared", {1000, 512, 8, 1}, {1024, false}},
    {"AskedForAllIsDivided", {4096, 512, 8, 16 * kKiB}, {4096, true}},
    {"AskedForMoreIsOfNoUse", {100'000, 512, 8, 1}, {4096, true}},
    {"AskedForLessThanAContext", {1, 2048, 8, 1}, {2048, false}},
    {"ContextsAreRoundedUp", {0, 300, 2, 1}, {1024, true}},
};

class CachePlanTest : public testing::TestWithParam<CachePlanRow> {};

TEST_P(CachePlanTest, IsAsPromised) {
  EXPECT_EQ(plan_cache(GetParam().needs), GetParam().plan);
}

INSTANTIATE_TEST_SUITE_P(Rows, CachePlanTest, testing::ValuesIn(kCachePlanRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(CacheMemory, IsCheckedWhereItIsKnown) {
  const CachePlan plan{2048, true};
  EXPECT_TRUE(check_memory(plan, kKiB, 2 * kKiB * kKiB));
  EXPECT_TRUE(check_memory(plan, kKiB, std::nullopt));
  EXPECT_EQ(
      check_memory(plan, kKiB, 2 * kKiB * kKiB - 1).error(),
      (Error{Errc::limit_exceeded, "a cache of 2048 tokens needs 2 MiB, but 1 MiB are free"}));
  EXPECT_EQ(check_memory({(std::uint64_t{1} << 30) + 256, true}, 1, std::nullopt).error(),
            (Error{Errc::limit_exceeded, "a cache of 1073742080 tokens is more than 1073741824"}));
  EXPECT_GT(available_memory().value_or(1), 0U);
}

}  // namespace
}  // namespace tenon::engine
