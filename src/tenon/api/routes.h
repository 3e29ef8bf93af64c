#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "tenon/api/router.h"
#include "tenon/api/service_parts.h"

/// The routes of the server, a file for each group. Each function returns its group; the handlers
/// use `parts`, which must outlive them. A handler decodes the body, then either answers or goes on
/// in with_model() with the model that the request names.
namespace tenon::api {

[[nodiscard]] std::vector<Route> chat_routes(ServiceParts& parts);
[[nodiscard]] std::vector<Route> messages_routes(ServiceParts& parts);
[[nodiscard]] std::vector<Route> responses_routes(ServiceParts& parts);
[[nodiscard]] std::vector<Route> decision_routes(ServiceParts& parts);
[[nodiscard]] std::vector<Route> conversation_routes(ServiceParts& parts);
/// Text to tokens and back.
[[nodiscard]] std::vector<Route> token_routes(ServiceParts& parts);
/// What the server tells about itself: models, health, metrics, pages.
[[nodiscard]] std::vector<Route> server_routes(ServiceParts& parts);

/// The first page, and the inspector's.
[[nodiscard]] std::vector<Route> page_routes(ServiceParts& parts);
/// Recordings, which the inspector shows.
[[nodiscard]] std::vector<Route> inspector_routes(ServiceParts& parts);

[[nodiscard]] std::vector<Route> all_routes(ServiceParts& parts);

/// A route whose handler is a function of the parts and the call. Most have a body.
struct RouteRow {
  std::string_view method;
  std::string_view path;
  void (*serve)(ServiceParts& parts, Call& call);
  unsigned traits = Route::kBody;
};
[[nodiscard]] std::vector<Route> routes_of(ServiceParts& parts,
                                           std::initializer_list<RouteRow> rows);

}  // namespace tenon::api
