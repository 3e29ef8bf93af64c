#include "tenon/format/tool_parser.h"

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"

namespace tenon::format {
namespace {

using message::ToolCall;

struct ToolParserRow {
  std::string_view name;
  std::string_view format;
  std::vector<std::string_view> tokens;
  std::size_t completes = 0;  // the token that completes the first call
  std::vector<std::string> arguments;
  std::string_view text;
  bool truncated = false;
  bool is_incomplete = false;
};

constexpr std::size_t kNever = 99;

const ToolParserRow kToolParserRows[] = {
    // The script of Termite's design (docs/requirements.md, 002).
    {"FunctionGemma",
     "functiongemma",
     {"Hi ", "<start_function_call>", "call:", "get_weather", "{location:", "<escape>", "Lon",
      "don", "<escape>", "}", "<end_function_call>"},
     10,
     {R"({"location":"London"})"},
     "Hi "},
    {"TextOnly", "hermes", {"pla", "in"}, kNever, {}, "plain"},
    {"TextOfLaterCallsIsNotSwallowed",
     "hermes",
     {"<tool_call>{\"name\": \"get_weather\", \"arguments\": {}}</tool_call>", " and ",
      "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"location\": \"b\"}}</tool_call>."},
     0,
     {"{}", R"({"location": "b"})"},
     " and ."},
    {"Cut",
     "hermes",
     {"<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Lo"},
     kNever,
     {R"({"location": "Lo)"},
     "",
     true,
     true},
};

class ToolParsers : public testing::TestWithParam<ToolParserRow> {};

TEST_P(ToolParsers, GiveACallWhenItIsWholeAndAllAtTheEnd) {
  const ToolParserRow& row = GetParam();
  auto parser = ToolParser::create(row.format, {.tools = {"get_weather"}});
  ASSERT_TRUE(parser) << parser.error().message;
  for (int round = 0; round < 2; ++round) {  // the second time after reset()
    std::vector<std::string> arguments;
    std::size_t first = kNever;
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      for (const ToolCall& call : parser->feed(row.tokens[i])) {
        if (first == kNever) first = i;
        EXPECT_EQ(call.name, "get_weather");
        arguments.push_back(call.arguments);
      }
    }
    EXPECT_EQ(first, row.completes);
    if (!row.is_incomplete) {
      EXPECT_EQ(arguments, row.arguments);
    }
    const ToolParser::Parsed all = parser->finish(row.truncated);
    ASSERT_EQ(all.calls.size(), row.arguments.size());
    for (std::size_t i = 0; i < all.calls.size(); ++i) {
      EXPECT_EQ(all.calls[i].arguments, row.arguments[i]);
    }
    EXPECT_EQ(all.text, row.text);
    EXPECT_EQ(all.is_incomplete, row.is_incomplete);
    parser->reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolParsers, testing::ValuesIn(kToolParserRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ToolParsers, AreFoundByNameAndAlias) {
  EXPECT_EQ(ToolParser::create("qwen3", {})->name(), "hermes");
  const auto none = ToolParser::create("no_such", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unsupported);
  EXPECT_TRUE(none.error().message.starts_with("unknown tool_call_format: no_such"))
      << none.error().message;
}

TEST(ToolParsers, SayHowToCall) {
  const auto parser = ToolParser::create("hermes", {});
  EXPECT_EQ(parser->format_tools_prompt({{.name = "now", .description = "The time"}}),
            "You have access to the following tools. To use a tool, respond with:\n"
            "<tool_call>\n{\"name\": \"function_name\", \"arguments\": {\"arg1\": \"value1\"}}\n"
            "</tool_call>\n\nAvailable tools:\n- now: The time");
}

// For ThreadSanitizer, too: formats come and are looked for at once.
TEST(ToolParsers, FindFormatsWhileOthersAreRegistered) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      const std::string name = "thread_" + std::to_string(i % 4);
      for (int round = 0; round < 50; ++round) {
        const auto format = compile(
            "name = '" + name + "'\n[[syntax]]\ncall = '<" + name + ">${object}</" + name + ">'",
            name);
        ASSERT_TRUE(format);
        ASSERT_TRUE(register_format(*format));
        ASSERT_NE(find(name), nullptr);
        ASSERT_NE(find("qwen3"), nullptr);
        ASSERT_GE(all().size(), 40U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon::format
