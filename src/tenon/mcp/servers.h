#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// How Tenon gets tokens (OAuth 2.1) from the authorization server of a server with a url.
struct OAuthConfig {
  std::string client_id;      ///< "": Tenon registers itself, or uses client_metadata_url.
  std::string client_secret;  ///< "": none.
  /// The https address of a document that describes the client, for servers that take such an
  /// address as the client's id.
  std::string client_metadata_url;
  std::string scope;                ///< Asked for, with those that a refusal names; "": all
                                    ///< scopes that the server's description names.
  std::uint16_t callback_port = 0;  ///< The port that logins come back to; 0: any free one.
  bool is_machine = false;          ///< The grant is `client_credentials`: no user logs in.

  bool operator==(const OAuthConfig&) const = default;
};

/// How a server is reached: by pipes, or at an address.
struct ServerConfig {
  std::string name;
  std::vector<std::string> command;      ///< The program and its arguments; empty: the server has a
                                         ///< url.
  std::vector<std::string> environment;  ///< NAME=value, in addition to plain_environment().
  std::string folder;                    ///< The folder in which the program runs; "": our own.
  std::string url;
  std::vector<http::Header> headers;                   ///< Sent with every request.
  OAuthConfig oauth;                                   ///< For servers that ask for a token.
  std::optional<std::vector<std::string>> only_tools;  ///< All other tools are left out.
  std::vector<std::string> without_tools;              ///< These tools are left out.
  std::vector<std::string> ignored;  ///< Members of its configuration that have no effect.

  /// Whether the configuration allows the tool of this name.
  [[nodiscard]] bool has_tool(const std::string& tool) const;
  bool operator==(const ServerConfig& other) const;
};

/// One entry of a file of servers.
struct ServerEntry {
  ServerConfig config;         ///< Only its name, if the entry is faulty or disabled.
  bool is_disabled = false;    ///< `"disabled": true`; the rest of the entry was not read.
  std::optional<Error> fault;  ///< Why the server cannot be used: which entry and member, and what
                               ///< helps.

  [[nodiscard]] bool is_usable() const { return !is_disabled && !fault; }
};

/// Reads `mcp.json`, `claude_desktop_config.json` and similar files:
///
///     {"mcpServers": {
///       "files": {"command": "mcp-server-files", "args": ["/data"], "env": {"LEVEL": "1"}},
///       "search": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
///       "crm": {"url": "https://crm/mcp", "oauth": {"clientId": "tenon", "scope": "read"}}}}
///
/// `${NAME}` is a variable of our environment; `${NAME:-text}` gives a text for a variable that is
/// not set. Tools that `disabledTools` or `excludeTools` name are left out, and, if there is
/// `includeTools`, those that it does not name. `oauth` may have clientId, clientSecret,
/// clientMetadataUrl, scope, callbackPort, and grant ("authorization_code" or
/// "client_credentials").
///
/// Returns all entries, in order. A faulty one takes only itself: its fault is `invalid`, or
/// `unsupported` for the transport `sse`, which 2025-03-26 replaced. Fails with `invalid` if there
/// is no object `mcpServers`.
[[nodiscard]] Expected<std::vector<ServerEntry>> read_servers(const json::Value& config);

}  // namespace tenon::mcp
