#pragma once

#include <memory>

#include "tenon/chat/toolbox.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/servers.h"

namespace tenon::chat {

/// The tools of a server that speaks the Model Context Protocol. Connects when it is first asked,
/// and again when the server has gone. After an attempt that failed it waits for 5 s, or for as
/// long as the attempt took if that is longer.
///
///     tools.add(mcp_source({.name = "files", .command = {"mcp-server-files"}}));
[[nodiscard]] std::shared_ptr<ToolSource> mcp_source(mcp::ServerConfig server,
                                                     mcp::ClientOptions options = {});

}  // namespace tenon::chat
