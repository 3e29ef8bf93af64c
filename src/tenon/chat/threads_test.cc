// Bugs of other projects in how an answer ends. Each row is named after the thread that reported it
// (`vllm#53269`: its number in that project). docs/threads.md lists the rows.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/turn.h"
#include "tenon/format/registry.h"

namespace tenon::chat {
namespace {

using message::FinishReason;

class ThreadsRecorder final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>&) override {
    fold.add(event);
  }
  message::Fold fold;
};

struct ThreadsRow {
  const char* thread;
  const char* what;  ///< What was reported.
  std::string_view text;
  FinishReason end = FinishReason::stop;  ///< Why the engine stopped.
  std::vector<std::string> stop = {};
  bool parallel = true;

  FinishReason wanted = FinishReason::stop;
  std::vector<std::string> calls = {};  ///< Arguments.
  std::string_view content = "";
  std::string_view reasoning = "";
};

constexpr std::string_view kThreadsCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

const ThreadsRow kThreadsRows[] = {
    {.thread = "vllm#53269",
     .what = "a streamed call that the token limit cut ends with tool_calls",
     .text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ",
     .end = FinishReason::length,
     .wanted = FinishReason::length,
     .calls = {R"({"a": )"}},
    {.thread = "vllm#58228",
     .what = "a whole call, and the token limit after it: tool_calls hides the cut",
     .text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
             "1}}\n</tool_call>\n<tool_call>\n{\"na",
     .end = FinishReason::length,
     .wanted = FinishReason::length,
     .calls = {R"({"a": 1})"},
     .content = "\n<tool_call>\n{\"na"},
    {.thread = "vllm#53256",
     .what = "tool_calls without a call",
     .text = "Hello, how are you?",
     .content = "Hello, how are you?"},
    {.thread = "vllm#25054",
     .what = "a call that ends with stop",
     .text = kThreadsCall,
     .wanted = FinishReason::tool_calls,
     .calls = {R"({"a": 1})"}},
    {.thread = "mlx-vlm#1014",
     .what = "words and a call end with stop",
     .text = "Look. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     .wanted = FinishReason::tool_calls,
     .calls = {R"({"a": 1})"},
     .content = "Look. "},
    {.thread = "exo#2184",
     .what = "a call without an end becomes an error of the server",
     .text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1",
     .wanted = FinishReason::tool_calls,
     .calls = {R"({"a": 1})"}},
    {.thread = "vllm#14170",
     .what = "a stop string inside the reasoning cuts it, and its end is content",
     .text = "<think>9.11 and 9.8, so</think>9.8 is more",
     .stop = {"9.8"},
     .reasoning = "9.11 and 9.8, so"},
    {.thread = "Qwen3#1092",
     .what = "parallel_tool_calls: false has no effect",
     .text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
             "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n</tool_call>",
     .parallel = false,
     .wanted = FinishReason::tool_calls,
     .calls = {R"({"a": 1})"}},
};

TEST(Threads, AnswersEndForTheRightReason) {
  for (const ThreadsRow& row : kThreadsRows) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    for (std::size_t size = 1; size <= row.text.size(); ++size) {
      SCOPED_TRACE(size);
      auto recorder = std::make_shared<ThreadsRecorder>();
      TurnOptions options{
          .format = format::find("hermes"), .stop = row.stop, .parallel_tool_calls = row.parallel};
      options.parse.tools = {"f"};
      Turn turn(std::move(options), recorder);
      for (std::size_t at = 0; at < row.text.size(); at += size) {
        turn.on_token({.bytes = row.text.substr(at, size)});
      }
      turn.on_end({.reason = row.end, .usage = {}, .error = {}});
      const message::Message& message = recorder->fold.message();
      std::vector<std::string> calls;
      for (const auto& call : message.tool_calls) calls.push_back(call.arguments);
      EXPECT_EQ(recorder->fold.finish().reason, row.wanted);
      EXPECT_EQ(calls, row.calls);
      EXPECT_EQ(message.text(), row.content);
      EXPECT_EQ(message.reasoning, row.reasoning);
    }
  }
}

}  // namespace
}  // namespace tenon::chat
