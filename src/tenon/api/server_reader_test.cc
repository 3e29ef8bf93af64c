#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/api/chat_request.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/responses_request.h"
#include "tenon/mcp/allow_list.h"

// Servers of tools that requests name, in all dialects.
namespace tenon::api {
namespace {

using json::Value;
using message::Approvals;
using message::HostedServer;

const mcp::AllowList& allowed_servers() {
  static const mcp::AllowList kList =
      *mcp::AllowList::read({"https://t.example", "http://127.0.0.1:8000/mcp"});
  return kList;
}

Value parsed(const std::string& text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return value.value_or(Value());
}

Result<ResponsesRequest, ApiError> as_response(const std::string& fields, bool is_open = true) {
  const FindResponse nothing = [](const std::string&) { return Result<Value, ApiError>(Value()); };
  return decode_response(parsed(R"({"model": "m", )" + fields + "}"), "resp_N", nothing,
                         {.servers = is_open ? &allowed_servers() : nullptr});
}

Result<MessagesRequest, ApiError> as_message(const std::string& fields) {
  return decode_messages(
      parsed(
          R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], )" +
          fields + "}"),
      {.servers = &allowed_servers()});
}

std::string mcp_tool_with(std::string_view members) {
  return R"("input": "hi", "tools": [{"type": "mcp", "server_label": "a", )" +
         std::string(members) + "}]";
}
constexpr std::string_view kAt = R"("server_url": "https://t.example/mcp")";

TEST(ServerReader, ReadsAToolOfTypeMcp) {
  const auto request = as_response(mcp_tool_with(
      std::string(kAt) +
      R"(, "headers": {"X-Team": "blue"}, "authorization": "t0ken", "allowed_tools": ["f"],
          "require_approval": {"never": {"tool_names": ["f"], "read_only": true},
                               "always": {"tool_names": ["g"]}}, "server_description": "x")"));
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->chat.servers.size(), 1U);
  EXPECT_EQ(
      request->chat.servers[0],
      (HostedServer{
          .label = "a",
          .url = "https://t.example/mcp",
          .headers = {{"X-Team", "blue"}, {"Authorization", "Bearer t0ken"}},
          .only_tools = {{"f"}},
          .approvals = {.rule = Approvals::Rule::by_annotation, .always = {"g"}, .never = {"f"}}}));
  EXPECT_TRUE(request->chat.can_approve);
  // What the response repeats has no secrets.
  const std::string echo = json::to_string(request->echo);
  EXPECT_EQ(echo.find("t0ken"), echo.npos);
  EXPECT_EQ(echo.find("blue"), echo.npos);
}

TEST(ServerReader, ApprovalIsNeededUnlessTheRequestSaysOtherwise) {
  const auto request = as_response(mcp_tool_with(kAt));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->chat.servers[0].approvals.rule, Approvals::Rule::always);
  EXPECT_FALSE(request->chat.servers[0].may_be_private);
  const auto here = as_response(mcp_tool_with(R"("server_url": "http://127.0.0.1:8000/mcp")"));
  ASSERT_TRUE(here);
  EXPECT_TRUE(here->chat.servers[0].may_be_private);
}

struct RefusedServer {
  const char* name;
  std::string fields;
  const char* param;
  const char* code;
};

TEST(ServerReader, RefusesWhatIsNotAllowedOrWrong) {
  const std::string at(kAt);
  const RefusedServer rows[] = {
      {"AnotherAddress", mcp_tool_with(R"("server_url": "https://evil.example/mcp")"),
       "tools[0].server_url", "mcp_server_not_allowed"},
      {"NoAddress", mcp_tool_with(R"("server_url": "x")"), "tools[0].server_url",
       "mcp_server_not_allowed"},
      {"Connector", mcp_tool_with(at + R"(, "connector_id": "connector_gmail")"),
       "tools[0].connector_id", "unsupported_parameter"},
      {"OwnHeader", mcp_tool_with(at + R"(, "headers": {"Host": "x"})"), "tools[0].headers.Host",
       "invalid_value"},
      {"HeaderOfTheProtocol", mcp_tool_with(at + R"(, "headers": {"MCP-Session-Id": "x"})"),
       "tools[0].headers.MCP-Session-Id", "invalid_value"},
      {"HeaderOfAnotherPath", mcp_tool_with(at + R"(, "headers": {"X-Original-URL": "/x"})"),
       "tools[0].headers.X-Original-URL", "invalid_value"},
      {"HeaderOfTraces", mcp_tool_with(at + R"(, "headers": {"TraceParent": "x"})"),
       "tools[0].headers.TraceParent", "invalid_value"},
      {"HeaderOfTwoLines", mcp_tool_with(at + R"(, "headers": {"X": "a\r\nHost: b"})"),
       "tools[0].headers.X", "invalid_value"},
      {"NameOfTwoLines", mcp_tool_with(at + R"(, "headers": {"X\r\nY": "a"})"),
       "tools[0].headers.X\r\nY", "invalid_value"},
      {"TwoAuthorizations",
       mcp_tool_with(at + R"(, "headers": {"AUTHORIZATION": "x"}, "authorization": "y")"),
       "tools[0].authorization", "invalid_value"},
      {"OnlyCodeAndAnApproval",
       mcp_tool_with(
           at + R"(, "allowed_callers": ["programmatic"]}, {"type": "programmatic_tool_calling")"),
       "tools[0].allowed_callers", "invalid_value"},
      {"ChosenAndOnlyForCode",
       mcp_tool_with(at + R"(, "require_approval": "never", "allowed_callers": ["programmatic"]},
                              {"type": "programmatic_tool_calling")") +
           R"(, "tool_choice": {"type": "mcp", "server_label": "a"})",
       "tool_choice", "invalid_value"},
      {"OddApproval", mcp_tool_with(at + R"(, "require_approval": "maybe")"),
       "tools[0].require_approval", "invalid_value"},
      {"OddLabel",
       R"("input": "hi", "tools": [{"type": "mcp", "server_label": "a b", )" + at + "}]",
       "tools[0].server_label", "invalid_value"},
      {"TwiceTheLabel",
       R"("input": "hi", "tools": [{"type": "mcp", "server_label": "a", )" + at +
           R"(}, {"type": "mcp", "server_label": "a", )" + at + "}]",
       "tools[1]", "invalid_value"},
      {"ChoiceOfNoServer",
       mcp_tool_with(at) + R"(, "tool_choice": {"type": "mcp", "server_label": "b"})",
       "tool_choice.server_label", "invalid_value"},
      {"ApprovalOfNothing",
       R"("input": [{"role": "user", "content": "x"}, {"type": "mcp_approval_response",
                    "approval_request_id": "mcpr_1", "approve": true}])",
       "input", "invalid_value"},
      {"TwoDecisionsOnOneCall",
       R"("input": [{"role": "user", "content": "x"},
                    {"type": "mcp_approval_request", "id": "a", "server_label": "s", "name": "t",
                     "arguments": "{}"},
                    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": false},
                    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": true}])",
       "input[3]", "invalid_value"},
  };
  for (const RefusedServer& row : rows) {
    const auto request = as_response(row.fields);
    ASSERT_FALSE(request) << row.name;
    EXPECT_EQ(request.error().param, row.param) << row.name;
    EXPECT_EQ(request.error().code, std::string_view(row.code)) << row.name;
  }
}

TEST(ServerReader, AnApprovalAloneIsToldWhatIsMissing) {
  const auto request = as_response(R"("input": [{"type": "mcp_approval_response",
      "approval_request_id": "mcpr_1", "approve": true}])");
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message.find("no item asks for that approval"), std::string::npos)
      << request.error().message;
}

// Histories keep decisions, and clients repeat them: only an open call can have two that differ.
TEST(ServerReader, ADecisionOnACallWithAResultMayComeAgain) {
  const std::string decision =
      R"({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": )";
  const auto request = as_response(
      R"("input": [{"role": "user", "content": "go"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "a", "name": "put",
         "arguments": "{}"}, )" +
      decision + R"(true},
        {"type": "mcp_call", "id": "mcp_2", "approval_request_id": "mcpr_1", "server_label": "a",
         "name": "put", "arguments": "{}", "output": "done"}, )" +
      decision + "true}, " + decision + "false}]");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->chat.decisions, (std::vector<message::Decision>{{"mcpr_1", true, ""}}));
  EXPECT_EQ(request->chat.messages.size(), 3U);
}

TEST(ServerReader, NoMessageHasASecret) {
  for (const std::string members :
       {R"(, "headers": {"X": "s3cret\n"})", R"(, "headers": {"Host": "s3cret"})",
        R"(, "headers": {"X": 5, "Y": "s3cret"})", R"(, "authorization": "s3cret\u0007")",
        R"(, "headers": {"authorization": "s3cret"}, "authorization": "s3cret")"}) {
    const auto request = as_response(mcp_tool_with(std::string(kAt) + members));
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().message.find("s3cret"), std::string::npos) << members;
  }
}

TEST(ServerReader, TheDoorIsClosedUnlessItIsOpened) {
  const auto request = as_response(mcp_tool_with(kAt), /*is_open=*/false);
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->chat.servers.empty());
  ASSERT_EQ(request->left_out.size(), 1U);
  EXPECT_EQ(request->left_out[0].path, "tools[0]");
}

TEST(ServerReader, ItemsOfServersAreRead) {
  const auto request = as_response(
      R"("input": [{"role": "user", "content": "go"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "a", "tools": []},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "a", "name": "get.it",
         "arguments": "{}", "output": "done"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "a", "name": "put",
         "arguments": "{\"x\": 1}"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true},
        {"type": "mcp_call", "id": "mcp_2", "approval_request_id": "mcpr_1", "server_label": "a",
         "name": "put", "arguments": "{\"x\": 1}", "error": {"type": "mcp_tool_execution_error",
         "content": [{"type": "text", "text": "broken"}]}}],
        "tools": [{"type": "mcp", "server_label": "a", "server_url": "https://t.example/mcp"}])");
  ASSERT_TRUE(request) << request.error().message;
  const message::ChatRequest& chat = request->chat;
  EXPECT_TRUE(chat.servers[0].is_listed);
  ASSERT_EQ(chat.messages.size(), 5U);  // user, call, result, call, result
  EXPECT_EQ(chat.messages[1].tool_calls[0].name, "get_it");
  EXPECT_EQ(*chat.messages[2].content, "done");
  EXPECT_EQ(chat.messages[3].tool_calls[0].id, "mcpr_1");
  EXPECT_EQ(chat.messages[4].tool_call_id, "mcpr_1");
  EXPECT_EQ(*chat.messages[4].content, "broken");
  EXPECT_EQ(chat.server_calls[0].second, (message::ServerTool{"a", "get.it"}));
  EXPECT_EQ(chat.decisions, (std::vector<message::Decision>{{"mcpr_1", true, ""}}));
}

TEST(ServerReader, AResultStandsBehindItsCallAndTheResultsThere) {
  const auto request = as_response(
      R"("input": [{"role": "user", "content": "go"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "a", "name": "put",
         "arguments": "{}"},
        {"type": "mcp_approval_request", "id": "mcpr_2", "server_label": "a", "name": "put",
         "arguments": "{}"},
        {"type": "mcp_call", "id": "mcp_1", "approval_request_id": "mcpr_1", "server_label": "a",
         "name": "put", "arguments": "{}", "output": "one"},
        {"role": "user", "content": "and?"},
        {"type": "mcp_call", "id": "mcp_2", "approval_request_id": "mcpr_2", "server_label": "a",
         "name": "put", "arguments": "{}", "output": "two"},
        {"type": "mcp_call", "id": "mcp_3", "server_label": "a", "name": "get",
         "arguments": "{}", "output": "three"}])");
  ASSERT_TRUE(request) << request.error().message;
  std::string said;
  for (const message::Message& message : request->chat.messages) {
    said += message.tool_calls.empty() ? message.text() + "," : "call,";
  }
  EXPECT_EQ(said, "go,call,one,two,and?,call,three,");
}

TEST(ServerReader, ReadsAnthropicsServersAndToolsets) {
  const std::string servers =
      R"("mcp_servers": [{"type": "url", "name": "a", "url": "https://t.example/mcp",
                          "authorization_token": "t"}])";
  const auto all = as_message(servers);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->chat.servers[0].headers[0].second, "Bearer t");
  EXPECT_EQ(all->chat.servers[0].approvals.rule, Approvals::Rule::never);
  const auto some = as_message(servers + R"(, "tools": [{"type": "mcp_toolset",
      "mcp_server_name": "a", "default_config": {"enabled": false},
      "configs": {"f": {"enabled": true}, "g": {}}}])");
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->chat.servers[0].only_tools, std::vector<std::string>{"f"});
  const auto without = as_message(servers + R"(, "tools": [{"type": "mcp_toolset",
      "mcp_server_name": "a", "configs": {"f": {"enabled": false}}}])");
  ASSERT_TRUE(without);
  EXPECT_EQ(without->chat.servers[0].without_tools, std::vector<std::string>{"f"});
  const auto stranger =
      as_message(servers + R"(, "tools": [{"type": "mcp_toolset", "mcp_server_name": "b"}])");
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().param, "tools[0].mcp_server_name");
  const auto lone = as_message(
      R"("mcp_servers": [{"type": "url", "name": "a", "url": "https://t.example/1"},
                         {"type": "url", "name": "b", "url": "https://t.example/2"}],
         "tools": [{"type": "mcp_toolset", "mcp_server_name": "b"}])");
  ASSERT_FALSE(lone);
  EXPECT_EQ(lone.error().param, "mcp_servers");
}

TEST(ServerReader, BlocksOfServersAreMessagesOfTheirOwn) {
  const auto request = decode_messages(
      parsed(R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."},
          {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "a",
           "input": {"x": 1}},
          {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": true,
           "content": [{"type": "text", "text": "no"}]},
          {"type": "text", "text": "It failed."},
          {"type": "mcp_tool_use", "id": "x", "name": "f", "server_name": "a", "input": {}},
          {"type": "mcp_tool_use", "id": "y", "name": "f", "server_name": "a", "input": {}}]}],
        "tenon": {"approvals": {"x": true, "y": {"approve": false, "reason": "why"}}}})"),
      {.servers = &allowed_servers()});
  ASSERT_TRUE(request) << request.error().message;
  const auto& messages = request->chat.messages;
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"x":1})");
  EXPECT_EQ(messages[2].role, message::Role::tool);
  EXPECT_EQ(messages[2].text(), "no");
  EXPECT_EQ(messages[3].text(), "It failed.");
  EXPECT_EQ(request->chat.decisions,
            (std::vector<message::Decision>{{"x", true, ""}, {"y", false, "why"}}));
}

// Nothing would run, and the client would not learn why.
TEST(ServerReader, ADecisionOnAnUnknownCallIsRefused) {
  const std::string decided = R"(], "tenon": {"approvals": {"c1": true, "c9": false}}})";
  const auto in_messages = decode_messages(
      parsed(R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": [
          {"type": "mcp_tool_use", "id": "c1", "name": "f", "server_name": "a", "input": {}}]})" +
             decided),
      {.servers = &allowed_servers()});
  const auto in_chat = decode_chat_completion(
      parsed(R"({"model": "m", "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"type": "function", "id": "c1",
          "function": {"name": "f", "arguments": "{}"}}]})" +
             decided));
  ASSERT_FALSE(in_messages);
  ASSERT_FALSE(in_chat);
  for (const ApiError* const error : {&in_messages.error(), &in_chat.error()}) {
    EXPECT_EQ(error->param, "tenon.approvals.c9");
    EXPECT_EQ(error->code, "invalid_value");
    EXPECT_NE(error->message.find("tenon.approvals.c9 decides on a call that no message has"),
              std::string::npos)
        << error->message;
  }
}

}  // namespace
}  // namespace tenon::api
