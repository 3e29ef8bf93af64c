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
#include "tenon/store/response_store.h"

/// The server as clients see it: routes, dialects, keys, errors, metrics.
namespace tenon::api {

/// Who may come in. What a client sees of it is in docs/api.md.
struct Access {
  ApiKeys keys;
  std::vector<std::string> cors_origins;  ///< Origins that browsers may come from; "*": any.
  /// Names of this server beside loopback ones, where there are no keys; "*": any. See admits_host.
  std::vector<std::string> allowed_hosts;
};

struct ServiceOptions {
  Access access;
  std::string version;  ///< "0.1.0"
  /// For the page at "/", where the request names no host: "http://127.0.0.1:8080".
  std::string base_url;
  /// What of a request would be left out and told is an error: DecodeOptions.
  bool refuses_unknown = false;
  std::size_t max_waiting = 1024;  ///< Requests that no thread has begun; more get 503.
  /// Of what is asked of an engine elsewhere beside answers, tokens say; 0: none. Answers have that
  /// of their models.
  std::chrono::milliseconds time_limit{0};
  /// Where responses are kept; null: in memory, the last 1,000 of up to 64 MiB.
  std::shared_ptr<store::ResponseStore> store;
  /// Answers requests for "a:b" where there are models a and b that are not recursive, and none of
  /// that name; null: nobody does.
  std::shared_ptr<chat::Model> pairs;
  /// What keeps in the code of recursive models, for /health; "": nothing yet.
  std::function<std::string_view()> sandbox_tier;
};

/// Answers HTTP requests from the models of a registry.
///
///     api::Service service(options);
///     auto answer = [&](auto exchange) { service.handle(std::move(exchange)); };
///     auto server = http::Server::start({}, answer);
///     service.set_models(registry);   // from here on it is ready
///
/// What parses, renders or tokenises a body runs on threads of its own, so that health, metrics and
/// streams never wait for it; large bodies have one to themselves, so that small ones do not wait
/// for them either, and so have requests for models that are not loaded yet. It outlives the server
/// and the engines' runs. Thread-safe.
class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Opens the service with these models; before, it answers 503. Once.
  void set_models(chat::ModelRegistry models);
  /// Those of set_models(), to be changed while requests go on; not before.
  [[nodiscard]] chat::ModelRegistry& models();
  /// For the requests that come from now on. Owners of keys that were there before keep what they
  /// have used.
  void set_access(Access access);

  /// Ends every answer that is under way, and every request that waits, with an error that says
  /// that the server stops: once its time to finish them is over.
  void cut_answers();

  void handle(std::shared_ptr<http::Exchange> exchange);
  /// The same for a request of this process: it needs no key, and is nobody's who has one.
  void handle_own(std::shared_ptr<http::Exchange> exchange);

  /// An error of the wire, in the shape of all others. `code` is http's own, like "body_too_large";
  /// `path` the request's, if it is known.
  [[nodiscard]] http::Response error(std::string_view code, std::string_view message,
                                     std::string_view path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::api
