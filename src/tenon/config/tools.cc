#include "tenon/config/tools.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "tenon/base/process.h"
#include "tenon/chat/mcp_source.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/mcp/servers.h"
#include "tenon/message/build.h"

// Tools of a file, each a command, and servers of tools
//
// A file of tools is a list as a request has it, in which a tool may also have a `command`:
//
//     [{"name": "ls", "parameters": {...}, "command": ["python3", "ls.py"]}]
//
// A call runs the command in the file's folder, with a plain environment. Its input is one line
// with the arguments as JSON; what it prints is the result. Another exit status than 0 is an error,
// whose text is what it printed as errors.

namespace tenon::config {
namespace {

Unexpected wrong(const std::string& path, const std::string& what) {
  return invalid(path + ": " + what);
}

// Takes the command out of `tool`, which models do not see; empty if it has none.
Expected<std::vector<std::string>> take_command(json::Object& tool, const std::string& path) {
  std::vector<std::string> command;
  const json::Value* const given = tool.find("command");
  if (given == nullptr) return command;
  const json::Array* const words = given->if_array();
  for (std::size_t i = 0; words != nullptr && i < words->size(); ++i) {
    if (const std::string* const word = (*words)[i].if_string()) command.push_back(*word);
  }
  if (words == nullptr || command.empty() || command.size() < words->size()) {
    return wrong(path, "a tool's command must be a list of strings, the program first");
  }
  tool.erase("command");
  return command;
}

std::string text_at(const json::Value& value, std::string_view pointer) {
  const json::Value* const found = json::at_pointer(value, pointer);
  return found == nullptr || found->if_string() == nullptr ? "" : *found->if_string();
}

// Without the last line end, which the command printed for a terminal.
std::string trimmed(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

chat::ToolFunction runs(std::vector<std::string> command, std::string folder) {
  return [command = std::move(command), folder = std::move(folder)](
             const json::Object& arguments,
             const chat::ToolContext& context) -> Expected<chat::ToolOutput> {
    CommandLimits limits;
    limits.time = std::chrono::ceil<std::chrono::milliseconds>(context.deadline -
                                                               std::chrono::steady_clock::now());
    auto said =
        run_command({.arguments = command, .environment = plain_environment(), .folder = folder},
                    json::to_string(json::Value(arguments)) + "\n", limits, context.cancel);
    if (!said) return Unexpected(std::move(said.error()));
    const std::size_t left_out = said->output_bytes - said->output.size();
    std::string text = trimmed(std::move(said->output));
    if (said->status == 0) return chat::ToolOutput{.text = text, .left_out_bytes = left_out};
    // The reason comes first, because a result that is too long is cut at its end.
    std::string why = "Error: " + said->ending;
    for (const std::string& part : {trimmed(std::move(said->errors)), text}) {
      if (!part.empty()) why += "\n" + part;
    }
    return chat::ToolOutput{.text = why, .is_error = true, .left_out_bytes = left_out};
  };
}

}  // namespace

Expected<ToolsFile> read_tools(const std::string& path) {
  if (path.empty()) return ToolsFile{};
  auto parsed = read_json(path);
  if (!parsed) return at_fault(parsed.error());
  // A whole request may be given, too: its tools are read.
  json::Value* const inner = parsed->find("tools");
  json::Array* const list = (inner != nullptr ? *inner : *parsed).if_array();
  if (list == nullptr) {
    return wrong(path, "a JSON array of tools is wanted, in the shape of OpenAI's API");
  }
  ToolsFile file;
  for (json::Value& tool : *list) {
    if (tool.if_object() == nullptr) return wrong(path, "a tool must be an object");
    auto command = take_command(*tool.if_object(), path);
    if (!command) return Unexpected(std::move(command.error()));
    if (tool.find("name") != nullptr && tool.find("type") == nullptr) {
      tool = json::Object{{"type", "function"}, {"function", std::move(tool)}};
    }
    if (!command->empty() && text_at(tool, "/function/name").empty()) {
      return wrong(path, "a tool with a command has no name");
    }
    file.tools.push_back(std::move(tool));
    file.commands.push_back(*std::move(command));
  }
  return file;
}

// Tools without a command are left to the caller: `tenon chat` asks the user for their results.
Status add_commands(const ToolsFile& file, const std::string& path, chat::Toolbox& toolbox) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  for (std::size_t i = 0; i < file.tools.size(); ++i) {
    if (file.commands[i].empty()) continue;
    const json::Value& tool = file.tools[i];
    const json::Value* const parameters = json::at_pointer(tool, "/function/parameters");
    Status added =
        toolbox.add(message::function_tool(text_at(tool, "/function/name"),
                                           text_at(tool, "/function/description"),
                                           parameters == nullptr ? json::Value() : *parameters),
                    runs(file.commands[i], folder));
    if (!added) return wrong(path, added.error().message);
  }
  return {};
}

Expected<std::vector<mcp::ServerEntry>> read_servers(const std::string& path) {
  const auto config = read_json(path);
  if (!config) return at_fault(config.error());
  auto entries = mcp::read_servers(*config);
  if (!entries) return wrong(path, entries.error().message);
  for (mcp::ServerEntry& entry : *entries) {
    if (entry.fault) entry.fault->message = path + ": " + entry.fault->message;
  }
  return entries;
}

// Two tools for what the servers offer as resources: a list, and the reading of one. A server that
// does not answer gets a line in the list, and the others are still told.
Status add_resources(std::vector<std::shared_ptr<chat::McpServer>> servers,
                     chat::Toolbox& toolbox) {
  const auto listing = [servers](const json::Object&,
                                 const chat::ToolContext& context) -> Expected<chat::ToolOutput> {
    std::string text;
    for (const auto& server : servers) {
      const auto resources = server->resources(context);
      if (!resources) {
        text += server->name() + ": " + resources.error().message + "\n";
        continue;
      }
      for (const mcp::Resource& one : *resources) {
        text += server->name() + " " + one.uri + " " +
                (one.description.empty() ? one.name : one.description) + "\n";
      }
    }
    return chat::ToolOutput{.text = text.empty() ? "There are no resources." : trimmed(text)};
  };
  const auto reading = [servers](const json::Object& arguments,
                                 const chat::ToolContext& context) -> Expected<chat::ToolOutput> {
    const std::string name = text_at(arguments, "/server");
    const auto found =
        std::ranges::find_if(servers, [&name](const auto& one) { return one->name() == name; });
    if (found == servers.end()) return invalid("there is no server " + json::quoted(name));
    auto text = (*found)->read(text_at(arguments, "/uri"), context);
    if (!text) return Unexpected(std::move(text.error()));
    return chat::ToolOutput{.text = *std::move(text)};
  };
  const auto string = [](const char* about) {
    return json::Object{{"type", "string"}, {"description", about}};
  };
  if (Status added =
          toolbox.add(message::function_tool(
                          "list_resources", "Lists what can be read: server, address, description",
                          json::Object{{"type", "object"}, {"properties", json::Object{}}}),
                      listing);
      !added) {
    return added;
  }
  return toolbox.add(
      message::function_tool(
          "read_resource", "Reads a resource that list_resources names",
          json::Object{{"type", "object"},
                       {"properties", json::Object{{"server", string("As list_resources has it")},
                                                   {"uri", string("Its address")}}},
                       {"required", json::Array{"server", "uri"}}}),
      reading);
}

std::string left_out_note(const chat::LeftOutTool& one) {
  return "mcpServers." + one.source + ": the tool " + json::quoted(one.tool) +
         " is left out: " + one.why;
}

std::string tokens_file() {
  const std::string folder = state_folder();
  return folder.empty() ? "" : folder + "/mcp-tokens.json";
}

Expected<std::vector<std::string>> add_servers(const std::string& path, chat::Toolbox& toolbox,
                                               bool must_answer, const ServerOptions& options) {
  auto entries = read_servers(path);
  if (!entries) return Unexpected(std::move(entries.error()));
  std::vector<std::string> notes;
  std::vector<Error> failures;  // one for each server without tools
  std::size_t servers = 0;
  for (mcp::ServerEntry& entry : *entries) {
    if (entry.is_disabled) continue;
    ++servers;
    if (entry.fault) {
      notes.push_back(entry.fault->message + " (this server is left out)");
      failures.push_back(*std::move(entry.fault));
      continue;
    }
    for (const std::string& member : entry.config.ignored) {
      notes.push_back(path + ": mcpServers." + entry.config.name + "." + member + " has no effect");
    }
    auto source = chat::mcp_source(
        std::move(entry.config),
        {.version = TENON_VERSION, .asks_user = options.asks_user, .tokens = tokens_file()});
    if (options.on_server) options.on_server(source);
    toolbox.add(std::move(source));
  }
  // A command asks all servers now, and fails if none of them answers; the server process does not
  // wait.
  if (!must_answer) return notes;
  const chat::ToolSet tools = toolbox.tools();
  for (const auto& [name, why] : toolbox.silent_sources()) {
    failures.push_back({Errc::unavailable, path + ": mcpServers." + name + ": " + why});
    notes.push_back(failures.back().message + ": its tools are left out until it answers");
  }
  if (servers > 0 && failures.size() == servers && tools.list().empty()) {
    Error all = failures.back();
    failures.pop_back();
    while (!failures.empty()) {
      all.message = failures.back().message + "; " + all.message;
      failures.pop_back();
    }
    return Unexpected(std::move(all));
  }
  for (const chat::LeftOutTool& one : toolbox.left_out()) {
    notes.push_back(path + ": " + left_out_note(one));
  }
  return notes;
}

}  // namespace tenon::config
