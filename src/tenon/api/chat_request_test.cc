#include "tenon/api/chat_request.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using json::Value;
using message::Role;
using message::ToolMode;

Value chat_parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
  return value.value_or(Value());
}

/// A request with one message and the members in `fields`.
Value chat_request(std::string_view fields) {
  std::string text = R"({"model": "m", "messages": [{"role": "user", "content": "hi"}])";
  if (!fields.empty()) text += ", " + std::string(fields);
  return chat_parsed(text + "}");
}

constexpr std::string_view kChatTools =
    R"("tools": [{"type": "function", "function": {"name": "f"}},
                 {"type": "function", "function": {"name": "g"}}])";

std::string chat_with_tools(std::string_view fields) {
  return std::string(kChatTools) + ", " + std::string(fields);
}

struct ChatRefused {
  std::string_view name;
  std::string_view body;  // whole
  std::string_view param;
  std::string_view code;
};

const ChatRefused kRefusedBodies[] = {
    {"BodyIsAList", "[]", "", "invalid_type"},
    {"BodyIsNull", "null", "", "invalid_type"},
    {"ModelOfOtherType", R"({"model": 1, "messages": []})", "model", "invalid_type"},
    {"NoMessages", R"({"model": "m"})", "messages", "missing_required_parameter"},
    {"MessagesEmpty", R"({"model": "m", "messages": []})", "messages", "invalid_value"},
    {"MessagesOfOtherType", R"({"model": "m", "messages": "x"})", "messages", "invalid_type"},
    {"MessageOfOtherType", R"({"model": "m", "messages": [1]})", "messages[0]", "invalid_type"},
    {"NoRole", R"({"model": "m", "messages": [{"content": "x"}]})", "messages[0].role",
     "missing_required_parameter"},
    {"UnknownRole", R"({"model": "m", "messages": [{"role": "king"}]})", "messages[0].role",
     "invalid_value"},
    {"NoContentOfUser", R"({"model": "m", "messages": [{"role": "user"}]})", "messages[0].content",
     "missing_required_parameter"},
    {"ContentOfOtherType", R"({"model": "m", "messages": [{"role": "user", "content": 1}]})",
     "messages[0].content", "invalid_type"},
    {"ImagePart",
     R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
     "messages[0].content[0].type", "invalid_value"},
    {"TextPartWithoutText",
     R"({"model": "m", "messages": [{"role": "user", "content": [{"type": "text"}]}]})",
     "messages[0].content[0].text", "missing_required_parameter"},
    {"CallsOfAUser",
     R"({"model": "m", "messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]})",
     "messages[0].tool_calls", "invalid_value"},
    {"CallWithoutFunction",
     R"({"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]})",
     "messages[0].tool_calls[0].function", "missing_required_parameter"},
    {"CallWithoutName",
     R"({"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]})",
     "messages[0].tool_calls[0].function.name", "missing_required_parameter"},
    {"ArgumentsAsList",
     R"({"model": "m", "messages": [{"role": "assistant", "tool_calls":
        [{"function": {"name": "f", "arguments": []}}]}]})",
     "messages[0].tool_calls[0].function.arguments", "invalid_type"},
    {"UnknownFieldOfACall",
     R"({"model": "m", "messages": [{"role": "assistant", "tool_calls":
        [{"function": {"name": "f"}, "args": {}}]}]})",
     "messages[0].tool_calls[0].args", "unknown_parameter"},
    {"UnknownFieldOfACallsFunction",
     R"({"model": "m", "messages": [{"role": "assistant", "tool_calls":
        [{"function": {"name": "f", "args": {}}}]}]})",
     "messages[0].tool_calls[0].function.args", "unknown_parameter"},
    {"UnknownFieldOfARefusal",
     R"({"model": "m", "messages": [{"role": "assistant", "content":
        [{"type": "refusal", "refusal": "no", "why": "x"}]}]})",
     "messages[0].content[0].why", "unknown_parameter"},
    {"NullTypeOfAPart",
     R"({"model": "m", "messages": [{"role": "user", "content": [{"type": null}]}]})",
     "messages[0].content[0].type", "missing_required_parameter"},
    {"NullRole", R"({"model": "m", "messages": [{"role": null, "content": "x"}]})",
     "messages[0].role", "missing_required_parameter"},
    {"DeprecatedFunctionCallOfAMessage",
     R"({"model": "m", "messages": [{"role": "user", "content": "", "function_call": {"name": "f"}}]})",
     "messages[0].function_call", "invalid_value"},
};

const ChatRefused kRefusedFields[] = {
    {"FunctionWithoutName", R"("functions": [{}])", "functions[0].name",
     "missing_required_parameter"},
    {"FunctionCallOfNobody", R"("functions": [{"name": "f"}], "function_call": {"name": "g"})",
     "function_call", "invalid_value"},
    {"UnknownField", R"("guidance": {})", "guidance", "unknown_parameter"},
    {"TemperatureTooHigh", R"("temperature": 2.1)", "temperature", "invalid_value"},
    {"TemperatureOfOtherType", R"("temperature": "1")", "temperature", "invalid_type"},
    {"TemperatureBeyondDoubles", R"("temperature": 1e999)", "temperature", "invalid_value"},
    {"TopPNegative", R"("top_p": -0.1)", "top_p", "invalid_value"},
    {"MinPAboveOne", R"("min_p": 1.1)", "min_p", "invalid_value"},
    {"TopKFraction", R"("top_k": 1.5)", "top_k", "invalid_value"},
    {"PenaltyTooHigh", R"("presence_penalty": 3)", "presence_penalty", "invalid_value"},
    {"RepetitionPenaltyZero", R"("repetition_penalty": 0)", "repetition_penalty", "invalid_value"},
    {"SeedFraction", R"("seed": 0.5)", "seed", "invalid_value"},
    {"NZero", R"("n": 0)", "n", "invalid_value"},
    {"NHuge", R"("n": 1000000000)", "n", "invalid_value"},
    {"NBesideDecisions", R"("n": 2, "tenon": {"approvals": {"a": true}})", "n", "invalid_value"},
    {"MaxTokensZero", R"("max_tokens": 0)", "max_tokens", "invalid_value"},
    {"MaxCompletionTokensHuge", R"("max_completion_tokens": 99999999999)", "max_completion_tokens",
     "invalid_value"},
    {"StopOfOtherType", R"("stop": 3)", "stop", "invalid_type"},
    {"StopEmpty", R"("stop": "")", "stop", "invalid_value"},
    {"StopListWithNumber", R"("stop": ["a", 1])", "stop[1]", "invalid_type"},
    {"StopsTooMany",
     R"("stop": ["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop",
     "invalid_value"},
    {"StreamOfOtherType", R"("stream": "true")", "stream", "invalid_type"},
    {"StreamOptionsUnknown", R"("stream": true, "stream_options": {"x": 1})", "stream_options.x",
     "unknown_parameter"},
    {"StreamOptionsWithoutStream", R"("stream_options": {"include_usage": true})", "stream_options",
     "invalid_value"},
    {"ContinuesAUser", R"("continue_final_message": true)", "continue_final_message",
     "invalid_value"},
    {"ContinuesAndBegins", R"("continue_final_message": true, "add_generation_prompt": true)",
     "continue_final_message", "invalid_value"},
    {"BeginsNothing", R"("add_generation_prompt": false)", "add_generation_prompt",
     "invalid_value"},
    {"ContinuesByAWord", R"("continue_final_message": "yes")", "continue_final_message",
     "invalid_type"},
    {"Obfuscation", R"("stream": true, "stream_options": {"include_obfuscation": true})",
     "stream_options.include_obfuscation", "unsupported_parameter"},
    {"LogitBiasOfOtherType", R"("logit_bias": [1])", "logit_bias", "invalid_type"},
    {"LogitBiasOfAWord", R"("logit_bias": {"hello": 1})", "logit_bias", "invalid_value"},
    {"LogitBiasTooStrong", R"("logit_bias": {"1": 101})", "logit_bias.1", "invalid_value"},
    {"TopLogprobsTooMany", R"("logprobs": true, "top_logprobs": 21)", "top_logprobs",
     "invalid_value"},
    {"TopLogprobsAlone", R"("top_logprobs": 2)", "top_logprobs", "invalid_value"},
    {"ReasoningEffortUnknown", R"("reasoning_effort": "huge")", "reasoning_effort",
     "invalid_value"},
    {"TemplateKwargsTaken", R"("chat_template_kwargs": {"messages": []})",
     "chat_template_kwargs.messages", "invalid_value"},
    {"ResponseFormatUnknown", R"("response_format": {"type": "xml"})", "response_format.type",
     "invalid_value"},
    {"ResponseFormatWithoutSchema",
     R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
     "response_format.json_schema.schema", "missing_required_parameter"},
    {"ResponseFormatNameOfOtherType",
     R"("response_format": {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}})",
     "response_format.json_schema.name", "invalid_type"},
    {"ResponseFormatJsonWithoutSchema", R"("response_format": {"type": "json"})",
     "response_format.schema", "missing_required_parameter"},
    {"FormatOfAnotherWord", R"("format": "xml")", "format", "invalid_value"},
    {"ResponseFormatSchemaOfOtherType",
     R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": 1}})",
     "response_format.json_schema.schema", "invalid_type"},
    {"ResponseFormatStrictOfOtherType",
     R"("response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "schema": {}, "strict": 1}})",
     "response_format.json_schema.strict", "invalid_type"},
    {"ResponseFormatSchemaUnknownField",
     R"("response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "schema": {}, "x": 1}})",
     "response_format.json_schema.x", "unknown_parameter"},
    {"ResponseFormatObjectUnknownField", R"("response_format": {"type": "json_object", "x": 1})",
     "response_format.x", "unknown_parameter"},
    {"ResponseFormatUnknownField", R"("response_format": {"type": "text", "schema": {}})",
     "response_format.schema", "unknown_parameter"},
    {"AudioOut", R"("modalities": ["text", "audio"])", "modalities", "unsupported_parameter"},
    {"WebSearch", R"("web_search_options": {})", "web_search_options", "unsupported_parameter"},
    {"Moderation", R"("moderation": {"model": "x"})", "moderation", "unsupported_parameter"},
    {"RlmNoObject", R"("rlm": 1)", "rlm", "invalid_type"},
    {"CloseCallsNoFlag", R"("tenon": {"close_calls": 1})", "tenon.close_calls", "invalid_type"},
    {"ArgumentOrderUnknown", R"("tenon": {"argument_order": "random"})", "tenon.argument_order",
     "invalid_value"},
    {"BoundsUnknown", R"("tenon": {"bounds": "off"})", "tenon.bounds", "invalid_value"},
    {"TenonUnknown", R"("tenon": {"x": 1})", "tenon.x", "unknown_parameter"},
    {"UserOfOtherType", R"("user": 1)", "user", "invalid_type"},
    {"MetadataOfOtherType", R"("metadata": "x")", "metadata", "invalid_type"},
};

const ChatRefused kRefusedToolFields[] = {
    {"ToolsOfOtherType", R"("tools": {})", "tools", "invalid_type"},
    {"ToolWithoutType", R"("tools": [{"function": {"name": "f"}}])", "tools[0].type",
     "missing_required_parameter"},
    {"ToolOfOtherType", R"("tools": [{"type": "else", "name": "f", "parameters": {}}])",
     "tools[0].type", "invalid_value"},
    {"ServerOfTools", R"("tools": [{"type": "mcp", "server_label": "f"}])", "tools[0]",
     "unsupported_parameter"},
    {"CustomWithoutCustom", R"("tools": [{"type": "custom", "name": "f"}])", "tools[0].name",
     "unknown_parameter"},
    {"CustomWithoutName", R"("tools": [{"type": "custom", "custom": {}}])", "tools[0].custom.name",
     "missing_required_parameter"},
    {"CustomUnknownField",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "parameters": {}}}])",
     "tools[0].custom.parameters", "unknown_parameter"},
    {"CustomFormatUnknown",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "json"}}}])",
     "tools[0].custom.format.type", "invalid_value"},
    {"CustomTextWithMore",
     R"("tools": [{"type": "custom", "custom": {"name": "f",
        "format": {"type": "text", "grammar": {}}}}])",
     "tools[0].custom.format.grammar", "unknown_parameter"},
    {"CustomWithoutGrammar",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}])",
     "tools[0].custom.format.grammar", "missing_required_parameter"},
    {"CustomSyntaxUnknown",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
        "grammar": {"syntax": "gbnf", "definition": "root ::= [a]"}}}}])",
     "tools[0].custom.format.grammar.syntax", "invalid_value"},
    {"CustomWithoutDefinition",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
        "grammar": {"syntax": "lark"}}}}])",
     "tools[0].custom.format.grammar.definition", "missing_required_parameter"},
    {"CustomLarkIsNone",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
        "grammar": {"syntax": "lark", "definition": "start: \"a\" other"}}}}])",
     "tools[0].custom.format.grammar.definition", "invalid_value"},
    {"CustomRegexIsNone",
     R"("tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
        "grammar": {"syntax": "regex", "definition": "(a"}}}}])",
     "tools[0].custom.format.grammar.definition", "invalid_value"},
    {"ToolWithoutFunction", R"("tools": [{"type": "function"}])", "tools[0].function",
     "missing_required_parameter"},
    {"ToolAsResponsesHasIt", R"("tools": [{"type": "function", "name": "f", "parameters": {}}])",
     "tools[0].function", "missing_required_parameter"},
    {"ToolWithoutName", R"("tools": [{"type": "function", "function": {}}])",
     "tools[0].function.name", "missing_required_parameter"},
    {"ToolNameEmpty", R"("tools": [{"type": "function", "function": {"name": ""}}])",
     "tools[0].function.name", "invalid_value"},
    {"ToolNameThatSpellsAMarker",
     R"("tools": [{"type": "function", "function": {"name": "<tool_call>"}}])",
     "tools[0].function.name", "invalid_value"},
    {"ParametersOfOtherType",
     R"("tools": [{"type": "function", "function": {"name": "f", "parameters": true}}])",
     "tools[0].function.parameters", "invalid_type"},
    {"RequiredOfOtherType",
     R"("tools": [{"type": "function", "function": {"name": "f", "required": "a"}}])",
     "tools[0].function.required", "invalid_value"},
    {"StrictOfOtherType",
     R"("tools": [{"type": "function", "function": {"name": "f", "strict": 1}}])",
     "tools[0].function.strict", "invalid_type"},
    {"TwoToolsOfOneName",
     R"("tools": [{"type": "function", "function": {"name": "f"}},
                  {"type": "function", "function": {"name": "f"}}])",
     "tools", "invalid_value"},
    {"ChoiceUnknown", R"("tool_choice": "sometimes")", "tool_choice", "invalid_value"},
    {"ChoiceOfOtherType", R"("tool_choice": 1)", "tool_choice", "invalid_type"},
    {"ChoiceRequiredWithoutTools", R"("tool_choice": "required")", "tool_choice", "invalid_value"},
    {"ChoiceNamesNobody", R"("tool_choice": {"type": "function", "function": {"name": "h"}})",
     "tool_choice", "invalid_value"},
    {"ChoiceOfOtherKind", R"("tool_choice": {"type": "mcp", "mcp": {"name": "h"}})",
     "tool_choice.type", "invalid_value"},
    {"ChoiceOfACustomToolByFunction",
     R"("tools": [{"type": "custom", "custom": {"name": "f"}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}})",
     "tool_choice", "invalid_value"},
    {"ChoiceOfAFunctionByCustom",
     R"("tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": {"type": "custom", "custom": {"name": "f"}})",
     "tool_choice", "invalid_value"},
    {"ChoiceUnknownField",
     R"("tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}, "mode": "x"})",
     "tool_choice.mode", "unknown_parameter"},
    {"ChoiceOfAFunctionUnknownField",
     R"("tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": {"type": "function", "function": {"name": "f", "args": {}}})",
     "tool_choice.function.args", "unknown_parameter"},
    {"AllowedToolsUnknownField",
     R"("tool_choice": {"type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{}], "x": 1}})",
     "tool_choice.allowed_tools.x", "unknown_parameter"},
    {"AllowedToolOfOtherType",
     R"("tool_choice": {"type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}})",
     "tool_choice.allowed_tools.tools[0].type", "invalid_value"},
    {"NullTypeOfATool", R"("tools": [{"type": null, "function": {"name": "f"}}])", "tools[0].type",
     "missing_required_parameter"},
    {"AllowedToolsEmpty",
     R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}})",
     "tool_choice.allowed_tools.tools", "invalid_value"},
    {"FunctionsBesideTools",
     R"("tools": [{"type": "function", "function": {"name": "f"}}], "functions": [{"name": "f"}])",
     "functions", "invalid_value"},
};

std::string list_of(std::size_t count, const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + item(i);
  return text;
}

const std::string kManyBiases =
    "\"logit_bias\": {" +
    list_of(kMaxBiases + 1, [](std::size_t i) { return '"' + std::to_string(i) + "\": 1"; }) + "}";
const std::string kManyTools =
    "\"tools\": [" + list_of(kMaxTools + 1, [](std::size_t) { return std::string("1"); }) + "]";
const std::string kManyAllowed =
    R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [)" +
    list_of(kMaxTools + 1, [](std::size_t) { return std::string("1"); }) + "]}}";

const ChatRefused kRefusedForTheirNumber[] = {
    {"Biases", kManyBiases, "logit_bias", "invalid_value"},
    {"Tools", kManyTools, "tools", "invalid_value"},
    {"AllowedTools", kManyAllowed, "tool_choice.allowed_tools.tools", "invalid_value"},
};

void expect_refused(const Value& body, const ChatRefused& test) {
  SCOPED_TRACE(test.name);
  const auto decoded = decode_chat_completion(body, {.refuses_unknown_fields = true});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().status(), 400u);
  EXPECT_EQ(decoded.error().param, test.param) << decoded.error().message;
  EXPECT_EQ(decoded.error().code.name(), test.code) << decoded.error().message;
  EXPECT_FALSE(decoded.error().message.empty());
}

TEST(ChatRequest, RefusesWhatIsWrongByItsPath) {
  for (const ChatRefused& test : kRefusedBodies) expect_refused(chat_parsed(test.body), test);
  for (const ChatRefused& test : kRefusedFields) expect_refused(chat_request(test.body), test);
  for (const ChatRefused& test : kRefusedForTheirNumber)
    expect_refused(chat_request(test.body), test);
}

TEST(ChatRequest, tool_calling_FieldsAreRefusedByTheirPath) {
  for (const ChatRefused& test : kRefusedToolFields) expect_refused(chat_request(test.body), test);
}

ChatCompletionRequest decoded(std::string_view fields) {
  auto result = decode_chat_completion(chat_request(fields));
  EXPECT_TRUE(result) << fields << ": " << (result ? "" : result.error().message);
  return result.value_or(ChatCompletionRequest{});
}

TEST(ChatRequest, DefaultsAreTheModelsOwn) {
  const ChatCompletionRequest request = decoded("");
  EXPECT_EQ(request.chat.model, "m");
  ASSERT_EQ(request.chat.messages.size(), 1u);
  EXPECT_EQ(request.chat.messages[0].role, Role::user);
  EXPECT_EQ(request.chat.messages[0].content, "hi");
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.choices, 1u);
  EXPECT_TRUE(request.chat.parallel_tool_calls);
  EXPECT_FALSE(request.chat.sampling.temperature);
  EXPECT_FALSE(request.chat.max_tokens);
}

TEST(ChatRequest, HonoursSampling) {
  const ChatCompletionRequest request = decoded(
      R"("temperature": 0, "top_p": 0.5, "top_k": 40, "min_p": 0.1, "seed": -1, "n": 3,
         "presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1.1,
         "logit_bias": {"5": -100, "7": 3.5}, "logprobs": true, "top_logprobs": 20,
         "stop": ["a", "b"], "stream": true, "stream_options": {"include_usage": true},
         "reasoning_effort": "none", "chat_template_kwargs": {"x": 1})");
  const message::Sampling& sampling = request.chat.sampling;
  EXPECT_EQ(sampling.temperature, 0.0);
  EXPECT_EQ(sampling.top_p, 0.5);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(sampling.presence_penalty, -2.0);
  EXPECT_EQ(sampling.frequency_penalty, 2.0);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.logit_bias,
            (std::vector<std::pair<std::int32_t, double>>{{5, -100}, {7, 3.5}}));
  EXPECT_TRUE(request.chat.logprobs);
  EXPECT_EQ(request.chat.top_logprobs, 20);
  EXPECT_EQ(request.chat.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.choices, 3u);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(*request.chat.template_kwargs.find("reasoning_effort"), Value("none"));
  EXPECT_EQ(*request.chat.template_kwargs.find("enable_thinking"), Value(false));
  EXPECT_EQ(*request.chat.template_kwargs.find("x"), Value(1));
  EXPECT_EQ(decoded(R"("top_k": -1)").chat.sampling.top_k, 0);
  EXPECT_EQ(decoded(R"("stop": "x")").chat.stop, std::vector<std::string>{"x"});
}

TEST(ChatRequest, TheSmallerOfTwoTokenLimitsHonoursBoth) {
  EXPECT_EQ(decoded(R"("max_tokens": 5)").chat.max_tokens, 5u);
  EXPECT_EQ(decoded(R"("max_completion_tokens": 6)").chat.max_tokens, 6u);
  EXPECT_EQ(decoded(R"("max_tokens": 5, "max_completion_tokens": 6)").chat.max_tokens, 5u);
}

// The fields are those of vLLM and SGLang.
TEST(ChatRequest, TheLastMessageMayGoOn) {
  const auto asked = [](std::string_view last, std::string_view fields) {
    return decode_chat_completion(
        chat_parsed(R"({"model": "m", "messages": [{"role": "user", "content": "hi"}, )" +
                    std::string(last) + "], " + std::string(fields) + "}"));
  };
  constexpr std::string_view kAnswer = R"({"role": "assistant", "content": "{\"sum\":"})";
  for (const std::string_view fields :
       {R"("continue_final_message": true)",
        R"("continue_final_message": true, "add_generation_prompt": false)"}) {
    const auto request = asked(kAnswer, fields);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->chat.prefill, "{\"sum\":");
    EXPECT_EQ(request->chat.messages.size(), 1u);
  }
  const auto closed = asked(kAnswer, R"("add_generation_prompt": true)");
  ASSERT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(closed->chat.prefill, "");
  EXPECT_EQ(closed->chat.messages.size(), 2u);
  for (const std::string_view last :
       {R"({"role": "assistant", "content": "a", "reasoning_content": "r"})",
        R"({"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]})"}) {
    EXPECT_FALSE(asked(last, R"("continue_final_message": true)")) << last;
  }
  EXPECT_FALSE(asked(kAnswer, R"("continue_final_message": true,
                                 "response_format": {"type": "json_object"})"));
}

// The form of tools before there were several kinds of them.
TEST(ChatRequest, tool_calling_FunctionsAreToolsOfOneCall) {
  const ChatCompletionRequest request = decoded(
      R"("functions": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
         "function_call": {"name": "f"}, "parallel_tool_calls": true)");
  EXPECT_TRUE(request.has_functions);
  EXPECT_FALSE(request.chat.parallel_tool_calls);
  ASSERT_EQ(request.chat.tools.size(), 1u);
  EXPECT_EQ(json::to_string(request.chat.tools[0].raw),
            R"({"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}})");
  EXPECT_EQ(request.chat.tool_choice.mode, ToolMode::required);
  EXPECT_EQ(request.chat.tool_choice.allowed, std::vector<std::string>{"f"});
  EXPECT_EQ(
      decoded(R"("functions": [{"name": "f"}], "function_call": "none")").chat.tool_choice.mode,
      ToolMode::none);
  EXPECT_FALSE(decoded(R"("functions": [], "function_call": "auto")").has_functions);

  const auto history = decode_chat_completion(chat_parsed(
      R"({"model": "m", "messages": [{"role": "user", "content": "x"},
          {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
          {"role": "function", "name": "f", "content": "1"},
          {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
          {"role": "function", "name": "f", "content": "2"}]})"));
  ASSERT_TRUE(history) << history.error().message;
  const auto& messages = history->chat.messages;
  EXPECT_EQ(messages[2].role, Role::tool);
  EXPECT_EQ(messages[2].tool_call_id, messages[1].tool_calls[0].id);
  EXPECT_EQ(messages[4].tool_call_id, messages[3].tool_calls[0].id);
  EXPECT_NE(messages[2].tool_call_id, messages[4].tool_call_id);
}

TEST(ChatRequest, NullIsAsGoodAsAbsent) {
  for (const FieldInfo& field : chat_completion_fields()) {
    if (field.name == "model" || field.name == "messages") continue;
    decoded('"' + std::string(field.name) + "\": null");
  }
}

TEST(ChatRequest, tool_calling_ToolsAreKeptAsTheyCame) {
  const ChatCompletionRequest request = decoded(
      R"("tools": [{"type": "function", "function": {"name": "mcp.files/read", "strict": true,
          "description": "d", "parameters": {"b": 1, "a": 2}}, "extra": 1},
         {"type": "function", "function": {"name": "bare", "description": null,
          "parameters": null}}], "parallel_tool_calls": false)");
  ASSERT_EQ(request.chat.tools.size(), 2u);
  const message::Tool& tool = request.chat.tools[0];
  EXPECT_EQ(tool.name, "mcp.files/read");
  EXPECT_EQ(tool.description, "d");
  EXPECT_EQ(tool.strict, true);
  EXPECT_EQ(json::to_string(tool.parameters), R"({"b":1,"a":2})");
  EXPECT_NE(tool.raw.find("extra"), nullptr);
  EXPECT_TRUE(request.chat.tools[1].parameters.is_null());
  EXPECT_FALSE(request.chat.parallel_tool_calls);
}

TEST(ChatRequest, tool_calling_ToolsMayBeDeferred) {
  const ChatCompletionRequest request = decoded(
      R"("tools": [{"type": "tool_search"},
         {"type": "function", "function": {"name": "a", "defer_loading": true}},
         {"type": "function", "function": {"name": "b"}, "defer_loading": true},
         {"type": "custom", "custom": {"name": "c"}, "defer_loading": true},
         {"type": "function", "function": {"name": "d", "defer_loading": false}}])");
  std::string deferred;
  for (const message::Tool& tool : request.chat.tools) {
    if (tool.is_deferred) deferred += tool.name;
    // Templates write what stands in a tool.
    EXPECT_EQ(json::to_string(tool.raw).find("defer_loading"), std::string::npos);
  }
  EXPECT_EQ(deferred, "abc");
}

struct ChatChoice {
  std::string_view name;
  std::string_view field;
  message::ToolChoice expected;
};

const ChatChoice kChatChoices[] = {
    {"Auto", R"("tool_choice": "auto")", {}},
    {"None", R"("tool_choice": "none")", {ToolMode::none, {}}},
    {"Required", R"("tool_choice": "required")", {ToolMode::required, {}}},
    {"Named",
     R"("tool_choice": {"type": "function", "function": {"name": "g"}})",
     {ToolMode::required, {"g"}}},
    {"AllowedAuto",
     R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
        "tools": [{"type": "function", "function": {"name": "g"}}]}})",
     {ToolMode::automatic, {"g"}}},
    {"AllowedRequired",
     R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required",
        "tools": [{"type": "function", "function": {"name": "f"}},
                  {"type": "function", "function": {"name": "g"}}]}})",
     {ToolMode::required, {"f", "g"}}},
};

TEST(ChatRequest, tool_calling_ChoiceIsUnderstoodInEveryForm) {
  for (const ChatChoice& test : kChatChoices) {
    SCOPED_TRACE(test.name);
    EXPECT_EQ(decoded(chat_with_tools(test.field)).chat.tool_choice, test.expected);
  }
}

TEST(ChatRequest, tool_calling_HistoryIsTakenAsClientsSendIt) {
  auto result = decode_chat_completion(chat_parsed(R"({"model": "m", "messages": [
      {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "because",
       "tool_calls": [{"id": "1", "type": "function",
                       "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "5"},
      {"role": "tool", "content": null, "name": "orphan"},
      {"role": "assistant", "content": "", "cache_control": {"type": "ephemeral"}},
      {"role": "assistant"}]})"));
  ASSERT_TRUE(result) << result.error().message;
  const auto& messages = result->chat.messages;
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(messages[0].role, Role::developer);
  EXPECT_EQ(messages[0].text(), "ab");
  EXPECT_FALSE(messages[1].content);
  EXPECT_EQ(messages[1].reasoning, "because");
  ASSERT_EQ(messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"x": 1.0})");
  EXPECT_EQ(messages[2].tool_call_id, "1");
  EXPECT_EQ(messages[3].name, "orphan");
  EXPECT_EQ(messages[4].content, "");
  EXPECT_TRUE(messages[4].extra.contains("cache_control"));
  EXPECT_FALSE(messages[5].content);
}

TEST(ChatRequest, tool_calling_CustomToolsAreFunctionsOfOneText) {
  const auto chat = decoded(R"("tools": [
      {"type": "custom", "custom": {"name": "run", "description": "Runs code.", "format": null}},
      {"type": "custom", "custom": {"name": "say", "format": {"type": "text"}}},
      {"type": "custom", "custom": {"name": "add", "format": {"type": "grammar",
        "grammar": {"syntax": "lark", "definition": "start: \"1\" \"+1\"*"}}}},
      {"type": "custom", "custom": {"name": "dial", "format": {"type": "grammar",
        "grammar": {"syntax": "regex", "definition": "^(?P<number>\\d+)$"}}}},
      {"type": "function", "function": {"name": "f"}}],
      "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
        {"type": "custom", "custom": {"name": "add"}},
        {"type": "function", "function": {"name": "f"}}]}})")
                        .chat;
  using message::TextGrammar;
  ASSERT_EQ(chat.tools.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(chat.tools[i].is_custom) << i;
  EXPECT_EQ(chat.tools[0].description, "Runs code.");
  EXPECT_NE(json::at_pointer(chat.tools[0].raw, "/function/parameters/properties/input"), nullptr);
  EXPECT_FALSE(chat.tools[1].grammar);
  EXPECT_EQ(chat.tools[2].grammar, (TextGrammar{TextGrammar::Syntax::lark, R"(start: "1" "+1"*)"}));
  EXPECT_EQ(chat.tools[3].grammar,
            (TextGrammar{TextGrammar::Syntax::regex, R"(^(?P<number>\d+)$)"}));
  EXPECT_FALSE(chat.tools[4].is_custom);
  EXPECT_EQ(chat.tool_choice, (message::ToolChoice{ToolMode::automatic, {"add", "f"}}));
}

TEST(ChatRequest, tool_calling_HistoryMayHoldCustomCalls) {
  auto result = decode_chat_completion(chat_parsed(R"({"model": "m", "messages": [
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "custom", "custom": {"name": "run", "input": "print(\"ä\")\n"},
         "function": null},
        {"id": "2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "ä"}]})"));
  ASSERT_TRUE(result) << result.error().message;
  const auto& calls = result->chat.messages[0].tool_calls;
  EXPECT_EQ(calls[0].id, "1");
  EXPECT_EQ(calls[0].name, "run");
  EXPECT_EQ(calls[0].arguments, R"({"input": "print(\"ä\")\n"})");
  EXPECT_EQ(calls[1].arguments, "{}");
}

TEST(ChatRequest, tool_calling_HistoryMayBeWhatAClientHasRead) {
  auto result =
      decode_chat_completion(chat_parsed(R"({"model": "m", "unheard_of": null, "messages": [
      {"role": "user", "content": [{"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]},
      {"role": "assistant", "tool_calls": [{"index": 0, "id": null, "type": null,
        "function": {"name": "f", "arguments": null, "parsed_arguments": {"x": 1}}}]}]})"));
  ASSERT_TRUE(result) << result.error().message;
  const auto& messages = result->chat.messages;
  ASSERT_EQ(messages[0].parts.size(), 2u);
  EXPECT_TRUE(messages[0].parts[0].raw.is_null());
  EXPECT_NE(messages[0].parts[1].raw.find("cache_control"), nullptr);
  EXPECT_EQ(messages[0].text(), "ab");
  EXPECT_EQ(messages[1].tool_calls[0].name, "f");
  EXPECT_EQ(messages[1].tool_calls[0].arguments, "");
}

TEST(ChatRequest, ResponseFormatIsTextOrJsonOfASchema) {
  using message::ResponseFormat;
  EXPECT_EQ(decoded(R"("response_format": {"type": "text"})").chat.response_format.kind,
            ResponseFormat::Kind::text);
  const auto any = decoded(R"("response_format": {"type": "json_object"})").chat.response_format;
  EXPECT_EQ(any.kind, ResponseFormat::Kind::json);
  EXPECT_TRUE(any.schema.is_null());
  const auto held = decoded(R"("response_format": {"type": "json_schema", "json_schema":
      {"name": "n", "description": "d", "strict": true, "schema": {"type": "array"}}})")
                        .chat.response_format;
  EXPECT_EQ(held.kind, ResponseFormat::Kind::json);
  EXPECT_EQ(json::to_string(held.schema), R"({"type":"array"})");
  EXPECT_EQ(held.strict, true);
}

TEST(ChatRequest, BoundsAreTheModelsUnlessItIsSaid) {
  using message::Bounds;
  EXPECT_EQ(decoded("").chat.bounds, std::nullopt);
  EXPECT_EQ(decoded(R"("tenon": {"bounds": "default"})").chat.bounds, Bounds::usual);
  EXPECT_EQ(decoded(R"("tenon": {"bounds": "none"})").chat.bounds, Bounds::none);
}

TEST(ChatRequest, ArgumentOrderIsTheModelsUnlessItIsSaid) {
  using message::ArgumentOrder;
  EXPECT_EQ(decoded("").chat.close_calls, std::nullopt);
  EXPECT_EQ(decoded(R"("tenon": {"close_calls": true})").chat.close_calls, true);
  EXPECT_EQ(decoded("").chat.argument_order, std::nullopt);
  EXPECT_EQ(decoded(R"("tenon": {"argument_order": "any"})").chat.argument_order,
            ArgumentOrder::any);
  EXPECT_EQ(decoded(R"("tenon": {"argument_order": "schema"})").chat.argument_order,
            ArgumentOrder::schema);
}

TEST(ChatRequest, tool_calling_RequiredMayStandBesideTheParameters) {
  const auto tools = decoded(R"("tools": [{"type": "function", "function": {"name": "f",
      "parameters": {"type": "object"}, "required": ["a"]}}])")
                         .chat.tools;
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(json::to_string(tools[0].parameters), R"({"type":"object","required":["a"]})");
}

// The create() parameters of the OpenAI Python SDK 3.52: none is dropped in silence.
TEST(ChatRequest, EveryFieldOfTheSdkHasItsPlace) {
  std::map<std::string_view, Effect> known;
  for (const FieldInfo& field : chat_completion_fields()) known.emplace(field.name, field.effect);
  for (const std::string_view name : {"messages",
                                      "model",
                                      "audio",
                                      "frequency_penalty",
                                      "function_call",
                                      "functions",
                                      "logit_bias",
                                      "logprobs",
                                      "max_completion_tokens",
                                      "max_tokens",
                                      "metadata",
                                      "modalities",
                                      "moderation",
                                      "n",
                                      "parallel_tool_calls",
                                      "prediction",
                                      "presence_penalty",
                                      "prompt_cache_key",
                                      "prompt_cache_options",
                                      "prompt_cache_retention",
                                      "reasoning_effort",
                                      "response_format",
                                      "safety_identifier",
                                      "seed",
                                      "service_tier",
                                      "stop",
                                      "store",
                                      "stream",
                                      "stream_options",
                                      "temperature",
                                      "tool_choice",
                                      "tools",
                                      "top_logprobs",
                                      "top_p",
                                      "user",
                                      "verbosity",
                                      "web_search_options"}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
  EXPECT_EQ(known.size(), chat_completion_fields().size());
  // A field without effect must not change the decoded request.
  const ChatCompletionRequest plain = decoded("");
  const ChatCompletionRequest full = decoded(
      R"("store": true, "user": "u", "metadata": {"a": "b"}, "service_tier": "auto",
         "verbosity": "low", "prompt_cache_key": "k", "safety_identifier": "s",
         "prediction": {"type": "content", "content": "x"}, "prompt_cache_options": {},
         "prompt_cache_retention": "24h", "response_format": {"type": "text"},
         "modalities": ["text"], "functions": [], "function_call": "auto")");
  EXPECT_EQ(full.chat.messages.size(), plain.chat.messages.size());
  EXPECT_TRUE(full.chat.template_kwargs.empty());
}

// ---- constraints of the answer's text, as local servers accept them

struct HeldTextRow {
  std::string_view fields;
  message::TextGrammar::Syntax syntax;
  std::string_view definition;
};

using Syntax = message::TextGrammar::Syntax;

const HeldTextRow kHeldTexts[] = {
    {R"("guided_choice": ["left", "right"])", Syntax::choice, R"(["left","right"])"},
    {R"("guided_regex": "gate [AB]")", Syntax::regex, "gate [AB]"},
    {R"("regex": "gate [AB]")", Syntax::regex, "gate [AB]"},
    {R"("guided_grammar": "root ::= \"a\"")", Syntax::gbnf, R"(root ::= "a")"},
    {R"("guided_grammar": "start: \"a\"")", Syntax::lark, R"(start: "a")"},
    {R"("grammar": "root ::= \"a\"")", Syntax::gbnf, R"(root ::= "a")"},
    {R"("ebnf": "root ::= \"a\"")", Syntax::gbnf, R"(root ::= "a")"},
    {R"("structured_outputs": {"choice": ["a"], "regex": null})", Syntax::choice, R"(["a"])"},
    {R"("structured_outputs": {"regex": "a+", "json_object": false})", Syntax::regex, "a+"},
    {R"("structured_outputs": {"grammar": "start: \"a\""})", Syntax::lark, R"(start: "a")"},
    {R"("response_format": {"type": "grammar", "grammar": "root ::= \"a\""})", Syntax::gbnf,
     R"(root ::= "a")"},
    {R"("response_format": {"type": "regex", "value": "a+"})", Syntax::regex, "a+"},
    {R"("response_format": {"type": "regex", "pattern": "a+"})", Syntax::regex, "a+"},
};

// Fields that ask for JSON by the schema {"type": "object"}, or by any.
constexpr std::string_view kHeldJson[] = {
    R"("structured_outputs": {"json": {"type": "object"}})",
    R"("response_format": {"type": "json_schema", "schema": {"type": "object"}})",
    R"("response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}})",
    R"("response_format": {"type": "json", "value": {"type": "object"}})",
    R"("response_format": {"type": "json", "schema": {"type": "object"}})",
    R"("format": {"type": "object"})",
    R"("format": "json")",
};

Result<ChatCompletionRequest, ApiError> held_text(std::string_view fields) {
  return decode_chat_completion(*json::parse(
      R"({"messages": [{"role": "user", "content": "x"}], )" + std::string(fields) + "}"));
}

TEST(ChatRequest, HoldsTheTextAsLocalServersDo) {
  for (const HeldTextRow& row : kHeldTexts) {
    const auto decoded = held_text(row.fields);
    ASSERT_TRUE(decoded) << row.fields << decoded.error().message;
    const message::ResponseFormat& format = decoded->chat.response_format;
    EXPECT_EQ(format.kind, message::ResponseFormat::Kind::grammar) << row.fields;
    EXPECT_EQ(format.grammar.syntax, row.syntax) << row.fields;
    EXPECT_EQ(format.grammar.definition, row.definition) << row.fields;
  }
  const auto none = held_text(R"("grammar": "", "format": "", "structured_outputs": {})");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->chat.response_format.kind, message::ResponseFormat::Kind::text);
  for (const std::string_view fields : kHeldJson) {
    const auto json = held_text(fields);
    ASSERT_TRUE(json) << fields << json.error().message;
    const message::ResponseFormat& format = json->chat.response_format;
    EXPECT_EQ(format.kind, message::ResponseFormat::Kind::json) << fields;
    const bool has_schema = fields.find("object") != std::string_view::npos;
    EXPECT_EQ(json::to_string(format.schema), has_schema ? R"({"type":"object"})" : "null");
  }
}

// A tool's result may be any JSON, and a call one of a tool that another server ran.
TEST(ChatRequest, ReadsResultsAndCallsAsOthersWriteThem) {
  const auto decoded = decode_chat_completion(*json::parse(R"({"messages": [
      {"role": "user", "content": "x"},
      {"role": "assistant", "tool_calls": [
          {"id": "a", "type": "web_search", "web_search": {"q": "y"}},
          {"id": "b", "type": "code_interpreter"},
          {"id": "c", "type": "builtin_function", "function": {"name": "$s", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "a", "content": {"found": [1, 2.50]}},
      {"role": "tool", "tool_call_id": "b", "content": 5}]})"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto& messages = decoded->chat.messages;
  ASSERT_EQ(messages.size(), 4U);
  std::string calls;
  for (const message::ToolCall& call : messages[1].tool_calls) {
    calls += call.id + ' ' + call.name + call.arguments + ';';
  }
  EXPECT_EQ(calls, R"(a web_search{"q":"y"};b code_interpreter{};c $s{};)");
  EXPECT_EQ(messages[2].text(), R"({"found":[1,2.50]})");
  EXPECT_EQ(messages[3].text(), "5");
}

TEST(ChatRequest, RefusesTextsThatCannotBeHeld) {
  for (const auto& [fields, param] : {
           std::pair(R"("guided_choice": [])", "guided_choice"),
           std::pair(R"("guided_choice": ["a", 5])", "guided_choice[1]"),
           std::pair(R"("guided_choice": "a")", "guided_choice"),
           std::pair(R"("guided_regex": "(")", "guided_regex"),
           std::pair(R"("guided_grammar": "root ::= nothing")", "guided_grammar"),
           std::pair(R"("grammar": 5)", "grammar"),
           std::pair(R"("structural_tag": "{")", "structural_tag"),
           std::pair(R"("structured_outputs": {"choice": ["a"], "regex": "b"})",
                     "structured_outputs.regex"),
           std::pair(R"("guided_choice": ["a"], "guided_regex": "b")", "guided_regex"),
           std::pair(R"("guided_json": {}, "response_format": {"type": "json_object"})",
                     "guided_json"),
       }) {
    const auto decoded = held_text(fields);
    ASSERT_FALSE(decoded) << fields;
    EXPECT_EQ(decoded.error().param, param) << decoded.error().message;
    EXPECT_EQ(decoded.error().status(), 400U);
  }
}

}  // namespace
}  // namespace tenon::api
