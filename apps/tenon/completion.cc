#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include "outline.h"
#include <CLI/CLI.hpp>

namespace tenon::app {
namespace {

int print_manual(const OutlinedCommand& tenon, const std::string& name) {
  if (name.empty()) {
    std::cout << manual_page(tenon, "", std::string(kVersion));
    return kOk;
  }
  for (const OutlinedCommand& command : tenon.commands) {
    if (command.name != name) continue;
    std::cout << manual_page(command, tenon.name, std::string(kVersion));
    return kOk;
  }
  return complain({kUsage, "there is no command '" + name + "'"});
}

}  // namespace

Command add_completion(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("completion", "Prints what makes a shell complete commands");
  auto shell = std::make_shared<std::string>();
  app->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer("Example:\n  source <(tenon completion bash)");
  return {app, [shell, &tenon] {
            std::cout << completion_script(outline_of(tenon), *shell);
            return static_cast<int>(kOk);
          }};
}

Command add_manual(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("manual", "Prints a manual page, for man");
  auto name = std::make_shared<std::string>();
  app->add_option("command", *name, "A command; without one, the page of all");
  app->footer("Example:\n  tenon manual serve | man -l -");
  return {app, [name, &tenon] { return print_manual(outline_of(tenon), *name); }};
}

}  // namespace tenon::app
