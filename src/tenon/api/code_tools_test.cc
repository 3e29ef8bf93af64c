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

// A call of unknown code, or one whose id is not its own, would go lost together with its result.
TEST(CodeTools, tool_calling_CallsThatBelongToNoCodeAreRefused) {
  const std::string_view code =
      R"({"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "x"}})";
  const std::string_view by_code = R"("type": "code_execution_20260120", "tool_id": "s")";
  const auto call = [](std::string_view id, std::string_view caller) {
    return R"(, {"type": "tool_use", "id": ")" + std::string(id) +
           R"(", "name": "a", "input": {}, "caller": {)" + std::string(caller) + "}}";
  };
  const std::string other = R"("type": "code_execution_20260120", "tool_id": "other")";
  const std::string nothing = R"("type": "code_execution_20260120")";
  const std::string direct = R"("type": "direct", "tool_id": "other")";
  const std::string strange = R"("type": "friend", "tool_id": "s")";
  const std::pair<std::string, std::string_view> rows[] = {
      {call("t", by_code) + call("u", by_code), ""},
      {call("t", direct), ""},
      {call("t", other), "messages[1].content[1]"},
      {call("t", nothing), "messages[1].content[1].caller.tool_id"},
      {call("t", strange), "messages[1].content[1].caller.type"},
      {call("t", by_code) + call("t", by_code), "messages[1].content[2]"},
      {", " + std::string(code), "messages[1].content[1]"}};
  for (const auto& [more, param] : rows) {
    const auto read = decode_messages(
        *json::parse(R"({"model": "m", "max_tokens": 9,
            "tools": [{"type": "code_execution_20260120"}, {"name": "a", "input_schema": {}}],
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [)" +
                     std::string(code) + more + R"(]}, {"role": "user", "content": "and?"}]})"),
        {});
    EXPECT_EQ(read ? "" : read.error().param, param) << more;
  }
}

TEST(CodeTools, tool_calling_ResponsesRefuseCallsThatBelongToNoCode) {
  const FindResponse nothing = [](const std::string&) { return Result<Value, ApiError>(Value()); };
  const std::string code = R"({"type": "program", "call_id": "s", "code": "x", "fingerprint": ""})";
  const std::string call = R"({"type": "function_call", "call_id": "t", "name": "a",
      "arguments": "{}", "caller": {"type": "program", "caller_id": "s"}})";
  const std::pair<std::string, std::string_view> rows[] = {
      {code + ", " + call, ""},
      {call, "input[1]"},
      {call + ", " + code, "input[1]"},
      {code + ", " + call + ", " + call, "input[3]"},
      {code + ", " + code, "input[2]"}};
  for (const auto& [items, param] : rows) {
    const auto read = decode_response(
        *json::parse(R"({"model": "m", "tools": [{"type": "programmatic_tool_calling"}],
            "input": [{"role": "user", "content": "hi"}, )" +
                     items + "]}"),
        "resp_1", nothing, {});
    EXPECT_EQ(read ? "" : read.error().param, param) << items;
  }
}

// The results of its calls would be lost. Code that has ended needs no tool.
TEST(CodeTools, tool_calling_CodeThatWaitsNeedsTheToolThatRunsIt) {
  for (const bool has_ended : {false, true}) {
    const std::string end = R"(, {"role": "assistant", "content": [
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content":
          {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0}}]},
        {"role": "user", "content": "and?"})";
    const auto read = decode_messages(*json::parse(R"({"model": "m", "max_tokens": 9,
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [
              {"type": "server_tool_use", "id": "s", "name": "code_execution",
               "input": {"code": "x"}},
              {"type": "tool_use", "id": "t", "name": "a", "input": {},
               "caller": {"type": "code_execution_20260120", "tool_id": "s"}}]},
            {"role": "user", "content": [
              {"type": "tool_result", "tool_use_id": "t", "content": "one"},
              {"type": "text", "text": "Go on."}]})" +
                                                   (has_ended ? end : std::string()) + "]}"),
                                      {});
    EXPECT_EQ(read ? "" : read.error().param, has_ended ? "" : "tools");
  }
}

// A grammar is not checked where code calls a tool.
TEST(CodeTools, tool_calling_ToolsOfCodeHaveNoGrammar) {
  const FindResponse nothing = [](const std::string&) { return Result<Value, ApiError>(Value()); };
  for (const std::string_view callers : {R"(["direct"])", R"(["direct", "programmatic"])"}) {
    const auto read = decode_response(*json::parse(R"({"model": "m", "input": "hi", "tools": [
            {"type": "programmatic_tool_calling"}, {"type": "custom", "name": "b",
             "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
             "allowed_callers": )" + std::string(callers) +
                                                   "}]}"),
                                      "resp_1", nothing, {});
    EXPECT_EQ(read ? "" : read.error().param,
              callers == R"(["direct"])" ? "" : "tools[1].allowed_callers");
  }
}

// A tool of code is enough for tool_choice to demand a call.
TEST(CodeTools, tool_calling_CodeAloneCanBeDemanded) {
  const auto read = decode_messages(
      *json::parse(
          R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": ""}],
              "tools": [{"type": "code_execution_20260120"}], "tool_choice": {"type": "any"}})"),
      {});
  EXPECT_TRUE(read) << read.error().message;
}

// Many calls and results take no longer than their number; with its square this takes minutes.
TEST(CodeTools, tool_calling_ManyCallsOfCodeAreReadInLinearTime) {
  json::Array calls{json::Object{{"type", "server_tool_use"},
                                 {"id", "s"},
                                 {"name", "code_execution"},
                                 {"input", json::Object{{"code", "x"}}}}};
  json::Array results;
  for (int i = 0; i < 50'000; ++i) {
    const std::string id = "toolu_" + std::to_string(i);
    calls.push_back(json::Object{
        {"type", "tool_use"},
        {"id", id},
        {"name", "a"},
        {"input", json::Object{}},
        {"caller", json::Object{{"type", "code_execution_20260120"}, {"tool_id", "s"}}}});
    results.push_back(json::Object{{"type", "tool_result"}, {"tool_use_id", id}});
  }
  const auto read = decode_messages(
      json::Object{{"model", "m"},
                   {"max_tokens", 9},
                   {"tools", json::Array{json::Object{{"type", "code_execution_20260120"}}}},
                   {"messages", json::Array{json::Object{{"role", "user"}, {"content", "hi"}},
                                            json::Object{{"role", "assistant"}, {"content", calls}},
                                            json::Object{{"role", "user"}, {"content", results}}}}},
      {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->chat.code_calls.back().result, "");
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
      {"AnotherName", R"({"type": "code_execution_20260120", "name": "run"})", "", "tools[0].name"},
      {"NoDate", R"({"type": "code_execution_latest"})", "", "tools[0].type"},
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
