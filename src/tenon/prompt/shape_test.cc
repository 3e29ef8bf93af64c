#include "tenon/prompt/shape.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/json/value.h"

namespace tenon::prompt {
namespace {

json::Value parsed(std::string_view text) {
  Expected<json::Value> value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return value ? *std::move(value) : json::Value();
}

/// The capabilities of a current template; each row changes those that it is about.
constexpr auto kModern = [] {
  return Capabilities{.list_content = true,
                      .system = true,
                      .several_systems = true,
                      .middle_system = true,
                      .developer = true,
                      .tools = true,
                      .calls = true,
                      .parallel_calls = true,
                      .tool_results = true,
                      .arguments = Arguments::either};
};

struct ShapeRow {
  const char* name;
  void (*lacks)(Capabilities&);
  std::string_view before;  // messages
  std::string_view after;
  std::vector<std::string> log;
};

const auto row_name = [](const auto& info) { return std::string(info.param.name); };

class ShapesMessages : public testing::TestWithParam<ShapeRow> {};

TEST_P(ShapesMessages, AsTheRowSays) {
  const ShapeRow& row = GetParam();
  Capabilities capabilities = kModern();
  row.lacks(capabilities);
  json::Object context{{"messages", parsed(row.before)}};
  EXPECT_EQ(shape(context, capabilities).log, row.log);
  EXPECT_EQ(json::to_string(context["messages"]), row.after);
}

const auto kNothing = [](Capabilities&) {};
const auto kShapeOneCall = [](Capabilities& c) { c.parallel_calls = false; };

INSTANTIATE_TEST_SUITE_P(
    Rules, ShapesMessages,
    testing::Values(
        ShapeRow{
            "WhatTheTemplateTakesStays",
            kNothing,
            R"([{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{ \"a\":1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"r"}])",
            R"([{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{ \"a\":1}"}}]},{"role":"tool","tool_call_id":"call_1","content":"r"}])",
            {}},
        ShapeRow{
            "NullContentIsEmpty",
            kNothing,
            R"([{"role":"assistant","content":null},{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"user"}])",
            R"([{"role":"assistant","content":""},{"role":"assistant","tool_calls":[{"function":{"name":"f"}}],"content":""},{"role":"user"}])",
            {"content null made empty in 1 message"}},
        ShapeRow{
            "CallsMayNeedNullBesideThem",
            [](Capabilities& c) { c.null_beside_calls = true; },
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]},{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f"}}]}])",
            R"([{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]},{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f"}}]}])",
            {"empty content made null in 1 message"}},
        ShapeRow{
            "EmptyListsOfCallsGo",
            kNothing,
            R"([{"role":"assistant","content":"a","tool_calls":[]},{"role":"assistant","content":"b","tool_calls":null}])",
            R"([{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}])",
            {}},
        ShapeRow{
            "ListsOfTextBecomeText",
            [](Capabilities& c) { c.list_content = false; },
            R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"image"}]}])",
            R"([{"role":"user","content":"a\nb"},{"role":"user","content":[{"type":"image"}]}])",
            {"lists of text made text in 1 message"}},
        ShapeRow{"TextBecomesAList",
                 [](Capabilities& c) { c.string_content = false; },
                 R"([{"role":"user","content":"a"}])",
                 R"([{"role":"user","content":[{"type":"text","text":"a"}]}])",
                 {"text made a list of text in 1 message"}},
        ShapeRow{
            "ObjectsAsResultsBecomeJson",
            kNothing,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":{"t":1.50}}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"{\"t\": 1.50}"}])",
            {"objects made JSON text in 1 tool result"}},
        ShapeRow{"DeveloperBecomesSystem",
                 [](Capabilities& c) { c.developer = false; },
                 R"([{"role":"developer","content":"d"},{"role":"user","content":"u"}])",
                 R"([{"role":"system","content":"d"},{"role":"user","content":"u"}])",
                 {"role developer made system in 1 message"}},
        ShapeRow{
            "SystemTextGoesToTheUser",
            [](Capabilities& c) { c.system = false; },
            R"([{"role":"system","content":"s"},{"role":"system","content":"t"},{"role":"user","content":"u"}])",
            R"([{"role":"user","content":"s\n\nt\n\nu"}])",
            {"2 system messages made one", "system text put before the first user's"}},
        ShapeRow{
            "SystemTextGoesIntoAListOfParts",
            [](Capabilities& c) { c.system = false; },
            R"([{"role":"system","content":"s"},{"role":"user","content":[{"type":"image"}]}])",
            R"([{"role":"user","content":[{"type":"text","text":"s"},{"type":"image"}]}])",
            {"system text put before the first user's"}},
        ShapeRow{
            "SystemTextBeforeAnAssistantStandsAlone",
            [](Capabilities& c) { c.system = false; },
            R"([{"role":"system","content":"s"},{"role":"assistant","content":"a"},{"role":"user","content":"u"}])",
            R"([{"role":"user","content":"s"},{"role":"assistant","content":"a"},{"role":"user","content":"u"}])",
            {"system text put before the first user's"}},
        ShapeRow{"EmptySystemTextGoes",
                 [](Capabilities& c) { c.system = false; },
                 R"([{"role":"system","content":""},{"role":"user","content":"u"}])",
                 R"([{"role":"user","content":"u"}])",
                 {"system text put before the first user's"}},
        ShapeRow{
            "SeveralSystemsBecomeOne",
            [](Capabilities& c) { c.several_systems = false; },
            R"([{"role":"system","content":"s"},{"role":"system","content":"t"},{"role":"user","content":"u"}])",
            R"([{"role":"system","content":"s\n\nt"},{"role":"user","content":"u"}])",
            {"2 system messages made one"}},
        ShapeRow{
            "MessagesMayHaveNoContent",
            [](Capabilities& c) {
              c.several_systems = false;
              c.alternation = true;
            },
            R"([{"role":"system"},{"role":"system","content":"t"},{"role":"user"},{"role":"user"}])",
            R"([{"role":"system","content":"t"},{"role":"user","content":""}])",
            {"2 system messages made one",
             "1 message joined to the one before, since roles alternate"}},
        ShapeRow{
            "ASystemInTheMiddleBecomesAUsers",
            [](Capabilities& c) {
              c.middle_system = false;
              c.alternation = true;
            },
            R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"v"}])",
            R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"s\n\nv"}])",
            {"role system made user in 1 message",
             "1 message joined to the one before, since roles alternate"}},
        ShapeRow{
            "RolesAlternate",
            [](Capabilities& c) {
              c.alternation = true;
              c.assistant_first = false;
            },
            R"([{"role":"system","content":"s"},{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"u"},{"role":"user","content":""},{"role":"user","content":"v"}])",
            R"([{"role":"system","content":"s"},{"role":"user","content":""},{"role":"assistant","content":"a\n\nb"},{"role":"user","content":"u\n\nv"}])",
            {"an empty user message put before the first assistant's",
             "3 messages joined to the one before, since roles alternate"}}),
    row_name);

// Histories as clients send them, with strict templates.
const auto kSkipsCalls = [](Capabilities& c) {
  c.alternation = c.alternation_skips_calls = true;
  c.assistant_first = c.middle_system = c.orphan_results = false;
  c.answer_to_results = "";
};

INSTANTIATE_TEST_SUITE_P(
    Histories, ShapesMessages,
    testing::
        Values(ShapeRow{"TextJoinsTheCallsBehindIt",
                        kSkipsCalls,
                        R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":"b"},{"role":"user","content":"v"}])",
                        R"([{"role":"user","content":"u"},{"role":"assistant","content":"a","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":"b"},{"role":"user","content":"v"}])",
                        {"joined to the one beside it, since roles alternate, in 1 message"}},
               ShapeRow{
                   "OrAnEmptyMessageParts",
                   [](Capabilities& c) {
                     kSkipsCalls(c);
                     c.text_beside_calls = false;
                   },
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"a","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":"b"},{"role":"user","content":"v"}])",
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":""},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":"b"},{"role":"user","content":"v"}])",
                   {"text put before the calls in 1 message",
                    "an empty message put between two of one role in 1 place"}},
               ShapeRow{
                   "ACallWithoutResultIsAnswered",
                   kSkipsCalls,
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"v"},{"role":"user","content":"w"}])",
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":""},{"role":"user","content":"v\n\nw"}])",
                   {"joined to the one beside it, since roles alternate, in 1 message",
                    "an empty message put between two of one role in 1 place"}},
               ShapeRow{
                   "WhatStandsBeforeAResultComesBehindIt",
                   kSkipsCalls,
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"system","content":"s"},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"user","content":"v"}])",
                   R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":""},{"role":"user","content":"s\n\nv"}])",
                   {"put behind its call in 1 tool result", "role system made user in 1 message",
                    "joined to the one beside it, since roles alternate, in 1 message",
                    "an empty message put between two of one role in 1 place"}},
               ShapeRow{
                   "EmptyAnswersGo",
                   [](Capabilities& c) {
                     c.empty_answers = false;
                     c.reasoning = true;
                   },
                   R"([{"role":"assistant","content":""},{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":[]},{"role":"assistant","content":"","reasoning_content":"t"},{"role":"user","content":""}])",
                   R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"","reasoning_content":"t"},{"role":"user","content":""}])",
                   {"empty content left out in 2 assistant's messages"}},
               ShapeRow{
                   "ThoughtsThatAreNotWrittenGoWithThem",
                   [](Capabilities& c) { c.empty_answers = false; },
                   R"([{"role":"assistant","content":"","reasoning_content":"t"},{"role":"user","content":"u"}])",
                   R"([{"role":"user","content":"u"}])",
                   {"empty content left out in 1 assistant's message"}},
               ShapeRow{"AnEmptyListIsEmptyText",
                        kNothing,
                        R"([{"role":"assistant","content":[]},{"role":"user","content":[]}])",
                        R"([{"role":"assistant","content":""},{"role":"user","content":""}])",
                        {}},
               ShapeRow{
                   "ReasoningTakesTheTextBesideCalls",
                   [](Capabilities& c) { c.reasoning_beside_text = false; },
                   R"([{"role":"assistant","content":"a","thinking":"t","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"a","thinking":"t"}])",
                   R"([{"role":"assistant","content":"","thinking":"t\n\na","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"a","thinking":"t"}])",
                   {"reasoning and text joined in 1 message with calls"}},
               ShapeRow{
                   "ResultsStandInTheOrderOfTheCalls",
                   [](Capabilities& c) { c.result_ids = false; },
                   R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}},{"id":"z","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"z","content":"3"},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"user","content":"u"},{"role":"tool","tool_call_id":"y","content":"2"}])",
                   R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}},{"id":"z","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"z","content":"3"},{"role":"user","content":"u"}])",
                   {"put behind its call in 1 tool result",
                    "put in the order of the calls in 1 turn's results"}},
               ShapeRow{
                   "ResultsWithIdsStayAsTheyCame",
                   kNothing,
                   R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"}])",
                   R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"}])",
                   {}},
               ShapeRow{"AnAnswerWithoutContent",
                        kNothing,
                        R"([{"role":"user","content":"u"},{"role":"assistant"}])",
                        R"([{"role":"user","content":"u"},{"role":"assistant","content":""}])",
                        {"content null made empty in 1 message"}},
               ShapeRow{
                   "AnEmptyUserWhereThereIsNone",
                   [](Capabilities& c) { c.without_user = WithoutUser::empty_message; },
                   R"([{"role":"system","content":"s"},{"role":"assistant","content":"a"}])",
                   R"([{"role":"system","content":"s"},{"role":"user","content":""},{"role":"assistant","content":"a"}])",
                   {"an empty user message put behind the system's, since there is no other"}},
               ShapeRow{"OrTheSystemsTextIsTheUsers",
                        [](Capabilities& c) { c.without_user = WithoutUser::system_text; },
                        R"([{"role":"system","content":"s"}])",
                        R"([{"role":"user","content":"s"}])",
                        {"system text made the user's, since there is no user message"}},
               ShapeRow{
                   "NamelessOrphansAreLinesWhereTheTemplateWantsAName",
                   [](Capabilities& c) {
                     c.orphan_results = true;
                     c.nameless_orphans = false;
                   },
                   R"([{"role":"user","content":"u"},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"user","content":"v"},{"role":"tool","tool_call_id":"y","name":"f","content":"2"}])",
                   R"([{"role":"user","content":"u"},{"role":"user","content":"Tool 'unknown' returned: 1"},{"role":"user","content":"v"},{"role":"tool","tool_call_id":"y","name":"f","content":"2"}])",
                   {"Buffering tool result from 'unknown'",
                    "Flushed 1 tool results as single user message"}}),
    row_name);

// A client that has an item for each call.
INSTANTIATE_TEST_SUITE_P(
    SeveralMessages, ShapesMessages,
    testing::Values(
        ShapeRow{
            "CallsOfOneTurnInSeveralMessages",
            kNothing,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"}])",
            {"calls of one turn joined in 2 messages"}},
        ShapeRow{
            "TheirTextsAndThoughtsAreJoined",
            kNothing,
            R"([{"role":"assistant","content":"a","thinking":"s","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"b","thinking":"t","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"}])",
            R"([{"role":"assistant","content":"a\n\nb","thinking":"s\n\nt","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"}])",
            {"calls of one turn joined in 2 messages"}},
        ShapeRow{
            "WhereTheTemplateTakesOneTheResultsGoBehindTheirCalls",
            kShapeOneCall,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"assistant","content":"","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"}])",
            {"results put behind the calls in 2 messages"}},
        ShapeRow{
            "ACallWhoseResultIsMissingStaysAlone",
            kNothing,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"}])",
            {}},
        ShapeRow{
            "ResultsOfOneToolStandInTheOrderOfTheCallsWithoutTheCalls",
            [](Capabilities& c) {
              c.parallel_calls = false;
              c.result_ids = false;
            },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"}])",
            R"([{"role":"user","content":"Tool 'f' returned: 1\nTool 'f' returned: 2"}])",
            {"put in the order of the calls in 1 turn's results",
             "Removing 2 parallel tool_calls from assistant message "
             "(Llama "
             "3.1 limitation)",
             "Buffering tool result from 'f'", "Buffering tool result from 'f'",
             "Flushed 2 tool results as single user message"}}),
    row_name);

INSTANTIATE_TEST_SUITE_P(
    Calls, ShapesMessages,
    testing::Values(
        // The three lines of the log are those of the document on tool calling
        // in EXO.
        ShapeRow{
            "SeveralCallsOfATemplateThatTakesOne",
            kShapeOneCall,
            R"([{"role":"user","content":"do it"},{"role":"assistant","content":null,"tool_calls":[{"id":"c0","function":{"name":"bash","arguments":"{}"}},{"id":"c1","function":{"name":"write","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"RES0"},{"role":"tool","tool_call_id":"c1","content":"RES1"}])",
            R"([{"role":"user","content":"do it"},{"role":"user","content":"Tool 'bash' returned: RES0\nTool 'write' returned: RES1"}])",
            {"Removing 2 parallel tool_calls from assistant message (Llama "
             "3.1 limitation)",
             "Buffering tool result from 'bash'", "Buffering tool result from 'write'",
             "Flushed 2 tool results as single user message"}},
        // A template that writes only the first of several calls.
        ShapeRow{
            "SeveralCallsOfATemplateThatDropsAllButOne",
            [](Capabilities& c) {
              c.parallel_calls = false;
              c.calls_apart = true;
            },
            R"([{"role":"user","content":"do it"},{"role":"assistant","content":"Both.","tool_calls":[{"id":"c0","function":{"name":"bash","arguments":"{}"}},{"id":"c1","function":{"name":"write","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"RES1"},{"role":"tool","tool_call_id":"c0","content":"RES0"},{"role":"user","content":"u"}])",
            R"([{"role":"user","content":"do it"},{"role":"assistant","content":"Both.","tool_calls":[{"id":"c0","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"RES0"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"write","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"RES1"},{"role":"user","content":"u"}])",
            {"given one message for each call in 1 turn"}},
        ShapeRow{
            "TheTextBesideThemStays",
            kShapeOneCall,
            R"([{"role":"assistant","content":"Both.","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},{"role":"tool","tool_call_id":"a","name":"own","content":"3"},{"role":"user","content":"u"}])",
            R"([{"role":"assistant","content":"Both."},{"role":"user","content":"Tool 'g' returned: 1\n2\nTool 'own' returned: 3"},{"role":"user","content":"u"}])",
            {"Removing 2 parallel tool_calls from assistant message (Llama "
             "3.1 limitation)",
             "Buffering tool result from 'g'", "Buffering tool result from 'own'",
             "Flushed 2 tool results as single user message"}},
        ShapeRow{
            "PicturesBesideThemStay",
            kShapeOneCall,
            R"([{"role":"assistant","content":[{"type":"image"}],"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]}])",
            R"([{"role":"assistant","content":[{"type":"image"}]}])",
            {"Removing 2 parallel tool_calls from assistant message (Llama "
             "3.1 limitation)"}},
        ShapeRow{
            "ReasoningBesideThemStays",
            kShapeOneCall,
            R"([{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]}])",
            R"([{"role":"assistant","content":"","reasoning_content":"hm"}])",
            {"Removing 2 parallel tool_calls from assistant message (Llama "
             "3.1 limitation)"}},
        ShapeRow{
            "ASingleCallStaysNative",
            kShapeOneCall,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            {}},
        ShapeRow{
            "ResultsOfNoCallBecomeAUsers",
            kNothing,
            R"([{"role":"user","content":"go"},{"role":"tool","tool_call_id":"zz","content":"ORPHAN1"},{"role":"tool","tool_call_id":"yy","content":"ORPHAN2"}])",
            R"([{"role":"user","content":"go"},{"role":"user","content":"Tool 'unknown' returned: ORPHAN1\nTool 'unknown' returned: ORPHAN2"}])",
            {"Buffering tool result from 'unknown'", "Buffering tool result from 'unknown'",
             "Flushed 2 tool results as single user message"}},
        ShapeRow{
            "TheyStayWhereTheTemplateTakesThem",
            [](Capabilities& c) { c.orphan_results = true; },
            R"([{"role":"user","content":"go"},{"role":"tool","name":"f","content":"1"},{"role":"tool","tool_call_id":"yy","content":"2"}])",
            R"([{"role":"user","content":"go"},{"role":"tool","name":"f","content":"1"},{"role":"tool","tool_call_id":"yy","content":"2"}])",
            {}},
        ShapeRow{
            "OneAloneStaysWhereTheTemplateTakesOneCall",
            [](Capabilities& c) {
              c.orphan_results = true;
              c.parallel_calls = false;
            },
            R"([{"role":"tool","content":"1"},{"role":"user","content":"u"},{"role":"tool","content":"2"},{"role":"tool","content":"3"}])",
            R"([{"role":"tool","content":"1"},{"role":"user","content":"u"},{"role":"user","content":"Tool 'unknown' returned: 2\nTool 'unknown' returned: 3"}])",
            {"Buffering tool result from 'unknown'", "Buffering tool result from 'unknown'",
             "Flushed 2 tool results as single user message"}},
        ShapeRow{
            "ASecondResultOfOneCallBecomesAUsers",
            kNothing,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"a","content":"2"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"Tool 'f' returned: 2"}])",
            {"Buffering tool result from 'f'", "Flushed 1 tool results as single user message"}},
        ShapeRow{
            "WithoutARoleForResultsTheyAreAUsers",
            [](Capabilities& c) { c.tool_results = false; },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"user","content":"Tool 'f' returned: 1"}])",
            {"Buffering tool result from 'f'", "Flushed 1 tool results as single user message"}},
        ShapeRow{
            "ResultsGetTheNameOfTheirCall", [](Capabilities& c) { c.result_names = true; }, R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"b","content":"1"},{"role":"tool","content":"2"}])", R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"b","content":"1","name":"g"},{"role":"tool","content":"2","name":"f"}])", {"the name of its tool written in 2 tool results"}},
        ShapeRow{
            "JsonTextBecomesAnObject",
            [](Capabilities& c) { c.arguments = Arguments::object; },
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{\"b\":1.0,\"a\":[]}"}},{"function":{"arguments":""}},{"function":{"arguments":"[1]"}},{"arguments":"{"},{"arguments":"\"{\\\"a\\\": 7}\""}]}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":{"b":1.0,"a":[]}}},{"function":{"arguments":{}}},{"function":{"arguments":{"arguments":"[1]"}}},{"arguments":{"arguments":"{"}},{"arguments":{"a":7}}]}])",
            {"JSON text made an object in 3 calls",
             "arguments that are no JSON object made a member of one in "
             "2 "
             "calls"}},
        ShapeRow{"AnEmptyAnswerBetweenResultsAndTheUser",
                 [](Capabilities& c) { c.answer_to_results = ""; },
                 R"([{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"more"}])",
                 R"([{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"assistant","content":""},{"role":"user","content":"more"}])",
                 {"an empty answer put between results and a user's message in 1 "
                  "place"}},
        ShapeRow{
            "AnObjectBecomesJsonText",
            [](Capabilities& c) { c.arguments = Arguments::text; },
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":{"b":"é","c":1e3}}},{"function":{"arguments":"{ }"}},{"function":{"arguments":""}}]}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{\"b\": \"é\", \"c\": 1e3}"}},{"function":{"arguments":"{ }"}},{"function":{"arguments":"{}"}}]}])",
            {"an object made JSON text in 1 call"}},
        ShapeRow{
            "IdsOfFunctionAndIndex",
            [](Capabilities& c) { c.ids = IdForm::function_and_index; },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"b","content":"1"},{"role":"tool","tool_call_id":"a","content":"2"},{"role":"assistant","content":"","tool_calls":[{"id":"functions.f:2","function":{"name":"f"}},{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"functions.f:2","content":"3"},{"role":"tool","content":"4"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"functions.f:0","function":{"name":"f"}},{"id":"functions.g:1","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"functions.g:1","content":"1"},{"role":"tool","tool_call_id":"functions.f:0","content":"2"},{"role":"assistant","content":"","tool_calls":[{"id":"functions.f:2","function":{"name":"f"}},{"id":"functions.f:3","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"functions.f:2","content":"3"},{"role":"tool","content":"4","tool_call_id":"functions.f:3"}])",
            {"ids written in the model's form in 3 calls"}}),
    row_name);

// A result whose call is not in the history gets an id, too.
TEST(ShapesIds, OrphansHaveTheFormToo) {
  Capabilities capabilities = kModern();
  capabilities.orphan_results = true;
  capabilities.ids = IdForm::nine_alphanumerics;
  json::Object context{{"messages", parsed(R"([{"role":"user","content":"u"},
      {"role":"tool","tool_call_id":"call_gone_17","content":"r"},
      {"role":"tool","tool_call_id":"call_gone_18","content":"s"},
      {"role":"tool","tool_call_id":"nine12345","content":"t"}])")}};
  static_cast<void>(shape(context, capabilities));
  std::vector<std::string> ids;
  for (const json::Value& message : *context["messages"].if_array()) {
    if (const json::Value* id = message.find("tool_call_id")) ids.push_back(*id->if_string());
  }
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids[0].size(), 9U);
  EXPECT_EQ(ids[1].size(), 9U);
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(ids[2], "nine12345");
}

TEST(ShapesIds, NineAlphanumericsComeOfTheClientsIdAlone) {
  Capabilities capabilities = kModern();
  capabilities.ids = IdForm::nine_alphanumerics;
  json::Object context{
      {"messages",
       parsed(
           R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_0","function":{"name":"f"}},{"id":"abcDEF123","function":{"name":"g"}},{"function":{"name":"h"}}]},)"
           R"({"role":"tool","tool_call_id":"call_0","content":"1"},{"role":"tool","tool_call_id":"abcDEF123","content":"2"},{"role":"tool","content":"3"},)"
           R"({"role":"assistant","content":"","tool_calls":[{"id":"call_0","function":{"name":"f"}}]}])")}};
  const Shaping shaping = shape(context, capabilities);
  const json::Array& messages = *context["messages"].if_array();
  const auto id = [&](std::size_t message, std::size_t call) {
    return *messages[message].find("tool_calls")->if_array()->at(call).find("id")->if_string();
  };
  EXPECT_EQ(id(0, 1), "abcDEF123");
  for (const std::string& made : {id(0, 0), id(0, 2)}) {
    EXPECT_EQ(made.size(), 9U);
    EXPECT_EQ(
        made.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
        std::string::npos);
  }
  EXPECT_NE(id(0, 0), id(0, 2));
  EXPECT_EQ(id(4, 0), id(0, 0));  // a client that counts anew each turn stays within the form
  EXPECT_EQ(*messages[1].find("tool_call_id")->if_string(), id(0, 0));
  EXPECT_EQ(*messages[3].find("tool_call_id")->if_string(), id(0, 2));
  EXPECT_EQ(shaping.ids, (std::vector<std::pair<std::string, std::string>>{{"call_0", id(0, 0)}}));
}

// --- what the format writes

struct WriterRow {
  const char* name;
  const char* format;
  void (*lacks)(Capabilities&);
  std::string_view before;  // messages
  std::string_view after;
  std::vector<std::string> log;
};

class ShapesByFormat : public testing::TestWithParam<WriterRow> {};

TEST_P(ShapesByFormat, AsTheRowSays) {
  const WriterRow& row = GetParam();
  Capabilities capabilities = kModern();
  capabilities.calls = capabilities.parallel_calls = false;
  row.lacks(capabilities);
  json::Object context{{"messages", parsed(row.before)}};
  const auto format = format::find(row.format);
  ASSERT_NE(format, nullptr);
  const Writer writer{
      .format = format.get(), .result_role = "user", .own_begin = "(", .own_end = ")"};
  EXPECT_EQ(shape(context, capabilities, writer).log, row.log);
  EXPECT_EQ(json::to_string(context["messages"]), row.after);
}

const auto kNoResults = [](Capabilities& c) { c.tool_results = false; };

const auto kNativeCalls = [](Capabilities& c) { c.calls = c.parallel_calls = true; };
const auto kCallsWithoutIds = [](Capabilities& c) {
  kNativeCalls(c);
  c.ids = IdForm::none;
};

INSTANTIATE_TEST_SUITE_P(
    Ids, ShapesByFormat,
    testing::Values(
        WriterRow{
            "GetTheFormatsShape",
            "mistral_small32",
            kNativeCalls,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}},{"id":"abcDEF123","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"call_1","name":"f","content":"1"},{"role":"tool","tool_call_id":"abcDEF123","name":"g","content":"2"}])",
            R"x([{"role":"assistant","content":"","tool_calls":[{"id":"eWCbkNeiW","function":{"name":"f"}},{"id":"abcDEF123","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"eWCbkNeiW","name":"f","content":"1"},{"role":"tool","tool_call_id":"abcDEF123","name":"g","content":"2"}])x",
            {"ids written in the model's form in 1 call"}},
        WriterRow{
            "StayWhereTheFormatHasNoShape",
            "hermes",
            kNativeCalls,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}}]}])",
            R"x([{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}}]}])x",
            {}},
        WriterRow{
            "StayWhereTheTemplateWritesNone",
            "mistral_small32",
            kCallsWithoutIds,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}}]}])",
            R"x([{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}}]}])x",
            {}}),
    row_name);

INSTANTIATE_TEST_SUITE_P(
    Rules, ShapesByFormat,
    testing::Values(
        WriterRow{
            "CallsAndResultsBecomeText",
            "hermes",
            kNoResults,
            R"([{"role":"assistant","content":"hm","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":1.0}"}},{"id":"b","function":{"name":"g","arguments":{"y":"é"}}}]},{"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"1"}]}])",
            R"x([{"role":"assistant","content":"hm\n(<tool_call>)\n{\"name\": \"f\", \"arguments\": {\"x\":1.0}}\n(</tool_call>)\n(<tool_call>)\n{\"name\": \"g\", \"arguments\": {\"y\": \"é\"}}\n(</tool_call>)"},{"role":"user","content":"(<tool_response>)\n1\n(</tool_response>)\n(<tool_response>)\n2\n(</tool_response>)"}])x",
            {"put in the order of the calls in 1 turn's results",
             "what the template does not write made text in 2 calls",
             "what the template does not write made text in 2 tool results"}},
        WriterRow{
            "ResultsStayWhereTheTemplateTakesThemAlone",
            "hermes",
            [](Capabilities& c) { c.orphan_results = true; },
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"x([{"role":"assistant","content":"(<tool_call>)\n{\"name\": \"f\", \"arguments\": {}}\n(</tool_call>)"},{"role":"tool","tool_call_id":"a","content":"1"}])x",
            {"what the template does not write made text in 1 call"}},
        WriterRow{
            "ResultsDoNotStayWhereTheTemplateKnowsNothingOfTools",
            "hermes",
            [](Capabilities& c) {
              c.tools = false;
              c.orphan_results = true;
            },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"x([{"role":"assistant","content":"(<tool_call>)\n{\"name\": \"f\", \"arguments\": {}}\n(</tool_call>)"},{"role":"user","content":"(<tool_response>)\n1\n(</tool_response>)"}])x",
            {"what the template does not write made text in 1 call",
             "what the template does not write made text in 1 tool result"}},
        WriterRow{
            "FailuresAreCalledSo",
            "generic_xml",
            kNoResults,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"no","is_error":true}])",
            R"x([{"role":"assistant","content":"(<tool_call>)\n(<name>)f(</name>)\n(<arguments>){}(</arguments>)\n(</tool_call>)"},{"role":"user","content":"(<tool_response>)\n(<name>)f(</name>)\n(<error>)no(</error>)\n(</tool_response>)"}])x",
            {"what the template does not write made text in 1 call",
             "what the template does not write made text in 1 tool result"}},
        WriterRow{
            "ArgumentsThatAreNoObjectStay",
            "hermes",
            kNoResults,
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{\"x\": "}}]}])",
            R"x([{"role":"assistant","content":"(<tool_call>)\n{\"name\": \"f\", \"arguments\": {\"arguments\": \"{\\\"x\\\": \"}}\n(</tool_call>)"}])x",
            {"what the template does not write made text in 1 call"}},
        WriterRow{
            "CallsAreCountedOverTheConversation",
            "kimi_k2",
            kNoResults,
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"b","function":{"name":"g"}}]}])",
            R"x([{"role":"assistant","content":"(<|tool_calls_section_begin|>)(<|tool_call_begin|>)functions.f:0(<|tool_call_argument_begin|>){}(<|tool_call_end|>)(<|tool_calls_section_end|>)"},{"role":"assistant","content":"(<|tool_calls_section_begin|>)(<|tool_call_begin|>)functions.g:1(<|tool_call_argument_begin|>){}(<|tool_call_end|>)(<|tool_calls_section_end|>)"}])x",
            {"what the template does not write made text in 2 calls"}},
        WriterRow{
            "CallsBesideTextWhereTheTemplateWritesThemOnlyAlone",
            "hermes",
            [](Capabilities& c) {
              c.calls = c.parallel_calls = c.null_beside_calls = c.orphan_results = true;
            },
            R"([{"role":"assistant","content":"hm","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"assistant","content":"","tool_calls":[{"id":"b","function":{"name":"g"}}]}])",
            R"x([{"role":"assistant","content":"hm\n(<tool_call>)\n{\"name\": \"f\", \"arguments\": {}}\n(</tool_call>)"},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"assistant","content":null,"tool_calls":[{"id":"b","function":{"name":"g"}}]}])x",
            {"empty content made null in 1 message",
             "what the template does not write made text in 1 call"}},
        WriterRow{
            "AnyTemplateThatTakesCallsWritesThemItself",
            "hermes",
            [](Capabilities& c) { c.calls = c.parallel_calls = true; },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            {}},
        WriterRow{
            "ResultsAloneWhereTheTemplateHasNoRoleForThem",
            "hermes",
            [](Capabilities& c) {
              c.calls = c.parallel_calls = true;
              c.tool_results = false;
            },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a","content":"1"}])",
            R"x([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"user","content":"(<tool_response>)\n1\n(</tool_response>)"}])x",
            {"what the template does not write made text in 1 tool result"}},
        WriterRow{
            "TheRuleOfOneCallIsTheSame",
            "hermes",
            [](Capabilities& c) { c.calls = true; },
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"}])",
            R"([{"role":"user","content":"Tool 'f' returned: 1\nTool 'g' returned: 2"}])",
            {"Removing 2 parallel tool_calls from assistant message (Llama 3.1 limitation)",
             "Buffering tool result from 'f'", "Buffering tool result from 'g'",
             "Flushed 2 tool results as single user message"}}),
    row_name);

struct DescribedRow {
  const char* name;
  void (*lacks)(Capabilities&);
  std::string_view before;  // messages
  std::string_view after;   // DESCRIPTION stands for the text of the tools
};

class DescribesTools : public testing::TestWithParam<DescribedRow> {};

TEST_P(DescribesTools, WhereTheTemplateKnowsNone) {
  const DescribedRow& row = GetParam();
  Capabilities capabilities = kModern();
  capabilities.tools = false;
  row.lacks(capabilities);
  json::Object context{{"tools", parsed(R"([{"name":"now"}])")}, {"messages", parsed(row.before)}};
  const Writer writer{.format = format::fallback().get(), .own_begin = "(", .own_end = ")"};
  const Shaping shaping = shape(context, capabilities, writer);
  std::string text = json::to_string(context["messages"]);
  const std::string description = json::quoted(format::describe_tools(
      *format::fallback(), {{.name = "now"}}, {.own_begin = "(", .own_end = ")"}));
  const std::string inside = description.substr(1, description.size() - 2);
  const std::size_t at = text.find(inside);
  ASSERT_EQ(at == std::string::npos, row.after.find("DESCRIPTION") == std::string::npos) << text;
  if (at != std::string::npos) {
    text.replace(at, inside.size(), "DESCRIPTION");
    EXPECT_TRUE(context["tools"].is_null());
    EXPECT_EQ(shaping.log.front(), "1 tool described in the system message");
  }
  EXPECT_EQ(text, row.after);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, DescribesTools,
    testing::Values(
        DescribedRow{
            "BehindTheClientsWords", kNothing,
            R"([{"role":"system","content":"Be kind."},{"role":"user","content":"u"}])",
            R"([{"role":"system","content":"Be kind.\n\nDESCRIPTION"},{"role":"user","content":"u"}])"},
        DescribedRow{
            "InAMessageOfItsOwn", kNothing, R"([{"role":"user","content":"u"}])",
            R"([{"role":"system","content":"DESCRIPTION"},{"role":"user","content":"u"}])"},
        DescribedRow{
            "BehindTheDevelopers", kNothing,
            R"([{"role":"developer","content":"d"},{"role":"user","content":"u"}])",
            R"([{"role":"developer","content":"d\n\nDESCRIPTION"},{"role":"user","content":"u"}])"},
        DescribedRow{"BeforeTheUsersTextWithoutASystemRole",
                     [](Capabilities& c) { c.system = false; },
                     R"([{"role":"user","content":"u"}])",
                     R"([{"role":"user","content":"DESCRIPTION\n\nu"}])"},
        DescribedRow{"WithoutMessages", kNothing, "[]",
                     R"([{"role":"system","content":"DESCRIPTION"}])"},
        DescribedRow{"NotWhereTheTemplateDoes", [](Capabilities& c) { c.tools = true; },
                     R"([{"role":"user","content":"u"}])", R"([{"role":"user","content":"u"}])"}),
    row_name);

struct ToolRow {
  const char* name;
  void (*lacks)(Capabilities&);
  std::string_view before;  // a tool
  std::string_view after;
};

class ShapesTools : public testing::TestWithParam<ToolRow> {};

TEST_P(ShapesTools, AsTheRowSays) {
  Capabilities capabilities = kModern();
  GetParam().lacks(capabilities);
  json::Object context{{"tools", json::Array{parsed(GetParam().before)}}};
  const bool changes = GetParam().before != GetParam().after;
  EXPECT_EQ(shape(context, capabilities).log.size(), changes ? 1U : 0U);
  EXPECT_EQ(json::to_string(context["tools"].if_array()->at(0)), GetParam().after);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ShapesTools,
    testing::Values(
        ToolRow{
            "WhatTheTemplateTakesStays", kNothing,
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":["string","null"]},"b":{"type":"object","properties":{"c":true}}}}}})",
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":["string","null"]},"b":{"type":"object","properties":{"c":true}}}}}})"},
        ToolRow{
            "SchemasThatAreTrueOrFalseStay", [](Capabilities& c) { c.type_lists = false; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"items":false},"b":{"type":["string","null"]},"c":false}}}})",
            R"x({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"items":false},"b":{"type":"string","description":"JSON Schema: {\"type\": [\"string\", \"null\"]}"},"c":false}}}})x"},
        ToolRow{"BareOnesAreWrapped", kNothing, R"({"name":"f"})",
                R"({"type":"function","function":{"name":"f"}})"},
        ToolRow{
            "WhatIsMissingIsFilledIn", [](Capabilities& c) { c.bare_tools = false; },
            R"({"type":"function","function":{"name":"f"}})",
            R"({"type":"function","function":{"name":"f","description":"","parameters":{"type":"object","properties":{}}}})"},
        ToolRow{
            "DescriptionsOfProperties", [](Capabilities& c) { c.bare_properties = false; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"string"}}}}})",
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"string","description":""}}}}})"},
        ToolRow{
            "OneTypeOfAList", [](Capabilities& c) { c.type_lists = false; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":["null","integer","string"],"description":"d"},"b":{"items":{"type":["string"]}}}}}})",
            R"x({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"integer","description":"d (JSON Schema: {\"type\": [\"null\", \"integer\", \"string\"]})"},"b":{"items":{"type":"string"}}}}}})x"},
        ToolRow{
            "MembersThatAreNullGo", kNothing,
            R"({"type":"function","function":{"name":"f","description":null,"parameters":{"type":"object","properties":null,"required":null}}})",
            R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})"},
        ToolRow{
            "NestedObjectsAreDescribed",
            [](Capabilities& c) { c.nested = SchemaForm::described_object; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"object","description":"d","properties":{"b":{"type":"string"}}},"c":{"type":"string"},"e":{"type":"array","items":{"type":"object","properties":{}}}}}}})",
            R"x({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"object","description":"d (JSON Schema: {\"type\": \"object\", \"properties\": {\"b\": {\"type\": \"string\"}}})"},"c":{"type":"string"},"e":{"type":"array","items":{"type":"object"},"description":"JSON Schema: {\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {}}}"}}}}})x"},
        ToolRow{
            "AsTextWhereNothingElseIsTaken",
            [](Capabilities& c) { c.nested = SchemaForm::described_text; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"object","properties":{}}}}}})",
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"string","description":"JSON Schema: {\"type\": \"object\", \"properties\": {}}"}}}}})"},
        ToolRow{
            "BooleanSchemasBecomeObjects", [](Capabilities& c) { c.losses.names[0] = 1; },
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":true}}}})",
            R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{}}}}})"},
        ToolRow{"UntypedOnesGetAType", [](Capabilities& c) { c.untyped = false; }, R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"integer"}]},"b":{"$ref":"#/$defs/x"},"c":true}}}})", R"({"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"description":"JSON Schema: {\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"integer\"}]}","type":"integer"},"b":{"description":"JSON Schema: {\"$ref\": \"#/$defs/x\"}","type":"object"},"c":{"description":"","type":"string"}}}}})"}),
    row_name);

TEST(ShapesTools, NoneAreAnEmptyListWhereTheTemplateWalksOverThem) {
  Capabilities capabilities = kModern();
  json::Object context;
  EXPECT_TRUE(shape(context, capabilities).log.empty());
  EXPECT_EQ(json::to_string(context), R"({"tools":null})");
  capabilities.null_tools = false;
  EXPECT_TRUE(shape(context, capabilities).log.empty());
  EXPECT_EQ(json::to_string(context), R"({"tools":[]})");
}

// Shaping must not take time in the square of a request's size; this would then take minutes.
TEST(Shape, LongConversationsAreShapedInLinearTime) {
  constexpr std::size_t kMany = 40'000;
  Capabilities capabilities = kModern();
  capabilities.alternation = true;
  capabilities.several_systems = false;
  capabilities.ids = IdForm::function_and_index;
  json::Array messages;
  for (std::size_t i = 0; i < kMany; ++i) {
    messages.emplace_back(json::Object{{"role", "system"}, {"content", "ab"}});
  }
  for (std::size_t i = 0; i < kMany; ++i) {
    messages.emplace_back(json::Object{{"role", "user"}, {"content", "ab"}});
  }
  json::Array calls;
  for (std::size_t i = 0; i < kMany; ++i) {
    json::Object call{{"function", json::Object{{"name", "f"}}}};
    if (i < kMany / 2) call["id"] = "functions.f:" + std::to_string(i + kMany / 2);
    calls.emplace_back(std::move(call));
  }
  messages.emplace_back(
      json::Object{{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(calls)}});
  for (std::size_t i = kMany; i-- > 0;) {
    json::Object result{{"role", "tool"}, {"content", "r"}};
    if (i < kMany / 2) result["tool_call_id"] = "functions.f:" + std::to_string(i + kMany / 2);
    messages.emplace_back(std::move(result));
  }
  json::Object context{{"messages", std::move(messages)}};
  EXPECT_EQ(shape(context, capabilities).log.size(), 3U);
  const json::Array& shaped = *context["messages"].if_array();
  ASSERT_EQ(shaped.size(), 3 + kMany);
  EXPECT_EQ(shaped[1].find("content")->if_string()->size(), kMany * 4 - 2);
}

TEST(Shape, MakesIdsThatAreTooShortForAllCalls) {
  const auto format = format::compile(
      "name = 'a'\n[id]\nprefix = ''\nlength = 1\n[[syntax]]\ncall = '<a>${object}</a>'", "a");
  ASSERT_TRUE(format) << format.error().message;
  json::Array calls;
  for (int i = 0; i < 100; ++i) {
    calls.emplace_back(json::Object{{"id", "call_" + std::to_string(i)},
                                    {"function", json::Object{{"name", "f"}}}});
  }
  json::Object context{
      {"messages", json::Array{json::Object{
                       {"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(calls)}}}}};
  EXPECT_EQ(shape(context, kModern(), {.format = format->get()}).ids.size(), 100U);
}

TEST(Shape, LeavesWhatIsNotAConversation) {
  for (const std::string_view text :
       {R"({"tools":3,"messages":7})",
        R"({"tools":[4,{"function":5}],"messages":[null,[],{"role":6,"tool_calls":[7]}]})"}) {
    json::Object context = *parsed(text).if_object();
    static_cast<void>(shape(context, Capabilities{.bare_tools = false}));
    EXPECT_NE(context.find("messages"), nullptr) << text;
  }
}

}  // namespace
}  // namespace tenon::prompt
