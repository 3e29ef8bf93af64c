#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

/// The content of the command line, read from the parser itself, so that manuals and completions
/// always match the command.
namespace tenon::app {

struct OutlinedOption {
  std::vector<std::string> names;  ///< As typed: "--config", "-h". Empty: a positional argument.
  std::string value;  ///< Its value: "TEXT", or the argument's name; "": it takes none.
  std::string description;
  std::string variable;  ///< An environment variable; "": none.
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
