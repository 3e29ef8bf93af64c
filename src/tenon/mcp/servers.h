#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// Where a server is: behind pipes, or at an address.
struct ServerConfig {
  std::string name;
  std::vector<std::string> command;      ///< The program and its arguments; empty: it has a url.
  std::vector<std::string> environment;  ///< NAME=value, beside plain_environment().
  std::string folder;                    ///< Where the program runs; "": in ours.
  std::string url;
  std::vector<http::Header> headers;                   ///< Of every request to it.
  std::optional<std::vector<std::string>> only_tools;  ///< What it has beside these is left out.
  std::vector<std::string> without_tools;              ///< And these are.
  std::vector<std::string> ignored;  ///< Members of its configuration that have no effect here.

  /// Whether the tool of this name is wanted.
  [[nodiscard]] bool has_tool(const std::string& tool) const;
  bool operator==(const ServerConfig& other) const;
};

/// What `mcp.json`, `claude_desktop_config.json` and their like say:
///
///     {"mcpServers": {
///       "files": {"command": "mcp-server-files", "args": ["/data"], "env": {"LEVEL": "1"}},
///       "search": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}
///
/// `${NAME}` is a variable of our environment, `${NAME:-text}` has a text for where there is none.
/// Servers with `"disabled": true` are left out; so are tools that `disabledTools` or
/// `excludeTools` name, and those that `includeTools`, where it is there, does not. Fails, naming
/// server and member, with `invalid`, or with `unsupported` for the transport `sse` of before
/// 2025-03-26.
[[nodiscard]] Expected<std::vector<ServerConfig>> read_servers(const json::Value& config);

}  // namespace tenon::mcp
