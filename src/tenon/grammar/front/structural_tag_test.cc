#include "tenon/grammar/front/structural_tag.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"

namespace tenon::grammar {
namespace {

constexpr Syntax kStructuralTagSyntax = Syntax::structural_tag;

std::string with_format(std::string_view format) {
  return R"({"type": "structural_tag", "format": )" + std::string(format) + "}";
}

// "I" is a tag with an integer in <f> and </f>, "A" any text, "C" the constant "c".
std::string expanded(std::string_view format) {
  std::string result;
  for (const char c : format) {
    if (c == 'I') {
      result +=
          R"({"type":"tag","begin":"<f>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":"</f>"})";
    } else if (c == 'A') {
      result += R"({"type":"any_text"})";
    } else if (c == 'C') {
      result += R"({"type":"const_string","value":"c"})";
    } else {
      result += c;
    }
  }
  return result;
}

// The verdicts are xgrammar's (0.2.8).
TEST(StructuralTag, Reads) {
  const ReadRow rows[] = {
      {"ConstString", "C", {"c"}, {"", "cc"}},
      {"AnyText", "A", {"", "a\n\u00E4"}, {"\xFF"}},
      {"AnyTextWithout",
       R"({"type":"any_text","excludes":["ab"]})",
       {"", "a", "ba"},
       {"ab", "aab"}},
      {"AnyTextOfLength", R"({"type":"any_text","max_chars":2})", {"", "a\u00E4"}, {"abc"}},
      {"JsonSchema", R"({"type":"json_schema","json_schema":{"type":"integer"}})", {"1"}, {"x"}},
      {"AnUnsatisfiableSchemaAmongOthers",
       R"({"type":"or","elements":[C,{"type":"json_schema","json_schema":false}]})",
       {"c"},
       {"1"}},
      {"JsonSchemaTrue", R"({"type":"json_schema","json_schema":true})", {"1", "\"a\""}, {"x"}},
      {"JsonInOrder",
       R"({"type":"json_schema","json_schema":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]}})",
       {R"({"a":1,"b":2})", "{ \"a\" : 1 ,\n \"b\": 2}"},
       {R"({"b":2,"a":1})"}},
      {"JsonInAnyOrder",
       R"({"type":"json_schema","any_order":true,"json_schema":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"]}})",
       {R"({"a":1,"b":2})", R"({"b":2,"a":1})"},
       {R"({"a":1})"}},
      {"JsonWithoutWhitespace",
       R"({"type":"json_schema","max_whitespace_cnt":0,"json_schema":{"enum":[[1,2]]}})",
       {"[1,2]"},
       {"[1, 2]"}},
      {"Regex", R"({"type":"regex","pattern":"a+b?"})", {"a", "aab"}, {"b", "xa"}},
      {"Grammar", R"({"type":"grammar","grammar":"root ::= \"a\" [0-9]+"})", {"a1"}, {"a"}},
      {"Or",
       R"({"type":"or","elements":[C,{"type":"const_string","value":"d"}]})",
       {"c", "d"},
       {"cd"}},
      {"Sequence", R"({"type":"sequence","elements":[C,C]})", {"cc"}, {"c"}},
      {"TextInASequence", R"({"type":"sequence","elements":[A,C]})", {"c", "abc", "acbc"}, {"a"}},
      {"Optional", R"({"type":"optional","content":C})", {"", "c"}, {"cc"}},
      {"Plus", R"({"type":"plus","content":C})", {"c", "cc"}, {""}},
      {"Star", R"({"type":"star","content":C})", {"", "c", "cc"}, {"a"}},
      {"Repeat", R"({"type":"repeat","min":1,"max":2,"content":C})", {"c", "cc"}, {"", "ccc"}},
      {"RepeatWithoutEnd",
       R"({"type":"repeat","min":2,"max":-1,"content":C})",
       {"cc", "ccc"},
       {"c"}},
      {"Tag", "I", {"<f>1</f>"}, {"<f></f>", "1"}},
      {"TextInATag",
       R"({"type":"tag","begin":"<t>","content":A,"end":"</t>"})",
       {"<t></t>", "<t>ab</t>", "<t>a<</t>"},
       {"<t>a</t>b</t>", "<t>a"}},
      {"SeveralEnds",
       R"({"type":"tag","begin":"<t>","content":A,"end":["</t>","</u>"]})",
       {"<t></t>", "<t>ab</u>"},
       {"<t>a</u>b</t>"}},
      {"AnEndMayBeEmpty",
       R"({"type":"tag","begin":"<t>","content":C,"end":["","x"]})",
       {"<t>c", "<t>cx"},
       {"<t>"}},
      {"SequenceInATag",
       R"({"type":"tag","begin":"<t>","content":{"type":"sequence","elements":[C,A]},"end":"</t>"})",
       {"<t>c</t>", "<t>cab</t>"},
       {"<t>c</t></t>"}},
      {"AfterATagTextIsFree",
       R"({"type":"sequence","elements":[{"type":"tag","begin":"<t>","content":A,"end":"</t>"},A]})",
       {"<t>a</t>b</t>", "<t>a</t>"},
       {"<t>a"}},
      {"TriggeredTags",
       R"({"type":"triggered_tags","triggers":["<f"],"tags":[I]})",
       {"", "a", "a<f>1</f>", "a<f>1</f>b<f>2</f>c", "a<"},
       {"a<fx", "<f>1"}},
      {"AtLeastOne",
       R"({"type":"triggered_tags","triggers":["<f"],"tags":[I],"at_least_one":true})",
       {"<f>1</f>", "<f>1</f>b<f>2</f>c"},
       {"", "a", "a<f>1</f>"}},
      {"StopAfterFirst",
       R"({"type":"triggered_tags","triggers":["<f"],"tags":[I],"stop_after_first":true})",
       {"", "a", "a<f>1</f>", "<f>1</f>", "a<"},
       {"<f>1</f>b"}},
      {"ExactlyOne",
       R"({"type":"triggered_tags","triggers":["<f"],"tags":[I],"at_least_one":true,"stop_after_first":true})",
       {"<f>1</f>"},
       {"", "a", "a<f>1</f>", "<f>1</f>b"}},
      {"Excludes",
       R"({"type":"triggered_tags","triggers":["<f"],"tags":[I],"excludes":["ZQZ"]})",
       {"xZQ<f>1</f>", "ZQ"},
       {"xZQZx"}},
      {"TriggeredTagsInATag",
       R"({"type":"tag","begin":"<t>","content":{"type":"triggered_tags","triggers":["<f"],"tags":[I]},"end":"</t>"})",
       {"<t>a<f>1</f>b</t>", "<t></t>"},
       {"<t></t>x</t>", "<t>a"}},
      {"TagsWithSeparator",
       R"({"type":"tags_with_separator","tags":[I],"separator":","})",
       {"", "<f>1</f>", "<f>1</f>,<f>2</f>"},
       {"<f>1</f>,", "a"}},
      {"TagsWithSeparatorAtLeastOne",
       R"({"type":"tags_with_separator","tags":[I],"separator":",","at_least_one":true})",
       {"<f>1</f>", "<f>1</f>,<f>2</f>"},
       {""}},
      {"TagsWithSeparatorFirst",
       R"({"type":"tags_with_separator","tags":[I],"separator":",","stop_after_first":true})",
       {"", "<f>1</f>"},
       {"<f>1</f>,<f>2</f>"}},
      {"TagsWithoutSeparator",
       R"({"type":"tags_with_separator","tags":[I],"separator":""})",
       {"", "<f>1</f><f>2</f>"},
       {"a"}},
      {"Dispatch",
       R"({"type":"dispatch","rules":[["<a>",C],["<b>",I]]})",
       {"", "x<a>cy<b><f>2</f>z", "<a"},
       {"<a>x"}},
      {"TheFirstTriggerCounts",
       R"({"type":"dispatch","rules":[["<<",C]]})",
       {"<<c<", "<<c<<c"},
       {"<<<c", "<<<"}},
      {"TriggersThatBeginAlike",
       R"({"type":"dispatch","rules":[["<a>",C],["<ab",C],["<ä",I],["<å",C]]})",
       {"<a>c", "<abc", "<", "<<ac",
        "<a<a>c<å"
        "c",
        "<ä<f>1</f>"},
       {"<a>x", "<abx", "<å<f>1</f>"}},
      {"TriggersThatOverlap",
       R"({"type":"dispatch","rules":[["ab",C],["bd",I]]})",
       {"abc", "bd<f>1</f>", "abcbd<f>1</f>", "a", "b"},
       {"abd<f>1</f>", "abbd<f>1</f>", "bdc"}},
      {"ATriggerWithinAnother",
       R"({"type":"dispatch","rules":[["b",C],["abd",I]]})",
       {"abc", "bcabc"},
       {"abd<f>1</f>"}},
      {"TriggersThatEndTogether",
       R"({"type":"dispatch","rules":[["ab",C],["b",I]]})",
       {"abc", "ab<f>1</f>", "b<f>1</f>"},
       {"bc", "abx"}},
      {"AStopThatOverlapsATrigger",
       R"({"type":"dispatch","rules":[["ab",C]],"excludes":["xa"]})",
       {"abc", "x", "xbabc"},
       {"xabc", "xa"}},
      {"DispatchInATag",
       R"({"type":"tag","begin":"<t>","content":{"type":"dispatch","rules":[["<a>",C]]},"end":"</t>"})",
       {"<t>x</t>", "<t>x</t>y<a>c</t>"},
       {"<t>x"}},
      {"DispatchOnce",
       R"({"type":"dispatch","rules":[["<a>",C]],"loop":false})",
       {"", "x", "x<a>c"},
       {"x<a>cy"}},
      {"DispatchExcludes",
       R"({"type":"dispatch","rules":[["<a>",C]],"excludes":["Q"]})",
       {"x"},
       {"xQ", "x<a>cQ"}},
      {"Token",
       R"({"type":"sequence","elements":[{"type":"token","token":"<|call|>"},C,{"type":"token","token":264}]})",
       {"<|call|>c<|done|>"},
       {"c", "<|call|>c"}},
      {"ExcludeToken",
       R"({"type":"exclude_token","exclude_tokens":[97]})",
       {"b", "<|call|>"},
       {"a", "bb", "<|end|>"}},
      {"AnyTokens",
       R"({"type":"any_tokens","exclude_tokens":[97]})",
       {"", "bc", "<|call|>"},
       {"ba"}},
      {"TagOfTokens",
       R"({"type":"tag","begin":{"type":"token","token":"<|call|>"},"content":A,"end":{"type":"token","token":"<|done|>"}})",
       {"<|call|>abc<|done|>", "<|call|><|done|>"},
       {"<|call|>abc", "abc<|done|>"}},
      {"TokensInATagOfTokens",
       R"({"type":"tag","begin":{"type":"token","token":"<|call|>"},"content":{"type":"any_tokens"},"end":{"type":"token","token":"<|done|>"}})",
       {"<|call|>abc<|done|>", "<|call|><|call|><|done|>"},
       {"<|call|><|done|><|done|>"}},
      {"TokenTriggeredTags",
       R"({"type":"token_triggered_tags","trigger_tokens":["<|call|>"],"tags":[{"type":"tag","begin":{"type":"token","token":"<|call|>"},"content":C,"end":"x"}]})",
       {"", "ab", "ab<|call|>cxd", "<|done|>"},
       {"<|call|>x"}},
      {"TokenTriggeredTagsAtLeastOne",
       R"({"type":"token_triggered_tags","at_least_one":true,"trigger_tokens":["<|call|>"],"tags":[{"type":"tag","begin":{"type":"token","token":"<|call|>"},"content":C,"end":"x"}]})",
       {"<|call|>cx"},
       {"", "ab", "ab<|call|>cx"}},
      {"TokenDispatch",
       R"({"type":"token_dispatch","rules":[["<|call|>",C]]})",
       {"", "x", "x<|call|>cy", "x<|done|>"},
       {"<|call|>x"}},
      {"TokenDispatchOnce",
       R"({"type":"token_dispatch","rules":[["<|call|>",C]],"loop":false})",
       {"", "x", "x<|call|>c"},
       {"x<|call|>cy"}},
  };
  for (const ReadRow& row : rows) {
    expect_read({row.name, with_format(expanded(row.source)), row.yes, row.no},
                kStructuralTagSyntax);
  }
}

TEST(StructuralTag, OlderForm) {
  expect_read({"TwoTags",
               R"({"type": "structural_tag", "triggers": ["<f"], "structures": [
                   {"begin": "<fa>", "schema": {"const": 1}, "end": "</f>"},
                   {"begin": "<fb>", "schema": "{\"const\": 2}", "end": "</f>"}]})",
               {"", "x", "<fa>1</f>", "x<fa>1</f>y<fb>2</f>"},
               {"<fa>2</f>", "<f", "<fc>1</f>"}},
              kStructuralTagSyntax);
}

// An object with a string `name`, an integer `count`, and perhaps a list `tags` of strings.
std::string styled(std::string_view style, std::string_view more = "") {
  return with_format(
      R"({"type":"json_schema","style":")" + std::string(style) + R"(",)" + std::string(more) +
      R"("excludes":[],"json_schema":{"type":"object","properties":{"name":{"type":"string"},)"
      R"("count":{"$ref":"#/$defs/n"},"tags":{"type":"array","items":{"type":"string"}}},)"
      R"("required":["name","count"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}})");
}

// The verdicts are those of xgrammar 0.2.9, except that xgrammar does not enforce what heads say
// about values.
TEST(StructuralTag, WritesParametersInStyles) {
  const ReadRow rows[] = {
      {"Qwen",
       styled("qwen_xml"),
       {"<parameter=name>\nred pen\n</parameter>\n<parameter=count>\n2\n</parameter>",
        "<parameter=name></parameter><parameter=count>2</parameter>\n"
        "<parameter=tags>[\"a\"]</parameter>\n"},
       {"<parameter=name>x</parameter><parameter=count>two</parameter>",
        "<parameter=count>2</parameter><parameter=name>x</parameter>",
        "<parameter=name>x</parameter>",
        "<parameter=name>x</parameter><parameter=count>2</parameter><parameter=z>2</parameter>"}},
      {"MiniMax",
       styled("minimax_xml"),
       {"<parameter name=\"name\">red</parameter>\n<parameter name=\"count\">2</parameter>"},
       {"<parameter name=\"name\">red</parameter>\n<parameter name=\"count\">x</parameter>"}},
      {"DeepSeek",
       styled("deepseek_xml"),
       {"<｜DSML｜parameter name=\"name\" string=\"true\">red</｜DSML｜parameter>"
        "<｜DSML｜parameter name=\"count\" string=\"false\">2</｜DSML｜parameter>"},
       {"<｜DSML｜parameter name=\"name\" string=\"true\">red</｜DSML｜parameter>"
        "<｜DSML｜parameter name=\"count\" string=\"true\">x</｜DSML｜parameter>"}},
      {"Glm",
       styled("glm_xml"),
       {"<arg_key>name</arg_key><arg_value>red</arg_value><arg_key>count</arg_key>\n"
        "<arg_value>2</arg_value>"},
       {"<arg_key>name</arg_key><arg_value>red</arg_value><arg_key>count</arg_key>"
        "<arg_value>x</arg_value>"}},
      {"Cohere",
       styled("cohere_xml"),
       {"<cofl:value name=\"name\" type=\"raw\">red</cofl:value>"
        "<cofl:value name=\"count\" type=\"json\">2</cofl:value>"
        "<cofl:value name=\"tags\" type=\"list\"><cofl:value type=\"raw\">a</cofl:value>"
        "</cofl:value>"},
       {"<cofl:value name=\"name\" type=\"json\">red</cofl:value>"
        "<cofl:value name=\"count\" type=\"json\">2</cofl:value>",
        "<cofl:value name=\"name\" type=\"raw\">red</cofl:value>"
        "<cofl:value name=\"count\" type=\"json\">x</cofl:value>"}},
      {"Kimi",
       styled("kimi_k3_xml"),
       {"<|open|>argument key=\"name\" type=\"string\"<|sep|>red<|close|>argument<|sep|>"
        "<|open|>argument key=\"count\" type=\"number\"<|sep|>2<|close|>argument<|sep|>"},
       {"<|open|>argument key=\"name\" type=\"string\"<|sep|>red<|close|>argument<|sep|>"
        "<|open|>argument key=\"count\" type=\"string\"<|sep|>2<|close|>argument<|sep|>"}},
      {"AnyOrder",
       styled("glm_xml", R"("any_order":true,)"),
       {"<arg_key>count</arg_key><arg_value>2</arg_value><arg_key>name</arg_key>"
        "<arg_value>red</arg_value>"},
       {"<arg_key>count</arg_key><arg_value>2</arg_value>"}},
      {"OlderName",
       with_format(
           R"({"type":"qwen_xml_parameter","json_schema":{"properties":{"a":{"enum":["x",1]}}}})"),
       {"", "<parameter=a>x</parameter>", "<parameter=a>\n1\n</parameter>"},
       {"<parameter=a>\"x\"</parameter>", "<parameter=a>2</parameter>"}},
      {"ValuesOfStrings",
       with_format(
           R"({"type":"json_schema","style":"qwen_xml","json_schema":{"type":"object","properties":{
              "p":{"type":"string","pattern":"^[a-c]+$"},"l":{"type":"string","maxLength":2},
              "u":{"anyOf":[{"const":"on"},{"type":"integer"}]},"n":{"type":["string","null"],"minLength":9}}}})"),
       {"<parameter=p>abc</parameter>", "<parameter=l>ab</parameter>",
        "<parameter=u>on</parameter>", "<parameter=u>12</parameter>",
        "<parameter=n>null</parameter>"},
       {"<parameter=p>abd</parameter>", "<parameter=l>abc</parameter>",
        "<parameter=u>off</parameter>", "<parameter=n>nil</parameter>"}},
      {"OtherMembers",
       with_format(
           R"({"type":"json_schema","style":"qwen_xml","json_schema":{"type":"object","properties":{
              "a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}})"),
       {"<parameter=a>1</parameter><parameter=b>true</parameter>",
        "<parameter=b>false</parameter>"},
       {"<parameter=b>1</parameter>", "<parameter=b>true</parameter><parameter=a>1</parameter>"}},
      {"MembersByPattern",
       with_format(
           R"({"type":"json_schema","style":"qwen_xml","json_schema":{"type":"object","properties":{
              "m_a":{"type":"string"}},"patternProperties":{"^m_":{"type":"integer"}}}})"),
       {"<parameter=m_a>x</parameter><parameter=m_b>1</parameter>"},
       {"<parameter=m_b>x</parameter>", "<parameter=n>1</parameter>"}},
      {"AlternativesThatNest",
       with_format(
           R"({"type":"json_schema","style":"cohere_xml","json_schema":{"type":"object","properties":{
              "v":{"oneOf":[{"type":"object","properties":{"id":{"type":"integer"}}},{"type":"string"}]}}}})"),
       {R"(<cofl:value name="v" type="dict"><cofl:value name="id" type="json">1</cofl:value></cofl:value>)",
        R"(<cofl:value name="v" type="raw">x</cofl:value>)"},
       {R"(<cofl:value name="v" type="dict">x</cofl:value>)"}},
      {"NoWordOfMembers",
       with_format(R"({"type":"json_schema","style":"qwen_xml","json_schema":{"type":"object"}})"),
       {"", "<parameter=b>any</parameter>\n<parameter=c>[1]</parameter>"},
       {"<parameter=1b>x</parameter>"}},
      {"MaxTokensOfText",
       with_format(
           R"({"type":"tag","begin":"<t>","content":{"type":"any_text","max_tokens":2},"end":"</t>"})"),
       {"<t></t>", "<t>ab</t>"},
       {"<t>abc</t>"}},
      {"GrammarInLark",
       with_format(R"({"type":"grammar","syntax":"lark","grammar":"start: /[a-c]+/"})"),
       {"abc"},
       {"", "d"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kStructuralTagSyntax);
}

TEST(StructuralTag, Refuses) {
  constexpr auto kInvalid = Errc::invalid;
  constexpr auto kUnsupported = Errc::unsupported;
  const auto format = [](std::string_view text) { return with_format(expanded(text)); };
  std::string deep;
  for (int i = 0; i < 150; ++i) deep += R"({"type":"star","content":)";
  deep += "C" + std::string(150, '}');
  std::string path = "format";
  for (int i = 0; i < 100; ++i) path += ".content";
  const RefusedRow rows[] = {
      {"NoObject", "[]", kInvalid, "a structural tag: must be an object"},
      {"NoFormat", "{}", kInvalid,
       "format: is missing; a structural tag has `format`, or `structures` and `triggers`"},
      {"UnknownMemberBesideFormat", R"({"format": {}, "strict": true})", kUnsupported,
       "structural_tag.strict: is not supported here; there are format"},
      {"NoType", format("{}"), kInvalid, "format.type: is missing"},
      {"UnknownType", format(R"({"type":"nope"})"), kUnsupported,
       "format.type: 'nope' is not supported; there are const_string, json_schema, "
       "qwen_xml_parameter, any_text, grammar, regex, sequence, or, tag, triggered_tags, "
       "tags_with_separator, optional, plus, "
       "star, repeat, dispatch, token, exclude_token, any_tokens, token_triggered_tags, "
       "token_dispatch"},
      {"UnknownMember", format(R"({"type":"const_string","value":"a","x":1})"), kUnsupported,
       "format.x: is not supported here; there are value"},
      {"OtherStyle", format(R"({"type":"json_schema","json_schema":{},"style":"yaml"})"),
       kUnsupported,
       "format.style: 'yaml' is not supported; there are json, qwen_xml, minimax_xml, "
       "deepseek_xml, deepseek_v4_1_xml, glm_xml, cohere_xml, kimi_k3_xml"},
      {"ExcludesInJson", format(R"({"type":"json_schema","json_schema":{},"excludes":["x"]})"),
       kUnsupported,
       "format.excludes: is only supported where it is empty; write a `pattern` for strings"},
      {"ParametersAreAnObject",
       format(R"({"type":"json_schema","json_schema":{"type":"array"},"style":"qwen_xml"})"),
       kInvalid, "format.json_schema: : parameters are an object"},
      {"ParametersThatCannotBeKept",
       format(
           R"({"type":"json_schema","json_schema":{"type":"object","minProperties":1},"style":"glm_xml"})"),
       kUnsupported,
       "format.json_schema: : of an object that is written member by member, 'minProperties' "
       "cannot be kept"},
      {"BadSchema",
       format(R"({"type":"optional","content":{"type":"json_schema","json_schema":{"type":"x"}}})"),
       kInvalid, "format.content.json_schema: /type: 'x' is not a type"},
      {"BadRegex", format(R"({"type":"regex","pattern":"("})"), kInvalid,
       "format.pattern: pattern: a group is not closed at byte 1"},
      {"BadGrammar", format(R"({"type":"grammar","grammar":"root ::= x"})"), kInvalid,
       "format.grammar: line 1, column 10: rule 'x' is not defined; add `x ::= ...`"},
      {"NoTrigger", format(R"({"type":"triggered_tags","triggers":["<g"],"tags":[I]})"), kInvalid,
       "format.tags: the tag that begins with '<f>' begins with no trigger; it must be exactly "
       "one"},
      {"TwoTriggers", format(R"({"type":"triggered_tags","triggers":["<","<f"],"tags":[I]})"),
       kInvalid,
       "format.tags: the tag that begins with '<f>' begins with more than one trigger; it must be "
       "exactly one"},
      {"NoTriggers", format(R"({"type":"triggered_tags","triggers":[],"tags":[I]})"), kInvalid,
       "format.triggers: must be a list of strings that is not empty"},
      {"EmptyTrigger", format(R"({"type":"triggered_tags","triggers":[""],"tags":[I]})"), kInvalid,
       "format.triggers: must be a list of strings that are not empty"},
      {"TagInside",
       format(R"({"type":"tags_with_separator","separator":"","tags":[I,{"begin":1}]})"), kInvalid,
       "format.tags[1].begin: must be a string or {\"type\": \"token\", \"token\": ...}"},
      {"NegativeLength", format(R"({"type":"any_text","max_chars":-1})"), kInvalid,
       "format.max_chars: must be a whole number from 0 to 4294967294"},
      {"NegativeWhitespace",
       format(R"({"type":"json_schema","json_schema":{},"max_whitespace_cnt":-1})"), kInvalid,
       "format.max_whitespace_cnt: must be a whole number from 0 to 4294967294"},
      {"NegativeTokens", format(R"({"type":"any_tokens","max_tokens":-1})"), kInvalid,
       "format.max_tokens: must be a whole number from 0 to 4294967294"},
      {"OtherTag", R"({"type": "grammar", "format": {"type": "any_text"}})", kInvalid,
       "structural_tag.type: must be 'structural_tag' here"},
      {"OtherThanATagAmongTags",
       format(R"({"type":"tags_with_separator","separator":"","tags":[I,C]})"), kInvalid,
       "format.tags[1].type: must be 'tag' here"},
      {"Repeat", format(R"({"type":"repeat","min":2,"max":1,"content":C})"), kInvalid,
       "format: needs `min`, at least 0, and `max`, at least `min`, or -1 for any number"},
      {"Depth", format(deep), Errc::limit_exceeded, path + ": is nested deeper than 100 formats"},
      {"LongTrigger",
       format(R"({"type":"dispatch","rules":[[")" + std::string(2000, 'a') + R"(",C]]})"),
       Errc::limit_exceeded,
       "format: a trigger, or a text that ends the free text, has 2000 bytes, and may have 1024"},
      {"Unsatisfiable", format(R"({"type":"json_schema","json_schema":false})"),
       Errc::unsatisfiable, "no value fits the schema"},
      {"OldWithoutTrigger",
       R"({"structures":[{"begin":"<f>","schema":{},"end":""}],"triggers":["x"]})", kInvalid,
       "structural_tag.structures[0].begin: must begin with a trigger"},
  };
  for (const RefusedRow& row : rows) expect_refused(row, kStructuralTagSyntax);
}

}  // namespace
}  // namespace tenon::grammar
