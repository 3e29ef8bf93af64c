#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/keys.h"
#include "tenon/chat/model_registry.h"
#include "tenon/http/server.h"
#include "tenon/mcp/allow_list.h"
#include "tenon/record/recorder.h"
#include "tenon/store/response_store.h"

/// The server as clients see it: routes, dialects, keys, errors, metrics.
namespace tenon::api {

/// Who may use the server. docs/api.md has what a client sees of it.
struct Access {
  ApiKeys keys;
  std::vector<std::string> cors_origins;  ///< Origins that browsers may come from; "*": any.
  /// Names of this server besides loopback ones, if it has no keys; "*": any. See admits_host.
  std::vector<std::string> allowed_hosts;
};

struct ServiceOptions {
  Access access;
  std::string version;  ///< "0.1.0"
  /// What would be left out of a request is an error: DecodeOptions.
  bool refuses_unknown = false;
  std::size_t max_waiting = 1024;  ///< Requests that no thread has begun; more get 503.
  /// For questions to an upstream other than answers, for example tokens; 0: no limit. Answers have
  /// the limit of their models.
  std::chrono::milliseconds time_limit{0};
  /// Where responses are kept; null: in memory, the last 1,000 of up to 64 MiB.
  std::shared_ptr<store::ResponseStore> store;
  std::shared_ptr<record::Recorder> recorder;  ///< Null: answers are not recorded.
  /// Ids that are kept as a recording has them (record::Heading::found): requests go on from them,
  /// and nothing is added to them.
  json::Object found;
  /// The owners of keys who may see recordings; a server without keys shows them to all.
  std::vector<std::string> inspectors;
  /// The servers of tools that requests may name; empty: none.
  mcp::AllowList mcp_allow{};
  /// Answers requests for "a:b" if a and b are models that are not recursive and no model has that
  /// name; null: such requests get 404.
  std::shared_ptr<chat::Model> pairs;
  /// The sandbox for the code of recursive models, for /health; "": none was needed yet.
  std::function<std::string_view()> sandbox_tier;
};

/// Answers HTTP requests from the models of a registry.
///
///     api::Service service(options);
///     auto answer = [&](auto exchange) { service.handle(std::move(exchange)); };
///     auto server = http::Server::start({}, answer);
///     service.set_models(registry);   // from here on it is ready
///
/// Everything that parses, renders or tokenises a body runs on threads of its own, so that health,
/// metrics and streams never wait for it. Large bodies have a thread to themselves, so that small
/// ones do not wait for them, and so have requests for models that are not loaded yet. The service
/// must outlive the server and the engines' runs. Thread-safe.
class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Opens the service with these models; before that it answers 503. Call it once.
  void set_models(chat::ModelRegistry models);
  /// The models, which may be changed while requests go on. Call it after set_models().
  [[nodiscard]] chat::ModelRegistry& models();
  /// For requests that come from now on. Owners of keys that exist already keep what they have
  /// used.
  void set_access(Access access);

  /// Ends every answer under way, and every request that waits, with an error that says that the
  /// server stops. For when the time to finish them is over.
  void cut_answers();

  void handle(std::shared_ptr<http::Exchange> exchange);
  /// The same for a request of this process, which needs no key and has no owner.
  void handle_own(std::shared_ptr<http::Exchange> exchange);

  /// An error of HTTP itself, in the shape of all others. `code` is that of `http`, like
  /// "body_too_large"; `path` is the request's, if it is known.
  [[nodiscard]] http::Response error(std::string_view code, std::string_view message,
                                     std::string_view path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::api
