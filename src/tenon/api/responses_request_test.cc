#include "tenon/api/responses_request.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using json::Value;
using message::Message;
using message::Role;
using message::ToolMode;

/// A request with one message and the members in `fields`.
Value responses_request(std::string_view fields) {
  std::string text = R"({"model": "m")";
  if (fields.find("\"input\":") == std::string_view::npos) text += R"(, "input": "hi")";
  if (!fields.empty()) text += ", " + std::string(fields);
  auto value = json::parse(text + "}");
  EXPECT_TRUE(value) << text;
  return value.value_or(Value());
}

/// The responses "resp_A", which is a call, and "resp_B", which cannot be read.
Result<Value, ApiError> find(const std::string& id) {
  if (id == "resp_B") {
    return Failure<ApiError>(ApiError{.message = "x", .code = "store_error"});
  }
  if (id == "conv_A") {
    return json::parse(R"({"conversation": {}, "items": [
        {"id": "msg_B_in0", "type": "message", "role": "user", "content": "We paint the boat."},
        {"id": "msg_B_0", "type": "message", "role": "assistant", "content": "Blue?"}]})")
        .value_or(Value());
  }
  if (id != "resp_A") return Value();
  return json::parse(R"({
    "input": [{"id": "msg_A_in0", "type": "message", "role": "user", "status": "completed",
               "content": [{"type": "input_text", "text": "weather?"}]}],
    "response": {"id": "resp_A", "instructions": "not inherited", "output": [
      {"id": "rs_A_0", "type": "reasoning", "status": "completed", "summary": [],
       "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"id": "fc_A_1", "type": "function_call", "status": "completed", "call_id": "call_1",
       "name": "f", "arguments": "{}"}]}})")
      .value_or(Value());
}

std::optional<std::string> responses_unseal(std::string_view sealed) {
  if (!sealed.starts_with("ours ")) return std::nullopt;
  return std::string(sealed.substr(5));
}

auto responses_decode(std::string_view fields) {
  return decode_response(responses_request(fields), "resp_N", find,
                         {.refuses_unknown_fields = true, .unseal = responses_unseal});
}

constexpr std::string_view kResponsesTools =
    R"("tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}},
                 {"type": "function", "name": "g", "description": "d", "parameters": null,
                  "strict": false},
                 {"type": "custom", "name": "sh", "format": {"type": "grammar", "syntax": "regex",
                  "definition": "[a-z]+"}}])";

std::string responses_with_tools(std::string_view fields) {
  return std::string(kResponsesTools) + ", " + std::string(fields);
}
std::string input(std::string_view items) {
  return "\"input\": [" + std::string(items) + "]";
}
std::string responses_user(std::string_view parts) {
  return input(R"({"role": "user", "content": [)" + std::string(parts) + "]}");
}

struct ResponsesRefusedRow {
  std::string_view name;
  std::string fields;
  std::string_view param;
  std::string_view code;
};

void PrintTo(const ResponsesRefusedRow& row, std::ostream* os) {
  *os << row.name;
}

const ResponsesRefusedRow kResponsesRefused[] = {
    {"UnknownField", R"("temprature": 1)", "temprature", "unknown_parameter"},
    {"InputIsANumber", R"("input": 5)", "input", "invalid_type"},
    {"NoInput", input(""), "input", "invalid_value"},
    {"NothingToBeRead", input(R"({"type": "reasoning", "encrypted_content": "x"})"), "input",
     "invalid_value"},
    {"ItemIsText", input("\"hi\""), "input[0]", "invalid_type"},
    {"ItemOfNoType", input(R"({"content": "x"})"), "input[0].type", "missing_required_parameter"},
    {"UnknownStatus", input(R"({"role": "user", "content": "x", "status": "done"})"),
     "input[0].status", "invalid_value"},
    {"ToolRole", input(R"({"role": "tool", "content": "x"})"), "input[0].role", "invalid_value"},
    {"NoContent", input(R"({"role": "user"})"), "input[0].content", "missing_required_parameter"},
    {"UnknownMember", input(R"({"role": "user", "content": "x", "name": "y"})"), "input[0].name",
     "unknown_parameter"},
    {"Image", responses_user(R"({"type": "input_image", "image_url": "x"})"),
     "input[0].content[0].type", "invalid_value"},
    {"RefusalOfAUser", responses_user(R"({"type": "refusal", "refusal": "x"})"),
     "input[0].content[0].type", "invalid_value"},
    {"TextWithoutText", responses_user(R"({"type": "input_text"})"), "input[0].content[0].text",
     "missing_required_parameter"},
    {"CallWithoutId", input(R"({"type": "function_call", "name": "f", "arguments": "{}"})"),
     "input[0].call_id", "missing_required_parameter"},
    {"CallByAProgram", input(R"({"type": "custom_tool_call", "call_id": "a", "name": "f",
                                 "input": "", "caller": {"type": "program"}})"),
     "input[0].caller.caller_id", "missing_required_parameter"},
    {"CallByAnother", input(R"({"type": "function_call", "call_id": "a", "name": "f",
                                "arguments": "{}", "caller": {"type": "me"}})"),
     "input[0].caller.type", "invalid_value"},
    {"OutputWithoutId", input(R"({"type": "function_call_output", "output": "x"})"),
     "input[0].call_id", "missing_required_parameter"},
    {"ThoughtIsText", input(R"({"type": "reasoning", "id": "r", "summary": "x"})"),
     "input[0].summary", "invalid_type"},
    {"UnknownItem", input(R"({"type": "item_reference", "id": "fc_A_7"})"), "input[0].id",
     "item_not_found"},
    {"ItemOfAnUnknownResponse", input(R"({"id": "msg_Z_0"})"), "input[0].id", "item_not_found"},
    {"ItemOfNobody", input(R"({"id": "x"})"), "input[0].id", "item_not_found"},
    {"UnknownResponse", R"("previous_response_id": "resp_Z")", "previous_response_id",
     "previous_response_not_found"},
    {"NoResponse", R"("previous_response_id": "chatcmpl-1")", "previous_response_id",
     "previous_response_not_found"},
    {"NestedTool", R"("tools": [{"type": "function", "function": {"name": "f"}}])",
     "tools[0].function", "unknown_parameter"},
    {"ToolWithoutName", R"("tools": [{"type": "custom"}])", "tools[0].name",
     "missing_required_parameter"},
    {"ToolTwice",
     R"("tools": [{"type": "custom", "name": "f"}, {"type": "function", "name": "f"}])", "tools",
     "invalid_value"},
    {"NestedGrammar", R"("tools": [{"type": "custom", "name": "f", "format": {"type": "grammar",
                                    "grammar": {}}}])",
     "tools[0].format.grammar", "unknown_parameter"},
    {"BadGrammar", R"("tools": [{"type": "custom", "name": "f", "format": {"type": "grammar",
                                 "syntax": "regex", "definition": "("}}])",
     "tools[0].format.definition", "invalid_value"},
    {"UnknownChoice", responses_with_tools(R"("tool_choice": "any")"), "tool_choice",
     "invalid_value"},
    {"ChoiceOfAHostedTool", responses_with_tools(R"("tool_choice": {"type": "file_search"})"),
     "tool_choice.type", "invalid_value"},
    {"ChoiceOfNobody", responses_with_tools(R"("tool_choice": {"type": "function", "name": "h"})"),
     "tool_choice", "invalid_value"},
    {"ChoiceOfAnotherKind",
     responses_with_tools(R"("tool_choice": {"type": "function", "name": "sh"})"), "tool_choice",
     "invalid_value"},
    {"NestedChoice", responses_with_tools(R"("tool_choice": {"type": "function", "function": {}})"),
     "tool_choice.function", "unknown_parameter"},
    {"NothingAllowed",
     responses_with_tools(
         R"("tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []})"),
     "tool_choice.tools", "invalid_value"},
    {"AllowedOfNoMode",
     responses_with_tools(
         R"("tool_choice": {"type": "allowed_tools", "mode": "any", "tools": []})"),
     "tool_choice.mode", "invalid_value"},
    {"ChoiceWithoutTools", R"("tool_choice": "required")", "tool_choice", "invalid_value"},
    {"NestedSchema", R"("text": {"format": {"type": "json_schema", "json_schema": {}}})",
     "text.format.json_schema", "unknown_parameter"},
    {"FormatWithoutSchema", R"("text": {"format": {"type": "json_schema", "name": "x"}})",
     "text.format.schema", "missing_required_parameter"},
    {"UnknownFormat", R"("text": {"format": {"type": "xml"}})", "text.format.type",
     "invalid_value"},
    {"UnknownVerbosity", R"("text": {"verbosity": "huge"})", "text.verbosity", "invalid_value"},
    {"UnknownEffort", R"("reasoning": {"effort": "huge"})", "reasoning.effort", "invalid_value"},
    {"UnknownSummary", R"("reasoning": {"summary": "all"})", "reasoning.summary", "invalid_value"},
    {"ProMode", R"("reasoning": {"mode": "pro"})", "reasoning.mode", "unsupported_parameter"},
    {"NoTokens", R"("max_output_tokens": 0)", "max_output_tokens", "invalid_value"},
    {"UnknownInclude", R"("include": ["all"])", "include[0]", "invalid_value"},
    {"TopWithoutLogprobs", R"("top_logprobs": 2)", "top_logprobs", "invalid_value"},
    {"MetadataOfNumbers", R"("metadata": {"a": 1})", "metadata.a", "invalid_type"},
    {"Padding", R"("stream_options": {"include_obfuscation": true})",
     "stream_options.include_obfuscation", "unsupported_parameter"},
    {"BackgroundThatIsNotStored", R"("background": true, "store": false)", "background",
     "invalid_value"},
    {"ConversationBesideAResponse", R"("previous_response_id": "resp_A", "conversation": "conv_A")",
     "conversation", "invalid_value"},
    {"ConversationIsANumber", R"("conversation": 5)", "conversation", "invalid_type"},
    {"SummaryOfAnother", input(R"({"type": "compaction", "encrypted_content": "tenon1.AAAA"})"),
     "input[0].encrypted_content", "invalid_value"},
    {"Prompt", R"("prompt": {"id": "p"})", "prompt", "unsupported_parameter"},
    {"Moderation", R"("moderation": {"model": "m"})", "moderation", "unsupported_parameter"},
    {"UserIsANumber", R"("user": 5)", "user", "invalid_type"},
};

class ResponsesRefused : public ::testing::TestWithParam<ResponsesRefusedRow> {};

TEST_P(ResponsesRefused, NamesTheField) {
  const auto decoded = responses_decode(GetParam().fields);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().status(), 400U);
  EXPECT_EQ(decoded.error().param, GetParam().param) << decoded.error().message;
  EXPECT_EQ(decoded.error().code.name(), GetParam().code) << decoded.error().message;
}

INSTANTIATE_TEST_SUITE_P(Table, ResponsesRefused, ::testing::ValuesIn(kResponsesRefused),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Responses, AStoreThatFailsIsNotTheClientsFault) {
  const auto decoded = responses_decode(R"("previous_response_id": "resp_B")");
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().status(), 503U);
  EXPECT_EQ(decoded.error().code.name(), "store_error");
}

TEST(Responses, OneRequestRefersToFewResponses) {
  std::string items;
  for (int i = 0; i < 40; ++i) {
    items += (i == 0 ? "" : ",") + std::string(R"({"role": "user", "content": "x"})");
  }
  EXPECT_TRUE(responses_decode(input(items)));
  int asked = 0;
  const FindResponse count = [&](const std::string& id) -> Result<Value, ApiError> {
    ++asked;
    return json::parse(R"({"input": [], "response": {"output": [{"type": "message", "role": "user",
                           "id": "msg_)" +
                       id.substr(5) + R"(_0", "content": "x"}]}})")
        .value_or(Value());
  };
  std::string references;
  for (int i = 0; i < 40; ++i) {
    references +=
        (i == 0 ? "" : ",") + std::string(R"({"id": "msg_)") + std::to_string(i) + "_0\"}";
  }
  const auto decoded = decode_response(responses_request(input(references)), "resp_N", count);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().param, "input[32].id") << decoded.error().message;
  EXPECT_EQ(asked, 32);
}

// ---- what the model reads

std::string responses_shown(const Message& message) {
  std::string text = std::string(message::role_name(message.role)) + ":" + message.text();
  if (!message.reasoning.empty()) text += " thinks " + message.reasoning;
  for (const auto& call : message.tool_calls) {
    text += " " + call.id + "=" + call.name + call.arguments;
  }
  if (!message.tool_call_id.empty()) text += " of " + message.tool_call_id;
  return text + (message.content || !message.parts.empty() ? "\n" : " (silent)\n");
}

struct Read {
  std::string_view name;
  std::string fields;
  std::string_view messages;
};

void PrintTo(const Read& row, std::ostream* os) {
  *os << row.name;
}

constexpr std::string_view kResponsesCall =
    R"({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f",
        "arguments": "{}", "status": "completed", "caller": {"type": "direct"}})";
constexpr std::string_view kOutput =
    R"({"type": "function_call_output", "call_id": "call_1", "output": "18"})";

std::string join(std::initializer_list<std::string_view> items) {
  std::string all;
  for (const std::string_view item : items) all += (all.empty() ? "" : ", ") + std::string(item);
  return input(all);
}

const Read kReads[] = {
    {"Text", R"("input": "hi")", "user:hi\n"},
    {"Instructions", R"("instructions": "Be kind.")", "system:Be kind.\nuser:hi\n"},
    {"EmptyInstructions", R"("instructions": "")", "user:hi\n"},
    {"Roles",
     join({R"({"role": "developer", "content": "a"})",
           R"({"type": "message", "role": "system", "content": "b"})",
           R"({"role": "assistant", "content": "c", "phase": "final_answer"})",
           R"({"role": "user", "content": [{"type": "input_text", "text": "d"},
                        {"type": "input_text", "text": "e"}]})"}),
     "developer:a\nsystem:b\nassistant:c\nuser:de\n"},
    {"TheLoop", join({R"({"role": "user", "content": "x"})", kResponsesCall, kOutput}),
     "user:x\nassistant: call_1=f{} (silent)\ntool:18 of call_1\n"},
    {"OneAnswerIsOneMessage",
     join({R"({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": null,
              "content": [{"type": "reasoning_text", "text": "hm"}]})",
           R"({"type": "message", "role": "assistant", "id": "m", "status": "completed", "content":
              [{"type": "output_text", "text": "Look.", "annotations": [], "logprobs": []}]})",
           kResponsesCall, R"({"role": "assistant", "content": "And."})", kOutput}),
     "assistant:Look.And. thinks hm call_1=f{}\ntool:18 of call_1\n"},
    {"TextAfterTextIsAnotherMessage",
     join({R"({"role": "assistant", "content": "a"})", R"({"role": "assistant", "content": "b"})"}),
     "assistant:a\nassistant:b\n"},
    {"ASummaryIsAllThatIsKnown",
     join({R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}],
              "encrypted_content": "xxx"})",
           R"({"role": "assistant", "content": "a"})"}),
     "assistant:a thinks s\n"},
    {"EncryptedOnly",
     join({R"({"type": "reasoning", "summary": [], "encrypted_content": "x"})",
           R"({"role": "user", "content": "a"})"}),
     "user:a\n"},
    {"Refusal", join({R"({"role": "assistant", "content": [{"type": "refusal",
                          "refusal": "no"}]})"}),
     "assistant:no\n"},
    {"CustomCall",
     join({R"({"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls\n"})",
           R"({"type": "custom_tool_call_output", "call_id": "c", "output": [
              {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]})"}),
     "assistant: c=sh{\"input\": \"ls\\n\"} (silent)\ntool:ab of c\n"},
    {"WhatWasBefore",
     R"("previous_response_id": "resp_A", "instructions": "new", "input":
        [{"type": "function_call_output", "call_id": "call_1", "output": "18"}])",
     "system:new\nuser:weather?\nassistant: thinks hm call_1=f{} (silent)\ntool:18 of call_1\n"},
    {"AConversation", R"("conversation": {"id": "conv_A"}, "input": "Yes.")",
     "user:We paint the boat.\nassistant:Blue?\nuser:Yes.\n"},
    {"ASummaryThatIsOurs",
     join({R"({"type": "compaction", "id": "cmp_1", "encrypted_content": "ours a boat"})",
           R"({"role": "user", "content": "b"})"}),
     "user:Summary of the conversation so far:\na boat\nuser:b\n"},
    {"AThoughtThatIsOurs",
     join({R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}],
              "encrypted_content": "ours hm"})",
           R"({"role": "assistant", "content": "a"})"}),
     "assistant:a thinks hm\n"},
    {"References",
     join({R"({"type": "item_reference", "id": "msg_A_in0"})", R"({"type": null, "id": "rs_A_0"})",
           R"({"id": "fc_A_1"})", kOutput}),
     "user:weather?\nassistant: thinks hm call_1=f{} (silent)\ntool:18 of call_1\n"},
};

// Each reference copies its item, however small the request is.
TEST(ResponsesRequest, BoundsWhatIsReferredTo) {
  const std::string reference = R"({"type": "item_reference", "id": "msg_A_in0"})";
  const auto referring = [&](std::size_t times, std::size_t bytes) {
    const FindResponse large = [&](const std::string&) -> Result<Value, ApiError> {
      return json::Object{
          {"input", json::Array{json::Object{{"id", "msg_A_in0"},
                                             {"type", "message"},
                                             {"role", "user"},
                                             {"content", std::string(bytes, 'x')}}}},
          {"response", json::Object()}};
    };
    std::string items = reference;
    for (std::size_t i = 1; i < times; ++i) items += ", " + reference;
    return decode_response(responses_request(R"("input": [)" + items + "]"), "resp_N", large);
  };
  EXPECT_TRUE(referring(1024, 10));
  EXPECT_TRUE(referring(2, 15 << 20));
  const auto many = referring(1025, 10);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().param, "input");
  EXPECT_EQ(many.error().message, "input has 1025 references, more than 1024");
  const auto heavy = referring(3, 15 << 20);
  ASSERT_FALSE(heavy);
  EXPECT_EQ(heavy.error().param, "input");
}

class ResponsesRead : public ::testing::TestWithParam<Read> {};

TEST_P(ResponsesRead, AsMessages) {
  const auto decoded = responses_decode(GetParam().fields);
  ASSERT_TRUE(decoded) << decoded.error().message;
  std::string all;
  for (const Message& message : decoded->chat.messages) all += responses_shown(message);
  EXPECT_EQ(all, GetParam().messages);
  // What is kept gives the same when it is read again.
  json::Object kept{{"input", decoded->input}, {"response", json::Object()}};
  const FindResponse again = [&](const std::string&) -> Result<Value, ApiError> { return kept; };
  const auto twice =
      decode_response(responses_request(R"("previous_response_id": "resp_N", "input": "z")"),
                      "resp_O", again, {.unseal = responses_unseal});
  ASSERT_TRUE(twice) << twice.error().message;
  std::string all_again;
  for (const Message& message : twice->chat.messages) all_again += responses_shown(message);
  if (decoded->chat.messages[0].role != Role::system || !decoded->echo.find("instructions") ||
      decoded->echo.find("instructions")->is_null()) {
    EXPECT_EQ(all_again, all + "user:z\n");
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ResponsesRead, ::testing::ValuesIn(kReads),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Responses, ItemsAreKeptWithIdsAndParts) {
  const auto decoded =
      responses_decode(join({R"({"role": "user", "content": "x"})", kResponsesCall, kOutput}));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(json::to_string(decoded->input),
            R"([{"id":"msg_N_in0","type":"message","role":"user","content":)"
            R"([{"type":"input_text","text":"x"}],"status":"completed"},)"
            R"({"id":"fc_1","type":"function_call","call_id":"call_1","name":"f",)"
            R"("arguments":"{}","status":"completed","caller":{"type":"direct"}},)"
            R"({"id":"fco_N_in2","type":"function_call_output","call_id":"call_1","output":"18",)"
            R"("status":"completed"}])");
}

// ---- the rest

TEST(Responses, ToolsAreFlat) {
  const auto decoded = responses_decode(kResponsesTools);
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto& tools = decoded->chat.tools;
  ASSERT_EQ(tools.size(), 3U);
  EXPECT_EQ(json::to_string(tools[0].raw),
            R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})");
  EXPECT_TRUE(tools[1].parameters.is_null());
  EXPECT_EQ(json::to_string(tools[1].raw),
            R"({"type":"function","function":{"name":"g","description":"d","strict":false}})");
  EXPECT_EQ(tools[1].strict, false);
  EXPECT_TRUE(tools[2].is_custom);
  ASSERT_TRUE(tools[2].grammar);
  EXPECT_EQ(tools[2].grammar->definition, "[a-z]+");
}

struct ResponsesChoice {
  std::string_view name;
  std::string_view value;
  ToolMode mode;
  std::vector<std::string> allowed;
};

const ResponsesChoice kResponsesChoices[] = {
    {"Auto", R"("auto")", ToolMode::automatic, {}},
    {"None", R"("none")", ToolMode::none, {}},
    {"Required", R"("required")", ToolMode::required, {}},
    {"Function", R"({"type": "function", "name": "f"})", ToolMode::required, {"f"}},
    {"Custom", R"({"type": "custom", "name": "sh"})", ToolMode::required, {"sh"}},
    {"Allowed",
     R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"},
         {"type": "custom", "name": "sh"}]})",
     ToolMode::automatic,
     {"f", "sh"}},
    {"AllowedAndRequired",
     R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]})",
     ToolMode::required,
     {"g"}},
};

TEST(Responses, ToolChoicesAreFlat) {
  for (const ResponsesChoice& row : kResponsesChoices) {
    const auto decoded =
        responses_decode(responses_with_tools("\"tool_choice\": " + std::string(row.value)));
    ASSERT_TRUE(decoded) << row.name << ": " << decoded.error().message;
    EXPECT_EQ(decoded->chat.tool_choice.mode, row.mode) << row.name;
    EXPECT_EQ(decoded->chat.tool_choice.allowed, row.allowed) << row.name;
  }
}

TEST(Responses, HonoursTheRest) {
  const auto decoded = responses_decode(
      R"("max_output_tokens": 7, "temperature": 0.5, "top_p": 0.25, "top_k": 3, "stream": true,
         "store": false, "parallel_tool_calls": false, "top_logprobs": 2,
         "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
         "reasoning": {"effort": "low", "summary": "auto", "context": "auto"},
         "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "strict": true,
                  "schema": {"type": "object"}}},
         "stream_options": {"include_obfuscation": false}, "metadata": {"k": "v"},
         "truncation": "disabled", "background": false, "context_management": [],
         "service_tier": "auto", "user": "u", "tenon": {"close_calls": true, "bounds": "none"})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  const message::ChatRequest& chat = decoded->chat;
  EXPECT_TRUE(decoded->stream);
  EXPECT_FALSE(decoded->store);
  EXPECT_EQ(chat.max_tokens, 7U);
  EXPECT_EQ(chat.sampling.temperature, 0.5);
  EXPECT_EQ(chat.sampling.top_p, 0.25);
  EXPECT_EQ(chat.sampling.top_k, 3);
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_TRUE(chat.logprobs);
  EXPECT_EQ(chat.top_logprobs, 2);
  EXPECT_EQ(chat.close_calls, true);
  EXPECT_EQ(chat.bounds, message::Bounds::none);
  EXPECT_EQ(*chat.template_kwargs.find("reasoning_effort"), Value("low"));
  EXPECT_EQ(*chat.template_kwargs.find("enable_thinking"), Value(true));
  EXPECT_EQ(chat.response_format.kind, message::ResponseFormat::Kind::json);
  EXPECT_EQ(chat.response_format.strict, true);
  EXPECT_EQ(json::to_string(*decoded->echo.find("text")),
            R"({"format":{"type":"json_schema","name":"n","strict":true,)"
            R"("schema":{"type":"object"},"description":null},"verbosity":"low"})");
  EXPECT_EQ(*decoded->echo.find("metadata"), Value(json::Object{{"k", "v"}}));
  EXPECT_EQ(*decoded->echo.find("store"), Value(false));
}

TEST(Responses, SaysWhatWasNotAskedFor) {
  const auto decoded = responses_decode(kResponsesTools);
  ASSERT_TRUE(decoded);
  json::Object echo = decoded->echo;
  EXPECT_EQ(json::to_string(*json::at_pointer(*echo.find("tools"), "/0")),
            R"({"type":"function","name":"f","parameters":{"type":"object"},"strict":null})");
  echo["tools"] = Value();
  EXPECT_EQ(json::to_string(echo),
            R"({"background":false,"instructions":null,"max_output_tokens":null,)"
            R"("max_tool_calls":null,"metadata":{},"model":"m","parallel_tool_calls":true,)"
            R"("previous_response_id":null,"prompt_cache_key":null,)"
            R"("reasoning":{"effort":null,"summary":null},"safety_identifier":null,)"
            R"("presence_penalty":0,"frequency_penalty":0,"service_tier":"default",)"
            R"("store":true,"temperature":1,)"
            R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":null,)"
            R"("top_logprobs":0,"top_p":1,"truncation":"disabled","user":null})");
}

TEST(Responses, TellsWhatIsNewInAConversation) {
  const auto decoded = responses_decode(R"("conversation": "conv_A", "background": true)");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->conversation, "conv_A");
  EXPECT_EQ(decoded->first_new, 2U);
  EXPECT_EQ(decoded->input.size(), 3U);
  EXPECT_EQ(json::to_string(*decoded->echo.find("conversation")), R"({"id":"conv_A"})");
  EXPECT_EQ(*decoded->echo.find("background"), Value(true));
  const auto missing = responses_decode(R"("conversation": "conv_Z")");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().param, "conversation");
  EXPECT_EQ(missing.error().status(), 400U);
}

TEST(Responses, ConversationsHaveItemsWithIds) {
  const auto body = json::parse(R"({"metadata": {"a": "b"}, "more": 1, "items": [
      {"role": "user", "content": "x"}, {"type": "web_search_call", "id": "ws_1"}]})");
  const auto decoded = decode_conversation(*body, "resp_N");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->has_metadata);
  EXPECT_EQ(*decoded->items[0].find("id"), Value("msg_N_in0"));
  EXPECT_EQ(decoded->left_out.size(), 2U);
  const auto wrong = decode_conversation(*json::parse(R"({"items": [{"role": "x"}]})"), "resp_N");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "items[0].role");
}

TEST(Responses, EveryFieldIsListedOnce) {
  std::vector<std::string_view> names;
  for (const FieldInfo& field : responses_fields()) names.push_back(field.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace tenon::api
