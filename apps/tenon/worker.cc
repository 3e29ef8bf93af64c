#include <iostream>
#include <memory>
#include <string>

#include "command.h"

#include "tenon/engine/llama/rpc_worker.h"

namespace tenon::app {
namespace {

struct WorkerOptions {
  std::string listen = "127.0.0.1:50052";
  int threads = 0;  // 0: one for each core
};

int run_worker(const WorkerOptions& options) {
  std::cerr << "computing for others at " << options.listen
            << "; without encryption or passwords: for closed networks only\n";
  // It serves until it fails.
  const Status ended = engine::run_rpc_worker(options.listen, options.threads);
  const bool is_usage = ended.error().code == Errc::invalid;
  return complain({is_usage ? kUsage : kEngine, ended.error().message});
}

}  // namespace

Command add_worker(App tenon) {
  auto options = std::make_shared<WorkerOptions>();
  const App app = tenon.add_subcommand(
      "worker",
      "Computes layers of a model for a server on another machine, which names it in `rpc`.");
  app.add_option("--listen", options->listen, "host:port").capture_default_str();
  app.add_option("--threads", options->threads, "CPU threads; 0: one for each core")
      .between(0, 512)
      .capture_default_str();
  app.footer(
      "Example: tenon worker --listen 10.0.0.2:50052\n"
      "The protocol is libllama's: anyone who reaches the port controls this process. Keep it on a "
      "closed network.");
  return {app, [options] { return run_worker(*options); }};
}

}  // namespace tenon::app
