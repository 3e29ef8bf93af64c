#include "tenon/api/error.h"

#include <algorithm>
#include <utility>

namespace tenon::api {
namespace {

json::Value or_null(const std::string& text) {
  return text.empty() ? json::Value() : json::Value(text);
}

// The path in the client's dialect. A name of `names` is one step of a path, or several:
// "tools[0].function.name" becomes "tools[0].name" by {".function.", "."}.
std::string own_path(std::string path, std::span<const FieldName> names) {
  for (const FieldName& name : names) {
    const std::size_t at = path.find(name.chat);
    if (at != std::string::npos) path.replace(at, name.chat.size(), name.own);
  }
  return path;
}

}  // namespace

// The words of the SDKs, which choose their exceptions by status and type.
std::string_view error_type(unsigned status, Dialect dialect) {
  if (dialect == Dialect::anthropic) {
    if (status == 413) return "request_too_large";
    if (status == 504) return "timeout_error";
    if (status >= 500 && status != 503) return "api_error";
  }
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

json::Value to_json(const ApiError& error, Dialect dialect, std::string_view request_id) {
  json::Object inner;
  inner.set("message", error.message);
  inner.set("type", error_type(error.status(), dialect));
  inner.set("param", or_null(error.param));
  inner.set("code", error.code.name());
  // Anthropic's SDKs look for the code here.
  if (dialect == Dialect::anthropic) {
    inner.set("details", json::Object{{"error_code", error.code.name()}});
  }
  json::Object outer;
  if (dialect == Dialect::anthropic) outer.set("type", "error");
  outer.set("error", std::move(inner));
  if (dialect == Dialect::anthropic) outer.set("request_id", or_null(std::string(request_id)));
  return outer;
}

ApiError time_is_up() {
  return {.message = "the answer took longer than server.request_timeout_s allows",
          .param = {},
          .code = "timeout"};
}

ApiError internal_error() {
  return {.message = "the server could not answer", .param = {}, .code = "internal_error"};
}

ApiError from_refusal(const chat::Refusal& refusal, std::span<const FieldName> names) {
  ApiError error{.message = refusal.error.message,
                 .param = own_path(refusal.param, names),
                 .code = ErrorCode::named(refusal.code)};
  // The sentence begins with the field's name, which is the client's own by now.
  if (!refusal.behind_param.empty()) error.message = error.param + refusal.behind_param;
  return error;
}

// An error of a run that has begun. An upstream that denies us or is busy says so with its own
// reason; the client is told to come back when the upstream said.
ApiError from_engine(const Error& error, const message::Denial& denial) {
  using Reason = message::Denial::Reason;
  ApiError failed = from_refusal(chat::refusal_of(error));
  failed.message = error.message.empty() ? "the engine failed" : "the engine: " + error.message;
  if (denial.reason == Reason::denied) failed.code = "engine_denied";
  if (denial.reason == Reason::busy) failed.code = "engine_busy";
  if (denial.retry_after_s > 0) failed.retry_after = std::chrono::seconds(denial.retry_after_s);
  return failed;
}

// `retry-after` goes with the two statuses after which SDKs ask again by themselves.
http::Response to_response(const ApiError& error, std::vector<http::Header> headers,
                           Dialect dialect) {
  const auto id = std::ranges::find(headers, "x-request-id", &http::Header::name);
  json::Value body = to_json(error, dialect, id == headers.end() ? "" : id->value);
  const unsigned status = error.status();
  if (status == 401) headers.push_back({"www-authenticate", "Bearer"});
  if (status == 429 || status == 503) {
    headers.push_back({"retry-after", std::to_string(error.retry_after.count())});
  }
  return {.status = status, .headers = std::move(headers), .body = json::to_string(body)};
}

}  // namespace tenon::api
