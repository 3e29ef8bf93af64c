#include "tenon/mcp/tool_server.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

ToolServer echo_server() {
  OfferedTool echo{
      .name = "echo",
      .title = "Echo",
      .description = "Says what it is told.",
      .input_schema = json::Object{{"type", "object"}},
      .run = [](const json::Object& arguments, const CallWatch& watch) -> Expected<json::Object> {
        watch.tell(1, "half");
        if (arguments.empty()) {
          return Unexpected(Error{Errc::invalid, "say something"});
        }
        return arguments;
      }};
  return {{.name = "t", .title = "T", .version = "1", .instructions = "Be brief."}, {echo}};
}

constexpr std::string_view kMeta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"})";

struct ServedRow {
  std::string_view name;
  std::string message;
  std::string_view answer;  // "": none
};

const ServedRow kServed[] = {
    {"Initialize",
     R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})",
     R"({"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}},"serverInfo":{"name":"t","title":"T","version":"1"},"instructions":"Be brief.","protocolVersion":"2025-06-18"}})"},
    {"InitializeWithAnUnknownRevision",
     R"({"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1999"}})",
     R"({"jsonrpc":"2.0","id":"a","result":{"capabilities":{"tools":{}},"serverInfo":{"name":"t","title":"T","version":"1"},"instructions":"Be brief.","protocolVersion":"2025-11-25"}})"},
    {"Notification", R"({"jsonrpc":"2.0","method":"notifications/initialized"})", ""},
    {"AnAnswer", R"({"jsonrpc":"2.0","id":1,"result":{}})", ""},
    {"Ping", R"({"jsonrpc":"2.0","id":2,"method":"ping"})",
     R"({"jsonrpc":"2.0","id":2,"result":{}})"},
    {"List", R"({"jsonrpc":"2.0","id":3,"method":"tools/list"})",
     R"({"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"echo","title":"Echo","description":"Says what it is told.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"openWorldHint":false}}]}})"},
    {"Call",
     R"({"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}})",
     R"({"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"isError":false}})"},
    {"CallThatFails", R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo"}})",
     R"({"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"say something"}],"isError":true}})"},
    {"CallOfNoTool", R"({"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"x"}})",
     R"({"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"Unknown tool: x"}})"},
    {"ArgumentsThatAreNone",
     R"({"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":[]}})",
     R"({"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"text","text":"arguments must be an object"}],"isError":true}})"},
    {"UnknownMethod", R"({"jsonrpc":"2.0","id":7,"method":"prompts/list"})",
     R"({"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}})"},
    {"Modern",
     R"({"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},)" +
         std::string(kMeta) + "}}",
     R"({"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"isError":false,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"t","title":"T","version":"1"}}}})"},
    {"Discover",
     R"({"jsonrpc":"2.0","id":9,"method":"server/discover","params":{)" + std::string(kMeta) + "}}",
     R"({"jsonrpc":"2.0","id":9,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"t","title":"T","version":"1"},"instructions":"Be brief.","resultType":"complete","ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"t","title":"T","version":"1"}}}})"},
    {"ModernWithAnotherRevision",
     R"({"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}})",
     R"({"jsonrpc":"2.0","id":9,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2027-01-01"}}})"},
    {"SeveralAtOnce",
     R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"id":2,"method":"ping"}])",
     R"([{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}])"},
    {"NoMethod", R"({"jsonrpc":"2.0","id":1})",
     R"({"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a request has a method"}})"},
    {"IdThatIsNone", R"({"jsonrpc":"2.0","id":{},"method":"ping"})",
     R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an id is a text or a number"}})"},
    {"ParamsThatAreNone", R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})",
     R"({"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params is an object"}})"},
    {"NoObject", "5",
     R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is an object"}})"},
    {"NoMessages", "[]",
     R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a list has 1 to 64 messages"}})"},
};

TEST(ToolServer, AnswersClientsOfBothEras) {
  const ToolServer server = echo_server();
  for (const ServedRow& row : kServed) {
    EXPECT_EQ(server.answer_text(row.message).value_or(""), row.answer) << row.name;
  }
}

TEST(ToolServer, AnswersWhatIsNotJson) {
  const ToolServer server = echo_server();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("\xff"), std::string(100'000, '[')}) {
    const auto answer = json::parse(server.answer_text(text).value_or(""));
    ASSERT_TRUE(answer);
    EXPECT_EQ(*json::at_pointer(*answer, "/error/code"), json::Value(-32700));
  }
}

struct PostRow {
  std::string_view name;
  std::vector<http::Header> headers;
  std::string body;
  unsigned status;
  std::string_view code;  // of the error; "": the answer is a result
};

TEST(ToolServer, AnswersPostsOfBothEras) {
  const std::string meta = R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
                           R"("io.modelcontextprotocol/clientCapabilities":{}})";
  const auto request = [](std::string_view method, const std::string& params) {
    return R"({"jsonrpc":"2.0","id":7,"method":")" + std::string(method) + R"(","params":{)" +
           params + "}}";
  };
  const http::Header modern{"MCP-Protocol-Version", "2026-07-28"};
  const http::Header lists{"Mcp-Method", "tools/list"};
  const http::Header calls{"Mcp-Method", "tools/call"};
  const std::string call = request("tools/call", R"("name":"echo","arguments":{"a":1},)" + meta);
  const PostRow rows[] = {
      {"Before", {}, request("tools/list", ""), 200, ""},
      {"BeforeWithItsRevision",
       {{"MCP-Protocol-Version", "2025-11-25"}},
       request("ping", ""),
       200,
       ""},
      {"Modern", {modern, lists}, request("tools/list", meta), 200, ""},
      {"ModernCall", {modern, calls, {"Mcp-Name", "echo"}}, call, 200, ""},
      {"NameInTheFormForUnsafeTexts",
       {modern, calls, {"Mcp-Name", "=?base64?ZWNobw==?="}},
       call,
       200,
       ""},
      {"AnotherName", {modern, calls, {"Mcp-Name", "wrong"}}, call, 400, "-32020"},
      {"NoName", {modern, calls}, call, 400, "-32020"},
      {"NoMethod", {modern}, request("tools/list", meta), 400, "-32020"},
      {"AnotherMethod", {modern, calls}, request("tools/list", meta), 400, "-32020"},
      {"NoMeta", {modern, lists}, request("tools/list", ""), 400, "-32602"},
      {"NoRevisionHeader", {lists}, request("tools/list", meta), 400, "-32020"},
      {"UnknownRevision",
       {{"MCP-Protocol-Version", "2099-01-01"}, lists},
       request("tools/list", ""),
       400,
       "-32022"},
      {"RemovedMethod", {modern, {"Mcp-Method", "ping"}}, request("ping", meta), 404, "-32601"},
      {"UnknownMethod", {modern, {"Mcp-Method", "x/y"}}, request("x/y", meta), 404, "-32601"},
      {"AList", {modern, lists}, "[" + request("tools/list", meta) + "]", 400, "-32600"},
      {"Notification",
       {modern, {"Mcp-Method", "n"}},
       R"({"jsonrpc":"2.0","method":"n","params":{)" + meta + "}}",
       202,
       ""},
  };
  const ToolServer server = echo_server();
  for (const PostRow& row : rows) {
    const http::Response response =
        server.answer_post({.method = "POST", .headers = row.headers, .body = row.body});
    EXPECT_EQ(response.status, row.status) << row.name << " " << response.body;
    const auto answer = json::parse(response.body);
    const json::Value* const code = answer ? json::at_pointer(*answer, "/error/code") : nullptr;
    EXPECT_EQ(code == nullptr ? "" : json::to_string(*code), row.code) << row.name;
    // An error says which request it answers.
    if (code != nullptr && row.name != "AList") {
      EXPECT_EQ(*answer->find("id"), json::Value(7)) << row.name;
    }
  }
}

TEST(ToolServer, KnowsItsRevisions) {
  EXPECT_TRUE(ToolServer::knows_revision("2026-07-28"));
  EXPECT_TRUE(ToolServer::knows_revision("2024-11-05"));
  EXPECT_FALSE(ToolServer::knows_revision("2023-01-01"));
}

}  // namespace
}  // namespace tenon::mcp
