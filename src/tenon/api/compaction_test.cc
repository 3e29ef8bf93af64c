#include "tenon/api/compaction.h"

#include <string>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using message::ChatRequest;
using message::Role;

ChatRequest history() {
  ChatRequest request;
  request.model = "m";
  request.messages = {
      {.role = Role::system, .content = "In German."},
      {.role = Role::user, .content = "We repair the boat."},
      {.role = Role::assistant,
       .content = "Let me see.",
       .tool_calls = {{.id = "1", .name = "look", .arguments = R"({"at":"hull"})"}}},
      {.role = Role::tool, .content = std::string(5000, 'x') + "dry", .tool_call_id = "1"},
      {.role = Role::user, .content = "Paint it blue."}};
  request.tools.push_back({.name = "look"});
  return request;
}

TEST(Compaction, AsksForASummaryOfWhatWasSaid) {
  const ChatRequest asked = summary_request(history(), 1U << 20U, 300);
  ASSERT_EQ(asked.messages.size(), 2U);
  EXPECT_TRUE(asked.tools.empty());
  EXPECT_EQ(asked.max_tokens, 300U);
  EXPECT_NE(asked.messages[0].text().find("In German."), std::string::npos);
  const std::string text = asked.messages[1].text();
  for (const char* part : {"User: We repair the boat.\n", "Assistant: Let me see.\n",
                           "Call: look {\"at\":\"hull\"}\n", "xdry\n", "User: Paint it blue.\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_LT(text.size(), 3000U) << "a long result is shortened";
  EXPECT_EQ(text.find("In German."), std::string::npos);
}

TEST(Compaction, KeepsToTheRoomThatThereIs) {
  ChatRequest long_one = history();
  for (int i = 0; i < 100; ++i) {
    long_one.messages.push_back(
        {.role = Role::user, .content = "\xC3\xA9 said " + std::to_string(i)});
  }
  for (const std::size_t most : {std::size_t{40}, std::size_t{401}, std::size_t{402}}) {
    const std::string text = summary_request(long_one, most, 10).messages[1].text();
    EXPECT_LT(text.size(), most + 500);
    EXPECT_NE(text.find("[...]"), std::string::npos);
    EXPECT_NE(text.find("said 99"), std::string::npos) << "the end matters most";
  }
}

TEST(Compaction, IsAnItemThatTheClientCarries) {
  CompactionEncoder encoder(
      {.id = "resp_1",
       .created_at = 7,
       .format = "hermes",
       .kept_items = {json::Object{{"type", "message"}}},
       .seal = [](std::string_view text) { return "sealed " + std::string(text); }});
  encoder.keep(0, message::ReasoningDelta{"hm"}, {});
  encoder.keep(0, message::ContentDelta{"A "}, {});
  encoder.keep(0, message::ContentDelta{"boat"}, {});
  encoder.keep(0, message::Finish{}, {});
  const json::Value whole = encoder.whole({.prompt_tokens = 3, .completion_tokens = 2});
  EXPECT_EQ(*whole.find("object"), json::Value("response.compaction"));
  EXPECT_EQ(
      json::to_string(*whole.find("output")),
      R"([{"type":"message"},{"id":"cmp_1_1","type":"compaction","encrypted_content":"sealed A boat"}])");
  EXPECT_EQ(*json::at_pointer(whole, "/usage/total_tokens"), json::Value(5));
}

}  // namespace
}  // namespace tenon::api
