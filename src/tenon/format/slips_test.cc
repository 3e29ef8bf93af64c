// What models write beside what their templates do: each row is a slip that was seen, in the format
// that it was seen in, and the one reading that it has.
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

namespace tenon::format {
namespace {

struct SlipRow {
  std::string_view name;
  std::string_view format;
  std::string_view text;
  std::string_view content;
  std::string_view reasoning;
  Calls calls;
};

void PrintTo(const SlipRow& row, std::ostream* os) {
  *os << row.name;
}

ParseOptions slip_options() {
  return {.tools = {"get_time", "get_weather", "note"},
          .schemas = {*json::parse(R"({"type": "object"})"),
                      *json::parse(R"({"type": "object", "properties": {"city": {"type": "string"},
                        "days": {"type": "integer"}, "full": {"type": "boolean"}}})"),
                      *json::parse(R"({"type": "object", "properties": {"title": {"type": "string"},
                        "tags": {"type": "array"}, "more": {"type": "object"}}})")}};
}

const Calls kTime = {{"get_time", "{}"}};
const Calls kParis = {{"get_weather", R"({"city": "Paris"})"}};

const SlipRow kSlips[] = {
    // Numbers.
    {"ZerosBeforeANumber",
     "lfm2",
     "<|tool_call_start|>[get_weather(city='Paris', days=07)]<|tool_call_end|>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 7})"}}},
    {"ZerosBeforeANumberOfJson",
     "hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 07}}\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"days": 7})"}}},
    {"ZerosBeforeANumberInATag",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=days>\n07\n</parameter>\n"
     "<parameter=city>\n007\n</parameter>\n</function>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"days": 7, "city": "007"})"}}},
    {"WordsBehindANumber",
     "mistral_v11",
     R"([TOOL_CALLS]get_weather[ARGS]{"days": 12 or so})",
     R"("days": 12 or so})",
     "",
     {{"get_weather", "{}"}}},
    // Python's notation.
    {"AnObjectAsPythonHasIt",
     "seed_oss",
     "<seed:tool_call>\n<function=note>\n<parameter=title>{'a': True}</parameter>\n"
     "<parameter=more>{'a': True, 'b': [None, 'it\\'s']}</parameter>\n"
     "<parameter=tags>['x', 2]</parameter>\n</function>\n</seed:tool_call>",
     "",
     "",
     {{"note",
       R"({"title": "{'a': True}", "more": {"a": true, "b": [null, "it's"]}, "tags": ["x", 2]})"}}},
    {"AnObjectThatPythonHasNot",
     "seed_oss",
     "<seed:tool_call>\n<function=note>\n<parameter=more>{'a': True} or so</parameter>\n"
     "</function>\n</seed:tool_call>",
     "",
     "",
     {{"note", R"({"more": "{'a': True} or so"})"}}},
    {"ArgumentsInApostrophes",
     "kimi_k2",
     "<|tool_call_begin|>functions.note:0<|tool_call_argument_begin|>{'title': 'it\\'s \"so\"', "
     "'tags': [True, \"it's\"]}<|tool_call_end|>",
     "",
     "",
     {{"note", R"({"title": "it's \"so\"", "tags": [true, "it's"]})"}}},
    {"ACallInApostrophes",
     "hermes",
     "<tool_call>\n{'name': 'note', 'arguments': {'title': 'a'}}\n</tool_call>\n"
     "<tool_call>\n{'id': 'x1', 'type': 'function', 'function': {'name': 'get_weather', "
     "'arguments': '{\"city\": \"Paris\"}'}}\n</tool_call>",
     "",
     "",
     {{"note", R"({"title": "a"})"}, kParis[0]}},
    {"AListInApostrophes",
     "mistral_v3",
     "[TOOL_CALLS] [{'name': 'get_weather', 'arguments': {'city': 'Paris'}}, "
     "{'name': 'get_time', 'arguments': {}}]",
     "",
     "",
     {kParis[0], kTime[0]}},
    {"ABareObjectInApostrophes", "llama3_json",
     "{'name': 'get_weather', 'parameters': {'city': 'Paris'}}", "", "", kParis},
    {"ABareObjectInApostrophesOfNoTool",
     "llama3_json",
     "{'name': 'get_tide', 'parameters': {'city': 'Paris'}}",
     "{'name': 'get_tide', 'parameters': {'city': 'Paris'}}",
     "",
     {}},
    // Brackets too many, or missing.
    {"AListClosedTooEarly",
     "mistral_v3",
     R"([TOOL_CALLS][{"name": "get_time", "arguments": {}}], {"name": "get_weather", )"
     R"("arguments": {"city": "Paris"}}])",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"AListClosedTooEarlyInPython",
     "lfm2",
     "<|tool_call_start|>[get_time()], get_weather(city=\"Paris\")]<|tool_call_end|>",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"ABracketTooManyAtTheEnd", "xlam", R"([{"name": "get_time", "arguments": {}}]])", "", "",
     kTime},
    {"WordsBehindAList", "xlam", R"([{"name": "get_time", "arguments": {}}], and so on])",
     ", and so on]", "", kTime},
    {"ABraceBetweenTheCallsOfAList",
     "cohere_r7b",
     R"(<|START_ACTION|>[{"tool_name": "get_time", "parameters": {}}}, {"tool_name": )"
     R"("get_weather", "parameters": {"city": "Paris"}}}}]<|END_ACTION|>)",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"AParenthesisBetweenTheCallsOfAList",
     "lfm2",
     "<|tool_call_start|>[get_time()), get_weather(city='Paris'))]<|tool_call_end|>",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"ABraceBehindAListThatEnds", "granite3",
     R"(<|tool_call|>[{"name": "get_time", "arguments": {}}})", "}", "", kTime},
    {"NoBraceBeforeTheEnd",
     "gemma4",
     R"(<|tool_call>call:note{title:<|"|>a<|"|>,more:{a:[1,Paris<tool_call|>)"
     R"(<|tool_call>call:get_time{<tool_call|>)"
     R"(<|tool_call>call:get_weather{city:'Paris'<tool_call|>)",
     "",
     "",
     {{"note", R"({"title":"a","more":{"a":[1,"Paris"]}})"},
      kTime[0],
      {"get_weather", R"({"city":"Paris"})"}}},
    {"NoBraceBeforeTheEndOfANumber",
     "functiongemma",
     "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3<end_function_call>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris","days":3})"}}},
    // Markers that are damaged take nothing away.
    {"AHeadThatRunsOn", "harmony",
     "<|channel|>commentary to=functions.note json{\"title\": \"a\"}<|call|><|start|>assistant"
     "<|channel|>commentary to=functions.get_time<|message|>{}<|call|>",
     "<|channel|>commentary to=functions.note json{\"title\": \"a\"}<|call|>", "", kTime},
    {"AnIdThatRunsOn", "kimi_k2",
     "<|tool_call_begin|>functions.note:0<|tool_call_x|>{\"title\": \"a\"}<|tool_call_end|>"
     "<|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "<|tool_call_begin|>functions.note:0<|tool_call_x|>{\"title\": \"a\"}<|tool_call_end|>", "",
     kTime},
    // Calls of several syntaxes in one section.
    {"JsonAndThenParameters",
     "kimi_k3",
     "<|open|>tools<|sep|><|open|>call tool=\"get_time\" index=\"1\"<|sep|><|open|>json "
     "type=\"object\"<|sep|>{}<|close|>json<|sep|><|close|>call<|sep|><|open|>call "
     "tool=\"get_weather\" index=\"2\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>"
     "Paris<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"ParametersWithoutTheSection", "k2_horizon", "<ifm|tool_call>get_time</ifm|tool_call>", "", "",
     kTime},
    // Fences, and white space as two characters.
    {"AListInAFenceWithoutAWord",
     "json",
     "```\n[{\"name\": \"get_time\", \"arguments\": {}}, {\"name\": \"get_weather\", "
     "\"arguments\": {\"city\": \"Paris\"}}]\n```",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"WhiteSpaceAsTwoCharacters", "glm45",
     "<tool_call>\\n\\nget_weather\\r\\n\\t<arg_key>city</arg_key>\\r\\n<arg_value>Paris"
     "</arg_value>\\n\\n</tool_call>",
     "", "", kParis},
    {"AnIdWithItsWordAndNoName",
     "kimi_k2",
     "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "",
     {}},
    {"BetweenControlTokens", "phi4_mini",
     R"(<|tool_call|>[{"name": "get_time", "arguments": {}}]<|/tool_call|>)", "", "", kTime},
    {"ACallInOpenThoughtsOfLongcat", "longcat",
     "<longcat_think>Hm.<longcat_tool_call>get_time\n</longcat_tool_call>", "", "Hm.", kTime},
    {"OtherContentBehindAHead",
     "inkling",
     "<|message_model|><|content_invoke_tool_text|>tides<|end_message|>",
     "tides",
     "",
     {}},
    // Line breaks where the template has none.
    {"LinesBetweenMarkers",
     "step3",
     "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>\n<steptml:invoke "
     "name=\"get_weather\">\n<steptml:parameter name=\"city\">Paris</steptml:parameter>\n"
     "<steptml:parameter name=\"days\">3</steptml:parameter>\n</steptml:invoke>\n"
     "<｜tool_call_end｜>\n<｜tool_calls_end｜>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    // End markers that come twice.
    {"AnEndOfANumberTwice",
     "glm45",
     "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>3</arg_value></arg_value>\n"
     "<arg_key>full</arg_key>\n<arg_value>true</arg_value>\n</arg_value>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"days": 3, "full": true})"}}},
    {"AnEndOfAListThrice",
     "qwen3_coder",
     "<tool_call>\n<function=note>\n<parameter=tags>\n[1]\n</parameter></parameter>\n</parameter>\n"
     "<parameter=title>\nParis\n</parameter>\n</function>\n</tool_call>",
     "",
     "",
     {{"note", R"({"tags": [1], "title": "Paris"})"}}},
    {"AnEndOfATextTwiceIsOfTheText",
     "glm45",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value></arg_value>\n"
     "</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris</arg_value>"})"}}},
    {"AnEndThatIsTextTwice",
     "glm45",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>a</arg_value></arg_value> b"
     "</arg_value>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "a</arg_value></arg_value> b"})"}}},
    // Attributes.
    {"NoType", "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"city\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "", "", kParis},
    {"AttributesInAnyOrderAndQuotes",
     "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke id=\"x\" name='get_weather' >\n<｜DSML｜parameter "
     "string=true name=\"city\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=days string = "
     "'false'>3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"TagWithoutQuotesThatClosesItself", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=get_time/>\n</minimax:tool_call>", "", "", kTime},
    {"TagThatClosesItself",
     "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_time\"/>\n<｜DSML｜invoke "
     "name=\"get_time\" />\n</｜DSML｜tool_calls>",
     "",
     "",
     {{"get_time", "{}"}, {"get_time", "{}"}}},
    {"NoSection", "deepseek_v32",
     "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "", "", kParis},
    {"TypeWithoutItsQuote",
     "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"days\" "
     "string=\"fal</｜DSML｜parameter>\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "<｜DSML｜parameter name=\"days\" string=\"fal</｜DSML｜parameter>\n<｜DSML｜parameter "
     "name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n",
     "",
     {{"get_weather", "{}"}}},
    {"EndOfReasoningBehindTheCall", "deepseek_v4",
     "<think>Hm.<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_time\">\n</｜DSML｜invoke>\n"
     "</｜DSML｜tool_calls></think>",
     "", "Hm.", kTime},
    {"AttributesOfElements",
     "kimi_k3",
     "<|open|>tools<|sep|><|open|>call index=\"1\" tool=\"get_weather\"<|sep|><|open|>argument "
     "key=\"city\"<|sep|>Paris<|close|>argument<|sep|><|close|>call<|sep|><|open|>call "
     "tool=\"get_time\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris"})"}, {"get_time", "{}"}}},
    {"ArgumentsInOnePiece", "kimi_k3",
     "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" "
     "index=\"1\"<|sep|><|open|>json<|sep|>{\"city\": "
     "\"Paris\"}<|close|>json<|sep|><|close|>call<|sep|><|close|>"
     "tools<|sep|>",
     "", "", kParis},
    {"TypeInAnElement",
     "k2_horizon",
     "<ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string"
     "</ifm|arg_type><ifm|arg_value>Paris</ifm|arg_value><ifm|arg_key>days</ifm|arg_key>"
     "<ifm|arg_value>3</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    // Names.
    {"ANamespaceBeforeTheName",
     "gemma4",
     "<|tool_call>call:desk:tools:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris"})"}}},
    {"NoWordBeforeTheName", "gemma4", "<|tool_call>:get_time{}<tool_call|>", "", "", kTime},
    {"WhiteSpaceAroundTheColon", "gemma4", "<|tool_call>call : get_time{}<tool_call|>", "", "",
     kTime},
    {"LlamasFunctionTag", "llama3_json", "<function=get_weather>{\"city\": \"Paris\"}</function>",
     "", "", kParis},
    {"AFenceBetweenMarkers", "granite3",
     "<|tool_call|>```json\n[{\"name\": \"get_weather\", \"arguments\": {\"city\": "
     "\"Paris\"}}]\n```",
     "", "", kParis},
    {"AFenceBetweenTags", "jamba",
     "<tool_calls>\n```json\n[{\"name\": \"get_weather\", \"arguments\": {\"city\": "
     "\"Paris\"}}]\n```\n</tool_calls>",
     "", "", kParis},
    {"AFenceInAPlugin", "internlm2",
     "<|action_start|><|plugin|>\n```json\n{\"name\": \"get_weather\", \"parameters\": "
     "{\"city\": \"Paris\"}}\n```\n<|action_end|>",
     "", "", kParis},
    {"NamesInAttributes", "qwen3_coder",
     "<tool_call>\n<function name=\"get_weather\">\n<parameter "
     "name=\"city\">\nParis\n</parameter>\n</function>\n</tool_call>",
     "", "", kParis},
    {"JsonInAnInvoke", "deepseek_v41",
     "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">{\"city\": \"Paris\"}</｜DSML｜ "
     "invoke>\n</｜DSML｜ calls>",
     "", "", kParis},
    {"IdsWithoutTheirDotsAndColons",
     "kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functionsget_weather3<|tool_call_argument_"
     "begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>functions.get_time0<|tool_"
     "call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris"})"}, {"get_time", "{}"}}},
    {"AnIdThatNamesNoneOfSeveralTools",
     "kimi_k2",
     "<|tool_call_begin|>call00007<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "<|tool_call_begin|>call00007<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "",
     {}},
    {"ASectionInTheSingular", "kimi_k2",
     "<|tool_call_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_"
     "begin|>{}<|tool_call_end|><|tool_call_section_end|>",
     "", "", kTime},
    {"NamesInQuotes", "qwen3_coder",
     "<tool_call>\n<function=\"get_weather\">\n<parameter=\"city\">\nParis\n</parameter>\n"
     "</function>\n</tool_call>",
     "", "", kParis},
    {"ANamespaceInBareJsonIsAnotherName",
     "llama3_json",
     R"({"name": "desk.get_time", "parameters": {}})",
     R"({"name": "desk.get_time", "parameters": {}})",
     "",
     {}},
    // Values and what ends them.
    {"ValuesWithoutTheirEnd",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n"
     "</function>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"AParameterOfNoToolIsText",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=x>\n3\n</"
     "parameter>\n"
     "</function>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris\n<parameter=x>\n3"})"}}},
    {"NoEndOfAParameterOnTheSameLine",
     "mimo",
     "<tool_call>\n<function=get_weather>\n<parameter=city>Paris<parameter=days>3\n"
     "<parameter=full>true</parameter>\n</function>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3, "full": true})"}}},
    {"NoEndOfTheLastParameter",
     "seed_oss",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris\n</function>\n"
     "</seed:tool_call>\n<seed:tool_call>\n<function=get_time>\n</function>\n</seed:tool_call>",
     "",
     "",
     {kParis[0], kTime[0]}},
    {"NoEndOfTheLastParameterInASection",
     "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris\n"
     "</invoke>\n<invoke name=\"get_weather\">\n<parameter name=\"days\">3\n"
     "<parameter name=\"city\">Paris</invoke>\n</minimax:tool_call>Done.",
     "Done.",
     "",
     {kParis[0], {"get_weather", R"({"days": 3, "city": "Paris"})"}}},
    {"NoEndOfTheLastParameterAndNoMore", "minicpm5",
     "<function name=\"get_weather\"><param name=\"city\">Paris</function>", "", "", kParis},
    {"NoEndOfAValueBehindItsKey",
     "glm45",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris\n<arg_key>days</arg_key>\n"
     "<arg_value>3</tool_call>\n<tool_call>get_time\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}, kTime[0]}},
    {"TheEndOfACallInAText",
     "seed_oss",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>a </function>\nb</parameter>\n"
     "</function>\n</seed:tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "a </function>\nb"})"}}},
    {"TheTurnsEndInPlaceOfTheCalls", "beam",
     " to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name=\"city\">\n"
     "Paris\n</rfl:parameter>\n<|return|>",
     "", "", kParis},
    {"AnotherCallInPlaceOfTheEnd",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
     "<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
     "",
     "",
     {kParis[0], kTime[0]}},
    {"AnElementWithAnotherEnd",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Paris"
     "]<]minimax[>[</town>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris"})"}}},
    {"ADamagedElementBeforeAnother",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<city>Paris]<]minimax[>[</"
     "town>]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</"
     "tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"AnEndWithoutItsControlToken",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[<days>3</"
     "days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": "3</days>"})"}}},
    {"AnEndWithoutItsBracket",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<city>Paris]<]minimax[>[</"
     "city]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</"
     "tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"AnEndWithoutAName",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<days>3]<]minimax[>[</"
     "days>]<]minimax[>[<city>Paris]<]minimax[>[</>]<]minimax[>[</invoke>\n]<]minimax[>[</"
     "tool_call>",
     "",
     "",
     {{"get_weather", R"({"days": 3, "city": "Paris"})"}}},
    {"AnElementInADamagedOne",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<city>]<]minimax[>[<x>Paris]<]minimax[>[</x>]<]minimax[>[</"
     "city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "", "x": "Paris"})"}}},
    {"ABeginningWithoutItsBracket",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<cityParis]<]minimax[>[</city>]<]minimax[>[</"
     "invoke>\n]<]minimax[>[</tool_call>",
     "]<]minimax[>[<cityParis]<]minimax[>[</city>]<]minimax[>[</invoke>\n",
     "",
     {{"get_weather", "{}"}}},
    {"ChildrenOfOneName",
     "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"note\">]<]minimax[>[<more>]<]minimax[>[<a>"
     "x]<]minimax[>[</a>]<]minimax[>[<b>]<]minimax[>[<c>1]<]minimax[>[</c>]<]minimax[>[</b>"
     "]<]minimax[>[<a>y]<]minimax[>[</a>]<]minimax[>[</more>]<]minimax[>[</invoke>\n]<]minimax[>[<"
     "/tool_call>",
     "",
     "",
     {{"note", R"({"more": {"a": ["x", "y"], "b": {"c": 1}}})"}}},
    {"EndOfAValueThatDidNotBegin", "glm45", "<tool_call>get_time</arg_value></tool_call>", "", "",
     kTime},
    {"EndOfAValueBeforeTheFirst", "glm45",
     "<tool_call>get_weather</arg_value>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
     "</tool_call>",
     "", "", kParis},
    {"ArgumentsAsJsonInATag", "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n{\"city\": \"Paris\"}\n"
     "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "", "", kParis},
    {"LineBreaksInTwoCharacters", "glm45",
     "<tool_call>get_weather\\n<arg_key>city</arg_key>\\n<arg_value>Paris</arg_value>\\n"
     "</tool_call>",
     "", "", kParis},
    {"OtherQuotes",
     "gemma4",
     "<|tool_call>call:note{title:'a, {b} it's \\d',tags:['x',<|\"|>y<|\"|>]}<tool_call|>",
     "",
     "",
     {{"note", R"({"title":"a, {b} it's \\d","tags":["x","y"]})"}}},
    {"QuotesOfBothKindsAtTheEnd",
     "gemma4",
     "<|tool_call>call:note{title:'a'<|\"|>,tags:[\"x\"<|\"|>]}<tool_call|>",
     "",
     "",
     {{"note", R"({"title":"a","tags":["x"]})"}}},
    {"EqualsInPlaceOfAColon",
     "gemma4",
     "<|tool_call>call:get_weather{city=<|\"|>Paris<|\"|>,days=3}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris","days":3})"}}},
    {"AKeyInApostrophes",
     "gemma4",
     "<|tool_call>call:get_weather{'city':'Paris', 'days' : 3}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris", "days" : 3})"}}},
    {"OtherQuotesThatTheFormatsOwnEnds",
     "gemma4",
     "<|tool_call>call:get_weather{city:\"Paris<|\"|>,days:3}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris","days":3})"}}},
    {"ApostrophesThatTheFormatsOwnEnds",
     "gemma4",
     "<|tool_call>call:note{title:'It's <|x|> or <|\"|>,tags:['a<|\"|>,<|\"|>b<|\"|>]}<tool_call|>",
     "",
     "",
     {{"note", R"({"title":"It's <|x|> or ","tags":["a","b"]})"}}},
    {"OtherQuotesAroundABeginningOfTheFormatsOwn",
     "functiongemma",
     "<start_function_call>call:get_weather{city:\"a <esc\",days:3}<end_function_call>",
     "",
     "",
     {{"get_weather", R"({"city":"a <esc","days":3})"}}},
    // Reasoning and markers beside calls.
    {"ACallInOpenThoughts",
     "gemma4",
     "<|channel>thought\nHm.<|tool_call>call:get_weather{days:4}<tool_call|>",
     "",
     "Hm.",
     {{"get_weather", R"({"days":4})"}}},
    {"WordsOfACallInThoughts",
     "gemma4",
     "<|channel>thought\nSay call:get_time{} then.<channel|>Yes.",
     "Yes.",
     "Say call:get_time{} then.",
     {}},
    {"AStrayBeginningOfThoughts", "gemma4", "Hello.<|channel>", "Hello.", "", {}},
    {"AStrayBeginningOfThoughtsBeforeAnother",
     "gemma4",
     "<|channel><|channel>thought\nHm.<channel|>Hello.",
     "Hello.",
     "Hm.",
     {}},
    {"AStrayBeginningOfThoughtsBeforeACall", "gemma4",
     "<|channel>thoug<|tool_call>call:get_time{}<tool_call|>", "thoug", "", kTime},
    {"TextInBackticks",
     "gemma4",
     "<|tool_call>call:note{title:`a, {b}`,tags:[`x`]}<tool_call|>",
     "",
     "",
     {{"note", R"({"title":"a, {b}","tags":["x"]})"}}},
    {"ThoughtsBehindWords", "gemma4", "Hello.<|channel>thought\n<channel|>", "Hello.", "", {}},
    {"AStrayEndOfThoughts",
     "gemma4",
     "<|channel>thought\n<channel|>Yes.<channel|>",
     "Yes.",
     "",
     {}},
    {"AStrayEndOfACall", "gemma4", "<|tool_call>call:get_time{}<tool_call|><tool_call|>It ticks.",
     "It ticks.", "", kTime},
    {"TheEndOfACallOfNoTool",
     "gemma4",
     "<|tool_call>call:nothing{}<tool_call|>",
     "<|tool_call>call:nothing{}<tool_call|>",
     "",
     {}},
    // Behind a call the turn's end is its end; what follows is what the model thinks a tool
    // returns.
    {"WordsBehindACallAndTheEndOfTheTurn", "functiongemma",
     "<start_function_call>call:get_time{}<end_function_call><start_function_response>response:get_"
     "time{value:9}<end_function_response>It is nine.",
     "", "", kTime},
    {"WhiteSpaceBeforeTheEndOfTheTurn", "functiongemma",
     "<start_function_call>call:get_time{}<end_function_call>\n<end_of_turn>\n<start_of_turn>user\n"
     "Thanks!",
     "", "", kTime},
    {"WordsBetweenACallAndTheEndOfTheTurn", "functiongemma",
     "<start_function_call>call:get_time{}<end_function_call>Look.<end_of_turn>And then.",
     "Look.And then.", "", kTime},
    {"AnObservationOfTheModelsOwn", "glm45",
     "<tool_call>get_time\n</tool_call><|observation|>\n<tool_response>9</tool_response>", "", "",
     kTime},
    {"AQuotedObservation",
     "glm45",
     "It says <|observation|> here.",
     "It says <|observation|> here.",
     "",
     {}},
    {"ATurnOfTheUserBehindACall", "gemma4",
     "<|tool_call>call:get_time{}<tool_call|><turn|>\n<|turn>user\nThanks!", "", "", kTime},
    {"WordsBehindAQuotedEndOfTheTurnAreContent",
     "glm4",
     "The turn ends with <|observation|>, and the user goes on.",
     "The turn ends with , and the user goes on.",
     "",
     {}},
    // A call's marker that is a control token ends thoughts without an end.
    // Mistral's models quote calls in their thoughts: llama.cpp's tests have such an answer.
    {"ACallThatThoughtsQuote",
     "mistral_v11",
     "[THINK]As [TOOL_CALLS]get_time[ARGS]{} says.[/THINK]Yes.",
     "Yes.",
     "As [TOOL_CALLS]get_time[ARGS]{} says.",
     {}},
    {"ACallInThoughtsOfSeed", "seed_oss",
     "<seed:think>Hm.<seed:tool_call>\n<function=get_time>\n</function>\n</seed:tool_call>", "",
     "Hm.", kTime},
    {"ACallInThoughtsOfCommand", "cohere_r7b",
     "<|START_THINKING|>Hm.<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": "
     "\"get_time\", \"parameters\": {}}]<|END_ACTION|>",
     "", "Hm.", kTime},
    {"ACallInThoughtsOfDeepSeek", "deepseek_v31",
     "<think>Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", "Hm.", kTime},
    {"AMarkerThatThoughtsQuote",
     "mistral_v11",
     "[THINK]Write [TOOL_CALLS] first.[/THINK]Yes.",
     "Yes.",
     "Write [TOOL_CALLS] first.",
     {}},
    // Marks that are left out, and white space that comes between them.
    {"NoMarkBeforeTheArguments", "mistral_v11", "[TOOL_CALLS]get_time{}", "", "", kTime},
    {"NoMarkBeforeTheArgumentsOfACallWithAnId", "mistral_small32", "[TOOL_CALLS]get_time{}", "", "",
     kTime},
    {"ANameInPlaceOfTheArray", "mistral_v3", "[TOOL_CALLS]get_time{}", "", "", kTime},
    {"LinesBetweenMarks", "plamo3",
     "<|plamo:begin_tool_requests:plamo|>\n<|plamo:begin_tool_request:plamo|>\n"
     "<|plamo:begin_tool_name:plamo|>get_time<|plamo:end_tool_name:plamo|>\n"
     "<|plamo:begin_tool_arguments:plamo|>\n<|plamo:constrain|>json<|plamo:msg|>{}"
     "<|plamo:end_tool_arguments:plamo|>\n<|plamo:end_tool_request:plamo|>\n"
     "<|plamo:end_tool_requests:plamo|>",
     "", "", kTime},
    // Heads of messages.
    {"WordsToTheUserBetweenCalls",
     "muse_glimmer",
     " to=commentary<|message|>I look it up.<|eom|>",
     "I look it up.",
     "",
     {}},
    {"AnExampleInWordsToTheUser",
     "muse_glimmer",
     " to=commentary<|message|>Write <atem:function_calls>\n<atem:invoke name=\"get_time\">\n"
     "</atem:invoke>\n</atem:function_calls>.<|eom|>",
     "Write <atem:function_calls>\n<atem:invoke name=\"get_time\">\n</atem:invoke>\n"
     "</atem:function_calls>.",
     "",
     {}},
    {"ATypeInTheHeadOfAnAnswer",
     "harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final "
     "<|constrain|>json<|message|>{\"a\": 1}<|return|>",
     "{\"a\": 1}",
     "Hm.",
     {}},
    {"AWordForATypeInTheHeadOfACall", "harmony",
     "<|channel|>analysis to=functions.get_time code<|message|>{}<|call|>", "", "", kTime},
    {"TheRecipientAtTheEndOfTheHead", "harmony",
     "<|channel|>commentary<|constrain|>json to=functions.get_time<|message|>{}<|call|>", "", "",
     kTime},
    {"TheRecipientFirst", "harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.get_time<|channel|>"
     "commentary json<|message|>{}<|call|>",
     "", "Hm.", kTime},
    {"ARecipientWithoutItsNamespace", "harmony",
     "<|channel|>commentary to=get_time <|constrain|>json<|message|>{}<|call|>", "", "", kTime},
    {"ARecipientOfAnAnswer",
     "harmony",
     "<|channel|>final to=functions.get_time<|message|>It is four.<|return|>",
     "It is four.",
     "",
     {}},
    {"AHeadThatBeginsTwice",
     "harmony",
     "<|channel|>commentary to=assistant<|channel|>final<|message|>Yes.<|return|>",
     "Yes.",
     "",
     {}},
    {"ARecipientThatIsNoTool",
     "harmony",
     "<|channel|>commentary to=functions.nothing<|message|>{}<|call|>",
     "<|channel|>commentary to=functions.nothing<|message|>{}<|call|>",
     "",
     {}},
    {"AHeadWithoutItsEnd", "harmony", "<|channel|>comm", "<|channel|>comm", "", {}},
    {"ReasoningWithoutItsEnd",
     "harmony",
     "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Yes.",
     "Yes.",
     "Hm.",
     {}},
    {"ARecipientInTheMidst",
     "harmony",
     "<|channel|>final<|message|>Write to=functions.get_time<|message|>{}",
     "Write to=functions.get_time<|message|>{}",
     "",
     {}},
    {"HeadsOfOtherMessages",
     "muse_glimmer",
     " to=commentary<|message|>One moment.<|eom|><|start|>assistant to=user<|message|>Nine.<|eot|>",
     "One moment.Nine.",
     "",
     {}},
    {"SeveralCallsInAMessage",
     "muse_glimmer",
     " to=house<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n"
     "<atem:parameter name=\"city\">Paris</atem:parameter>\n</atem:invoke>\n<atem:invoke "
     "name=\"get_time.get_time\">\n</atem:invoke>\n</atem:function_calls><|eot|>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris"})"}, {"get_time", "{}"}}},
    {"ACallInWordsForTheReader",
     "muse_glimmer",
     " to=user<|message|>Write <atem:function_calls>\n<atem:invoke "
     "name=\"get_time\">\n</atem:invoke>\n"
     "</atem:function_calls><|eot|>",
     "Write <atem:function_calls>\n<atem:invoke name=\"get_time\">\n</atem:invoke>\n"
     "</atem:function_calls>",
     "",
     {}},
    {"ThoughtsUpToTheNextHead", "muse_glimmer",
     " to=self<|message|>Hm.<|start|>assistant to=get_time<|message|><atem:function_calls>\n"
     "<atem:invoke name=\"get_time\">\n</atem:invoke>\n</atem:function_calls><|eom|>",
     "", "Hm.", kTime},
    {"ThoughtsThatATurnEndsIn", "muse_glimmer", " to=self<|message|>Hm.<|eot|>", "", "Hm.", {}},
    {"TheNameInTheHeadToo", "inkling",
     "<|message_model|>get_time<|content_invoke_tool_json|>{\"name\":\"get_time\",\"args\":{}}"
     "<|end_message|>",
     "", "", kTime},
    {"OtherKindsOfContent",
     "inkling",
     "<|content_invoke_tool_text|>tide tables<|end_message|>",
     "tide tables",
     "",
     {}},
    // Formats near others.
    {"ASpaceBehindTheMark",
     "deepseek_v41",
     "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n<｜DSML｜ parameter name=\"city\" "
     "string=\"true\">Paris</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"days\" "
     "string=\"false\">3</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"NameAndPairs", "hy_v4",
     "<tool_calls><tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
     "</tool_call></tool_calls>",
     "", "", kParis},
    {"PairsOfLongcat", "longcat",
     "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>"
     "Paris</longcat_arg_value>\n</longcat_tool_call>",
     "", "", kParis},
    {"ParametersBehindAHead",
     "beam",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=get_weather<|channel|>analysis "
     "<|constrain|>xml<|message|><rfl:parameter name=\"city\">\nParis\n</rfl:parameter>\n"
     "<rfl:parameter name=\"days\">\n3\n</rfl:parameter><|end|>",
     "",
     "Hm.",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    // A call's end, where the value's own is missing.
    {"ACallsEndAloneInAValue", "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</tool_call>\nDone.", "\nDone.",
     "", kParis},
    {"ACallsEndAloneOnTheValuesLine", "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis</tool_call>", "", "", kParis},
    {"ACallsEndAloneBehindANumber",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</tool_call>\nDone.",
     "\nDone.",
     "",
     {{"get_weather", R"({"days": 3})"}}},
    {"ACallsEndAloneBeforeAnotherCall",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</tool_call>\n"
     "<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
     "",
     "",
     {kParis[0], kTime[0]}},
    {"CallsEndsAloneAndWordsBetween",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</tool_call>\nAnd:\n"
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</tool_call>\nDone.",
     "\nAnd:\n\nDone.",
     "",
     {kParis[0], kParis[0]}},
    {"AFunctionsEndAloneInAValue", "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</function>\nDone.", "\nDone.",
     "", kParis},
    {"ACallsEndThatIsText",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</tool_call>\nb </function>\n"
     "</parameter>\n</function>\n</tool_call>\nDone.",
     "\nDone.",
     "",
     {{"get_weather", R"({"city": "a\n</tool_call>\nb </function>"})"}}},
    {"ACallsEndThatIsTextBeforeAParameter",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</tool_call>\nb\n"
     "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "a\n</tool_call>\nb", "days": 3})"}}},
    {"ASectionsEndAloneInAValue", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris"
     "</minimax:tool_call>\nDone.",
     "\nDone.", "", kParis},
    {"ASectionsEndBehindAValue", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris"
     "</parameter>\n</minimax:tool_call>\nDone.",
     "\nDone.", "", kParis},
    {"ACallsEndAloneInAnElement", "glm45",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</tool_call>\nDone.",
     "\nDone.", "", kParis},
    {"AnInvokesEndAloneInAValue", "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"city\" string=\"true\">Paris</｜DSML｜tool_calls>\nDone.",
     "\nDone.", "", kParis},
    {"ASectionsEndInAnElementOfMany", "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Paris"
     "]<]minimax[>[</tool_call>\nDone.",
     "\nDone.", "", kParis},
    {"ACallsEndAloneBehindAnInvoke", "step3",
     "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"get_weather\">\n<steptml:parameter name=\"city\">Paris<｜tool_call_end｜>\n"
     "<｜tool_calls_end｜>",
     "", "", kParis},
    {"ACallsEndAloneInAnArgument", "kimi_k3",
     "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument "
     "key=\"city\" type=\"string\"<|sep|>Paris<|close|>call<|sep|><|close|>tools<|sep|>",
     "", "", kParis},
    {"ACallsEndAloneInAPair", "longcat",
     "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
     "<longcat_arg_value>Paris</longcat_tool_call>",
     "", "", kParis},
    {"ACallsEndAloneBeforeItsSections", "hy_v4",
     "<tool_calls><tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</tool_call>"
     "</tool_calls>Done.",
     "Done.", "", kParis},
    {"ACallsEndAloneWithControlTokens", "solar_open2",
     "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris"
     "<|tool_call:end|>\nDone.",
     "\nDone.", "", kParis},
    // Braces that come twice.
    {"BracesTwice",
     "gemma4",
     "<|tool_call>call:note{{\"title\": \"a\", \"more\": {{\"b\": 1}}}}<tool_call|>",
     "",
     "",
     {{"note", R"({"title": "a", "more": {"b": 1}})"}}},
    {"BracesTwiceWithoutTheOthers",
     "functiongemma",
     "<start_function_call>call:get_weather{{city:<escape>Paris<escape>}<end_function_call>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris"})"}}},
    {"BracesTwiceInJson", "hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"Paris\"}}}\n"
     "</tool_call>",
     "", "", kParis},
    {"BracesTwiceAroundACall", "hermes",
     "<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}}\n"
     "</tool_call>",
     "", "", kParis},
    // Python's constructors.
    {"DictInPython",
     "lfm2",
     "<|tool_call_start|>[note(title=\"a\", more=dict(b=1, c=dict(d=[True]), e=dict()), "
     "tags=list((1, 2)))]<|tool_call_end|>",
     "",
     "",
     {{"note",
       R"({"title": "a", "more": {"b": 1, "c": {"d": [true]}, "e": {}}, "tags": [1, 2]})"}}},
    {"DictAroundAnObject",
     "llama4_pythonic",
     "[note(more=dict({\"b\": 1}), tags=tuple([1]))]",
     "",
     "",
     {{"note", R"({"more": {"b": 1}, "tags": [1]})"}}},
    {"AnotherConstructor",
     "lfm2",
     "<|tool_call_start|>[note(more=deque([1]))]<|tool_call_end|>",
     "\"more\": deque([1]))]",
     "",
     {{"note", "{}"}}},
    // Quotes of typesetters.
    {"CurlyQuotesOfMembers",
     "gemma4",
     "<|tool_call>call:get_weather{city:“Paris, “France””,days:3}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris, “France”","days":3})"}}},
    {"CurlyQuotesOfKeys",
     "functiongemma",
     "<start_function_call>call:get_weather{“city”:‘Paris’}<end_function_call>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris"})"}}},
    {"CurlyQuotesWithoutTheOther",
     "gemma4",
     "<|tool_call>call:get_weather{city:“Paris}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"Paris}"})"}}},
    {"CurlyQuotesInJson",
     "hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {“city”: “Paris”, \"days\": 3}}\n"
     "</tool_call>",
     "",
     "",
     {{"get_weather", R"({"city": "Paris", "days": 3})"}}},
    {"CurlyQuotesInPython",
     "lfm2",
     "<|tool_call_start|>[get_weather(city=“it’s \"so\"”, days=3)]<|tool_call_end|>",
     "",
     "",
     {{"get_weather", R"({"city": "it’s \"so\"", "days": 3})"}}},
    {"AnotherSignThanACurlyQuote",
     "gemma4",
     "<|tool_call>call:get_weather{city:†Paris}<tool_call|>",
     "",
     "",
     {{"get_weather", R"({"city":"†Paris"})"}}},
    // A fence around a call.
    {"AFenceAroundACall", "qwen3_coder",
     "I look.\n```xml\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>\n```\nDone.",
     "I look.\n\nDone.", "", kTime},
    {"AFenceAroundTwoCalls",
     "hermes",
     "```\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
     "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\n```",
     "",
     "",
     {kTime[0], kParis[0]}},
    {"AFenceAroundAListOfCalls", "mistral_v3",
     "```json\n[TOOL_CALLS][{\"name\": \"get_time\", \"arguments\": {}}]\n```", "", "", kTime},
    {"AFenceWithWordsToo", "hermes",
     "```\nLook:\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n```",
     "```\nLook:\n\n```", "", kTime},
    {"AFenceOfAnExample", "hermes",
     "For example:\n```\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n"
     "```\nSo.",
     "For example:\n```\n\n```\nSo.", "", kTime},
    {"AFenceAroundTheCallOfNoTool",
     "hermes",
     "```\n<tool_call>\n{\"name\": \"get_tide\", \"arguments\": {}}\n</tool_call>\n```",
     "```\n<tool_call>\n{\"name\": \"get_tide\", \"arguments\": {}}\n</tool_call>\n```",
     "",
     {}},
    {"AFenceBehindWords",
     "gemma4",
     "Sure.\n\n```\n<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>\n```\n",
     "Sure.\n\n",
     "",
     {{"get_weather", R"({"city":"Paris"})"}}},
    {"AFenceBeforeWords", "glm45", "```\n<tool_call>get_time\n</tool_call>\n```\nDone.", "\nDone.",
     "", kTime},
    {"AFenceOfPython", "lfm2", "```python\n<|tool_call_start|>[get_time()]<|tool_call_end|>\n```",
     "", "", kTime},
    {"AFenceOfTildes", "hermes",
     "~~~\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n~~~", "", "",
     kTime},
    {"ATypesOtherQuoteIsMissing", "deepseek_v4",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"city\" string=\"true>Paris</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
     "</｜DSML｜tool_calls>",
     "", "", kParis},
    {"TheEndOfAValueThatHasNotBegun", "hunyuan_v3",
     "<tool_calls>\n<tool_call>get_time<tool_sep>\n</arg_value>\n</tool_call>\n</tool_calls>", "",
     "", kTime},
    {"JsonInAFunctionsTag", "mimo",
     "<tool_call>\n<function=get_weather>{\"city\": \"Paris\"}</function>\n</tool_call>", "", "",
     kParis},
    {"AnEndBehindAList", "mistral_v3",
     "[TOOL_CALLS] [{\"name\": \"get_time\", \"arguments\": {}}] [/TOOL_CALLS]", "", "", kTime},
    // Ends of messages.
    {"TheEndOfThoughtsWithoutTheirBeginning", "minimax_m3",
     "Hm.</mm:think>]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_time\">"
     "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     "Hm.", "", kTime},
    {"TheEndOfAMessageOfWords", "hyperclovax", "Hello.<|im_end|>", "Hello.", "", {}},
    {"ACallBehindAMessageOfWords", "hyperclovax",
     "Hello.<|im_end|>\n<|im_start|>assistant -> tool/function_call\n[{\"name\": \"get_time\", "
     "\"arguments\": {}}]",
     "Hello.", "", kTime},
};

class Slips : public ::testing::TestWithParam<SlipRow> {};

TEST_P(Slips, HaveOneReadingHoweverTheyAreCut) {
  const SlipRow& row = GetParam();
  const auto format = find(row.format);
  ASSERT_NE(format, nullptr);
  const Outcome outcome = parse(format, row.text, slip_options());
  EXPECT_EQ(outcome.content, row.content);
  EXPECT_EQ(outcome.reasoning, row.reasoning);
  EXPECT_EQ(outcome.calls, row.calls);
}

INSTANTIATE_TEST_SUITE_P(Table, Slips, ::testing::ValuesIn(kSlips),
                         [](const auto& test) { return std::string(test.param.name); });

// A head is read up to 512 bytes and one more; what is longer is text, as it came.
TEST(StreamParser, HeadsAreBounded) {
  const std::string begin = "<|channel|>";
  const std::string end = " final<|message|>";
  for (const std::size_t size : {511U, 512U, 513U, 514U, 600U}) {
    SCOPED_TRACE(size);
    const std::string head = begin + std::string(size - begin.size() - end.size(), 'x') + end;
    const Outcome outcome = parse(find("harmony"), head + "Yes.", slip_options());
    EXPECT_EQ(outcome.content, size <= 513 ? "Yes." : head + "Yes.");
  }
}

// Each of these heads is held as far as a head may be and then read again from the next one on,
// until there is nothing left to pay for that; however the text is cut it is what came.
TEST(StreamParser, HeadsThatAreNoneArePaidFor) {
  for (const std::size_t count : {8U, 40U, 47U, 48U, 60U}) {
    SCOPED_TRACE(count);
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "<|channel|>";
    text += "Yes.";
    EXPECT_EQ(parse(find("harmony"), text, slip_options()).content, text);
  }
}

// Why the first call failed is not said again of the second one.
TEST(StreamParser, EachFailedHeadHasItsOwnReason) {
  const std::string text = "to=functions.n<|channel|> and <|start|>assistantto=functions.";
  const Outcome outcome = parse(find("harmony"), text, slip_options());
  EXPECT_EQ(outcome.content, "to=functions.n<|channel|> and to=functions.");
  EXPECT_EQ(outcome.codes, (std::vector<std::string>{"unknown_tool", "broken_call"}));
}

// What stands behind a call's end marker in a value is held up to 64 KB. If the answer ends by
// then, the call ended at the marker; if it goes on, all of it is the value.
TEST(StreamParser, tool_calling_WhatMayHaveEndedACallIsBounded) {
  constexpr std::size_t kBound = std::size_t{1} << 16;
  const std::string before = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis";
  const std::string marker = "\n</tool_call>";
  for (const std::size_t size : {kBound - 1, kBound, kBound + 1, kBound + 100}) {
    SCOPED_TRACE(size);
    const std::string words(size, 'x');
    const std::string text = before + marker + words;
    const Calls whole = {{"get_weather", R"({"city": "Paris\n</tool_call>)" + words + R"("})"}};
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{1000}, text.size()}) {
      StreamParser parser(find("qwen3_coder"), slip_options());
      const Outcome outcome = outcome_of(events_of(parser, text, chunk));
      EXPECT_EQ(outcome.calls, size <= kBound ? kParis : whole) << chunk;
      EXPECT_EQ(outcome.content, size <= kBound ? words : "") << chunk;
    }
  }
}

// An id that names no tool is a call of the only one if its arguments are.
TEST(StreamParser, tool_calling_AnIdWithoutANameOfTheOnlyTool) {
  const ParseOptions options{
      .tools = {"get_weather"},
      .schemas = {*json::parse(R"({"properties": {"city": {"type": "string"}}})")}};
  const auto text = [](std::string_view arguments) {
    return "<|tool_call_begin|>call00007<|tool_call_argument_begin|>" + std::string(arguments) +
           "<|tool_call_end|>";
  };
  EXPECT_EQ(parse(find("kimi_k2"), text(R"({"city":"Paris"})"), options).calls,
            (Calls{{"get_weather", R"({"city":"Paris"})"}}));
  EXPECT_EQ(parse(find("kimi_k2"), text(R"({"place":"Paris"})"), options).content,
            text(R"({"place":"Paris"})"));
}

}  // namespace
}  // namespace tenon::format
