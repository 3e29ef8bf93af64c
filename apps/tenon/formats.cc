#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include <CLI/CLI.hpp>

#include "tenon/format/format.h"
#include "tenon/format/parse_batch.h"
#include "tenon/json/value.h"

namespace tenon::app {
namespace {

int print_table() {
  for (const auto& format : format::all()) {
    const format::FormatInfo& info = format::info(*format);
    std::string aliases;
    for (const std::string& alias : info.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
    std::cout << std::left << std::setw(20) << info.name
              << (info.parallel ? "parallel  " : "single    ") << aliases << '\n';
  }
  return kOk;
}

}  // namespace

Command add_formats(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("formats", "Lists the tool-call formats that Tenon knows");
  auto json = std::make_shared<bool>(false);
  app->add_flag("--json", *json, "A JSON array, for programs");
  app->footer("Example:\n  tenon formats --json");
  return {app, [json] {
            if (!*json) return print_table();
            std::cout << json::to_string(format::formats_json()) << '\n';
            return static_cast<int>(kOk);
          }};
}

}  // namespace tenon::app
