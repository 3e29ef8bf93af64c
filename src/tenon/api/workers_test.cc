#include "tenon/api/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/patience.h"

namespace tenon::api {
namespace {

TEST(Workers, BeginTasksInTheirOrder) {
  std::vector<int> order;
  std::promise<void> done;
  Workers workers(1);
  for (int i = 0; i < 100; ++i) workers.post([&order, i] { order.push_back(i); });
  workers.post([&done] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Workers, RunAsManyTasksAtATimeAsTheyMay) {
  std::promise<void> first;
  std::promise<void> second;
  std::promise<void> both;
  Workers workers(2);
  workers.post([&] {
    first.set_value();
    second.get_future().wait();
  });
  workers.post([&] {
    first.get_future().wait();
    second.set_value();
    both.set_value();
  });
  both.get_future().wait();  // would never return if one task waited for the other
  EXPECT_EQ(workers.waiting(), 0u);
}

// More tasks than may be under way at a time wait for one that begins last.
TEST(Workers, LetOthersBeginWhileATaskWaits) {
  constexpr int kTasks = 20;
  Workers workers(2);
  std::promise<void> last;
  const std::shared_future<void> began = last.get_future();
  std::promise<void> done;
  std::atomic<int> left = kTasks;
  for (int i = 0; i < kTasks; ++i) {
    workers.post([&] {
      {
        const patience::Waiting waiting;
        began.wait();
      }
      if (--left == 0) done.set_value();
    });
  }
  workers.post([&] { last.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(workers.waiting(), 0u);
}

TEST(Workers, KeepTheirNumberAgainAfterTasksWaited) {
  Workers workers(1);
  for (int i = 0; i < 8; ++i) {
    workers.post([] {
      const patience::Waiting waiting;
      std::this_thread::yield();
    });
  }
  std::atomic<int> under_way = 0;
  std::atomic<int> most = 0;
  std::promise<void> begun;
  workers.post([&begun] { begun.set_value(); });
  begun.get_future().wait();
  std::promise<void> done;
  std::atomic<int> left = 50;
  for (int i = 0; i < 50; ++i) {
    workers.post([&] {
      most = std::max(most.load(), ++under_way);
      std::this_thread::yield();
      --under_way;
      if (--left == 0) done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_EQ(most, 1);
}

int threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(tasks, {}));
}

TEST(Workers, EndTheThreadsThatTheyNeedNoMore) {
  Workers workers(1);
  const int before = threads_of_this_process();
  for (int round = 0; round < 2; ++round) {
    std::promise<void> all;
    const std::shared_future<void> go_on = all.get_future();
    std::atomic<int> waiting = 0;
    std::atomic<int> left = 8;
    for (int i = 0; i < 8; ++i) {
      workers.post([&, go_on] {
        {
          const patience::Waiting waits;
          ++waiting;
          go_on.wait();
        }
        --left;
      });
    }
    while (waiting < 8) std::this_thread::yield();
    EXPECT_GE(threads_of_this_process(), before + 7);
    all.set_value();
    while (left > 0 || threads_of_this_process() > before) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

TEST(Workers, GoOnAfterATaskThatThrows) {
  Workers workers(1);
  std::promise<void> done;
  workers.post([] { throw std::runtime_error("no"); });
  workers.post([&done] { done.set_value(); });
  done.get_future().wait();
}

TEST(Workers, DropWhatWaitsWhenTheyStop) {
  Workers workers(1);
  std::promise<void> begun;
  std::promise<void> released;
  std::atomic<bool> has_ended = false;
  const auto owned = std::make_shared<int>(1);
  workers.post([&] {
    begun.set_value();
    released.get_future().wait();
    has_ended = true;
  });
  begun.get_future().wait();
  workers.post([owned] { FAIL() << "was dropped"; });
  EXPECT_EQ(workers.waiting(), 1u);
  EXPECT_EQ(owned.use_count(), 2);
  std::jthread stopping([&] { workers.stop(); });
  while (workers.waiting() > 0) std::this_thread::yield();
  released.set_value();
  stopping.join();
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(owned.use_count(), 1);
  workers.post([owned] { FAIL() << "was stopped"; });
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace tenon::api
