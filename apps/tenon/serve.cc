#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "config.h"
#include "files.h"
#include "logging.h"
#include "models.h"
#include "reload.h"
#include "user_formats.h"
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "tenon/api/service.h"
#include "tenon/base/log.h"
#include "tenon/http/server.h"
#include "tenon/store/response_store.h"

namespace tenon::app {
namespace {

/// What the command line and the environment say; both beat tenon.toml.
struct Options {
  std::string config;
  std::optional<std::string> host;
  std::optional<std::int64_t> port;
  std::optional<std::string> api_keys_file;
  std::optional<std::string> log_level;
  std::string model;
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

// --model and what belongs to it stand for all models of the file.
OrComplaint<void> choose_models(const Options& options, const CLI::App& app, Config& config) {
  if (options.model.empty() && !config.models.empty()) {
    return refuse_options(
        app, {"--name", "--chat-template", "--format", "--context", "--threads", "--gpu-layers"},
        "without --model: the models of " + options.config +
            " have settings of their own; change these there, or name a file with --model");
  }
  auto model = model_from_path(options.model);
  if (!model) return Failure<Complaint>(model.error());
  if (!options.name.empty()) model->name = options.name;
  model->chat_template = options.chat_template;
  model->tool_call_format = options.format;
  override_with(model->context_tokens, options.context_tokens);
  override_with(model->threads, options.threads);
  override_with(model->gpu_layers, options.gpu_layers);
  config.models = {*std::move(model)};
  return {};
}

// HOST and PORT, as document 004 has them. Others set them for purposes of their own, so they count
// only where nobody says anything else.
void take_plain_variables(ServerConfig& server) {
  const ServerConfig standard;
  const char* const host = std::getenv("HOST");
  if (host != nullptr && *host != '\0' && server.host == standard.host) server.host = host;
  const char* const port = std::getenv("PORT");
  if (port == nullptr || *port == '\0' || server.port != standard.port) return;
  char* end = nullptr;
  const long number = std::strtol(port, &end, 10);
  if (*end == '\0' && number >= 0 && number <= 65'535) server.port = number;
}

OrComplaint<Config> configure(const Options& options, const CLI::App& app) {
  Config config;
  if (!options.config.empty()) {
    auto read = read_config(options.config);
    if (!read) return complaint(kBadInput, read.error().message);
    config = *std::move(read);
  }
  take_plain_variables(config.server);
  override_with(config.server.host, options.host);
  override_with(config.server.port, options.port);
  override_with(config.server.api_keys_file, options.api_keys_file);
  override_with(config.server.log_level, options.log_level);
  if (auto chosen = choose_models(options, app, config); !chosen) {
    return Failure<Complaint>(chosen.error());
  }
  return config;
}

OrComplaint<chat::ModelRegistry> load_models(const Config& config,
                                             const std::shared_ptr<rlm::Host>& host) {
  if (auto loaded = load_formats(config.server.format_files); !loaded) {
    return Failure<Complaint>(loaded.error());
  }
  const std::chrono::seconds limit(config.server.request_timeout_s);
  const auto most = static_cast<std::uint64_t>(config.server.max_model_bytes);
  chat::ModelRegistry registry({.max_bytes = most});
  std::uint64_t at_start = 0;
  for (const ModelConfig& model : config.models) {
    auto source = model_source(model, limit, host);
    if (!source) return Failure<Complaint>(source.error());
    if (model.load == "start") at_start += source->memory_bytes;
    if (Status added = registry.add(*std::move(source)); !added) {
      return complaint(kBadInput, added.error().message);
    }
  }
  if (most > 0 && at_start > most) {
    return complaint(kBadInput,
                     "the models that are loaded at the start take " + std::to_string(at_start) +
                         " bytes, but server.max_model_bytes is " + std::to_string(most) +
                         ": give some of them load = \"first_use\"");
  }
  for (const ModelConfig& model : config.models) {
    if (model.load != "start") continue;
    if (auto loaded = registry.use(model.name); !loaded) {
      const auto& [error, param, code, detail] = loaded.error();
      return complaint(error.code == Errc::invalid ? kBadInput : kEngine,
                       detail.empty() ? error.message : detail);
    }
  }
  return registry;
}

// Null: the service keeps them in memory.
OrComplaint<std::shared_ptr<store::ResponseStore>> open_store(const ServerConfig& config) {
  if (config.store.empty()) return std::shared_ptr<store::ResponseStore>();
  constexpr std::uint64_t kMostDocuments = 1'000'000;
  auto opened =
      store::ResponseStore::open({.path = config.store,
                                  .max_bytes = static_cast<std::uint64_t>(config.store_max_bytes),
                                  .max_documents = kMostDocuments,
                                  .ttl = std::chrono::seconds(config.store_ttl_s),
                                  .now = {}});
  if (!opened) return complaint(kBadInput, "server.store: " + opened.error().message);
  return std::shared_ptr<store::ResponseStore>(*std::move(opened));
}

http::ServerOptions server_options(const ServerConfig& config) {
  return {.host = config.host,
          .port = static_cast<std::uint16_t>(config.port),
          .threads = static_cast<unsigned>(config.threads),
          .max_body_bytes = static_cast<std::size_t>(config.max_body_bytes),
          .max_connections = static_cast<std::size_t>(config.max_connections),
          .tls_certificate_file = config.tls_certificate_file,
          .tls_key_file = config.tls_key_file};
}

std::string base_url(const ServerConfig& config, std::uint16_t port) {
  const bool is_ipv6 = config.host.find(':') != std::string::npos;
  return (config.tls_key_file.empty() ? "http://" : "https://") +
         (is_ipv6 ? "[" + config.host + "]" : config.host) + ":" + std::to_string(port);
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// And SIGHUP, unless whoever started us has it ignored, as nohup does.
sigset_t all_signals() {
  sigset_t set = stop_signals();
  sigaddset(&set, SIGHUP);
  return set;
}

// Does `work` on a thread of its own. A signal meanwhile ends the program at once, with the status
// that `status_of` gives, as it does (for signal 0) once `most` is over.
template <class Work, class StatusOf>
auto do_or_exit(const sigset_t& signals, Work work, StatusOf status_of,
                std::chrono::seconds most = std::chrono::hours(24 * 365)) {
  constexpr std::chrono::milliseconds kMoment{20};
  constexpr timespec kNow{};
  const auto latest = std::chrono::steady_clock::now() + most;
  auto done = std::async(std::launch::async, std::move(work));
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

OrComplaint<std::unique_ptr<http::Server>> listen(const ServerConfig& config,
                                                  api::Service& service) {
  auto server = http::Server::start(
      server_options(config),
      [&](std::shared_ptr<http::Exchange> exchange) { service.handle(std::move(exchange)); },
      [&](unsigned, std::string_view code, std::string_view message, std::string_view path) {
        return service.error(code, message, path);
      });
  if (server) return *std::move(server);
  const bool is_system = server.error().code == Errc::unavailable;
  return complaint(is_system ? kEngine : kBadInput, server.error().message);
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

// Reloads at every SIGHUP, one after the other, on a thread of its own, until another signal comes;
// gives that. A SIGHUP with which the terminal goes is such a signal.
int wait_for_stop(Reloader& reloader, api::Service& service, std::future<void>& reloading) {
  const bool had_terminal = has_terminal();
  const sigset_t signals = all_signals();
  constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 200'000'000};
  bool wants_more = false;  // a SIGHUP came while one was being done
  bool sweeps = false;      // models that were replaced are still in use
  while (true) {
    const bool is_idle = !reloading.valid() && !sweeps;
    const int signal =
        is_idle ? sigwaitinfo(&signals, nullptr) : sigtimedwait(&signals, nullptr, &kMoment);
    if (signal > 0 && (signal != SIGHUP || (had_terminal && !has_terminal()))) return signal;
    wants_more = wants_more || signal == SIGHUP;
    if (reloading.valid()) {
      if (reloading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
      reloading.get();
    }
    sweeps = service.models().sweep() > 0;
    if (std::exchange(wants_more, false)) {
      reloading = std::async(std::launch::async, [&reloader] { reloader.reload(); });
    }
  }
}

// Lets the answers under way end within the grace, unless a second signal comes; those that have
// not are told why they are cut.
void stop(http::Server& server, api::Service& service, const sigset_t& signals,
          std::chrono::seconds grace) {
  constexpr std::chrono::seconds kLastWords{2};
  const auto work = [&] {
    if (!server.drain(grace)) service.cut_answers();
    server.stop(kLastWords);
  };
  do_or_exit(signals, work, [](int) { return kOk; });
}

int run(const Options& options, const CLI::App& app) {
  // Before any thread is made, so that all of them leave these signals to us.
  const sigset_t all = all_signals();
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const sigset_t signals = stop_signals();

  auto config = configure(options, app);
  if (!config) return complain(config.error());
  if (Status started = start_logging(config->server.log_level); !started) {
    return complain({kBadInput, started.error().message});
  }
  log::set_contents(config->server.log_contents);
  auto access = read_access(config->server);
  if (!access) return complain(access.error());

  auto store = open_store(config->server);
  if (!store) return complain(store.error());
  const auto port = static_cast<std::uint16_t>(config->server.port);
  const std::shared_ptr<rlm::Host> host = make_host(*config);
  auto service = std::make_unique<api::Service>(
      api::ServiceOptions{.access = *std::move(access),
                          .version = std::string(kVersion),
                          .base_url = base_url(config->server, port),
                          .max_waiting = static_cast<std::size_t>(config->server.max_connections),
                          .time_limit = std::chrono::seconds(config->server.request_timeout_s),
                          .store = *std::move(store),
                          .pairs = pair_model(*config, host),
                          .sandbox_tier = [host] { return host->tier(); }});
  auto server = listen(config->server, *service);
  if (!server) return complain(server.error());
  auto models = do_or_exit(
      signals, [&] { return load_models(*config, host); },
      [](int signal) {
        return complain({kSignal + signal,
                         std::string(name_of(signal)) + " came while the models were loaded"});
      });
  if (!models) return complain(models.error());
  service->set_models(*std::move(models));
  connect(*host, service->models());

  std::cout << "Tenon " << kVersion << " is ready: " << base_url(config->server, (*server)->port())
            << "/v1" << std::endl;
  Reloader reloader({.read = [&] { return configure(options, app); },
                     .running = *config,
                     .service = *service,
                     .server = **server,
                     .host = host});
  std::future<void> reloading;
  const int signal = wait_for_stop(reloader, *service, reloading);
  log::info("stopping on " + std::string(name_of(signal)));
  const std::int64_t grace =
      reloading.valid() ? config->server.drain_timeout_s : reloader.server().drain_timeout_s;
  stop(**server, *service, signals, std::chrono::seconds(grace));
  // Nobody waits any more for a model that is being loaded or a grammar that is compiled.
  constexpr std::chrono::seconds kTidyUp{1};
  const auto tidy_up = [&] {
    if (reloading.valid()) reloading.wait();
    server->reset();
    host->close();  // its runs use the models
    service.reset();
  };
  do_or_exit(signals, tidy_up, [](int) { return kOk; }, kTidyUp);
  return kOk;
}

}  // namespace

Command add_serve(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("serve", "Serves models over an OpenAI-compatible API");
  auto options = std::make_shared<Options>();
  app->add_option("--config", options->config, "tenon.toml")->envname("TENON_CONFIG");
  app->add_option("--host", options->host, "Address to listen on (default 127.0.0.1)")
      ->envname("TENON_HOST");
  app->add_option("--port", options->port, "Port (default 8080; 0: any free one)")
      ->envname("TENON_PORT")
      ->check(CLI::Range(0, 65'535));
  app->add_option("--api-keys", options->api_keys_file,
                  "File with the hashes of API keys, see `tenon key`")
      ->envname("TENON_API_KEYS_FILE");
  app->add_option("--log-level", options->log_level, "trace, debug, info, warn or error")
      ->envname("TENON_LOG_LEVEL");
  app->add_option("--model", options->model,
                  "GGUF file, instead of the models of the configuration (default: those, else the "
                  "bundled one)");
  app->add_option("--name", options->name, "Name by which clients ask for --model");
  app->add_option("--chat-template", options->chat_template, "Template file for --model");
  app->add_option(
      "--format,--tool-call-parser", options->format,
      "Tool-call format of --model (default: what its genai_config.json says, else detected)");
  app->add_option("--context", options->context_tokens, "Context of --model in tokens")
      ->check(CLI::Range(16, 1 << 30));
  app->add_option("--threads", options->threads, "CPU threads for --model")
      ->check(CLI::Range(1, 4096));
  app->add_option("--gpu-layers", options->gpu_layers,
                  "Layers of --model on the GPU (default: all, where there is one)")
      ->check(CLI::Range(-1, 100'000));
  app->footer(
      "Flags beat TENON_* variables, which beat the configuration.\n"
      "Example:\n  tenon serve --model model.gguf --port 8080\n"
      "  curl http://127.0.0.1:8080/v1/models");
  return {app, [options, app] { return run(*options, *app); }};
}

}  // namespace tenon::app
