#include "tenon/api/prompt_prints.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using message::ChatRequest;
using message::Message;
using message::Role;

constexpr std::string_view kSchema = R"({"type": "object"})";

// 100 bytes in all: a tool of 30, a system of 20, and messages of 25 each.
ChatRequest request_before() {
  ChatRequest request{.model = "m"};
  request.tools.push_back(
      {.name = "look", .description = std::string(9, 'd'), .parameters = *json::parse(kSchema)});
  request.messages.push_back({.role = Role::system, .content = std::string(20, 's')});
  request.messages.push_back({.role = Role::user, .content = std::string(25, 'u')});
  request.messages.push_back({.role = Role::assistant, .content = std::string(25, 'a')});
  return request;
}

struct PrintRow {
  std::string_view name;
  void (*change)(ChatRequest&);
  std::string_view type;  // "": the prompt begins as before
  std::uint64_t tokens = 0;
};

const PrintRow kPrintRows[] = {
    {"TheSame", [](ChatRequest&) {}, ""},
    {"GoesOn",
     [](ChatRequest& now) {
       now.messages.push_back({.role = Role::user, .content = "more"});
       now.messages.push_back({.role = Role::system, .content = "later"});
     },
     ""},
    {"OtherLimits", [](ChatRequest& now) { now.max_tokens = 7; }, ""},
    {"AnotherModel", [](ChatRequest& now) { now.model = "n"; }, "model_changed", 1000},
    {"AnotherTool", [](ChatRequest& now) { now.tools.front().description = "x"; }, "tools_changed",
     1000},
    {"OneMoreTool", [](ChatRequest& now) { now.tools.push_back(now.tools.front()); },
     "tools_changed", 1000},
    {"AnotherSystem", [](ChatRequest& now) { now.messages.front().content = "time: 12:01"; },
     "system_changed", 700},
    {"NoSystem", [](ChatRequest& now) { now.messages.erase(now.messages.begin()); },
     "system_changed", 700},
    {"MoreForTheTemplate",
     [](ChatRequest& now) { now.template_kwargs.set("enable_thinking", false); }, "system_changed",
     700},
    {"AnotherCallAnswered", [](ChatRequest& now) { now.messages[2].tool_call_id = "c"; },
     "messages_changed", 250},
    {"AnotherQuestion", [](ChatRequest& now) { now.messages[1].content = "x"; }, "messages_changed",
     500},
    {"AnotherAnswer", [](ChatRequest& now) { now.messages[2].content = "x"; }, "messages_changed",
     250},
    {"AnotherRole", [](ChatRequest& now) { now.messages[2].role = Role::user; }, "messages_changed",
     250},
    {"ACallBeside",
     [](ChatRequest& now) { now.messages[2].tool_calls.push_back({.name = "look"}); },
     "messages_changed", 250},
    {"OneMessageLess", [](ChatRequest& now) { now.messages.pop_back(); }, "messages_changed", 250},
    {"TheFirstOfDifferences",
     [](ChatRequest& now) {
       now.messages[2].content = "x";
       now.tools.clear();
     },
     "tools_changed", 1000},
};

TEST(PromptPrints, NameTheFirstPartThatDiffers) {
  PromptPrints prints;
  prints.keep("", "msg_1", print_of(request_before()), 1000);
  for (const PrintRow& row : kPrintRows) {
    SCOPED_TRACE(row.name);
    ChatRequest now = request_before();
    row.change(now);
    const auto miss = prints.compare("", "msg_1", print_of(now));
    ASSERT_EQ(miss.has_value(), !row.type.empty());
    if (!miss) continue;
    EXPECT_EQ(miss->type, row.type);
    EXPECT_EQ(miss->tokens, row.tokens);
  }
}

TEST(PromptPrints, BelongToTheirOwner) {
  PromptPrints prints;
  const PromptPrint print = print_of(request_before());
  prints.keep("ada", "msg_1", print, 10);
  EXPECT_FALSE(prints.compare("ada", "msg_1", print));
  for (const auto& [owner, id] :
       {std::pair("bob", "msg_1"), std::pair("", "msg_1"), std::pair("ada", "msg_2")}) {
    const auto miss = prints.compare(owner, id, print);
    ASSERT_TRUE(miss);
    EXPECT_EQ(miss->type, "previous_message_not_found");
    EXPECT_FALSE(miss->tokens);
  }
}

TEST(PromptPrints, AreForgottenInTheirOrder) {
  PromptPrints prints;
  const PromptPrint print = print_of(request_before());
  const auto knows = [&](std::size_t i) { return !prints.compare("", std::to_string(i), print); };
  for (std::size_t i = 0; i <= PromptPrints::kMostAnswers; ++i) {
    prints.keep("", std::to_string(i), print, 1);
  }
  EXPECT_FALSE(knows(0));
  EXPECT_TRUE(knows(1));
  PromptPrint large = print;
  large.messages.resize(PromptPrints::kMostMessages - 2);
  prints.keep("", "large", large, 1);
  EXPECT_FALSE(knows(PromptPrints::kMostAnswers - 1));
  EXPECT_TRUE(knows(PromptPrints::kMostAnswers));
  large.messages.resize(PromptPrints::kMostMessages + 1);
  prints.keep("", "too large", large, 1);
  EXPECT_TRUE(prints.compare("", "too large", large));
}

}  // namespace
}  // namespace tenon::api
