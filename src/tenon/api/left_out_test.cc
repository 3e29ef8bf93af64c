#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/chat_request.h"
#include "tenon/api/left_out_content.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/responses_request.h"

namespace tenon::api {
namespace {

using json::Value;

constexpr std::string_view kPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGNocFCAIAY4CwA21AVBYVAZNAAAAABJRU5E";

// A decoded request: `tools` and `messages` for the model, and the paths that were left out.
struct LeftOutRead {
  std::vector<std::string> tools;
  std::vector<std::string> messages;  // text, calls as NAME(ARGUMENTS)
  std::vector<std::string> left_out;  // paths
};

template <class Request>
LeftOutRead left_out_read(const Result<Request, ApiError>& decoded) {
  LeftOutRead read;
  EXPECT_TRUE(decoded) << decoded.error().message;
  if (!decoded) return read;
  for (const message::Tool& tool : decoded->chat.tools) read.tools.push_back(tool.name);
  for (const message::Message& message : decoded->chat.messages) {
    std::string text = message.text();
    for (const message::ToolCall& call : message.tool_calls) {
      text += call.name + '(' + call.arguments + ')';
    }
    read.messages.push_back(std::move(text));
  }
  for (const message::Diagnostic& each : decoded->left_out) {
    EXPECT_EQ(each.code, "left_out");
    EXPECT_TRUE(each.message.starts_with(each.path + " is left out: ")) << each.message;
    read.left_out.push_back(each.path);
  }
  return read;
}

LeftOutRead left_out_chat(const Value& body, const DecodeOptions& options = {}) {
  return left_out_read(decode_chat_completion(body, options));
}
LeftOutRead left_out_messages(const Value& body, const DecodeOptions& options = {}) {
  return left_out_read(decode_messages(body, options));
}
LeftOutRead left_out_responses(const Value& body, const DecodeOptions& options = {}) {
  return left_out_read(
      decode_response(body, "resp_N", [](const std::string&) { return Value(); }, options));
}

struct LeftOutRow {
  std::string_view name;
  LeftOutRead (*read)(const Value& body, const DecodeOptions& options);
  std::string body;
  LeftOutRead want;
};

std::string left_out_with_png(std::string_view before, std::string_view after) {
  return std::string(before).append(kPng).append(after);
}

const LeftOutRow kLeftOutRows[] = {
    {"ChatUnknownField",
     left_out_chat,
     R"({"messages": [{"role": "user", "content": "a"}], "cache_prompt": true, "id_slot": 0})",
     {{}, {"a"}, {"cache_prompt", "id_slot"}}},
    {"ChatMembersOfOthers",
     left_out_chat,
     R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [
         {"id": "c", "type": "function", "extra_content": {}, "function": {"name": "f",
          "arguments": {"b": 1}, "hint": 2}}]}, {"role": "tool", "tool_call_id": "c",
          "content": "d"}]})",
     {{},
      {"a", R"(f({"b":1}))", "d"},
      {"messages[1].tool_calls[0].extra_content", "messages[1].tool_calls[0].function.hint"}}},
    {"ChatHostedTool",
     left_out_chat,
     R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "web_search"},
         {"type": "function", "function": {"name": "f"}}]})",
     {{"f"}, {"a"}, {"tools[0]"}}},
    {"ChatPictureAsResult",
     left_out_chat,
     left_out_with_png(
         R"({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c",
             "content": [{"type": "text", "text": "b "}, {"type": "image_url", "image_url":
             {"url": "data:image/png;base64,)",
         R"("}}]}]})"),
     {{}, {"a", "b [image left out: 3x2 png]"}, {"messages[1].content[1]"}}},
    {"ChatPictureThatWasAnswered",
     left_out_chat,
     R"({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
         {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]})",
     {{}, {"[audio left out]", "b", "c"}, {"messages[0].content[0]"}}},
    {"MessagesMembersOfBlocks",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text", "text": "a",
         "cache_control": {}, "mood": "good"}]}, {"role": "assistant", "content": [
         {"type": "thinking", "thinking": "b", "signature": "c", "depth": 3}]},
         {"role": "user", "content": [{"type": "document", "pages": 2, "source": {"type": "text",
         "media_type": "text/plain", "data": "d"}}]}]})",
     {{},
      {"a", "", "d"},
      {"messages[0].content[0].mood", "messages[1].content[0].depth",
       "messages[2].content[0].pages"}}},
    {"MessagesEditsOfOthers",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "context_management":
         {"edits": [{"type": "compact_20260112"}, {"type": "clear_tool_uses_20250919"}]}})",
     {{}, {"a"}, {"context_management.edits[0]"}}},
    {"MessagesPictureAsResult",
     left_out_messages,
     left_out_with_png(
         R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result",
             "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "base64",
             "media_type": "image/png", "data": ")",
         R"("}}]}]}]})"),
     {{}, {"[image left out: 3x2 png]"}, {"messages[0].content[0].content[0]"}}},
    {"MessagesDocumentAsResult",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result",
         "tool_use_id": "t", "content": [{"type": "document", "source": {"type": "base64",
         "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}]}]}]})",
     {{}, {"[document left out: pdf]"}, {"messages[0].content[0].content[0]"}}},
    {"MessagesReferenceToATool",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result",
         "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "f"}]}]}]})",
     {{}, {"[tool: f]"}, {}}},
    {"MessagesWhatAServersToolDid",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}, {"role": "assistant",
         "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
         {"type": "text", "text": "b"}]}, {"role": "user", "content": "c"}]})",
     {{}, {"a", "[server_tool_use left out: web_search]b", "c"}, {"messages[1].content[0]"}}},
    {"MessagesToolsByTheirType",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools": [
         {"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305",
         "name": "web_search", "max_uses": 5}, {"type": "text_editor_20250728",
         "name": "str_replace_based_edit_tool"}, {"name": "f", "input_schema": {}, "hint": 1}]})",
     {{"bash", "str_replace_based_edit_tool", "f"}, {"a"}, {"tools[1]", "tools[3].hint"}}},
    {"ResponsesHostedTools",
     left_out_responses,
     R"({"input": "a", "client_metadata": {"b": "c"}, "vendor": 1, "tools": [
         {"type": "web_search"}, {"type": "function", "name": "f"}]})",
     {{"f"}, {"a"}, {"vendor", "tools[0]", "client_metadata"}}},
    {"ChatHostedToolsOfManyShapes",
     left_out_chat,
     R"({"messages": [{"role": "user", "content": "a"}], "web_search_options": {}, "tools": [
         {"type": "function", "function": {"name": "f"}}, {"google_search": {}},
         {"type": "builtin_function", "function": {"name": "$web_search"}}]})",
     {{"f"}, {"a"}, {"tools[1]", "tools[2]", "web_search_options"}}},
    {"MessagesServersAndContainers",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "container": "c",
         "mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}]})",
     {{}, {"a"}, {"mcp_servers", "container"}}},
    {"ResponsesToolsThatRunElsewhere",
     left_out_responses,
     R"({"input": "a", "tools": [{"type": "shell", "environment": {"type": "container_auto"}},
         {"type": "shell", "environment": {"type": "local"}},
         {"type": "tool_search", "execution": "client", "description": "b", "parameters": {}}]})",
     {{"shell"}, {"a"}, {"tools[0]", "tools[2]"}}},
    {"ResponsesToolSearch",
     left_out_responses,
     R"({"input": "a", "tools": [{"type": "tool_search"},
         {"type": "function", "name": "f", "defer_loading": true}]})",
     {{"f"}, {"a"}, {}}},
    {"MessagesToolSearch",
     left_out_messages,
     R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools": [
         {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
         {"name": "f", "input_schema": {"type": "object"}, "defer_loading": true}]})",
     {{"f"}, {"a"}, {}}},
    {"ResponsesWhatHostedToolsDid",
     left_out_responses,
     R"({"input": [{"role": "user", "content": "a"}, {"type": "mcp_call", "id": "m", "name": "n",
         "arguments": "{}", "output": "3"}, {"role": "assistant", "content": "b"},
         {"role": "user", "content": "c"}]})",
     {{}, {"a", "b", "c"}, {"input[1]"}}},
    {"ResponsesNamespaces",
     left_out_responses,
     R"({"input": [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "c",
         "namespace": "rail", "name": "seats", "arguments": "{}"}, {"type": "function_call_output",
         "call_id": "c", "output": "b"}], "tools": [{"type": "namespace", "name": "rail",
         "tools": [{"type": "function", "name": "seats"}, {"type": "web_search"}]},
         {"type": "namespace", "name": "mcp__x__", "tools": [{"type": "custom", "name": "y"}]}]})",
     {{"rail__seats", "mcp__x__y"}, {"a", "rail__seats({})", "b"}, {"tools[0].tools[1]"}}},
    {"ResponsesToolsOfTheClient",
     left_out_responses,
     R"({"input": [{"role": "user", "content": "a"}, {"type": "local_shell_call", "call_id": "c",
         "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}},
         {"type": "local_shell_call_output", "id": "c", "output": "b"}],
         "tools": [{"type": "local_shell"}, {"type": "apply_patch"}]})",
     {{"local_shell", "apply_patch"},
      {"a", R"(local_shell({"command":["ls"],"env":{}}))", "b"},
      {}}},
};

TEST(LeftOut, WhatAnAnswerCanDoWithoutIsTold) {
  for (const LeftOutRow& row : kLeftOutRows) {
    SCOPED_TRACE(row.name);
    const auto body = json::parse(row.body);
    ASSERT_TRUE(body) << body.error().message;
    const LeftOutRead read = row.read(*body, {});
    EXPECT_EQ(read.tools, row.want.tools);
    EXPECT_EQ(read.messages, row.want.messages);
    EXPECT_EQ(read.left_out, row.want.left_out);
  }
}

TEST(LeftOut, NotWhatTheAnswerNeeds) {
  const struct {
    std::string_view name;
    std::string_view body;
    std::string_view param;
  } rows[] = {
      {"PictureInTheQuestion",
       R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
       "messages[0].content[0].type"},
      {"DemandWithoutTools",
       R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "web_search"}],
           "tool_choice": "required"})",
       "tool_choice"},
      {"FunctionOfAnotherType",
       R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "funktion",
           "function": {"name": "f"}}]})",
       "tools[0].type"},
  };
  for (const auto& row : rows) {
    const auto decoded = decode_chat_completion(*json::parse(row.body));
    ASSERT_FALSE(decoded) << row.name;
    EXPECT_EQ(decoded.error().param, row.param) << row.name;
  }
}

TEST(LeftOut, UnknownFieldsAreErrorsWhereTheServerSaysSo) {
  const auto decoded = decode_chat_completion(
      *json::parse(R"({"messages": [{"role": "user", "content": "a"}], "id_slot": 0})"),
      {.refuses_unknown_fields = true});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().param, "id_slot");
  EXPECT_EQ(decoded.error().code.name(), "unknown_parameter");
}

TEST(LeftOut, IsBounded) {
  json::Object body{{"messages", json::Array{json::Object{{"role", "user"}, {"content", "a"}}}}};
  for (int i = 0; i < 1000; ++i) body.set("x" + std::to_string(i), i);
  const auto decoded = decode_chat_completion(std::move(body));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->left_out.size(), kMaxLeftOut);
  json::Object large{{"messages", json::Array{json::Object{{"role", "user"}, {"content", "a"}}}}};
  large.set(std::string(1U << 20U, 'x'), 1);
  const auto read = decode_chat_completion(std::move(large));
  ASSERT_TRUE(read);
  EXPECT_LT(read->left_out.front().message.size(), 1000U);
}

TEST(LeftOut, PlaceholdersAreOneLine) {
  const struct {
    std::string_view type;
    std::string_view part;
    std::string_view text;
  } rows[] = {
      {"image", R"({})", "[image left out]"},
      {"input_file", R"({"filename": "a]\n<b>.pdf"})", "[file left out: a   b>.pdf]"},
      {"image_url",
       R"({"image_url": {"url": "data:image/gif;base64,R0lGODlhAQACAIAAAAAAAP///yH5BAEAAAAA"}})",
       "[image left out: 1x2 gif]"},
      {"image_url", R"({"image_url": "https://example.org/a.png"})", "[image left out]"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(left_out_text(row.type, *json::parse(row.part)), row.text) << row.part;
  }
}

// A request whose whole input would be left out is refused.
TEST(LeftOut, IsNotAllOfAnInput) {
  for (const char* body : {
           R"({"instructions": "x", "input": [{"type": "web_search_call", "id": "ws"}]})",
           R"({"instructions": "x", "input": [{"type": "reasoning", "encrypted_content": "y"}]})",
       }) {
    const auto decoded =
        decode_response(*json::parse(body), "resp_N", [](const std::string&) { return Value(); });
    ASSERT_FALSE(decoded) << body;
    EXPECT_EQ(decoded.error().param, "input");
  }
}

// A response that is referred to was answered, so it may have pictures; so may what comes before a
// reference to an answer.
TEST(LeftOut, IsWhatIsReferredTo) {
  const FindResponse find = [](const std::string&) -> Result<Value, ApiError> {
    return *json::parse(R"({
      "input": [{"id": "msg_A_in0", "type": "message", "role": "user", "content":
                 [{"type": "input_text", "text": "a "}, {"type": "input_image", "image_url": "x"}]}],
      "response": {"output": [{"id": "msg_A_0", "type": "message", "role": "assistant",
                   "content": "b"}]}})");
  };
  const auto decoded =
      decode_response(*json::parse(R"({"input": [{"type": "item_reference", "id": "msg_A_in0"},
          {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
          {"id": "msg_A_0"}, {"role": "user", "content": "c"}]})"),
                      "resp_N", find);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(left_out_read(decoded).messages,
            (std::vector<std::string>{"a [image left out]", "[image left out]", "b", "c"}));
  const auto asked = decode_response(*json::parse(R"({"input": [{"id": "msg_A_0"},
          {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})"),
                                     "resp_N", find);
  ASSERT_FALSE(asked) << "the question has a picture";
}

}  // namespace
}  // namespace tenon::api
