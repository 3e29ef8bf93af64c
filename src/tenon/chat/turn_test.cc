#include "tenon/chat/turn.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"

namespace tenon::chat {
namespace {

using message::FinishReason;

/// Folds the events, and keeps their kinds in order: c content, r reasoning, ( call begin, a
/// arguments, ) call end, d diagnostic, . finish; T[A]? those of servers of tools.
class TurnRecorder final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    constexpr std::string_view kLetters = "cr(a)T[A]?d.";
    static_assert(kLetters.size() == std::variant_size_v<message::ChatEvent>);
    letters += kLetters[event.index()];
    if (letters.size() > 1 && letters.back() == letters[letters.size() - 2]) letters.pop_back();
    for (const message::TokenLogprob& logprob : logprobs) logprob_bytes += logprob.bytes;
    fold.add(event);
  }

  message::Fold fold;
  std::string letters;
  std::string logprob_bytes;
};

/// A run that records what it was asked.
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

struct TurnCase {
  std::string_view name;
  std::string_view text;  // control tokens by their texts
  std::vector<std::string> stop;
  bool parallel = true;
  FinishReason end = FinishReason::stop;

  std::string_view content;
  std::vector<std::string> calls;  // names
  FinishReason reason = FinishReason::stop;
  bool is_cancelled = false;  // the engine was told to stop
};

constexpr std::string_view kTurnCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"END\"}}\n</tool_call>";
constexpr std::string_view kTwoCalls =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
constexpr std::string_view kCutCall = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"EN";

const TurnCase kTurnCases[] = {
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
    {.name = "FailedInAMarker",
     .text = "Hello <tool_c",
     .end = FinishReason::error,
     .content = "Hello ",
     .reason = FinishReason::error},
    {.name = "FailedBeforeACallHasAName",
     .text = "Hello <tool_call>\n{\"na",
     .end = FinishReason::error,
     .content = "Hello ",
     .reason = FinishReason::error},
    {.name = "CutInAMarker",
     .text = "Hello <tool_c",
     .end = FinishReason::length,
     .content = "Hello <tool_c",
     .reason = FinishReason::length},
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
    {.name = "Call", .text = kTurnCall, .calls = {"f"}, .reason = FinishReason::tool_calls},
    {.name = "StopStringInArgumentsIsNone",
     .text = kTurnCall,
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

/// Everything known about an answer, for comparisons.
struct Told {
  std::string content;
  std::vector<std::string> calls;
  FinishReason reason{};
  std::string stop_sequence;
  bool operator==(const Told&) const = default;
};

class tool_calling_Turn : public ::testing::TestWithParam<TurnCase> {};

Told play(const TurnCase& test, std::size_t piece_bytes, Asked& asked) {
  auto recorder = std::make_shared<TurnRecorder>();
  TurnOptions options{
      .format = format::find("hermes"), .stop = test.stop, .parallel_tool_calls = test.parallel};
  options.parse.tools = {"f", "g"};
  auto turn = std::make_shared<Turn>(std::move(options), recorder);
  auto shared = std::make_shared<Asked>();
  turn->run().attach(std::make_unique<FakeRun>(shared));

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
  turn->run().detach();
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
  const TurnCase& test = GetParam();
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

INSTANTIATE_TEST_SUITE_P(Rules, tool_calling_Turn, ::testing::ValuesIn(kTurnCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct RepeatCase {
  std::string_view name;
  std::vector<std::string> written;  // inside the markers
  std::vector<std::string> passed;   // name and arguments
  std::size_t told = 0;
  bool is_over = false;  // the engine was told to stop
  bool drops = true;
};

const RepeatCase kRepeatCases[] = {
    {.name = "OnceMore",
     .written = {R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 1}})"},
     .passed = {R"(f{"a": 1})"},
     .told = 1},
    {.name = "KeptWhereRepeatsAreMeant",
     .written = {R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 1}})"},
     .passed = {R"(f{"a": 1})", R"(f{"a": 1})"},
     .drops = false},
    {.name = "WithoutArguments",
     .written = {R"({"name": "f", "arguments": {}})", R"({"name": "f", "arguments": {}})"},
     .passed = {"f{}"},
     .told = 1},
    {.name = "AnotherFollows",
     .written = {R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 2}})"},
     .passed = {R"(f{"a": 1})", R"(f{"a": 2})"},
     .told = 1},
    {.name = "TheSecondRepeatIsTheEnd",
     .written = {R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 1}})", R"({"name": "g", "arguments": {}})"},
     .passed = {R"(f{"a": 1})"},
     .told = 2,
     .is_over = true},
    {.name = "OtherArguments",
     .written = {R"({"name": "f", "arguments": {"a": 1}})",
                 R"({"name": "f", "arguments": {"a": 12}})",
                 R"({"name": "f", "arguments": {"a": 1, "b": 2}})",
                 R"({"name": "f", "arguments": {}})"},
     .passed = {R"(f{"a": 1})", R"(f{"a": 12})", R"(f{"a": 1, "b": 2})", "f{}"}},
    {.name = "AnotherTool",
     .written = {R"({"name": "f", "arguments": {}})", R"({"name": "g", "arguments": {}})",
                 R"({"name": "f", "arguments": {}})"},
     .passed = {"f{}", "g{}", "f{}"}},
};

// Calls in markers, byte by byte: a possible repeat is held back until it is certain, and no
// longer.
TEST(Turn, LeavesOutACallThatIsTheOneBefore) {
  for (const RepeatCase& test : kRepeatCases) {
    SCOPED_TRACE(test.name);
    auto recorder = std::make_shared<TurnRecorder>();
    TurnOptions options{.format = format::find("hermes"), .drops_repeats = test.drops};
    options.parse.tools = {"f", "g"};
    Turn turn(std::move(options), recorder);
    auto asked = std::make_shared<Asked>();
    turn.run().attach(std::make_unique<FakeRun>(asked));
    for (const std::string& call : test.written) {
      turn.on_token({.bytes = "<tool_call>", .is_control = true});
      for (const char& byte : call) turn.on_token({.bytes = std::string_view(&byte, 1)});
      turn.on_token({.bytes = "</tool_call>", .is_control = true});
    }
    turn.on_end({});
    turn.run().detach();
    std::vector<std::string> passed;
    for (const auto& call : recorder->fold.message().tool_calls) {
      passed.push_back(call.name + call.arguments);
    }
    EXPECT_EQ(passed, test.passed);
    EXPECT_EQ(asked->cancelled, test.is_over);
    const auto& told = recorder->fold.diagnostics();
    EXPECT_EQ(std::ranges::count(told, "repeated_call", &message::Diagnostic::code),
              static_cast<std::ptrdiff_t>(test.told));
    EXPECT_EQ(recorder->fold.finish().reason, FinishReason::tool_calls);
  }
}

// A call that is cut is passed on as far as it came, since it may not be a repeat.
TEST(Turn, PassesOnACallThatIsCutInARepeat) {
  auto recorder = std::make_shared<TurnRecorder>();
  TurnOptions options{.format = format::find("hermes"), .drops_repeats = true};
  options.parse.tools = {"f"};
  Turn turn(std::move(options), recorder);
  turn.on_token({.bytes = "<tool_call>", .is_control = true});
  turn.on_token({.bytes = R"({"name": "f", "arguments": {"a": 1}})"});
  turn.on_token({.bytes = "</tool_call>", .is_control = true});
  turn.on_token({.bytes = "<tool_call>", .is_control = true});
  turn.on_token({.bytes = R"({"name": "f", "arguments": {"a")"});
  turn.on_end({.reason = FinishReason::length, .usage = {}, .error = {}});
  ASSERT_EQ(recorder->fold.message().tool_calls.size(), 2U);
  EXPECT_EQ(recorder->fold.message().tool_calls[1].arguments, R"({"a")");
  EXPECT_EQ(recorder->fold.finish().reason, FinishReason::length);
}

// The engine went on until it learned that only the first call is wanted.
TEST(Turn, CountsTheTokensOfTheAnswerOnly) {
  auto recorder = std::make_shared<TurnRecorder>();
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

struct Counted {
  std::string_view name;
  bool counts_tokens;
  message::Usage told;   // as the engine reports it
  message::Usage usage;  // of the answer: two pieces of reasoning, and two of text up to its stop
};

const Counted kCounted[] = {
    {"EachPieceIsSoManyTokens",
     true,
     {.prompt_tokens = 3, .completion_tokens = 9},
     {.prompt_tokens = 3, .completion_tokens = 5, .reasoning_tokens = 2}},
    {"TheServerCounts",
     false,
     {.prompt_tokens = 3, .completion_tokens = 9, .reasoning_tokens = 4},
     {.prompt_tokens = 3, .completion_tokens = 9, .reasoning_tokens = 4}},
    {"TheServerDoesNotTellOfReasoning",
     false,
     {.prompt_tokens = 3, .completion_tokens = 9},
     {.prompt_tokens = 3, .completion_tokens = 9, .reasoning_tokens = 2, .is_estimated = true}},
    {"NobodyCounts",
     false,
     {.prompt_tokens = 3, .completion_tokens = 1, .is_estimated = true},
     {.prompt_tokens = 3, .completion_tokens = 1, .reasoning_tokens = 1, .is_estimated = true}},
};

TEST(Turn, TellsWhatOfItsUsageIsEstimated) {
  for (const Counted& test : kCounted) {
    SCOPED_TRACE(test.name);
    auto recorder = std::make_shared<TurnRecorder>();
    Turn turn({.stop = {"."}, .counts_tokens = test.counts_tokens}, recorder);
    turn.on_reasoning("th");
    turn.on_reasoning("ink");
    turn.on_token({.bytes = "a", .count = 2});
    turn.on_token({.bytes = "."});
    turn.on_token({.bytes = "more"});
    turn.on_end({.reason = FinishReason::cancelled, .usage = test.told, .error = {}});
    EXPECT_EQ(recorder->fold.finish().usage, test.usage);
  }
}

TEST(Turn, PassesTheOpeningOnAsIfItHadBeenGenerated) {
  auto recorder = std::make_shared<TurnRecorder>();
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
  std::string_view schema = "{}";  // of the tool f
  std::string_view told;           // the codes of the diagnostics, each with a space
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
    {"Repaired",
     R"({"name": "f", "arguments": {"a": "1"}})",
     false,
     {},
     message::Guarantee::repaired,
     R"({"properties": {"a": {"type": "integer"}}})",
     "type_fixed ",
     R"({"a": 1})"},
    {"NotRepairedWhereAMaskConstrainedIt",
     R"({"name": "f", "arguments": {"a": 3.0}})",
     true,
     {},
     message::Guarantee::masked,
     R"({"properties": {"a": {"type": "integer"}}})",
     "",
     R"({"a": 3.0})"},
    {"RepairedWhereItConstrainedLess",
     R"({"name": "f", "arguments": {"a": "1"}})",
     true,
     {"f"},
     message::Guarantee::repaired,
     R"({"properties": {"a": {"type": "integer"}}})",
     "type_fixed ",
     R"({"a": 1})"},
    {"RepairedInPart",
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
    auto recorder = std::make_shared<TurnRecorder>();
    TurnOptions options{.format = format::find("hermes"), .unenforced = row.unenforced};
    options.when_constrained = row.held;
    options.is_masked = row.is_masked && row.held == message::Guarantee::masked;
    options.check =
        std::make_unique<CallCheck>(repair::Rules::builtin(), std::vector<std::string>{"t"},
                                    std::make_shared<CompiledSchemas>());
    options.parse.schemas = {*json::parse(row.schema), json::Object{}, nullptr};
    options.parse.tools = {"f", "g", "t"};
    Turn turn(std::move(options), recorder);
    turn.on_token({.bytes = "<tool_call>\n", .is_control = true});
    for (const char& byte : row.text) turn.on_token({.bytes = std::string_view(&byte, 1)});
    const bool is_cut = !row.text.ends_with("}}");
    if (!is_cut) turn.on_token({.bytes = "\n</tool_call>", .is_control = true});
    turn.on_end({.reason = is_cut ? FinishReason::length : FinishReason::stop,
                 .is_constrained = row.is_masked});
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
  struct Constrained {
    std::string_view name;
    engine::RunEnd end;
    std::vector<std::string> unenforced;
    std::vector<std::string> stop;
    message::Guarantee guarantee;
  };
  using message::Guarantee;
  const engine::RunEnd masked{.reason = FinishReason::stop, .is_constrained = true};
  const Constrained rows[] = {
      {"Masked", masked, {"f"}, {}, Guarantee::masked},
      {"Free", {.reason = FinishReason::stop}, {}, {}, Guarantee::unenforced},
      {"Cut",
       {.reason = FinishReason::length, .is_constrained = true},
       {},
       {},
       Guarantee::unenforced},
      {"StoppedByAWord", masked, {}, {"}"}, Guarantee::unenforced},
      {"KeywordsLeftOut", masked, {""}, {}, Guarantee::unenforced},
  };
  for (const Constrained& row : rows) {
    SCOPED_TRACE(row.name);
    auto recorder = std::make_shared<TurnRecorder>();
    Turn turn({.stop = row.stop, .unenforced = row.unenforced, .has_response_format = true},
              recorder);
    turn.on_token({.bytes = "{\"a\": 1}"});
    turn.on_end(row.end);
    EXPECT_EQ(recorder->fold.finish().guarantee, row.guarantee);
  }
}

TEST(Turn, JudgesTheJsonThatNoMaskHeld) {
  using message::Guarantee;
  struct Judged {
    std::string_view name;
    std::string_view text;
    engine::RunEnd end;
    Guarantee guarantee;
    std::string_view told{};
  };
  const engine::RunEnd free{.reason = FinishReason::stop};
  const engine::RunEnd held{.reason = FinishReason::stop, .is_constrained = true};
  const Judged rows[] = {
      {"FitsThoughNobodyHeldIt", R"({"a": 1})", free, Guarantee::validated},
      {"FitsAndWasHeldElsewhere", R"({"a": 1})", held, Guarantee::upstream},
      {"HeldElsewhereAndWrong", R"({"a": "1"})", held, Guarantee::unenforced,
       "the answer does not fit the response format: /a "},
      {"NoJson", "Sure: {", free, Guarantee::unenforced,
       "the answer does not fit the response format: it is not JSON"},
      {"Nothing", "", free, Guarantee::unenforced,
       "the answer does not fit the response format: it is not JSON"},
      {"Cut", R"({"a": )", {.reason = FinishReason::length}, Guarantee::unenforced},
  };
  const auto schema = schema::Schema::compile(
      *json::parse(R"({"properties": {"a": {"type": "integer"}}, "required": ["a"]})"));
  for (const Judged& row : rows) {
    SCOPED_TRACE(row.name);
    auto recorder = std::make_shared<TurnRecorder>();
    Turn turn({.has_response_format = true,
               .text_schema = *schema,
               .when_constrained = Guarantee::upstream},
              recorder);
    for (const char byte : row.text) turn.on_token({.bytes = std::string_view(&byte, 1)});
    turn.on_end(row.end);
    EXPECT_EQ(recorder->fold.finish().guarantee, row.guarantee);
    std::string told;
    for (const auto& diagnostic : recorder->fold.diagnostics()) told += diagnostic.message;
    EXPECT_TRUE(told.starts_with(row.told)) << told;
    EXPECT_EQ(told.empty(), row.told.empty()) << told;
  }
}

// Text and reasoning that come beside a told call are all passed on after it.
TEST(Turn, WhatComesInsideAToldCallWaitsForItsEnd) {
  struct Beside {
    std::string_view name;
    std::vector<std::string_view> pieces;  // "1name" a call begins, "1{" arguments of it, "-" text
    std::string_view letters;
    std::string_view text;
    std::string_view reasoning = "";
  };
  const Beside rows[] = {
      {"Between", {"1f", "1{}", "-so", "2f", "2{}"}, "(a)c(a).", "so"},
      {"BetweenNameAndArguments", {"1f", "-a", "-b", "1{}", "-c"}, "(a)c.", "abc"},
      {"InArguments", {"1f", "1{", "-a", "?r", "-b", "1}"}, "(a)crc.", "ab", "r"},
      {"NoArguments", {"1f", "-a"}, "(a)c.", "a"},
      {"TwoNamesFirst", {"1f", "2f", "-a", "1{}", "2{}"}, "(a)c(a).", "a"},
  };
  for (const Beside& row : rows) {
    SCOPED_TRACE(row.name);
    auto recorder = std::make_shared<TurnRecorder>();
    Turn turn({.parse = {.tools = {"f"}}, .tells_calls = true}, recorder);
    for (const std::string_view piece : row.pieces) {
      const std::string_view rest = piece.substr(1);
      if (piece[0] == '-') {
        turn.on_token({.bytes = rest});
      } else if (piece[0] == '?') {
        turn.on_reasoning(rest);
      } else if (rest == "f") {
        turn.on_call({.index = static_cast<std::uint32_t>(piece[0] - '0'), .name = rest});
      } else {
        turn.on_call({.index = static_cast<std::uint32_t>(piece[0] - '0'), .arguments = rest});
      }
    }
    turn.on_end({});
    EXPECT_EQ(recorder->letters, row.letters);
    EXPECT_EQ(recorder->fold.message().text(), row.text);
    EXPECT_EQ(recorder->fold.message().reasoning, row.reasoning);
    for (const auto& call : recorder->fold.message().tool_calls) EXPECT_EQ(call.arguments, "{}");
  }
}

/// What a client reads, in order: text as it is, "(reasoning)", "[name arguments]".
class Transcript final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
      if (!is_reasoning_) text += '(';
      is_reasoning_ = true;
      text += reasoning->text;
      return;
    }
    if (std::exchange(is_reasoning_, false)) text += ')';
    if (const auto* content = std::get_if<message::ContentDelta>(&event)) text += content->text;
    if (const auto* begin = std::get_if<message::CallBegin>(&event))
      text += '[' + begin->name + ' ';
    if (const auto* more = std::get_if<message::CallArguments>(&event)) text += more->text;
    if (std::holds_alternative<message::CallEnd>(event)) text += ']';
  }
  std::string text;

 private:
  bool is_reasoning_ = false;
};

struct Order {
  std::string_view name;
  std::vector<std::string_view> pieces;  // "-text", "?reasoning", "=arguments" of a call of f
  std::string_view transcript;
};

const Order kOrders[] = {
    {"HalfAMarkerBeforeACall", {"-a <tool", "={}", "-b"}, "a <tool[f {}]b"},
    {"AMarkerBeforeACall", {"-a<tool_call>", "={}", "-b"}, "a<tool_call>[f {}]b"},
    {"HalfACallBeforeACall",
     {R"(-a<tool_call>{"name": "g)", "={}", "-b"},
     R"(a<tool_call>{"name": "g[f {}]b)"},
    {"BareJsonBeforeACall", {R"(-{"name": )", "={}", "-b"}, R"({"name": [f {}]b)"},
    {"WordsOfAStopBeforeACall", {"-a EN", "={}", "-D"}, "a EN[f {}]D"},
    {"SpaceBesideACallIsNone", {"-a", "={}", "-\n\n", "={}", "-\n"}, "a[f {}][f {}]"},
    {"HalfAMarkerBeforeReasoning", {"-a <tool", "?r", "-b"}, "a <tool(r)b"},
    {"ReasoningBeforeASpace", {"?r", "- a"}, "(r) a"},
    {"ACallInTheTextIsGoneOnWith",
     {R"(-<tool_call>{"name": "g", "arguments": {"a")", "={}", R"(-: 1}}</tool_call>b)"},
     R"([g {"a": 1}][f {}]b)"},
    {"ReasoningWaitsForIt",
     {R"(-<tool_call>{"name": "g", "arguments": {"a")", "?r", R"(-: 1}}</tool_call>b)"},
     R"([g {"a": 1}](r)b)"},
    {"ThinkingInTheTextBeforeACall", {"-<think>hm</think>a</thi", "={}"}, "(hm)a</thi[f {}]"},
};

// The transcript if the first `cut` bytes of each text come as one piece, the rest in `size` bytes.
std::string transcript_of(const Order& row, std::size_t cut, std::size_t size) {
  const auto transcript = std::make_shared<Transcript>();
  Turn turn({.format = format::with_fallbacks(*format::find("hermes")),
             .parse = {.tools = {"f", "g"}},
             .stop = {"END"},
             .tells_calls = true},
            transcript);
  std::uint32_t calls = 0;
  for (const std::string_view piece : row.pieces) {
    std::string_view rest = piece.substr(1);
    if (piece[0] == '?') {
      turn.on_reasoning(rest);
    } else if (piece[0] == '=') {
      turn.on_call({.index = calls++, .name = "f", .arguments = rest});
    } else {
      for (std::size_t most = cut; !rest.empty(); most = size) {
        if (most > 0) turn.on_token({.bytes = rest.substr(0, most)});
        rest.remove_prefix(std::min(most, rest.size()));
      }
    }
  }
  turn.on_end({});
  return transcript->text;
}

TEST(Turn, TextStaysBeforeTheCallsThatAreToldBehindItHoweverItIsCut) {
  Sample sample(4);
  for (const Order& row : kOrders) {
    for (std::size_t cut = 0; cut < 60; ++cut) {
      for (const std::size_t size : {1U, 2U, 1000U}) {
        if (!sample.takes_next()) continue;
        ASSERT_EQ(transcript_of(row, cut, size), row.transcript)
            << row.name << " " << cut << " " << size;
      }
    }
  }
}

TEST(Turn, TellsFirstWhatItWasTold) {
  auto recorder = std::make_shared<TurnRecorder>();
  Turn turn({.diagnostics = {{"not_held", "why"}}}, recorder);
  turn.on_token({.bytes = "a"});
  turn.on_end({});
  EXPECT_EQ(recorder->letters, "dc.");
  EXPECT_EQ(recorder->fold.diagnostics().front().code, "not_held");
}

TEST(Turn, TellsOfValuesThatWereClosed) {
  for (const std::uint32_t count : {0U, 1U, 3U}) {
    auto recorder = std::make_shared<TurnRecorder>();
    Turn turn({}, recorder);
    turn.on_token({.bytes = "a"});
    turn.on_end({.closed_loops = count});
    std::vector<message::Diagnostic> told;
    if (count == 1) {
      told = {{"repetition_closed",
               "a part of the answer repeated itself and was closed; text of it may be missing"}};
    }
    if (count == 3) {
      told = {{"repetition_closed",
               "3 parts of the answer repeated themselves and were closed; text of them may be "
               "missing"}};
    }
    EXPECT_EQ(recorder->fold.diagnostics(), told);
  }
}

TEST(Turn, PassesLogprobsOnButNotThoseOfAStopString) {
  auto recorder = std::make_shared<TurnRecorder>();
  Turn turn({.stop = {"END"}, .logprobs = 0}, recorder);
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
  auto recorder = std::make_shared<TurnRecorder>();
  Turn turn({}, recorder);
  for (const std::string_view piece : {"\xc3", "\xa9<tool_call>", "\xff", "\xe4\xb8"}) {
    turn.on_token({.bytes = piece});
  }
  turn.on_end({});
  EXPECT_EQ(recorder->fold.message().text(), "\u00e9<tool_call>\ufffd\ufffd");
}

TEST(Turn, TellsARunThatComesLaterWhatWasWantedBefore) {
  auto recorder = std::make_shared<TurnRecorder>();
  Turn turn({}, recorder);
  turn.run().set_paused(true);
  turn.run().cancel();
  auto asked = std::make_shared<Asked>();
  turn.run().attach(std::make_unique<FakeRun>(asked));
  EXPECT_TRUE(asked->paused);
  EXPECT_TRUE(asked->cancelled);
  turn.run().set_paused(false);
  EXPECT_FALSE(asked->paused);
  turn.on_end({.reason = FinishReason::cancelled, .usage = {}, .error = {}});
  EXPECT_EQ(recorder->fold.finish().reason, FinishReason::cancelled);
}

/// A run whose pause() takes effect late: `meanwhile` happens first, if it can.
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
    Turn turn({}, std::make_shared<TurnRecorder>());
    auto asked = std::make_shared<Asked>();
    std::future<void> resumed;
    auto run = std::make_unique<SlowRun>(asked, [&] {
      resumed = std::async(std::launch::async, [&] { turn.run().set_paused(false); });
      resumed.wait_for(std::chrono::milliseconds(100));  // it must not happen before the pause
    });
    if (is_attached_first) {
      turn.run().attach(std::move(run));
      turn.run().set_paused(true);
    } else {
      turn.run().set_paused(true);
      turn.run().attach(std::move(run));
    }
    resumed.get();
    EXPECT_FALSE(asked->paused);
    turn.on_end({});
  }
}

}  // namespace
}  // namespace tenon::chat
