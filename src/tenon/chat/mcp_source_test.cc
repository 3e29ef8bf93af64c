#include "tenon/chat/mcp_source.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/log.h"

namespace tenon::chat {
namespace {

// The result of its tool is how often it was started; the tool "die" ends it.
constexpr std::string_view kServer = R"PY(
import json, os, sys
starts = 0
if os.path.exists(sys.argv[1]): starts = len(open(sys.argv[1]).read())
open(sys.argv[1], "a").write("x")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, params = message["method"], message.get("params", {})
    if method == "server/discover":
        print(json.dumps({"id": message["id"], "error": {"code": -32601}}), flush=True)
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "instructions": "Say it slowly."}
    elif method == "tools/list":
        result = {"tools": [{"name": "die"}, {"name": "say%d" % starts, "inputSchema":
                  {"type": "object", "properties": {"n": {"type": "integer"}}}}]}
    elif params["name"] == "die": sys.exit(1)
    else: result = {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
)PY";

TEST(McpSource, tool_calling_IsStartedAgainWhenItHasEnded) {
  const std::string starts = testing::TempDir() + "/mcp_source_test_starts";
  (void)std::remove(starts.c_str());
  Toolbox tools;
  tools.add(mcp_source(
      {.name = "s", .command = {"python3", "-I", "-S", "-c", std::string(kServer), starts}}));
  const auto names = [&tools] {
    std::string all;
    const ToolSet now = tools.tools();
    for (const message::Tool& tool : now.list()) all += tool.name + " ";
    return all;
  };
  const auto call = [&tools](std::string name, std::string arguments) {
    return tools.run(tools.known_tools(), {{"1", std::move(name), std::move(arguments)}})[0];
  };
  EXPECT_EQ(names(), "die say0 ");
  EXPECT_EQ(call("say0", R"({"n": 3})").output, R"({"n": 3})");
  EXPECT_TRUE(call("say0", R"({"n": "3"})").is_error) << "its schema says so";
  const auto died = call("die", "");
  EXPECT_TRUE(died.is_error);
  EXPECT_NE(died.output.find("exit status 1"), std::string::npos) << died.output;
  EXPECT_EQ(names(), "die say0 ") << "it was not called since";
  EXPECT_EQ(call("say0", "{}").output, "{}");
  EXPECT_EQ(names(), "die say1 ");
  EXPECT_NE(tools.tools().instructions().find("<server_notes server=\"s\">\nSay it slowly.\n"),
            std::string::npos);
}

TEST(McpSource, tool_calling_HasTheToolsThatItsConfigurationWants) {
  const std::string starts = testing::TempDir() + "/mcp_source_test_wanted";
  (void)std::remove(starts.c_str());
  static std::string logged;
  logged.clear();
  log::set_sink([](log::Level, std::string_view line) { logged += line; }, log::Level::warn);
  const auto source =
      mcp_source({.name = "s",
                  .command = {"python3", "-I", "-S", "-c", std::string(kServer), starts},
                  .without_tools = {"die", "dye"}});
  const auto tools = source->tools({});
  log::set_sink(nullptr, log::Level::info);
  ASSERT_TRUE(tools) << tools.error().message;
  ASSERT_EQ(tools->size(), 1U);
  EXPECT_EQ((*tools)[0].name, "say0");
  const std::string why =
      "the server has no such tool, though disabledTools or excludeTools names it";
  EXPECT_EQ(logged, "s: \"dye\": " + why);
  const std::vector<std::pair<std::string, std::string>> left_out = {{"dye", why}};
  EXPECT_EQ(source->left_out(), left_out);
}

std::size_t size_of(const std::string& path) {
  std::ifstream file(path, std::ios::ate);
  return file ? static_cast<std::size_t>(file.tellg()) : 0;
}

TEST(McpSource, IsNotStartedAgainAtOnce) {
  const std::string starts = testing::TempDir() + "/mcp_source_test_failures";
  (void)std::remove(starts.c_str());
  const auto source =
      mcp_source({.name = "s", .command = {"sh", "-c", "printf x >>\"$0\"; exit 7", starts}});
  const auto first = source->tools({});
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::unavailable);
  const auto second = source->tools({});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), first.error());
  EXPECT_EQ(size_of(starts), 2U) << "once more, without the question that it may not know";
}

TEST(McpSource, NobodyWaitsLongerThanItWantsWhileItConnects) {
  const auto source = mcp_source({.name = "s", .command = {"sleep", "100"}});
  const CancelToken cancel;
  std::thread connects([&] {
    const auto tools = source->tools({.cancel = cancel});
    ASSERT_FALSE(tools);
    EXPECT_EQ(tools.error().code, Errc::unavailable);
  });
  const auto begun = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(source->version(), 0U);
  const auto called = source->call("f", {}, {.deadline = begun + std::chrono::milliseconds(300)});
  EXPECT_FALSE(called);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  cancel.cancel();
  connects.join();
}

}  // namespace
}  // namespace tenon::chat
