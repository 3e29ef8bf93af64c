#include "tenon/chat/converse.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/conversation_for_test.h"

namespace tenon::chat {
namespace {

using message::ToolCall;
using End = Report::End;
using std::chrono::milliseconds;

// A tool that says it rains in Paris, after a moment.
struct Weather {
  Weather() {
    EXPECT_TRUE(
        tools.add(weather_tool(), [](const json::Object& arguments, const ToolContext& context) {
          const std::string city = *arguments.find("city")->if_string();
          while (city == "Nowhere" && !context.cancel.is_cancelled()) {
            std::this_thread::sleep_for(milliseconds(1));
          }
          return ToolOutput{city == "Paris" ? "rain" : "sun"};
        }));
  }
  Toolbox tools;
};

TEST(Converse, tool_calling_RunsToolsUntilThereIsAnAnswer) {
  Weather weather;
  const Setting at({{.text = call("Paris") + call("Rome")},
                    {.text = "One more. " + call("Oslo")},
                    {.text = "Rain and sun."}});
  Conversation talk(at.model, Conversation::Options{});
  std::vector<std::string> results;
  const Report report = converse(talk, "Weather?", weather.tools,
                                 {.on_result = [&](const ToolCall& call, const ToolResult& result) {
                                   results.push_back(call.arguments + result.output);
                                 }});
  EXPECT_EQ(report.end, End::answered);
  EXPECT_EQ(report.turn.content, "Rain and sun.");
  EXPECT_EQ(report.rounds, 3U);
  EXPECT_FALSE(report.is_out_of_rounds);
  EXPECT_EQ(results, (std::vector<std::string>{R"({"city": "Paris"}rain)", R"({"city": "Rome"}sun)",
                                               R"({"city": "Oslo"}sun)"}));
  EXPECT_EQ(talk.size(), 7U);
  EXPECT_GT(report.usage.completion_tokens, report.turn.finish.usage.completion_tokens);
  EXPECT_NE(at.prompt(1).find("tool\nrain<|im_end|>\n<|im_start|>tool\nsun"), std::string::npos);
}

TEST(Converse, tool_calling_OffersNoToolForTheLastAnswer) {
  Weather weather;
  const Setting at({{.text = call("Paris")}});
  Conversation talk(at.model, Conversation::Options{});
  const Report report = converse(talk, "Weather?", weather.tools, {.max_rounds = 3});
  EXPECT_EQ(report.end, End::answered);
  EXPECT_EQ(report.rounds, 3U);
  EXPECT_TRUE(report.is_out_of_rounds);
  EXPECT_TRUE(report.turn.tool_calls.empty());
  EXPECT_EQ(at.prompt(2).find("Available tools"), std::string::npos);
  EXPECT_TRUE(talk.pending_calls().empty());
}

TEST(Converse, tool_calling_OneAnswerIsOneWithoutTools) {
  Weather weather;
  const Setting at({{.text = call("Paris")}});
  Conversation talk(at.model, Conversation::Options{});
  const Report report = converse(talk, "Weather?", weather.tools, {.max_rounds = 1});
  EXPECT_EQ(report.end, End::answered);
  EXPECT_EQ(report.rounds, 1U);
  EXPECT_TRUE(report.is_out_of_rounds);
  EXPECT_TRUE(report.turn.tool_calls.empty());
  EXPECT_EQ(talk.size(), 2U);
}

TEST(Converse, tool_calling_TheConversationsOwnToolHasItsName) {
  Weather weather;
  const Setting at({{.text = call("Paris")}});
  Conversation talk(at.model, {weather_tool()});
  const Report report = converse(talk, "Weather?", weather.tools);
  EXPECT_EQ(report.end, End::calls_left);
  EXPECT_TRUE(report.results.empty());
  EXPECT_EQ(talk.pending_calls().size(), 1U);
}

TEST(Converse, tool_calling_AsksBeforeItRunsWhatNeedsIt) {
  Weather weather;
  const Setting at({{.text = call("Paris") + call("Rome")}, {.text = "Fine."}});
  Conversation talk(at.model, Conversation::Options{});
  const Report report = converse(talk, "Weather?", weather.tools,
                                 {.approve = [](const ToolCall& call, const std::string&) {
                                   return call.arguments.find("Paris") == std::string::npos;
                                 }});
  EXPECT_EQ(report.end, End::answered);
  const auto messages = talk.messages();
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[2].content, "Error: the user did not allow this call. Nothing was run");
  EXPECT_TRUE(messages[2].extra.contains("is_error"));
  EXPECT_EQ(messages[3].content, "sun");
}

TEST(Converse, tool_calling_StopsWithCallsOfOtherTools) {
  Weather weather;
  const auto scripts = [] {
    return std::vector<engine::Script>{{.text = call_of("book", "{}") + call("Paris")},
                                       {.text = "Booked."}};
  };
  const Conversation::Options options{
      .request = {.tools = {*message::ToolDefinition("book").build()}}};
  {
    const Setting at(scripts());
    Conversation talk(at.model, options);
    const Report report = converse(talk, "Book!", weather.tools);
    EXPECT_EQ(report.end, End::calls_left);
    ASSERT_EQ(report.results.size(), 1U);
    EXPECT_EQ(report.results[0].output, "rain");
    ASSERT_EQ(talk.pending_calls().size(), 2U);
    std::vector<ToolResult> results = report.results;
    results.push_back({talk.pending_calls()[0].id, "done"});
    const Report rest = converse(talk, results, weather.tools);
    EXPECT_EQ(rest.end, End::answered);
    EXPECT_EQ(rest.turn.content, "Booked.");
    EXPECT_NE(at.prompt(1).find("tool\ndone<|im_end|>\n<|im_start|>tool\nrain"), std::string::npos);
  }
  const Setting at(scripts());
  Conversation talk(at.model, options);
  const Report report =
      converse(talk, "Book!", weather.tools,
               {.other_tools = [](const ToolCall& call) -> std::optional<ToolResult> {
                 return ToolResult{"", call.name + " done"};
               }});
  EXPECT_EQ(report.end, End::answered);
  EXPECT_EQ(talk.messages()[2].content, "book done");
}

TEST(Converse, tool_calling_EndsInTime) {
  Weather weather;
  const Setting at(
      {{.text = call("Nowhere")}, {.text = std::string(100'000, 'a'), .delay = milliseconds(1)}});
  Conversation talk(at.model, Conversation::Options{});
  const Report late = converse(talk, "Weather?", weather.tools, {.time_limit = milliseconds(200)});
  EXPECT_EQ(late.end, End::cut);
  EXPECT_EQ(talk.messages()[2].content, "Error: the call was cancelled");
  EXPECT_TRUE(talk.send_message("Go on").has_value());
}

TEST(Converse, tool_calling_ARefusalLosesNoResult) {
  Weather weather;
  const Setting at(
      {{.text = call("Paris")}, {.end = message::FinishReason::error}, {.text = "Rain."}});
  Conversation talk(at.model, Conversation::Options{});
  const Report report = converse(talk, "Weather?", weather.tools);
  EXPECT_EQ(report.end, End::refused);
  ASSERT_TRUE(report.refusal);
  EXPECT_EQ(report.refusal->code, "engine_error");
  ASSERT_EQ(report.results.size(), 1U);
  const auto turn = talk.submit_tool_results(report.results);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->content, "Rain.");
}

TEST(Converse, tool_calling_ARefusalLosesNoResultThatItWasGiven) {
  Weather weather;
  const Setting at({{.text = call("Paris")}, {.end = message::FinishReason::error}});
  Conversation talk(at.model, {weather_tool()});
  ASSERT_EQ(converse(talk, "Weather?", weather.tools).end, End::calls_left);
  const std::string id = talk.pending_calls()[0].id;
  const Report report = converse(talk, {{.tool_call_id = id, .output = "rain"}}, weather.tools);
  EXPECT_EQ(report.end, End::refused);
  ASSERT_EQ(report.results.size(), 1U);
  EXPECT_EQ(report.results[0].output, "rain");
}

}  // namespace
}  // namespace tenon::chat
