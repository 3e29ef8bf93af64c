#include "tenon/rlm/worker_pool.h"

#include <chrono>
#include <csignal>
#include <thread>

#include "tenon/rlm/sandbox_for_test.h"

namespace tenon::rlm {
namespace {

using namespace std::chrono_literals;

bool is_warm(const WorkerPool& pool, std::size_t count) {
  const auto most = std::chrono::steady_clock::now() + 20s;
  while (pool.ready() != count && std::chrono::steady_clock::now() < most) {
    std::this_thread::sleep_for(5ms);
  }
  return pool.ready() == count;
}

class WorkerPoolTest : public EachTier {};
INSTANTIATE_TEST_SUITE_P(Tiers, WorkerPoolTest, testing::Values(Tier::bubblewrap, Tier::landlock),
                         name_of_tier);

TEST_P(WorkerPoolTest, KeepsWorkersReady) {
  WorkerPool pool(sandbox(), {.limits = {}, .warm = 2});
  ASSERT_TRUE(is_warm(pool, 2));
  auto one = pool.take();
  auto two = pool.take();
  auto three = pool.take();  // perhaps started on the spot
  ASSERT_TRUE(one && two && three);
  EXPECT_NE((*one)->pid(), (*two)->pid());
  EXPECT_TRUE((*three)->is_alive());
  EXPECT_TRUE(is_warm(pool, 2));
}

TEST_P(WorkerPoolTest, DoesNotGiveTheDead) {
  WorkerPool pool(sandbox(), {.limits = {}, .warm = 1});
  ASSERT_TRUE(is_warm(pool, 1));
  auto first = pool.take();
  ASSERT_TRUE(is_warm(pool, 1));
  (*first)->kill();
  auto second = pool.take();
  ASSERT_TRUE(second);
  EXPECT_TRUE((*second)->is_alive());
}

TEST_P(WorkerPoolTest, EndsItsWorkers) {
  {
    const WorkerPool pool(sandbox(), {.limits = {}, .warm = 3});
    ASSERT_TRUE(is_warm(pool, 3));
  }
  EXPECT_EQ(sandbox()->workers(), 0U);
}

}  // namespace
}  // namespace tenon::rlm
