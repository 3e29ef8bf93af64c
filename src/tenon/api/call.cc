#include "tenon/api/call.h"

#include <algorithm>
#include <cstddef>

namespace tenon::api {
namespace {

// Limits beyond what any request needs, so that no thread spends its time on more.
constexpr json::ParseOptions kBodyLimits{.max_depth = 128, .max_values = std::size_t{1} << 20};

ApiError bad_json(const Error& error) {
  const bool is_large = error.code == Errc::limit_exceeded;
  return {.message =
              (is_large ? "the body exceeds a limit: " : "the body is not JSON: ") + error.message,
          .param = {},
          .code = is_large ? ErrorCode("limit_exceeded") : ErrorCode("invalid_json")};
}

// The paths that were left out, for a header: `tools[1], client_metadata`.
std::string paths_of(const std::vector<message::Diagnostic>& left_out) {
  constexpr std::size_t kMost = 1024;
  std::string paths;
  for (const message::Diagnostic& part : left_out) {
    std::string path = part.path;
    // A path has names from the client, and a header has one line of ASCII.
    std::ranges::replace_if(path, [](char c) { return c < ' ' || c > '~' || c == ','; }, '?');
    if (paths.size() + path.size() > kMost) return paths + (paths.empty() ? "..." : ", ...");
    paths += (paths.empty() ? "" : ", ") + path;
  }
  return paths;
}

}  // namespace

Result<json::Value, ApiError> body_of(const Call& call) {
  const http::Request& request = call.exchange->request();
  const std::string_view coding = request.header("content-encoding");
  if (!coding.empty() && coding != "identity") {
    return Failure<ApiError>({.message = "the body comes with content-encoding " +
                                         json::quoted(coding) +
                                         ", which is not read here: send it as it is",
                              .param = {},
                              .code = "content_encoding_unsupported"});
  }
  Expected<json::Value> parsed = json::parse(request.body, kBodyLimits);
  if (!parsed) return Failure<ApiError>(bad_json(parsed.error()));
  return *std::move(parsed);
}

void respond(Call& call, http::Response response) {
  call.running.ended(response.status);
  call.key.leave();  // first, so that the client's next request finds the place free
  response.headers.insert(response.headers.end(), call.headers.begin(), call.headers.end());
  call.exchange->respond(std::move(response));
}

void respond_json(Call& call, const json::Value& value) {
  respond(call, {.body = json::to_string(value)});
}

void respond_error(Call& call, const ApiError& error) {
  call.running.ended(call.exchange->is_closed() ? kClientGone : error.status());
  call.key.leave();
  call.exchange->respond(to_response(error, call.headers, call.dialect));
}

void respond_result(Call& call, const Result<json::Value, ApiError>& result) {
  result ? respond_json(call, *result) : respond_error(call, result.error());
}

void add_left_out(Call& call, const std::vector<message::Diagnostic>& left_out) {
  if (!left_out.empty()) call.headers.push_back({"x-tenon-left-out", paths_of(left_out)});
}

ApiError overloaded() {
  return {.message = "too many requests are waiting", .param = {}, .code = "overloaded"};
}

ApiError is_stopping() {
  return {.message = "the server is being stopped", .param = {}, .code = "server_stopping"};
}

ApiError invalid_value(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_value"};
}

}  // namespace tenon::api
