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
#include "tenon/chat/responder.h"
#include "tenon/config/config.h"
#include "tenon/http/local_exchange.h"
#include "tenon/http/message.h"
#include "tenon/http/server.h"
#include "tenon/rlm/host.h"

namespace tenon::config {

/// The models of a configuration in this process, behind the API that docs/api.md describes: for
/// this process with or without a port, for others by HTTP.
///
///     auto instance = Instance::open(*read_config("tenon.toml"));
///     Status loaded = (*instance)->load_models();   // from here on it is ready
///     auto answer = (*instance)->ask("POST", "/v1/chat/completions", body);
///     while (auto piece = answer->next()) out += *piece;
///     Status open = (*instance)->listen();          // lets others in, as [server] says
///
/// Thread-safe, but for load_models() and the destructor.
class Instance {
 public:
  /// Opens what the configuration keeps on disk, and loads no model. Fails as reading the files
  /// that it names does. Log lines show contents, or not, as it says.
  [[nodiscard]] static Expected<std::unique_ptr<Instance>> open(Config config);
  /// Ends what is under way.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Loads the models that are to be there from the start, in seconds or minutes, and adds the
  /// others. Once; before, all but what tells that it is not ready is answered 503. Fails with
  /// `unavailable` where an engine does, with another code where the configuration is at fault.
  [[nodiscard]] Status load_models();

  /// Answers a request of this process, which needs no key. `path` may have a query.
  [[nodiscard]] std::unique_ptr<http::LocalAnswer> ask(std::string method, std::string_view path,
                                                       std::string body);
  /// Answers with the model that requests call `name`, or the pair of them; "": the only one that
  /// there is. It is looked up, and loaded, by each request. Outlived by this; not before
  /// load_models(). Fails with `invalid` where there is none of that name.
  [[nodiscard]] Expected<std::shared_ptr<chat::Responder>> responder(std::string_view name);

  /// Listens where the configuration says. Fails with `unavailable` where the system does, with
  /// `invalid` where it listens already, or others could reach it without a key.
  [[nodiscard]] Status listen();
  /// The same, elsewhere; port 0: any free one.
  [[nodiscard]] Status listen(std::string host, std::uint16_t port);
  /// Where it listens: "http://127.0.0.1:8080". "": it does not.
  [[nodiscard]] std::string base_url() const;
  /// Lets the answers to others end within `grace`, cuts what is left, and closes the port.
  void stop_listening(std::chrono::milliseconds grace);
  /// The same once and for all: what has not ended within `grace` is told why it is cut, and no
  /// request is answered any more.
  void shut_down(std::chrono::milliseconds grace);

  /// As it was opened.
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] api::Service& service() { return *service_; }
  [[nodiscard]] const std::shared_ptr<rlm::Host>& host() const { return host_; }
  /// Null: it does not listen.
  [[nodiscard]] std::shared_ptr<http::Server> server() const;

 private:
  explicit Instance(Config config) : config_(std::move(config)) {}

  const Config config_;
  std::shared_ptr<rlm::Host> host_;
  std::shared_ptr<chat::Model> pairs_;  // null: the configuration takes none
  std::unique_ptr<api::Service> service_;
  mutable std::mutex mutex_;
  std::shared_ptr<http::Server> server_;  // guarded by mutex_
  std::string base_url_;                  // guarded by mutex_
};

/// The keys of `config`'s file.
[[nodiscard]] Expected<api::Access> read_access(const ServerConfig& config);
/// Fails with `invalid` where others could reach `config`'s host and it has no keys.
[[nodiscard]] Status check_reach(const ServerConfig& config);

}  // namespace tenon::config
