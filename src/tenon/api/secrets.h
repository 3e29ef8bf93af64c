#pragma once

#include <string>
#include <string_view>

namespace tenon::api {

/// The body of a request with "***" for what lets servers of tools in: values of `headers`,
/// `authorization` and `authorization_token`, of tools of type `mcp` and of `mcp_servers`. Their
/// addresses lose user name and query. A body without such servers, or one that is not JSON, stays
/// as it is.
[[nodiscard]] std::string without_secrets(std::string_view body);

}  // namespace tenon::api
