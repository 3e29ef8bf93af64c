#include "tenon/message/build.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::message {
namespace {

TEST(ToolDefinition, IsTheToolThatItsCallsDescribe) {
  const auto tool = ToolDefinition("get_weather")
                        .description("Get current weather for a location")
                        .parameter("location", JsonSchema::string())
                        .parameter("units", JsonSchema::enum_values({"celsius", "fahrenheit"}))
                        .required({"location"})
                        .build();
  ASSERT_TRUE(tool) << tool.error().message;
  const std::string schema =
      R"({"type":"object","properties":{"location":{"type":"string"},"units":{"type":"string",)"
      R"("enum":["celsius","fahrenheit"]}},"required":["location"]})";
  EXPECT_EQ(json::to_string(tool->parameters), schema);
  EXPECT_EQ(json::to_string(tool->raw),
            R"({"type":"function","function":{"name":"get_weather","description":)"
            R"("Get current weather for a location","parameters":)" +
                schema + "}}");
  EXPECT_EQ(tool->strict, std::nullopt);
}

TEST(ToolDefinition, TellsWhatIsWrongWhenItIsBuilt) {
  struct Row {
    const char* name;
    ToolDefinition definition;
    std::string_view told;
  };
  const Row rows[] = {
      {"NoName", ToolDefinition(""), "1 to 128"},
      {"NameWithASpace", ToolDefinition("a b"), "\"a b\""},
      {"NameWithAMarker", ToolDefinition("<tool_call>"), "\"<tool_call>\""},
      {"NameTooLong", ToolDefinition(std::string(129, 'a')), "1 to 128"},
      {"Twice",
       ToolDefinition("f")
           .parameter("a", JsonSchema::string())
           .parameter("a", JsonSchema::number()),
       "\"a\" is there twice"},
      {"RequiredWithoutParameter", ToolDefinition("f").required({"b"}), "\"b\" is no parameter"},
  };
  for (const Row& row : rows) {
    const auto tool = row.definition.build();
    ASSERT_FALSE(tool) << row.name;
    EXPECT_EQ(tool.error().code, Errc::invalid) << row.name;
    EXPECT_NE(tool.error().message.find(row.told), std::string::npos) << tool.error().message;
  }
}

TEST(JsonSchema, SaysWhatItsNameSays) {
  const std::pair<JsonSchema, std::string_view> rows[] = {
      {JsonSchema::integer(), R"({"type":"integer"})"},
      {JsonSchema::boolean().description("Loud?"), R"({"type":"boolean","description":"Loud?"})"},
      {JsonSchema::array(JsonSchema::number()), R"({"type":"array","items":{"type":"number"}})"},
      {JsonSchema::object({{"a", JsonSchema::string()}}, {"a"}),
       R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})"},
      {JsonSchema::object({}), R"({"type":"object","properties":{}})"},
      {JsonSchema(true), "true"},
      {JsonSchema(true).description("any"), "true"},
  };
  for (const auto& [schema, text] : rows) EXPECT_EQ(json::to_string(schema.value()), text);
}

TEST(ToolDefinition, MayDemandToBeEnforced) {
  const auto tool = ToolDefinition("f").strict().build();
  ASSERT_TRUE(tool);
  EXPECT_EQ(tool->strict, true);
  EXPECT_EQ(json::to_string(*json::at_pointer(tool->raw, "/function/strict")), "true");
}

TEST(Message, IsReadBackFromItsJson) {
  constexpr std::string_view kRows[] = {
      R"({"role":"system","content":"Be kind."})",
      R"({"role":"user","content":""})",
      R"({"role":"user","content":"hi","name":"Ann","mood":{"a":[1.0,null]}})",
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]})",
      R"({"role":"assistant","content":null,"reasoning_content":"Hm.","tool_calls":[{"id":"c",)"
      R"("type":"function","function":{"name":"f","arguments":"{\"a\": 1"}}]})",
      R"({"role":"tool","content":"1","tool_call_id":"c","name":"f","is_error":true})",
  };
  for (const std::string_view text : kRows) {
    const auto read = message_from_json(*json::parse(text));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(json::to_string(to_json(*read)), text);
  }
  EXPECT_EQ(to_json(user("hi")), (json::Object{{"role", "user"}, {"content", "hi"}}));
  EXPECT_EQ(
      to_json(tool_result({"c", "f", "{}"}, "1")),
      (json::Object{{"role", "tool"}, {"content", "1"}, {"tool_call_id", "c"}, {"name", "f"}}));
}

TEST(Message, RefusesWhatIsNone) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"[]", "an object"},
      {"{}", "role"},
      {R"({"role":"function"})", "role"},
      {R"({"role":1})", "role"},
      {R"({"role":"user","content":1})", "content"},
      {R"({"role":"user","content":[1]})", "no type"},
      {R"({"role":"user","content":[{"text":"a"}]})", "no type"},
      {R"({"role":"user","content":"","name":1})", "name"},
      {R"({"role":"tool","tool_call_id":[]})", "tool_call_id"},
      {R"({"role":"assistant","tool_calls":{}})", "tool_calls"},
      {R"({"role":"assistant","tool_calls":[{"id":"a"}]})", "/function/name"},
      {R"({"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]})",
       "/function/arguments"},
  };
  for (const auto& [text, told] : rows) {
    const auto read = message_from_json(*json::parse(text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Errc::invalid) << text;
    EXPECT_NE(read.error().message.find(told), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace tenon::message
