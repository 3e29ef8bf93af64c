#include "tenon/format/stream_parser.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/format/format.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

using message::ChatEvent;

ParseOptions with_tools() {
  return {.tools = {"get_weather", "get_time", "write_file"}};
}

Outcome parse_whole(const std::shared_ptr<const Format>& format, std::string_view text) {
  StreamParser parser(format, with_tools());
  return outcome_of(events_of(parser, text, text.size()));
}

struct StreamParserRow {
  std::string_view name;
  std::string_view text;
  Outcome outcome;
};

void PrintTo(const StreamParserRow& row, std::ostream* os) {
  *os << row.name;
}

const StreamParserRow kHermes[] = {
    {"ContentOnly", "Words, {\"json\": 1} and < signs.", {"Words, {\"json\": 1} and < signs."}},
    {"Nothing", "", {}},
    {"SpaceOnly", " \n ", {" \n "}},
    {"LookAlikes",
     "write <t or <tool or <tool_call or </tool_call> so",
     {"write <t or <tool or <tool_call or </tool_call> so"}},
    {"Call",
     "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"NoSpaceAtAll",
     R"(<tool_call>{"name":"get_time","arguments":{"a":1}}</tool_call>)",
     {"", "", {{"get_time", R"({"a":1})"}}, {false}}},
    {"ArgumentsKeepTheirBytes",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": { \"a\" :\n1.50 } }</tool_call>",
     {"", "", {{"get_time", "{ \"a\" :\n1.50 }"}}, {false}}},
    {"ProseBeforeKeepsItsSpace",
     "Let me see.\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {"Let me see.\n", "", {{"get_time", "{}"}}, {false}}},
    {"ProseAfterKeepsItsSpace",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>\nDone.",
     {"\nDone.", "", {{"get_time", "{}"}}, {false}}},
    {"SpaceBetweenMarkersIsNoContent",
     "\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>\n\n"
     "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"c\": \"P\"}}</tool_call>\n",
     {"", "", {{"get_time", "{}"}, {"get_weather", R"({"c": "P"})"}}, {false, false}}},
    {"ProseBetween",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call> and "
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {" and ", "", {{"get_time", "{}"}, {"get_time", "{}"}}, {false, false}}},
    {"EndMarkerInString",
     R"(<tool_call>{"name": "write_file", "arguments": {"c": "a</tool_call>b"}}</tool_call>)",
     {"", "", {{"write_file", R"({"c": "a</tool_call>b"})"}}, {false}}},
    {"ArgumentsBeforeName",
     R"(<tool_call>{"arguments": {"a": "}{"}, "name": "get_time"}</tool_call>)",
     {"", "", {{"get_time", R"({"a": "}{"})"}}, {false}}},
    {"OtherKeysAreSkipped",
     R"(<tool_call>{"type": "function", "x": [1, {"name": 2}], "name": "get_time", "arguments": {}, "y": 3}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}, {"ignored_member"}}},
    {"TypeIsNoLoss",
     R"(<tool_call>{"type": "function", "name": "get_time", "arguments": {}}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"ArgumentsBesideTheName",
     R"(<tool_call>{"name": "get_time", "location": "Paris"}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}, {"ignored_member"}}},
    {"ArgumentsTwice",
     R"(<tool_call>{"name": "get_time", "arguments": {}, "arguments": {"a": 1}}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}, {"ignored_member"}}},
    {"OpenAiWrapper",
     R"(<tool_call>{"type": "function", "function": {"name": "get_time", "arguments": {"a": 1}}}</tool_call>)",
     {"", "", {{"get_time", R"({"a": 1})"}}, {false}}},
    {"EscapedName",
     R"(<tool_call>{"name": "get\u005ftime", "arguments": {}}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"NoArguments",
     R"(<tool_call>{"name": "get_time"}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"NullArguments",
     R"(<tool_call>{"name": "get_time", "arguments": null}</tool_call>)",
     {"", "", {{"get_time", "{}"}}, {false}, {"mended_arguments"}}},
    {"ArgumentsAsText",
     R"(<tool_call>{"name": "get_time", "arguments": "{\"a\": \"x\\ny\"}"}</tool_call>)",
     {"", "", {{"get_time", R"({"a": "x\ny"})"}}, {false}, {"mended_arguments"}}},
    {"ArgumentsAsOtherText",
     R"(<tool_call>{"name": "get_time", "arguments": "now"}</tool_call>)",
     {"", "", {{"get_time", R"("now")"}}, {false}}},
    {"LineBreakInString",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>",
     {"", "", {{"get_time", R"({"a": "x\ny"})"}}, {false}, {"mended_arguments"}}},
    {"UnknownToolStaysContent",
     "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
     {"<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
      "",
      {},
      {},
      {"unknown_tool"}}},
    {"CallAfterUnknownTool",
     "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>"
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {"<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
      "",
      {{"get_time", "{}"}},
      {false},
      {"unknown_tool"}}},
    {"MarkerWithoutCall",
     "The tag <tool_call> begins a call.",
     {"The tag <tool_call> begins a call.", "", {}, {}, {"broken_call"}}},
    {"CallRightAfterABrokenOne",
     "<tool_call><tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {"<tool_call>", "", {{"get_time", "{}"}}, {false}, {"broken_call"}}},
    {"CallInsideABrokenOne",
     "<tool_call>{\"nam <tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {"<tool_call>{\"nam ", "", {{"get_time", "{}"}}, {false}, {"broken_call"}}},
    {"SpoiltArgumentsAreClosed",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": [1, oops}}</tool_call> So.)",
     {", oops}} So.", "", {{"get_time", R"({"a": [1]})"}}, {false}, {"spoilt_call"}}},
    {"FrameThatBreaksIsKept",
     R"x(<tool_call>{"name": "get_time", "arguments": {"a": 1} , oops}</tool_call> So.)x",
     {", oops} So.", "", {{"get_time", R"({"a": 1})"}}, {false}, {"spoilt_call"}}},
    {"FrameThatBreaksBehindAKey",
     R"x(<tool_call>{"name": "get_time", "arguments": {}, "k\u0041"  no}</tool_call>)x",
     {R"(, "k\u0041"  no})", "", {{"get_time", "{}"}}, {false}, {"spoilt_call"}}},
    {"FrameThatBreaksInAValue",
     R"x(<tool_call>{"name": "get_time", "arguments": {}, "k": [1, no]}</tool_call>)x",
     {R"(, "k": [1, no]})", "", {{"get_time", "{}"}}, {false}, {"spoilt_call", "ignored_member"}}},
    {"TextBehindAWholeCallWithoutItsBrace",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": 1}, "I forgot. It is 42)",
     {R"(, "I forgot. It is 42)", "", {{"get_time", R"({"a": 1})"}}, {false}, {"unclosed_call"}}},
    {"AMemberWithoutAValue",
     R"x(<tool_call>{"name": "get_time", "arguments": {"a": 1, "b":</tool_call> So.)x",
     {R"(, "b": So.)", "", {{"get_time", R"({"a": 1})"}}, {false}, {"spoilt_call"}}},
    {"AnInnerMemberWithoutAValue",
     R"x(<tool_call>{"name": "get_time", "arguments": {"a": {"b" : }}}</tool_call> So.)x",
     {R"("b" : }}} So.)", "", {{"get_time", R"({"a": {}})"}}, {false}, {"spoilt_call"}}},
    {"TheTextEndsBehindAName",
     R"x(<tool_call>{"name": "get_time", "arguments": {"a": 1, "b")x",
     {R"(, "b")", "", {{"get_time", R"({"a": 1})"}}, {true}, {"incomplete_call"}}},
    {"TheTextEndsInANumber",
     R"x(<tool_call>{"name": "get_time", "arguments": {"a": 12)x",
     {"", "", {{"get_time", R"({"a": 12})"}}, {true}, {"incomplete_call"}}},
    {"CodedArgumentsThatBreakAtASpace",
     R"x(<tool_call>{"name": "get_time", "arguments": "{\"a\": - "}</tool_call>)x",
     {R"("a": - "})", "", {{"get_time", "{}"}}, {false}, {"spoilt_call", "mended_arguments"}}},
    {"CodedArgumentsThatBreakInAWord",
     R"x(<tool_call>{"name": "get_time", "arguments": "{\"a\": tru "}</tool_call>)x",
     {R"("a": tru "})", "", {{"get_time", "{}"}}, {false}, {"spoilt_call", "mended_arguments"}}},
    {"MissingBrace",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": 1}</tool_call> So.)",
     {" So.", "", {{"get_time", R"({"a": 1})"}}, {false}, {"spoilt_call"}}},
    {"ExtraBrace",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": 1}}}</tool_call> So.)",
     {" So.", "", {{"get_time", R"({"a": 1})"}}, {false}, {"stray_marker"}}},
    {"ExtraBraceAndWords",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": 1}}} x</tool_call> So.)",
     {"} x So.", "", {{"get_time", R"({"a": 1})"}}, {false}}},
    {"NoEndMarker",
     R"(<tool_call>{"name": "get_time", "arguments": {"a": 1}})",
     {"", "", {{"get_time", R"({"a": 1})"}}, {false}}},
    {"NoEndMarkerProse",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}\nSo.",
     {"\nSo.", "", {{"get_time", "{}"}}, {false}}},
    {"Reasoning",
     "<think>\nI might say {\"name\": 1}.\n</think>\n\nHello.",
     {"Hello.", "I might say {\"name\": 1}."}},
    {"ReasoningThenCall",
     "<think>\nHm.\n</think>\n\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     {"", "Hm.", {{"get_time", "{}"}}, {false}}},
    {"CallInReasoningIsReasoning",
     "<think>Try <tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call></think>x",
     {"x", "Try <tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>"}},
    {"ThinkInProseIsProse", "I wrote <think> once.", {"I wrote <think> once."}},
    {"InvalidUtf8IsReplaced", "a\xC3(\xF0\x9F\x98 b", {"a\uFFFD(\uFFFD b"}},
    {"Utf8",
     "é <tool_call>{\"name\": \"get_time\", \"arguments\": {\"c\": \"東京 😀\"}}</tool_call>",
     {"é ", "", {{"get_time", "{\"c\": \"東京 😀\"}"}}, {false}}},
};

// Rules that hermes does not exercise, each in a definition of its own.
struct RuleRow {
  std::string_view name;
  std::string_view definition;
  std::string_view text;
  Outcome outcome;
};

void PrintTo(const RuleRow& row, std::ostream* os) {
  *os << row.name;
}

constexpr std::string_view kBare = R"(
name = "t"
[[syntax]]
call = "${object}"
separator = "; "
hold = "call"
needs_tools = true
)";
constexpr std::string_view kArray = R"(
name = "t"
[[syntax]]
open = "[CALLS]${-}["
call = "${object}"
separator = ", "
close = "]"
[[syntax]]
call = "[CALLS]${name}[ARGS]${arguments}"
[content]
drop = ["<eot>"]
)";
constexpr std::string_view kSection = R"(
name = "t"
[id]
holds_name = true
name_before = "functions."
name_after = ":"
[reasoning]
open = ["<think>"]
close = ["</think>"]
ends_with_call = true
[[syntax]]
open = "<calls>"
call = "<call>${id}<args>${arguments}</call>"
close = "</calls>"
section_optional = true
)";
constexpr std::string_view kBraces = R"(
name = "t"
[reasoning]
open = ["<think>"]
close = ["</think>"]
[[syntax]]
call = "<tool_call>\n${object}\n</tool_call>"
)";
constexpr std::string_view kLineBefore = R"(
name = "t"
[[syntax]]
call = "\n<call>${object}</call>"
)";
constexpr std::string_view kBrackets = R"(
name = "t"
[[syntax]]
open = "[[CALLS]] ["
call = "${object}"
separator = ", "
close = "] [[END]]"
)";
constexpr std::string_view kPython = R"(
name = "t"
[[syntax]]
open = "["
call = "${name}${keywords}"
separator = ", "
close = "]"
)";
constexpr std::string_view kShort = R"(
name = "t"
[[syntax]]
call = ">>> ${name}${keywords}<<<"
)";
constexpr std::string_view kTags = R"(
name = "t"
[[syntax]]
call = "<call>\n<f=${name}>\n${parameters}</f>\n</call>"
parameter = "<p=${key}>\n${value}\n</p>\n"
quote_open = "<![CDATA["
quote_close = "]]>"
)";
constexpr std::string_view kTypes = R"(
name = "t"
[[syntax]]
call = "<f=${name}>${parameters}</f>"
parameter = "<p=${key}:${type:text|json}>${value}</p>"
)";
constexpr std::string_view kTextIsMarked = R"(
name = "t"
[[syntax]]
call = "<f=${name}>${parameters}</f>"
parameter = "<p '${key}'${type: text|}>${value}</p>"
)";

const RuleRow kRules[] = {
    {"BareCall",
     kBare,
     R"(So: {"name": "get_time", "arguments": {"a": {}}}; {"name": "get_time", "arguments": {}} end)",
     {"So:  end", "", {{"get_time", R"({"a": {}})"}, {"get_time", "{}"}}, {false, false}}},
    {"BareOtherObject", kBare, R"({"json": 1} and {)", {R"({"json": 1} and {)"}},
    {"BareMalformed",
     kBare,
     R"({"name": "get_time", "arguments": {"a": }})",
     {R"({"name": "get_time", "arguments": {"a": }})"}},
    {"BareCutInAString",
     kBare,
     R"(So: {"name": "get_time", "arguments": {"a": "b)",
     {"So: ", "", {{"get_time", R"({"a": "b"})"}}, {true}, {"incomplete_call"}}},
    {"BareWithoutLastBrace",
     kBare,
     R"({"name": "get_time", "arguments": {"a": 1})",
     {"", "", {{"get_time", R"({"a": 1})"}}, {false}, {"unclosed_call"}}},
    {"BareCutBeforeItsArguments",
     kBare,
     R"({"name": "get_time", "arguments")",
     {R"({"name": "get_time", "arguments")"}},
    {"BareNameAlone",
     kBare,
     R"(The tool {"name": "get_time"} is mine.)",
     {R"(The tool {"name": "get_time"} is mine.)"}},
    {"BareUnknown",
     kBare,
     R"({"name": "other", "arguments": {}})",
     {R"({"name": "other", "arguments": {}})", "", {}, {}, {"near_miss"}}},
    {"BareInsideOther",
     kBare,
     R"({"x": {"name": "get_time", "arguments": {}}})",
     {R"({"x": })", "", {{"get_time", "{}"}}, {false}}},
    {"Array",
     kArray,
     R"([CALLS] [{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {"a": 1}}]<eot>)",
     {"", "", {{"get_time", "{}"}, {"get_weather", R"({"a": 1})"}}, {false, false}}},
    {"ArrayThenProseWithBrackets",
     kArray,
     R"([CALLS][{"name": "get_time", "arguments": {}}] see [1], {2})",
     {" see [1], {2}", "", {{"get_time", "{}"}}, {false}}},
    {"OneMarkerTwoSyntaxes",
     kArray,
     R"([CALLS]get_time[ARGS]{"a": 1}[CALLS]get_weather[ARGS]{})",
     {"", "", {{"get_time", R"({"a": 1})"}, {"get_weather", "{}"}}, {false, false}}},
    {"ShortMarkerInsideTheNext",
     kBrackets,
     R"([[CALLS]] [{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {}}] [[END]] [1])",
     {" [1]", "", {{"get_time", "{}"}, {"get_weather", "{}"}}, {false, false}}},
    {"UnknownInsideASection",
     kArray,
     R"([CALLS][{"name": "get_time", "arguments": {}}, {"name": "x", "arguments": {}}])",
     {R"( {"name": "x", "arguments": {}}])", "", {{"get_time", "{}"}}, {false}, {"unknown_tool"}}},
    {"IdHoldsName",
     kSection,
     "<calls><call>functions.get_time:0<args>{}</call><call>functions.get_weather:1<args>{}</"
     "call></calls>.",
     {".", "", {{"get_time", "{}"}, {"get_weather", "{}"}}, {false, false}}},
    {"CallWithoutSection",
     kSection,
     "<call>functions.get_time:0<args>{}</call>",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"CallEndsReasoning",
     kSection,
     "<think>Hm. <calls><call>functions.get_time:0<args>{}</call></calls>",
     {"", "Hm.", {{"get_time", "{}"}}, {false}}},
    {"PythonCalls",
     kPython,
     "Look: [get_time(a=1), get_weather(c='x')] there [1]",
     {"Look:  there [1]",
      "",
      {{"get_time", R"({"a": 1})"}, {"get_weather", R"({"c": "x"})"}},
      {false, false}}},
    {"PythonWordsAreNoMistake",
     kPython,
     "[get_time(a=True, b=[None, False,], )]",
     {"", "", {{"get_time", R"({"a": true, "b": [null, false]})"}}, {false}}},
    {"PythonLookAlikes",
     kPython,
     "[get_time] [see(1)] [get_time (now)] [get_time(now)]",
     {"[get_time] [see(1)] [get_time (now)] [get_time(now)]", "", {}, {}, {"near_miss"}}},
    {"PythonValueThatIsNone",
     kPython,
     "[get_time(a=1, b=foo(1)), get_time(a={1: 'x', 2: 'y'}), get_time(b=1, 2)]",
     {", \"b\": foo(1)), get_time(a={1: 'x', 2: 'y'}), get_time(b=1, 2)]",
      "",
      {{"get_time", R"({"a": 1})"}},
      {false},
      {"spoilt_call"}}},
    {"PythonKeysThatAreNumbers",
     kPython,
     "[get_time(a={1: 'x', 2: 'y'})]",
     {"", "", {{"get_time", R"({"a": {"1": "x", "2": "y"}})"}}, {false}}},
    {"PythonPositionalBehindAKeyword",
     kPython,
     "[get_time(a=1, b)]",
     {", b)]", "", {{"get_time", R"({"a": 1})"}}, {false}, {"spoilt_call"}}},
    {"PythonPositionalBehindAShortMarker",
     kShort,
     ">>> get_time(1, 2)<<< >>> see(1)<<<",
     {">>> get_time(1, 2)<<< >>> see(1)<<<", "", {}, {}, {"broken_call", "near_miss"}}},
    {"ArgumentsThatAreNoWord",
     kBraces,
     "<tool_call>{\"name\": \"get_time\", \"arguments\": trust}</tool_call>",
     {"trust}", "", {{"get_time", "{}"}}, {false}, {"spoilt_call"}}},
    {"ParametersWithoutSchema",
     kTags,
     "<call>\n<f=get_time>\n<p=a>\nx \"y\" \\\n</p>\n<p=b>\n[1, "
     "2.50]\n</p>\n<p=c>\nTrue\n</p>\n</f>\n</call>",
     {"", "", {{"get_time", R"({"a": "x \"y\" \\", "b": [1, 2.50], "c": true})"}}, {false}}},
    {"NoParameters",
     kTags,
     "<call><f=get_time></f></call>",
     {"", "", {{"get_time", "{}"}}, {false}}},
    {"ValueHoldsItsEndMarker",
     kTags,
     "<call><f=get_time><p=a>say </p> now</p></f></call>",
     {"", "", {{"get_time", R"({"a": "say </p> now"})"}}, {false}}},
    {"ValueInQuotes",
     kTags,
     "<call><f=get_time><p=a><![CDATA[</p></f>]]></p></f></call>",
     {"", "", {{"get_time", R"({"a": "</p></f>"})"}}, {false}}},
    {"OuterMarkerAlone",
     kTags,
     "<call><f=get_time><p=a>1</p></call>.",
     {".", "", {{"get_time", R"({"a": 1})"}}, {false}}},
    {"ParameterTwice",
     kTags,
     "<call><f=get_time><p=s>a</p><p=t>a</p><p=s>b</p></f></call>",
     {"", "", {{"get_time", R"({"s": "a", "t": "a", "s": "b"})"}}, {false}, {"repeated_key"}}},
    {"SpoiltParameters",
     kTags,
     "<call><f=get_time>\noops</call>.",
     {"oops.", "", {{"get_time", "{}"}}, {false}, {"spoilt_call"}}},
    {"SpoiltParameterHead",
     kTags,
     "<call><f=get_time><p=a>1</p><q=b>2</q></f></call>",
     {"", "", {{"get_time", R"({"a": "1</p><q=b>2</q>"})"}}, {false}, {"mended_arguments"}}},
    {"MarkersInStringsOfTypedParameters",  // no schema says what they are, but their type does
     kTypes,
     R"(<f=get_time><p=a:json>"</p></f>"</p><p=b:json>["</p></f>"]</p><p=c:text>"</p></f>.)",
     {".", "", {{"get_time", R"({"a": "</p></f>", "b": ["</p></f>"], "c": "\""})"}}, {false}, {}}},
    {"MarkersInStringsWhereOnlyTextIsMarked",
     kTextIsMarked,
     R"(<f=get_time><p 'a'>"</p></f>"</p><p 'b'>["</p></f>"]</p><p 'c' text>"</p></f>.)",
     {".", "", {{"get_time", R"({"a": "</p></f>", "b": ["</p></f>"], "c": "\""})"}}, {false}, {}}},
    {"TextWhereAWordBelongs",
     "name = 't'\n[[syntax]]\ncall = '<c>${skip:function}<n>${name}<a>${arguments}</c>'",
     "<c>function<n>get_time<a>{}</c><c>\nfunction <n>get_time<a>{}</c><c><n>get_time<a>{}</c>"
     "<c>Let me see.<n>get_time<a>{}</c>",
     {"",
      "",
      {{"get_time", "{}"}, {"get_time", "{}"}, {"get_time", "{}"}, {"get_time", "{}"}},
      {false, false, false, false},
      {"ignored_member"}}},
    {"AnotherNameWhereItComesAgain",
     "name = 't'\n[[syntax]]\ncall = '<c>${name}<e>${name}<a>${arguments}</c>'",
     "<c>get_time<e>get_time<a>{}</c><c>get_time<e>get_weather<a>{}</c>",
     {"", "", {{"get_time", "{}"}, {"get_time", "{}"}}, {false, false}, {"ignored_member"}}},
    {"OpenStringOfATypedParameter",
     kTypes,
     "<f=get_time><p=a:json>\"x\n</p><p=b:json>1</p></f>.",
     {".", "", {{"get_time", R"({"a": "\"x\n", "b": 1})"}}, {false}, {}}},
};

class Rules : public ::testing::TestWithParam<RuleRow> {};

TEST_P(Rules, AreTheSameHoweverTheyAreCut) {
  const auto format = compile(GetParam().definition, "test");
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(parse(*format, GetParam().text, with_tools()), GetParam().outcome) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(Table, Rules, ::testing::ValuesIn(kRules),
                         [](const auto& test) { return std::string(test.param.name); });

// One row per kind of schema: the same raw value, as the schema reads it.
TEST(StreamParser, TypesParametersByTheSchema) {
  const struct {
    std::string_view schema;
    std::string_view raw;
    std::string_view json;
  } rows[] = {
      {R"({"type": "string"})", "3.10", R"("3.10")"},
      {R"({"type": "string"})", "true", R"("true")"},
      {R"({"type": "string"})", " a\tb\n", "\" a\\tb\\n\""},
      {R"({"type": "string"})", std::string_view("\0a\0\x01\x1b\x7f\0", 7),
       "\"\\u0000a\\u0000\\u0001\\u001b\x7f\\u0000\""},
      {R"({})", std::string_view("[\0]", 3), R"("[\u0000]")"},
      {R"({"enum": ["1", "2"]})", "1", R"("1")"},
      {R"({"type": ["string", "null"]})", "null", "null"},
      {R"({"type": ["string", "null"]})", "12", R"("12")"},
      {R"({"type": ["string", "null"]})", R"("null")", R"("null")"},
      {R"({"type": ["string", "null"]})", R"("a" b)", R"("\"a\" b")"},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "12", "12"},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "null", R"("null")"},
      {R"({"type": "integer"})", "12345678901234567890", "12345678901234567890"},
      {R"({"type": "integer"})", "twelve", R"("twelve")"},
      {R"({"type": "boolean"})", "False", "false"},
      {R"({"type": "object"})", R"({"a": [1]})", R"({"a": [1]})"},
      // In a string of what is JSON nothing is a marker; what is no JSON has no strings.
      {R"({"type": "array"})", R"(["</p></f></call>", "\"</p></f>"])",
       R"(["</p></f></call>", "\"</p></f>"])"},
      {R"({"type": "object"})", R"({"</p></f>": "</p><p=b>"})", R"({"</p></f>": "</p><p=b>"})"},
      {R"({"type": "array"})", R"(["x)", R"("[\"x")"},
      {R"({"type": "array"})", R"(['x"y'])", R"(["x\"y"])"},
      {R"({"type": "integer"})", R"(say "x)", R"("say \"x")"},
      {R"({"$ref": "#/$defs/text"})", "12", R"("12")"},
      {R"({"allOf": [{"$ref": "#/$defs/text"}, {}]})", "12", R"("12")"},
      {R"({"$ref": "#/$defs/nothing"})", "12", "12"},
      {R"({"$ref": "#/$defs/any", "type": "string"})", "12", R"("12")"},
      {R"({"$ref": "#/properties/k"})", "12", "12"},
      {R"({"const": "12"})", "12", R"("12")"},
      {R"({})", "12", "12"},
      {R"({})", R"("quoted")", R"("quoted")"},
      {R"({})", "words", R"("words")"},
  };
  const auto format = compile(kTags, "test");
  ASSERT_TRUE(format);
  for (const auto& row : rows) {
    ParseOptions options{.tools = {"f"}};
    const std::string schema =
        R"({"type": "object", "$defs": {"text": {"type": "string"}, "any": {}}, "properties": {"k": )" +
        std::string(row.schema) + "}}";
    options.schemas.push_back(*json::parse(schema));
    const std::string text =
        "<call>\n<f=f>\n<p=k>\n" + std::string(row.raw) + "\n</p>\n</f>\n</call>";
    const Outcome outcome = parse(*format, text, options);
    ASSERT_EQ(outcome.calls.size(), 1U);
    EXPECT_EQ(outcome.calls[0].second, R"({"k": )" + std::string(row.json) + "}") << row.schema;
  }
}

constexpr std::string_view kElements = R"(name = "elements"
[[syntax]]
call = '[<f n="${name}">${-}${parameters}[</f>'
parameter = '[<${key}>${value}[</${key}>'
item = "item"
entities = true
)";

// What an element is, text or elements, an object or an array, the schema says, or what is in it.
TEST(StreamParser, ElementsMayHoldElements) {
  const struct {
    std::string_view schema;
    std::string_view raw;
    std::string_view json;
  } rows[] = {
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})",
       "[<a>1[</a>[<b>2[</b>", R"({"a": 1, "b": "2"})"},
      {R"({"type": "array", "items": {"type": "string"}})", "[<item>1[</item>[<item>x[</item>",
       R"(["1", "x"])"},
      {R"({"type": "array", "items": {"$ref": "#/$defs/pair"}})",
       "\n[<item>[<l>1[</l>[<r>[<l>2[</l>[</r>[</item>", R"([{"l": "1", "r": {"l": "2"}}])"},
      {R"({"$ref": "#/$defs/base", "properties": {"a": {"type": "string"}}})",
       "[<a>1[</a>[<b>2[</b>", R"({"a": "1", "b": "2"})"},
      {R"({"type": "string"})", "[<a>1[</a>", R"("[<a>1[</a>")"},
      {R"({"type": ["string", "object"]})", "[<a>1[</a>", R"({"a": 1})"},
      {R"({"type": ["string", "object"]})", "a [<", R"("a [<")"},
      {R"({"type": "object"})", "", "{}"},
      {R"({"type": "array"})", "", "[]"},
      {R"({"type": "object"})", R"({"a": [1]})", R"({"a": [1]})"},
      {R"({"type": "integer"})", "[<a>1[</a>", R"("[<a>1[</a>")"},
      {R"({})", "[<a>1[</a>[<item>x[</item>", R"({"a": 1, "item": "x"})"},
      {R"({})", "[<item>1[</item>[<item>[<a>x[</a>[</item>", R"([1, {"a": "x"}])"},
      {R"({})", "[<a>1[</b>[<c>2[</a>", R"({"a": 1, "c": 2})"},  // any name ends an unknown element
      {R"({})", "[<a>[</a>", R"({"a": ""})"},
  };
  const auto format = compile(kElements, "test");
  ASSERT_TRUE(format) << format.error().message;
  for (const auto& row : rows) {
    ParseOptions options{.tools = {"f"}};
    const std::string schema = R"({"type": "object", "$defs": {"base": {"type": "object",
        "properties": {"b": {"type": "string"}}}, "pair": {"type": "object",
        "properties": {"l": {"type": "string"}, "r": {"$ref": "#/$defs/pair"}}}},
        "properties": {"k\"&": )" +
                               std::string(row.schema) + "}}";
    options.schemas.push_back(*json::parse(schema));
    const std::string text =
        R"([<f n="f"> [<k&quot;&amp;>)" + std::string(row.raw) + "[</k&quot;&amp;>[</f>.";
    const Outcome outcome = parse(*format, text, options);
    ASSERT_EQ(outcome.calls.size(), 1U) << row.raw;
    EXPECT_EQ(outcome.calls[0].second, R"({"k\"&": )" + std::string(row.json) + "}") << row.raw;
    EXPECT_EQ(outcome.content, ".") << row.raw;
  }
}

// What has become an argument is not content as well.
TEST(StreamParser, ElementsThatEndEarly) {
  const std::string many(300, 'k');
  const struct {
    std::string text;
    std::string arguments;
    std::string content;
  } rows[] = {
      {"[<o>", R"({"o": {}})", ""},
      {"[<o> [", R"({"o": " ["})", ""},
      {"[<o>[<k", R"({"o": {}})", "[<k"},
      {"[<o>[<k>1[</k>[<l", R"({"o": {"k": 1}})", "[<l"},
      {"[<o>[<l>[<m", R"({"o": {"l": {}}})", "[<m"},
      {"[<" + many + ">1[</" + many + ">[</f>", "{\"" + many + "\": 1}", ""},
  };
  const auto format = compile(kElements, "test");
  ASSERT_TRUE(format) << format.error().message;
  ParseOptions options{.tools = {"f"}};
  options.schemas.push_back(*json::parse(
      R"({"type": "object", "properties": {"o": {"type": "object", "properties":
          {"k": {"type": "integer"}, "l": {"type": "object"}}}}})"));
  for (const auto& row : rows) {
    const Outcome outcome = parse(*format, R"([<f n="f">)" + row.text, options);
    ASSERT_EQ(outcome.calls.size(), 1U) << row.text;
    EXPECT_EQ(outcome.calls[0].second, row.arguments) << row.text;
    EXPECT_EQ(outcome.content, row.content) << row.text;
  }
}

class Hermes : public ::testing::TestWithParam<StreamParserRow> {};

TEST_P(Hermes, IsTheSameHoweverItIsCut) {
  EXPECT_EQ(parse(find("hermes"), GetParam().text, with_tools()), GetParam().outcome)
      << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(Table, Hermes, ::testing::ValuesIn(kHermes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(StreamParser, CutAnywhereInsideACallKeepsWhatWasSent) {
  constexpr std::string_view kText =
      R"(Hi. <tool_call>{"name": "get_time", "arguments": {"a": "b\n", "c": [1.5, true]}}</tool_call>)";
  for (std::size_t size = 0; size <= kText.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string_view text = kText.substr(0, size);
    const Outcome outcome = parse(find("hermes"), text, with_tools(), /*truncated=*/true);
    if (outcome.calls.empty()) {
      EXPECT_EQ(outcome.content, text) << "no call, so every byte is content";
      continue;
    }
    EXPECT_EQ(outcome.content, "Hi. ");
    EXPECT_EQ(outcome.calls[0].first, "get_time");
    const std::string& arguments = outcome.calls[0].second;
    EXPECT_NE(kText.find(arguments), std::string_view::npos) << arguments;
    EXPECT_EQ(outcome.incomplete[0], !json::parse(arguments)) << arguments;
  }
}

// What a call's frame may have there is frame; anything else is told as all that does not belong.
TEST(StreamParser, AKeyThatIsCutIsContentUnlessACallMayHaveIt) {
  const std::string begin = R"(<tool_call>{"name": "get_time")";
  const std::string whole = begin + R"(, "arguments": {})";
  const struct {
    std::string text;
    std::string_view content;
  } rows[] = {{begin, ""},
              {begin + R"(, "argu)", ""},
              {begin + R"(, "parameters" )", ""},
              {begin + R"(, "ty)", ""},
              {begin + R"(, "other)", R"(, "other)"},
              {begin + R"(, "other": )", R"(, "other": )"},
              {whole + R"(, "i)", ""},
              {whole + R"(, "other)", R"(, "other)"}};
  for (const auto& row : rows) {
    const Outcome outcome = parse(find("hermes"), row.text, with_tools(), /*truncated=*/true);
    EXPECT_EQ(outcome.content, row.content) << row.text;
    EXPECT_EQ(outcome.calls.size(), 1U) << row.text;
  }
}

// The same call cut at every byte, in each of the ways in which arguments are written.
TEST(StreamParser, WhateverIsCutTheArgumentsAreOrBeginJson) {
  const struct {
    std::string_view definition;
    std::string_view text;
  } rows[] = {
      {kBraces,
       R"(<tool_call>{"name": "get_time", "arguments": {"a": "b\n\u00e9\ud83d\ude00\d", "c": [1.5e-7, true, nul], "d": {}}}</tool_call>)"},
      {kBraces,
       R"(<tool_call>{"name": "get_time", "arguments": {"n": -12, "m": [1, 2,], "w": None, "f": False}}</tool_call>)"},
      {kBraces,
       R"(<tool_call>{"name": "get_time", "arguments": "{\"a\": \"x\\ny\", \"b\": [true, 12]}"}</tool_call>)"},
      {kBraces, R"(<tool_call>{"name": "get_time", "arguments": "now \u00e9"}</tool_call>)"},
      {kTags,
       "<call>\n<f=get_time>\n<p=a>\nx \"y\" \\\n</p>\n<p=b>\n{\"c\": [1, \"\\u00e9\", "
       "2.50]}\n</p>\n<p=c>\nTrue\n</p>\n<p=d>\n\"q\n</p></f>\n</call>"},
      {kPython, R"([get_time(a=1, b='x\'\x41', c=[1, (2, None)], d={'k': True})])"},
  };
  for (const auto& row : rows) {
    const auto format = compile(row.definition, "test");
    ASSERT_TRUE(format) << format.error().message;
    for (std::size_t size = 0; size <= row.text.size(); ++size) {
      const std::string_view text = row.text.substr(0, size);
      StreamParser parser(*format, with_tools());
      for (const auto& call : outcome_of(events_of(parser, text, size + 1)).calls) {
        ASSERT_TRUE(json::parse(call.second)) << text << " -> " << call.second;
      }
      parser.reset();
      for (const auto& call : outcome_of(events_of(parser, text, size + 1, true)).calls) {
        JsonFilter filter;
        std::string copy;
        ASSERT_EQ(filter.feed(call.second, copy), call.second.size())
            << text << " -> " << call.second;
      }
    }
  }
}

// Wherever an answer breaks off, the next one is read as by a new parser.
TEST(StreamParser, ResetForgetsTheAnswer) {
  const struct {
    std::string_view definition;
    std::string_view text;
  } rows[] = {
      {kBraces,
       R"(<tool_call>{"name": "other", "arguments": {}}</tool_call> so <tool_call>{"name": "get_time", "arguments": {"a": [1, {"b": "c)"},
      {kTags, "<call>\n<f=get_time>\n<p=a>\nx\n</p>\n<p=b>\n{\"c\": [1,"},
      {kPython, R"([get_time(a=1, b='x'), get_time(c=[1, (2)"},
  };
  for (const auto& row : rows) {
    const auto format = compile(row.definition, "test");
    ASSERT_TRUE(format) << format.error().message;
    StreamParser fresh(*format, with_tools());
    const Outcome expected = outcome_of(events_of(fresh, row.text, row.text.size()));
    StreamParser parser(*format, with_tools());
    std::vector<ChatEvent> unused;
    for (std::size_t size = 0; size <= row.text.size(); ++size) {
      parser.feed(row.text.substr(0, size), /*is_control=*/false, unused);
      parser.reset();
      EXPECT_EQ(outcome_of(events_of(parser, row.text, row.text.size())), expected)
          << row.text.substr(0, size);
      parser.reset();
    }
  }
}

// A model that stops in its arguments, and one that is stopped.
TEST(StreamParser, ArgumentsThatEndEarly) {
  const struct {
    std::string_view definition;
    std::string_view text;
    std::string_view closed;
    std::string_view left_out;
    std::string_view kept;
    std::string_view unfit = "";  // content where the text is cut
  } rows[] = {
      {kBraces, R"({"n": 1,)", R"({"n": 1})", ",", R"({"n": 1,)"},
      {kBraces, R"({"n": [1,)", R"({"n": [1]})", ",", R"({"n": [1,)"},
      {kBraces, R"({"n": tr)", R"({"n": true})", "", R"({"n": tr)"},
      {kBraces, R"({"n": [1, [2], )", R"({"n": [1, [2]]})", ", ", R"({"n": [1, [2], )"},
      {kBraces, R"({"n": [1, nu)", R"({"n": [1, null]})", "", R"({"n": [1, nu)"},
      {kBraces, R"({"s": "a\)", R"({"s": "a\\"})", "", R"({"s": "a\)"},
      {kBraces, R"({"s": "a\u00e)", R"({"s": "a\\u00e"})", "", R"({"s": "a\u00e)"},
      {kBraces, "nul", "null", "", "nul"},
      {kBraces, R"("{\"n\": tr)", R"({"n": true})", "", R"({"n": tr)"},
      {kBraces, R"("{\"n\": 1,\)", R"({"n": 1})", R"(,\)", R"({"n": 1,)", "\\"},
      {kBraces, R"("{\"s\": \"a\u00)", R"({"s": "a\\u00"})", "", R"({"s": "a\u00)"},
      {kBraces, R"("{\"s\": \"a\ud83d)", R"({"s": "a\ufffd"})", "", R"({"s": "a\ud83d)"},
      {kBraces, R"("{}\)", "{}", R"(\)", "{}", "\\"},
      {kBraces, R"("\n )", R"("\n ")", "", R"("\n )"},
      {kTags, "<p=a>12", R"({"a": 12})", "", R"({"a": 12)"},
      {kTags, "<p=a>words of", R"({"a": "words of"})", "", R"({"a": "words of)"},
      {kTags, "<p=a>\n[1, \"x", R"({"a": "[1, \"x"})", "", R"({"a": [1, "x)"},
      {kTags, "<p=a>tr</", R"({"a": "tr</"})", "", R"({"a": "tr</)"},
      {kTags, "<p=a>1</p>", R"({"a": 1})", "", R"({"a": 1)"},
      {kTags, "<p=a>1</p>\n<p=b", R"({"a": 1})", "<p=b", R"({"a": 1, "b)"},
      {kTags, "<p=ab", "{}", "<p=ab", R"({"ab)"},
  };
  for (const auto& row : rows) {
    const auto format = compile(row.definition, "test");
    ASSERT_TRUE(format) << format.error().message;
    const bool is_tags = row.definition == kTags;
    const std::string text =
        (is_tags ? "<call><f=get_time>" : R"(<tool_call>{"name": "get_time", "arguments": )") +
        std::string(row.text);
    Outcome outcome{std::string(row.left_out),
                    "",
                    {{"get_time", std::string(row.closed)}},
                    {true},
                    {"incomplete_call"}};
    if (row.text.starts_with("\"{")) outcome.codes.emplace_back("mended_arguments");
    EXPECT_EQ(parse(*format, text, with_tools()), outcome) << text;
    outcome.content = row.unfit;
    outcome.calls[0].second = row.kept;
    EXPECT_EQ(parse(*format, text, with_tools(), /*truncated=*/true), outcome) << text;
  }
}

// Arguments that are an object written twice, cut at every byte: what was decoded and the escape
// that is open are all there.
TEST(StreamParser, StringsThatHoldObjectsLoseNothingWhereTheyAreCut) {
  const std::string_view head = R"(<tool_call>{"name": "get_time", "arguments": ")";
  const std::string_view coded =
      R"({ \"a\": \"q\\\"\u00e9\ud83d\ude00\\n\\u0041\u005ct\",\n\"b\" : [\u0031, tr\u0075e]})";
  const auto format = compile(kBraces, "test");
  ASSERT_TRUE(format) << format.error().message;
  for (std::size_t cut = 1; cut <= coded.size(); ++cut) {
    std::size_t whole = cut;  // of it, bytes before the open escape
    auto decoded = json::parse('"' + std::string(coded.substr(0, whole)) + '"');
    for (; !decoded; decoded = json::parse('"' + std::string(coded.substr(0, whole)) + '"'))
      --whole;
    const std::string all = *decoded->if_string() + std::string(coded.substr(whole, cut - whole));
    const std::string text = std::string(head) + std::string(coded.substr(0, cut));
    const Outcome kept = parse(*format, text, with_tools(), /*truncated=*/true);
    ASSERT_EQ(kept.calls.size(), 1U) << text;
    EXPECT_EQ(kept.calls[0].second + kept.content, all) << text;
    const Outcome closed = parse(*format, text, with_tools());
    ASSERT_EQ(closed.calls.size(), 1U) << text;
    EXPECT_TRUE(json::parse(closed.calls[0].second)) << text << " -> " << closed.calls[0].second;
  }
}

// What does not fit into a string that holds an object is content, with all bytes of its escape.
TEST(StreamParser, EscapesThatDoNotFitAreContent) {
  const auto format = compile(kBraces, "test");
  ASSERT_TRUE(format) << format.error().message;
  const Outcome outcome = parse(
      *format, R"(<tool_call>{"name": "get_time", "arguments": "{\"a\": 1\u0041 b)", with_tools());
  EXPECT_EQ(outcome, (Outcome{R"("a": 1\u0041 b)",
                              "",
                              {{"get_time", "{}"}},
                              {false},
                              {"spoilt_call", "mended_arguments"}}));
}

// Beyond every limit of what is held, pieces of any size give the same.
TEST(StreamParser, LongTextsAreTheSameHoweverTheyAreCut) {
  const std::string big(200000, 'x');
  const std::string spaces(1525, ' ');
  const std::string gap(3000, ' ');
  std::string retried;  // calls that come to nothing, more of them than may be read again
  for (int i = 0; i < 3000; ++i) retried += "[CALLS]";
  const struct {
    std::string_view name;
    std::string_view definition;
    std::string text;
    bool has_call;
  } rows[] = {
      {"Held", kBare, R"({"name": "get_time", "arguments": {"a": ")" + big + R"("}} end)", true},
      {"HeldAndBroken", kBare, R"({"name": "get_time", "arguments": {"a": ")" + big + R"(" oops)",
       true},
      {"NameComesLate", kBraces,
       R"(<tool_call>{"arguments": {"a": ")" + big + R"("}, "name": "get_time"}</tool_call>)",
       false},
      {"NoName", kBraces, R"(<tool_call>{"x": ")" + big + R"("}</tool_call>)", false},
      {"Retried", kArray, retried + R"([CALLS]get_time[ARGS]{"a": 1})" + retried, false},
      {"RetriedObjects", kBare, std::string(9000, '{') + big, false},
      {"SpaceInReasoning", kBraces, "<think>a" + spaces + "</think>b", false},
      {"SpaceAroundReasoning", kBraces,
       spaces + "<think>" + spaces + "a" + spaces + "b</think>" + spaces + "c" + spaces, false},
      {"SpaceAroundCall", kBraces,
       spaces + R"(<tool_call>{"name": "get_time", "arguments": {}}</tool_call>)" + spaces, true},
      {"SpaceInHead", kTags, "<call><f=get_time><p=s>1</p><p=" + gap + "strXXX tail", true},
      {"SpaceInGap", kTags, "<call><f=get_time><p=s>1</p>" + gap + "<p=str>2</p></f></call>", true},
      {"LongValue", kTags, "<call><f=get_time><p=s>[" + big + "]</p></f></call>", true},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto format = compile(row.definition, "test");
    ASSERT_TRUE(format) << format.error().message;
    StreamParser parser(*format, with_tools());
    const Outcome whole = outcome_of(events_of(parser, row.text, row.text.size()));
    EXPECT_EQ(!whole.calls.empty(), row.has_call);
    for (const std::size_t chunk : {1, 7, 1000}) {
      parser.reset();
      EXPECT_TRUE(outcome_of(events_of(parser, row.text, chunk)) == whole) << "pieces of " << chunk;
    }
  }
}

TEST(StreamParser, AHeadThatDoesNotEndKeepsItsWords) {
  const auto format = find("deepseek_v32");
  ASSERT_NE(format, nullptr);
  const std::string text =
      "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_time\">\n<｜DSML｜parameter "
      "name=\"s\"" +
      std::string(3000, ' ') + "strXXX tail";
  const Outcome outcome = parse_whole(format, text);
  ASSERT_EQ(outcome.calls.size(), 1U);
  EXPECT_EQ(outcome.calls[0].second, "{}");
  EXPECT_TRUE(outcome.content.starts_with("<｜DSML｜parameter name=\"s\" ")) << outcome.content;
  EXPECT_TRUE(outcome.content.ends_with(" strXXX tail")) << outcome.content;
}

TEST(StreamParser, WithoutToolsTextIsContentWhole) {
  for (const StreamParserRow& row : kHermes) {
    if (row.name.starts_with("InvalidUtf8")) continue;
    EXPECT_EQ(parse(find("hermes"), row.text, {.parse_reasoning = false}),
              Outcome{std::string(row.text)});
  }
}

TEST(StreamParser, ReasoningMayBeOpenAlready) {
  const auto run = [](std::string_view tail, std::string_view text) {
    ParseOptions options = with_tools();
    options.prompt_tail = tail;
    return parse(find("hermes"), text, options);
  };
  EXPECT_EQ(run("<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\nYes."),
            (Outcome{"Yes.", "Hm."}));
  EXPECT_EQ(run("<think>\n\n</think>\n\n", "Yes."), (Outcome{"Yes."}));
  EXPECT_EQ(run("<think>\n", "Hm. <think> is a tag </think>"),
            (Outcome{"", "Hm. <think> is a tag"}));
  EXPECT_EQ(run("<think>", "Hm. \n"), (Outcome{"", "Hm. \n"}));
}

TEST(StreamParser, BeginsACallAsSoonAsItsNameIsWhole) {
  StreamParser parser(find("hermes"), with_tools());
  std::vector<ChatEvent> events;
  parser.feed(R"(<tool_call>{"name": "get_time)", false, events);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(parser.call_count(), 0U);
  parser.feed("\"", false, events);
  ASSERT_EQ(events.size(), 1U);
  const auto* begin = std::get_if<message::CallBegin>(&events[0]);
  ASSERT_NE(begin, nullptr);
  EXPECT_EQ(begin->name, "get_time");
  EXPECT_TRUE(begin->id.starts_with("call_") && begin->id.size() == 29) << begin->id;
  EXPECT_EQ(parser.call_count(), 1U);
  events.clear();
  parser.feed(R"(, "arguments": {"a": "long)", false, events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<message::CallArguments>(events[0]).text, R"({"a": "long)");
}

TEST(StreamParser, tool_calling_AnIdThatTheModelRepeatsTellsNoCallsApart) {
  const auto format = compile(kSection, "test");
  ASSERT_TRUE(format) << format.error().message;
  StreamParser parser(*format, with_tools());
  constexpr std::string_view kCall = "<call>functions.get_time:0<args>{}</call>";
  for (int answer = 0; answer < 2; ++answer) {
    const std::string text = "<calls>" + std::string(kCall) + std::string(kCall) + "</calls>";
    message::Fold fold;
    for (const ChatEvent& event : events_of(parser, text, 3)) fold.add(event);
    const auto& calls = fold.message().tool_calls;
    ASSERT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls[0].id, "functions.get_time:0") << "each answer has its own";
    EXPECT_TRUE(calls[1].id.starts_with("call_")) << calls[1].id;
    parser.reset();
  }
}

TEST(StreamParser, ControlMarkersMatchAsControlTokensOnly) {
  ParseOptions options = with_tools();
  options.control_markers = {"<tool_call>", "</tool_call>"};
  constexpr std::string_view kBody = R"({"name": "get_time", "arguments": {}})";
  StreamParser parser(find("hermes"), options);
  std::vector<ChatEvent> events;
  parser.feed("<tool_call>", false, events);
  parser.feed(kBody, false, events);
  parser.finish(false, events);
  EXPECT_EQ(outcome_of(events), (Outcome{"<tool_call>" + std::string(kBody)})) << "spelled out";
  parser.reset();
  events.clear();
  parser.feed("a<tool_", false, events);
  parser.feed("<tool_call>", true, events);
  parser.feed(kBody, false, events);
  parser.feed("</tool_call>", true, events);
  parser.feed("b", false, events);
  parser.finish(false, events);
  EXPECT_EQ(outcome_of(events), (Outcome{"a<tool_b", "", {{"get_time", "{}"}}, {false}}));
}

TEST(StreamParser, ControlMarkersWithSpaceBeforeThemAreControlMarkers) {
  const auto format = compile(kLineBefore, "test");
  ASSERT_TRUE(format) << format.error().message;
  ParseOptions options = with_tools();
  options.control_markers = {"<call>", "</call>"};
  constexpr std::string_view kText = "a\n<call>{\"name\": \"get_time\", \"arguments\": {}}</call>";
  EXPECT_EQ(parse(*format, kText, options), Outcome{std::string(kText)});
  options.control_markers.clear();
  EXPECT_EQ(parse(*format, kText, options).calls.size(), 1U);
}

// Markers that consist of several control tokens, and of words between them.
// What stands behind a call's end in a value is read again, and its control tokens are still known.
TEST(StreamParser, tool_calling_ControlTokensBehindACallsEndInAValue) {
  ParseOptions options{
      .tools = {"get_time", "get_weather"},
      .schemas = {*json::parse("{}"),
                  *json::parse(R"({"properties": {"city": {"type": "string"}}})")}};
  options.control_markers = {"<tool_call>", "</tool_call>"};
  StreamParser parser(find("qwen3_coder"), options);
  std::vector<message::ChatEvent> events;
  const auto feed = [&](std::string_view text) {
    parser.feed(text, text == "<tool_call>" || text == "</tool_call>", events);
  };
  const std::string_view call = "\n<function=get_weather>\n<parameter=city>\nParis\n";
  for (const std::string_view piece :
       {std::string_view("<tool_call>"), call, std::string_view("</tool_call>"),
        std::string_view("\nAnd"), std::string_view(":\n"), std::string_view("<tool_call>"), call,
        std::string_view("</tool_call>"), std::string_view("\nDone.")}) {
    feed(piece);
  }
  parser.finish(false, events);
  const Outcome outcome = outcome_of(events);
  EXPECT_EQ(outcome.calls, (Calls{{"get_weather", R"({"city": "Paris"})"},
                                  {"get_weather", R"({"city": "Paris"})"}}));
  EXPECT_EQ(outcome.content, "\nAnd:\n\nDone.");
}

TEST(StreamParser, MarkersGoAcrossControlTokens) {
  constexpr std::string_view kMessages = R"(name = "messages"
special = ["<|c|>", "<|m|>", "<|e|>"]
[reasoning]
open = ["<|c|>think<|m|>"]
close = ["<|e|>"]
[content]
open = ["<|c|>say<|m|>"]
[[syntax]]
call = "<|c|>call ${name}<|m|>${arguments}<|e|>"
)";
  const auto format = compile(kMessages, "test");
  ASSERT_TRUE(format) << format.error().message;
  using Pieces = std::vector<std::pair<std::string_view, bool>>;
  const struct {
    const char* name;
    Pieces pieces;
    Outcome outcome;
  } rows[] = {
      {"Tokens",
       {{"<|c|>", true},
        {"think", false},
        {"<|m|>", true},
        {"a", false},
        {"<|e|>", true},
        {"<|c|>", true},
        {"say", false},
        {"<|m|>", true},
        {"b", false},
        {"<|c|>", true},
        {"call get_", false},
        {"time", false},
        {"<|m|>", true},
        {"{}", false},
        {"<|e|>", true}},
       {"b", "a", {{"get_time", "{}"}}, {false}}},
      {"SpelledOut",
       {{"<|c|>say<|m|>", false}, {"b <|c|>call get_time<|m|>{}<|e|>", false}},
       {"<|c|>say<|m|>b <|c|>call get_time<|m|>{}<|e|>"}},
      {"HalfSpelledOut", {{"<|c|>", true}, {"say<|m|>", false}, {"b", false}}, {"<|c|>say<|m|>b"}},
      {"TokenInsideText",
       {{"x<|", false}, {"<|c|>", true}, {"say", false}, {"<|m|>", true}, {"y", false}},
       {"x<|y"}},
  };
  ParseOptions options = with_tools();
  options.control_markers = {"<|c|>", "<|m|>", "<|e|>"};
  for (const auto& row : rows) {
    StreamParser parser(*format, options);
    std::vector<ChatEvent> events;
    for (const auto& [bytes, is_control] : row.pieces) parser.feed(bytes, is_control, events);
    parser.finish(false, events);
    EXPECT_EQ(outcome_of(events), row.outcome) << row.name;
  }
}

// A marker that may have white space before it, and a longer one that begins so.
TEST(StreamParser, LongerMarkersAreTriedBehindSpaceToo) {
  constexpr std::string_view kHeaders = R"(name = "headers"
[reasoning]
open = [" to=self|"]
close = ["<e>"]
[[syntax]]
call = " to=${name}|${arguments}<e>"
)";
  const auto format = compile(kHeaders, "test");
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(parse(*format, " to=self|a<e> to=get_time|{}<e>", with_tools()),
            (Outcome{"", "a", {{"get_time", "{}"}}, {false}}));
}

// What else ends reasoning: content's own frame, and a closing mark that stands alone closes what
// the prompt has opened.
TEST(StreamParser, ReasoningEndsWhereContentBegins) {
  constexpr std::string_view kFrames = R"(name = "frames"
[reasoning]
open = ["<think>"]
close = ["</think>"]
[content]
open = ["<say>"]
close = ["</say>"]
[[syntax]]
call = "<call>${object}</call>"
)";
  const auto format = compile(kFrames, "test");
  ASSERT_TRUE(format) << format.error().message;
  ParseOptions opened = with_tools();
  opened.prompt_tail = "<think>";
  const struct {
    std::string_view text;
    const ParseOptions& options;
    Outcome outcome;
  } rows[] = {
      {"a<say>b</say>", opened, {"b", "a"}},
      {"<say>b</say>", opened, {"b"}},
      {"</think>b", with_tools(), {"b"}},
      {" </think>b", with_tools(), {"b"}},
      {"a</think>b", with_tools(), {"a</think>b"}},
      {"<say>a</say></think>", with_tools(), {"a</think>"}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(parse(*format, row.text, row.options), row.outcome) << row.text;
  }
}

// The prompt ends with the marker of the first message, which the answer then lacks.
TEST(StreamParser, AnswersBeginBehindThePrompt) {
  constexpr std::string_view kRecipients = R"(name = "recipients"
prompt_end = ">>>"
[content]
open = [">>>all\n"]
[[syntax]]
call = ">>>${name}\n${arguments}"
)";
  const auto format = compile(kRecipients, "test");
  ASSERT_TRUE(format) << format.error().message;
  const std::pair<std::string_view, Outcome> rows[] = {
      {"get_time\n{}", {"", "", {{"get_time", "{}"}}, {false}}},
      {"get_time\n{}>>>get_weather\n{\"c\": 1}",
       {"", "", {{"get_time", "{}"}, {"get_weather", R"({"c": 1})"}}, {false, false}}},
      {"all\nHello >>> you>>>get_time\n{}", {"Hello >>> you", "", {{"get_time", "{}"}}, {false}}},
      {">>>get_time\n{}", {"", "", {{"get_time", "{}"}}, {false}}},
      {"Hello", {"Hello"}},
      {">>Hello", {">>Hello"}},
      {"", {}},
      {"get_lost\n{}", {"get_lost\n{}", "", {}, {}, {"near_miss"}}},
  };
  for (const auto& [text, outcome] : rows) {
    EXPECT_EQ(parse(*format, text, with_tools()), outcome) << text;
  }
  EXPECT_EQ(parse(*format, "all\nget_time\n{}", {}), Outcome{"get_time\n{}"}) << "no tools";
  // A marker that is not written by chance does not count if the prompt has written it.
  const auto glm4 = find("glm4");
  EXPECT_EQ(parse(glm4, "Hello there", with_tools()), Outcome{"Hello there"});
  EXPECT_EQ(parse(glm4, "Hello", with_tools()), Outcome{"Hello"});
  EXPECT_EQ(parse(glm4, "Hi<|assistant|>the day", with_tools()),
            (Outcome{"Hi<|assistant|>the day", "", {}, {}, {"broken_call"}}));
  EXPECT_EQ(render_calls(**format, {{"", "f", "{}"}, {"", "g", "{}"}}).value_or(""),
            "f\n{}>>>g\n{}");
}

TEST(StreamParser, WhatIsHeldIsBounded) {
  const std::string long_text(2 * StreamParser::kMaxHeld, 'x');
  const std::string text = R"(<tool_call>{"other": ")" + long_text + R"("})";
  StreamParser parser(find("hermes"), with_tools());
  std::vector<ChatEvent> events = events_of(parser, text, 1000);
  EXPECT_EQ(outcome_of(events), (Outcome{text, "", {}, {}, {"oversized_call"}}));
}

/// Made of markers, white space and the frame of a call's object.
bool is_frame(std::string text) {
  for (const std::string_view known :
       {"<tool_call>", "</tool_call>", "<think>", "</think>", "\"name\": \"get_time\"",
        "\"arguments\":", "\"arguments\"", "\"name\"", "\"k\": \"v\"", "true", "null"}) {
    for (std::size_t i = text.find(known); i != std::string::npos; i = text.find(known)) {
      text.erase(i, known.size());
    }
  }
  return text.find_first_not_of("{}[]\":, \n1-a") == std::string::npos;
}

/// `text` is `sent` in this order, with nothing but frame before, between and after.
bool is_made_of(std::string_view text, std::span<const std::string_view> sent) {
  if (sent.empty()) return is_frame(std::string(text));
  for (std::size_t at = text.find(sent[0]); at != std::string_view::npos;
       at = text.find(sent[0], at + 1)) {
    if (is_frame(std::string(text.substr(0, at))) &&
        is_made_of(text.substr(at + sent[0].size()), sent.subspan(1))) {
      return true;
    }
  }
  return false;
}

// Pieces that are wrong in every way, in any order. What is not content, reasoning or arguments
// must be made of markers, names and the object's frame: nothing else is ever lost.
TEST(StreamParser, LosesNothingOfAnyText) {
  const std::string_view pieces[] = {"<tool_call>",
                                     "</tool_call>",
                                     "\n",
                                     " ",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "\"",
                                     "\\",
                                     "a",
                                     "1",
                                     "-",
                                     "<",
                                     "<tool_",
                                     "call>",
                                     "{\"name\": \"get_time\"",
                                     ", \"arguments\": {",
                                     "\"k\": \"v\"",
                                     "é",
                                     "{\"name\": \"other\", \"arguments\": {}}",
                                     "{\"name\": \"get_time\", \"arguments\": {}}",
                                     "null",
                                     "\"name\"",
                                     "\"arguments\"",
                                     "<think>",
                                     "</think>",
                                     "true",
                                     "\\u00",
                                     "get_time"};
  std::mt19937 dice(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = 1 + dice() % 14; n > 0; --n) text += pieces[dice() % std::size(pieces)];
    StreamParser parser(find("hermes"), with_tools());
    const auto whole_events = events_of(parser, text, text.size());
    const Outcome whole = outcome_of(whole_events);
    for (const std::size_t chunk : {std::size_t{1}, 1 + dice() % 7}) {
      parser.reset();
      ASSERT_EQ(outcome_of(events_of(parser, text, chunk)), whole) << text << " by " << chunk;
    }
    for (const auto& [name, arguments] : whole.calls) {
      ASSERT_TRUE(json::parse(arguments)) << text << " -> " << arguments;
    }
    bool repaired = std::any_of(whole.codes.begin(), whole.codes.end(), [](const auto& code) {
      return code == "mended_arguments" || code == "spoilt_call" || code == "incomplete_call";
    });
    for (const auto& call : whole.calls)
      repaired = repaired || call.second == "{}";  // perhaps left out
    if (repaired) continue;                        // arguments are then not a part of the text
    std::vector<std::string_view> sent;
    for (const ChatEvent& event : whole_events) {
      if (const auto* content = std::get_if<message::ContentDelta>(&event))
        sent.push_back(content->text);
      if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event))
        sent.push_back(reasoning->text);
      if (const auto* arguments = std::get_if<message::CallArguments>(&event))
        sent.push_back(arguments->text);
    }
    ASSERT_TRUE(is_made_of(text, sent)) << text << " -> " << ::testing::PrintToString(whole);
  }
}

// ---- cases from files: our own, and the large set ----

class PublicCases : public ::testing::TestWithParam<Data> {};

TEST_P(PublicCases, OfOfferedFormatsAreRight) {
  if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  const bool is_own = GetParam() == Data::own;
  std::ifstream file(folder_of(GetParam()) / "formats" / "public.jsonl");
  std::map<std::string, int> checked;
  Sample cut_everywhere(is_own ? 1 : 4);
  for (std::string line; std::getline(file, line);) {
    const auto row = json::parse(line);
    ASSERT_TRUE(row);
    const auto text_at = [&row](std::string_view pointer) {
      const json::Value* value = json::at_pointer(*row, pointer);
      return value != nullptr && value->if_string() != nullptr ? *value->if_string()
                                                               : std::string();
    };
    const auto flag_at = [&row](std::string_view key) {
      const json::Value* value = row->find(key);
      return value != nullptr && value->if_bool() != nullptr && *value->if_bool();
    };
    const auto format = find(text_at("/format"));
    if (format == nullptr || text_at("/set") != "generated" || flag_at("partial") ||
        flag_at("ambiguous") || text_at("/scenario") == "unknown_tool") {
      EXPECT_FALSE(is_own) << line;  // each of ours is checked
      continue;
    }
    ParseOptions options;
    for (const json::Value& tool : *row->find("tools")->if_array()) {
      options.tools.push_back(*json::at_pointer(tool, "/function/name")->if_string());
      const json::Value* schema = json::at_pointer(tool, "/function/parameters");
      options.schemas.push_back(schema != nullptr ? *schema : json::Value());
    }
    const std::string text = text_at("/text");
    const std::string reasoning = text_at("/expected/reasoning");
    if (!reasoning.empty() && text.starts_with(reasoning)) options.prompt_tail = "<think>";
    const bool is_cut = text.size() < 2000 && cut_everywhere.takes_next();
    const Outcome outcome = is_cut ? parse(format, text, options) : [&] {
      StreamParser parser(format, options);
      return outcome_of(events_of(parser, text, 3));
    }();
    SCOPED_TRACE(text_at("/id") + ": " + text);
    EXPECT_EQ(outcome.content, text_at("/expected/content"));
    EXPECT_EQ(outcome.reasoning, reasoning);
    const json::Array& calls = *json::at_pointer(*row, "/expected/tool_calls")->if_array();
    ASSERT_EQ(outcome.calls.size(), calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(outcome.calls[i].first, *calls[i].find("name")->if_string());
      const auto arguments = json::parse(outcome.calls[i].second);
      ASSERT_TRUE(arguments) << outcome.calls[i].second;
      EXPECT_EQ(*arguments, *calls[i].find("arguments"));
    }
    ++checked[text_at("/format")];
  }
  for (const auto& [format, count] : checked) std::cout << format << ": " << count << " cases\n";
  EXPECT_GE(checked["hermes"], is_own ? 8 : 15);
  EXPECT_GE(checked.size(), is_own ? 25U : 50U);
}

INSTANTIATE_TEST_SUITE_P(Sets, PublicCases, ::testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tenon::format
