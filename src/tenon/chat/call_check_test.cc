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
    std::string_view fault;  // its beginning; "": the arguments are valid
  } rows[] = {
      {"f", kSchema, R"({"n": 1})", ""},
      {"f", kSchema, R"({"n": "1", "s": 2})",
       "the call of 'f' does not fit its schema: /n is a string, must be an integer; /s "},
      {"f", kSchema, "{", "the call of 'f' does not fit its schema: it is not JSON"},
      {"any", "null", "{", ""},
      {"odd", R"({"type": "objekt"})", "{}",
       "the call of 'odd' does not fit its schema: /type: 'objekt'"},
  };
  CallCheck calls(nullptr, {}, std::make_shared<CompiledSchemas>());
  for (const auto& row : rows) {
    const std::string fault =
        calls.fault(std::string(row.tool), *json::parse(row.schema), row.arguments);
    EXPECT_EQ(fault.empty(), row.fault.empty()) << row.arguments;
    EXPECT_TRUE(fault.starts_with(row.fault)) << fault;
  }
}

TEST(CallCheck, RepairsWhatItKnows) {
  const json::Value schema = *json::parse(kSchema);
  const auto schemas = std::make_shared<CompiledSchemas>();
  CallCheck calls(repair::Rules::builtin(), {"text"}, schemas);
  EXPECT_NE(calls.repairer("f", schema), nullptr);
  EXPECT_NE(calls.repairer("any", {}), nullptr) << "its tool may have rules";
  EXPECT_EQ(calls.repairer("text", schema), nullptr);
  EXPECT_EQ(calls.repairer("odd", *json::parse(R"({"type": "objekt"})")), nullptr);
  EXPECT_EQ(CallCheck(nullptr, {}, schemas).repairer("f", schema), nullptr);
  EXPECT_TRUE(calls.can_judge("f"));
  EXPECT_FALSE(calls.can_judge("text"));
}

TEST(CompiledSchemas, AreCompiledOnceAndBounded) {
  CompiledSchemas schemas;
  const auto one = schemas.of(*json::parse(kSchema));
  EXPECT_EQ(schemas.of(*json::parse(kSchema)), one);
  EXPECT_NE(schemas.of(*json::parse("{}")), one);
  EXPECT_FALSE(*schemas.of(*json::parse(R"({"type": "objekt"})"))) << "faults are kept, too";
  // A schema that is too large alone is not kept; one that is too large together with the others
  // evicts them. A caller that holds a schema keeps it.
  const auto large = [](std::size_t bytes) {
    return json::Value(json::Object{{"description", std::string(bytes, 'x')}});
  };
  EXPECT_TRUE(*schemas.of(large(CompiledSchemas::kMaxBytes)));
  EXPECT_EQ(schemas.of(*json::parse(kSchema)), one);
  EXPECT_TRUE(*schemas.of(large(CompiledSchemas::kMaxBytes - 50)));
  EXPECT_NE(schemas.of(*json::parse(kSchema)), one);
  EXPECT_TRUE(**one != nullptr);
}

}  // namespace
}  // namespace tenon::chat
