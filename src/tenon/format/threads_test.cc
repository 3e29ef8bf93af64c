// Bugs of others that a stream parser, or the grammar beside it, can have, each row named after the
// thread in which it was reported (`vllm#54964`: its number in that project) and written anew as
// the smallest text that shows it. docs/threads.md lists the rows.
#include <cctype>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/answers_for_test.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

constexpr std::string_view kThreadsTools = R"([
  {"name": "get_time"},
  {"name": "get_weather", "parameters": {"properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "alert": {"type": "boolean"}}}},
  {"name": "write_file", "parameters": {"properties": {
    "path": {"type": "string"}, "content": {"type": "string"}}}},
  {"name": "search", "parameters": {"$defs": {"period": {"type": "object"}}, "properties": {
    "query": {"type": "string"}, "limit": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "period": {"$ref": "#/$defs/period"},
    "plugin": {"oneOf": [{"type": "object", "required": ["new"]}, {"type": "object"}]},
    "note": {"type": ["string", "null"]}}}},
  {"name": "grocery.order"}
])";

/// A text, and what must come of it however it is cut.
struct TextRow {
  const char* thread;
  const char* what;  ///< What was reported.
  const char* format;
  std::string text;
  Outcome wanted;
  const char* prompt_tail = "";
  bool truncated = false;
};

Outcome calls(Calls list, std::string content = "", std::string reasoning = "") {
  const std::size_t count = list.size();
  return {std::move(content), std::move(reasoning), std::move(list), std::vector<bool>(count), {}};
}

Outcome with_codes(Outcome outcome, std::vector<std::string> codes) {
  outcome.codes = std::move(codes);
  return outcome;
}

Outcome cut_off(Calls list) {
  return {"", "", std::move(list), {true}, {"incomplete_call"}};
}

const TextRow kTexts[] = {
    // A stream that is not the whole text.
    {"sglang#35564", "streamed byte by byte, a call without parameters is gone", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>",
     calls({{"get_time", "{}"}})},
    {"sglang#35564", "streamed, the second of two calls without arguments is gone", "mistral_v3",
     R"([TOOL_CALLS] [{"name": "get_time", "arguments": {}}, {"name": "get_time", "arguments": {}}])",
     calls({{"get_time", "{}"}, {"get_time", "{}"}})},
    {"sglang#35564", "streamed, a number becomes a string", "glm45",
     "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>123</arg_value>\n</tool_call>",
     calls({{"get_weather", R"({"days": 123})"}})},
    {"sglang#35564", "streamed, one more call appears", "step3",
     "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"get_time\">\n</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>",
     calls({{"get_time", "{}"}})},
    {"sglang#35625", "the index of a call is the tool's place in the request", "cohere_r7b",
     R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {"query": "a"}}, )"
     R"({"tool_call_id": "1", "tool_name": "search", "parameters": {"query": "b"}}]<|END_ACTION|>)",
     calls({{"search", R"({"query": "a"})"}, {"search", R"({"query": "b"})"}})},
    {"sglang#36688", "an object as last argument leaves the arguments open", "glm45",
     "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>a</arg_value>\n<arg_key>period</"
     "arg_key>\n<arg_value>{\"kind\": {\"week\": 1}}</arg_value>\n</tool_call>",
     calls({{"search", R"({"query": "a", "period": {"kind": {"week": 1}}})"}})},
    {"sglang#37634", "two calls in one delta: the second loses its arguments", "hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
     calls({{"get_weather", R"({"city": "Rome"})"}, {"get_weather", R"({"city": "Oslo"})"}})},
    {"sglang#37634", "a whole call in one delta loses its arguments", "gigachat3",
     "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": "
     "{\"city\": \"Rome\"}}",
     calls({{"get_weather", R"({"city": "Rome"})"}})},
    {"sglang#31915", "the parameters of the second call are grafted onto the first", "step3",
     "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"get_weather\">\n<steptml:parameter name=\"city\">Rome</steptml:parameter>\n"
     "</steptml:invoke><｜tool_call_end｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>"
     "<steptml:invoke name=\"get_weather\">\n<steptml:parameter name=\"days\">2</steptml:parameter>"
     "\n</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>",
     calls({{"get_weather", R"({"city": "Rome"})"}, {"get_weather", R"({"days": 2})"}})},
    {"sglang#32167", "a call that ends in the last delta has no arguments", "llama3_json",
     R"({"name": "get_weather", "parameters": {"city": "Rome"}})",
     calls({{"get_weather", R"({"city": "Rome"})"}})},
    {"sglang#28698", "an end marker inside a string ends the call", "hermes",
     "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"explain the </tool_call> "
     "token\"}}</tool_call>",
     calls({{"search", R"({"query": "explain the </tool_call> token"})"}})},
    {"vllm#9693", "objects that are still open are closed in what is streamed", "hermes",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"period\": {\"from\": {\"day\": 1}}, "
     "\"tags\": [\"a\", \"b\"]}}\n</tool_call>",
     calls({{"search", R"({"period": {"from": {"day": 1}}, "tags": ["a", "b"]})"}})},
    {"vllm#10395", "streamed arguments are not the model's", "hermes",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a } ] b\", \"tags\": "
     "[[]]}}\n"
     "</tool_call>",
     calls({{"search", R"({"query": "a } ] b", "tags": [[]]})"}})},
    {"vllm#19056", "a list of objects in another script loses its last brace", "hermes",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"具体有哪些提升\", "
     "\"outline\": "
     "[{\"h2\": \"一、版本\"}, {\"h2\": \"二、核心\"}]}}\n</tool_call>",
     calls(
         {{"search",
           R"({"query": "具体有哪些提升", "outline": [{"h2": "一、版本"}, {"h2": "二、核心"}]})"}})},
    {"vllm#28806", "a tool without parameters is called without arguments", "hermes",
     "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>",
     calls({{"get_time", "{}"}})},
    {"vllm#32152", "the last brace is lost when tokens come in chunks", "hermes",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"period\": {\"a\": {}}}}\n</tool_call>",
     calls({{"search", R"({"period": {"a": {}}})"}})},
    {"vllm#47901", "a call after one without arguments loses its own", "xlam",
     R"([{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "Rome"}}])",
     calls({{"get_time", "{}"}, {"get_weather", R"({"city": "Rome"})"}})},
    {"vllm#47901", "a call after one without arguments loses its own", "hunyuan_a13b",
     R"(<tool_calls>[{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "Rome"}}]</tool_calls>)",
     calls({{"get_time", "{}"}, {"get_weather", R"({"city": "Rome"})"}})},
    {"vllm#48020", "a call whose two markers come in one delta is dropped", "deepseek_v31",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
     "\"Rome\"}<｜tool▁"
     "call▁end｜><｜tool▁calls▁end｜>",
     calls({{"get_weather", R"({"city": "Rome"})"}})},
    {"vllm#48347", "text and a call in one delta: the call is lost", "internlm2",
     "Sure, let me check.<|action_start|><|plugin|>{\"name\": \"get_weather\", \"parameters\": "
     "{\"city\": \"Tokyo\"}}<|action_end|>",
     calls({{"get_weather", R"({"city": "Tokyo"})"}}, "Sure, let me check.")},
    {"vllm#48852", "compact JSON, whose bytes are not those of json.dumps, is lost", "jamba",
     R"(<tool_calls>[{"name":"get_weather","arguments":{"city":"Rome","days":2}}]</tool_calls>)",
     calls({{"get_weather", R"({"city":"Rome","days":2})"}})},
    {"vllm#55082", "arguments are empty unless each token comes alone", "step3",
     "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"get_weather\"><steptml:parameter name=\"city\">Tokyo</steptml:parameter>"
     "</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>",
     calls({{"get_weather", R"({"city": "Tokyo"})"}})},
    {"vllm#21544", "braces of a shell command break the parser", "hermes",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"mkdir -p "
     "test/{test1,test2\"}}"
     "\n</tool_call>",
     calls({{"search", R"({"query": "mkdir -p test/{test1,test2"})"}})},
    {"llama.cpp#12379", "a later reading of the text takes a sent call back", "llama3_json",
     R"({"name": "get_weather", "parameters": {"city": "Rome"}, "type": "function"} and)",
     calls({{"get_weather", R"({"city": "Rome"})"}}, " and")},
    {"llama.cpp#16465", "colons and \\u in arguments end the process", "granite4",
     "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a: \\u00e9 \\\\u: b\"}}\n"
     "</tool_call>",
     calls({{"search", R"({"query": "a: \u00e9 \\u: b"})"}})},
    {"openclaw#35347", "less calls are found in more text, and the stream ends", "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n"
     "</tool_call>\n<tool_call>\n<function=nothing",
     with_codes(calls({{"get_weather", R"({"city": "Rome"})"}}, "\n<tool_call>\n<function=nothing"),
                {"broken_call", "broken_call"})},
    {"QwenPaw#3560", "the call comes once more, as text at the end of the stream", "qwen3_coder",
     "<tool_call>\n<function=get_time>\n</function>\n</tool_call>", calls({{"get_time", "{}"}})},

    // A call that reaches the client as text.
    {"ollama#13519", "bare JSON of Llama 3.2 stays text", "llama3_json",
     R"({"name": "search", "parameters": {"query": "install ollama models"}})",
     calls({{"search", R"({"query": "install ollama models"})"}})},
    {"ollama#13519", "the same between code fences", "llama3_json",
     "```json\n{\"name\": \"search\", \"parameters\": {\"query\": \"a\"}}\n```",
     calls({{"search", R"({"query": "a"})"}})},
    {"ollama#11185", "a call as bare JSON stays text", "json",
     R"({"name": "search", "arguments": {"query": "accidents", "tags": ["Versailles"]}})",
     calls({{"search", R"({"query": "accidents", "tags": ["Versailles"]})"}})},
    {"ollama-python#279", "streamed, a call without parameters stays text", "llama3_json",
     R"({"name": "get_time", "parameters": {}})", calls({{"get_time", "{}"}})},
    {"ollama-ai-provider#11", "two objects one after the other are text", "json",
     "{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Rome\"\n  }\n} {\n  "
     "\"name\": \"get_time\",\n  \"arguments\": {}\n}",
     calls({{"get_weather", "{\n    \"city\": \"Rome\"\n  }"}, {"get_time", "{}"}})},
    {"ollama-vscode#20", "JSON that names no tool of the request must stay text", "json",
     R"({"name": "Alice", "arguments": {"age": 3}})",
     with_codes(calls({}, R"({"name": "Alice", "arguments": {"age": 3}})"), {"near_miss"})},
    {"omlx#1153", "a bare call in prose stays text", "llama3_json",
     R"(I will look. {"name": "get_time", "parameters": {}})",
     calls({{"get_time", "{}"}}, "I will look. ")},
    {"omlx#2565", "raw JSON of Qwen2.5-Coder leaks into the content", "json",
     "{\"name\": \"write_file\", \"arguments\": {\"path\": \"test.txt\"}}",
     calls({{"write_file", R"({"path": "test.txt"})"}})},
    {"Rapid-MLX#700", "<|python_tag|> and its call are text", "llama3_json",
     R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome"}})",
     calls({{"get_weather", R"({"city": "Rome"})"}})},
    {"Rapid-MLX#703", "any object with a name is taken for a call", "llama3_json",
     R"(Here is a user: {"name": "Alice", "parameters": {}})",
     with_codes(calls({}, R"(Here is a user: {"name": "Alice", "parameters": {}})"),
                {"near_miss"})},
    {"exo#1588", "<|python_tag|>, <|eom_id|> and <|eot_id|> are seen by the user", "llama3_json",
     R"(<|python_tag|>{"name": "get_time", "parameters": {}}<|eom_id|>)",
     calls({{"get_time", "{}"}})},
    {"exo#1100", "gpt-oss: the call's JSON is content", "harmony",
     "<|channel|>analysis<|message|>2+2.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.search <|constrain|>json<|message|>{\"query\":\"2+2\"}<|call|>",
     calls({{"search", R"({"query":"2+2"})"}}, "", "2+2.")},
    {"mlx-lm#1374", "the list of older Mistral models is refused", "mistral_v11",
     R"([TOOL_CALLS] [{"name": "search", "arguments": {"query": "2+3"}}])",
     calls({{"search", R"({"query": "2+3"})"}})},
    {"mlx-lm#1246", "a dotted name, nested lists and objects are refused", "lfm2",
     "<|tool_call_start|>[grocery.order(items=[{'name': 'noodles', 'n': 2}], to={'zip': "
     "'62704'})]<|tool_call_end|>",
     calls({{"grocery.order",
             R"({"items": [{"name": "noodles", "n": 2}], "to": {"zip": "62704"}})"}})},
    {"lmstudio-bug-tracker#1979", "a documented LFM2.5 call is text", "lfm2",
     "<|tool_call_start|>[write_file(path=\"desktop\")]<|tool_call_end|>",
     calls({{"write_file", R"({"path": "desktop"})"}})},
    {"vllm#39243", "a space before the end marker", "lfm2",
     "<|tool_call_start|>[get_weather(city=\"Tokyo\")] <|tool_call_end|>",
     calls({{"get_weather", R"({"city": "Tokyo"})"}})},
    {"tabbyAPI#464", "a keyword of Python as a parameter's name", "lfm2",
     "<|tool_call_start|>[search(from='a', class=1)]<|tool_call_end|>",
     calls({{"search", R"({"from": "a", "class": 1})"}})},

    // A good answer that was thrown away because the last parse failed.
    {"llama.cpp#23838", "500: single quotes in a Python call", "lfm2",
     "<|tool_call_start|>[search(query='current temperature in Mexico City', limit=5)]"
     "<|tool_call_end|>",
     calls({{"search", R"({"query": "current temperature in Mexico City", "limit": 5})"}})},
    {"llama.cpp#24644", "500: a file's text with braces and an empty line", "qwen3_coder",
     "<tool_call>\n<function=write_file>\n<parameter=content>\n{\n  \"a\": 1\n}\n\n</parameter>\n"
     "<parameter=path>\na.json\n</parameter>\n</function>\n</tool_call>",
     calls({{"write_file", R"({"content": "{\n  \"a\": 1\n}\n", "path": "a.json"})"}})},
    {"llama.cpp#24807", "500: a parameter's end marker comes twice", "qwen3_coder",
     "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n</parameter>\n"
     "</function>\n</tool_call>",
     calls({{"write_file", R"({"path": "a\n</parameter>"})"}})},
    {"llama.cpp#26763", "no line break before the end marker: later calls become the value",
     "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome</parameter>\n</function>\n"
     "</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
     "</function>\n</tool_call>",
     calls({{"get_weather", R"({"city": "Rome"})"}, {"get_weather", R"({"city": "Oslo"})"}})},
    {"llama.cpp#20260", "500: words before the call", "qwen3_coder",
     "I will look it up.\n\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
     calls({{"get_time", "{}"}}, "I will look it up.\n\n")},
    {"llama.cpp#15019", "a value without line breaks is refused", "qwen3_coder",
     "<tool_call><function=get_weather><parameter=city>Rome</parameter></function></tool_call>",
     calls({{"get_weather", R"({"city": "Rome"})"}})},
    {"llama.cpp#14012", "an invalid call ends the process", "hermes",
     "<tool_call>\n{\"name\": get_time, oops}\n</tool_call> Done.",
     with_codes(calls({}, "<tool_call>\n{\"name\": get_time, oops}\n</tool_call> Done."),
                {"broken_call"})},
    {"llama.cpp#20729", "500 for text after the call, when all tokens are paid for", "mistral_v11",
     R"([TOOL_CALLS]get_time[ARGS]{} Done.)", calls({{"get_time", "{}"}}, " Done.")},
    {"pwilkin/llama.cpp#5", "500: GLM 4.7 without line breaks", "glm45",
     "<tool_call>search<arg_key>query</arg_key><arg_value>ls -la</arg_value></tool_call>",
     calls({{"search", R"({"query": "ls -la"})"}})},
    {"lmstudio-bug-tracker#1528", "two calls of GLM: content after the end of a call", "glm45",
     "<tool_call>write_file<arg_key>path</arg_key><arg_value>1.jpg</arg_value></tool_call>\n"
     "<tool_call>write_file<arg_key>path</arg_key><arg_value>2.jpg</arg_value></tool_call>",
     calls({{"write_file", R"({"path": "1.jpg"})"}, {"write_file", R"({"path": "2.jpg"})"}})},
    {"lmstudio-bug-tracker#942", "a call that ends too early is omitted", "harmony",
     "<|start|>assistant<|channel|>commentary to=functions.search<|message|>{\"period\":{\"a\":"
     "{\"b\":1}}",
     cut_off({{"search", R"({"period":{"a":{"b":1}}})"}})},
    {"exo#2183", "a call that the token limit cut becomes an internal error", "hermes",
     "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"lo",
     cut_off({{"write_file", R"({"path": "a", "content": "lo)"}}), "", true},
    {"exo#1725", "the end of the answer inside a call: its markers reach the user", "kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:87"
     "<|tool_call_argument_begin|>{\"path\": \"a\", \"content\": \"x",
     cut_off({{"write_file", R"({"path": "a", "content": "x"})"}})},
    {"omlx#3153", "a call whose end marker never comes is content", "hermes",
     "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}", calls({{"get_time", "{}"}})},

    // Reasoning and calls in one stream.
    {"vllm#39056", "a call that begins inside the reasoning is lost", "qwen3_coder",
     "I should look.\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
     calls({{"get_time", "{}"}}, "", "I should look."), "<think>\n"},
    {"renderers#78", "a call rehearsed in the reasoning is run twice", "hermes",
     "<think>I could say <tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>"
     "</think>\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
     calls({{"get_time", "{}"}}, "",
           "I could say <tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>")},
    {"lmstudio-bug-tracker#1592",
     "syntax mentioned in the reasoning is taken for a call",
     "hermes",
     "<think>Some use `<function=...>`, others <tool_call>.</think>Hello.",
     {"Hello.", "Some use `<function=...>`, others <tool_call>.", {}, {}, {}}},
    {"lmstudio-bug-tracker#1592",
     "syntax mentioned in the reasoning ends it",
     "qwen3_coder",
     "Some use `<function=...>`, others <tool_call>.</think>Hello.",
     {"Hello.",
      "Some use `<function=...>`, others <tool_call>.",
      {},
      {},
      {"unknown_tool", "broken_call"}},
     "<think>\n"},
    {"Qwen3#1755", "line breaks between reasoning and call are content", "hermes",
     "Hm.\n</think>\n\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>",
     calls({{"get_time", "{}"}}, "", "Hm."), "<think>\n"},
    {"vllm#35982",
     "without thinking, the answer is reasoning",
     "hermes",
     "0.9 is more.",
     {"0.9 is more.", "", {}, {}, {}},
     "<think>\n\n</think>\n\n"},
    {"vllm#17506", "a call after the reasoning is not found", "hermes",
     "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
     "{\"city\": \"San Francisco, CA\"}}\n</tool_call>",
     calls({{"get_weather", R"({"city": "San Francisco, CA"})"}}, "", "Hm.")},
    {"unsloth#5704", "the markers of reasoning inside a call end it", "hermes",
     "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"content\": \"<think>a</think>\"}}"
     "</tool_call>",
     calls({{"write_file", R"({"content": "<think>a</think>"})"}})},

    // Values of the wrong type.
    {"vllm#46924", "$ref: an object becomes a string", "qwen3_coder",
     "<tool_call>\n<function=search>\n<parameter=period>\n{\"kind\": \"week\"}\n</parameter>\n"
     "</function>\n</tool_call>",
     calls({{"search", R"({"period": {"kind": "week"}})"}})},
    {"omlx#3780", "oneOf of objects: an object becomes a string", "qwen3_coder",
     "<tool_call>\n<function=search>\n<parameter=plugin>\n{\"kind\": \"new\"}\n</parameter>\n"
     "</function>\n</tool_call>",
     calls({{"search", R"({"plugin": {"kind": "new"}})"}})},
    {"omlx#2646", "text that is JSON becomes an object", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"write_file\">\n<parameter name=\"content\">{\"verdict\": "
     "\"pass\", \"findings\": []}</parameter>\n</invoke>\n</minimax:tool_call>",
     calls({{"write_file", R"({"content": "{\"verdict\": \"pass\", \"findings\": []}"})"}})},
    {"vmlx#277", "a JSON file's text becomes an object", "qwen3_coder",
     "<tool_call>\n<function=write_file>\n<parameter=content>\n[60,30]\n</parameter>\n</function>\n"
     "</tool_call>",
     calls({{"write_file", R"({"content": "[60,30]"})"}})},
    {"smg#1841", "text true becomes a boolean", "qwen3_coder",
     "<tool_call>\n<function=search>\n<parameter=query>\ntrue\n</parameter>\n<parameter=limit>\n4\n"
     "</parameter>\n</function>\n</tool_call>",
     calls({{"search", R"({"query": "true", "limit": 4})"}})},
    {"renderers#52", "True of a boolean is invalid, text null becomes null", "qwen3_coder",
     "<tool_call>\n<function=get_weather>\n<parameter=alert>\nTrue\n</"
     "parameter>\n<parameter=city>\n"
     "null\n</parameter>\n</function>\n</tool_call>",
     calls({{"get_weather", R"({"alert": true, "city": "null"})"}})},
    {"renderers#52", "null of a union with null stays text", "qwen3_coder",
     "<tool_call>\n<function=search>\n<parameter=note>\nnull\n</parameter>\n</function>\n"
     "</tool_call>",
     calls({{"search", R"({"note": null})"}})},
    {"vllm#55166", "string=\"false\" without a schema becomes text", "deepseek_v32",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_time\">\n<｜DSML｜parameter name=\"n\" "
     "string=\"false\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"c\" "
     "string=\"false\">{\"a\":1}"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     calls({{"get_time", R"({"n": 5, "c": {"a":1}})"}})},
    {"vllm#44060", "a value that holds its own end marker is cut", "minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"write_file\">\n<parameter name=\"content\"><parameter>\n"
     "  <hello></hello>\n</parameter></parameter>\n<parameter name=\"path\">a.xml</parameter>\n"
     "</invoke>\n</minimax:tool_call>",
     calls({{"write_file",
             R"({"content": "<parameter>\n  <hello></hello>\n</parameter>", "path": "a.xml"})"}})},

    {"vllm#47906", "values without quotes become strings", "gemma4",
     "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>,days:3,alert:true}<tool_call|>",
     calls({{"get_weather", R"({"city":"Rome","days":3,"alert":true})"}})},
    {"vllm#48020", "a whole call of FunctionGemma in one delta is gone", "functiongemma",
     "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
     calls({{"get_weather", R"({"city":"Paris"})"}})},
    {"lmstudio-bug-tracker#2224", "a call of MiniMax M3 is empty, its marker content", "minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
     "name=\"get_weather\">]<]minimax[>[<city>Rome]<]"
     "minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     calls({{"get_weather", R"({"city": "Rome"})"}})},

    // Arguments in another form.
    {"vllm#54964", "arguments that are a JSON string are encoded once more", "granite4",
     R"(<tool_call>{"name": "search", "arguments": "{\n  \"query\": \"max_connections\"\n}"}</tool_call>)",
     with_codes(calls({{"search", "{\n  \"query\": \"max_connections\"\n}"}}),
                {"mended_arguments"})},
    {"smolagents#1003", "arguments that are a JSON string are no object", "llama3_json",
     R"({"name": "get_weather", "parameters": "{\"city\": \"New York\"}"})",
     with_codes(calls({{"get_weather", R"({"city": "New York"})"}}), {"mended_arguments"})},
    {"quarkus-langchain4j#2642", "twice encoded arguments are refused", "mistral_v3",
     R"([TOOL_CALLS][{"name": "search", "arguments": "{ \"limit\": 2 }"}])",
     with_codes(calls({{"search", R"({ "limit": 2 })"}}), {"mended_arguments"})},
    {"vllm#19419", "a call without arguments is an error", "hermes",
     "<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>", calls({{"get_time", "{}"}})},

    // Names.
    {"sglang#40817", "an unknown name: call and text vanish", "hermes",
     "Look: <tool_call>\n{\"name\": \"get_wether\", \"arguments\": {}}\n</tool_call>",
     with_codes(
         calls({},
               "Look: <tool_call>\n{\"name\": \"get_wether\", \"arguments\": {}}\n</tool_call>"),
         {"unknown_tool"})},
    {"vllm#46344", "Kimi's id hides the name", "kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.grocery.order:12"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     calls({{"grocery.order", "{}"}})},
    {"vllm#54808", "a call although the request has no such tool", "qwen3_coder",
     "<tool_call>\n<function=list_files>\n<parameter=path>\n.\n</parameter>\n</function>\n"
     "</tool_call>",
     with_codes(calls({},
                      "<tool_call>\n<function=list_files>\n<parameter=path>\n.\n</parameter>\n"
                      "</function>\n</tool_call>"),
                {"unknown_tool", "unknown_tool"})},

    // Unicode.
    {"agent-zero#1773", "a pair of surrogates becomes two characters", "qwen3_coder",
     "<tool_call>\n<function=search>\n<parameter=period>\n{\"drink\": \"\\ud83c\\udf78\"}\n"
     "</parameter>\n</function>\n</tool_call>",
     calls({{"search", R"({"period": {"drink": "\ud83c\udf78"}})"}})},
    {"hermes-agent#80366", "half a pair of surrogates ends the process", "hermes",
     R"(<tool_call>{"name": "search", "arguments": {"query": "answer \ud800 boom"}}</tool_call>)",
     with_codes(calls({{"search", R"({"query": "answer \ufffd boom"})"}}), {"mended_arguments"})},
    {"hermes-agent#66822",
     "half a pair of surrogates in the answer's bytes",
     "hermes",
     "answer \xED\xA0\xB5 boom",
     {"answer \uFFFD\uFFFD\uFFFD boom", "", {}, {}, {}}},
};

void PrintTo(const TextRow& row, std::ostream* os) {
  *os << row.thread << ": " << row.what;
}

ParseOptions tool_options() {
  ParseOptions options;
  const auto tools = json::parse(kThreadsTools);
  for (const json::Value& tool : *tools->if_array()) {
    options.tools.push_back(*tool.find("name")->if_string());
    const json::Value* parameters = tool.find("parameters");
    options.schemas.push_back(parameters != nullptr ? *parameters : json::Value());
  }
  return options;
}

ParseOptions options_of(const TextRow& row) {
  ParseOptions options = tool_options();
  options.prompt_tail = row.prompt_tail;
  return options;
}

std::string name_of(const char* thread, std::size_t index) {
  std::string name = thread;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + "_row" + std::to_string(index);
}

class Threads : public ::testing::TestWithParam<TextRow> {};

TEST_P(Threads, GiveTheRightMessageHoweverTheyAreCut) {
  const TextRow& row = GetParam();
  const auto format = find(row.format);
  ASSERT_NE(format, nullptr) << row.format;
  const Outcome outcome = parse(format, row.text, options_of(row), row.truncated);
  EXPECT_EQ(outcome, row.wanted) << row.text;

  // Calls are counted in their order, and each has an id of its own.
  StreamParser parser(format, options_of(row));
  std::set<std::string> ids;
  for (const auto& event : events_of(parser, row.text, 3, row.truncated)) {
    const auto* begin = std::get_if<message::CallBegin>(&event);
    if (begin == nullptr) continue;
    EXPECT_EQ(begin->index, ids.size());
    EXPECT_TRUE(!begin->id.empty() && ids.insert(begin->id).second) << begin->id;
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, Threads, ::testing::ValuesIn(kTexts),
                         [](const auto& test) { return name_of(test.param.thread, test.index); });

/// What has been sent after the first part of a call.
struct SoonRow {
  const char* thread;
  const char* what;
  const char* format;
  std::string text;
  const char* sent;  ///< Arguments.
};

const SoonRow kSoon[] = {
    {"sglang#11888", "the arguments come at the call's end only", "glm45",
     "<tool_call>write_file\n<arg_key>content</arg_key>\n<arg_value>once upon",
     R"({"content": "once upon)"},
    {"dynamo#14926", "the arguments are withheld until generation ends", "hermes",
     "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"content\": \"once upon",
     R"({"content": "once upon)"},
    {"vllm#50604", "the arguments come after minutes of silence", "deepseek_v31",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{\"content\": \"once upon",
     R"({"content": "once upon)"},
};

TEST(Threads, ArgumentsAreSentAsTheyCome) {
  for (const SoonRow& row : kSoon) {
    SCOPED_TRACE(row.thread);
    StreamParser parser(find(row.format), tool_options());
    std::vector<message::ChatEvent> events;
    for (const char byte : row.text) parser.feed({&byte, 1}, false, events);
    const Outcome outcome = outcome_of(events);
    ASSERT_EQ(outcome.calls.size(), 1U);
    EXPECT_EQ(outcome.calls[0].second, row.sent);
  }
}

/// Texts on which a parser took quadratic time or more: here they only have to end.
struct LongRow {
  const char* thread;
  const char* what;
  const char* format;
  std::string start;
  std::string piece;  ///< Comes after it until there are 600 KB.
  std::size_t calls;
};

const LongRow kLong[] = {
    {"vllm#55473", "half a megabyte without an end takes 11 s", "hermes", "",
     "<tool_call>{\"name\": ", 0},
    {"vllm#18454", "a list of calls that does not end takes for ever", "pythonic", "", "[get_time(",
     0},
    {"sglang#31912", "22 keyword arguments without an end take minutes", "pythonic", "[write_file(",
     "a=1, ", 1},
    {"odysseus#4703", "60 KB of markers that open take 25 s", "qwen3_coder", "", "<tool_call>\n",
     0},
    {"odysseus#4940", "markers of calls without an end take 15 s", "minimax_m2",
     "<minimax:tool_call>", "<invoke name=\"", 0},
    {"vllm#54678", "a few kilobytes of spaces after the marker take minutes", "glm45",
     "<tool_call>", " ", 0},
    {"llama_index#22334", "25 KB of actions without input take a minute", "react", "Thought: a",
     "\nAction: write_file", 0},
};

TEST(Threads, LongTextsEnd) {
  for (const LongRow& row : kLong) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    std::string text = row.start;
    while (text.size() < 600'000) text += row.piece;
    StreamParser parser(find(row.format), tool_options());
    const Outcome outcome = outcome_of(events_of(parser, text, 4));
    EXPECT_EQ(outcome.calls.size(), row.calls);
    EXPECT_TRUE(row.calls > 0 || outcome.content == text);
  }
}

/// What a model may write under a tool_choice.
struct ChoiceRow {
  const char* thread;
  const char* what;
  const char* format;
  message::ToolChoice choice;
  bool parallel;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

constexpr auto kRequired = message::ToolMode::required;

const std::string kXmlNow = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
const std::string kXmlRead =
    "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>";
const std::string kJsonNow = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
const std::string kJsonRead =
    "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

const ChoiceRow kChoices[] = {
    {"vllm#54808",
     "required is ignored",
     "qwen3_coder",
     {.mode = kRequired},
     true,
     {kXmlNow, kXmlRead},
     {"", "words", "words" + kXmlNow}},
    {"vllm#50477",
     "the named tool is ignored",
     "qwen3_coder",
     {.mode = kRequired, .allowed = {"read"}},
     true,
     {kXmlRead},
     {kXmlNow, "words", ""}},
    {"vllm#54808",
     "none is ignored",
     "qwen3_coder",
     {.mode = message::ToolMode::none},
     true,
     {"words", ""},
     {kXmlNow}},
    {"vllm-mlx#162",
     "none is ignored",
     "hermes",
     {.mode = message::ToolMode::none},
     true,
     {"[\"Apple\"]", ""},
     {kJsonNow}},
    {"vllm#53363",
     "prose in spite of required",
     "lfm2",
     {.mode = kRequired},
     true,
     {"<|tool_call_start|>[now()]<|tool_call_end|>"},
     {"Sure.", ""}},
    {"vllm#53255",
     "required, and the answer holds no call",
     "hermes",
     {.mode = kRequired},
     true,
     {kJsonNow},
     {"", "Hello, how are you?"}},
    {"vllm#35936",
     "required takes JSON where the format is XML",
     "qwen3_coder",
     {.mode = kRequired},
     true,
     {kXmlNow},
     {R"([{"name": "now", "parameters": {}}])", kJsonNow}},
    {"exo#1725",
     "the answer may end inside a call",
     "kimi_k2",
     {},
     true,
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
      "<|tool_call_end|><|tool_calls_section_end|>"},
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{"
      "}",
      "<|tool_calls_section_begin|>"}},
    {"llama.cpp#24807",
     "the grammar lets an end marker come twice",
     "qwen3_coder",
     {.mode = kRequired},
     true,
     {kXmlRead},
     {"<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</parameter>\n</function>\n"
      "</tool_call>"}},
    {"lmstudio-bug-tracker#1358",
     "a required argument is missing",
     "lfm2",
     {.mode = kRequired},
     true,
     {R"(<|tool_call_start|>[read(path="a")]<|tool_call_end|>)"},
     {"<|tool_call_start|>[read()]<|tool_call_end|>"}},
    {"vllm#36891",
     "Kimi K2: a quarter of the arguments are not the schema's",
     "kimi_k2",
     {},
     true,
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
      "{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>"},
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
      "{\"path\": 1}<|tool_call_end|><|tool_calls_section_end|>"}},
    {"vllm#15931",
     "a name that no tool has",
     "hermes",
     {.mode = kRequired},
     true,
     {kJsonNow},
     {"<tool_call>\n{\"name\": \"nowt\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"no\", \"arguments\": {}}\n</tool_call>"}},
    {"vllm#9451",
     "parallel_tool_calls: false is ignored",
     "llama3_json",
     {.mode = kRequired},
     false,
     {R"({"name": "now", "parameters": {}})"},
     {R"({"name": "now", "parameters": {}}; {"name": "now", "parameters": {}})"}},
    {"subwave#940",
     "parallel_tool_calls: false, and two calls are an error afterwards",
     "qwen3_coder",
     {.mode = kRequired},
     false,
     {kXmlNow},
     {kXmlNow + "\n" + kXmlRead}},
    {"hermes-agent#42801",
     "\\u0000e5 for one letter gets through as NUL",
     "hermes",
     {.mode = kRequired},
     true,
     {"<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"Umeå\"}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": "
      "\"Ume\\u00e5\"}}\n</tool_call>"},
     {"<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"Ume\\u0000e5\"}}\n"
      "</tool_call>"}},
};

TEST(Threads, GrammarsHoldTheChoice) {
  const std::vector<message::Tool> tools{
      {.name = "now", .parameters = *json::parse(R"({"type": "object", "properties": {}})")},
      {.name = "read",
       .parameters = *json::parse(
           R"({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})")}};
  for (const ChoiceRow& row : kChoices) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const Answers answers(*find(row.format), row.choice, true, row.parallel, tools);
    for (const std::string& text : row.yes) EXPECT_TRUE(answers.hold(text)) << text;
    for (const std::string& text : row.no) EXPECT_FALSE(answers.hold(text)) << text;
  }
}

}  // namespace
}  // namespace tenon::format
