#include "tenon/base/trace.h"

#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

namespace tenon::trace {
namespace {

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

struct Parent {
  std::string_view name;
  std::string given;
  std::string_view read;
};

const Parent kParents[] = {
    {"Plain", "00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01"},
    {"NotRecorded", "00-" TRACE "-" SPAN "-00", "00-" TRACE "-" SPAN "-00"},
    {"UnknownFlags", "00-" TRACE "-" SPAN "-ff", "00-" TRACE "-" SPAN "-ff"},
    {"LaterVersion", "cc-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01"},
    {"LaterVersionWithMore", "cc-" TRACE "-" SPAN "-01-what-the-future",
     "00-" TRACE "-" SPAN "-01"},
    {"LaterVersionWithFlags", "cc-" TRACE "-" SPAN "-fe", "00-" TRACE "-" SPAN "-00"},
    {"LaterVersionRunsOn", "cc-" TRACE "-" SPAN "-01.what", ""},
    {"None", "", ""},
    {"VersionFf", "ff-" TRACE "-" SPAN "-01", ""},
    {"VersionInLetters", "0x-" TRACE "-" SPAN "-01", ""},
    {"More", "00-" TRACE "-" SPAN "-01-x", ""},
    {"Less", "00-" TRACE "-" SPAN "-0", ""},
    {"UpperCase", "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", ""},
    {"ZeroTrace", "00-00000000000000000000000000000000-" SPAN "-01", ""},
    {"ZeroSpan", "00-" TRACE "-0000000000000000-01", ""},
    {"Underscores", "00_" TRACE "_" SPAN "_01", ""},
    {"FlagsInLetters", "00-" TRACE "-" SPAN "-0g", ""},
    {"Endless", std::string(100'000, '0'), ""},
};

TEST(Trace, ReadsParents) {
  for (const Parent& row : kParents) {
    SCOPED_TRACE(row.name);
    const Context context = read(row.given, "a=1");
    EXPECT_EQ(context.parent, row.read);
    EXPECT_EQ(context.trace_id(), row.read.empty() ? "" : TRACE);
    EXPECT_EQ(context.state, row.read.empty() ? "" : "a=1") << "no parent, no state";
  }
}

std::string members(int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += (i == 0 ? "k" : ",k") + std::to_string(i) + "=v";
  return all;
}

struct State {
  std::string_view name;
  std::string given;
  bool is_valid;
};

const State kStates[] = {
    {"One", "rojo=00f067aa0ba902b7", true},
    {"Several", "rojo=00f067,congo=t61rcWkgMzE", true},
    {"SpacesAround", "rojo=1 , \t congo=2", true},
    {"EmptyMembers", "rojo=1,,congo=2,", true},
    {"Tenant", "fw529a3039@dt=FfIv9z", true},
    {"TenantOfDigits", "0@dt=1", true},
    {"SpaceWithin", "a=1 2", true},
    {"AsManyAsThereMayBe", members(32), true},
    {"None", "", false},
    {"TooMany", members(33), false},
    {"TooLong", "a=" + std::string(255, 'x') + ",b=" + std::string(255, 'x'), false},
    {"Twice", "a=1,a=2", false},
    {"NoValue", "a=", false},
    {"NoKey", "=1", false},
    {"NoEquals", "a", false},
    {"TwoEquals", "a=1=2", false},
    {"UpperCaseKey", "A=1", false},
    {"TwoTenants", "a@b@c=1", false},
    {"Control", "a=1\x01", false},
    {"LineEnd", "a=1\r\nx-evil: 1", false},
    {"NotAscii", "a=\xc3\xa4", false},
};

TEST(Trace, ReadsStates) {
  for (const State& row : kStates) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(read("00-" TRACE "-" SPAN "-01", row.given).state, row.is_valid ? row.given : "");
  }
}

TEST(Trace, IsOfOneThreadAndScope) {
  EXPECT_EQ(current(), Context{});
  const Context outer = read("00-" TRACE "-" SPAN "-01", "a=1");
  const Scope scope(outer);
  {
    const Context none;
    const Scope within(none);
    EXPECT_EQ(current(), none);
  }
  EXPECT_EQ(current(), outer);
  std::thread([] { EXPECT_EQ(current(), Context{}); }).join();
}

}  // namespace
}  // namespace tenon::trace
