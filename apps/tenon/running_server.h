#pragma once

#include <string>
#include <string_view>

#include "command.h"

#include "tenon/http/client.h"
#include "tenon/json/value.h"

/// What a command asks of a running server.
namespace tenon::app {

/// The server's address without `/v1`: clients use the address with it (their base URL), people
/// write it without.
[[nodiscard]] std::string_view server_of(std::string_view url);

/// The key for servers: TENON_API_KEY; "" without one.
[[nodiscard]] std::string server_key();

/// Sends the request with that key and returns the JSON of the answer. kEngine: the server cannot
/// be reached or failed; kBadInput: it refused the request, with its own words; kUsage: the URL is
/// wrong.
[[nodiscard]] OrComplaint<json::Value> fetch_json(http::Client& client,
                                                  http::ClientRequest request);

}  // namespace tenon::app
