#include "tenon/engine/llama/thread_plan.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

using namespace std::chrono_literals;
using Duration = ThreadPlan::Duration;
using Clock = ThreadPlan::Clock;

// A machine with `cores` processors, of which other programs want some. Threads beyond the free
// ones make the others spin, as measured: a step costs ten times as much.
struct Machine {
  int cores;
  int wanted;                    // by other programs
  bool hides_the_crowd = false;  // the thread that we see keeps its processor; another one loses it
  Clock::time_point now{};
  std::map<int, Duration> spent{};

  void run(ThreadPlan& plan, Duration time, std::size_t rows = 1) {
    const Clock::time_point end = now + time;
    while (now < end) {
      const int threads = plan.threads();
      const bool is_crowded = threads + wanted > cores;
      const bool is_slowed = is_crowded && wanted >= cores;  // even one thread shares its processor
      Duration wall = Duration(120ms) / threads;
      if (is_crowded && threads > 1) wall *= 10;
      if (is_slowed) wall *= 2;
      const bool is_seen = is_crowded && !(hides_the_crowd && threads > 1);
      now += wall;
      spent[threads] += wall;
      plan.add({.rows = rows, .wall = wall, .cpu = is_seen ? wall * 4 / 10 : wall}, now);
    }
  }
  double share(int threads) {
    Duration all{};
    for (const auto& [count, time] : spent) all += time;
    return static_cast<double>(spent[threads].count()) / static_cast<double>(all.count());
  }
};

TEST(ThreadPlan, AnIdleMachineKeepsAllThreads) {
  for (const int cores : {2, 4, 16}) {
    Machine machine{.cores = cores, .wanted = 0};
    ThreadPlan plan(cores, cores);
    machine.run(plan, 10min);
    EXPECT_EQ(plan.threads(), cores);
    EXPECT_GT(machine.share(cores), 0.97) << cores;
  }
}

TEST(ThreadPlan, ABusyMachineSoonGetsOneThread) {
  Machine machine{.cores = 2, .wanted = 9};
  ThreadPlan plan(2, 2);
  machine.run(plan, 4s);
  EXPECT_EQ(plan.threads(), 1);
  machine.spent.clear();
  machine.run(plan, 5min);
  EXPECT_GT(machine.share(1), 0.97);
}

TEST(ThreadPlan, ACrowdThatIsNotSeenIsFoundByTrial) {
  Machine machine{.cores = 4, .wanted = 2, .hides_the_crowd = true};
  ThreadPlan plan(4, 4);
  machine.run(plan, 30s);
  EXPECT_EQ(plan.threads(), 2);
}

TEST(ThreadPlan, FollowsThoseThatComeAndGo) {
  Machine machine{.cores = 8, .wanted = 0};
  ThreadPlan plan(8, 8);
  for (int round = 0; round < 3; ++round) {
    machine.wanted = 5;
    machine.run(plan, 60s);
    EXPECT_EQ(plan.threads(), 2) << round;
    machine.wanted = 20;
    machine.run(plan, 60s);
    EXPECT_EQ(plan.threads(), 1) << round;
    machine.wanted = 0;
    machine.run(plan, 60s);
    EXPECT_EQ(plan.threads(), 8) << round;
  }
}

TEST(ThreadPlan, RisesFromOne) {
  Machine machine{.cores = 16, .wanted = 0};
  ThreadPlan plan(16, 1);
  machine.run(plan, 20s);
  EXPECT_EQ(plan.threads(), 16);
}

TEST(ThreadPlan, OneThreadIsOneThread) {
  Machine machine{.cores = 2, .wanted = 9};
  ThreadPlan plan(1, 1);
  machine.run(plan, 60s);
  EXPECT_EQ(plan.threads(), 1);
}

TEST(ThreadPlan, PromptsAndOtherBatchesAreNotCompared) {
  ThreadPlan plan(2, 2);
  Clock::time_point now{};
  for (int i = 0; i < 1000; ++i) {
    now += 1s;
    plan.add({.rows = 512, .wall = 1s, .cpu = 100ms}, now);
    EXPECT_EQ(plan.threads(), 2);
  }
  // Batches that are never the same twice tell nothing about threads.
  for (std::size_t i = 0; i < 1000; ++i) {
    now += 20ms;
    plan.add({.rows = 1 + i % 2, .wall = 20ms, .cpu = 20ms}, now);
    EXPECT_EQ(plan.threads(), 2);
  }
}

TEST(FirstThreads, LeaveRoomForOthers) {
  const struct {
    int most, cores;
    double load;
    int first;
  } rows[] = {{2, 2, 0.2, 2}, {2, 2, 1.5, 1}, {2, 2, 20, 1}, {16, 16, 4.9, 12}, {16, 64, 8, 16},
              {4, 2, 0, 2},   {1, 1, 0, 1},   {4, 4, -1, 4}, {4, 4, 1e300, 1}};
  for (const auto& row : rows) {
    EXPECT_EQ(first_threads(row.most, row.cores, row.load), row.first)
        << row.most << " " << row.cores << " " << row.load;
  }
}

}  // namespace
}  // namespace tenon::engine
