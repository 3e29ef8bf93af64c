#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// How a server is reached: by pipes, or at an address.
struct ServerConfig {
  std::string name;
  std::vector<std::string> command;      ///< The program and its arguments; empty: the server has a
                                         ///< url.
  std::vector<std::string> environment;  ///< NAME=value, in addition to plain_environment().
  std::string folder;                    ///< The folder in which the program runs; "": our own.
  std::string url;
  std::vector<http::Header> headers;                   ///< Sent with every request.
  std::optional<std::vector<std::string>> only_tools;  ///< All other tools are left out.
  std::vector<std::string> without_tools;              ///< These tools are left out.
  std::vector<std::string> ignored;  ///< Members of its configuration that have no effect.

  /// Whether the configuration allows the tool of this name.
  [[nodiscard]] bool has_tool(const std::string& tool) const;
  bool operator==(const ServerConfig& other) const;
};

/// Reads `mcp.json`, `claude_desktop_config.json` and similar files:
///
///     {"mcpServers": {
///       "files": {"command": "mcp-server-files", "args": ["/data"], "env": {"LEVEL": "1"}},
///       "search": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}
///
/// `${NAME}` is a variable of our environment; `${NAME:-text}` gives a text for a variable that is
/// not set. Servers with `"disabled": true` are left out. So are tools that `disabledTools` or
/// `excludeTools` name, and, if there is `includeTools`, those that it does not name. Fails, naming
/// server and member, with `invalid`, or with `unsupported` for the transport `sse`, which
/// 2025-03-26 replaced.
[[nodiscard]] Expected<std::vector<ServerConfig>> read_servers(const json::Value& config);

}  // namespace tenon::mcp
