#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/call.h"
#include "tenon/api/error.h"

/// Which code serves a path.
namespace tenon::api {

struct Route {
  // Traits of routes.
  static constexpr unsigned kOpen = 1;   ///< Needs no key.
  static constexpr unsigned kEarly = 2;  ///< Answers before the models are there.
  static constexpr unsigned kBody = 4;   ///< Has a body, or waits for the disk: runs on a worker.

  std::string_view method;
  /// May have open parts: `{id}` and `{item}` are one segment each, `{name}` is all the rest.
  std::string_view path;
  Task serve;
  unsigned traits = 0;
};

/// The routes of the server. Immutable, and so thread-safe.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  ///< Null: no route takes this method at this path.
    std::string tail;              ///< The parts of the path that the route leaves open.
    std::string_view path;         ///< The path of the routes that match, for the metrics.
    std::string allowed;           ///< The methods that the path takes: "GET, POST".
  };
  /// `path` is canonical.
  [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

 private:
  const std::vector<Route> routes_;
};

/// The path that the routes know: the prefix /api/v1 means /v1, and /api/generate means Chat
/// Completions. Clients whose base address ends in /v1 ask for /v1/v1/messages.
[[nodiscard]] std::string canonical_path(std::string path);
/// The dialect in which errors at a canonical path are told.
[[nodiscard]] Dialect dialect_of(std::string_view canonical);

}  // namespace tenon::api
