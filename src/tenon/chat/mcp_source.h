#pragma once

#include <memory>

#include "tenon/chat/toolbox.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/servers.h"

namespace tenon::chat {

/// The tools of a server that speaks the Model Context Protocol. Connects when it is first asked,
/// and again when the server has gone, though not within 5 s of an attempt that failed, nor within
/// the time that it took.
///
///     tools.add(mcp_source({.name = "files", .command = {"mcp-server-files"}}));
[[nodiscard]] std::shared_ptr<ToolSource> mcp_source(mcp::ServerConfig server,
                                                     mcp::ClientOptions options = {});

}  // namespace tenon::chat
