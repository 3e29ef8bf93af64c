#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "command.h"
#include "outline.h"

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

/// Every page, by the names under which man looks for them.
int write_manuals(const OutlinedCommand& tenon, const std::filesystem::path& folder) {
  const auto write = [&](const std::string& name, const std::string& page) {
    std::ofstream file(folder / (name + ".1"));
    return static_cast<bool>(file << page << std::flush);
  };
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  bool is_written = write(tenon.name, manual_page(tenon, "", std::string(kVersion)));
  for (const OutlinedCommand& command : tenon.commands) {
    is_written = is_written && write(tenon.name + "-" + command.name,
                                     manual_page(command, tenon.name, std::string(kVersion)));
  }
  if (is_written) return kOk;
  return complain({kBadInput, folder.string() + " cannot be written into"});
}

}  // namespace

Command add_completion(App tenon) {
  const App app = tenon.add_subcommand("completion", "Prints what makes a shell complete commands");
  auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  app.footer("Example:\n  source <(tenon completion bash)");
  return {app, [shell, tenon] {
            std::cout << completion_script(outline_of(tenon.cli()), *shell);
            return static_cast<int>(kOk);
          }};
}

Command add_manual(App tenon) {
  const App app = tenon.add_subcommand("manual", "Prints a manual page, for man");
  auto name = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  const Option command =
      app.add_option("command", *name, "A command; without one, the page of all");
  app.add_option("--all", *folder, "Writes every page into this folder instead")
      .type_name("FOLDER")
      .excludes(command);
  app.footer("Example:\n  tenon manual serve | man -l -");
  return {app, [name, folder, tenon] {
            const OutlinedCommand outline = outline_of(tenon.cli());
            return folder->empty() ? print_manual(outline, *name) : write_manuals(outline, *folder);
          }};
}

}  // namespace tenon::app
