#include "tenon/base/budget.h"

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Budget, AllowsExactlyItsSteps) {
  for (const std::uint64_t limit : {0, 1, 2, 1023, 1024, 1025, 5000}) {
    for (const std::uint64_t size : {1, 7, 1024, 3000}) {
      Budget budget("work", {.max_steps = limit});
      std::uint64_t used = 0;
      while (budget.step(size)) used += size;
      EXPECT_EQ(used, limit / size * size);
      EXPECT_EQ(budget.steps_used(), used);
      EXPECT_TRUE(budget.is_spent());
      EXPECT_FALSE(budget.step(0));
      EXPECT_FALSE(budget.take_bytes(0));
      EXPECT_EQ(budget.error(), (Error{Errc::limit_exceeded,
                                       "work: more than " + std::to_string(limit) + " steps"}));
    }
  }
}

TEST(Budget, CountsBytesTakenAndGivenBack) {
  Budget budget("mask cache", {.max_bytes = 10});
  EXPECT_TRUE(budget.take_bytes(10));
  budget.give_back_bytes(4);
  EXPECT_TRUE(budget.take_bytes(4));
  EXPECT_EQ(budget.bytes_used(), 10u);
  EXPECT_FALSE(budget.take_bytes(1));
  EXPECT_EQ(budget.error().message, "mask cache: more than 10 bytes");
}

int descend(Budget& budget) {
  const Budget::Level level(budget);
  return level ? 1 + descend(budget) : 0;
}

TEST(Budget, StopsAtItsDepthAndNamesTheFirstLimitReached) {
  Budget budget("schema", {.max_steps = 0, .max_depth = 5});
  {
    const Budget::Level level(budget);
    EXPECT_TRUE(static_cast<bool>(level));
  }
  EXPECT_EQ(descend(budget), 5);
  EXPECT_FALSE(budget.step());
  EXPECT_EQ(budget.error().message, "schema: more than 5 levels of nesting");
}

TEST(Budget, StopsAtItsDeadlineWithinTheStepsOfOneCheck) {
  Budget budget("render", {.deadline = std::chrono::steady_clock::now()});
  int steps = 0;
  while (budget.step() && steps < 100'000) ++steps;
  EXPECT_LE(steps, 1024);
  EXPECT_EQ(budget.error(), (Error{Errc::limit_exceeded, "render: not done in time"}));
  EXPECT_FALSE(Budget("x", {.deadline = std::chrono::steady_clock::now()}).check_time());
  EXPECT_TRUE(Budget("x", {.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1)})
                  .check_time());
}

TEST(Budget, StopsWhenCancelled) {
  const CancelToken token;
  Budget budget("render", {.cancel = token});
  EXPECT_TRUE(budget.check_time());
  token.cancel();
  EXPECT_FALSE(budget.check_time());
  EXPECT_EQ(budget.error(), (Error{Errc::unavailable, "render: cancelled"}));
}

TEST(Budget, StopsWhereSeveralHaveUsedTheirAllowance) {
  Allowance shared(10'240, 100);
  std::uint64_t used = 0;
  for (int i = 0; i < 4; ++i) {
    Budget budget("work", {.max_steps = 4096, .shared = &shared});
    const std::uint64_t before = used;
    while (budget.step()) ++used;
    EXPECT_EQ(budget.error().message,
              i < 2 ? "work: more than 4096 steps" : "work: more than 10240 steps in all");
    EXPECT_GE(used - before, 1023U) << "what takes little is not stopped";
  }
  EXPECT_GE(used, 10'240U);
  EXPECT_LE(used, 10'240U + 4 * 1024U);

  Budget one("one", {.max_bytes = 80, .shared = &shared});
  Budget other("other", {.max_bytes = 80, .shared = &shared});
  EXPECT_TRUE(one.take_bytes(60));
  EXPECT_TRUE(other.take_bytes(40));
  one.give_back_bytes(1);
  EXPECT_TRUE(other.take_bytes(1));
  EXPECT_FALSE(one.take_bytes(1));
  EXPECT_EQ(one.error().message, "one: more than 100 bytes in all");
  EXPECT_FALSE(other.is_spent());
}

TEST(Budget, HasNoLimitsUnlessGiven) {
  Budget budget("free", {});
  EXPECT_TRUE(budget.step(Limits::kUnlimited / 2));
  EXPECT_TRUE(budget.take_bytes(Limits::kUnlimited / 2));
  EXPECT_FALSE(budget.is_spent());
}

}  // namespace
}  // namespace tenon
