#include "tenon/chat/loop.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

using message::Loop;
using message::Message;
using message::Role;

// Letters are calls of tools with that name: `a` and `A`, and `b` and `B`, have the same arguments,
// written in two ways, and the same result; others have other ones. `!` is the result of the call
// before, changed; `u` is a message of the user, `t` text of the assistant.
std::vector<Message> conversation(std::string_view steps) {
  std::vector<Message> messages{{.role = Role::user, .content = "go"}};
  std::size_t number = 0;
  for (const char c : steps) {
    if (c == 'u') {
      messages.push_back({.role = Role::user, .content = "again"});
    } else if (c == 't') {
      messages.push_back({.role = Role::assistant, .content = "I see."});
    } else if (c == '!') {
      messages.back().content = "changed " + std::to_string(++number);
    } else {
      const std::string id = "call_" + std::to_string(++number);
      const std::string name(1, c == 'A' ? 'a' : c == 'B' ? 'b' : c);
      const char* const arguments = c == 'A'   ? "{ \"x\" : 1 }"
                                    : c == 'B' ? R"({"y":2,"x":1})"
                                    : c == 'b' ? R"({"x":1,"y":2})"
                                               : R"({"x":1})";
      messages.push_back({.role = Role::assistant,
                          .tool_calls = {{.id = id, .name = name, .arguments = arguments}}});
      messages.push_back({.role = Role::tool, .content = "result", .tool_call_id = id});
    }
  }
  return messages;
}

TEST(Loop, IsFoundInTheLastTurn) {
  struct Row {
    std::string_view steps;
    Loop loop;
  };
  const Row kRows[] = {
      {"", {}},
      {"a", {}},
      {"ab", {}},
      {"aa", {"a", 2, 1}},
      {"aA", {"a", 2, 1}},
      {"aaaa", {"a", 4, 1}},
      {"aa!", {}},
      {"a!a!a!", {}},
      {"baa", {"a", 2, 1}},
      {"aab", {}},
      {"atua", {}},
      {"aatuaa", {"a", 2, 1}},
      {"aua", {"a", 2, 1}},
      {"aBb", {"b", 2, 1}},
      {"ata", {"a", 2, 1}},
      {"abab", {"b", 2, 2}},
      {"ababab", {"b", 3, 2}},
      {"babab", {"b", 2, 2}},
      {"abcabc", {"c", 2, 3}},
      {"abcdabcd", {"d", 2, 4}},
      {"abcdeabcde", {}},
      {"abba", {}},
  };
  for (const Row& row : kRows) {
    const Loop found = loop_of(conversation(row.steps));
    EXPECT_EQ(found.repeats, row.loop.repeats) << row.steps;
    EXPECT_EQ(found.steps, row.loop.steps) << row.steps;
    EXPECT_EQ(found.tool, row.loop.tool) << row.steps;
  }
}

// Thousands of calls are no loop that anybody must hear of, and take no long search.
TEST(Loop, IsNotLookedForInHugeAnswers) {
  std::vector<Message> messages{{.role = Role::user, .content = "go"}};
  for (int round = 0; round < 2; ++round) {
    messages.push_back({.role = Role::assistant});
    for (int i = 0; i < 20'000; ++i) {
      messages.back().tool_calls.push_back({.id = std::to_string(i), .name = "f"});
    }
    const std::size_t answer = messages.size() - 1;
    for (std::size_t i = 0; i < 20'000; ++i) {
      messages.push_back(
          {.role = Role::tool, .content = "x", .tool_call_id = messages[answer].tool_calls[i].id});
    }
  }
  EXPECT_EQ(loop_of(messages).repeats, 0U);
}

TEST(Loop, IsStoppedInItsThirdRound) {
  using message::OnLoop;
  struct Row {
    std::string_view steps;
    std::optional<OnLoop> asked;
    OnLoop setting;
    bool stops;
  };
  constexpr Row kRows[] = {
      {"aaa", std::nullopt, OnLoop::tell, false}, {"aaa", std::nullopt, OnLoop::stop, true},
      {"aaa", OnLoop::stop, OnLoop::tell, true},  {"aaa", OnLoop::tell, OnLoop::stop, false},
      {"aa", OnLoop::stop, OnLoop::stop, false},  {"ababab", OnLoop::stop, OnLoop::stop, true},
  };
  for (const Row& row : kRows) {
    message::ChatRequest request{.messages = conversation(row.steps)};
    request.tool_choice.mode = message::ToolMode::required;
    request.on_loop = row.asked;
    const auto quiet = stopped(request, loop_of(request.messages), row.setting);
    EXPECT_EQ(quiet.has_value(), row.stops) << row.steps;
    if (!quiet) continue;
    EXPECT_EQ(quiet->tool_choice.mode, message::ToolMode::none);
  }
}

}  // namespace
}  // namespace tenon::chat
