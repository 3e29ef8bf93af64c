#include "tenon/engine/scripted.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/grammar/front/read_rules.h"

namespace tenon::engine {
namespace {

using message::FinishReason;
using namespace std::chrono_literals;

constexpr TokenId kEos = 257;  // "<|im_end|>", second of the default controls

GenerateRequest prompt_of(std::string_view text) {
  GenerateRequest request;
  for (const char byte : text) request.prompt.push_back(static_cast<unsigned char>(byte));
  return request;
}

struct Played {
  std::vector<TokenId> ids;
  std::string text;
  RunEnd end;
};

Played play(ScriptedEngine& engine, GenerateRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  auto run = engine.start(std::move(request), sink);
  EXPECT_TRUE(run) << run.error().message;
  EXPECT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->calls_after_end(), 0U);
  return {sink->ids(), sink->text(), sink->end().value_or(RunEnd{})};
}

TEST(ScriptedEngine, PlaysTextAndEndsItsTurn) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "é<tool_call>"}});
  const Played played = play(engine, prompt_of("abc"));
  EXPECT_EQ(played.ids, (std::vector<TokenId>{0xc3, 0xa9, 258, kEos}));
  EXPECT_EQ(played.text, "é<tool_call>");
  EXPECT_EQ(played.end.reason, FinishReason::stop);
  EXPECT_EQ(played.end.usage.prompt_tokens, 3U);
  EXPECT_EQ(played.end.usage.completion_tokens, 4U);
}

TEST(ScriptedEngine, StopsAtAnEndInTheText) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "a<|im_end|>b"}});
  EXPECT_EQ(play(engine, prompt_of("x")).ids, (std::vector<TokenId>{'a', kEos}));
}

TEST(ScriptedEngine, PlaysScriptsInTurnAndKeepsTheRequests) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "one"}, {.text = "two"}});
  EXPECT_EQ(play(engine, prompt_of("1")).text, "one");
  EXPECT_EQ(play(engine, prompt_of("2")).text, "two");
  EXPECT_EQ(play(engine, prompt_of("3")).text, "one");
  ASSERT_EQ(engine.requests().size(), 3U);
  EXPECT_EQ(engine.text_of(engine.requests()[1].prompt), "2");
}

TEST(ScriptedEngine, EndsAtMaxTokens) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "abc"}});
  GenerateRequest request = prompt_of("x");
  request.max_tokens = 2;
  const Played played = play(engine, request);
  EXPECT_EQ(played.text, "ab");
  EXPECT_EQ(played.end.reason, FinishReason::length);
}

TEST(ScriptedEngine, EndsAtAFullContext) {
  ScriptedEngine engine({.context_tokens = 5}, std::vector<Script>{{.text = "abc"}});
  const Played played = play(engine, prompt_of("xyz"));
  EXPECT_EQ(played.text, "ab");
  EXPECT_EQ(played.end.reason, FinishReason::length);
}

struct Constrained {
  std::string_view pattern;  // for the whole answer
  std::string_view script;
  std::string_view text;
  FinishReason reason = FinishReason::stop;
};

const Constrained kConstrained[] = {
    {"abc", "abc", "abc"},
    {"abc", "Well, a big cat", "abc"},
    {"abc", "abcdef", "abc"},
    {"abc", "ab<|im_end|>c", "ab", FinishReason::length},
    {"ab+", "<tool_call>abb", "abb"},
};

TEST(ScriptedEngine, LeavesOutWhatTheGrammarForbids) {
  for (const Constrained& row : kConstrained) {
    SCOPED_TRACE(row.script);
    ScriptedEngine engine({.constrained_by = ConstrainedBy::masks},
                          std::vector<Script>{{.text = std::string(row.script)}});
    const auto rules = grammar::read_rules(row.pattern, grammar::Syntax::regex);
    ASSERT_TRUE(rules);
    const auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(engine.tokenizer()));
    GenerateRequest request = prompt_of("x");
    request.grammar = *grammar::Grammar::make(
        [&](grammar::Machine& machine) { return add_rules(machine, *rules, index->vocab()); },
        index);
    const Played played = play(engine, request);
    EXPECT_EQ(played.text, row.text);
    EXPECT_EQ(played.end.reason, row.reason);
    EXPECT_TRUE(played.end.is_constrained);
    EXPECT_EQ(engine.requests().back().grammar, request.grammar);
    EXPECT_FALSE(play(engine, prompt_of("x")).end.is_constrained);
  }
}

TEST(ScriptedEngine, FailsAsWritten) {
  const Error error{Errc::unavailable, "no memory"};
  ScriptedEngine engine(
      {}, std::vector<Script>{{.text = "ab", .end = FinishReason::error, .error = error}});
  const Played played = play(engine, prompt_of("x"));
  EXPECT_EQ(played.text, "ab");
  EXPECT_EQ(played.end.reason, FinishReason::error);
  EXPECT_EQ(played.end.error, error);
}

TEST(ScriptedEngine, GivesLogprobs) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "a"}});
  GenerateRequest request = prompt_of("x");
  request.logprobs = true;
  request.top_logprobs = 1;
  auto sink = std::make_shared<RecordingSink>();
  auto run = engine.start(request, sink);
  ASSERT_TRUE(run);
  ASSERT_TRUE(sink->wait_end());
  ASSERT_EQ(sink->logprobs().size(), 2U);
  EXPECT_EQ(sink->logprobs()[0], (message::TokenLogprob{"a", 0.0, {{"a", 0.0}}}));
}

// A script that is longer than every test here, unless something ends it.
const Script kEndless{.text = std::string(100'000, 'x'), .delay = 1ms};

TEST(ScriptedEngine, CancelsAndLetsOthersPlay) {
  ScriptedEngine engine({}, [](const GenerateRequest& request) -> Expected<Script> {
    return request.prompt[0] == 'e' ? kEndless : Script{.text = "short"};
  });
  auto endless = std::make_shared<RecordingSink>();
  auto run = engine.start(prompt_of("endless"), endless);
  ASSERT_TRUE(run);
  ASSERT_TRUE(endless->wait_tokens(1));
  EXPECT_EQ(play(engine, prompt_of("short")).text, "short");
  (*run)->cancel();
  ASSERT_TRUE(endless->wait_end(1s));
  EXPECT_EQ(endless->end()->reason, FinishReason::cancelled);
}

TEST(ScriptedEngine, CancelsARunWhoseHandleIsDropped) {
  ScriptedEngine engine({}, std::vector<Script>{kEndless});
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine.start(prompt_of("x"), sink));  // the handle is destroyed here
  ASSERT_TRUE(sink->wait_end(1s));
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
}

TEST(ScriptedEngine, KeepsTheTimeLimit) {
  ScriptedEngine engine({}, std::vector<Script>{kEndless});
  GenerateRequest request = prompt_of("x");
  request.time_limit = 20ms;
  EXPECT_EQ(play(engine, request).end.reason, FinishReason::cancelled);
}

TEST(ScriptedEngine, StandsStillWhilePaused) {
  ScriptedEngine engine({}, std::vector<Script>{{.text = "0123456789", .delay = 1ms}});
  auto sink = std::make_shared<RecordingSink>();
  auto run = engine.start(prompt_of("x"), sink);
  ASSERT_TRUE(run);
  ASSERT_TRUE(sink->wait_tokens(2));
  (*run)->pause();
  EXPECT_FALSE(sink->wait_tokens(10, 100ms));
  (*run)->resume();
  ASSERT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->text(), "0123456789");
}

TEST(ScriptedEngine, QueuesUpToTheLimit) {
  ScriptedEngine engine({.max_concurrent = 1, .queue_limit = 1}, std::vector<Script>{kEndless});
  auto first = std::make_shared<RecordingSink>();
  auto second = std::make_shared<RecordingSink>();
  auto first_run = engine.start(prompt_of("1"), first);
  auto second_run = engine.start(prompt_of("2"), second);
  ASSERT_TRUE(first_run);
  ASSERT_TRUE(second_run);
  const auto third = engine.start(prompt_of("3"), std::make_shared<RecordingSink>());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(),
            (Error{Errc::limit_exceeded, "the model is busy: 1 requests are waiting already"}));
  ASSERT_TRUE(first->wait_tokens(2));
  EXPECT_TRUE(second->ids().empty());
  (*first_run)->cancel();
  EXPECT_TRUE(second->wait_tokens(1));
}

TEST(ScriptedEngine, EndsWhatRunsWhenItIsDestroyed) {
  auto sink = std::make_shared<RecordingSink>();
  auto queued = std::make_shared<RecordingSink>();
  std::vector<std::unique_ptr<engine::Run>> runs;
  {
    ScriptedEngine engine({.max_concurrent = 1}, std::vector<Script>{kEndless});
    for (const auto& each : {sink, queued}) {
      auto started = engine.start(prompt_of("x"), each);
      ASSERT_TRUE(started);
      runs.push_back(*std::move(started));
    }
    ASSERT_TRUE(sink->wait_tokens(1));
  }
  ASSERT_TRUE(sink->end());
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  ASSERT_TRUE(queued->end());
  EXPECT_EQ(queued->end()->reason, FinishReason::cancelled);
  for (const auto& run : runs) run->cancel();  // a handle outlives its engine
}

TEST(ScriptedEngine, RefusesAsTheContractSays) {
  ScriptedEngine engine({.context_tokens = 4}, std::vector<Script>{{.text = "a"}});
  EXPECT_FALSE(engine.start(prompt_of(""), std::make_shared<RecordingSink>()));
  EXPECT_FALSE(engine.start(prompt_of("abcd"), std::make_shared<RecordingSink>()));
  EXPECT_TRUE(engine.requests().empty());
}

}  // namespace
}  // namespace tenon::engine
