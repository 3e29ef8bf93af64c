#include "tenon/mcp/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/log.h"
#include "tenon/http/fake_server_for_test.h"
#include "tenon/mcp/transport.h"

namespace tenon::mcp {
namespace {

using std::chrono::milliseconds;

milliseconds in(int count) {
  return milliseconds(count);
}

std::chrono::steady_clock::time_point after(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A server whose answers the test writes: `answer(method, params, id)` returns the result, or None.
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
discovers = False
%s
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "server/discover" and not discovers:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
    elif "method" in message and "id" in message:
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
      {"Nothing", "{}", "the server gave a result without content; the tool may have run", true},
      {"ContentIsNull", R"({"content": None})",
       "the server gave a result without content; the tool may have run", true},
      {"Void", R"({"content": []})", ""},
      {"Odd", R"({"content": [1, None, {"type": 5}], "isError": "yes"})", "1\nnull\n{\"type\":5}"},
      {"OddType", R"({"content": [{"type": "json", "json": {"a": 1}}]})",
       R"({"type":"json","json":{"a":1}})"},
      {"OddText", R"({"content": [{"type": "text", "text": 5}]})", R"({"type":"text","text":5})"},
      {"Words", R"({"content": "plain words"})", "plain words"},
      {"OneBlock", R"({"content": {"type": "text", "text": "alone"}})", "alone"},
      {"WordsInAList", R"({"content": ["a", "b"]})", "a\nb"},
      {"ContentIsANumber", R"({"content": 5})", "5"},
      {"NoContent", R"({"toolResult": {"v": 5}})", R"({"toolResult":{"v":5}})"},
      {"EmptyContent", R"({"content": [], "text": "seven", "_meta": {"a": 1}})",
       R"({"text":"seven"})"},
      {"FailsWithoutWords", R"({"content": [], "isError": True})", "", true},
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
  EXPECT_EQ((*tools)[4].title, "T");
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
      {"ToolsAreNone", "TOOLS = 5", Errc::invalid, "an array"},
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
    // A $ matches the end.
    const std::string message = tools.error().message + "$";
    EXPECT_NE(message.find(row.told), std::string::npos) << row.name << ": " << message;
    EXPECT_LT(message.size(), 5000U) << row.name;
  }
}

TEST(Client, tool_calling_ABadToolOrPageTakesOnlyItself) {
  struct Row {
    const char* name;
    std::string_view page;  // of tools/list, in Python: n is the page's number
    std::string_view tools;
    std::string_view warned;
  };
  const Row rows[] = {
      {"NoName", "{'tools': [{'description': 'd'}, {'name': 'a'}]}", "a", "it has no name"},
      {"EmptyName", "{'tools': [{'name': ''}, {'name': 'a'}]}", "a", "it has no name"},
      {"NameIsNone", "{'tools': [{'name': 5}, {'name': 'a'}]}", "a", "it has no name"},
      {"NoTool", "{'tools': ['x', None, 5, [], {'name': 'a'}]}", "a", "it has no name"},
      {"NoSchema", "{'tools': [{'name': 'x', 'inputSchema': False}, {'name': 'a'}]}", "a",
       "\"x\" is left out: its inputSchema is no object"},
      {"Twice", "{'tools': [{'name': 'a'}, {'name': 'b'}, {'name': 'a'}]}", "a b",
       "\"a\" is left out: a tool before it"},
      {"SamePage", "{'tools': [{'name': 'a'}], 'nextCursor': 'x'}", "a", "same page"},
      {"EmptyCursor", "{'tools': [{'name': 'a'}], 'nextCursor': ''}", "a", "same page"},
      {"EmptyCursorOnce",
       "[{'tools': [{'name': 'a'}], 'nextCursor': ''}, "
       "{'tools': [{'name': 'b'}]}][n]",
       "a b", ""},
      {"PagesInTurn", "{'tools': [{'name': 't%d' % (n % 2)}], 'nextCursor': str(n % 2)}", "t0 t1",
       "same page"},
      {"CursorIsNone", "{'tools': [{'name': 'a'}], 'nextCursor': None}", "a", ""},
      {"EndlessPages", "{'tools': [{'name': 'a'}], 'nextCursor': str(n)}", "a", "100 pages"},
      {"EndlessEmptyPages", "{'tools': [], 'nextCursor': str(n)}", "", "100 pages"},
      {"SecondPageFails", "[{'tools': [{'name': 'a'}], 'nextCursor': 'x'}, 5][n]", "a",
       "ends after 1: test: tools must be an array"},
      {"TooManyTools", "{'tools': [{'name': 'a%d' % i} for i in range(12)]}",
       "a0 a1 a2 a3 a4 a5 a6 a7 a8 a9", "more than 10 tools"},
      {"ManyLargePages",
       "{'tools': [{'name': 't%d' % n, 'description': 'a' * 60000}], 'nextCursor': str(n)}", "t0",
       "tools of more than 100000 bytes"},
  };
  for (const Row& row : rows) {
    const auto client = connect(
        "n = -1\n"
        "def answer(method, params, id):\n"
        "    global n\n"
        "    if method == 'initialize': return initialize(params)\n"
        "    n += 1\n"
        "    return " +
        std::string(row.page) + "\n");
    ASSERT_NE(client, nullptr) << row.name;
    static std::string logged;
    logged.clear();
    log::set_sink([](log::Level, std::string_view line) { logged += line; }, log::Level::warn);
    const auto tools = client->list_tools({});
    log::set_sink(nullptr, log::Level::info);
    ASSERT_TRUE(tools) << row.name << ": " << tools.error().message;
    std::string names;
    for (const Tool& tool : *tools) names += (names.empty() ? "" : " ") + tool.name;
    EXPECT_EQ(names, row.tools) << row.name;
    EXPECT_EQ(logged.empty(), row.warned.empty()) << row.name << ": " << logged;
    EXPECT_NE(logged.find(row.warned), std::string::npos) << row.name << ": " << logged;
  }
}

TEST(Client, tool_calling_WhatIsLeftOutIsTold) {
  const auto client = connect(R"PY(
TOOLS = [{"description": "d"}, {"name": "a"}, {"name": "x", "inputSchema": False}, {"name": "a"}]
)PY");
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->left_out().empty()) << "nothing was listed so far";
  ASSERT_TRUE(client->list_tools({}));
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"", "it has no name"},
      {"x", "its inputSchema is no object"},
      {"a", "a tool before it in the list has the same name"}};
  EXPECT_EQ(client->left_out(), wanted);
}

TEST(Client, tool_calling_OnlyTheFirstThatAreLeftOutAreTold) {
  const auto client = connect("TOOLS = [{\"name\": \"a\"}] + [1] * 5000 + [{\"name\": \"b\"}]");
  ASSERT_NE(client, nullptr);
  const auto tools = client->list_tools({});
  ASSERT_TRUE(tools) << tools.error().message;
  EXPECT_EQ(tools->size(), 2U);
  ASSERT_EQ(client->left_out().size(), 100U);
  EXPECT_EQ(client->left_out().back().second, "it has no name; further ones are not told");
}

// A caller does not wait for an answer that cannot be read until its time is over.
TEST(Client, tool_calling_AnAnswerIsReadOrFailsAtOnce) {
  struct Row {
    const char* name;
    std::string_view write;  // statement of Python that writes the answer to the request `id`
    std::string_view text;   // of the result; of a failure with a '!' before it
  };
  const Row rows[] = {
      {"HalfAPair", R"(out('{"id":%d,"result":{"content":"nine \\ud83d lives"}}' % id))",
       "nine \xEF\xBF\xBD lives"},
      {"LowHalf", R"(out('{"id":%d,"result":{"content":"\\udc00x"}}' % id))", "\xEF\xBF\xBDx"},
      {"TwoHighHalves", R"(out('{"id":%d,"result":{"content":"\\ud83d\\ud83d\\ude00"}}' % id))",
       "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
      {"HalfInAKey", R"(out('{"id":%d,"result":{"content":[{"\\ud83d":1}]}}' % id))",
       "{\"\xEF\xBF\xBD\":1}"},
      {"EscapedBackslash", R"(out('{"id":%d,"result":{"content":"\\\\ud83d \\udc00"}}' % id))",
       "\\ud83d \xEF\xBF\xBD"},
      {"NaN", R"(out('{"id":%d,"result":{"content":[],"structuredContent":{"v":NaN}}}' % id))",
       "!cannot be read"},
      {"Python", R"(out(str({"jsonrpc": "2.0", "id": id, "result": {"content": [None]}})))",
       "!cannot be read"},
      {"SeveralOnALine", R"(out('{"id":%d,"result":{}}{"id":7,"result":{}}' % id))",
       "!cannot be read"},
      {"NewlineInAString", R"(out('{"jsonrpc":"2.0","id":%d,"result":{"content":"a\nb"}}' % id))",
       "!cannot be read"},
      {"ByteOrderMark", R"(raw(b'\xef\xbb\xbf{"id":%d,"result":{"content":"nine"}}\n' % id))",
       "nine"},
      {"TooDeep", R"(out('{"id":%d,"result":{"content":%s}}' % (id, "[" * 500 + "]" * 500)))",
       "!cannot be read"},
      {"IdBehindIt", R"(out('{"result":{"content":[-Infinity]},"id":%d}' % id))",
       "!cannot be read"},
      {"NoId", R"(out('{"jsonrpc":"2.0","result":{"content":[{"type":"te'))", "!cannot be read"},
      {"NoUtf8", R"(raw(b'{"id":%d,"result":{"content":"caf\xff"}}\n' % id))", "!cannot be read"},
      {"HalfAnObject",
       R"(out('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text"' % id))",
       "!cannot be read"},
      {"StringId", R"(out('{"id":"%d","result":{"content":"eight"}}' % id))", "eight"},
      {"FloatId", R"(out('{"id":%d.0,"result":{"content":"eight"}}' % id))", "eight"},
      {"ErrorOfAStringId", R"(out('{"id":"%d","error":{"code":1,"message":"no"}}' % id))", "!no"},
      {"NullError", R"(out('{"id":%d,"error":null,"result":{"content":"fine"}}' % id))", "fine"},
      {"SeveralLines",
       R"(raw(json.dumps({"id": id, "result": {"content": ["a\n{", "b"]}}, indent=2).encode() + b"\n"))",
       "a\n{\nb"},
      {"NoObject", R"(out('{"id":%d,"result":"words"}' % id))",
       "!must be an object, and is \"words\""},
  };
  std::string script =
      "def out(text): print(text, flush=True)\n"
      "def raw(data): sys.stdout.buffer.write(data); sys.stdout.flush()\n"
      "def answer(method, params, id):\n"
      "    if method == 'initialize': return initialize(params)\n";
  for (const Row& row : rows) {
    script += "    if params['name'] == '" + std::string(row.name) +
              "': " + std::string(row.write) + "\n";
  }
  const auto client = connect(script);
  ASSERT_NE(client, nullptr);
  for (const Row& row : rows) {
    const auto begun = std::chrono::steady_clock::now();
    const auto result = client->call_tool(row.name, {}, {.deadline = after(in(20'000))});
    EXPECT_LT(std::chrono::steady_clock::now() - begun, in(10'000)) << row.name;
    if (row.text[0] != '!') {
      ASSERT_TRUE(result) << row.name << ": " << result.error().message;
      EXPECT_EQ(result->text, row.text) << row.name;
    } else {
      ASSERT_FALSE(result) << row.name << ": " << result->text;
      EXPECT_NE(result.error().message.find(row.text.substr(1)), std::string::npos)
          << row.name << ": " << result.error().message;
      EXPECT_FALSE(result.error().ran_nothing) << row.name;
    }
  }
  EXPECT_TRUE(client->is_open());
}

// How servers of each era answer `server/discover`.
TEST(Client, FindsOutWhichEraAServerIsFrom) {
  struct Row {
    const char* name;
    std::string_view changes;
    std::string_view revision;  // the revision, or after a '!' why there is no connection
  };
  const std::string_view kModernServer = R"PY(
def answer(method, params, id):
    meta = params["_meta"]
    if meta["io.modelcontextprotocol/protocolVersion"] != "2026-07-28": sys.exit(3)
    if meta["io.modelcontextprotocol/clientCapabilities"] != {}: sys.exit(4)
    if method == "server/discover":
        return {"resultType": "complete", "supportedVersions": ["2027-01-01", "2026-07-28"],
                "capabilities": {"tools": {}}, "instructions": "Be kind."}
    if method == "tools/list": return {"resultType": "complete", "tools": TOOLS}
)PY";
  const Row rows[] = {
      {"Modern", kModernServer, "2026-07-28"},
      {"KnowsNoSuchMethod", R"PY(
def answer(method, params, id):
    if method == "initialize": return dict(initialize(params), instructions="Be kind.")
    if method == "tools/list": return {"tools": TOOLS}
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
)PY",
       "2025-11-25"},
      {"EndsAtIt", R"PY(
def answer(method, params, id):
    if method == "server/discover": sys.exit(1)
    if method == "initialize": return dict(initialize(params), instructions="Be kind.")
    return {"tools": TOOLS}
)PY",
       "2025-11-25"},
      {"IsSilent", R"PY(
def answer(method, params, id):
    if method == "initialize":
        return dict(initialize({"protocolVersion": "2025-03-26"}), instructions="Be kind.")
    if method == "tools/list": return {"tools": TOOLS}
)PY",
       "2025-03-26"},
      {"AnswersAnything", R"PY(
def answer(method, params, id):
    if method == "initialize": return dict(initialize(params), instructions="Be kind.")
    return {"tools": TOOLS}
)PY",
       "2025-11-25"},
      {"BeginsLate", R"PY(
time.sleep(0.5)
def answer(method, params, id):
    if method == "initialize":
        return say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
    if method == "tools/list": return {"tools": TOOLS}
    return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "instructions": "Be kind."}
)PY",
       "2026-07-28"},
      {"OldVersionsOnly", R"PY(
def answer(method, params, id):
    if method == "initialize": return dict(initialize(params), instructions="Be kind.")
    if method == "tools/list": return {"tools": TOOLS}
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "Unsupported",
         "data": {"supported": ["2025-11-25"]}}})
)PY",
       "2025-11-25"},
      {"NewerVersionsOnly", R"PY(
def answer(method, params, id):
    if method == "initialize": return initialize(params)
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "Only 2030-01-01",
         "data": {"supported": ["2030-01-01"]}}})
)PY",
       "!Only 2030-01-01"},
      {"ListsNoneOfOurs", R"PY(
def answer(method, params, id):
    return {"supportedVersions": ["2030-01-01"], "capabilities": {}}
)PY",
       "!2030-01-01"},
  };
  for (const Row& row : rows) {
    ClientOptions options = kSmall;
    const bool is_late =
        row.name == std::string_view("IsSilent") || row.name == std::string_view("BeginsLate");
    options.discover_timeout = in(is_late ? 300 : 20'000);
    const auto client =
        Client::connect(server("discovers = True" + std::string(row.changes)), options);
    if (row.revision[0] == '!') {
      ASSERT_FALSE(client) << row.name;
      EXPECT_NE(client.error().message.find(row.revision.substr(1)), std::string::npos)
          << row.name << ": " << client.error().message;
      continue;
    }
    ASSERT_TRUE(client) << row.name << ": " << client.error().message;
    EXPECT_EQ((*client)->revision(), row.revision) << row.name;
    EXPECT_EQ((*client)->has_handshake(), row.revision != "2026-07-28") << row.name;
    EXPECT_EQ((*client)->instructions(), "Be kind.") << row.name;
    const auto tools = (*client)->list_tools({});
    ASSERT_TRUE(tools) << row.name << ": " << tools.error().message;
    EXPECT_EQ(tools->size(), 1U) << row.name;
  }
}

TEST(Client, tool_calling_AnswersWhatAServerNeedsToKnow) {
  const auto client = connect(R"PY(
discovers = True
def answer(method, params, id):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if params["name"] == "endless": return {"resultType": "input_required", "requestState": "s"}
    if params["name"] == "odd": return {"resultType": "dream"}
    if "requestState" not in params:
        return {"resultType": "input_required", "requestState": "s1", "inputRequests": {
            "who": {"method": "elicitation/create", "params": {"message": "Your name?"}},
            "where": {"method": "roots/list"}, "think": {"method": "sampling/createMessage"}}}
    said = [params["requestState"], params["inputResponses"], params["arguments"],
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"]]
    return {"resultType": "complete", "content": [{"type": "text", "text": json.dumps(said)}]}
)PY");
  ASSERT_NE(client, nullptr);
  const auto declined = client->call_tool("ask", {{"n", 1}}, {});
  ASSERT_TRUE(declined) << declined.error().message;
  EXPECT_EQ(declined->text, R"(["s1", {"who": {"action": "decline"}, "where": {"roots": []}, )"
                            R"("think": {"action": "decline"}}, {"n": 1}, {}])");
  CallOptions options;
  options.on_question = [](const json::Value& params) -> std::optional<json::Object> {
    EXPECT_EQ(json::to_string(params), R"({"message":"Your name?"})");
    return json::Object{{"name", "Ada"}};
  };
  const auto answered = client->call_tool("ask", {}, options);
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_NE(answered->text.find(R"("who": {"action": "accept", "content": {"name": "Ada"}})"),
            std::string::npos)
      << answered->text;
  EXPECT_NE(answered->text.find(R"({"elicitation": {"form": {}}})"), std::string::npos)
      << answered->text;
  const auto endless = client->call_tool("endless", {}, {});
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, Errc::limit_exceeded) << endless.error().message;
  const auto odd = client->call_tool("odd", {}, {});
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, Errc::unsupported) << odd.error().message;
}

TEST(Client, tool_calling_AServerWithAHandshakeAsksTheUserOfACall) {
  constexpr std::string_view kAsks = R"PY(
def initialize(params):
    global capabilities
    capabilities = params["capabilities"]
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
waiting = None
def answer(method, params, id):
    global waiting
    if method == "initialize": return initialize(params)
    waiting = id
    form = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"default": 30}}}
    ask = {"message": "Who?", "requestedSchema": form}
    if params["name"] == "link": ask = {"message": "Go", "mode": "url", "url": "https://x"}
    say({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": ask})
def on_other(message):
    if message.get("id") != "q1": return
    told = [capabilities, message.get("result"), message.get("error")]
    say({"jsonrpc": "2.0", "id": waiting,
         "result": {"content": [{"type": "text", "text": json.dumps(told)}]}})
)PY";
  ClientOptions with_user = kSmall;
  with_user.asks_user = true;
  const auto name = [](const json::Value&) { return std::optional(json::Object{{"name", "Ada"}}); };
  const auto none = [](const json::Value&) { return std::optional<json::Object>(); };
  struct Row {
    const char* tool;
    ClientOptions client;
    CallOptions call;
    std::string_view told;
  };
  const Row rows[] = {
      {"form",
       with_user,
       {.on_question = name},
       R"([{"elicitation": {"form": {}}}, {"action": "accept", "content": {"name": "Ada", "age": 30}}, null])"},
      {"form",
       with_user,
       {.on_question = none},
       R"([{"elicitation": {"form": {}}}, {"action": "decline"}, null])"},
      {"link",
       with_user,
       {.on_question = name},
       R"([{"elicitation": {"form": {}}}, {"action": "decline"}, null])"},
      {"form", with_user, {}, R"([{"elicitation": {"form": {}}}, {"action": "decline"}, null])"},
      {"form", kSmall, {}, R"([{}, null, {"code": -32601, "message": "not supported"}])"},
  };
  for (const Row& row : rows) {
    auto client = Client::connect(server(kAsks), row.client);
    ASSERT_TRUE(client) << client.error().message;
    const auto result = (*client)->call_tool(row.tool, {}, row.call);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->text, row.told);
  }
}

TEST(Client, ReadsPromptsAndResources) {
  const auto client = connect(R"PY(
discovers = True
def answer(method, params, id):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}, "resources": {}}}
    if method == "prompts/list":
        if "cursor" in params: return {"prompts": [{"name": "b"}, {"title": "no name"}]}
        return {"nextCursor": "2", "prompts": [{"name": "a", "title": "A", "arguments": [
            {"name": "x", "required": True}, {"name": "y", "description": "why"}]}]}
    if method == "resources/list":
        if "cursor" in params: return {"resources": 5}
        return {"nextCursor": "2", "resources": [{"uri": "f:///a", "name": "a", "mimeType": "text/x"}]}
    if method == "prompts/get" and "requestState" not in params:
        return {"resultType": "input_required", "requestState": "s"}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}},
            {"role": "assistant", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}}]}
    if params["uri"] == "f:///none": return {}
    return {"contents": [{"uri": "f:///a", "text": "one"}, {"uri": "f:///b", "blob": "AAAA"}]}
)PY");
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->list_tools({})->empty());
  const auto prompts = client->list_prompts({});
  ASSERT_TRUE(prompts) << prompts.error().message;
  ASSERT_EQ(prompts->size(), 2U);
  EXPECT_EQ((*prompts)[0].description, "A");
  ASSERT_EQ((*prompts)[0].arguments.size(), 2U);
  EXPECT_TRUE((*prompts)[0].arguments[0].is_required);
  EXPECT_EQ((*prompts)[0].arguments[1].description, "why");
  const auto messages = client->get_prompt("a", {{"x", "1"}}, {});
  ASSERT_TRUE(messages) << messages.error().message;
  ASSERT_EQ(messages->size(), 2U);
  EXPECT_EQ((*messages)[0].text, "a");
  EXPECT_EQ((*messages)[1].role, "assistant");
  EXPECT_EQ((*messages)[1].text, "[image, image/png, 3 bytes: not shown]");
  const auto resources = client->list_resources({});
  ASSERT_TRUE(resources) << resources.error().message;
  ASSERT_EQ(resources->size(), 1U);  // those before the page that is broken
  EXPECT_EQ((*resources)[0].mime_type, "text/x");
  const auto text = client->read_resource("f:///a", {});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "one\n[resource, unknown type, 3 bytes: not shown]");
  EXPECT_FALSE(client->read_resource("f:///none", {}));
  const auto without = connect("");
  ASSERT_NE(without, nullptr);
  EXPECT_TRUE(without->list_prompts({})->empty());
  EXPECT_TRUE(without->list_resources({})->empty());
}

TEST(Client, AsksForToolsAgainAsServersSay) {
  const auto client = connect(R"PY(
discovers = True
import threading
def answer(method, params, id):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
    if method == "subscriptions/listen":
        tell("notifications/subscriptions/acknowledged", notifications=params["notifications"])
        threading.Timer(0.2, lambda: tell("notifications/tools/list_changed")).start()
        return None
    return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "public"}
)PY");
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->list_tools({}));
  for (int i = 0; i < 20'000 && client->tools_version() == 0; ++i) {
    std::this_thread::sleep_for(in(1));
  }
  EXPECT_EQ(client->tools_version(), 1U) << "ttlMs has its least";
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
      R"([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3, )"
      R"("reason": "the client no longer waits for it"}}, {"jsonrpc": "2.0", "method": )"
      R"("notifications/cancelled", "params": {"requestId": 4, "reason": "the client )"
      R"(no longer waits for it"}}])");
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
      {"SaysSeveralLines",
       {.name = "s",
        .command = {"sh", "-c", "printf 'Trace:\\n  line 1\\r\\n\\nno luck\\n' >&2; exit 2"}},
       Errc::unavailable,
       "exit status 2; it said: Trace:; line 1; no luck"},
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

// Records the requests to an address and answers them, one connection each.
std::string reply(std::string_view body, std::string_view more = "",
                  std::string_view status = "200 OK", std::string_view type = "application/json") {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nConnection: close\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
constexpr std::string_view kHello =
    R"({"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}})";
bool is_discover(std::string_view request) {
  return request.find("server/discover") != request.npos;
}

TEST(Client, tool_calling_SpeaksOverHttp) {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::string answer = R"({"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"t"}]}})";
  std::string type = "application/json";
  std::string status = "200 OK";
  http::FakeServer fake([&](int connection, int) {
    const std::string request = http::read_request(connection);
    if (is_discover(request)) {
      http::say(connection, reply("no session", "", "400 Bad Request"));
      return;
    }
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
         "data: {\"id\":4,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\n\n",
         "text/event-stream", "200 OK", "hi", false},
        {"data: {\"id\":77,\"result\":{}}\n\n", "text/event-stream", "200 OK",
         "far ended without an answer"},
        {"data: {\n\n", "text/event-stream", "200 OK", "sent no message"},
        {"<html>", "text/html", "200 OK", "sent no message"},
        {"", "text/plain", "307 Temporary Redirect\r\nLocation: https://x/y",
         "status 307: its url is https://x/y"},
        {"oh no", "text/plain", "500 Internal Server Error", "status 500: oh no"},
        {"", "text/plain", "401 Unauthorized", "need another Authorization"},
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
    if (is_discover(request)) {
      http::say(connection, reply("", "", "404 Not Found"));
    } else if (request.find("\"initialize\"") != std::string::npos) {
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
      http::say(connection, reply("", "", "405 Method Not Allowed"));
    } else if (number == 1) {
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

// The id of a request.
std::string id_of(const std::string& request) {
  const std::size_t id = request.find("\"id\":") + 5;
  return request.substr(id, request.find(',', id) - id);
}

TEST(Client, tool_calling_SpeaksOverHttpWithoutAHandshake) {
  std::mutex mutex;
  std::vector<std::string> asked;
  int mismatches = 1;
  http::FakeServer fake([&](int connection, int) {
    const std::string request = http::read_request(connection);
    const std::lock_guard lock(mutex);
    asked.push_back(request);
    const auto has = [&request](std::string_view text) {
      return request.find(text) != request.npos;
    };
    const std::string head = R"({"jsonrpc":"2.0","id":)" + id_of(request);
    if (is_discover(request)) {
      http::say(connection, reply(head + R"(,"result":{"supportedVersions":["2026-07-28"],)"
                                         R"("capabilities":{"tools":{}}}})",
                                  "Mcp-Session-Id: none\r\n"));
    } else if (has("tools/list")) {
      http::say(connection,
                reply(head + R"(,"result":{"tools":[{"name":"bad","inputSchema":{"properties":)"
                             R"({"x":{"type":"number","x-mcp-header":"X"}}}},{"name":"n ä",)"
                             R"("inputSchema":{"type":"object","properties":{"a":{"type":"string",)"
                             R"("x-mcp-header":"A"},"o":{"type":"object","properties":{"i":)"
                             R"({"type":"integer","x-mcp-header":"I"}}},"b":{"type":"boolean",)"
                             R"("x-mcp-header":"B"},"none":{"type":"string","x-mcp-header":"N"},)"
                             R"("null":{"type":"string","x-mcp-header":"Null"}}}}]}})"));
    } else if (mismatches-- > 0) {
      http::say(connection,
                reply(R"({"jsonrpc":"2.0","error":{"code":-32020,"message":"Header mismatch"}})",
                      "", "400 Bad Request"));
    } else if (has("\"refused\"")) {
      http::say(connection, reply(head + R"(,"error":{"code":-32601,"message":"no such thing"}})",
                                  "", "404 Not Found"));
    } else {
      http::say(connection, reply(head + R"(,"result":{"content":"done"}})"));
    }
  });
  {
    const auto client = Client::connect({.name = "far", .url = fake.url()}, kSmall);
    ASSERT_TRUE(client) << client.error().message;
    EXPECT_EQ((*client)->revision(), "2026-07-28");
    const auto tools = (*client)->list_tools({});
    ASSERT_TRUE(tools) << tools.error().message;
    ASSERT_EQ(tools->size(), 1U) << "one whose headers are wrong is no tool";
    EXPECT_EQ((*tools)[0].headers.size(), 5U);
    const json::Object arguments{
        {"a", " padded "}, {"o", json::Object{{"i", 42}}}, {"b", true}, {"null", nullptr}};
    const auto done = (*client)->call_tool("n ä", arguments, {.deadline = after(in(20'000))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text, "done");
    EXPECT_EQ((*client)->tools_version(), 1U) << "after a mismatch the tools may be others";
    const auto refused = (*client)->call_tool("refused", {}, {.deadline = after(in(20'000))});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "far: no such thing");
    EXPECT_TRUE((*client)->is_open());
  }
  const std::lock_guard lock(mutex);
  ASSERT_EQ(asked.size(), 6U) << "nothing is listened to, and nothing said at the end";
  for (const std::string& one : asked) {
    EXPECT_TRUE(one.starts_with("POST")) << one;
    EXPECT_NE(one.find("MCP-Protocol-Version: 2026-07-28\r\n"), std::string::npos) << one;
    EXPECT_EQ(one.find("Mcp-Session-Id"), std::string::npos) << one;
  }
  EXPECT_NE(asked[0].find("Mcp-Method: server/discover\r\n"), std::string::npos);
  EXPECT_EQ(asked[0].find("Mcp-Name"), std::string::npos);
  for (const std::string_view header :
       {"Mcp-Method: tools/call", "Mcp-Name: =?base64?biDDpA==?=",
        "Mcp-Param-A: =?base64?IHBhZGRlZCA=?=", "Mcp-Param-I: 42", "Mcp-Param-B: true"}) {
    EXPECT_NE(asked[4].find(std::string(header) + "\r\n"), std::string::npos)
        << header << ": " << asked[4];
  }
  EXPECT_EQ(asked[4].find("Mcp-Param-N"), std::string::npos) << asked[4];
}

TEST(Client, tool_calling_AStreamThatBreaksOffGoesOn) {
  std::string id;
  http::FakeServer fake([&](int connection, int) {
    const std::string request = http::read_request(connection);
    if (is_discover(request)) {
      http::say(connection, reply("", "", "400 Bad Request"));
    } else if (request.find("\"initialize\"") != std::string::npos) {
      http::say(connection, reply(kHello));
    } else if (request.starts_with("GET") &&
               request.find("Last-Event-ID: e7\r\n") != request.npos) {
      http::say(connection,
                reply("id: e8\ndata: {\"id\":" + id + ",\"result\":{\"content\":\"whole\"}}\n\n",
                      "", "200 OK", "text/event-stream"));
    } else if (request.starts_with("GET")) {
      http::say(connection, reply("", "", "405 Method Not Allowed"));
    } else if (request.find("tools/call") == std::string::npos) {
      http::say(connection, reply("", "", "202 Accepted"));
    } else {
      id = id_of(request);
      http::say(connection, reply("id: e7\ndata: \n\n", "", "200 OK", "text/event-stream"));
    }
  });
  const auto client = Client::connect({.name = "far", .url = fake.url()}, kSmall);
  ASSERT_TRUE(client) << client.error().message;
  const auto result = (*client)->call_tool("t", {}, {.deadline = after(in(20'000))});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, "whole");
}

TEST(Client, KnowsASessionThatIsLost) {
  struct Row {
    std::string_view status;
    std::string_view body;
    bool ran_nothing;
  };
  const Row rows[] = {{"404 Not Found", "", true},
                      {"400 Bad Request", R"({"error":{"message":"Session not found"}})", true},
                      {"400 Bad Request", "no such tool", false},
                      {"500 Internal Server Error", "session", false}};
  for (const Row& row : rows) {
    http::FakeServer fake([&](int connection, int) {
      const std::string request = http::read_request(connection);
      if (is_discover(request)) {
        http::say(connection, reply("", "", "400 Bad Request"));
      } else if (request.find("\"initialize\"") != std::string::npos) {
        http::say(connection, reply(kHello, "Mcp-Session-Id: s1\r\n"));
      } else if (request.find("tools/call") != std::string::npos) {
        http::say(connection, reply(row.body, "", row.status));
      } else {
        http::say(connection, reply("", "", "405 Method Not Allowed"));
      }
    });
    const auto client = Client::connect({.name = "far", .url = fake.url()}, kSmall);
    ASSERT_TRUE(client) << client.error().message;
    const auto result = (*client)->call_tool("t", {}, {.deadline = after(in(20'000))});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().ran_nothing, row.ran_nothing) << row.status << row.body;
    EXPECT_EQ((*client)->is_open(), !row.ran_nothing) << row.status << row.body;
  }
}

TEST(Message, IsSeenAsFarAsItCanBe) {
  struct Row {
    std::string_view text;
    bool is_answer;
    std::int64_t id = 0;  // 0: no id was seen
  };
  const Row rows[] = {
      {R"({"jsonrpc":"2.0","id":3,"result":NaN})", true, 3},
      {R"( { "id" : "3" , "error" : {"a": [ }, )", true, 3},
      {R"({"result":{"id":7,"text":"\"}},\"id\":9"},"id":4)", true, 4},
      {R"({"jsonrpc":"2.0","id":3,"method":"ping","params":NaN})", false, 3},
      {R"({"jsonrpc":"2.0","id":3,"resu)", true, 3},
      {R"({"jsonrpc":"2.0","met)", false},
      {R"({"result":{"text":"cut)", true},
      {R"({'id': 3, 'result': 1})", true, 3},
      {R"([{"id":3,"result":NaN}])", true, 3},
      {R"({'level': 'it"s', 'id': 3})", false, 3},
      {R"({"level":"info","id":3,)", false, 3},
      {R"({"jsonrpc":"2.0","id":"x","result":NaN})", true},
      {"[1,2", false},
      {"", false},
      {"{", false},
      {"{\"a\\", false},
  };
  for (const Row& row : rows) {
    const Glance seen = glance_at(row.text);
    EXPECT_EQ(seen.is_answer, row.is_answer) << row.text;
    EXPECT_EQ(seen.id.value_or(0), row.id) << row.text;
  }
}

TEST(Message, HeadersHaveWhatIsSafe) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"us-west1", "us-west1"},
      {"Hello, \xE4\xB8\x96\xE7\x95\x8C", "=?base64?SGVsbG8sIOS4lueVjA==?="},
      {" padded ", "=?base64?IHBhZGRlZCA=?="},
      {"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
      {"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
      {"",
       "=?base64?"
       "?="},
  };
  for (const auto& [text, value] : rows) EXPECT_EQ(header_value(text), value);
}

}  // namespace
}  // namespace tenon::mcp
