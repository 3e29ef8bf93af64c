#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "fetch_view.h"
#include "logging.h"
#include "telemetry.h"
#include <fcntl.h>
#include <unistd.h>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/config/config.h"
#include "tenon/config/files.h"
#include "tenon/config/instance.h"
#include "tenon/config/models.h"
#include "tenon/config/reload.h"

// How `tenon serve` runs
//
// The main thread blocks all signals first, so that every thread inherits that and only this one
// takes them, by sigwaitinfo(). Then: read the configuration (a model may be fetched), start
// logging, crash reports and telemetry, open the instance, listen, load the models. From then on it
// waits (wait_for_stop): SIGHUP reloads, another signal ends. Everything that may take long runs in
// do_or_exit(), which keeps looking for signals: a second Ctrl-C always ends the program at once.

namespace tenon::app {
namespace {

/// What the command line and the environment say; both override tenon.toml.
struct ServeOptions {
  std::string config;
  std::optional<std::string> host;
  std::optional<std::int64_t> port;
  std::optional<std::string> api_keys_file;
  std::optional<std::string> record;
  std::optional<std::string> log_level;
  std::string model;
  std::string hub;     // of the Hugging Face hub, without "hf:"
  std::string ollama;  // of Ollama's store, without "ollama:"
  std::string name;
  std::string chat_template;
  std::string format;
  std::optional<std::int64_t> context_tokens;
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> gpu_layers;
};

template <class T, class U>
void override_with(T& setting, const std::optional<U>& option) {
  if (option) setting = *option;
}

// `name` with `prefix` before it, unless it has the prefix already.
std::string prefixed(std::string_view prefix, const std::string& name) {
  return name.starts_with(prefix) ? name : std::string(prefix) + name;
}

// The model that --model, --hf or --ollama names.
std::string model_of(const ServeOptions& options) {
  if (!options.hub.empty()) return prefixed("hf:", options.hub);
  return options.ollama.empty() ? options.model : prefixed("ollama:", options.ollama);
}

// --model and its options replace all models of the file.
OrComplaint<void> choose_models(const ServeOptions& options, App app, config::Config& config) {
  const std::string chosen = model_of(options);
  if (chosen.empty() && !config.models.empty()) {
    return refuse_options(
        app, {"--name", "--chat-template", "--format", "--context", "--threads", "--gpu-layers"},
        "without --model: the models of " + options.config +
            " have settings of their own; change these there, or name a file with --model");
  }
  auto model = config::model_from_path(chosen, fetch_view());
  if (!model) return complaint(model.error());
  if (!options.name.empty()) model->name = options.name;
  model->chat_template = options.chat_template;
  model->tool_call_format = options.format;
  override_with(model->context_tokens, options.context_tokens);
  override_with(model->threads, options.threads);
  override_with(model->gpu_layers, options.gpu_layers);
  config.models = {*std::move(model)};
  return {};
}

// HOST and PORT are those of docs/requirements.md, 004. Other programs set them for purposes of
// their own, so they count only if neither a flag nor the configuration sets the value.
void take_plain_variables(config::ServerConfig& server) {
  const config::ServerConfig standard;
  const char* const host = std::getenv("HOST");
  if (host != nullptr && *host != '\0' && server.host == standard.host) server.host = host;
  const char* const port = std::getenv("PORT");
  if (port == nullptr || *port == '\0' || server.port != standard.port) return;
  char* end = nullptr;
  const long number = std::strtol(port, &end, 10);
  if (*end == '\0' && number >= 0 && number <= 65'535) server.port = number;
}

OrComplaint<config::Config> configure(const ServeOptions& options, App app) {
  config::Config config;
  if (!options.config.empty()) {
    auto read = config::read_config(options.config);
    if (!read) return complaint(read.error());
    config = *std::move(read);
  }
  // Flags and TENON_* variables come last, since they win.
  take_plain_variables(config.server);
  override_with(config.server.host, options.host);
  override_with(config.server.port, options.port);
  override_with(config.server.api_keys_file, options.api_keys_file);
  override_with(config.server.record, options.record);
  override_with(config.server.log_level, options.log_level);
  if (auto chosen = choose_models(options, app, config); !chosen) {
    return Failure<Complaint>(chosen.error());
  }
  return config;
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// The signals that end us, and SIGHUP unless it was ignored when we were started, as by nohup.
sigset_t all_signals() {
  sigset_t set = stop_signals();
  sigaddset(&set, SIGHUP);
  return set;
}

// Runs `work` on a thread of its own. A signal meanwhile ends the program at once, with the status
// from `status_of`; so does the end of `most`, as signal 0. It uses _Exit(), since destructors
// would wait for the work.
template <class Work, class StatusOf>
auto do_or_exit(const sigset_t& signals, Work work, StatusOf status_of,
                std::chrono::seconds most = std::chrono::hours(24 * 365)) {
  constexpr std::chrono::milliseconds kMoment{20};
  constexpr timespec kNow{};
  const auto latest = std::chrono::steady_clock::now() + most;
  auto done = std::async(std::launch::async, [work = std::move(work)]() mutable {
    const crash::ThreadStack stack;
    return work();
  });
  while (done.wait_for(kMoment) != std::future_status::ready) {
    if (std::chrono::steady_clock::now() >= latest) std::_Exit(status_of(0));
    if (const int signal = sigtimedwait(&signals, nullptr, &kNow); signal > 0) {
      std::_Exit(status_of(signal));
    }
  }
  return done.get();
}

std::string_view name_of(int signal) {
  if (signal == SIGHUP) return "SIGHUP";
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

// Reloads at every SIGHUP, one after the other, on a thread of its own, until another signal comes,
// which it returns. A SIGHUP because the terminal is gone counts as such a signal.
int wait_for_stop(config::Reloader& reloader, chat::ModelRegistry& models,
                  std::future<void>& reloading) {
  const bool had_terminal = has_terminal();
  const sigset_t signals = all_signals();
  constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 200'000'000};
  bool wants_more = false;  // a SIGHUP came during a reload
  bool sweeps = false;      // replaced models are still in use
  while (true) {
    // Nothing is under way, so it can wait for a signal without a time limit.
    const bool is_idle = !reloading.valid() && !sweeps;
    const int signal =
        is_idle ? sigwaitinfo(&signals, nullptr) : sigtimedwait(&signals, nullptr, &kMoment);
    if (signal > 0 && (signal != SIGHUP || (had_terminal && !has_terminal()))) return signal;
    wants_more = wants_more || signal == SIGHUP;
    if (reloading.valid()) {
      if (reloading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
      reloading.get();
    }
    // Models that a reload has replaced are freed here once their last request is over.
    sweeps = models.sweep() > 0;
    if (std::exchange(wants_more, false)) {
      reloading = std::async(std::launch::async, [&reloader] {
        const crash::ThreadStack stack;
        reloader.reload();
      });
    }
  }
}

// "": crash reports go to stderr alone.
std::string crash_folder(const config::ServerConfig& server) {
  if (!server.crash_reports) return {};
  if (!server.crash_dir.empty()) return server.crash_dir;
  const std::string state = config::state_folder();
  return state.empty() ? state : state + "/crashes";
}

// From here on crashes are reported. Reports of earlier runs are mentioned until they are removed.
OrComplaint<void> report_crashes(const config::ServerConfig& server) {
  const std::string folder = crash_folder(server);
  std::error_code failure;
  // A folder that the configuration names must exist or be made now; the default one is made by the
  // first crash.
  if (!server.crash_dir.empty() && server.crash_reports) {
    std::filesystem::create_directories(folder, failure);
    if (failure || ::access(folder.c_str(), W_OK) != 0) {
      return complaint(kBadInput,
                       "server.crash_dir: " + folder + " is no folder that can be written");
    }
  }
  crash::report({.version = std::string(kVersion), .folder = folder});
  const std::vector<std::string> reports =
      folder.empty() ? std::vector<std::string>() : crash::reports_in(folder);
  if (!reports.empty()) {
    log::warn("the server has crashed before: " + std::to_string(reports.size()) +
              " reports are in " + folder + ", the last one is " + reports.back() +
              "; remove them once they are read");
  }
  return {};
}

int run_serve(const ServeOptions& options, App app) {
  // Before any thread is started, so that all of them inherit the blocked signals.
  const sigset_t all = all_signals();
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const sigset_t signals = stop_signals();

  // A model may have to be fetched.
  auto config = do_or_exit(
      signals, [&] { return configure(options, app); },
      [](int signal) {
        return complain(
            {kSignal + signal, std::string(name_of(signal)) + " came while the model was fetched"});
      });
  if (!config) return complain(config.error());
  if (Status started = start_logging(config->server.log_level); !started) {
    return complain({kBadInput, started.error().message});
  }
  if (auto reported = report_crashes(config->server); !reported) {
    return complain(reported.error());
  }
  if (Status reach = config::check_reach(config->server); !reach) return complain(reach.error());
  auto telemetry = Telemetry::start(config->telemetry);
  if (!telemetry) return complain(telemetry.error());
  auto instance = config::Instance::open(*std::move(config));
  if (!instance) return complain(instance.error());
  // Before the models are loaded, so that a port that is taken fails at once, and probes get
  // "loading".
  if (Status listening = (*instance)->listen(); !listening) return complain(listening.error());
  const Status loaded = do_or_exit(
      signals, [&] { return (*instance)->load_models(); },
      [](int signal) {
        return complain({kSignal + signal,
                         std::string(name_of(signal)) + " came while the models were loaded"});
      });
  if (!loaded) return complain(loaded.error());

  std::cout << "Tenon " << kVersion << " is ready: " << (*instance)->base_url() << "/v1"
            << std::endl;
  const auto read = [&]() -> Expected<config::Config> {
    auto again = configure(options, app);
    if (!again) return Unexpected(Error{Errc::invalid, std::move(again.error().message)});
    return *std::move(again);
  };
  // The configuration was checked, so the level is valid.
  const auto set_log_level = [](std::string_view level) {
    static_cast<void>(start_logging(level));
  };
  config::Reloader reloader({.read = read, .set_log_level = set_log_level, .instance = **instance});
  std::future<void> reloading;
  const int signal = wait_for_stop(reloader, (*instance)->service().models(), reloading);
  log::info("stopping on " + std::string(name_of(signal)));
  // While a reload is under way its Reloader must not be read.
  const std::int64_t grace = reloading.valid() ? (*instance)->config().server.drain_timeout_s
                                               : reloader.server().drain_timeout_s;
  // A second signal ends the program at once.
  do_or_exit(
      signals, [&] { (*instance)->shut_down(std::chrono::seconds(grace)); },
      [](int) { return kOk; });
  do_or_exit(signals, [&] { telemetry->stop(); }, [](int) { return kOk; });
  // A model that is being loaded or a grammar that is being compiled is not needed any more.
  constexpr std::chrono::seconds kTidyUp{1};
  const auto tidy_up = [&] {
    if (reloading.valid()) reloading.wait();
    instance->reset();
  };
  do_or_exit(signals, tidy_up, [](int) { return kOk; }, kTidyUp);
  return kOk;
}

}  // namespace

Command add_serve(App tenon) {
  const App app = tenon.add_subcommand("serve", "Serves models over an OpenAI-compatible API");
  auto options = std::make_shared<ServeOptions>();
  app.add_option("--config", options->config, "tenon.toml").envname("TENON_CONFIG");
  app.add_option("--host", options->host, "Address to listen on (default 127.0.0.1)")
      .envname("TENON_HOST");
  app.add_option("--port", options->port, "Port (default 8080; 0: any free one)")
      .envname("TENON_PORT")
      .between(0, 65'535);
  app.add_option("--api-keys", options->api_keys_file,
                 "File with the hashes of API keys, see `tenon key`")
      .envname("TENON_API_KEYS_FILE");
  app.add_option(
      "--record", options->record,
      "Folder: keep there what happens in each answer, for `tenon replay` and /inspector");
  app.add_option("--log-level", options->log_level, "trace, debug, info, warn or error")
      .envname("TENON_LOG_LEVEL");
  const Option model =
      app.add_option("--model", options->model,
                     "GGUF file, instead of the models of the configuration (default: those, else "
                     "the bundled one)");
  const Option hub = app.add_option("--hf", options->hub,
                                    "Instead: a model of the Hugging Face hub, fetched if it is "
                                    "not here, see `tenon pull`")
                         .type_name("OWNER/REPO[:QUANT]")
                         .excludes(model);
  app.add_option("--ollama", options->ollama, "Instead: a model of Ollama's store")
      .type_name("NAME[:TAG]")
      .excludes(model)
      .excludes(hub);
  app.add_option("--name", options->name, "Name by which clients ask for --model");
  app.add_option("--chat-template", options->chat_template, "Template file for --model");
  app.add_option(
      "--format,--tool-call-parser", options->format,
      "Tool-call format of --model (default: what its genai_config.json says, else detected)");
  app.add_option("--context", options->context_tokens, "Context of --model in tokens")
      .between(16, 1 << 30);
  app.add_option("--threads", options->threads, "CPU threads for --model").between(1, 4096);
  app.add_option("--gpu-layers", options->gpu_layers,
                 "Layers of --model on the GPU (default: all, where there is one)")
      .between(-1, 100'000);
  app.footer(
      "Flags beat TENON_* variables, which beat the configuration.\n"
      "Example:\n  tenon serve --model model.gguf --port 8080\n"
      "  tenon serve --hf bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M\n"
      "  curl http://127.0.0.1:8080/v1/models");
  return {app, [options, app] { return run_serve(*options, app); }};
}

}  // namespace tenon::app
