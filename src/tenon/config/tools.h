#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/mcp_source.h"
#include "tenon/chat/toolbox.h"
#include "tenon/json/value.h"
#include "tenon/mcp/servers.h"

/// Tools from files: those that --tools, --mcp and the keys `tools` and `mcp` of a model name.
namespace tenon::config {

/// The content of a file of tools.
struct ToolsFile {
  json::Array tools;                               ///< In OpenAI's shape, as a request has them.
  std::vector<std::vector<std::string>> commands;  ///< One for each tool; empty: it has none.
};

/// A file has the array that goes into a request, or an object with the array as "tools". A tool
/// may have a `command`, a list of strings: the program that runs it, which gets the arguments as
/// JSON on its stdin and writes the result to its stdout. Such a tool may be written as just
/// `{"name", "description", "parameters", "command"}`. "": no tools.
[[nodiscard]] Expected<ToolsFile> read_tools(const std::string& path);

/// Adds the tools that have a command to `toolbox`. They run in the folder of the file `path`.
[[nodiscard]] Status add_commands(const ToolsFile& file, const std::string& path,
                                  chat::Toolbox& toolbox);

/// What a user can do for the servers; by default there is no user.
struct ServerOptions {
  bool asks_user = false;  ///< The toolbox's ToolContext has on_question.
  /// Called with each server, for what it offers besides tools.
  std::function<void(std::shared_ptr<chat::McpServer>)> on_server{};
};

/// Adds the servers of a file of `mcpServers`. Returns a sentence for each server that cannot be
/// used because its entry is faulty, and for each member of the file that has no effect. With
/// `must_answer` all servers are asked for their tools at once. There is then a sentence for each
/// server that has told no tools after ten seconds, and for each tool that models are not offered
/// because it is faulty; and it fails if the file has servers, none of them has told any tools, and
/// `toolbox` had none before. Without it failures are logged. Servers that do not answer are asked
/// again when tools are needed.
[[nodiscard]] Expected<std::vector<std::string>> add_servers(const std::string& path,
                                                             chat::Toolbox& toolbox,
                                                             bool must_answer,
                                                             const ServerOptions& options = {});

/// Adds two tools: one lists the resources of these servers, the other reads one of them. Fails as
/// Toolbox::add() does.
[[nodiscard]] Status add_resources(std::vector<std::shared_ptr<chat::McpServer>> servers,
                                   chat::Toolbox& toolbox);

/// The entries of a file of `mcpServers`. Errors name the path, and so do the faults of entries.
[[nodiscard]] Expected<std::vector<mcp::ServerEntry>> read_servers(const std::string& path);

/// A sentence on a tool of such a server that models are not offered.
[[nodiscard]] std::string left_out_note(const chat::LeftOutTool& one);

/// The file with the user's logins at such servers; "": there is no place for it.
[[nodiscard]] std::string tokens_file();

}  // namespace tenon::config
