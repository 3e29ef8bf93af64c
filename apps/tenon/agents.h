#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// How coding agents are pointed at a server by their environment and their command line, so that
/// no file of the user's is written. Some take an address only from a file: they are told of one
/// in a folder of Tenon's. docs/clients/ says the same in files.
namespace tenon::app {

/// What an agent has to know.
struct Served {
  std::string server;         ///< http://host:port, without a path.
  std::string model;          ///< A name of GET /v1/models.
  std::string key;            ///< Any text, if the server has no keys.
  std::uint64_t context = 0;  ///< Tokens.
  std::string folder;         ///< Where a file for the agent may be written.
};

/// One agent. The texts have the slots `${server}`, `${model}`, `${key}`, `${context}` and
/// `${folder}`; in a text with quotation marks, values are written as in a JSON string.
struct AgentRow {
  std::string_view name;     ///< As the user says it.
  std::string_view program;  ///< As the shell finds it.
  std::string_view install;  ///< The command that installs it.
  std::vector<std::pair<std::string_view, std::string_view>> environment;
  std::vector<std::string_view> unset;      ///< Variables that would lead elsewhere.
  std::vector<std::string_view> arguments;  ///< Before those of the user.
  std::uint64_t least_context;              ///< Tokens that its first prompt and an answer take.
  std::string_view file_name = {};  ///< The name of its file in the folder; "": it needs none.
  std::string_view file = {};       ///< The file's text.
};

[[nodiscard]] std::span<const AgentRow> agents();
/// Null: there is no such agent.
[[nodiscard]] const AgentRow* find_agent(std::string_view name);

struct Launch {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string file;  ///< The text of the row's file, with its slots filled.
};
[[nodiscard]] Launch launch_of(const AgentRow& agent, const Served& served,
                               std::span<const std::string> arguments);

}  // namespace tenon::app
