#include "tenon/engine/run_slot.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

/// Records what it is asked: "x" cancel, "p" pause, "r" resume, "~" it is destroyed.
class Written {
 public:
  explicit Written(std::string& into, std::function<void()> in_pause = {})
      : into_(into), in_pause_(std::move(in_pause)) {}
  ~Written() { into_ += '~'; }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  void cancel() { into_ += 'x'; }
  void pause() {
    if (in_pause_) in_pause_();
    into_ += 'p';
  }
  void resume() { into_ += 'r'; }

 private:
  std::string& into_;
  const std::function<void()> in_pause_;
};

struct RunSlotRow {
  std::string_view name;
  // "1" the first run comes, "2" the second; "n" the next is about to be begun; "x" cancel, "p"
  // pause, "r" resume, "c" clear, "d" detach.
  std::string_view steps;
  std::string_view first;
  std::string_view second = "~";
};

const RunSlotRow kRunSlotRows[] = {
    {"IsTold", "n1prx", "prx~"},
    {"IsToldOnceItComes", "npx1", "xp~"},
    {"NotWhatIsNotWantedAnyMore", "npr1", "~"},
    {"ARunThatComesTooLateGoes", "nn1", "~"},
    {"TheOneBeforeGoesWhenTheNextComes", "n1nx2p", "x~", "xp~"},
    {"WhatIsOverIsToldNothing", "n1cxp", "~"},
    {"DetachedRunsGo", "n1d", "~"},
    {"AndThoseThatCome", "n1dn2", "~", "x~"},
};

TEST(RunSlot, TellsItsRunWhatIsWanted) {
  for (const RunSlotRow& row : kRunSlotRows) {
    SCOPED_TRACE(row.name);
    std::string first;
    std::string second;
    {
      RunSlot<Written> slot;
      auto one = std::make_unique<Written>(first);
      auto two = std::make_unique<Written>(second);
      for (const char step : row.steps) {
        if (step == 'n') slot.next();
        if (step == '1') slot.attach(std::move(one), 1);
        if (step == '2') slot.attach(std::move(two), 2);
        if (step == 'x') slot.cancel();
        if (step == 'p') slot.set_paused(true);
        if (step == 'r') slot.set_paused(false);
        if (step == 'c') slot.clear();
        if (step == 'd') slot.detach();
      }
    }
    EXPECT_EQ(first, row.first);
    EXPECT_EQ(second, row.second);
  }
}

// An engine's thread may cancel while another thread waits for it in order to pause.
TEST(RunSlot, CancelWaitsForNoPause) {
  std::string written;
  {
    RunSlot<Written> slot;
    slot.attach(std::make_unique<Written>(
        written, [&slot] { std::async(std::launch::async, [&slot] { slot.cancel(); }).get(); }));
    slot.set_paused(true);
    EXPECT_TRUE(slot.is_cancelled());
  }
  EXPECT_EQ(written, "xp~");
}

}  // namespace
}  // namespace tenon::engine
