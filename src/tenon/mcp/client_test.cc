#include "tenon/mcp/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/fake_server_for_test.h"

namespace tenon::mcp {
namespace {

using std::chrono::milliseconds;

milliseconds in(int count) {
  return milliseconds(count);
}

std::chrono::steady_clock::time_point after(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A server whose answers a test writes: `answer(method, params, id)` gives the result, or None.
constexpr std::string_view kServer = R"PY(
import json, sys, time, os
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def tell(method, **params):
    say({"jsonrpc": "2.0", "method": method, "params": params})
TOOLS = [{"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}}]
def initialize(params):
    return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"}}
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    if method == "tools/list": return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
def on_other(message): pass
%s
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        result = answer(message["method"], message.get("params"), message["id"])
        if result is not None: say({"jsonrpc": "2.0", "id": message["id"], "result": result})
    else:
        on_other(message)
)PY";

ServerConfig server(std::string_view changes = "") {
  std::string script(kServer);
  script.replace(script.find("%s"), 2, changes);
  return {.name = "test", .command = {"python3", "-I", "-S", "-c", script}};
}

const ClientOptions kSmall{
    .list_timeout = milliseconds(20'000), .max_message_bytes = 100'000, .max_tools = 10};

std::unique_ptr<Client> connect(std::string_view changes) {
  auto client = Client::connect(server(changes), kSmall);
  EXPECT_TRUE(client) << client.error().message;
  return client ? *std::move(client) : nullptr;
}

TEST(Client, tool_calling_ListsToolsAndCallsThem) {
  const auto client = connect("");
  ASSERT_NE(client, nullptr);
  const auto tools = client->list_tools({});
  ASSERT_TRUE(tools) << tools.error().message;
  ASSERT_EQ(tools->size(), 1U);
  EXPECT_EQ((*tools)[0].name, "echo");
  EXPECT_EQ((*tools)[0].description, "Says it again");
  EXPECT_EQ(json::to_string((*tools)[0].input_schema), R"({"type":"object"})");
  const auto result = client->call_tool("echo", {{"a", "ä"}, {"n", 1}}, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, R"({"a": "\u00e4", "n": 1})");
  EXPECT_FALSE(result->is_error);
  EXPECT_TRUE(client->is_open());
}

TEST(Client, tool_calling_ReadsWhatAModelCanRead) {
  struct Row {
    const char* name;
    std::string_view result;  // in Python
    std::string_view text;
    bool is_error = false;
  };
  const Row rows[] = {
      {"Texts", R"({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})",
       "a\nb"},
      {"Error", R"({"content": [{"type": "text", "text": "no"}], "isError": True})", "no", true},
      {"Structured", R"({"content": [], "structuredContent": {"a": [1]}})", R"({"a":[1]})"},
      {"TextOfStructured",
       R"({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}})", "one"},
      {"Picture",
       R"({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAABBBB"}]})",
       "[image, image/png, 6 bytes: not shown]"},
      {"Link", R"({"content": [{"type": "resource_link", "name": "n", "uri": "file:///n"}]})",
       "[n: file:///n]"},
      {"Resource",
       R"({"content": [{"type": "resource", "resource": {"uri": "file:///n", "text": "inside"}}]})",
       "inside"},
      {"Blob", R"({"content": [{"type": "resource", "resource": {"uri": "u", "blob": "AAAA"}}]})",
       "[resource, unknown type, 3 bytes: not shown]"},
      {"Nothing", "{}", ""},
      {"Odd", R"({"content": [1, None, {"type": 5}], "isError": "yes"})",
       "[content, unknown type, 0 bytes: not shown]\n[content, unknown type, 0 bytes: not "
       "shown]\n[content, unknown type, 0 bytes: not shown]"},
  };
  std::string changes = "ROWS = {";
  for (const Row& row : rows) {
    changes += "'" + std::string(row.name) + "': " + std::string(row.result) + ", ";
  }
  changes +=
      "}\ndef answer(method, params, id):\n"
      "    if method == 'initialize': return initialize(params)\n"
      "    return ROWS[params['name']]\n";
  const auto client = connect(changes);
  ASSERT_NE(client, nullptr);
  for (const Row& row : rows) {
    const auto result = client->call_tool(row.name, {}, {});
    ASSERT_TRUE(result) << row.name << ": " << result.error().message;
    EXPECT_EQ(result->text, row.text) << row.name;
    EXPECT_EQ(result->is_error, row.is_error) << row.name;
  }
}

TEST(Client, tool_calling_ReadsAllPages) {
  const auto client = connect(R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    page = int(params.get("cursor", "0"))
    result = {"tools": [{"name": "t%d" % page, "title": "T"}]}
    if page < 4: result["nextCursor"] = str(page + 1)
    return result
)PY");
  ASSERT_NE(client, nullptr);
  const auto tools = client->list_tools({});
  ASSERT_TRUE(tools) << tools.error().message;
  ASSERT_EQ(tools->size(), 5U);
  EXPECT_EQ((*tools)[4].name, "t4");
  EXPECT_EQ((*tools)[4].description, "T");
  EXPECT_TRUE((*tools)[4].input_schema.is_null());
}

TEST(Client, IsNotFooledByAServer) {
  struct Row {
    const char* name;
    std::string_view changes;
    Errc code;
    std::string_view told;
  };
  const Row rows[] = {
      {"EndlessPages", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    return {"tools": [], "nextCursor": str(id)}
)PY",
       Errc::limit_exceeded, "100 pages"},
      {"SamePage", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    return {"tools": [], "nextCursor": "x"}
)PY",
       Errc::invalid, "same page"},
      {"TooManyTools", "TOOLS = [{'name': 'a'}] * 11", Errc::limit_exceeded, "10 tools"},
      {"ToolsAreNone", "TOOLS = 5", Errc::invalid, "an array"},
      {"ToolWithoutName", "TOOLS = [{}]", Errc::invalid, "no name"},
      {"LargeMessage", "TOOLS = 'a' * 200000", Errc::unavailable, "more than 100000 bytes"},
      {"EndlessLine", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    while True: sys.stdout.write("a" * 4096)
)PY",
       Errc::unavailable, "more than 100000 bytes"},
      {"OnlyNoise", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    while True: sys.stdout.write("noise\n")
)PY",
       Errc::unavailable, "no messages"},
      {"Dies", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    sys.stderr.write("out of cheese"); sys.exit(7)
)PY",
       Errc::unavailable, "test has ended, exit status 7$"},
      {"ManyLargePages", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    return {"tools": [{"name": "t", "description": "a" * 60000}], "nextCursor": str(id)}
)PY",
       Errc::limit_exceeded, "tools of more than 100000 bytes"},
      {"RefusesAtLength", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no" * 40000}})
)PY",
       Errc::unavailable, "nono...$"},
      {"Refuses", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "not today"}})
)PY",
       Errc::unavailable, "not today"},
      {"RefusesWithoutWords", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    say({"id": id, "error": None})
)PY",
       Errc::unavailable, "without words"},
      {"NoResult", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    say({"id": id})
)PY",
       Errc::invalid, "without a result"},
  };
  for (const Row& row : rows) {
    const auto client = connect(row.changes);
    ASSERT_NE(client, nullptr) << row.name;
    const auto tools = client->list_tools({});
    ASSERT_FALSE(tools) << row.name;
    EXPECT_EQ(tools.error().code, row.code) << row.name << ": " << tools.error().message;
    // With a $ it is the end.
    const std::string message = tools.error().message + "$";
    EXPECT_NE(message.find(row.told), std::string::npos) << row.name << ": " << message;
    EXPECT_LT(message.size(), 5000U) << row.name;
  }
}

TEST(Client, GoesOnWhateverElseTheServerSays) {
  const auto client = connect(R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    print("a line of a log"); print(""); print("[]"); print("5")
    say({"jsonrpc": "2.0", "id": 999, "result": {}})
    say({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "1"}})
    say({"jsonrpc": "2.0", "id": "x", "result": {}})
    sys.stdout.flush(); sys.stdout.buffer.write(b'{"id": 2, "result": "\xff"}\n')
    say({"jsonrpc": "2.0", "id": None, "error": {}})
    say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    say({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}})
    tell("notifications/progress"); tell("notifications/progress", progressToken=77, progress=1)
    tell("unheard/of"); print('{"method": 5}'); print('{"a":' * 500)
    say([{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}])
    first, second = (json.loads(sys.stdin.readline()) for _ in range(2))
    result = {"tools": [{"name": json.dumps([first, second])}]}
    say({"jsonrpc": "2.0", "id": id, "result": result})
    return {"tools": []}
)PY");
  ASSERT_NE(client, nullptr);
  const auto tools = client->list_tools({});
  ASSERT_TRUE(tools) << tools.error().message;
  ASSERT_EQ(tools->size(), 1U);
  EXPECT_EQ((*tools)[0].name,
            R"([{"jsonrpc": "2.0", "id": "p", "result": {}}, {"jsonrpc": "2.0", "id": "s", )"
            R"("error": {"code": -32601, "message": "not supported"}}])");
}

TEST(Client, AServerThatLogsToItsOutputLivesWhileItAnswers) {
  const auto client = connect(R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    for i in range(600): print("a line of a log")
    return {"content": []}
)PY");
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client->call_tool("f", {}, {})) << i;
}

TEST(Client, ListsAndConnectionsEndInTime) {
  const CancelToken cancelled;
  cancelled.cancel();
  const auto begun = std::chrono::steady_clock::now();
  const CallOptions limits[] = {{.deadline = after(in(50))}, {.cancel = cancelled}};
  for (const CallOptions& limit : limits) {
    EXPECT_FALSE(Client::connect({.name = "s", .command = {"sleep", "100"}}, kSmall, limit));
  }
  const auto client = connect(
      "def answer(method, params, id):\n"
      "    if method == 'initialize': return initialize(params)\n");
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(client->list_tools({.deadline = after(in(50))}));
  EXPECT_FALSE(client->list_tools({.cancel = cancelled}));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, in(15'000));
}

TEST(Client, tool_calling_CallsEndInTimeAndTheServerIsTold) {
  const auto client = connect(R"PY(
told = []
def on_other(message): told.append(message)
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    if params["name"] == "told":
        return {"content": [{"type": "text", "text": json.dumps(told[1:])}]}
)PY");
  ASSERT_NE(client, nullptr);
  const auto late = client->call_tool("slow", {}, {.deadline = after(in(50))});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::limit_exceeded);
  const CancelToken cancel;
  std::thread canceller([cancel] {
    std::this_thread::sleep_for(in(30));
    cancel.cancel();
  });
  const auto cancelled = client->call_tool("slow", {}, {.cancel = cancel});
  canceller.join();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::unavailable);
  const auto told = client->call_tool("told", {}, {});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(
      told->text,
      R"([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, )"
      R"("reason": "nobody waits for it any more"}}, {"jsonrpc": "2.0", "method": )"
      R"("notifications/cancelled", "params": {"requestId": 3, "reason": "nobody waits for )"
      R"(it any more"}}])");
}

TEST(Client, tool_calling_TellsProgressAndChanges) {
  const auto client = connect(R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    token = params["_meta"]["progressToken"]
    for i in range(3):
        tell("notifications/progress", progressToken=token, progress=i, total=3, message="m%d" % i)
    tell("notifications/progress", progressToken=token, progress=3, message="m" * 50000)
    tell("notifications/tools/list_changed")
    return {"content": []}
)PY");
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->tools_version(), 0U);
  std::string seen;
  const auto result = client->call_tool(
      "f", {}, {.on_progress = [&](const Progress& progress) {
        seen += progress.message + "/" +
                std::to_string(static_cast<int>(progress.total.value_or(0))) + " ";
      }});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(client->tools_version(), 1U);
  EXPECT_EQ(seen, "m0/3 m1/3 m2/3 " + std::string(4096, 'm') + ".../0 ");
}

TEST(Client, tool_calling_SeveralCallsAreUnderWayAtATime) {
  const auto client = connect(R"PY(
waiting = []
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    waiting.append((id, params["arguments"]["n"]))
    if len(waiting) == 4:
        for id, n in reversed(waiting):
            say({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": str(n)}]}})
)PY");
  ASSERT_NE(client, nullptr);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&client, i] {
      const auto result = client->call_tool("f", {{"n", i}}, {.deadline = after(in(20'000))});
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_EQ(result->text, std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Client, TellsWhyThereIsNoConnection) {
  struct Row {
    const char* name;
    ServerConfig server;
    Errc code;
    std::string_view told;
  };
  const Row rows[] = {
      {"NoProgram", {.name = "s", .command = {"/nowhere"}}, Errc::unavailable, "cannot start"},
      {"EndsAtOnce",
       {.name = "s", .command = {"sh", "-c", "echo why >&2; exit 2"}},
       Errc::unavailable,
       "exit status 2; it said: why"},
      {"SaysNothing",
       {.name = "s", .command = {"sleep", "100"}},
       Errc::limit_exceeded,
       "initialize in time"},
      {"OtherVersion", server("def initialize(params): return {'protocolVersion': '1999-01-01'}"),
       Errc::unsupported, "1999-01-01"},
      {"NoVersion", server("def initialize(params): return {}"), Errc::unsupported, "none"},
      {"NobodyListens", {.name = "s", .url = "http://127.0.0.1:1/mcp"}, Errc::unavailable, ""},
  };
  for (const Row& row : rows) {
    ClientOptions options = kSmall;
    if (row.code == Errc::limit_exceeded) options.connect_timeout = in(100);
    const auto client = Client::connect(row.server, options);
    ASSERT_FALSE(client) << row.name;
    EXPECT_EQ(client.error().code, row.code) << row.name << ": " << client.error().message;
    EXPECT_NE(client.error().message.find(row.told), std::string::npos)
        << row.name << ": " << client.error().message;
  }
}

TEST(Client, KnowsAServerWithoutTools) {
  const auto client = connect(
      "def initialize(params): return {'protocolVersion': '2024-11-05', 'capabilities': {}}");
  ASSERT_NE(client, nullptr);
  const auto tools = client->list_tools({});
  ASSERT_TRUE(tools);
  EXPECT_TRUE(tools->empty());
}

// What comes to an address, and what it answers: one connection each.
std::string reply(std::string_view body, std::string_view more = "",
                  std::string_view status = "200 OK", std::string_view type = "application/json") {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nConnection: close\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
constexpr std::string_view kHello =
    R"({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}})";

TEST(Client, tool_calling_SpeaksOverHttp) {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::string answer = R"({"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t"}]}})";
  std::string type = "application/json";
  std::string status = "200 OK";
  http::FakeServer fake([&](int connection, int) {
    const std::string request = http::read_request(connection);
    const std::lock_guard lock(mutex);
    asked.push_back(request);
    if (request.find("\"initialize\"") != std::string::npos) {
      http::say(connection, reply(kHello, "Mcp-Session-Id: s1\r\n"));
    } else if (request.starts_with("GET")) {
      http::say(connection, reply("", "", "405 Method Not Allowed"));
    } else if (request.find("\"id\":") == std::string::npos) {
      http::say(connection, reply("", "", "202 Accepted"));
    } else {
      http::say(connection, reply(answer, "", status, type));
    }
  });
  {
    const auto client = Client::connect(
        {.name = "far", .url = fake.url(), .headers = {{"Authorization", "Bearer x"}}}, kSmall);
    ASSERT_TRUE(client) << client.error().message;
    const auto tools = (*client)->list_tools({});
    ASSERT_TRUE(tools) << tools.error().message;
    EXPECT_EQ((*tools)[0].name, "t");
    struct Row {
      std::string_view answer;
      std::string_view type;
      std::string_view status;
      std::string_view text;  // of the result, or of the failure
      bool fails = true;
    };
    const Row rows[] = {
        {"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"
         "data: {\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\n\n",
         "text/event-stream", "200 OK", "hi", false},
        {"data: {\"id\":77,\"result\":{}}\n\n", "text/event-stream", "200 OK",
         "far ended without an answer"},
        {"data: {\n\n", "text/event-stream", "200 OK", "sent no message"},
        {"<html>", "text/html", "200 OK", "sent no message"},
        {"", "text/plain", "307 Temporary Redirect\r\nLocation: https://x/y",
         "status 307: its url is https://x/y"},
        {"oh no", "text/plain", "500 Internal Server Error", "status 500: oh no"},
        {"", "text/plain", "401 Unauthorized", "need an Authorization"},
        {"", "text/plain", "404 Not Found",
         "has forgotten the session and ran nothing: call again"},
    };
    for (const Row& row : rows) {
      {
        const std::lock_guard lock(mutex);
        answer = row.answer;
        type = row.type;
        status = row.status;
      }
      const auto result = (*client)->call_tool("t", {}, {.deadline = after(in(20'000))});
      EXPECT_EQ(result.has_value(), !row.fails) << row.answer;
      const std::string text = result ? result->text : result.error().message;
      EXPECT_NE(text.find(row.text), std::string::npos) << text;
    }
    EXPECT_EQ((*client)->tools_version(), 1U);
    EXPECT_FALSE((*client)->is_open());
  }
  const std::lock_guard lock(mutex);
  ASSERT_GE(asked.size(), 4U);
  EXPECT_EQ(asked[0].find("Mcp-Session-Id"), std::string::npos);
  EXPECT_NE(asked[0].find("Authorization: Bearer x"), std::string::npos);
  EXPECT_NE(asked[1].find("notifications/initialized"), std::string::npos) << "before all else";
  EXPECT_NE(asked[1].find("MCP-Protocol-Version: 2025-06-18"), std::string::npos);
  EXPECT_NE(asked[1].find("Mcp-Session-Id: s1"), std::string::npos);
  EXPECT_EQ(std::ranges::count_if(asked, [](const auto& one) { return one.starts_with("GET"); }), 1)
      << "405 is an answer for good";
  EXPECT_TRUE(asked.back().starts_with("DELETE"));
  EXPECT_NE(asked.back().find("MCP-Protocol-Version: 2025-06-18"), std::string::npos);
  EXPECT_NE(asked.back().find("Mcp-Session-Id: s1"), std::string::npos);
}

TEST(Client, ListensAgainWhenAServerHasEndedItsStream) {
  std::atomic<int> streams = 0;
  http::FakeServer fake([&](int connection, int) {
    const std::string request = http::read_request(connection);
    if (request.find("\"initialize\"") != std::string::npos) {
      http::say(connection, reply(kHello));
    } else if (request.starts_with("GET")) {
      const std::string changed =
          "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
      ++streams;
      http::say(connection, reply(changed, "", "200 OK", "text/event-stream"));
    } else if (request.find("\"id\":") == std::string::npos) {
      http::say(connection, reply("", "", "202 Accepted"));
    } else {
      const std::size_t id = request.find("\"id\":") + 5;
      http::say(connection, reply("{\"id\":" + request.substr(id, request.find(',', id) - id) +
                                  ",\"result\":{\"content\":[]}}"));
    }
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto client = Client::connect({.name = "far", .url = fake.url()}, kSmall);
  ASSERT_TRUE(client) << client.error().message;
  const auto latest = after(in(20'000));
  while ((*client)->tools_version() < 2 && std::chrono::steady_clock::now() < latest) {
    const auto result = (*client)->call_tool("t", {}, {.deadline = latest});
    ASSERT_TRUE(result) << result.error().message;
    std::this_thread::sleep_for(in(20));
  }
  EXPECT_GE((*client)->tools_version(), 2U);
  EXPECT_LE(streams, 1 + (std::chrono::steady_clock::now() - begun) / std::chrono::seconds(1))
      << "not more often than once a second";
}

TEST(Client, ACallOfAnAddressThatHangsEndsInTime) {
  std::atomic<bool> may_go = false;
  http::FakeServer fake([&](int connection, int number) {
    const std::string request = http::read_request(connection);
    if (number == 0) {
      http::say(connection, reply(kHello));
    } else if (request.starts_with("GET")) {
      http::say(connection, reply("", "", "405 Method Not Allowed"));
    } else if (request.find("tools/call") == std::string::npos) {
      http::say(connection, reply("", "", "202 Accepted"));
    } else {
      while (!may_go) std::this_thread::sleep_for(in(1));
    }
  });
  const auto client = Client::connect({.name = "far", .url = fake.url()}, kSmall);
  ASSERT_TRUE(client) << client.error().message;
  const auto late = (*client)->call_tool("t", {}, {.deadline = after(in(50))});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::limit_exceeded) << late.error().message;
  EXPECT_TRUE((*client)->is_open());
  may_go = true;
}

}  // namespace
}  // namespace tenon::mcp
