#include "tenon/api/messages_request.h"

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
Value messages_request(std::string_view fields) {
  std::string text = R"({"model": "m", "max_tokens": 9)";
  if (fields.find("\"messages\"") == std::string_view::npos) {
    text += R"(, "messages": [{"role": "user", "content": "hi"}])";
  }
  if (!fields.empty()) text += ", " + std::string(fields);
  auto value = json::parse(text + "}");
  EXPECT_TRUE(value) << text;
  return value.value_or(Value());
}

constexpr std::string_view kMessagesTools =
    R"("tools": [{"name": "f", "input_schema": {"type": "object"}},
                 {"name": "g", "description": "d", "input_schema": {}, "strict": true}])";

std::string messages_with_tools(std::string_view fields) {
  return std::string(kMessagesTools) + ", " + std::string(fields);
}

struct MessagesRefusedRow {
  std::string_view name;
  std::string fields;
  std::string_view param;
  std::string_view code;
};

void PrintTo(const MessagesRefusedRow& row, std::ostream* os) {
  *os << row.name;
}

std::string messages(std::string_view list) {
  return "\"messages\": [" + std::string(list) + "]";
}
std::string messages_user(std::string_view blocks) {
  return messages(R"({"role": "user", "content": [)" + std::string(blocks) + "]}");
}

const MessagesRefusedRow kMessagesRefused[] = {
    {"UnknownField", R"("temprature": 1)", "temprature", "unknown_parameter"},
    {"NoMessages", messages(""), "messages", "invalid_value"},
    {"MessageIsText", messages("\"hi\""), "messages[0]", "invalid_type"},
    {"NoRole", messages(R"({"content": "x"})"), "messages[0].role", "missing_required_parameter"},
    {"ToolRole", messages(R"({"role": "tool", "content": "x"})"), "messages[0].role",
     "invalid_value"},
    {"NoContent", messages(R"({"role": "user"})"), "messages[0].content",
     "missing_required_parameter"},
    {"ContentIsANumber", messages(R"({"role": "user", "content": 5})"), "messages[0].content",
     "invalid_type"},
    {"UnknownMember", messages(R"({"role": "user", "content": "x", "name": "y"})"),
     "messages[0].name", "unknown_parameter"},
    {"Image", messages_user(R"({"type": "image", "source": {}})"), "messages[0].content[0].type",
     "invalid_value"},
    {"BlockWithoutType", messages_user(R"({"text": "x"})"), "messages[0].content[0].type",
     "missing_required_parameter"},
    {"TextWithoutText", messages_user(R"({"type": "text"})"), "messages[0].content[0].text",
     "missing_required_parameter"},
    {"ResultWithoutId", messages_user(R"({"type": "tool_result"})"),
     "messages[0].content[0].tool_use_id", "missing_required_parameter"},
    {"ScannedDocument",
     messages_user(R"({"type": "document", "source": {"type": "base64", "data": "x"}})"),
     "messages[0].content[0].source.type", "invalid_value"},
    {"InputIsText",
     messages(R"({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f",
                  "input": "[]"}]}, {"role": "user", "content": "x"})"),
     "messages[0].content[0].input", "invalid_type"},
    {"CallByTheUser", messages_user(R"({"type": "tool_use", "id": "a", "name": "f", "input": {}})"),
     "messages[0].content[0].type", "invalid_value"},
    {"ToolOfAnotherType", R"("tools": [{"type": "tool", "name": "f", "input_schema": {}}])",
     "tools[0].type", "invalid_value"},
    {"ToolWithoutSchema", R"("tools": [{"name": "f"}])", "tools[0].input_schema",
     "missing_required_parameter"},
    {"ToolTwice",
     R"("tools": [{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}])", "tools",
     "invalid_value"},
    {"ToolNameWithSpace", R"("tools": [{"name": "f g", "input_schema": {}}])", "tools[0].name",
     "invalid_value"},
    {"ChoiceOfNobody", messages_with_tools(R"("tool_choice": {"type": "tool", "name": "h"})"),
     "tool_choice.name", "invalid_value"},
    {"ChoiceWithoutName", messages_with_tools(R"("tool_choice": {"type": "tool"})"),
     "tool_choice.name", "missing_required_parameter"},
    {"UnknownChoice", messages_with_tools(R"("tool_choice": {"type": "all"})"), "tool_choice.type",
     "invalid_value"},
    {"ChoiceIsAWord", messages_with_tools(R"("tool_choice": "auto")"), "tool_choice",
     "invalid_type"},
    {"ChoiceWithoutTools", R"("tool_choice": {"type": "any"})", "tool_choice", "invalid_value"},
    {"NoTokens", R"("max_tokens": 0)", "max_tokens", "invalid_value"},
    {"StopIsAWord", R"("stop_sequences": "x")", "stop_sequences", "invalid_type"},
    {"EmptyStop", R"("stop_sequences": [""])", "stop_sequences[0]", "invalid_value"},
    {"UnknownThinking", R"("thinking": {"type": "deep"})", "thinking.type", "invalid_value"},
    {"UnknownDisplay", R"("thinking": {"type": "adaptive", "display": "loud"})", "thinking.display",
     "invalid_value"},
    {"UnknownEffort", R"("output_config": {"effort": "huge"})", "output_config.effort",
     "invalid_value"},
    {"FormatWithoutSchema", R"("output_config": {"format": {"type": "json_schema"}})",
     "output_config.format.schema", "missing_required_parameter"},
    {"PrefillUnderASchema",
     messages(R"({"role": "user", "content": "x"}, {"role": "assistant", "content": "{"})") +
         R"(, "output_config": {"format": {"type": "json_schema", "schema": {}}})",
     "messages", "invalid_value"},
    {"Container", R"("container": "c")", "container", "unsupported_parameter"},
    {"Servers", R"("mcp_servers": [{}])", "mcp_servers", "unsupported_parameter"},
};

class MessagesRefused : public ::testing::TestWithParam<MessagesRefusedRow> {};

TEST_P(MessagesRefused, NamesTheField) {
  const auto decoded =
      decode_messages(messages_request(GetParam().fields), {.refuses_unknown_fields = true});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().status(), 400U);
  EXPECT_EQ(decoded.error().param, GetParam().param) << decoded.error().message;
  EXPECT_EQ(decoded.error().code.name(), GetParam().code) << decoded.error().message;
}

INSTANTIATE_TEST_SUITE_P(Table, MessagesRefused, ::testing::ValuesIn(kMessagesRefused),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Messages, MaxTokensMayBeAbsentWhereTheyAreCounted) {
  const Value body =
      *json::parse(R"({"model": "m", "messages": [{"role": "user", "content": ""}]})");
  const auto decoded = decode_messages(body);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().param, "max_tokens");
  EXPECT_TRUE(decode_count_tokens(body));
}

std::string messages_shown(const Message& message) {
  std::string text = std::string(message::role_name(message.role)) + ":" + message.text();
  if (!message.reasoning.empty()) text += " thinks " + message.reasoning;
  for (const auto& call : message.tool_calls) {
    text += " " + call.id + "=" + call.name + call.arguments;
  }
  if (!message.tool_call_id.empty()) text += " of " + message.tool_call_id;
  if (message.extra.contains("is_error")) text += " failed";
  return text;
}

struct History {
  std::string_view name;
  std::string fields;
  std::vector<std::string> messages;
  std::string_view prefill = "";
};

void PrintTo(const History& row, std::ostream* os) {
  *os << row.name;
}

const History kHistories[] = {
    {"Text", "", {"user:hi"}},
    {"SystemAsText", R"("system": "be kind")", {"system:be kind", "user:hi"}},
    {"SystemAsBlocks",
     R"("system": [{"type": "text", "text": "be ", "cache_control": {"type": "ephemeral"}},
                   {"type": "text", "text": "kind"}])",
     {"system:be kind", "user:hi"}},
    {"EmptySystem", R"("system": "")", {"user:hi"}},
    {"SystemAmongMessages",
     messages(R"({"role": "user", "content": "a"}, {"role": "system", "content": "b"},
                 {"role": "user", "content": [{"type": "text", "text": "c"}]})"),
     {"user:a", "system:b", "user:c"}},
    {"NoBlocks", messages_user(""), {"user:"}},
    {"BlocksThatAreEmpty",
     messages_user(R"({"type": "document", "source": {"type": "content", "content": []}})"),
     {"user:"}},
    {"CallAndResult",
     messages(R"({"role": "user", "content": "x"},
                 {"role": "assistant", "content": [
                   {"type": "thinking", "thinking": "hm", "signature": "s"},
                   {"type": "redacted_thinking", "data": "?"},
                   {"type": "text", "text": "Look."},
                   {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1.0}},
                   {"type": "tool_use", "id": "b", "name": "g", "input": {}}]},
                 {"role": "user", "content": [
                   {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                   {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                    "content": [{"type": "text", "text": "t"}, {"type": "text", "text": "wo"}]},
                   {"type": "text", "text": "And?"}]})"),
     {"user:x", "assistant:Look. thinks hm a=f{\"n\":1.0} b=g{}", "tool:one of a",
      "tool:two of b failed", "user:And?"}},
    {"ResultWithoutContent",
     messages_user(
         R"({"type": "text", "text": "see"}, {"type": "tool_result", "tool_use_id": "a"})"),
     {"user:see", "tool: of a"}},
    {"Documents",
     messages_user(R"({"type": "document", "title": "T:", "source": {"type": "text", "data": "D"}},
             {"type": "document", "source": {"type": "content", "content": "E"}},
             {"type": "search_result", "title": "S", "source": "U",
              "content": [{"type": "text", "text": "F"}]})"),
     {"user:T:DESUF"}},
    {"Prefill",
     messages(R"({"role": "user", "content": "x"}, {"role": "assistant", "content": "Well"})"),
     {"user:x"},
     "Well"},
    {"CallsAtTheEnd",
     messages(R"({"role": "user", "content": "x"}, {"role": "assistant", "content": [
                  {"type": "tool_use", "id": "a", "name": "f", "input": {}}]})"),
     {"user:x", "assistant: a=f{}"}},
};

class MessagesHistory : public ::testing::TestWithParam<History> {};

TEST_P(MessagesHistory, BecomesMessages) {
  const auto decoded = decode_messages(messages_request(GetParam().fields));
  ASSERT_TRUE(decoded) << decoded.error().message;
  std::vector<std::string> messages;
  for (const Message& message : decoded->chat.messages) messages.push_back(messages_shown(message));
  EXPECT_EQ(messages, GetParam().messages);
  EXPECT_EQ(decoded->chat.prefill, GetParam().prefill);
}

INSTANTIATE_TEST_SUITE_P(Table, MessagesHistory, ::testing::ValuesIn(kHistories),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Messages, ToolsAreFunctions) {
  const auto decoded = decode_messages(messages_request(kMessagesTools));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const auto& tools = decoded->chat.tools;
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0].raw, *json::parse(R"({"type": "function", "function": {"name": "f",
      "parameters": {"type": "object"}}})"));
  EXPECT_EQ(json::to_string(tools[1].raw),
            R"({"type":"function","function":{"name":"g","description":"d","parameters":{},)"
            R"("strict":true}})");
  EXPECT_EQ(tools[1].description, "d");
  EXPECT_EQ(tools[1].strict, true);
  EXPECT_EQ(decoded->chat.call_id_prefix, "toolu_");
}

TEST(Messages, RefusalsSayWhichWordsThereAre) {
  const auto decoded = decode_messages(messages_request(R"("thinking": {"type": "long"})"));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().message,
            "thinking.type must be enabled, disabled, adaptive or between_tools, not \"long\"");
}

TEST(Messages, ChoicesOfTools) {
  const struct {
    std::string_view choice;
    ToolMode mode;
    std::vector<std::string> allowed;
    bool parallel = true;
  } rows[] = {
      {R"({"type": "auto"})", ToolMode::automatic, {}},
      {R"({"type": "none"})", ToolMode::none, {}},
      {R"({"type": "any"})", ToolMode::required, {}},
      {R"({"type": "tool", "name": "g"})", ToolMode::required, {"g"}},
      {R"({"type": "auto", "disable_parallel_tool_use": true})", ToolMode::automatic, {}, false},
  };
  for (const auto& row : rows) {
    const auto decoded = decode_messages(
        messages_request(messages_with_tools("\"tool_choice\": " + std::string(row.choice))));
    ASSERT_TRUE(decoded) << row.choice << decoded.error().message;
    EXPECT_EQ(decoded->chat.tool_choice, (message::ToolChoice{row.mode, row.allowed}))
        << row.choice;
    EXPECT_EQ(decoded->chat.parallel_tool_calls, row.parallel) << row.choice;
  }
}

TEST(Messages, TheRestIsHonoured) {
  const auto decoded = decode_messages(messages_request(
      R"("stream": true, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "stop_sequences": ["a"],
         "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
         "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"a": 1}}},
         "metadata": {"user_id": "u"}, "service_tier": "auto",
         "tenon": {"normalize": false, "bounds": "none"})"));
  ASSERT_TRUE(decoded) << decoded.error().message;
  const message::ChatRequest& chat = decoded->chat;
  EXPECT_TRUE(decoded->stream);
  EXPECT_TRUE(decoded->omits_thinking);
  EXPECT_EQ(chat.max_reasoning_tokens, 1024U);
  EXPECT_EQ(chat.sampling.temperature, 0.5);
  EXPECT_EQ(chat.sampling.top_p, 0.9);
  EXPECT_EQ(chat.sampling.top_k, 7);
  EXPECT_EQ(chat.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(chat.max_tokens, 9U);
  EXPECT_EQ(chat.normalize, false);
  EXPECT_EQ(chat.bounds, message::Bounds::none);
  EXPECT_EQ(chat.response_format.schema, *json::parse(R"({"a": 1})"));
  EXPECT_EQ(json::to_string(chat.template_kwargs),
            R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

}  // namespace
}  // namespace tenon::api
