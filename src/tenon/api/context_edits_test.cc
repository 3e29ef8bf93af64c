#include "tenon/api/context_edits.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using message::ChatRequest;
using message::Role;

// Three calls with results of 40 bytes each, in two turns with reasoning.
ChatRequest three_uses() {
  ChatRequest request;
  request.messages.push_back({.role = Role::user, .content = "go"});
  for (const std::string id : {"1", "2", "3"}) {
    if (id == "3") request.messages.push_back({.role = Role::user, .content = "and now"});
    request.messages.push_back(
        {.role = Role::assistant,
         .reasoning = "thought " + id,
         .tool_calls = {
             {.id = id, .name = id == "2" ? "write" : "read", .arguments = R"({"n":1})"}}});
    request.messages.push_back(
        {.role = Role::tool, .content = id + std::string(39, 'x'), .tool_call_id = id});
  }
  return request;
}

// Results by their first letters, then arguments that were cleared, then reasoning.
std::string shown(const ChatRequest& request) {
  std::string all;
  std::string thoughts;
  for (const message::Message& message : request.messages) {
    if (message.role == Role::tool) all += message.text().substr(0, 1);
    for (const message::ToolCall& call : message.tool_calls) {
      if (call.arguments == "{}") all += "{}";
    }
    if (!message.reasoning.empty()) thoughts += message.reasoning.back();
  }
  return all + ' ' + thoughts;
}

struct EditRow {
  std::string_view name;
  ContextEdit edit;
  std::string_view left;
  std::string_view applied;
};

constexpr auto kThinking = ContextEdit::Kind::thinking;

const EditRow kEditRows[] = {
    {"BelowTheTrigger", {.type = "t", .keep = 0}, "123 123", "[]"},
    {"AllButTheLast",
     {.type = "t", .trigger = 1, .keep = 1},
     "[[3 123",
     R"([{"type":"t","cleared_tool_uses":2,"cleared_input_tokens":26}])"},
    {"All",
     {.type = "t", .trigger = 1, .keep = 0},
     "[[[ 123",
     R"([{"type":"t","cleared_tool_uses":3,"cleared_input_tokens":39}])"},
    {"MoreAreKeptThanThereAre", {.type = "t", .trigger = 1, .keep = 9}, "123 123", "[]"},
    {"ByUses",
     {.type = "t", .trigger = 2, .triggers_by_uses = true, .keep = 2},
     "[23 123",
     R"([{"type":"t","cleared_tool_uses":1,"cleared_input_tokens":13}])"},
    {"TooFewUses",
     {.type = "t", .trigger = 3, .triggers_by_uses = true, .keep = 0},
     "123 123",
     "[]"},
    {"ToolsThatStay",
     {.type = "t", .trigger = 1, .keep = 0, .excluded = {"read"}},
     "1[3 123",
     R"([{"type":"t","cleared_tool_uses":1,"cleared_input_tokens":13}])"},
    {"TooLittleWouldGo",
     {.type = "t", .trigger = 1, .keep = 1, .at_least_tokens = 27},
     "123 123",
     "[]"},
    {"ArgumentsToo",
     {.type = "t", .trigger = 1, .keep = 1, .clears_all_inputs = true},
     "{}[{}[3 123",
     R"([{"type":"t","cleared_tool_uses":2,"cleared_input_tokens":26}])"},
    {"ArgumentsOfOneTool",
     {.type = "t", .trigger = 1, .keep = 1, .input_tools = {"write"}},
     "[{}[3 123",
     R"([{"type":"t","cleared_tool_uses":2,"cleared_input_tokens":26}])"},
    {"ThoughtsOfOldTurns",
     {.kind = kThinking, .type = "t", .keep = 1},
     "123 3",
     R"([{"type":"t","cleared_thinking_turns":1,"cleared_input_tokens":0}])"},
    {"AllThoughts",
     {.kind = kThinking, .type = "t", .keep = 1, .keeps_all = true},
     "123 123",
     "[]"},
};

TEST(ContextEdits, TakeOutWhatTheySay) {
  // Each result has 13 tokens.
  const CountTokens count = [](const ChatRequest& request) {
    std::uint64_t tokens = 0;
    for (const message::Message& message : request.messages) {
      if (message.role == Role::tool && !message.text().starts_with('[')) tokens += 13;
    }
    return tokens;
  };
  for (const EditRow& row : kEditRows) {
    ChatRequest request = three_uses();
    EXPECT_EQ(json::to_string(apply_edits({row.edit}, request, count)), row.applied) << row.name;
    EXPECT_EQ(shown(request), row.left) << row.name;
  }
}

TEST(ContextEdits, AreNotAppliedTwice) {
  const ContextEdit edit{.type = "t", .trigger = 1, .keep = 1};
  ChatRequest request = three_uses();
  EXPECT_EQ(apply_edits({edit, edit}, request, guessed_tokens).size(), 1U);
}

struct DropRow {
  std::string_view name;
  std::size_t room;  // how many messages fit
  std::size_t dropped;
  std::string_view left;  // the texts of what stays
};

// s: instructions, u: the user's texts, a: answers, c: a call, r: its results
constexpr DropRow kDropRows[] = {
    {"TheOldestGoes", 6, 1, "s a2 c r3 r4 u5 "},
    {"AsFewAsCanBe", 5, 2, "s c r3 r4 u5 "},
    {"ResultsGoWithTheirCall", 4, 5, "s u5 "},
    {"TheLastTextStays", 1, 0, "s u1 a2 c r3 r4 u5 "},
};

TEST(ContextEdits, TheOldestMessagesAreDroppedFirst) {
  for (const DropRow& row : kDropRows) {
    ChatRequest request;
    const std::pair<Role, std::string> said[] = {
        {Role::system, "s"}, {Role::user, "u1"}, {Role::assistant, "a2"}, {Role::assistant, "c"},
        {Role::tool, "r3"},  {Role::tool, "r4"}, {Role::user, "u5"},
    };
    for (const auto& [role, text] : said)
      request.messages.push_back({.role = role, .content = text});
    const std::size_t dropped = drop_oldest(
        request, [&](const ChatRequest& rest) { return rest.messages.size() <= row.room; });
    std::string left;
    for (const message::Message& message : request.messages) left += message.text() + ' ';
    EXPECT_EQ(left, row.left) << row.name;
    EXPECT_EQ(dropped, row.dropped) << row.name;
  }
}

// While tools are at work, the user's text stands first, and the last results stay.
TEST(ContextEdits, ALoopKeepsItsQuestionAndItsLastResults) {
  ChatRequest request;
  for (const auto& [role, text] :
       {std::pair{Role::user, "u"}, std::pair{Role::assistant, "c1"}, std::pair{Role::tool, "r1"},
        std::pair{Role::assistant, "c2"}, std::pair{Role::tool, "r2"}}) {
    request.messages.push_back({.role = role, .content = text});
  }
  const auto fits = [](std::size_t room) {
    return [room](const ChatRequest& rest) { return rest.messages.size() <= room; };
  };
  EXPECT_EQ(drop_oldest(request, fits(2)), 0U);
  EXPECT_EQ(drop_oldest(request, fits(3)), 2U);
  std::string left;
  for (const message::Message& message : request.messages) left += message.text();
  EXPECT_EQ(left, "uc2r2");
}

// A history of any length is searched once.
TEST(ContextEdits, TakeTimeInProportion) {
  ChatRequest request;
  for (int i = 0; i < 100'000; ++i) {
    request.messages.push_back(
        {.role = Role::tool, .content = "x", .tool_call_id = std::to_string(i)});
  }
  const ContextEdit edit{.type = "t", .trigger = 0, .triggers_by_uses = true, .keep = 0};
  const json::Array applied = apply_edits({edit}, request, guessed_tokens);
  ASSERT_EQ(applied.size(), 1U);
  EXPECT_EQ(*applied[0].find("cleared_tool_uses"), json::Value(100'000));
}

}  // namespace
}  // namespace tenon::api
