#include "tenon/record/recorded_tools.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/scripted.h"

namespace tenon::record {
namespace {

/// Waits for the end of an answer, and keeps the results of the server's calls.
class Results final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    const std::lock_guard lock(mutex_);
    if (const auto* result = std::get_if<message::ServerCallResult>(&event)) {
      results_.push_back(result->output);
    }
    is_over_ = std::holds_alternative<message::Finish>(event);
    if (is_over_) ended_.notify_one();
  }
  std::vector<std::string> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return is_over_; });
    return results_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::string> results_;
  bool is_over_ = false;
};

// A recording whose server had the tool "look" of its own, and "near_look" of the server "near".
Read recording_for_test() {
  Read read;
  read.own_tools = *json::parse(R"({"tools": [
      {"name": "look", "server": "", "server_name": "look", "parameters": {"type": "object"}},
      {"name": "near_look", "server": "near", "server_name": "look", "parameters": {"type": "object"}}],
      "are_shown": true, "max_rounds": 10, "max_calls": 10})");
  read.tool_runs = {
      {.name = "near_look", .arguments = R"({"b": 2, "a": 1})", .output = "near"},
      {.name = "look", .arguments = R"({"a":1})", .output = "here"},
      {.name = "look", .arguments = R"({"a":1})", .output = "Error: once", .is_error = true}};
  return read;
}

std::string call_of(std::string_view tool, std::string_view arguments) {
  return "<tool_call>\n{\"name\": \"" + std::string(tool) +
         "\", \"arguments\": " + std::string(arguments) + "}\n</tool_call>";
}

TEST(RecordedTools, GiveTheResultOfTheSameCallOnce) {
  const Read read = recording_for_test();
  auto engine = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{},
      std::vector<engine::Script>{{.text = call_of("look", R"({"a": 1})")},
                                  {.text = call_of("look", R"({"a": 1})")},
                                  {.text = call_of("look", R"({"a": 1})")},
                                  {.text = call_of("look", R"({"a": 2})")},
                                  {.text = call_of("near_look", R"({"a": 1, "b": 2})")},
                                  {.text = "Done."}});
  auto inner = chat::Model::create({.name = "tiny", .format = "hermes"}, engine);
  ASSERT_TRUE(inner) << inner.error().message;
  const auto model = with_recorded_tools(read, 0, *std::move(inner));
  ASSERT_TRUE(model) << model.error().message;
  const auto sink = std::make_shared<Results>();
  const auto answer =
      (*model)->start({.messages = {{.role = message::Role::user, .content = "Look!"}}}, sink);
  ASSERT_TRUE(answer) << answer.error().error.message;
  const std::string none = "Error: the recording has no result of this call";
  EXPECT_EQ(sink->wait(), (std::vector<std::string>{"here", "Error: once", none, none, "near"}));
}

TEST(RecordedTools, ThoseOfServersThatTheRequestNamesAreRefused) {
  Read read = recording_for_test();
  read.own_tools = *json::parse(
      R"({"tools": [{"name": "a", "server": "far", "server_name": "a", "is_hosted": true}]})");
  const auto model = with_recorded_tools(read, 0, nullptr);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Errc::unsupported);
}

TEST(RecordedTools, AreBounded) {
  for (const bool has_servers : {false, true}) {
    json::Array tools;
    for (int i = 0; i < (has_servers ? 101 : 1001); ++i) {
      const std::string name = "t" + std::to_string(i);
      tools.emplace_back(
          json::Object{{"name", name}, {"server", has_servers ? name : ""}, {"server_name", name}});
    }
    Read read;
    json::Object line;
    line.set("tools", std::move(tools));
    read.own_tools = std::move(line);
    const auto model = with_recorded_tools(read, 0, nullptr);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().message, has_servers
                                         ? "the recording has more than 100 servers of tools"
                                         : "the recording has more than 1000 tools of the server");
  }
}

TEST(RecordedTools, WithoutToolsTheModelIsTheSame) {
  const auto model = with_recorded_tools(Read{}, 0, nullptr);
  ASSERT_TRUE(model);
  EXPECT_EQ(*model, nullptr);
}

}  // namespace
}  // namespace tenon::record
