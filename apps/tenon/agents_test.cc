#include "agents.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::app {
namespace {

// A model's name with what shells and JSON care for.
const Served kServed{.server = "http://127.0.0.1:8080",
                     .model = R"(a "b" \c$d)",
                     .key = "secret",
                     .context = 4096,
                     .folder = "/state"};

TEST(Agents, GetWhatTheyNeedAndNothingElse) {
  for (const AgentRow& agent : agents()) {
    SCOPED_TRACE(agent.name);
    EXPECT_EQ(find_agent(agent.name), &agent);
    const Launch launch = launch_of(agent, kServed, {});
    std::string all;
    for (const std::string& word : launch.command) all += word + "\n";
    // Other users of the machine see the command, but not the environment.
    EXPECT_EQ(all.find("secret"), all.npos);
    for (const auto& [name, value] : launch.environment) all += value + "\n";
    const bool is_told_of_file =
        all.find("/state/" + std::string(agent.file_name)) != all.npos || agent.name == "llm";
    EXPECT_TRUE(agent.file_name.empty() || is_told_of_file) << all;
    all += launch.file;
    EXPECT_EQ(all.find("${"), all.npos);
    for (const char* const part : {"http://127.0.0.1:8080", "secret"}) {
      EXPECT_NE(all.find(part), all.npos) << part;
    }
    const bool has_name =
        all.find(kServed.model) != all.npos || all.find(R"(a \"b\" \\c$d)") != all.npos;
    EXPECT_TRUE(has_name) << all;
    EXPECT_EQ(launch.command.front(), agent.program);
  }
  EXPECT_EQ(find_agent("nobody"), nullptr);
}

TEST(Agents, TakeTheUsersArgumentsLast) {
  const std::vector<std::string> arguments{"exec", "--json", "${model}"};
  const Launch launch = launch_of(*find_agent("codex"), kServed, arguments);
  ASSERT_GT(launch.command.size(), 3U);
  EXPECT_TRUE(std::equal(arguments.rbegin(), arguments.rend(), launch.command.rbegin()));
}

TEST(Agents, FilesHoldJson) {
  for (const char* const name : {"continue", "cline", "llm"}) {
    const Launch launch = launch_of(*find_agent(name), kServed, {});
    EXPECT_TRUE(json::parse(launch.file)) << launch.file;
  }
}

TEST(Agents, OpencodeGetsJson) {
  const Launch launch = launch_of(*find_agent("opencode"), kServed, {});
  const auto config = json::parse(launch.environment.front().second);
  ASSERT_TRUE(config) << launch.environment.front().second;
  EXPECT_EQ(*config->find("model")->if_string(), "tenon/" + kServed.model);
}

}  // namespace
}  // namespace tenon::app
