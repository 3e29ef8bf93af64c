#include "trace_view.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

using message::ChatEvent;
using message::FinishReason;

message::ChatRequest with_tool() {
  message::ChatRequest request;
  request.max_tokens = 16;
  request.tools.push_back(
      {.name = "add",
       .parameters = *json::parse(
           R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})")});
  return request;
}

std::vector<ChatEvent> traced_call(const std::string& name, const std::string& arguments,
                                   bool is_cut = false,
                                   FinishReason reason = FinishReason::tool_calls) {
  return {message::CallBegin{0, "c", name}, message::CallArguments{0, arguments},
          message::CallEnd{0, is_cut}, message::Finish{.reason = reason}};
}

struct TraceRow {
  const char* name;
  std::vector<ChatEvent> events;
  std::vector<std::string> faults;
};

TEST(AnswerTrace, SaysWhyACallFailed) {
  const TraceRow kTraceRows[] = {
      {"AValidCallHasNone", traced_call("add", R"({"a": 1})"), {}},
      {"AWrongArgument",
       traced_call("add", R"({"a": "x"})"),
       {"call 0, \"add\": /a: expected integer, got string"}},
      {"AnotherTool", traced_call("sub", "{}"), {"call 0, \"sub\": the request has no such tool"}},
      {"TheLimitOfTokens",
       traced_call("add", R"({"a": 1)", true, FinishReason::length),
       {"call 0, \"add\", is cut: the answer has reached its limit of 16 tokens"}},
      {"TheModelEnded",
       traced_call("add", R"({"a")", true),
       {"call 0, \"add\", is cut: the model ended its answer within it"}},
      {"OnlyWords",
       {message::ContentDelta{"no"}, message::Finish{}},
       {"no call: the model chose to answer in words"}},
      {"ADiagnostic",
       {message::Diagnostic{"unknown_tool", "there is no tool \x1b[31mx"},
        message::Finish{.reason = FinishReason::error, .error = {Errc::unavailable, "it is gone"}}},
       {"unknown_tool: there is no tool \x1b[31mx", "the engine failed: it is gone"}},
  };
  for (const TraceRow& row : kTraceRows) {
    AnswerTrace trace(with_tool());
    for (const ChatEvent& event : row.events) trace.event(event, {});
    const auto faults = trace.faults();
    ASSERT_EQ(faults.size(), row.faults.size()) << row.name;
    for (std::size_t i = 0; i < faults.size(); ++i) {
      EXPECT_EQ(faults[i].substr(0, faults[i].find(':')),
                row.faults[i].substr(0, row.faults[i].find(':')))
          << row.name;
      if (row.name != std::string("AWrongArgument")) {
        EXPECT_EQ(faults[i], row.faults[i]);
      }
    }
  }
}

TEST(AnswerTrace, ShowsPromptTokensAndEventsWithoutWhatATerminalObeys) {
  AnswerTrace trace(with_tool());
  message::RunBegin run{.text = "<s>hello\x1b[2J", .tokens = {1, 2}};
  run.spans = {{0, 3, false}, {3, run.text.size(), true}};
  run.changes = {"the system message was moved"};
  trace.run(run);
  trace.made({.id = 5, .bytes = "{\"a", .legal = 3}, std::chrono::milliseconds(12));
  trace.made({.id = 6, .is_control = true}, std::chrono::milliseconds(13));
  trace.event(message::ContentDelta{"x\n\x1b[31m"}, std::chrono::milliseconds(14));
  trace.event(message::Finish{.usage = {.prompt_tokens = 2, .completion_tokens = 1}}, {});
  for (const bool colours : {false, true}) {
    const std::string text = trace.text(colours);
    EXPECT_EQ(text.find("\x1b[2J"), text.npos);
    EXPECT_EQ(text.find("\x1b[31m"), text.npos);
    EXPECT_NE(text.find("prompt, 2 tokens"), text.npos) << text;
    EXPECT_NE(text.find("shaped: the system message was moved"), text.npos) << text;
    EXPECT_NE(text.find("     12.0 ms  \"{\\\"a\"  3 legal\n"), text.npos) << text;
    EXPECT_NE(text.find("(end of turn)  control\n"), text.npos) << text;
    EXPECT_NE(text.find("prompt 2 tokens (0 cached), answer 1 token\n"), text.npos) << text;
  }
  EXPECT_NE(trace.text(false).find("template \"<s>\"\ndata     \"hello"), std::string::npos)
      << trace.text(false);
}

TEST(AnswerTrace, ALongAnswerIsBounded) {
  AnswerTrace trace(with_tool());
  for (std::size_t i = 0; i < AnswerTrace::kMaxRows + 7; ++i) trace.made({.bytes = "a"}, {});
  EXPECT_NE(trace.text(false).find("... and 7 further lines\n"), std::string::npos);
}

}  // namespace
}  // namespace tenon::app
