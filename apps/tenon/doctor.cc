#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "fetch_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/config/config.h"
#include "tenon/config/models.h"
#include "tenon/config/tools.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/rlm/sandbox.h"

// `tenon doctor`: each model of a configuration is loaded, or its upstream connected to, and told
// with what its engine can do. What fails is told, too, and the next model is tried.

namespace tenon::app {
namespace {

struct DoctorOptions {
  std::string config;  // "": one model, that of `model`
  std::string model;
  bool json = false;  // a line for each model
};

// The servers of a pool, and why each is not there.
json::Array servers_of(const engine::EngineStats& stats) {
  json::Array servers;
  for (const engine::UpstreamStats& server : stats.upstreams) {
    json::Object one{{"url", server.url}, {"up", server.is_up}};
    if (!server.is_up) one.set("error", server.trouble);
    servers.emplace_back(std::move(one));
  }
  return servers;
}

// The servers of tools that the file names, and why an entry is faulty. None is connected to.
json::Array tool_servers_of(const std::vector<mcp::ServerEntry>& entries) {
  json::Array servers;
  for (const mcp::ServerEntry& entry : entries) {
    json::Object one{{"name", entry.config.name}};
    if (entry.is_disabled) one.set("disabled", true);
    if (entry.fault) one.set("error", entry.fault->message);
    servers.emplace_back(std::move(one));
  }
  return servers;
}

double seconds_of(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

// Why no file can be made at this path; "": one can, in a folder that exists or can be made.
std::string why_no_files_in(const std::string& folder) {
  std::filesystem::path there = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (!std::filesystem::is_directory(there, error)) return there.string() + " is no folder";
  return access(there.c_str(), W_OK | X_OK) == 0 ? "" : std::generic_category().message(errno);
}

// What the code of recursive models runs in, under the names of the configuration. The interpreter
// is told also where no sandbox works.
void tell_sandbox(json::Object& report, const config::ServerConfig& server,
                  const rlm::SandboxOptions& options) {
  const auto sandbox = rlm::Sandbox::open(options);
  if (sandbox) {
    report.set("sandbox", rlm::tier_name((*sandbox)->tier()));
  } else {
    report.set("error", sandbox.error().message);
  }
  const auto python = sandbox ? Expected<rlm::Interpreter>((*sandbox)->interpreter())
                              : rlm::look_at_interpreter(options);
  if (python) {
    report.set("python", python->version);
    report.set("repl_python", python->program);
    const std::vector<std::string> imports = rlm::imports_of(python->packages);
    json::Array installed;
    json::Array missing;
    for (const rlm::Package& package : python->packages) {
      (package.is_installed ? installed : missing).emplace_back(package.name);
    }
    report.set("repl_packages", std::move(installed));
    if (!imports.empty()) report.set("imports", json::Array(imports.begin(), imports.end()));
    if (!missing.empty()) report.set("repl_packages_missing", std::move(missing));
  }
  report.set("repl_memory_mb", server.repl_memory_mb);
  report.set("repl_folder_mb", server.repl_folder_mb);
}

// A report about a model that was loaded, or about why it was not.
json::Object report_of(const config::ModelConfig& config, const config::Config& all) {
  json::Object report{{"model", config.name}, {"engine", config.engine}};
  if (config.urls.size() == 1) report.set("url", config.urls.front());
  if (config.urls.size() > 1) {
    report.set("url", json::Array(config.urls.begin(), config.urls.end()));
  }
  if (config.engine == "rlm") {
    const rlm::RecursiveOptions options = config::recursive_options(config);
    const rlm::RunLimits& limits = options.limits;
    report.set("root", config.root);
    report.set("sub", config.sub.empty() ? config.root : config.sub);
    json::Object limited{{"max_iterations", limits.max_iterations},
                         {"max_depth", limits.max_depth},
                         {"max_sub_calls", limits.max_sub_calls},
                         {"max_concurrent_sub_calls", limits.max_concurrent},
                         {"max_time_s", seconds_of(limits.max_time)},
                         {"cell_timeout_s", seconds_of(limits.cell_timeout)}};
    if (limits.max_tokens > 0) limited.set("max_total_tokens", limits.max_tokens);
    if (limits.max_cost > 0) limited.set("max_cost", limits.max_cost);
    if (limits.max_errors > 0) limited.set("max_errors", limits.max_errors);
    report.set("limits", std::move(limited));
    if (!config.trajectory_dir.empty()) {
      report.set("trajectory_dir", config.trajectory_dir);
      if (const std::string why = why_no_files_in(config.trajectory_dir); !why.empty()) {
        report.set("error", config.trajectory_dir + ": " + why);
        return report;
      }
    }
    rlm::SandboxOptions sandbox = config::sandbox_options(all);
    sandbox.unsafe_local = config.unsafe_local;
    tell_sandbox(report, all.server, sandbox);
    return report;
  }
  if (config.code_execution) {
    rlm::SandboxOptions sandbox = config::sandbox_options(all);
    sandbox.unsafe_local = false;  // the code of such a model runs in no tier but a confining one
    tell_sandbox(report, all.server, sandbox);
    if (report.contains("error")) return report;
  }
  const auto model = config::load_model(config);
  if (!model) {
    report.set("error", model.error().message);
    return report;
  }
  const engine::Capabilities& can = (*model)->capabilities();
  const format::Format* format = (*model)->format();
  report.set("context_tokens", can.context_tokens == 0
                                   ? json::Value()
                                   : json::Value(std::uint64_t{can.context_tokens}));
  report.set("max_concurrent", std::uint64_t{can.max_concurrent});
  if (can.assumes_concurrent) report.set("max_concurrent_is", "assumed");
  report.set("holding", engine::constrained_by_name(can.constrained_by));
  report.set("prompt", engine::takes_name(can.takes));
  if (const engine::Engine* engine = (*model)->engine()) {
    report.set("vocabulary", std::uint64_t{engine->tokenizer().size()});
    report.set("chat_template", !engine->chat_template().empty());
  }
  // If no format is named, the server's own parser reads calls in its model's format, and calls
  // that it leaves in the text are read in all forms.
  const bool is_its_own = can.takes == engine::Takes::messages && config.tool_call_format.empty() &&
                          config.definition == nullptr;
  report.set("tool_call_format", format == nullptr || is_its_own
                                     ? json::Value()
                                     : json::Value(format::info(*format).name));
  if (config.urls.size() > 1) report.set("servers", servers_of((*model)->stats()));
  if (!config.mcp.empty()) {
    const auto entries = config::read_servers(config.mcp);
    if (!entries) {
      report.set("error", entries.error().message);
    } else {
      report.set("tool_servers", tool_servers_of(*entries));
    }
  }
  return report;
}

// A pool of which one server is away answers all the same, and so does a model without the tools of
// a faulty entry, but they are told as not whole.
bool is_whole(const json::Object& report) {
  const auto is_well = [&report](std::string_view list) {
    const json::Value* const servers = report.find(list);
    return servers == nullptr ||
           std::ranges::all_of(*servers->if_array(), [](const json::Value& server) {
             return server.find("error") == nullptr;
           });
  };
  return !report.contains("error") && is_well("servers") && is_well("tool_servers");
}

void print_doctor(const json::Object& report) {
  for (const json::Member& member : report) {
    const std::string* text = member.value.if_string();
    const std::string value = text != nullptr          ? *text
                              : member.value.is_null() ? "not known"
                                                       : json::to_string(member.value);
    std::cout << (member.key == "model" ? "" : "  ") << member.key << ": "
              << shown(value, STDOUT_FILENO) << '\n';
  }
}

OrComplaint<config::Config> config_of(const DoctorOptions& options) {
  if (options.config.empty()) {
    auto one = config::model_from_path(options.model, fetch_view());
    if (!one) return complaint(one.error());
    config::Config config;
    config.models.push_back(*std::move(one));
    return config;
  }
  auto config = config::read_config(options.config);
  if (!config) return complaint(config.error());
  return *std::move(config);
}

int run_doctor(const DoctorOptions& options) {
  const auto read = config_of(options);
  if (!read) return complain(read.error());
  bool are_all_there = true;
  for (const config::ModelConfig& config : read->models) {
    const json::Object report = report_of(config, *read);
    are_all_there = are_all_there && is_whole(report);
    if (options.json) {
      std::cout << json::to_string(report) << std::endl;
    } else {
      print_doctor(report);
    }
  }
  return are_all_there ? kOk : kEngine;
}

}  // namespace

Command add_doctor(App tenon) {
  const App app = tenon.add_subcommand(
      "doctor", "Loads each model of a configuration and says what its engine can do");
  auto options = std::make_shared<DoctorOptions>();
  const Option config =
      app.add_option("--config", options->config, "The configuration (tenon.toml)");
  app.add_option("--model", options->model, "A GGUF file; default: the bundled model")
      .excludes(config);
  app.add_flag("--json", options->json, "One JSON object per line and model");
  app.footer(
      "Exit status 4 where a model, or one of its servers, is not there, or where its file of\n"
      "mcpServers has a faulty entry; the others are told all the same.\n"
      "Example:\n  tenon doctor --config tenon.toml");
  return {app, [options] { return run_doctor(*options); }};
}

}  // namespace tenon::app
