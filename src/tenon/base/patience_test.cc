#include "tenon/base/patience.h"

#include <thread>

#include <gtest/gtest.h>

namespace tenon::patience {
namespace {

using namespace std::chrono_literals;

TEST(Patience, IsThatOfTheInnermostScopeAndNoLongerThanThoseAround) {
  EXPECT_EQ(current().deadline, Clock::time_point::max());
  EXPECT_FALSE(current().is_over());
  const auto now = Clock::now();
  const CancelToken token;
  {
    const Scope outer({.deadline = now + 1h, .cancel = token});
    {
      const Scope inner({.deadline = now + 2h});
      EXPECT_EQ(current().deadline, now + 1h);
      EXPECT_FALSE(current().is_over());
      token.cancel();
      EXPECT_TRUE(current().is_over());
      const Scope other({.cancel = CancelToken()});
      EXPECT_FALSE(current().is_over());
    }
    const Scope past({.deadline = now - 1ms, .cancel = CancelToken()});
    EXPECT_TRUE(current().is_over());
    std::thread([] { EXPECT_FALSE(current().is_over()); }).join();  // a limit is of one thread
  }
  EXPECT_FALSE(current().is_over());
}

TEST(Patience, TellsWhatIsLeft) {
  EXPECT_EQ(after(0ms), Clock::time_point::max());
  EXPECT_EQ(time_left(), 0ms);
  const Scope scope({.deadline = after(1h)});
  EXPECT_GT(time_left(), 59min);
  EXPECT_LE(time_left(), 1h);
  const Scope past({.deadline = Clock::now() - 1s});
  EXPECT_EQ(time_left(), 1ms);
}

}  // namespace
}  // namespace tenon::patience
