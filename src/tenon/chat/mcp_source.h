#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/toolbox.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/servers.h"

namespace tenon::chat {

/// The tools of a server that speaks the Model Context Protocol, and what else it offers. These
/// calls wait for the server, within the limits of `context`.
class McpServer : public ToolSource {
 public:
  [[nodiscard]] virtual Expected<std::vector<mcp::Prompt>> prompts(const ToolContext& context) = 0;
  [[nodiscard]] virtual Expected<std::vector<mcp::PromptMessage>> prompt(
      const std::string& prompt_name, const json::Object& arguments,
      const ToolContext& context) = 0;
  [[nodiscard]] virtual Expected<std::vector<mcp::Resource>> resources(
      const ToolContext& context) = 0;
  [[nodiscard]] virtual Expected<std::string> read(const std::string& uri,
                                                   const ToolContext& context) = 0;
};

/// Connects when it is first asked, and again when the server has gone. After an attempt that
/// failed it waits for 5 s, or for as long as the attempt took if that is longer.
///
///     tools.add(mcp_source({.name = "files", .command = {"mcp-server-files"}}));
[[nodiscard]] std::shared_ptr<McpServer> mcp_source(mcp::ServerConfig server,
                                                    mcp::ClientOptions options = {});

/// Names by which the configuration picks tools of a server that has no such tools, and why each is
/// told: a misspelt one would hide no tool, or all of them. `listed` and `left_out` are those of
/// mcp::Client.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> strangers_in(
    const mcp::ServerConfig& server, const std::vector<mcp::Tool>& listed,
    const std::vector<std::pair<std::string, std::string>>& left_out);

}  // namespace tenon::chat
