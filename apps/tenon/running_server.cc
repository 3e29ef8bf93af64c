#include "running_server.h"

#include <cstdlib>
#include <utility>

namespace tenon::app {

// "http://host:8080/v1/" becomes "http://host:8080": people copy the address that clients want.
std::string_view server_of(std::string_view url) {
  while (url.ends_with('/')) url.remove_suffix(1);
  if (url.ends_with("/v1")) url.remove_suffix(3);
  while (url.ends_with('/')) url.remove_suffix(1);
  return url;
}

std::string server_key() {
  const char* const key = std::getenv("TENON_API_KEY");
  return key == nullptr ? "" : key;
}

OrComplaint<json::Value> fetch_json(http::Client& client, http::ClientRequest request) {
  const std::string what = request.method + " " + request.url;
  if (const std::string key = server_key(); !key.empty()) {
    request.headers.push_back({"authorization", "Bearer " + key});
  }
  const auto reply = client.fetch(std::move(request));
  if (!reply) {
    return complaint(reply.error().code == Errc::invalid ? kUsage : kEngine,
                     what + ": " + reply.error().message);
  }
  auto document = json::parse(reply->body);
  if (!document) return complaint(kEngine, what + ": the answer is not JSON");
  if (reply->status == 200) return *std::move(document);
  const json::Value* const said = json::at_pointer(*document, "/error/message");
  // 429 means that the server is busy, which is not the request's fault.
  const bool is_request = reply->status >= 400 && reply->status < 500 && reply->status != 429;
  return complaint(is_request ? kBadInput : kEngine,
                   what + ": " +
                       (said == nullptr || said->if_string() == nullptr
                            ? "status " + std::to_string(reply->status)
                            : *said->if_string()));
}

}  // namespace tenon::app
