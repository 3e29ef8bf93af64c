#include "tenon/mcp/servers.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

Expected<std::vector<ServerEntry>> read_entries(std::string_view servers) {
  return read_servers(*json::parse(R"({"mcpServers": )" + std::string(servers) + "}"));
}

// The servers that can be used; fails with the first fault.
Expected<std::vector<ServerConfig>> read(std::string_view servers) {
  auto entries = read_entries(servers);
  if (!entries) return Unexpected(entries.error());
  std::vector<ServerConfig> usable;
  for (ServerEntry& entry : *entries) {
    if (entry.fault) return Unexpected(*entry.fault);
    if (entry.is_usable()) usable.push_back(std::move(entry.config));
  }
  return usable;
}

TEST(ReadServers, TakesTheFileThatOthersTake) {
  ASSERT_EQ(setenv("TENON_TEST_TOKEN", "s3cret", 1), 0);
  unsetenv("TENON_TEST_NONE");
  const auto servers = read(R"({
      "files": {"command": "npx", "args": ["-y", "${TENON_TEST_NONE:-/data}"],
                "env": {"LEVEL": "a${TENON_TEST_TOKEN}b"}, "cwd": "/tmp"},
      "off": {"command": "x", "disabled": true},
      "search": {"type": "http", "url": "https://host/mcp",
                 "headers": {"Authorization": "Bearer ${TENON_TEST_TOKEN}"}}})");
  ASSERT_TRUE(servers) << servers.error().message;
  const std::vector<ServerConfig> wanted = {{.name = "files",
                                             .command = {"npx", "-y", "/data"},
                                             .environment = {"LEVEL=as3cretb"},
                                             .folder = "/tmp"},
                                            {.name = "search",
                                             .url = "https://host/mcp",
                                             .headers = {{"Authorization", "Bearer s3cret"}}}};
  EXPECT_EQ(*servers, wanted);
  EXPECT_TRUE(read("{}")->empty());
}

TEST(ReadServers, SaysWhichToolsAreWantedAndWhatHasNoEffect) {
  const auto servers = read(R"({
      "all": {"command": "x", "timeout": 60, "autoApprove": ["a"], "type": "stdio"},
      "some": {"command": "x", "disabledTools": ["a"], "excludeTools": ["b"]},
      "one": {"command": "x", "includeTools": ["a", "b"], "disabledTools": ["b"]},
      "none": {"command": "x", "includeTools": []},
      "far": {"url": "http://h/", "args": ["x"], "cwd": "/", "env": {"A": "b"}},
      "near": {"command": "x", "headers": {"A": "b"}}})");
  ASSERT_TRUE(servers) << servers.error().message;
  EXPECT_EQ((*servers)[0].ignored, (std::vector<std::string>{"timeout", "autoApprove"}));
  EXPECT_EQ((*servers)[4].ignored, (std::vector<std::string>{"args", "cwd", "env"}));
  EXPECT_EQ((*servers)[5].ignored, (std::vector<std::string>{"headers"}));
  EXPECT_TRUE((*servers)[4].command.empty());
  const std::string_view wanted[] = {"abc", "c", "a", "", "abc", "abc"};  // of a, b and c
  for (std::size_t i = 0; i < servers->size(); ++i) {
    std::string has;
    for (const std::string tool : {"a", "b", "c"}) has += (*servers)[i].has_tool(tool) ? tool : "";
    EXPECT_EQ(has, wanted[i]) << (*servers)[i].name;
  }
}

TEST(ReadServers, SaysHowTokensAreGot) {
  ASSERT_EQ(setenv("TENON_TEST_TOKEN", "s3cret", 1), 0);
  const auto servers = read(R"({
      "crm": {"url": "https://h/", "oauth": {"clientId": "me", "clientSecret": "${TENON_TEST_TOKEN}",
              "scope": "a b", "callbackPort": 8123, "dream": 1}},
      "job": {"url": "https://h/", "oauth": {"clientId": "me", "grant": "client_credentials"}},
      "doc": {"url": "https://h/", "oauth": {"clientMetadataUrl": "https://me/client.json",
              "grant": "authorization_code"}},
      "near": {"command": "x", "oauth": {}}})");
  ASSERT_TRUE(servers) << servers.error().message;
  EXPECT_EQ(
      (*servers)[0].oauth,
      (OAuthConfig{
          .client_id = "me", .client_secret = "s3cret", .scope = "a b", .callback_port = 8123}));
  EXPECT_EQ((*servers)[0].ignored, (std::vector<std::string>{"oauth.dream"}));
  EXPECT_TRUE((*servers)[1].oauth.is_machine);
  EXPECT_EQ((*servers)[2].oauth, (OAuthConfig{.client_metadata_url = "https://me/client.json"}));
  EXPECT_EQ((*servers)[3].ignored, (std::vector<std::string>{"oauth"}));
}

TEST(ReadServers, NamesWhatIsWrong) {
  struct Row {
    std::string_view servers;
    std::string_view told;
    Errc code = Errc::invalid;
  };
  const Row rows[] = {
      {"[]", "mcpServers"},
      {R"({"a": 1})", "mcpServers.a must be an object"},
      {R"({"": {"command": "x"}})", "mcpServers.: an entry must have a name"},
      {R"({"a": {"command": "x", "disabled": "yes"}})", "mcpServers.a.disabled must be true or"},
      {R"({"a": {"command": "x", "type": "smoke"}})", R"(type "smoke" is no transport)"},
      {R"({"a": {"command": "x", "type": 1}})", "type must be a string"},
      {R"({"a": {}})", "mcpServers.a: it must have a command or a url"},
      {R"({"a": {"command": "x", "url": "http://h/"}})", "not both"},
      {R"({"a": {"command": 1}})", "command must be a string"},
      {R"({"a": {"command": "x", "args": "y"}})", "args must be an array"},
      {R"({"a": {"command": "x", "args": [1]}})", "args must be a string"},
      {R"({"a": {"command": "x", "disabledTools": "y"}})", "disabledTools must be an array"},
      {R"({"a": {"command": "x", "env": {"A": 1}}})", "env.A must be a string"},
      {R"({"a": {"url": "ftp://h"}})", "url is"},
      {R"({"a": {"url": "http://h/", "headers": {"X": "${TENON_TEST_NONE}"}}})",
       "headers.X: the environment has no variable TENON_TEST_NONE: set it, or give a text for its "
       "absence, as in ${TENON_TEST_NONE:-text}"},
      {R"({"a": {"url": "http://h/", "oauth": 1}})", "oauth must be an object"},
      {R"({"a": {"url": "http://h/", "oauth": {"callbackPort": 0}}})", "callbackPort"},
      {R"({"a": {"url": "http://h/", "oauth": {"grant": "password"}}})", "oauth.grant"},
      {R"({"a": {"url": "http://h/", "oauth": {"grant": "client_credentials"}}})", "a clientId"},
      {R"({"a": {"url": "http://h/", "oauth": {"clientMetadataUrl": "http://h/"}}})", "https://"},
      {R"({"a": {"type": "sse", "url": "http://h/"}})", "streamable HTTP", Errc::unsupported},
  };
  for (const Row& row : rows) {
    const auto servers = read(row.servers);
    ASSERT_FALSE(servers) << row.servers;
    EXPECT_EQ(servers.error().code, row.code) << row.servers;
    EXPECT_NE(servers.error().message.find(row.told), std::string::npos) << servers.error().message;
  }
  EXPECT_FALSE(read_servers(json::Array{}));
}

TEST(ReadServers, KeepAFaultToItsEntry) {
  const auto entries = read_entries(R"({
      "wrong": {"command": 1}, "good": {"command": "x"}, "empty": {},
      "half": {"command": "x", "args": 1}, "off": {"command": 1, "disabled": true}, "on": {"url": "http://h/", "disabled": false}})");
  ASSERT_TRUE(entries) << entries.error().message;
  std::string told;
  for (const ServerEntry& entry : *entries) {
    told += entry.config.name + (entry.fault ? " faulty" : "") +
            (entry.is_disabled ? " disabled" : "") + (entry.is_usable() ? " usable" : "") + "; ";
  }
  EXPECT_EQ(told,
            "wrong faulty; good usable; empty faulty; half faulty; off disabled; on usable; ");
  EXPECT_EQ((*entries)[0].fault->message, "mcpServers.wrong: command must be a string");
  // What was read before the fault is not there, so that nothing uses half of an entry.
  EXPECT_TRUE((*entries)[3].config.command.empty());
}

}  // namespace
}  // namespace tenon::mcp
