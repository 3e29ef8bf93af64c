#include "tenon/chat/conversation.h"

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/conversation_for_test.h"
#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::FinishReason;
using message::Role;

TEST(Conversation, tool_calling_GoesOnWithTheResultsOfItsCalls) {
  const Setting at({{.text = call("Paris")}, {.text = "It rains."}});
  Conversation talk(at.model, {weather_tool()});
  const auto asked = talk.send_message("How is the weather?");
  ASSERT_TRUE(asked) << asked.error().error.message;
  EXPECT_EQ(asked->content, std::nullopt);
  ASSERT_EQ(asked->tool_calls.size(), 1U);
  EXPECT_EQ(asked->tool_calls[0].name, "get_weather");
  EXPECT_EQ(asked->tool_calls[0].arguments, R"({"city": "Paris"})");
  EXPECT_EQ(asked->finish.reason, FinishReason::tool_calls);

  const auto told = talk.submit_tool_results({{asked->tool_calls[0].id, "rain"}});
  ASSERT_TRUE(told) << told.error().error.message;
  EXPECT_EQ(told->content, "It rains.");
  EXPECT_TRUE(told->tool_calls.empty());
  // No user turn comes in between.
  EXPECT_TRUE(at.prompt(1).ends_with(
      "<|im_start|>user\nHow is the weather?<|im_end|>\n"
      "<|im_start|>assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
      "{\"city\": \"Paris\"}}\n</tool_call><|im_end|>\n"
      "<|im_start|>tool\nrain<|im_end|>\n<|im_start|>assistant\n"))
      << at.prompt(1);
}

TEST(Conversation, tool_calling_RefusesResultsThatDoNotFitItsCalls) {
  struct Row {
    const char* name;
    std::vector<ToolResult> results;  // "$0" and "$1" stand for the ids of the calls
    std::string_view told;
  };
  const Row rows[] = {
      {"Unknown", {{"$0", "1"}, {"$1", "2"}, {"nope", "3"}}, "nope"},
      {"UnknownOnly", {{"nope", "3"}}, "nope"},
      {"Missing", {{"$1", "2"}}, "missing: of \"$0\" (get_weather)"},
      {"None", {}, "missing: of \"$0\" (get_weather), \"$1\" (get_weather)"},
      {"Twice", {{"$0", "1"}, {"$1", "2"}, {"$0", "1"}}, "\"$0\" is there twice"},
  };
  const Setting at({{.text = call("Paris") + call("Rome")}, {.text = "Fine."}});
  Conversation talk(at.model, {weather_tool()});
  const auto asked = talk.send_message("Both?");
  ASSERT_TRUE(asked) << asked.error().error.message;
  ASSERT_EQ(asked->tool_calls.size(), 2U);
  const auto filled = [&](std::string text) {
    for (const int i : {0, 1}) {
      const std::string name = "$" + std::to_string(i);
      for (auto found = text.find(name); found != std::string::npos; found = text.find(name)) {
        text.replace(found, name.size(), asked->tool_calls[static_cast<std::size_t>(i)].id);
      }
    }
    return text;
  };
  const auto before = talk.to_json();
  for (const Row& row : rows) {
    std::vector<ToolResult> results = row.results;
    for (ToolResult& result : results) result.tool_call_id = filled(result.tool_call_id);
    const auto turn = talk.submit_tool_results(results);
    ASSERT_FALSE(turn) << row.name;
    EXPECT_EQ(turn.error().code, "invalid_value") << row.name;
    EXPECT_EQ(turn.error().param, "tool_results") << row.name;
    EXPECT_NE(turn.error().error.message.find(filled(std::string(row.told))), std::string::npos)
        << turn.error().error.message;
    EXPECT_EQ(talk.to_json(), before) << row.name << ": the history changed";
  }
  const auto early = talk.send_message("And now?");
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().error.message.find(asked->tool_calls[1].id), std::string::npos);

  // Results may come in any order; the history has that of the calls.
  const auto told = talk.submit_tool_results({{filled("$1"), "sun"}, {filled("$0"), "rain"}});
  ASSERT_TRUE(told) << told.error().error.message;
  EXPECT_NE(at.prompt(1).find("<|im_start|>tool\nrain<|im_end|>\n<|im_start|>tool\nsun<|im_end|>"),
            std::string::npos)
      << at.prompt(1);
  const auto again = talk.submit_tool_results({{filled("$0"), "1"}});
  ASSERT_FALSE(again) << "it has its result already";
  EXPECT_NE(again.error().error.message.find(filled("$0")), std::string::npos);
  ASSERT_FALSE(talk.submit_tool_results({})) << "nothing waits";
}

TEST(Conversation, ATurnThatFailsChangesNothing) {
  const Setting at({{.text = "Hel", .end = FinishReason::error}, {.text = "Hello!"}});
  Conversation talk(at.model, Conversation::Options{});
  const auto failed = talk.send_message("Hi");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "engine_error");
  EXPECT_EQ(talk.size(), 0U);
  const auto turn = talk.send_message("Hi");
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->content, "Hello!");
  EXPECT_EQ(talk.size(), 2U);
}

TEST(Conversation, tool_calling_KeepsTheTextOfAnAnswerThatWasCut) {
  const Setting at(
      {{.text = "Look. " + call("Paris"), .end = FinishReason::length}, {.text = "Yes."}});
  Conversation talk(at.model, {weather_tool()});
  const auto cut = talk.send_message("Weather?");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->finish.reason, FinishReason::length);
  EXPECT_TRUE(cut->tool_calls.empty());
  EXPECT_TRUE(talk.pending_calls().empty());
  ASSERT_EQ(talk.size(), 2U);
  EXPECT_EQ(talk.messages()[1].content, "Look. ");
  EXPECT_TRUE(talk.messages()[1].tool_calls.empty());
  EXPECT_TRUE(talk.send_message("Go on"));
}

TEST(Conversation, EventsComeToTheThreadThatAsks) {
  const Setting at({{.text = "Hello!"}});
  Conversation talk(at.model, Conversation::Options{});
  message::Fold fold;
  const auto here = std::this_thread::get_id();
  const auto turn = talk.send_message("Hi", {.on_event = [&](const message::ChatEvent& event) {
                                        EXPECT_EQ(std::this_thread::get_id(), here);
                                        fold.add(event);
                                      }});
  ASSERT_TRUE(turn);
  EXPECT_EQ(fold.message().content, turn->content);
}

TEST(Conversation, AnAnswerEndsWhenItIsCancelledOrLate) {
  const engine::Script slow{.text = std::string(10'000, 'a'),
                            .delay = std::chrono::milliseconds(1)};
  const Setting at({slow});
  Conversation talk(at.model, Conversation::Options{});
  AskOptions options;
  options.on_event = [&](const message::ChatEvent&) { options.cancel.cancel(); };
  const auto cancelled = talk.send_message("Hi", options);
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->finish.reason, FinishReason::cancelled);
  EXPECT_EQ(talk.messages()[1].content, cancelled->content) << "what was said stays";

  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  const auto late = talk.send_message("Hi", {.deadline = soon});
  ASSERT_TRUE(late);
  EXPECT_EQ(late->finish.reason, FinishReason::cancelled);
}

TEST(Conversation, tool_calling_BranchesShareWhatWasSaid) {
  const Setting at({{.text = call("Paris")}, {.text = "Rain."}, {.text = "Sun."}});
  Conversation talk(at.model, {weather_tool()});
  const auto asked = talk.send_message("Weather?");
  ASSERT_TRUE(asked);
  Conversation branch = talk;
  const std::string id = asked->tool_calls[0].id;
  ASSERT_TRUE(talk.submit_tool_results({{id, "rain"}}));
  EXPECT_EQ(branch.size(), 2U);
  ASSERT_TRUE(branch.submit_tool_results({{id, "sun"}}));
  EXPECT_EQ(talk.messages()[3].content, "Rain.");
  EXPECT_EQ(branch.messages()[3].content, "Sun.");
}

TEST(Conversation, BranchesAreUsedByThreads) {
  const Setting at({{.text = "Yes."}});
  Conversation trunk(at.model,
                     Conversation::Options{.request = {.messages = {message::system("s")}}});
  ASSERT_TRUE(trunk.send_message("Hi"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([branch = trunk]() mutable {
      for (int turn = 0; turn < 5; ++turn) EXPECT_TRUE(branch.send_message("More?"));
      EXPECT_EQ(branch.size(), 13U);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trunk.size(), 3U);
  trunk.reset();
  EXPECT_EQ(trunk.size(), 1U) << "the system message";
}

TEST(Conversation, tool_calling_CallsMayBeDismissed) {
  const Setting at({{.text = call("Paris") + call("Rome")}, {.text = "Then not."}});
  Conversation talk(at.model, {weather_tool()});
  ASSERT_TRUE(talk.send_message("Weather?"));
  EXPECT_EQ(talk.pending_calls().size(), 2U);
  talk.dismiss_calls("The user changed their mind.");
  EXPECT_TRUE(talk.pending_calls().empty());
  ASSERT_TRUE(talk.send_message("Never mind"));
  EXPECT_EQ(talk.messages()[2].content, "The user changed their mind.");
}

TEST(Conversation, tool_calling_IsReadBackFromItsJson) {
  const Setting at({{.text = call("Paris")}, {.text = "Rain."}});
  const Conversation::Options options{
      .request = {.messages = {message::system("Be brief.")}, .tools = {weather_tool()}}};
  Conversation talk(at.model, options);
  const auto asked = talk.send_message("Weather?");
  ASSERT_TRUE(asked);
  const std::string saved = json::to_string(talk.to_json());
  auto read = Conversation::from_json(*json::parse(saved), at.model, options);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->to_json(), talk.to_json());
  EXPECT_EQ(read->pending_calls(), talk.pending_calls());
  ASSERT_TRUE(read->submit_tool_results({{asked->tool_calls[0].id, "rain"}}));
  EXPECT_EQ(read->messages().back().content, "Rain.");
}

TEST(Conversation, RefusesJsonThatNoConversationIs) {
  const std::string calls =
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f",)"
      R"("arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{}"}}]})";
  const auto with = [](const std::string& messages) {
    return R"({"version":1,"messages":[)" + messages + "]}";
  };
  struct Row {
    std::string text;
    Errc code;
    std::string_view told;
  };
  const Row rows[] = {
      {"[]", Errc::invalid, "version"},
      {"{}", Errc::invalid, "version"},
      {R"({"version":2,"messages":[]})", Errc::unsupported, "version 2"},
      {R"({"version":"1","messages":[]})", Errc::unsupported, "version"},
      {R"({"version":1})", Errc::invalid, "messages"},
      {R"({"version":1,"messages":{}})", Errc::invalid, "messages"},
      {with("1"), Errc::invalid, "messages[0]"},
      {with(R"({"role":"tool","content":"1","tool_call_id":"a"})"), Errc::invalid, "\"a\""},
      {with(calls + R"(,{"role":"tool","content":"1","tool_call_id":"c"})"), Errc::invalid,
       "messages[1]: no call before it"},
      {with(calls + R"(,{"role":"tool","tool_call_id":"a"},{"role":"tool","tool_call_id":"a"})"),
       Errc::invalid, "messages[2]: no call"},
      {with(calls + R"(,{"role":"tool","tool_call_id":"a"},{"role":"user","content":""})"),
       Errc::invalid, "messages[2]: results are missing before it: of \"b\""},
      {with(R"({"role":"user","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]})"),
       Errc::invalid, "only an assistant"},
      {with(
           R"({"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":""}}]})"),
       Errc::invalid, "apart"},
      {with(R"({"role":"user","content":"1"},{"role":"user","content":"2"},)"
            R"({"role":"user","content":"3"})"),
       Errc::limit_exceeded, "3 messages"},
      {with(R"({"role":"user","content":")" + std::string(101, 'a') + R"("})"),
       Errc::limit_exceeded, "101 bytes"},
  };
  const Setting at({{.text = "Hi"}});
  for (const Row& row : rows) {
    const bool is_limit = row.code == Errc::limit_exceeded;
    const auto read = Conversation::from_json(
        *json::parse(row.text), at.model,
        {.max_messages = is_limit ? 2U : 1000U, .max_bytes = is_limit ? 100U : 100'000U});
    ASSERT_FALSE(read) << row.text;
    EXPECT_EQ(read.error().code, row.code) << row.text;
    EXPECT_NE(read.error().message.find(row.told), std::string::npos) << read.error().message;
  }
}

TEST(Conversation, tool_calling_ManyCallsAreReadAsFastAsFew) {
  constexpr int kCalls = 20'000;
  json::Array calls;
  json::Array messages;
  for (int i = 0; i < kCalls; ++i) {
    const std::string id = "c" + std::to_string(i);
    calls.emplace_back(
        json::Object{{"id", id}, {"function", json::Object{{"name", "f"}, {"arguments", "{}"}}}});
    messages.emplace_back(json::Object{{"role", "tool"}, {"content", ""}, {"tool_call_id", id}});
  }
  messages.insert(messages.begin(),
                  json::Object{{"role", "assistant"}, {"tool_calls", std::move(calls)}});
  messages.pop_back();
  const json::Object saved{{"version", 1}, {"messages", std::move(messages)}};
  const Setting at({{.text = "Hi"}});
  auto read = Conversation::from_json(saved, at.model, {.max_messages = kCalls});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->pending_calls().size(), 1U);
  EXPECT_EQ(read->pending_calls()[0].id, "c" + std::to_string(kCalls - 1));
  const Conversation branch = *read;
  read->dismiss_calls("no");
  EXPECT_EQ(branch.pending_calls().size(), 1U) << "a branch has its own";
  EXPECT_TRUE(read->pending_calls().empty());
}

TEST(Conversation, HasLimits) {
  const Setting at({{.text = "Hi"}});
  Conversation talk(at.model, Conversation::Options{.max_messages = 3, .max_bytes = 10});
  const auto large = talk.send_message(std::string(11, 'a'));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, "context_length_exceeded");
  ASSERT_TRUE(talk.send_message("a"));
  ASSERT_TRUE(talk.send_message("b")) << "the answer may go beyond";
  const auto more = talk.send_message("c");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().error.code, Errc::limit_exceeded);
}

}  // namespace
}  // namespace tenon::chat
