#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/api/service.h"
#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/config/config.h"
#include "tenon/http/local_exchange.h"
#include "tenon/http/message.h"
#include "tenon/http/server.h"
#include "tenon/rlm/host.h"

namespace tenon::config {

/// The models of a configuration in this process, behind the API of docs/api.md. This process asks
/// it directly, with or without a port; others ask it by HTTP.
///
///     auto instance = Instance::open(*read_config("tenon.toml"));
///     Status loaded = (*instance)->load_models();   // from here on it is ready
///     auto answer = (*instance)->ask("POST", "/v1/chat/completions", body);
///     while (auto piece = answer->next()) out += *piece;
///     Status open = (*instance)->listen();          // others can ask, as [server] says
///
/// Thread-safe, except load_models() and the destructor.
class Instance {
 public:
  /// Opens what the configuration keeps on disk, and loads no model. Fails if a file that it names
  /// cannot be read. Also sets whether log lines show contents.
  [[nodiscard]] static Expected<std::unique_ptr<Instance>> open(Config config);
  /// Ends the answers under way.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Loads the models that load at the start, which takes seconds or minutes, and adds the others.
  /// Call it once; until then every request is answered 503, except those about readiness. Fails
  /// with `unavailable` if an engine does, with another code if the configuration is wrong.
  [[nodiscard]] Status load_models();

  /// Answers a request of this process, which needs no API key. `path` may have a query.
  [[nodiscard]] std::unique_ptr<http::LocalAnswer> ask(std::string method, std::string_view path,
                                                       std::string body);
  /// A responder for the model, or pair of models, that requests call `name`; "": the only model.
  /// Each request looks the model up and loads it if needed. The instance must outlive it. Call it
  /// after load_models(). Fails with `invalid` if there is no model of that name.
  [[nodiscard]] Expected<std::shared_ptr<chat::Responder>> responder(std::string_view name);

  /// Listens where the configuration says. Fails with `unavailable` if the system does, with
  /// `invalid` if it listens already, or if others could reach it without a key.
  [[nodiscard]] Status listen();
  /// The same, at another address; port 0: any free one.
  [[nodiscard]] Status listen(std::string host, std::uint16_t port);
  /// Where it listens: "http://127.0.0.1:8080"; "" if it does not listen.
  [[nodiscard]] std::string base_url() const;
  /// Lets HTTP answers end within `grace`, cuts the rest, and closes the port.
  void stop_listening(std::chrono::milliseconds grace);
  /// The same for good: answers that do not end within `grace` end with an error that says why, and
  /// no request is answered any more.
  void shut_down(std::chrono::milliseconds grace);

  /// The configuration with which it was opened.
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] api::Service& service() { return *service_; }
  [[nodiscard]] const std::shared_ptr<rlm::Host>& host() const { return host_; }
  /// Null if it does not listen.
  [[nodiscard]] std::shared_ptr<http::Server> server() const;

 private:
  explicit Instance(Config config) : config_(std::move(config)) {}

  const Config config_;
  std::shared_ptr<rlm::Host> host_;
  std::shared_ptr<chat::Model> pairs_;  // null: the configuration allows no pairs
  std::unique_ptr<api::Service> service_;
  mutable std::mutex mutex_;
  std::shared_ptr<http::Server> server_;  // guarded by mutex_
  std::string base_url_;                  // guarded by mutex_
};

/// The API keys of `config`'s file.
[[nodiscard]] Expected<api::Access> read_access(const ServerConfig& config);
/// Fails with `invalid` if others could reach `config`'s host and it has no keys.
[[nodiscard]] Status check_reach(const ServerConfig& config);

}  // namespace tenon::config
