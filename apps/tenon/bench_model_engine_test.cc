#include "bench_model_engine.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conversation.h"
#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/engine/scripted.h"

namespace tenon::app::bench {
namespace {

using engine::ConstrainedBy;
using engine::Script;
using engine::ScriptedEngine;

std::shared_ptr<ScriptedEngine> scripted(ConstrainedBy constrained_by, Script script) {
  return std::make_shared<ScriptedEngine>(
      ScriptedEngine::Options{
          .chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | tojson }}",
          .constrained_by = constrained_by},
      std::vector<Script>{std::move(script)});
}

// How it ended.
engine::RunEnd play(WatchedEngine& engine, engine::GenerateRequest request) {
  auto sink = std::make_shared<engine::RecordingSink>();
  auto run = engine.start(std::move(request), sink);
  EXPECT_TRUE(run) << run.error().message;
  EXPECT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->calls_after_end(), 0U);
  return sink->end().value_or(engine::RunEnd{});
}

TEST(WatchedEngine, HoldsOnlyWhereItIsTo) {
  struct Row {
    ConstrainedBy inner;
    bool holds;
    ConstrainedBy told;
    bool is_printed;
  };
  const Row rows[] = {
      {ConstrainedBy::masks, true, ConstrainedBy::masks, false},
      {ConstrainedBy::masks, false, ConstrainedBy::none, false},
      {ConstrainedBy::gbnf, true, ConstrainedBy::gbnf, true},
      {ConstrainedBy::gbnf, false, ConstrainedBy::gbnf, false},
      {ConstrainedBy::ebnf, false, ConstrainedBy::ebnf, false},
      {ConstrainedBy::none, false, ConstrainedBy::none, false},
      {ConstrainedBy::none, true, ConstrainedBy::none, false},
  };
  for (const Row& row : rows) {
    const auto inner = scripted(row.inner, {.text = "ab"});
    WatchedEngine engine(inner, row.holds);
    EXPECT_EQ(engine.capabilities().constrained_by, row.told);
    engine::GenerateRequest request{.prompt = {'a'}};
    if (row.inner == ConstrainedBy::gbnf || row.inner == ConstrainedBy::ebnf) {
      request.printed = std::make_shared<const std::string>("root ::= \"a\"");
    }
    play(engine, std::move(request));
    EXPECT_EQ(inner->requests().front().printed != nullptr, row.is_printed);
  }
}

TEST(WatchedEngine, AModelOnItIsHeldOrNot) {
  json::Object body{{"model", "m"},
                    {"messages", json::Array{json::Object{{"role", "user"}, {"content", "x"}}}}};
  const auto tools = json::parse(
      R"([{"type": "function", "function": {"name": "water", "parameters": {"type": "object",
          "required": ["litres"], "properties": {"litres": {"type": "integer"}}}}}])");
  body.set("tools", *tools);
  auto request = decode_request(body);
  ASSERT_TRUE(request) << request.error().message;
  request->max_tokens = 200;
  const auto inner = scripted(
      ConstrainedBy::masks,
      {.text =
           "<tool_call>\n{\"name\": \"water\", \"arguments\": {\"litres\": \"2\"}}\n</tool_call>"});
  for (const bool holds : {true, false}) {
    const auto model = chat::Model::create({.name = "m", .format = "hermes", .normalize = false},
                                           std::make_shared<WatchedEngine>(inner, holds));
    ASSERT_TRUE(model) << model.error().message;
    const auto fold = answer(**model, *request);
    ASSERT_TRUE(fold) << fold.error().message;
    ASSERT_EQ(fold->message().tool_calls.size(), 1U);
    const std::string& arguments = fold->message().tool_calls.front().arguments;
    EXPECT_EQ(arguments.find("\"2\"") == std::string::npos, holds) << arguments;
    EXPECT_EQ(inner->requests().back().grammar != nullptr, holds);
  }
}

TEST(WatchedEngine, CountsWhatEndedByItself) {
  const auto inner =
      scripted(ConstrainedBy::none, {.text = "abc", .delay = std::chrono::milliseconds(1)});
  WatchedEngine engine(inner, true);
  play(engine, {.prompt = {'a', 'b', 'c', 'd', 'e'}});
  const Speed one = engine.speed();
  EXPECT_EQ(one.prompt_tokens, 5U);
  EXPECT_GE(one.prompt_time, std::chrono::milliseconds(1));
  EXPECT_EQ(one.generated_tokens, 3U) << "behind the first: b, c and the end of the turn";
  EXPECT_GE(one.generated_time, std::chrono::milliseconds(3));
  play(engine, {.prompt = {'a'}, .max_tokens = 1});
  EXPECT_EQ(engine.speed().prompt_tokens, 6U);
  EXPECT_EQ(engine.speed().generated_tokens, 3U) << "no token comes after the first";

  const auto broken =
      scripted(ConstrainedBy::none, {.text = "abc", .end = message::FinishReason::error});
  WatchedEngine other(broken, true);
  EXPECT_EQ(play(other, {.prompt = {'a'}}).reason, message::FinishReason::error);
  EXPECT_EQ(other.speed().prompt_tokens, 0U);
}

}  // namespace
}  // namespace tenon::app::bench
