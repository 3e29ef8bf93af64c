#include "tenon/chat/turn.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

using message::FinishReason;

/// Folds what comes, and keeps the kinds of events in order: c content, r reasoning, ( call begin,
/// a arguments, ) call end, . finish.
class Recorder final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    constexpr std::string_view kLetters = "cr(a)d.";
    letters += kLetters[event.index()];
    if (letters.size() > 1 && letters.back() == letters[letters.size() - 2]) letters.pop_back();
    for (const message::TokenLogprob& logprob : logprobs) logprob_bytes += logprob.bytes;
    fold.add(event);
  }

  message::Fold fold;
  std::string letters;
  std::string logprob_bytes;
};

/// A run that remembers what was asked of it.
struct Asked {
  bool cancelled = false;
  bool paused = false;
  bool destroyed = false;
};

class FakeRun final : public engine::Run {
 public:
  explicit FakeRun(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  ~FakeRun() override { asked_->destroyed = true; }
  void cancel() override { asked_->cancelled = true; }
  void pause() override { asked_->paused = true; }
  void resume() override { asked_->paused = false; }

 private:
  std::shared_ptr<Asked> asked_;
};

struct Case {
  std::string_view name;
  std::string_view text;  // control tokens by their texts
  std::vector<std::string> stop;
  bool parallel = true;
  FinishReason end = FinishReason::stop;

  std::string_view content;
  std::vector<std::string> calls;  // names
  FinishReason reason = FinishReason::stop;
  bool is_cancelled = false;  // the engine was told that it need not go on
};

constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"END\"}}\n</tool_call>";
constexpr std::string_view kTwoCalls =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
constexpr std::string_view kCutCall = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"EN";

const Case kCases[] = {
    {.name = "PlainText", .text = "Hello", .content = "Hello"},
    {.name = "Nothing", .text = "", .content = ""},
    {.name = "CutText",
     .text = "Hello",
     .end = FinishReason::length,
     .content = "Hello",
     .reason = FinishReason::length},
    {.name = "FailedText",
     .text = "Hello",
     .end = FinishReason::error,
     .content = "Hello",
     .reason = FinishReason::error},
    {.name = "StopString",
     .text = "Hello END more",
     .stop = {"END"},
     .content = "Hello ",
     .is_cancelled = true},
    {.name = "StopStringThatNeverComes",
     .text = "Hello EN",
     .stop = {"END"},
     .content = "Hello EN"},
    {.name = "StopStringBeatsLength",
     .text = "Hello END",
     .stop = {"END"},
     .end = FinishReason::length,
     .content = "Hello ",
     .is_cancelled = true},
    {.name = "Call", .text = kCall, .calls = {"f"}, .reason = FinishReason::tool_calls},
    {.name = "StopStringInArgumentsIsNone",
     .text = kCall,
     .stop = {"END"},
     .calls = {"f"},
     .reason = FinishReason::tool_calls},
    {.name = "TwoCalls",
     .text = kTwoCalls,
     .calls = {"f", "g"},
     .reason = FinishReason::tool_calls},
    {.name = "NotParallelIsTheFirstCall",
     .text = kTwoCalls,
     .parallel = false,
     .calls = {"f"},
     .reason = FinishReason::tool_calls,
     .is_cancelled = true},
    {.name = "LengthBeatsToolCalls",
     .text = kCutCall,
     .end = FinishReason::length,
     .calls = {"f"},
     .reason = FinishReason::length},
    {.name = "LengthBeatsToolCallsWhereOneIsTaken",
     .text = kCutCall,
     .parallel = false,
     .end = FinishReason::length,
     .calls = {"f"},
     .reason = FinishReason::length},
};

/// Everything that is known of an answer, to be compared.
struct Told {
  std::string content;
  std::vector<std::string> calls;
  FinishReason reason{};
  std::string stop_sequence;
  bool operator==(const Told&) const = default;
};

class tool_calling_Turn : public ::testing::TestWithParam<Case> {};

Told play(const Case& test, std::size_t piece_bytes, Asked& asked) {
  auto recorder = std::make_shared<Recorder>();
  TurnOptions options{
      .format = format::find("hermes"), .stop = test.stop, .parallel_tool_calls = test.parallel};
  options.parse.tools = {"f", "g"};
  auto turn = std::make_shared<Turn>(std::move(options), recorder);
  auto shared = std::make_shared<Asked>();
  turn->attach(std::make_unique<FakeRun>(shared));

  constexpr std::string_view kMarkers[] = {"<tool_call>", "</tool_call>"};
  for (std::size_t at = 0; at < test.text.size();) {
    std::size_t size = std::min(piece_bytes, test.text.size() - at);
    bool is_control = false;
    for (const std::string_view marker : kMarkers) {
      if (test.text.compare(at, marker.size(), marker) == 0) {
        size = marker.size();
        is_control = true;
      } else if (const auto next = test.text.find(marker, at); next != std::string_view::npos) {
        size = next > at ? std::min(size, next - at) : size;
      }
    }
    turn->on_token({.bytes = test.text.substr(at, size), .is_control = is_control});
    at += size;
  }
  turn->on_end({.reason = test.end, .usage = {.prompt_tokens = 3}, .error = {}});
  turn->detach();
  EXPECT_TRUE(shared->destroyed);
  EXPECT_EQ(recorder->letters.find('.'), recorder->letters.size() - 1);
  EXPECT_EQ(recorder->fold.finish().usage.prompt_tokens, 3u);
  asked = *shared;
  Told told{.content = recorder->fold.message().text(),
            .reason = recorder->fold.finish().reason,
            .stop_sequence = recorder->fold.finish().stop_sequence};
  for (const auto& call : recorder->fold.message().tool_calls) told.calls.push_back(call.name);
  return told;
}

TEST_P(tool_calling_Turn, IsTheSameHoweverTheEngineCutsIt) {
  const Case& test = GetParam();
  const Told expected{.content = std::string(test.content),
                      .calls = test.calls,
                      .reason = test.reason,
                      .stop_sequence = test.is_cancelled && test.parallel ? test.stop.at(0) : ""};
  for (std::size_t size = 1; size <= test.text.size() + 1; ++size) {
    SCOPED_TRACE(size);
    Asked asked;
    EXPECT_EQ(play(test, size, asked), expected);
    EXPECT_EQ(asked.cancelled, test.is_cancelled);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, tool_calling_Turn, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The engine has gone on until it heard that the first call is all that is wanted.
TEST(Turn, CountsTheTokensOfTheAnswerOnly) {
  auto recorder = std::make_shared<Recorder>();
  TurnOptions options{.format = format::find("hermes"), .parallel_tool_calls = false};
  options.parse.tools = {"f"};
  Turn turn(std::move(options), recorder);
  turn.on_token({.bytes = "<tool_call>", .is_control = true});
  turn.on_token({.bytes = "{\"name\": \"f\", \"arguments\": {}}"});
  turn.on_token({.bytes = "</tool_call>", .is_control = true});
  turn.on_token({.bytes = "more"});
  turn.on_end({.reason = FinishReason::cancelled, .usage = {.completion_tokens = 4}, .error = {}});
  EXPECT_LE(recorder->fold.finish().usage.completion_tokens, 3u);
}

TEST(Turn, PassesTheOpeningOnAsIfItHadBeenGenerated) {
  auto recorder = std::make_shared<Recorder>();
  TurnOptions options{.format = format::find("hermes"),
                      .opening = {{"<tool_call>", true}, {"\n{\"name\": \"", false}}};
  options.parse.tools = {"f"};
  Turn turn(std::move(options), recorder);
  EXPECT_EQ(recorder->letters, "");
  turn.on_token({.bytes = "f\", \"arguments\": {}}\n"});
  turn.on_token({.bytes = "</tool_call>", .is_control = true});
  turn.on_end({});
  ASSERT_EQ(recorder->fold.message().tool_calls.size(), 1u);
  EXPECT_EQ(recorder->fold.message().tool_calls[0].name, "f");
  EXPECT_EQ(recorder->fold.finish().reason, FinishReason::tool_calls);
}

struct Guaranteed {
  std::string_view name;
  std::string_view text;
  bool is_masked;
  std::vector<std::string> unenforced;
  message::Guarantee guarantee;
  std::string_view schema = "{}";  // of f
  std::string_view told;           // the codes of what is told, each with a space
  std::string_view arguments;      // "": as they were written
  message::Guarantee held = message::Guarantee::masked;
};

const Guaranteed kGuaranteed[] = {
    {"Masked", R"({"name": "f", "arguments": {}})", true, {"g"}, message::Guarantee::masked},
    {"Free", R"({"name": "f", "arguments": {}})", false, {}, message::Guarantee::validated},
    {.name = "Elsewhere",
     .text = R"({"name": "f", "arguments": {}})",
     .is_masked = true,
     .guarantee = message::Guarantee::upstream,
     .held = message::Guarantee::upstream},
    {.name = "ElsewhereAndWrong",
     .text = R"({"name": "f", "arguments": {}})",
     .is_masked = true,
     .guarantee = message::Guarantee::unenforced,
     .schema = R"({"required": ["a"]})",
     .told = "invalid_arguments ",
     .held = message::Guarantee::upstream},
    {"OfALooseTool",
     R"({"name": "g", "arguments": {}})",
     true,
     {"g"},
     message::Guarantee::validated},
    {"OfATextNobodyReads",
     R"({"name": "t", "arguments": {"input": "x"}})",
     true,
     {"t"},
     message::Guarantee::unenforced},
    {"OfOtherArguments",
     R"({"name": "f", "arguments": {}})",
     true,
     {},
     message::Guarantee::unenforced,
     R"({"required": ["a"]})",
     "invalid_arguments "},
    {"Mended",
     R"({"name": "f", "arguments": {"a": "1"}})",
     false,
     {},
     message::Guarantee::repaired,
     R"({"properties": {"a": {"type": "integer"}}})",
     "type_fixed ",
     R"({"a": 1})"},
    {"NotMendedWhereAMaskHeldIt",
     R"({"name": "f", "arguments": {"a": 3.0}})",
     true,
     {},
     message::Guarantee::masked,
     R"({"properties": {"a": {"type": "integer"}}})",
     "",
     R"({"a": 3.0})"},
    {"MendedWhereItHeldLess",
     R"({"name": "f", "arguments": {"a": "1"}})",
     true,
     {"f"},
     message::Guarantee::repaired,
     R"({"properties": {"a": {"type": "integer"}}})",
     "type_fixed ",
     R"({"a": 1})"},
    {"MendedInPart",
     R"({"name": "f", "arguments": {"a": "1"}})",
     false,
     {},
     message::Guarantee::unenforced,
     R"({"properties": {"a": {"type": "integer"}}, "required": ["b"]})",
     "type_fixed invalid_arguments ",
     R"({"a": 1})"},
    {"Cut",
     R"({"name": "f", "arguments": {)",
     true,
     {},
     message::Guarantee::unenforced,
     "{}",
     "incomplete_call "},
};

TEST(Turn, GuaranteesOnlyWholeCallsThatAGrammarHeld) {
  for (const Guaranteed& row : kGuaranteed) {
    SCOPED_TRACE(row.name);
    auto recorder = std::make_shared<Recorder>();
    TurnOptions options{.format = format::find("hermes"), .unenforced = row.unenforced};
    options.held = row.held;
    options.is_masked = row.is_masked && row.held == message::Guarantee::masked;
    options.check =
        std::make_unique<CallCheck>(repair::Rules::builtin(), std::vector<std::string>{"t"});
    options.parse.schemas = {*json::parse(row.schema), json::Object{}, nullptr};
    options.parse.tools = {"f", "g", "t"};
    Turn turn(std::move(options), recorder);
    turn.on_token({.bytes = "<tool_call>\n", .is_control = true});
    for (const char& byte : row.text) turn.on_token({.bytes = std::string_view(&byte, 1)});
    const bool is_cut = !row.text.ends_with("}}");
    if (!is_cut) turn.on_token({.bytes = "\n</tool_call>", .is_control = true});
    turn.on_end(
        {.reason = is_cut ? FinishReason::length : FinishReason::stop, .is_held = row.is_masked});
    ASSERT_EQ(recorder->fold.message().tool_calls.size(), 1u);
    EXPECT_EQ(recorder->fold.finish().guarantee, row.guarantee);
    if (!row.arguments.empty()) {
      EXPECT_EQ(recorder->fold.message().tool_calls[0].arguments, row.arguments);
    }
    std::string told;
    for (const auto& diagnostic : recorder->fold.diagnostics()) told += diagnostic.code + " ";
    EXPECT_EQ(told, row.told);
  }
}

TEST(Turn, GuaranteesWholeJsonThatAGrammarHeld) {
  struct Held {
    std::string_view name;
    engine::RunEnd end;
    std::vector<std::string> unenforced;
    std::vector<std::string> stop;
    message::Guarantee guarantee;
  };
  using message::Guarantee;
  const engine::RunEnd masked{.reason = FinishReason::stop, .is_held = true};
  const Held rows[] = {
      {"Masked", masked, {"f"}, {}, Guarantee::masked},
      {"Free", {.reason = FinishReason::stop}, {}, {}, Guarantee::unenforced},
      {"Cut", {.reason = FinishReason::length, .is_held = true}, {}, {}, Guarantee::unenforced},
      {"StoppedByAWord", masked, {}, {"}"}, Guarantee::unenforced},
      {"KeywordsLeftOut", masked, {""}, {}, Guarantee::unenforced},
  };
  for (const Held& row : rows) {
    SCOPED_TRACE(row.name);
    auto recorder = std::make_shared<Recorder>();
    Turn turn({.stop = row.stop, .unenforced = row.unenforced, .is_json = true}, recorder);
    turn.on_token({.bytes = "{\"a\": 1}"});
    turn.on_end(row.end);
    EXPECT_EQ(recorder->fold.finish().guarantee, row.guarantee);
  }
}

TEST(Turn, TellsFirstWhatItWasTold) {
  auto recorder = std::make_shared<Recorder>();
  Turn turn({.diagnostics = {{"not_held", "why"}}}, recorder);
  turn.on_token({.bytes = "a"});
  turn.on_end({});
  EXPECT_EQ(recorder->letters, "dc.");
  EXPECT_EQ(recorder->fold.diagnostics().front().code, "not_held");
}

TEST(Turn, PassesLogprobsOnButNotThoseOfAStopString) {
  auto recorder = std::make_shared<Recorder>();
  Turn turn({.stop = {"END"}}, recorder);
  for (const std::string_view piece : {"a", "b", "E", "N", "D", "c"}) {
    const message::TokenLogprob logprob{.bytes = std::string(piece)};
    turn.on_token({.bytes = piece, .logprob = &logprob});
  }
  turn.on_end({.reason = FinishReason::cancelled, .usage = {}, .error = {}});
  EXPECT_EQ(recorder->fold.message().text(), "ab");
  EXPECT_EQ(recorder->logprob_bytes, "ab");
  EXPECT_EQ(recorder->fold.finish().reason, FinishReason::stop);
}

TEST(Turn, WithoutAFormatMakesValidTextOfAnyBytes) {
  auto recorder = std::make_shared<Recorder>();
  Turn turn({}, recorder);
  for (const std::string_view piece : {"\xc3", "\xa9<tool_call>", "\xff", "\xe4\xb8"}) {
    turn.on_token({.bytes = piece});
  }
  turn.on_end({});
  EXPECT_EQ(recorder->fold.message().text(), "\u00e9<tool_call>\ufffd\ufffd");
}

TEST(Turn, TellsARunThatComesLaterWhatWasWantedBefore) {
  auto recorder = std::make_shared<Recorder>();
  Turn turn({}, recorder);
  turn.pause();
  turn.cancel();
  auto asked = std::make_shared<Asked>();
  turn.attach(std::make_unique<FakeRun>(asked));
  EXPECT_TRUE(asked->paused);
  EXPECT_TRUE(asked->cancelled);
  turn.resume();
  EXPECT_FALSE(asked->paused);
  turn.on_end({.reason = FinishReason::cancelled, .usage = {}, .error = {}});
  EXPECT_EQ(recorder->fold.finish().reason, FinishReason::cancelled);
}

/// A run whose pause() comes to pass late: `meanwhile` happens first, if it can.
class SlowRun final : public engine::Run {
 public:
  SlowRun(std::shared_ptr<Asked> asked, std::function<void()> meanwhile)
      : asked_(std::move(asked)), meanwhile_(std::move(meanwhile)) {}
  void cancel() override {}
  void pause() override {
    meanwhile_();
    asked_->paused = true;
  }
  void resume() override { asked_->paused = false; }

 private:
  std::shared_ptr<Asked> asked_;
  std::function<void()> meanwhile_;
};

TEST(Turn, WhatWasWantedLastHappensLast) {
  for (const bool is_attached_first : {true, false}) {
    SCOPED_TRACE(is_attached_first);
    Turn turn({}, std::make_shared<Recorder>());
    auto asked = std::make_shared<Asked>();
    std::future<void> resumed;
    auto run = std::make_unique<SlowRun>(asked, [&] {
      resumed = std::async(std::launch::async, [&] { turn.resume(); });
      resumed.wait_for(std::chrono::milliseconds(100));  // it must not happen before the pause
    });
    if (is_attached_first) {
      turn.attach(std::move(run));
      turn.pause();
    } else {
      turn.pause();
      turn.attach(std::move(run));
    }
    resumed.get();
    EXPECT_FALSE(asked->paused);
    turn.on_end({});
  }
}

}  // namespace
}  // namespace tenon::chat
