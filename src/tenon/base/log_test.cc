#include "tenon/base/log.h"

#include <string>
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

}  // namespace
}  // namespace tenon::log
