#include "tenon/rlm/sandbox.h"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"

#include "tenon/config/files.h"
#include "tenon/json/value.h"
#include "tenon/rlm/repl.h"

// `tenon sandbox`: which sandbox works on this machine (check), and a file run in it as a model's
// code would be (run). There is no model, so what the code asks of one gets an error text.

namespace tenon::app {
namespace {

struct SandboxOptions {
  std::string tier;           // only this one; "": the best that works
  std::string python;         // the interpreter; "": one is found
  bool unsafe_local = false;  // without a sandbox where none works
  bool json = false;
  std::vector<std::string> files;
  double wall_s = 30;               // for each file
  std::uint64_t memory_mib = 1024;  // of address space
  std::int64_t cpu_s = 3600;        // of CPU time
  std::vector<std::string> packages;
  std::uint64_t folder_mib = 0;  // 0: no folder
};

// Code in a file has no model to ask.
class NoModels : public rlm::SubCalls {
 public:
  void ask(rlm::SubCall call, Answer answer) override {
    answer(std::vector<std::string>(call.prompts.size(), "Error: there is no model here"));
  }
};

Expected<std::shared_ptr<rlm::Sandbox>> open(const SandboxOptions& options) {
  rlm::SandboxOptions wanted{.python = options.python,
                             .unsafe_local = options.unsafe_local,
                             .packages = options.packages,
                             .folder_bytes = options.folder_mib << 20};
  if (!options.tier.empty()) wanted.only = rlm::tier_named(options.tier);
  return rlm::Sandbox::open(wanted);
}

// The tier that works here, and why no better one does. That no tier works is the answer "no";
// without an interpreter or a package there is no answer.
int check(const SandboxOptions& options) {
  const auto sandbox = open(options);
  if (!sandbox) {
    const bool is_answer = sandbox.error().code == Errc::unsupported;
    return complain({is_answer ? kNegative : kEngine, sandbox.error().message});
  }
  const rlm::Sandbox& found = **sandbox;
  const std::vector<std::string> imports = rlm::imports_of(found.interpreter().packages);
  if (options.json) {
    json::Object report{{"tier", rlm::tier_name(found.tier())},
                        {"python", found.interpreter().version},
                        {"why_no_better", found.why_no_better()}};
    if (!imports.empty()) report.set("packages", json::Array(imports.begin(), imports.end()));
    if (!found.folder().empty()) report.set("folder", found.folder());
    std::cout << json::to_string(report) << '\n';
    return kOk;
  }
  std::cout << "tier: " << rlm::tier_name(found.tier())
            << "\npython: " << found.interpreter().version << '\n';
  for (std::size_t i = 0; i < imports.size(); ++i) {
    std::cout << (i == 0 ? "packages: " : ", ") << imports[i]
              << (i + 1 == imports.size() ? "\n" : "");
  }
  if (!found.folder().empty()) {
    std::cout << "folder: " << found.folder() << ", " << options.folder_mib << " MiB\n";
  }
  if (!found.why_no_better().empty()) {
    std::cout << "why no better: " << found.why_no_better() << '\n';
  }
  return kOk;
}

json::Object report_of(const Expected<rlm::CellResult>& cell) {
  if (!cell) {
    return {{"failure", json::Object{{"code", errc_name(cell.error().code)},
                                     {"message", cell.error().message}}}};
  }
  return {{"out", cell->out},
          {"out_cut", std::uint64_t{cell->out_cut}},
          {"err", cell->err},
          {"err_cut", std::uint64_t{cell->err_cut}},
          {"error", cell->error},
          {"final_answer", cell->final_answer ? json::Value(*cell->final_answer) : json::Value()},
          {"is_timed_out", cell->is_timed_out}};
}

// Output and errors go where the code wrote them; what was cut is told as the model is told of it.
void print_sandbox(const Expected<rlm::CellResult>& cell) {
  if (!cell) {
    complain({kNegative, cell.error().message});
    return;
  }
  std::cout << cell->out;
  if (cell->out_cut > 0) std::cout << "... + [" << cell->out_cut << " chars...]\n";
  std::cout.flush();
  std::cerr << cell->err;
  if (!cell->error.empty()) std::cerr << cell->error << '\n';
}

// Each file runs as one cell, in a worker of its own.
OrComplaint<bool> run_file(const SandboxOptions& options, rlm::Sandbox& sandbox,
                           const std::string& file) {
  const auto code = config::read_input(file);
  if (!code) return complaint(kBadInput, code.error().message);
  auto worker = sandbox.start(
      {.memory_bytes = options.memory_mib << 20, .cpu = std::chrono::seconds(options.cpu_s)});
  if (!worker) return complaint(kEngine, worker.error().message);
  rlm::Repl repl(*std::move(worker));
  NoModels models;
  const auto wall = std::chrono::milliseconds(static_cast<std::int64_t>(options.wall_s * 1000));
  const auto cell = repl.run_cell(*code, models, {.wall = wall});
  if (options.json) {
    json::Object report = report_of(cell);
    report.set("file", file);
    std::cout << json::to_string(report) << std::endl;
  } else {
    print_sandbox(cell);
  }
  return cell && cell->error.empty();
}

int run_sandbox(const SandboxOptions& options) {
  const auto sandbox = open(options);
  if (!sandbox) return complain({kEngine, sandbox.error().message});
  bool is_well = true;
  for (const std::string& file : options.files) {
    const auto ran = run_file(options, **sandbox, file);
    if (!ran) return complain(ran.error());
    is_well = is_well && *ran;
  }
  return is_well ? kOk : kNegative;
}

void add_options(App app, SandboxOptions& options) {
  app.add_option("--tier", options.tier, "Take this tier or none")
      .one_of({"bubblewrap", "landlock", "unsafe_local"});
  app.add_option("--python", options.python, "The interpreter, by its absolute path");
  app.add_flag("--unsafe-local", options.unsafe_local,
               "Where no sandbox works, run the code without one");
  app.add_option("--package", options.packages,
                 "Python package that the code may import; may be repeated")
      .allow_extra_args(false);
  app.add_option("--folder", options.folder_mib,
                 "MiB of a folder that the code may write into; it begins there")
      .between(std::uint64_t{0}, std::uint64_t{65'536});
  app.add_flag("--json", options.json, "As JSON");
}

}  // namespace

Command add_sandbox(App tenon) {
  const App app = tenon.add_subcommand(
      "sandbox", "Tells what keeps the code of recursive models in, and runs a file in it");
  app.require_subcommand(1);
  auto options = std::make_shared<SandboxOptions>();
  const App checking = app.add_subcommand("check", "Tells the tier that works here");
  add_options(checking, *options);
  const App running = app.add_subcommand("run", "Runs Python as one cell of a model would run");
  running
      .add_option("file", options->files,
                  "Python, each file in a process of its own; '-': standard input")
      .required();
  running.add_option("--wall", options->wall_s, "Seconds that it may take").between(0.01, 86400.0);
  running.add_option("--memory", options->memory_mib, "MiB of address space that it may have")
      .between(std::uint64_t{64}, std::uint64_t{1} << 20);
  running.add_option("--cpu", options->cpu_s, "Seconds of CPU time that it may use")
      .between(std::int64_t{1}, std::int64_t{86400});
  add_options(running, *options);
  app.footer("Example:\n  tenon sandbox check\n  echo 'print(6 * 7)' | tenon sandbox run -");
  return {app, [options, checking] {
            return checking.parsed() ? check(*options) : run_sandbox(*options);
          }};
}

}  // namespace tenon::app
