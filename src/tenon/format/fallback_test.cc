// Calls in other forms than the model's own: which form claims a text, in which order, and that all
// else is as it was. docs/formats.md says the rules in words.
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::format {
namespace {

const std::vector<std::string> kFallbackTools = {"get_weather", "ping"};

ParseOptions options_of_tools() {
  ParseOptions options{.tools = kFallbackTools};
  options.schemas.push_back(*json::parse(
      R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})"));
  options.schemas.push_back(*json::parse(R"({"type": "object"})"));
  return options;
}

std::shared_ptr<const Format> lenient(std::string_view name) {
  return with_fallbacks(*find(name));
}

std::string claimed_by(const std::shared_ptr<const Format>& format, std::string_view text) {
  StreamParser parser(format, options_of_tools());
  std::vector<message::ChatEvent> events;
  parser.feed(text, false, events);
  parser.finish(false, events);
  return parser.claimed_by();
}

/// The outcome of the whole text, after checking that it is the same byte by byte; in long tests
/// for every cut in two.
Outcome read(const std::shared_ptr<const Format>& format, std::string_view text,
             bool truncated = false) {
  if (is_long_test()) return parse(format, text, options_of_tools(), truncated);
  StreamParser parser(format, options_of_tools());
  const Outcome whole = outcome_of(events_of(parser, text, text.size() + 1, truncated));
  parser.reset();
  EXPECT_EQ(outcome_of(events_of(parser, text, 1, truncated)), whole) << text;
  return whole;
}

struct FallbackRow {
  std::string_view name;
  std::string_view format;
  std::string_view text;
  std::string_view content;
  Calls calls;
  std::vector<std::string> codes;  // of diagnostics
  std::string_view claimed;        // the form of the first call, if not the format's own
};

const Calls kPing = {{"ping", "{}"}};
const Calls kPings = {{"ping", "{}"}, {"ping", R"({"n": 2})"}};

const FallbackRow kFallbackRows[] = {
    // The order is that of docs/formats.md.
    {"Native",
     "generic_xml",
     "<tool_call>\n<name>ping</name>\n<arguments>{}</arguments>\n</tool_call>",
     "",
     kPing,
     {},
     ""},
    {"ToolCallTag",
     "generic_xml",
     R"(<tool_call>{"name": "ping", "arguments": {}}</tool_call>)",
     "",
     kPing,
     {"fallback_format"},
     "hermes"},
    {"ToolCallTagWithFunction",
     "hermes",
     "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
     "",
     kPing,
     {"fallback_format"},
     "qwen3_coder"},
    {"NamespacedTag",
     "llama3_json",
     "<minimax:tool_call>\n<invoke name=\"ping\">\n</invoke>\n</minimax:tool_call>",
     "",
     kPing,
     {"fallback_format"},
     "minimax_m2"},
    {"OtherNamespacedTag",
     "llama3_json",
     "<seed:tool_call>\n<function=ping>\n</function>\n</seed:tool_call>",
     "",
     kPing,
     {"fallback_format"},
     "seed_oss"},
    {"Brackets",
     "llama3_json",
     "[Calling tool: ping({})]",
     "",
     kPing,
     {"fallback_format"},
     "calling_tool"},
    {"BareJson",
     "hermes",
     R"({"name": "ping", "parameters": {}})",
     "",
     kPing,
     {"fallback_format"},
     "json"},
    {"BracesTwice",
     "hermes",
     R"({{"name": "ping", "arguments": {{"n": 2}}}})",
     "",
     {{"ping", R"({"n": 2})"}},
     {"fallback_format", "mended_arguments"},
     "code_fence"},
    {"BracesTwiceOutsideAlone",
     "hermes",
     R"({{"name": "ping", "arguments": {"n": 2}}})",
     "",
     {{"ping", R"({"n": 2})"}},
     {"fallback_format"},
     "code_fence"},
    {"BracesTwiceInAFence",
     "hermes",
     "```json\n{{\"name\": \"ping\", \"arguments\": {{}}}}\n```",
     "",
     kPing,
     {"fallback_format", "mended_arguments"},
     "code_fence"},
    {"BracesTwiceOfATemplate",
     "hermes",
     R"({{ "name": "nobody", "arguments": {{}} }} and {{ name }})",
     R"({{ "name": "nobody", "arguments": {{}} }} and {{ name }})",
     {},
     {"near_miss"},
     ""},
    {"BareJsonInProse",
     "hermes",
     R"(Sure: {"name": "ping", "parameters": {}} Wait.)",
     "Sure:  Wait.",
     kPing,
     {"fallback_format"},
     "json"},
    {"TwoOfOneForm",
     "qwen3_coder",
     "{\"name\": \"ping\", \"arguments\": {}}\n{\"name\": \"ping\", \"arguments\": {\"n\": 2}}",
     "",
     kPings,
     {"fallback_format"},
     "json"},
    {"NativeBorrowsIsItsOwn", "hermes", "[Calling tool: ping({})]", "", kPing, {}, ""},

    // Once an earlier one has claimed a call a later one is off, an earlier one is not.
    {"JsonBehindNative",
     "hermes",
     R"(<tool_call>{"name": "ping", "arguments": {}}</tool_call> or {"name": "ping", "arguments": {}})",
     R"( or {"name": "ping", "arguments": {}})",
     kPing,
     {},
     ""},
    {"JsonBehindBrackets",
     "llama3_json",
     R"([Calling tool: ping({})] or <tool_call>{"name": "ping", "arguments": {"n": 2}}</tool_call>)",
     " or ",
     kPings,
     {"fallback_format", "fallback_format"},
     "calling_tool"},
    {"NativeBehindJson",
     "hermes",
     R"({"name": "ping", "arguments": {}}<tool_call>{"name": "ping", "arguments": {"n": 2}}</tool_call>{"name": "ping", "arguments": {}})",
     R"({"name": "ping", "arguments": {}})",
     kPings,
     {"fallback_format"},
     "json"},

    // Gated by the request's tools.
    {"UnknownInMarkers",
     "llama3_json",
     R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
     R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
     {},
     {"unknown_tool"},
     ""},
    {"UnknownInJson",
     "hermes",
     R"({"name": "rm", "arguments": {}})",
     R"({"name": "rm", "arguments": {}})",
     {},
     {"near_miss"},
     ""},
    {"TagsInReasoning",
     "hermes",
     R"(<think>[Calling tool: ping({})] {"name": "ping", "arguments": {}}</think>No.)",
     "No.",
     {},
     {},
     ""},

    {"BrokenBehindAMarker",
     "llama3_json",
     R"(<|python_tag|>{"name": ping, "parameters": })",
     R"(<|python_tag|>{"name": ping, "parameters": })",
     {},
     {"broken_call"},
     ""},
    {"BrokenWhereANameMayStand",
     "mistral_v11",
     R"([TOOL_CALLS][{"name": ])",
     R"([TOOL_CALLS][{"name": ])",
     {},
     {"broken_call"},
     ""},
    {"BrokenBehindAMarkerAndItsEnd",
     "llama3_json",
     R"(<|python_tag|>{"name": ping, "parameters": }<|eom_id|>)",
     R"(<|python_tag|>{"name": ping, "parameters": })",
     {},
     {"broken_call"},
     ""},

    // Markers that say nothing.
    {"StrayEndBehindACall",
     "llama3_json",
     "{\"name\": \"ping\", \"parameters\": {}}\n</tool_call>",
     "",
     kPing,
     {"stray_marker"},
     ""},
    {"StrayEndInText",
     "llama3_json",
     "as in </tool_call> or </tool_call>",
     "as in </tool_call> or </tool_call>",
     {},
     {"leaked_marker"},
     ""},
    {"StrayEndBehindWords",
     "hermes",
     R"(<tool_call>{"name": "ping", "arguments": {}}</tool_call> so </tool_call>)",
     " so </tool_call>",
     kPing,
     {"leaked_marker"},
     ""},
    {"DoubledEnd",
     "hermes",
     "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>\n</tool_call>",
     "",
     kPing,
     {"stray_marker"},
     ""},

    // All syntaxes that failed at the first marker are tried again at the second one.
    {"BehindAMarkerOfNoCall",
     "xlam",
     R"([TOOL_CALLS]nothing, then [TOOL_CALLS][{"name": "ping", "arguments": {}}])",
     "[TOOL_CALLS]nothing, then ",
     kPing,
     {"broken_call"},
     ""},

    // No calls.
    {"Words", "hermes", "a < b, {x}, [Call", "a < b, {x}, [Call", {}, {}, ""},
    {"Json",
     "hermes",
     R"({"name": "Bob", "age": 7} [1, {"a": {}}])",
     R"({"name": "Bob", "age": 7} [1, {"a": {}}])",
     {},
     {"near_miss"},
     ""},
};

TEST(Fallback, ClaimsInItsOrder) {
  for (const FallbackRow& row : kFallbackRows) {
    SCOPED_TRACE(row.name);
    const auto format = lenient(row.format);
    const Outcome outcome = parse(format, row.text, options_of_tools());
    EXPECT_EQ(outcome.content, row.content);
    EXPECT_EQ(outcome.calls, row.calls);
    EXPECT_EQ(outcome.codes, row.codes);
    const std::string_view own = row.calls.empty() ? "" : row.format;
    EXPECT_EQ(claimed_by(format, row.text), row.claimed.empty() ? own : row.claimed);
  }
}

TEST(Fallback, IsOffWithoutTools) {
  for (const FallbackRow& row : kFallbackRows) {
    const auto format = lenient(row.format);
    const Outcome with = parse(format, row.text, {});
    EXPECT_EQ(with, parse(find(row.format), row.text, {})) << row.name;
    EXPECT_TRUE(with.calls.empty()) << row.name;
  }
}

TEST(Fallback, NoneIsTheFormatItself) {
  for (const FallbackRow& row : kFallbackRows) {
    if (row.claimed.empty()) continue;
    const auto alone = with_fallbacks(*find(row.format), Fallbacks::none);
    const Calls calls = parse(alone, row.text, options_of_tools()).calls;
    EXPECT_EQ(calls, parse(find(row.format), row.text, options_of_tools()).calls) << row.name;
    EXPECT_LT(calls.size(), row.calls.size()) << row.name;
  }
}

struct NameRow {
  std::string_view name;
  std::string_view format;
  std::string_view text;
  bool forwards;
  std::string_view content;
  Calls calls;
  std::vector<std::string> codes;
};
const NameRow kNameRows[] = {
    {"Repaired",
     "hermes",
     R"(<tool_call>{"name": "Ping", "arguments": {}}</tool_call>)",
     false,
     "",
     kPing,
     {"name_fixed"}},
    {"RepairedBehindItsArguments",
     "hermes",
     R"(<tool_call>{"arguments": {}, "name": "Ping"}</tool_call>)",
     false,
     "",
     kPing,
     {"name_fixed"}},
    {"RepairedInASection",
     "jamba",
     R"(<tool_calls>[{"name": "Ping", "arguments": {}}, {"name": "PING", "arguments": {"n": 2}}]</tool_calls>)",
     false,
     "",
     kPings,
     {"name_fixed", "name_fixed"}},
    {"RepairedInAFallback",
     "llama3_json",
     "[Calling tool: Ping({})]",
     false,
     "",
     kPing,
     {"fallback_format", "name_fixed"}},
    {"RepairedAsItsSchemaSays",
     "qwen3_coder",
     "<tool_call>\n<function=Get-Weather>\n<parameter=city>\n12\n</parameter>\n</function>\n</"
     "tool_call>",
     false,
     "",
     {{"get_weather", R"({"city": "12"})"}},
     {"name_fixed"}},
    {"BareJsonIsNotRepaired",
     "llama3_json",
     R"({"name": "Ping", "parameters": {}})",
     false,
     R"({"name": "Ping", "parameters": {}})",
     {},
     {"near_miss"}},
    {"NorIsABracket", "llama4_pythonic", "[Ping()]", false, "[Ping()]", {}, {"near_miss"}},
    {"AnotherIsNotRepaired",
     "hermes",
     R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
     false,
     R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
     {},
     {"unknown_tool"}},
    {"Forwarded",
     "hermes",
     R"(<tool_call>{"name": "rm", "arguments": {"a": 1}}</tool_call>)",
     true,
     "",
     {{"rm", R"({"a": 1})"}},
     {"forwarded_tool"}},
    {"ForwardedInAFallback",
     "llama3_json",
     "[Calling tool: rm({})]",
     true,
     "",
     {{"rm", "{}"}},
     {"fallback_format", "forwarded_tool"}},
    {"KnownOnesAreNotTold",
     "hermes",
     R"(<tool_call>{"name": "ping", "arguments": {}}</tool_call>)",
     true,
     "",
     kPing,
     {}},
    {"BareJsonIsNotForwarded",
     "llama3_json",
     R"({"name": "rm", "parameters": {}})",
     true,
     R"({"name": "rm", "parameters": {}})",
     {},
     {"near_miss"}},
    {"NorIsABracketForwarded",
     "llama4_pythonic",
     "[rm(a=1)]",
     true,
     "[rm(a=1)]",
     {},
     {"near_miss"}},
};

TEST(Fallback, NamesThatAreNone) {
  for (const NameRow& row : kNameRows) {
    SCOPED_TRACE(row.name);
    ParseOptions options = options_of_tools();
    options.any_tool = row.forwards;
    if (!row.forwards) {
      options.corrected_name = [](const std::string& name) -> std::string {
        if (name == "Get-Weather") return "get_weather";
        return name == "Ping" || name == "PING" ? "ping" : "";
      };
    }
    const Outcome outcome = parse(lenient(row.format), row.text, options);
    EXPECT_EQ(outcome.content, row.content);
    EXPECT_EQ(outcome.calls, row.calls);
    EXPECT_EQ(outcome.codes, row.codes);
  }
}

std::vector<std::shared_ptr<const Format>> fallbacks() {
  std::vector<std::shared_ptr<const Format>> formats;
  for (auto& format : all()) {
    if (format->fallback_order > 0) formats.push_back(std::move(format));
  }
  return formats;
}

const std::vector<message::ToolCall> kWritten = {
    {.id = "abc123def", .name = "get_weather", .arguments = R"({"city": "Paris", "days": 3})"}};

// Whatever the model's own format, a call in another form is found, and words beside it are kept.
TEST(Fallback, EachIsFoundBehindEachFormat) {
  ASSERT_EQ(fallbacks().size(), 8U);
  const json::Value arguments = *json::parse(kWritten[0].arguments);
  std::size_t count = 0;
  for (const auto& own : all()) {
    if (own->syntaxes.empty()) continue;  // another test's
    const auto format = with_fallbacks(*own);
    for (const auto& other : fallbacks()) {
      SCOPED_TRACE(own->info.name + " strays to " + other->info.name);
      const std::string call = *render_calls(*other, kWritten);
      // In reasoning there are only its own.
      const std::string thought = own->reasoning_starts_open ? own->reasoning_close[0] : "";
      const Outcome outcome = read(format, thought + call);
      ASSERT_EQ(outcome.calls.size(), 1U) << call;
      EXPECT_EQ(outcome.calls[0].first, "get_weather");
      // Its own form may be so like it that it reads the call, in its own way.
      const bool is_own = claimed_by(format, thought + call) == own->info.name;
      EXPECT_TRUE(is_own || *json::parse(outcome.calls[0].second) == arguments) << call;
      EXPECT_EQ(outcome.content, "");
      ++count;
    }
  }
  EXPECT_GE(count, 61U * fallbacks().size());
}

// What the format itself reads it reads as before.
TEST(Fallback, OwnCallsAreAsTheyWere) {
  for (const auto& own : all()) {
    if (own->syntaxes.empty()) continue;
    const auto format = with_fallbacks(*own);
    std::vector<message::ToolCall> two = kWritten;
    two.push_back({.id = "ghi456jkl", .name = "ping", .arguments = R"({"a": [1, "</x>"]})"});
    std::string thought;
    if (!own->reasoning_open.empty()) {
      thought = own->reasoning_open[0] + "Hm." + own->reasoning_close[0];
    }
    for (const auto& calls : {kWritten, two}) {
      if (calls.size() > 1 && !own->info.parallel) continue;
      const std::string text = *render_calls(*own, calls);
      for (const std::string& answer : {text, "Look: " + text, thought + text, text + " Done."}) {
        const Outcome outcome = read(format, answer);
        EXPECT_EQ(outcome, read(own, answer)) << own->info.name << ": " << answer;
        EXPECT_EQ(claimed_by(format, answer), outcome.calls.empty() ? "" : own->info.name)
            << own->info.name << ": " << answer;
      }
    }
  }
}

// Random answers of what models mix up: the same however they are cut, and where there is no call
// the text is the content to the byte.
TEST(Fallback, RandomMixturesAreTotal) {
  const std::string_view kParts[] = {"<tool_call>",
                                     "</tool_call>",
                                     "\n",
                                     " ",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "word",
                                     "<",
                                     ":",
                                     R"({"name": "ping", "arguments": {}})",
                                     R"({"name": "rm", "arguments": {}})",
                                     R"({"name": "ping", "arguments": {"a": "</tool_call>)",
                                     R"({"a": {"name": "ping"}})",
                                     "[Calling tool: ",
                                     "ping({})]",
                                     "ping(",
                                     "<minimax:tool_call>",
                                     "</minimax:tool_call>",
                                     R"(<invoke name="ping">)",
                                     "</invoke>",
                                     "<function=ping>",
                                     "</function>",
                                     "<parameter=a>",
                                     "</parameter>",
                                     "<seed:tool_call>",
                                     "</seed:tool_call>",
                                     "<think>",
                                     "</think>",
                                     "[TOOL_CALLS]",
                                     "<name>ping</name>",
                                     "<arguments>{}</arguments>",
                                     "\xC3",
                                     "é"};
  std::mt19937 dice(20261122);
  std::size_t calls = 0;
  std::size_t texts = 0;
  for (const auto& own : all()) {
    const auto format = with_fallbacks(*own);
    for (int i = 0; i < (is_long_test() ? 400 : 20); ++i) {
      std::string text;
      for (std::size_t n = 1 + dice() % 9; n > 0; --n) text += kParts[dice() % std::size(kParts)];
      SCOPED_TRACE(own->info.name + ": " + text);
      const bool truncated = dice() % 4 == 0;
      const Outcome outcome = read(format, text, truncated);
      calls += outcome.calls.size();
      const Outcome alone = read(own, text, truncated);
      if (!outcome.calls.empty() || !alone.calls.empty()) continue;
      ++texts;
      EXPECT_EQ(outcome.content, alone.content);
      EXPECT_EQ(outcome.reasoning, alone.reasoning);
    }
  }
  EXPECT_GT(calls, 50U);
  EXPECT_GT(texts, 300U);
}

}  // namespace
}  // namespace tenon::format
