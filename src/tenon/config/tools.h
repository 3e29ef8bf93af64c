#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/toolbox.h"
#include "tenon/json/value.h"

/// Tools from files: what --tools, --mcp and the keys `tools` and `mcp` of a model name.
namespace tenon::config {

/// What a file of tools has.
struct ToolsFile {
  json::Array tools;                               ///< In OpenAI's shape: what goes into a request.
  std::vector<std::vector<std::string>> commands;  ///< Of each of them; empty: it has none.
};

/// A file holds the array that goes into a request, or an object that has it under "tools". A tool
/// may have a `command`, a list of strings: the program that runs it, which gets the arguments as
/// JSON on its stdin, and whose stdout is the result. Such a tool may stand as
/// `{"name", "description", "parameters", "command"}` alone. "": no tools.
[[nodiscard]] Expected<ToolsFile> read_tools(const std::string& path);

/// Adds the tools with a command to `toolbox`. They run in the folder of `path`, the file.
[[nodiscard]] Status add_commands(const ToolsFile& file, const std::string& path,
                                  chat::Toolbox& toolbox);

/// Adds the servers of a file of `mcpServers`. Gives a sentence for each member of the file that
/// has no effect. With `must_answer` they are asked for their tools, all at the same time, and
/// there is a sentence for each that has none to tell after ten seconds; it fails where no server
/// has any, and `toolbox` had none before. Without it what fails is logged. Servers that do not
/// answer are asked again when tools are wanted.
[[nodiscard]] Expected<std::vector<std::string>> add_servers(const std::string& path,
                                                             chat::Toolbox& toolbox,
                                                             bool must_answer);

}  // namespace tenon::config
