#include "tenon/base/log.h"

#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::log {
namespace {

std::vector<std::string>& lines() {
  static std::vector<std::string> all;
  return all;
}

void keep(Level level, std::string_view message) {
  lines().push_back(std::to_string(static_cast<int>(level)) + " " + std::string(message));
}

TEST(Log, SendsWhatIsAtLeastTheLevel) {
  error("before a sink is set");
  set_sink(keep, Level::info);
  EXPECT_FALSE(is_on(Level::debug));
  EXPECT_TRUE(is_on(Level::info));
  debug("no");
  info("started");
  error("broken");
  set_sink(keep, Level::trace);
  write(Level::trace, "all");
  set_sink(nullptr, Level::trace);
  error("after the sink is gone");
  EXPECT_EQ(lines(), (std::vector<std::string>{"2 started", "4 broken", "0 all"}));
}

TEST(Log, SaysWhatItIsAbout) {
  lines().clear();
  set_sink(keep, Level::info);
  {
    const About one("req_1");
    info("begins");
    {
      const About other("req_2");
      info("comes between");
      std::thread([] { info("is of another thread"); }).join();
      const About none("");
      info("is about nothing");
    }
    EXPECT_EQ(about(), "req_1");
    info("ends");
  }
  info("after it");
  set_sink(nullptr, Level::info);
  EXPECT_EQ(lines(), (std::vector<std::string>{"2 req_1 begins", "2 req_2 comes between",
                                               "2 is of another thread", "2 is about nothing",
                                               "2 req_1 ends", "2 after it"}));
}

TEST(Log, HidesContentsWhereItIsTold) {
  EXPECT_EQ(content("a secret"), "a secret");
  set_contents(false);
  EXPECT_EQ(content("a secret"), "***");
  set_contents(true);
  EXPECT_EQ(content("a secret"), "a secret");
}

TEST(Log, ASinkThatThrowsHurtsNobody) {
  set_sink([](Level, std::string_view) { throw std::bad_alloc(); }, Level::info);
  error("lost");
  set_sink(nullptr, Level::info);
}

}  // namespace
}  // namespace tenon::log
