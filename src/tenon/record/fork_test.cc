#include "tenon/record/fork.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/grammar_for_test.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/engine/scripted.h"

namespace tenon::record {
namespace {

// One run that says `text`, a token for each byte, and ends.
std::string recording_of(const engine::Engine& engine, std::string_view text) {
  std::string out = "{\"recording\":1,\"request\":{}}\n{\"made_by\":{}}\n{\"run\":0,\"ids\":[1]}\n";
  for (const char byte : text) {
    std::vector<vocab::TokenId> ids;
    EXPECT_TRUE(
        engine.tokenizer().encode(std::string_view(&byte, 1), vocab::Controls::off, false, ids));
    out += "{\"token\":" + std::to_string(ids.at(0)) + ",\"run\":0,\"text\":\"" + byte + "\"}\n";
  }
  return out + "{\"run_end\":\"stop\",\"run\":0,\"prompt_tokens\":1,\"completion_tokens\":" +
         std::to_string(text.size()) + "}\n";
}

struct ForkRow {
  std::string_view name;
  std::string_view recorded;
  std::size_t tokens;
  std::string_view goes_on;  // what the engine writes
  std::string_view answer;
  std::string_view pattern = {};
};

const ForkRow kForkRows[] = {
    {"AtTheBegin", "one two", 0, "three", "three"},
    {"InTheMiddle", "one two", 4, "three", "one three"},
    {"BeforeTheLast", "one two", 6, "!", "one tw!"},
    {"AfterTheLast", "one two", 7, "never", "one two"},
    {"TheGrammarHasReadTheBeginning", "ab1", 2, "xb12", "ab12", "ab[0-9]*"},
};

class Forks : public testing::TestWithParam<ForkRow> {};

TEST_P(Forks, GoOnFromTheRecordedTokens) {
  const ForkRow& row = GetParam();
  const auto scripted = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{.constrained_by = row.pattern.empty()
                                                            ? engine::ConstrainedBy::none
                                                            : engine::ConstrainedBy::masks},
      std::vector<engine::Script>{{.text = std::string(row.goes_on)}});
  const auto read = read_recording(recording_of(*scripted, row.recorded));
  ASSERT_TRUE(read) << read.error().message;
  const auto forked = forked_engine(*read, row.tokens, scripted);
  ASSERT_TRUE(forked) << forked.error().message;
  engine::GenerateRequest request{.prompt = {7}, .text = "p", .max_tokens = 40};
  if (!row.pattern.empty())
    request.grammar = engine::grammar_of_pattern(row.pattern, scripted->tokenizer());
  const auto sink = std::make_shared<engine::RecordingSink>();
  const auto run = (*forked)->start(std::move(request), sink);
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_TRUE(sink->wait_end());
  const engine::RunEnd end = *sink->end();
  EXPECT_EQ(sink->text(), row.answer);
  EXPECT_EQ(end.reason, message::FinishReason::stop);
  EXPECT_EQ(end.usage.prompt_tokens, 1U);
  for (const engine::GenerateRequest& asked : scripted->requests()) {
    EXPECT_EQ(asked.begun, row.tokens);
    EXPECT_EQ(asked.prompt.size(), 1 + row.tokens);
    EXPECT_EQ(asked.max_tokens, 40 - row.tokens);
    EXPECT_EQ(asked.text, "p" + std::string(row.recorded.substr(0, row.tokens)));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Forks, testing::ValuesIn(kForkRows),
                         [](const auto& test) { return std::string(test.param.name); });

struct RefusedRow {
  std::string_view name;
  std::size_t tokens;
  std::string_view pattern;
  std::uint32_t max_tokens;
  std::string_view message;
};

const RefusedRow kRefusedRows[] = {
    {"TooMany", 8, "", 0, "the recording has only 7 tokens"},
    {"NotOfTheGrammar", 3, "on [a-z]*", 0,
     "token 3 of the recorded ones, \"e\", cannot come there under this request: fork before it"},
    {"NoRoom", 3, "", 3,
     "the answer may have only 3 tokens: fork at an earlier one, or raise max_tokens"},
};

class RefusedForks : public testing::TestWithParam<RefusedRow> {};

TEST_P(RefusedForks, SayWhy) {
  const RefusedRow& row = GetParam();
  const auto scripted = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{.constrained_by = engine::ConstrainedBy::masks},
      std::vector<engine::Script>{{.text = "x"}});
  const auto read = read_recording(recording_of(*scripted, "one two"));
  ASSERT_TRUE(read) << read.error().message;
  const auto forked = forked_engine(*read, row.tokens, scripted);
  if (!forked) {
    EXPECT_EQ(forked.error().message, row.message);
    return;
  }
  engine::GenerateRequest request{.prompt = {7}, .max_tokens = row.max_tokens};
  if (!row.pattern.empty())
    request.grammar = engine::grammar_of_pattern(row.pattern, scripted->tokenizer());
  const auto run = (*forked)->start(std::move(request), std::make_shared<engine::RecordingSink>());
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, row.message);
}

INSTANTIATE_TEST_SUITE_P(Rows, RefusedForks, testing::ValuesIn(kRefusedRows),
                         [](const auto& test) { return std::string(test.param.name); });

// Which choice an engine's second run is of is not known, once one has several.
TEST(Fork, KeepsTheFirstRunAloneOfChoicesWithRounds) {
  const auto scripted = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{}, std::vector<engine::Script>{{.text = "x"}});
  const std::string first = recording_of(*scripted, "one");
  const auto with_runs = [&](const std::vector<std::string_view>& choices) {
    std::string text = first;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::string run = std::to_string(i + 1);
      std::string more = recording_of(*scripted, "two");
      more.erase(0, more.find("{\"run\":0"));
      for (std::size_t at = 0; (at = more.find("\"run\":0", at)) != std::string::npos;) {
        more.replace(at, 7, "\"run\":" + run);
      }
      more.insert(more.find(",\"ids\""), ",\"choice\":" + std::string(choices[i]));
      text += more;
    }
    return *read_recording(text);
  };
  EXPECT_TRUE(forked_engine(with_runs({"1"}), 6, scripted));       // several choices
  EXPECT_TRUE(forked_engine(with_runs({"0", "0"}), 9, scripted));  // several rounds
  EXPECT_TRUE(forked_engine(with_runs({"1", "0"}), 3, scripted));
  const auto refused = forked_engine(with_runs({"1", "0"}), 4, scripted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the recording has several choices with several runs, so only tokens of the first run "
            "can be kept, which has 3");
}

TEST(Fork, RefusesAnotherVocabulary) {
  const auto scripted = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{}, std::vector<engine::Script>{{.text = "x"}});
  const auto read = read_recording(
      "{\"recording\":1,\"request\":{}}\n{\"made_by\":{}}\n{\"run\":0}\n"
      "{\"token\":3,\"run\":0,\"text\":\"hello\"}\n{\"token\":999999,\"run\":0,\"text\":\"x\"}\n");
  ASSERT_TRUE(read) << read.error().message;
  const auto forked = forked_engine(*read, 1, scripted);
  ASSERT_FALSE(forked);
  EXPECT_EQ(forked.error().message,
            "token 1 of the recording is \"hello\", which is not token 3 of this model: give the "
            "model that was recorded");
  EXPECT_TRUE(forked_engine(*read, 0, scripted));
}

}  // namespace
}  // namespace tenon::record
