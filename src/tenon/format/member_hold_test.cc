#include "tenon/format/member_hold.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::format {
namespace {

struct HoldRow {
  std::string_view json;     // so far
  std::string_view passed;   // of it
  std::string_view rest;     // what would end it
  std::string_view without;  // what ends it without the member
};

constexpr HoldRow kHolds[] = {
    {R"({"a")", "{", R"(:null})", "}"},
    {R"({"a": )", "{", "null}", "}"},
    {R"({"a": 1, "b)", R"({"a": 1)", R"(":null})", "}"},
    {R"({"a": {"b":)", R"({"a": {)", "null}}", "}}"},
    {R"({"a": [{"b\"":)", R"({"a": [{)", "null}]}", "}]}"},
    {R"([1, {"x": "y, \"z\":", "b":)", R"([1, {"x": "y, \"z\":")", "null}]", "}]"},
};

TEST(MemberHold, HoldsAMemberUntilItsValueBegins) {
  for (const HoldRow& row : kHolds) {
    for (std::size_t cut = 0; cut <= row.json.size(); ++cut) {
      MemberHold hold;
      std::string passed = hold.pass(row.json.substr(0, cut));
      passed += hold.pass(row.json.substr(cut));
      EXPECT_EQ(passed, row.passed) << row.json << " cut at " << cut;
      EXPECT_TRUE(hold.has_name()) << row.json;
      EXPECT_EQ(passed + hold.held(), row.json);
      EXPECT_EQ(hold.end_without(row.rest), row.without) << row.json;
      EXPECT_TRUE(json::parse(passed + std::string(row.without))) << passed << row.without;
    }
  }
}

// Nothing is lost or changed, however the text comes.
TEST(MemberHold, PassesWholeValuesOnAsTheyAre) {
  constexpr std::string_view kWhole[] = {
      R"({})",
      R"({"a": {"b": [1, {"c": null}, "d\\", "{\"e\":"]}, "f" : -1.5e3 , "": true})",
      R"(["a", [], {"b": {}}])",
      R"("text: {")",
      "12",
  };
  for (const std::string_view json : kWhole) {
    for (std::size_t step = 1; step <= json.size(); ++step) {
      MemberHold hold;
      std::string passed;
      for (std::size_t at = 0; at < json.size(); at += step) {
        passed += hold.pass(json.substr(at, step));
        EXPECT_EQ(passed + hold.held(), json.substr(0, at + step)) << step;
      }
      EXPECT_EQ(passed, json) << step;
    }
  }
}

TEST(MemberHold, PassesALongNameOnAtOnce) {
  MemberHold hold;
  const std::string json = "{\"" + std::string(MemberHold::kMaxHeld, 'x');
  EXPECT_EQ(hold.pass(json), json);
  EXPECT_FALSE(hold.has_name());
  // Its end is no name of its own: what was passed on cannot be left out.
  EXPECT_EQ(hold.pass("x\":"), "");
  EXPECT_FALSE(hold.has_name());
  EXPECT_EQ(hold.pass(" 1, \"b\""), "x\": 1");
  EXPECT_TRUE(hold.has_name());
}

}  // namespace
}  // namespace tenon::format
