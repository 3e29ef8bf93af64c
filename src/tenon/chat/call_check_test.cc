#include "tenon/chat/call_check.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

constexpr std::string_view kSchema =
    R"({"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n"]})";

TEST(CallCheck, TellsHowACallBreaksItsSchema) {
  const struct {
    std::string_view tool;
    std::string_view schema;
    std::string_view arguments;
    std::string_view fault;  // its beginning; "": none
  } rows[] = {
      {"f", kSchema, R"({"n": 1})", ""},
      {"f", kSchema, R"({"n": "1", "s": 2})",
       "the call of 'f' does not fit its schema: /n is a string, must be an integer; /s "},
      {"f", kSchema, "{", "the call of 'f' does not fit its schema: its arguments are not JSON"},
      {"any", "null", "{", ""},
      {"odd", R"({"type": "objekt"})", "{}",
       "the call of 'odd' does not fit its schema: /type: 'objekt'"},
  };
  CallCheck calls(nullptr, {});
  for (const auto& row : rows) {
    const std::string fault =
        calls.fault(std::string(row.tool), *json::parse(row.schema), row.arguments);
    EXPECT_EQ(fault.empty(), row.fault.empty()) << row.arguments;
    EXPECT_TRUE(fault.starts_with(row.fault)) << fault;
  }
}

TEST(CallCheck, MendsWhatItKnows) {
  const json::Value schema = *json::parse(kSchema);
  CallCheck calls(repair::Rules::builtin(), {"text"});
  EXPECT_NE(calls.mender("f", schema), nullptr);
  EXPECT_NE(calls.mender("any", {}), nullptr) << "its tool may have rules";
  EXPECT_EQ(calls.mender("text", schema), nullptr);
  EXPECT_EQ(calls.mender("odd", *json::parse(R"({"type": "objekt"})")), nullptr);
  EXPECT_EQ(CallCheck(nullptr, {}).mender("f", schema), nullptr);
  EXPECT_TRUE(calls.can_judge("f"));
  EXPECT_FALSE(calls.can_judge("text"));
}

}  // namespace
}  // namespace tenon::chat
