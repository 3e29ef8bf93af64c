// The command `tenon`. Each subcommand is in the file with its name.
#include <algorithm>
#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "command.h"
#include "logging.h"
#include <CLI/CLI.hpp>

#include "tenon/config/user_formats.h"

namespace tenon::app {
namespace {

// What is wrong with an option that the given command does not have: which commands do have it.
std::string about_extras(const CLI::App& tenon) {
  const CLI::App* command = &tenon;
  std::string name = "tenon";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  const std::vector<std::string> extras = tenon.remaining(true);
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto found = std::ranges::find_if(extras, is_option);
  const std::string word = found != extras.end() ? *found : extras.empty() ? "" : extras.front();
  const std::string option = word.substr(0, word.find('='));
  std::string others;
  for (const CLI::App* other : tenon.get_subcommands([](const CLI::App*) { return true; })) {
    if (!is_option(word) || other->get_option_no_throw(option) == nullptr) continue;
    others += (others.empty() ? "" : ", ") + ("tenon " + other->get_name());
  }
  return "`" + name + "` has no " +
         (is_option(word) ? "option " + option : "place for '" + word + "'") +
         (others.empty() ? "" : ", unlike " + others) + "; `" + name +
         " --help` lists what it takes";
}

int run_main(int argc, char** argv) {
  CLI::App tenon("Tenon: function calling for open-weight models, as a server and as tools for it.",
                 "tenon");
  tenon.set_version_flag("--version", "tenon " + std::string(kVersion));
  tenon.require_subcommand(1);
  tenon.footer(
      "Exit status: 0 ok, 1 negative answer, 2 usage, 3 bad input, 4 engine trouble.\n"
      "`tenon COMMAND --help` shows the options of a command and an example.");
  std::vector<std::string> format_files;
  tenon
      .add_option("--format-file", format_files,
                  "Definition of a tool-call format (docs/formats.md), or a folder of them; of any "
                  "command")
      ->envname("TENON_FORMAT_FILE")
      ->allow_extra_args(false);
  tenon.fallthrough();
  const App all(tenon);
  const std::vector<Command> commands = {
      add_serve(all),    add_chat(all),    add_call(all),   add_render(all),     add_parse(all),
      add_validate(all), add_grammar(all), add_mask(all),   add_formats(all),    add_inspect(all),
      add_export(all),   add_worker(all),  add_key(all),    add_doctor(all),     add_sandbox(all),
      add_rlm(all),      add_bench(all),   add_pull(all),   add_models(all),     add_mcp(all),
      add_replay(all),   add_launch(all),  add_verify(all), add_completion(all), add_manual(all)};
  try {
    tenon.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (argc > 1 && tenon.get_subcommands().empty() && error.get_exit_code() != 0) {
      return complain({kUsage, "there is no command '" + std::string(argv[1]) +
                                   "'; `tenon --help` lists those that there are"});
    }
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
      return complain({kUsage, about_extras(tenon)});
    }
    return tenon.exit(error) == 0 ? kOk : kUsage;
  }
  // For errors of the layers below, for example a format that does not compile; `serve` sets a
  // level of its own.
  if (Status started = start_logging("error"); !started) {
    return complain({kEngine, started.error().message});
  }
  if (const auto loaded = config::load_formats(format_files); !loaded)
    return complain(loaded.error());
  for (const Command& command : commands) {
    if (command.app.parsed()) return command.run();
  }
  return kUsage;
}

}  // namespace
}  // namespace tenon::app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // if a reader goes away, the write fails and we go on
  try {
    return tenon::app::run_main(argc, argv);
  } catch (const std::exception& error) {
    return tenon::app::complain({tenon::app::kEngine, error.what()});
  }
}
