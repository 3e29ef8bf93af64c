#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

/// What the command line has, read off the parser itself, so that manuals and completions are never
/// of another version than the command.
namespace tenon::app {

struct OutlinedOption {
  std::vector<std::string> names;  ///< As typed: "--config", "-h". Empty: it is known by its place.
  std::string value;               ///< What follows it: "TEXT", a place's name; "": nothing.
  std::string description;
  std::string variable;  ///< Of the environment; "": none.
};

struct OutlinedCommand {
  std::string name;
  std::string description;
  std::string footer;  ///< More text, with examples.
  std::vector<OutlinedOption> options;
  std::vector<OutlinedCommand> commands;
};

[[nodiscard]] OutlinedCommand outline_of(const CLI::App& app);

/// A script by which a shell ("bash", "zsh", "fish") completes the command's words; "" for another.
[[nodiscard]] std::string completion_script(const OutlinedCommand& command,
                                            const std::string& shell);

/// The manual page of the command, or of one of its own commands with `parent` before its name, in
/// man(7)'s language.
[[nodiscard]] std::string manual_page(const OutlinedCommand& command, const std::string& parent,
                                      const std::string& version);

}  // namespace tenon::app
