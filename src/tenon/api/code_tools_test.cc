// Code that calls tools in the two dialects that have a form for it (docs/code-tools.md).

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/messages_encode.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/responses_encode.h"
#include "tenon/api/responses_request.h"
#include "tenon/json/members.h"

namespace tenon::api {
namespace {

using json::Value;
using message::ChatEvent;

/// What a request says of code, as text.
std::string code_said_by(const message::ChatRequest& chat) {
  std::string said = chat.code ? chat.code->name + " " + chat.code->type + ";" : "no code;";
  for (const message::Tool& tool : chat.tools) {
    said += " " + tool.name + (tool.for_model ? "+model" : "") + (tool.for_code ? "+code" : "");
  }
  for (const message::Message& message : chat.messages) {
    said += "\n" + std::string(message::role_name(message.role)) + ": " + message.text();
    for (const message::ToolCall& call : message.tool_calls) {
      said += "[" + call.id + " " + call.name + call.arguments + "]";
    }
    if (!message.tool_call_id.empty()) said += "(" + message.tool_call_id + ")";
  }
  for (const message::CodeCall& call : chat.code_calls) {
    said += "\n" + call.code_id + " > " + call.call.id + " " + call.call.name +
            call.call.arguments + " = " + call.result.value_or("?") +
            (call.is_error ? " (error)" : "");
  }
  return said;
}

TEST(CodeTools, tool_calling_MessagesTellCodeItsCallsAndResults) {
  const auto read = decode_messages(*json::parse(R"({"model": "m", "max_tokens": 9,
      "tools": [{"type": "code_execution_20260120", "name": "code_execution"},
        {"name": "a", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]},
        {"name": "b", "input_schema": {}, "allowed_callers": ["direct"]},
        {"name": "c", "input_schema": {}, "allowed_callers": ["direct", "code_execution_20260120"]}],
      "messages": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."},
          {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "x"},
           "caller": {"type": "direct"}},
          {"type": "tool_use", "id": "t", "name": "a", "input": {"n": 1},
           "caller": {"type": "code_execution_20260120", "tool_id": "s"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "one"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "a", "input": {},
           "caller": {"type": "code_execution_20260120", "tool_id": "s"}},
          {"type": "tool_use", "id": "v", "name": "a", "input": {},
           "caller": {"type": "code_execution_20260120", "tool_id": "s"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "is_error": true,
          "content": [{"type": "text", "text": "no"}]}]},
        {"role": "assistant", "content": [
          {"type": "code_execution_tool_result", "tool_use_id": "s", "content":
            {"type": "code_execution_result", "stdout": "out", "stderr": "err", "return_code": 1,
             "content": []}},
          {"type": "text", "text": "So."}]},
        {"role": "user", "content": "and?"}]})"),
                                    {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(code_said_by(read->chat),
            "code_execution code_execution_20260120; a+code b+model c+model+code\n"
            "user: hi\n"
            "assistant: I look.[s code_execution{\"code\":\"x\"}]\n"
            "tool: out\nerr(s)\n"
            "assistant: So.\n"
            "user: and?\n"
            "s > t a{\"n\":1} = one\n"
            "s > u a{} = no (error)\n"
            "s > v a{} = ?");
}

TEST(CodeTools, tool_calling_ResponsesTellCodeItsCallsAndResults) {
  const FindResponse nothing = [](const std::string&) { return Result<Value, ApiError>(Value()); };
  const auto read = decode_response(*json::parse(R"({"model": "m",
      "tools": [{"type": "programmatic_tool_calling"},
        {"type": "function", "name": "a", "parameters": {}, "allowed_callers": ["programmatic"]},
        {"type": "custom", "name": "b", "allowed_callers": ["direct", "programmatic"]}],
      "input": [{"role": "user", "content": "hi"},
        {"type": "program", "id": "p", "call_id": "s", "code": "x", "fingerprint": "f"},
        {"type": "function_call", "call_id": "t", "name": "a", "arguments": "{}",
         "caller": {"type": "program", "caller_id": "s"}},
        {"type": "function_call_output", "call_id": "t", "output": "one",
         "caller": {"type": "program", "caller_id": "s"}},
        {"type": "custom_tool_call", "call_id": "u", "name": "b", "input": "text",
         "caller": {"type": "program", "caller_id": "s"}},
        {"type": "program_output", "call_id": "s", "result": "out", "status": "completed"},
        {"type": "function_call", "call_id": "v", "name": "b", "arguments": "{}",
         "caller": {"type": "direct"}}]})"),
                                    "resp_1", nothing, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(code_said_by(read->chat),
            "run_code programmatic_tool_calling; a+code b+model+code\n"
            "user: hi\n"
            "assistant: [s run_code{\"code\":\"x\"}]\n"
            "tool: out(s)\n"
            "assistant: [v b{}]\n"
            "s > t a{} = one\n"
            "s > u b{\"input\": \"text\"} = ?");
}

struct CodeRefusedRow {
  const char* name;
  const char* tools;
  const char* more;
  std::string_view param;
};

TEST(CodeTools, tool_calling_WhatFitsNothingIsRefused) {
  const CodeRefusedRow rows[] = {
      {"NoCode",
       R"({"name": "a", "input_schema": {}, "allowed_callers": ["code_execution_20260120"]})", "",
       "tools"},
      {"NoCallers", R"({"name": "a", "input_schema": {}, "allowed_callers": []})", "",
       "tools[0].allowed_callers"},
      {"OtherCallers", R"({"name": "a", "input_schema": {}, "allowed_callers": ["me"]})", "",
       "tools[0].allowed_callers"},
      {"CallersAreAText", R"({"name": "a", "input_schema": {}, "allowed_callers": "direct"})", "",
       "tools[0].allowed_callers"},
      {"CodeThatOnlyCodeCalls",
       R"({"type": "code_execution_20260120", "allowed_callers": ["code_execution_20260120"]})", "",
       "tools[0].allowed_callers"},
      {"CodeTwice", R"({"type": "code_execution_20260120"}, {"type": "code_execution_20250825"})",
       "", "tools[1]"},
      {"TheSameName",
       R"({"type": "code_execution_20260120"}, {"name": "code_execution", "input_schema": {}})", "",
       "tools"},
      {"Chosen",
       R"({"type": "code_execution_20260120"},
          {"name": "a", "input_schema": {}, "allowed_callers": ["code_execution_20260120"]})",
       R"(, "tool_choice": {"type": "tool", "name": "a"})", "tool_choice"},
  };
  for (const CodeRefusedRow& row : rows) {
    const auto read = decode_messages(
        *json::parse(
            R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": ""}],
            "tools": [)" +
            std::string(row.tools) + "]" + row.more + "}"),
        {});
    ASSERT_FALSE(read) << row.name;
    EXPECT_EQ(read.error().param, row.param) << row.name << ": " << read.error().message;
  }
}

// Code that is written, waits for two calls, and has printed something.
std::vector<ChatEvent> code_events() {
  const message::ServerTool code{.server = std::string(message::kCodeServer), .tool = "code"};
  return {message::ServerCallBegin{.id = "toolu_s", .tool = code},
          message::ServerCallArguments{.id = "toolu_s", .text = R"({"code": )"},
          message::ServerCallArguments{.id = "toolu_s", .text = R"("a\nb"})"},
          message::Diagnostic{"ran_tool", "x gave 3 bytes"},
          message::ServerCallResult{
              .id = "toolu_s", .output = "out", .is_error = true, .error_output = "err"},
          message::CallBegin{.index = 0, .id = "toolu_t", .name = "f", .code_id = "toolu_s"},
          message::CallArguments{.index = 0, .text = "{}"},
          message::CallEnd{.index = 0},
          message::CallBegin{.index = 1, .id = "toolu_u", .name = "g"},
          message::CallArguments{.index = 1, .text = "{}"},
          message::CallEnd{.index = 1},
          message::Finish{.reason = message::FinishReason::tool_calls}};
}

TEST(CodeTools, tool_calling_MessagesHaveBlocksOfCode) {
  MessagesEncoder encoder({.id = "msg_1", .model = "m", .code_type = "code_execution_20260120"});
  for (const ChatEvent& event : code_events()) encoder.keep(0, event, {});
  const Value answer = encoder.whole({});
  EXPECT_EQ(
      json::to_string(*answer.find("content")),
      R"([{"type":"server_tool_use","id":"srvtoolu_s","name":"code","input":{"code":"a\nb"},)"
      R"("caller":{"type":"direct"}},)"
      R"({"type":"code_execution_tool_result","tool_use_id":"srvtoolu_s","content":)"
      R"({"type":"code_execution_result","stdout":"out","stderr":"err","return_code":1,"content":[]}},)"
      R"({"type":"tool_use","id":"toolu_t","name":"f","input":{},)"
      R"("caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_s"}},)"
      R"({"type":"tool_use","id":"toolu_u","name":"g","input":{},"caller":{"type":"direct"}}])");
  EXPECT_EQ(json::text_in(*answer.find("container"), "id"), "container_msg_1");
  EXPECT_EQ(json::text_in(answer, "stop_reason"), "tool_use");
}

TEST(CodeTools, tool_calling_ResponsesHavePrograms) {
  ResponsesEncoder encoder({.id = "resp_R"});
  for (const ChatEvent& event : code_events()) encoder.keep(0, event, {});
  EXPECT_EQ(
      json::to_string(*encoder.whole({}).find("output")),
      R"([{"id":"prog_R_0","type":"program","call_id":"toolu_s","code":"a\nb","fingerprint":"tenon"},)"
      R"({"id":"progo_R_1","type":"program_output","call_id":"toolu_s","result":"out\nerr",)"
      R"("status":"completed"},)"
      R"({"id":"fc_R_2","type":"function_call","status":"completed","call_id":"toolu_t","name":"f",)"
      R"("arguments":"{}","caller":{"type":"program","caller_id":"toolu_s"}},)"
      R"({"id":"fc_R_3","type":"function_call","status":"completed","call_id":"toolu_u","name":"g",)"
      R"("arguments":"{}"}])");
}

}  // namespace
}  // namespace tenon::api
