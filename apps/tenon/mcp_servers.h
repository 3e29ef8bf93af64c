#pragma once

#include <functional>

#include "command_line.h"

namespace tenon::app {

/// Adds what `tenon mcp` does at servers of others: login, logout, tools, call. The function runs
/// the one that was given and returns its exit status; -1: none was.
[[nodiscard]] std::function<int()> add_mcp_servers(App mcp);

}  // namespace tenon::app
