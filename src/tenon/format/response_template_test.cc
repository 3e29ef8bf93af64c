#include "tenon/format/response_template.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/format/format.h"
#include "tenon/format/stream_parser.h"

namespace tenon::format {
namespace {

struct ResponseTemplateRow {
  std::string_view name;
  std::string_view source;
  std::string_view text;
  std::string_view calls;  // "name arguments;" for each
  std::string_view content;
  std::string_view reasoning;
};

// In the shapes that are documented: an object behind a tag, an array of objects, a name in the
// opener with JSON, with a dialect of it, and with tagged parameters.
const ResponseTemplateRow kResponseTemplateRows[] = {
    {"AnObject", R"json({
       "start_anchor": "<|im_start|>assistant\n", "defaults": {"role": "assistant"},
       "fields": {
         "reasoning_content": {"open": "<think>", "close": "</think>"},
         "content": {"close": ["<|im_end|>"]},
         "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json",
                        "repeats": true,
                        "transform": {"type": "function", "function": {
                          "name": "{content.name}", "arguments": "{content.arguments}"}}}}})json",
     "<think>Hm.</think>Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
     "1}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>",
     "f {\"a\": 1};g {};", "Yes.", "Hm."},
    {"AnObjectAsItIs", R"json({
       "start_anchor": "a", "fields": {"content": {},
         "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json",
                        "repeats": true,
                        "transform": {"type": "function", "function": "{content}"}}}})json",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>", "f {\"a\": 1};", "",
     ""},
    {"AnArray", R"json({
       "start_anchor": "<|CHATBOT_TOKEN|>", "fields": {
         "thinking": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
         "content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
         "tool_calls": {"open": "<|START_ACTION|>", "close": "<|END_ACTION|>", "content": "json",
                        "transform_each": true,
                        "transform": {"type": "function", "function": {
                          "name": "{tool_name}", "arguments": "{parameters}"}}}}})json",
     "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n{\"tool_name\": \"f\", "
     "\"parameters\": {\"a\": 1}},\n{\"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|>",
     "f {\"a\": 1};g {};", "", "Hm."},
    {"ANameInTheOpener", R"json({
       "start_anchor": "<|start|>assistant", "fields": {"content": {},
         "tool_calls": {"open_pattern": "<\\|call\\|>functions\\.(?P<name>[^<]+)<\\|args\\|>",
                        "close": "<|end|>", "content": "json", "repeats": true,
                        "transform": {"type": "function", "function": {
                          "name": "{name}", "arguments": "{content}"}}}}})json",
     "<|call|>functions.f<|args|>{\"a\": 1}<|end|>", "f {\"a\": 1};", "", ""},
    {"BareKeys",
     R"json({
       "start_anchor": "<|turn>model\n", "fields": {"content": {"close": "<turn|>"},
         "tool_calls": {"open_pattern": "<\\|tool_call>call:(?P<name>\\w+)",
      "close" : "<tool_call|>",
      "content" : "json",
      "repeats" : true,
      "content_args" : {"unquoted_keys" : true, "string_delims" : [[ "<|\"|>", "<|\"|>" ]]},
      "transform" :
          {"type" : "function", "function" : {"name" : "{name}", "arguments" : "{content}"}}
    }}
})json",
     "<|tool_call>call:f{a:<|\"|>x \"y\"<|\"|>,n:3}<tool_call|>",
     "f {\"a\":\"x \\\"y\\\"\",\"n\":3};", "", ""},
    {"Parameters",
     R"json({
       "start_anchor": "<|im_start|>assistant\n", "fields": {
         "reasoning_content": {"open": "<think>", "close": "</think>"}, "content": {},
         "tool_calls": {"open_pattern": "<tool_call>\\s*<function=(?P<name>[^>]+)>\\s*",
                        "close_pattern": "</function>\\s*</tool_call>", "content": "xml-inline",
                        "repeats": true,
                        "content_args": {
                          "tag_pattern": "<parameter=(?P<key>[^>]+)>\n(?P<value>.*?)\n</parameter>",
                          "value_parser": {"name": "json", "args": {"allow_non_json": true}}},
                        "transform": {"type": "function", "function": {
                          "name": "{name}", "arguments": "{content}"}}}}})json",
     "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx y\n</parameter>\n"
     "</function>\n</tool_call>",
     "f {\"a\":1,\"b\":\"x y\"};", "", ""},
};

class ResponseTemplate : public testing::TestWithParam<ResponseTemplateRow> {};

TEST_P(ResponseTemplate, BecomesADefinition) {
  const ResponseTemplateRow& row = GetParam();
  const auto definition = definition_of(*json::parse(row.source), "imported");
  ASSERT_TRUE(definition) << definition.error().message;
  const auto format = compile(*definition, "imported");
  ASSERT_TRUE(format) << format.error().message << "\n" << *definition;
  StreamParser parser(*format, {.tools = {"f", "g"}});
  std::vector<message::ChatEvent> events;
  parser.feed(row.text, false, events);
  parser.finish(false, events);
  message::Fold fold;
  for (const auto& event : events) fold.add(event);
  std::string calls;
  for (const auto& call : fold.message().tool_calls)
    calls += call.name + " " + call.arguments + ";";
  const auto without_spaces = [](std::string text) {
    std::string kept;
    bool in_string = false;
    for (const char c : text) {
      if (c == '"') in_string = !in_string;
      if (c != ' ' || in_string) kept += c;
    }
    return kept;
  };
  EXPECT_EQ(without_spaces(calls), without_spaces(std::string(row.calls))) << *definition;
  EXPECT_EQ(fold.message().content.value_or(""), row.content) << *definition;
  EXPECT_EQ(fold.message().reasoning, row.reasoning);
}

INSTANTIATE_TEST_SUITE_P(Rows, ResponseTemplate, testing::ValuesIn(kResponseTemplateRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ResponseTemplate, SaysWhatADefinitionCannotSay) {
  const struct {
    std::string_view source;
    std::string_view error;
  } rows[] = {
      {"[]", "fields must be an object"},
      {R"json({"version": 2, "fields": {"content": {}}})json", "version is 2; 1 is supported"},
      {R"json({"fields": {"content": 3}})json", "fields.content must be an object"},
      {R"json({"fields": {"audio": {"open": "<a>", "close": "</a>"}}})json",
       "fields.audio is no part"},
      {R"json({"fields": {"tool_calls": {"open": "<t>", "content": "kv-lines"}}})json",
       "fields.tool_calls.content is \"kv-lines\""},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<(a|b)>", "content": "json"}}})json",
       "a group without a name"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<a.b>", "content": "json"}}})json",
       "has '.'"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<ab?>", "content": "json"}}})json",
       "a character that may be absent"},
      {R"json({"fields": {"tool_calls": {"open": "", "content": "json"}}})json",
       "fields.tool_calls.open must be a text"},
      {R"json({"fields": {"tool_calls": {"content": "json"}}})json",
       "must have open or open_pattern"},
      {R"json({"fields": {"tool_calls": {"open": "<t>", "content": "json", "transform": {"x": 1}}}})json",
       "fields.tool_calls.transform must give"},
      {R"json({"fields": {"tool_calls": {"open": ["<t>", 3], "content": "json"}}})json",
       "fields.tool_calls.open must be a text or a list of texts"},
      {R"json({"fields": {"tool_calls": {"open_pattern": 3, "content": "json"}}})json",
       "fields.tool_calls.open_pattern must be a text"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<a\\d>", "content": "json"}}})json",
       "has '\\d'"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<t (?P<n>[^>", "content": "json"}}})json",
       "is no regular expression"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<t>(?P<n>\\w+)", "content": "json",
        "content_args": {"unquoted_keys": true, "string_delims": [[1, 1]]},
        "transform": {"name": "{n}", "arguments": "{content}"}}}})json",
       "fields.tool_calls.content_args.string_delims must be a list"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<t>(?P<n>\\w+)", "content": "json",
        "content_args": {"unquoted_keys": true, "string_delims": [["<", ">"]]},
        "transform": {"name": "{n}", "arguments": "{content}"}}}})json",
       "string_delims: one marker at both ends"},
      {R"json({"fields": {"tool_calls": {"open_pattern": "<t>(?P<n>\\w+)", "content": "json",
        "transform": {"name": "{m}", "arguments": "{content}"}}}})json",
       "no group for the name, which \"{m}\" in transform asks for"},
  };
  for (const auto& row : rows) {
    const auto definition = definition_of(*json::parse(row.source), "x");
    ASSERT_FALSE(definition) << *definition;
    EXPECT_NE(definition.error().message.find(row.error), std::string::npos)
        << definition.error().message;
  }
}

}  // namespace
}  // namespace tenon::format
