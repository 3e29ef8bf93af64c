#include "tenon/api/router.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace tenon::api {
namespace {

// The parts of `path` that `route` leaves open, joined by '/'. No value: the path does not match
// the route. `{name}` may contain slashes, as names of models do ("org/model"); other parts may
// not.
std::optional<std::string> open_part(std::string_view route, std::string_view path) {
  const std::size_t open = route.find('{');
  if (open == std::string_view::npos) {
    return route == path ? std::optional<std::string>("") : std::nullopt;
  }
  if (!path.starts_with(route.substr(0, open))) return std::nullopt;
  const std::size_t close = route.find('}');
  const std::string_view name = route.substr(open, close + 1 - open);
  std::string_view part = path.substr(open);
  if (name != "{name}") part = part.substr(0, part.find('/'));
  if (part.empty()) return std::nullopt;
  const auto rest = open_part(route.substr(close + 1), path.substr(open + part.size()));
  if (!rest) return std::nullopt;
  return std::string(part) + (rest->empty() ? "" : "/") + *rest;
}

}  // namespace

// A route that is spelled out goes before one with open parts: "/v1/responses/compact" is no id. If
// only other methods fit, match.allowed lists them for the answer 405.
Router::Match Router::find(std::string_view method, std::string_view path) const {
  const bool is_literal = std::ranges::find(routes_, path, &Route::path) != routes_.end();
  Match match;
  for (const Route& route : routes_) {
    auto part = open_part(route.path, path);
    if (!part || (is_literal && path != route.path)) continue;
    match.path = route.path;
    if (method == route.method) {
      match.route = &route;
      match.tail = *std::move(part);
      return match;
    }
    match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  return match;
}

// The spellings of a path that clients make out of a base address:
//   //v1/models, /v1//models, /v1/v1/models, /models, /api/v1/models -> /v1/models
std::string canonical_path(std::string path) {
  constexpr std::string_view kTwice = "/v1/v1/";
  constexpr std::string_view kAlias = "/api/v1/";
  // A base address that ends in a slash, and one that lacks "/v1".
  for (const std::string_view doubled : {"//", "/v1//", "/v1/v1//"}) {
    if (!path.starts_with(doubled)) continue;
    const std::size_t one = doubled.size() - 1;  // the first of the slashes stays
    path.erase(one, std::min(path.find_first_not_of('/', one), path.size()) - one);
  }
  for (const std::string_view bare : {"/chat/completions", "/completions", "/responses",
                                      "/messages", "/conversations", "/models"}) {
    const std::string_view rest = std::string_view(path).substr(std::min(bare.size(), path.size()));
    if (path.starts_with(bare) && (rest.empty() || rest.front() == '/')) path.insert(0, "/v1");
  }
  if (path.starts_with(kTwice)) path.erase(0, std::string_view("/v1").size());
  if (path.compare(0, kAlias.size(), kAlias) == 0) path.erase(0, std::string_view("/api").size());
  if (path == "/api/generate") path = "/v1/chat/completions";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The dialect decides how errors look, also for a path below /v1/messages that does not exist.
Dialect dialect_of(std::string_view canonical) {
  constexpr std::string_view kMessages = "/v1/messages";
  const bool is_below =
      canonical.starts_with(kMessages) &&
      canonical.substr(kMessages.size(), 1).find_first_not_of('/') == std::string_view::npos;
  return is_below ? Dialect::anthropic : Dialect::openai;
}

}  // namespace tenon::api
