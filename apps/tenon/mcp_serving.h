#pragma once

#include <cstdint>

#include "tenon/mcp/tool_server.h"

namespace tenon::app {

/// Answers the client at stdin until its messages end. Returns the program's status.
[[nodiscard]] int serve_mcp_pipes(const mcp::ToolServer& server);

/// Keeps SIGINT and SIGTERM for serve_mcp_http(). To be called before any thread begins.
void block_ending_signals();

/// Serves at http://127.0.0.1:PORT/mcp, which it prints, until SIGINT or SIGTERM; port 0 takes any
/// free port. Pages of other origins may not ask. Returns the program's status.
[[nodiscard]] int serve_mcp_http(const mcp::ToolServer& server, std::uint16_t port);

}  // namespace tenon::app
