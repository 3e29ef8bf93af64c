#include "tenon/record/turns.h"

#include <atomic>
#include <chrono>
#include <future>

#include <gtest/gtest.h>

namespace tenon::record {
namespace {

Run run_of(unsigned choice, std::size_t first_line, std::size_t end_line) {
  Run run{.choice = choice};
  run.steps.push_back({.line = first_line});
  run.end_line = end_line;
  return run;
}

// The second run of choice 0 is at line 8 when the end of its first one is told.
TEST(Turns, ARunThatEndsLateHoldsNoOtherUp) {
  Read read;
  read.runs.push_back(run_of(0, 1, 3));
  read.runs.push_back(run_of(1, 6, 7));
  read.runs.push_back(run_of(0, 5, 9));
  Turns turns(read);
  const std::atomic<bool> does_not_wait = true;
  turns.wait(0, 8, does_not_wait);
  turns.end_run(0);
  std::atomic<bool> is_cancelled = false;
  auto turn = std::async(std::launch::async, [&] { turns.wait(1, 6, is_cancelled); });
  EXPECT_EQ(turn.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  is_cancelled = true;
  turns.wake();
}

}  // namespace
}  // namespace tenon::record
