#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/toolbox.h"
#include "tenon/json/value.h"

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

/// Adds the servers of a file of `mcpServers`. Returns a sentence for each member of the file that
/// has no effect. With `must_answer` all servers are asked for their tools at once. There is then a
/// sentence for each server that has told no tools after ten seconds, and it fails if no server has
/// any and `toolbox` had none before. Without it failures are logged. Servers that do not answer
/// are asked again when tools are needed.
[[nodiscard]] Expected<std::vector<std::string>> add_servers(const std::string& path,
                                                             chat::Toolbox& toolbox,
                                                             bool must_answer);

}  // namespace tenon::config
