#include "tenon/config/instance.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "tenon/api/auth.h"
#include "tenon/api/keys.h"
#include "tenon/base/log.h"
#include "tenon/chat/model_pair.h"
#include "tenon/chat/model_registry.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/config/models.h"
#include "tenon/config/user_formats.h"
#include "tenon/mcp/allow_list.h"
#include "tenon/store/response_store.h"

// A configuration becomes a running service in three steps: open() opens what is on disk (keys,
// store, recordings) and makes the service, load_models() fills its registry, listen() opens the
// port. Until the models are there, the service answers "not ready". The order of members and of
// ~Instance() matters: the server calls the service, and runs of recursive models use its models.

namespace tenon::config {
namespace {

// Null: the service keeps responses in memory.
Expected<std::shared_ptr<store::ResponseStore>> open_store(const ServerConfig& config) {
  if (config.store.empty()) return std::shared_ptr<store::ResponseStore>();
  constexpr std::uint64_t kMostDocuments = 1'000'000;
  auto opened =
      store::ResponseStore::open({.path = config.store,
                                  .max_bytes = static_cast<std::uint64_t>(config.store_max_bytes),
                                  .max_documents = kMostDocuments,
                                  .ttl = std::chrono::seconds(config.store_ttl_s),
                                  .now = {}});
  if (!opened) return at_fault(opened.error(), "server.store: ");
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

std::string base_url_of(const ServerConfig& config, std::uint16_t port) {
  // An IPv6 address stands in brackets in a URL.
  const bool is_ipv6 = config.host.find(':') != std::string::npos;
  return (config.tls_key_file.empty() ? "http://" : "https://") +
         (is_ipv6 ? "[" + config.host + "]" : config.host) + ":" + std::to_string(port);
}

// Adds all models to the registry and loads those of the start. Formats come first, since a model
// may name one. The memory is checked before anything is loaded: it is known for embedded models.
Expected<chat::ModelRegistry> registry_of(const Config& config,
                                          const std::shared_ptr<rlm::Host>& host) {
  if (auto loaded = load_formats(config.server.format_files); !loaded) {
    return Unexpected(std::move(loaded.error()));
  }
  const std::chrono::seconds limit(config.server.request_timeout_s);
  const auto most = static_cast<std::uint64_t>(config.server.max_model_bytes);
  chat::ModelRegistry registry({.max_bytes = most});
  std::uint64_t at_start = 0;
  for (const ModelConfig& model : config.models) {
    auto source = model_source(model, limit, host);
    if (!source) return Unexpected(std::move(source.error()));
    if (model.load == "start") at_start += source->memory_bytes;
    if (Status added = registry.add(*std::move(source)); !added) return at_fault(added.error());
  }
  if (most > 0 && at_start > most) {
    return invalid("the models that are loaded at the start take " + std::to_string(at_start) +
                   " bytes, but server.max_model_bytes is " + std::to_string(most) +
                   ": give some of them load = \"first_use\"");
  }
  for (const ModelConfig& model : config.models) {
    if (model.load != "start") continue;
    if (auto loaded = registry.use(model.name); !loaded) {
      const chat::Refusal& refusal = loaded.error();
      const Error& error = refusal.error;
      // The detail is for the operator; clients get the message without it.
      const std::string& message = refusal.detail.empty() ? error.message : refusal.detail;
      return error.code == Errc::invalid ? invalid(message) : unavailable(message);
    }
  }
  return registry;
}

/// Looks the model up by its name for each request, since a reload may replace it.
class NamedModel final : public chat::Responder {
 public:
  NamedModel(chat::ModelRegistry& models, std::string name)
      : models_(models), name_(std::move(name)) {}
  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    auto model = models_.use(name_);
    if (!model) return Failure<chat::Refusal>(std::move(model.error()));
    return (*model)->start(request, std::move(sink));
  }

 private:
  chat::ModelRegistry& models_;
  const std::string name_;
};

// Null: nothing is recorded.
Expected<std::shared_ptr<record::Recorder>> open_recorder(const ServerConfig& server) {
  if (server.record.empty()) return nullptr;
  auto recorder =
      record::Recorder::open({.folder = server.record,
                              .tenon_version = TENON_VERSION,
                              .max_bytes = static_cast<std::uint64_t>(server.record_max_mb) << 20U,
                              .max_age = std::chrono::hours(24 * server.record_days),
                              .logprobs = static_cast<std::uint32_t>(server.record_logprobs)});
  if (!recorder) return at_fault(recorder.error(), "server.record: ");
  return recorder;
}

}  // namespace

// A file without a key is an error: a server that should have keys would be open to everyone.
Expected<api::Access> read_access(const ServerConfig& config) {
  api::Access access{
      .keys = {}, .cors_origins = config.cors_origins, .allowed_hosts = config.allowed_hosts};
  if (config.api_keys_file.empty()) return access;
  const auto text = read_file(config.api_keys_file);
  if (!text) return at_fault(text.error());
  auto keys = api::ApiKeys::parse(*text);
  if (!keys) return at_fault(keys.error(), config.api_keys_file + ": ");
  if (keys->empty()) {
    return invalid(config.api_keys_file + ": there is no key in it; `tenon key NAME` makes one");
  }
  access.keys = *std::move(keys);
  return access;
}

Status check_reach(const ServerConfig& config) {
  if (!config.api_keys_file.empty() || api::is_loopback(config.host)) return {};
  return invalid("to listen on " + config.host +
                 ", which others can reach, the server needs an API key: make one with `tenon key "
                 "NAME >> FILE`, and name the file by --api-keys or server.api_keys_file");
}

// What may be wrong is opened first; the service is made when nothing can fail any more.
Expected<std::unique_ptr<Instance>> Instance::open(Config config) {
  log::set_contents(config.server.log_contents);
  auto access = read_access(config.server);
  if (!access) return Unexpected(std::move(access.error()));
  auto store = open_store(config.server);
  if (!store) return Unexpected(std::move(store.error()));
  auto recorder = open_recorder(config.server);
  if (!recorder) return Unexpected(std::move(recorder.error()));
  std::unique_ptr<Instance> instance(new Instance(std::move(config)));
  const ServerConfig& server = instance->config_.server;
  instance->host_ = make_host(instance->config_);
  instance->pairs_ = pair_model(instance->config_, instance->host_);
  instance->service_ = std::make_unique<api::Service>(api::ServiceOptions{
      .access = *std::move(access),
      .version = TENON_VERSION,
      .refuses_unknown = server.unknown_fields == "refuse",
      .max_waiting = static_cast<std::size_t>(server.max_connections),
      .time_limit = std::chrono::seconds(server.request_timeout_s),
      .store = *std::move(store),
      .recorder = *std::move(recorder),
      .inspectors = server.inspectors,
      .mcp_allow = *mcp::AllowList::read(server.mcp_allow, server.mcp_allow_private),
      .pairs = instance->pairs_,
      .sandbox_tier = [host = instance->host_] { return host->tier(); }});
  return instance;
}

Instance::~Instance() {
  server_.reset();
  host_->close();  // the runs of the host use the models, so they end first
  service_.reset();
}

Status Instance::load_models() {
  auto models = registry_of(config_, host_);
  if (!models) return Unexpected(std::move(models.error()));
  service_->set_models(*std::move(models));
  connect(*host_, service_->models());
  return {};
}

std::unique_ptr<http::LocalAnswer> Instance::ask(std::string method, std::string_view path,
                                                 std::string body) {
  const std::size_t query = path.find('?');
  http::Request request{.method = std::move(method),
                        .target = std::string(path),
                        .path = std::string(path.substr(0, query)),
                        .body = std::move(body),
                        .peer = "this process"};
  if (query != std::string_view::npos) request.query = path.substr(query + 1);
  auto [exchange, answer] = http::make_local_exchange(std::move(request));
  service_->handle_own(std::move(exchange));
  return std::move(answer);
}

// The same names as requests use: a model, an alias, a pair "root:sub", or "" for the only model.
Expected<std::shared_ptr<chat::Responder>> Instance::responder(std::string_view name) {
  const chat::ModelRegistry& models = service_->models();
  std::string known(name);
  if (known.empty()) {
    const auto entries = models.entries();
    if (entries.size() != 1) return invalid("model is required where there is not just one");
    known = entries.front().name;
  }
  const auto is_single = [&](std::string_view part) { return models.has_single(part); };
  if (models.has(known)) return std::make_shared<NamedModel>(service_->models(), std::move(known));
  if (pairs_ != nullptr && chat::split_pair(known, is_single)) return pairs_;
  return invalid("there is no model '" + known + "'");
}

Status Instance::listen() {
  return listen(config_.server.host, static_cast<std::uint16_t>(config_.server.port));
}

Status Instance::listen(std::string host, std::uint16_t port) {
  ServerConfig place = config_.server;
  place.host = std::move(host);
  place.port = port;
  if (Status reach = check_reach(place); !reach) return reach;
  const std::lock_guard lock(mutex_);
  if (server_ != nullptr) return invalid("it listens already, at " + base_url_);
  auto server = http::Server::start(
      server_options(place),
      [this](std::shared_ptr<http::Exchange> exchange) { service_->handle(std::move(exchange)); },
      [this](unsigned, std::string_view code, std::string_view message, std::string_view path) {
        return service_->error(code, message, path);
      });
  if (!server) {
    // A port that is taken may be free later; everything else is the configuration's fault.
    const bool is_system = server.error().code == Errc::unavailable;
    return is_system ? Unexpected(std::move(server.error())) : at_fault(server.error());
  }
  server_ = *std::move(server);
  base_url_ = base_url_of(place, server_->port());
  return {};
}

std::string Instance::base_url() const {
  const std::lock_guard lock(mutex_);
  return base_url_;
}

std::shared_ptr<http::Server> Instance::server() const {
  const std::lock_guard lock(mutex_);
  return server_;
}

void Instance::stop_listening(std::chrono::milliseconds grace) {
  std::shared_ptr<http::Server> server;
  {
    const std::lock_guard lock(mutex_);
    server = std::move(server_);
    base_url_.clear();
  }
  // Without the lock: it waits for answers, which may ask for the address.
  if (server != nullptr) server->stop(grace);
}

// First the answers may end, for `grace`; then those that are left end with an error. kLastWords is
// the time in which clients get these errors.
void Instance::shut_down(std::chrono::milliseconds grace) {
  constexpr std::chrono::seconds kLastWords{2};
  // A copy: the server must not go while it is drained, and the lock is not held that long.
  const std::shared_ptr<http::Server> listening = server();
  if (listening != nullptr) listening->drain(grace);
  service_->cut_answers();
  if (listening != nullptr) listening->stop(kLastWords);
}

}  // namespace tenon::config
