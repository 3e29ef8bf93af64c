#include "tenon/format/calls_as_json.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/message/event.h"
#include "tenon/schema/schema.h"

namespace tenon::format {
namespace {

using message::Tool;

const Tool& weather() {
  static const Tool kTool{.name = "f",
                          .parameters = *json::parse(
                              R"({"type": "object", "properties": {"a": {"type": "integer"}}})")};
  return kTool;
}
const Tool& now() {
  static const Tool kTool{.name = "now"};
  return kTool;
}

constexpr std::string_view kF =
    R"({"type":"object","properties":{"name":{"const":"f"},"arguments":)"
    R"({"type":"object","properties":{"a":{"type":"integer"}}}},)"
    R"("required":["name","arguments"],"additionalProperties":false})";

struct CallsAsJsonRow {
  std::string_view format;
  std::string_view before;
  std::string_view behind;
  std::string_view schema;
  bool parallel = true;
};

TEST(CallsAsJson, AreWhatStandsBetweenTheMarkers) {
  const std::string list = R"({"type":"array","items":)" + std::string(kF) + R"(,"minItems":1)";
  const std::string many = list + "}";
  const std::string one = list + R"(,"maxItems":1})";
  const CallsAsJsonRow rows[] = {
      {"json", "", "", kF},
      {"hermes", "<tool_call>\n", "\n</tool_call>", kF},
      {"xlam", "", "", many},
      {"xlam", "", "", one, false},
  };
  for (const CallsAsJsonRow& row : rows) {
    SCOPED_TRACE(row.format);
    const Tool* const tools[] = {&weather()};
    const auto calls = calls_as_json(*find(row.format), tools, row.parallel);
    ASSERT_TRUE(calls);
    EXPECT_EQ(calls->before, row.before);
    EXPECT_EQ(calls->behind, row.behind);
    EXPECT_EQ(json::to_string(calls->schema), row.schema);
  }
}

// What a format's own parser reads of a call that its own hand has written fits, in all formats
// that have such a schema.
TEST(CallsAsJson, TakeWhatTheFormatWrites) {
  const Tool* const tools[] = {&weather(), &now()};
  std::size_t count = 0;
  for (const auto& format : all()) {
    const auto calls = calls_as_json(*format, tools, true);
    if (!calls) continue;
    SCOPED_TRACE(info(*format).name);
    ++count;
    const auto schema = schema::Schema::compile(calls->schema);
    ASSERT_TRUE(schema) << schema.error().message;
    for (const message::ToolCall& call :
         {message::ToolCall{"", "f", R"({"a": 1})"}, message::ToolCall{"", "now", "{}"}}) {
      auto text = render_calls(*format, {call});
      ASSERT_TRUE(text) << text.error().message;
      ASSERT_TRUE(text->starts_with(calls->before)) << *text;
      ASSERT_TRUE(text->ends_with(calls->behind)) << *text;
      const std::string_view within = std::string_view(*text).substr(
          calls->before.size(), text->size() - calls->before.size() - calls->behind.size());
      const auto value = json::parse(within);
      ASSERT_TRUE(value) << within;
      EXPECT_EQ((*schema)->validate(*value)->size(), 0U) << within;
    }
  }
  EXPECT_GE(count, 12U);
}

TEST(CallsAsJson, AreNotWhereTheyAreWrittenOtherwise) {
  const Tool* const tools[] = {&weather()};
  for (const std::string_view name : {"qwen3_coder", "glm45", "mistral_v11"}) {
    EXPECT_FALSE(calls_as_json(*find(name), tools, true)) << name;
  }
  EXPECT_FALSE(calls_as_json(*find("hermes"), {}, true));
  Tool refers = weather();
  refers.parameters = *json::parse(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}})");
  const Tool text = message::custom_tool("t", "", message::TextGrammar{.definition = "a"});
  const Tool* const kinds[] = {&refers, &text};
  for (const Tool* const tool : kinds) {
    const Tool* const one[] = {&weather(), tool};
    EXPECT_FALSE(calls_as_json(*find("hermes"), one, true)) << tool->name;
  }
}

}  // namespace
}  // namespace tenon::format
