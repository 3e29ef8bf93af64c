#include "tenon/mcp/tool_server.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
      .run = [](const json::Object& arguments, const CallWatch& watch) -> Expected<Outcome> {
        watch.tell(1, "half");
        if (arguments.empty()) {
          return Unexpected(Error{Errc::invalid, "say something"});
        }
        return structured(arguments);
      }};
  return {{.name = "t", .title = "T", .version = "1", .instructions = "Be brief."},
          {.tools = {echo}}};
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
     R"({"jsonrpc":"2.0","id":9,"result":{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{}},"serverInfo":{"name":"t","title":"T","version":"1"},"instructions":"Be brief.","resultType":"complete","ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"t","title":"T","version":"1"}}}})"},
    {"ModernWithAnotherRevision",
     R"({"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}})",
     R"({"jsonrpc":"2.0","id":9,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2027-01-01"}}})"},
    {"ARevisionOfBeforeInMeta",
     R"({"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}})",
     R"({"jsonrpc":"2.0","id":9,"error":{"code":-32022,"message":"Unsupported protocol version: 2025-11-25: its clients begin with initialize and do not name it in _meta","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2025-11-25"}}})"},
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
      {"RevisionOfBeforeBesideModernMeta",
       {{"MCP-Protocol-Version", "2025-11-25"}, lists},
       request("tools/list", meta),
       400,
       "-32020"},
      {"RevisionOfBeforeBesideModernMetaInAList",
       {{"MCP-Protocol-Version", "2025-03-26"}},
       "[" + request("tools/list", meta) + "]",
       400,
       "-32600"},
      {"RevisionOfBeforeInMeta",
       {{"MCP-Protocol-Version", "2025-11-25"}, lists},
       request("tools/list", R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"})"),
       400,
       "-32022"},
      {"RemovedMethod", {modern, {"Mcp-Method", "ping"}}, request("ping", meta), 404, "-32601"},
      {"UnknownMethod", {modern, {"Mcp-Method", "x/y"}}, request("x/y", meta), 404, "-32601"},
      {"AList", {modern, lists}, "[" + request("tools/list", meta) + "]", 400, "-32600"},
      {"NoJson", {}, "{", 400, "-32700"},
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
    // An error says which request it answers, where one could be read.
    if (code != nullptr && row.body.starts_with("{\"")) {
      EXPECT_EQ(*answer->find("id"), json::Value(7)) << row.name;
    }
  }
}

// A server with one of everything. `guess` asks for a name, then for a colour.
ToolServer full_server() {
  const auto form = [](std::string key) {
    return InputRequest{.key = std::move(key), .method = "elicitation/create", .params = {}};
  };
  OfferedTool guess{
      .name = "guess",
      .title = "Guess",
      .description = "Asks.",
      .input_schema = json::Object{{"type", "object"}},
      .run = [form](const json::Object&, const CallWatch& watch) -> Expected<Outcome> {
        watch.log("debug", "begun");
        watch.log("warning", "asking");
        if (watch.state == json::Value("named")) {
          const json::Value* const color = watch.answers.find("color");
          if (color != nullptr) return content({text_block(json::to_string(*color))});
        } else if (!watch.answers.contains("name")) {
          return Outcome{.needs = {form("name")}};
        }
        return Outcome{.needs = {form("color")}, .state = "named"};
      },
      .takes_long = true};
  OfferedPrompt greet{
      .name = "greet",
      .title = "Greet",
      .description = "Greets.",
      .arguments = {{.name = "who", .description = "Whom"}},
      .run = [](const json::Object& arguments, const CallWatch&) -> Expected<Outcome> {
        const std::string who = *arguments.find("who")->if_string();
        if (who == "nobody") return Unexpected(Error{Errc::invalid, "there is nobody"});
        return Outcome{.result = {{"messages", json::Array{who}}}};
      }};
  const auto read = [](const std::string& uri, const json::Object& values,
                       const CallWatch&) -> Expected<Outcome> {
    return Outcome{.result = {{"contents", json::Array{uri, json::Value(values)}}}};
  };
  return {{.name = "t", .title = "T", .version = "1"},
          {.tools = {guess},
           .prompts = {greet},
           .resources =
               {{.uri = "a://b", .name = "B", .description = "b", .mime_type = "x/y", .read = read},
                {.uri = "a://{c}/d",
                 .name = "D",
                 .description = "d",
                 .mime_type = "x/y",
                 .read = read}},
           .complete =
               [](const json::Value&, std::string_view argument, std::string_view typed) {
                 return std::vector<std::string>(150, std::string(argument) + std::string(typed));
               },
           .logs = true,
           .keeps_sessions = true}};
}

struct FullRow {
  std::string_view name;
  std::string_view method;
  std::string params;       // without _meta
  std::string_view before;  // the result or the error of revision 2025-11-25, without a session
  std::string_view modern;  // of 2026-07-28; members that every result has are left out
};

const FullRow kFull[] = {
    {"Prompts", "prompts/list", "",
     R"({"prompts":[{"name":"greet","title":"Greet","description":"Greets.","arguments":[{"name":"who","description":"Whom","required":true}]}]})",
     R"({"prompts":[{"name":"greet","title":"Greet","description":"Greets.","arguments":[{"name":"who","description":"Whom","required":true}]}],"ttlMs":3600000,"cacheScope":"public"})"},
    {"Prompt", "prompts/get", R"("name":"greet","arguments":{"who":"you"})",
     R"({"messages":["you"]})", R"({"messages":["you"]})"},
    {"PromptThatFails", "prompts/get", R"("name":"greet","arguments":{"who":"nobody"})",
     R"({"code":-32603,"message":"there is nobody"})",
     R"({"code":-32603,"message":"there is nobody"})"},
    {"PromptWithoutAnArgument", "prompts/get", R"("name":"greet")",
     R"({"code":-32602,"message":"the argument who is missing"})",
     R"({"code":-32602,"message":"the argument who is missing"})"},
    {"ArgumentThatIsNoText", "prompts/get", R"("name":"greet","arguments":{"who":7})",
     R"({"code":-32602,"message":"the argument who is not a text"})",
     R"({"code":-32602,"message":"the argument who is not a text"})"},
    {"UnknownPrompt", "prompts/get", R"("name":"x")",
     R"({"code":-32602,"message":"Unknown prompt: x"})",
     R"({"code":-32602,"message":"Unknown prompt: x"})"},
    {"Resources", "resources/list", "",
     R"({"resources":[{"uri":"a://b","name":"B","description":"b","mimeType":"x/y"}]})",
     R"({"resources":[{"uri":"a://b","name":"B","description":"b","mimeType":"x/y"}],"ttlMs":3600000,"cacheScope":"public"})"},
    {"Templates", "resources/templates/list", "",
     R"({"resourceTemplates":[{"uriTemplate":"a://{c}/d","name":"D","description":"d","mimeType":"x/y"}]})",
     R"({"resourceTemplates":[{"uriTemplate":"a://{c}/d","name":"D","description":"d","mimeType":"x/y"}],"ttlMs":3600000,"cacheScope":"public"})"},
    {"Resource", "resources/read", R"("uri":"a://b")", R"({"contents":["a://b",{}]})",
     R"({"contents":["a://b",{}],"ttlMs":0,"cacheScope":"private"})"},
    {"ResourceOfATemplate", "resources/read", R"("uri":"a://7/d")",
     R"({"contents":["a://7/d",{"c":"7"}]})",
     R"({"contents":["a://7/d",{"c":"7"}],"ttlMs":0,"cacheScope":"private"})"},
    {"UnknownResource", "resources/read", R"("uri":"a://x")",
     R"({"code":-32002,"message":"Resource not found","data":{"uri":"a://x"}})",
     R"({"code":-32602,"message":"Resource not found","data":{"uri":"a://x"}})"},
    {"CompletionOfNothing", "completion/complete", R"("ref":7)",
     R"({"code":-32602,"message":"a completion has ref and argument, both objects"})",
     R"({"code":-32602,"message":"a completion has ref and argument, both objects"})"},
    {"AskedWithoutASession", "tools/call", R"("name":"guess")",
     R"({"content":[{"type":"text","text":"this client cannot be asked for what is needed"}],"isError":true})",
     R"({"code":-32021,"message":"The client must have declared: elicitation","data":{"requiredCapabilities":{"elicitation":{}}}})"},
    {"SessionMethodWithoutASession", "logging/setLevel", R"("level":"debug")",
     R"({"code":-32601,"message":"Method not found"})",
     R"({"code":-32601,"message":"Method not found"})"},
};

std::string request_of(std::string_view method, const std::string& params) {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method) + R"(","params":{)" +
         params + "}}";
}

// The result or the error, without what each result of 2026-07-28 has.
std::string outcome_in(const std::optional<std::string>& answer) {
  auto read = json::parse(answer.value_or("{}"));
  const json::Value* const result = read->find("result");
  if (result == nullptr) return json::to_string(*read->find("error"));
  json::Object members = *result->if_object();
  if (members.contains("_meta")) members.erase("resultType");
  members.erase("_meta");
  return json::to_string(json::Value(members));
}

TEST(ToolServer, OffersPromptsAndResourcesInBothEras) {
  const ToolServer server = full_server();
  for (const FullRow& row : kFull) {
    EXPECT_EQ(outcome_in(server.answer_text(request_of(row.method, row.params))), row.before)
        << row.name;
    const std::string modern = row.params + (row.params.empty() ? "" : ",") + std::string(kMeta);
    EXPECT_EQ(outcome_in(server.answer_text(request_of(row.method, modern))), row.modern)
        << row.name;
  }
}

TEST(ToolServer, CompletesABoundedNumber) {
  const auto answer = json::parse(*full_server().answer_text(
      request_of("completion/complete",
                 R"("ref":{"type":"ref/prompt"},"argument":{"name":"a","value":"b"})")));
  const json::Value* const completion = json::at_pointer(*answer, "/result/completion");
  EXPECT_EQ(completion->find("values")->if_array()->size(), 100U);
  EXPECT_EQ(*json::at_pointer(*completion, "/values/0"), json::Value("ab"));
  EXPECT_EQ(*completion->find("total"), json::Value(150));
  EXPECT_EQ(*completion->find("hasMore"), json::Value(true));
}

// A client of a session that answers each question by its method's turn, and keeps what it is told.
struct AnsweringClient {
  std::shared_ptr<ClientSession> session;
  std::vector<std::string> questions{};
  std::vector<std::string> logs{};

  [[nodiscard]] Caller caller() {
    return {.send =
                [this](const json::Value& message) {
                  const json::Value* const id = message.find("id");
                  if (id == nullptr) {
                    logs.push_back(*json::at_pointer(message, "/params/data")->if_string());
                    return;
                  }
                  questions.push_back(*message.find("method")->if_string());
                  session->take_answer(json::Object{
                      {"id", *id},
                      {"result", json::Object{{"turn", static_cast<int>(questions.size())}}}});
                },
            .session = session};
  }
};

TEST(ToolServer, AsksAClientOfASessionByRequests) {
  const ToolServer server = full_server();
  AnsweringClient client{.session = server.open_session()};
  const std::string guess = request_of("tools/call", R"("name":"guess")");
  EXPECT_EQ(outcome_in(server.answer_text(guess, client.caller())),
            R"({"content":[{"type":"text","text":"the client must have declared: elicitation"}],)"
            R"("isError":true})");
  (void)server.answer_text(
      request_of("initialize",
                 R"("capabilities":{"elicitation":{}},"protocolVersion":"2025-11-25")"),
      client.caller());
  client.logs.clear();
  EXPECT_EQ(outcome_in(server.answer_text(guess, client.caller())),
            R"({"content":[{"type":"text","text":"{\"turn\":2}"}],"isError":false})");
  EXPECT_EQ(client.questions,
            (std::vector<std::string>{"elicitation/create", "elicitation/create"}));
  EXPECT_EQ(client.logs, std::vector<std::string>(3, "asking"));  // "debug" is below "info"
  EXPECT_EQ(outcome_in(server.answer_text(request_of("logging/setLevel", R"("level":"debug")"),
                                          client.caller())),
            "{}");
  client.logs.clear();
  (void)server.answer_text(guess, client.caller());
  EXPECT_EQ(client.logs.size(), 6U);
  EXPECT_EQ(outcome_in(server.answer_text(request_of("logging/setLevel", R"("level":"loud")"),
                                          client.caller())),
            R"({"code":-32602,"message":"level is one from debug to emergency"})");
}

TEST(ToolServer, AsksAModernClientByResults) {
  const ToolServer server = full_server();
  const std::string able = R"(,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
                           R"("io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}})";
  const auto call = [&](const std::string& more) {
    return outcome_in(
        server.answer_text(request_of("tools/call", R"("name":"guess")" + more + able)));
  };
  constexpr std::string_view kAsksForAName =
      R"({"inputRequests":{"name":{"method":"elicitation/create","params":{}}}})";
  EXPECT_EQ(call(""), kAsksForAName);
  EXPECT_EQ(call(R"(,"inputResponses":{"other":{}})"), kAsksForAName);
  EXPECT_EQ(call(R"(,"inputResponses":{"name":7})"), kAsksForAName);
  EXPECT_EQ(call(R"(,"inputResponses":null)"),
            R"({"code":-32602,"message":"inputResponses is an object"})");
  const auto second = json::parse(call(R"(,"inputResponses":{"name":{}})"));
  EXPECT_NE(json::at_pointer(*second, "/inputRequests/color"), nullptr);
  const std::string state = json::to_string(*second->find("requestState"));
  EXPECT_EQ(call(R"(,"inputResponses":{"color":{"a":1}},"requestState":)" + state),
            R"({"content":[{"type":"text","text":"{\"a\":1}"}],"isError":false})");
  constexpr std::string_view kRefused =
      R"({"code":-32602,"message":"requestState is not what this server gave for this request, or )"
      R"(is too old: send the request again without it"})";
  EXPECT_EQ(call(R"(,"requestState":"x")"), kRefused);
  EXPECT_EQ(call(R"(,"requestState":7)"), kRefused);
  EXPECT_EQ(call(R"(,"arguments":{"b":2},"requestState":)" + state), kRefused);
}

TEST(ToolServer, KeepsSessionsOverPosts) {
  const ToolServer server = full_server();
  const auto post = [&](const std::string& session, const std::string& body) {
    std::vector<http::Header> headers;
    if (!session.empty()) headers.push_back({"Mcp-Session-Id", session});
    return server.answer_post({.method = "POST", .headers = headers, .body = body});
  };
  const std::string lists = request_of("tools/list", "");
  EXPECT_EQ(post("", lists).status, 400U);
  EXPECT_EQ(post("none", lists).status, 404U);
  const http::Response begun = post("", request_of("initialize", R"("capabilities":{})"));
  const std::string id(http::find_header(begun.headers, "mcp-session-id"));
  ASSERT_FALSE(id.empty());
  EXPECT_EQ(post(id, lists).status, 200U);
  const auto subscribe = [&](const std::string& uri) {
    return post(id, request_of("resources/subscribe", R"("uri":")" + uri + R"(")")).body;
  };
  EXPECT_EQ(outcome_in(subscribe("a://x")), R"({"code":-32002,"message":"Resource not found"})");
  EXPECT_EQ(outcome_in(subscribe("a://b")), "{}");
  const http::Request named{.method = "DELETE", .headers = {{"Mcp-Session-Id", id}}, .body = ""};
  std::vector<std::string> told;
  server.session_of(named)->set_listener([&](const json::Value& message) {
    told.push_back(*json::at_pointer(message, "/params/uri")->if_string());
  });
  server.resource_updated("a://b");
  server.resource_updated("a://7/d");
  EXPECT_EQ(told, std::vector<std::string>{"a://b"});
  EXPECT_TRUE(server.long_call({.method = "POST",
                                .headers = {{"Mcp-Session-Id", id}},
                                .body = request_of("tools/call", R"("name":"guess")")}));
  EXPECT_FALSE(server.long_call(
      {.method = "POST", .headers = {}, .body = request_of("tools/call", R"("name":"guess")")}));
  EXPECT_TRUE(server.end_session_of(named));
  EXPECT_EQ(post(id, lists).status, 404U);
}

TEST(ToolServer, RefusesModernPostsWithoutAnAbility) {
  OfferedTool asks{.name = "asks",
                   .title = "",
                   .description = "",
                   .input_schema = json::Object{{"type", "object"}},
                   .run = [](const json::Object&, const CallWatch&) -> Expected<Outcome> {
                     return Outcome{.needs = {{.key = "a", .method = "roots/list", .params = {}}}};
                   }};
  const ToolServer server({.name = "t", .title = "T", .version = "1"}, {.tools = {asks}});
  const std::string params =
      R"("name":"asks","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
      R"("io.modelcontextprotocol/clientCapabilities":{}})";
  EXPECT_EQ(server
                .answer_post({.method = "POST",
                              .headers = {{"MCP-Protocol-Version", "2026-07-28"},
                                          {"Mcp-Method", "tools/call"},
                                          {"Mcp-Name", "asks"}},
                              .body = request_of("tools/call", params)})
                .status,
            400U);
}

TEST(ToolServer, KnowsItsRevisions) {
  EXPECT_TRUE(ToolServer::knows_revision("2026-07-28"));
  EXPECT_TRUE(ToolServer::knows_revision("2024-11-05"));
  EXPECT_FALSE(ToolServer::knows_revision("2023-01-01"));
}

}  // namespace
}  // namespace tenon::mcp
