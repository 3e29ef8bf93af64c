#include "tenon/api/service.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/api/auth.h"
#include "tenon/api/router.h"
#include "tenon/api/routes.h"
#include "tenon/api/service_parts.h"
#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/base/span.h"
#include "tenon/base/trace.h"
#include "tenon/http/wire.h"
#include "tenon/json/value.h"

// How a request is served
//
// handle() gives the request its id and looks up its path in the Router, whose rows have the
// handlers and their traits (needs no key, works before the models are there, has a body). bar()
// then decides whether the client may use the route now, and the CallRunner moves requests with a
// body to a worker. A handler (routes.h, a file for each dialect) decodes the body once and asks
// the ModelDoor for the model. The door goes on with the decoded request where it may wait: on the
// thread that loaded the model, or on the workers of an upstream. With the model in hand, the
// handler makes the encoder of its dialect, and LiveAnswers starts a ChatAnswer, which runs by
// itself (chat_answer.h).

namespace tenon::api {
namespace {

using Clock = std::chrono::steady_clock;

// A client's own id is used if it is fit for a header and a log line.
std::string request_id(const http::Request& request) {
  const std::string_view given = request.header("x-request-id");
  const bool is_fit =
      !given.empty() && given.size() <= 128 && std::all_of(given.begin(), given.end(), [](char c) {
        return c > ' ' && c < '\x7f' && c != '"' && c != '\\';
      });
  return is_fit ? std::string(given) : random_id("req_");
}

// Anthropic's SDK reads `request-id`, the others `x-request-id`.
std::vector<http::Header> id_headers(const std::string& id, Dialect dialect) {
  std::vector<http::Header> headers{{"x-request-id", id}};
  if (dialect == Dialect::anthropic) headers.push_back({"request-id", id});
  return headers;
}

// The trace fields of the request. If there are two parents, neither counts; states form one list.
trace::Context trace_of(const http::Request& request) {
  std::string_view parent;
  std::string state;
  for (const auto& [name, value] : request.headers) {
    if (http::equal_ignoring_case(name, "traceparent")) {
      if (!parent.empty()) return {};
      parent = value;
    } else if (http::equal_ignoring_case(name, "tracestate")) {
      state += (state.empty() ? "" : ",") + value;
    }
  }
  return trace::read(parent, state);
}

// Begins the request's span. What is done for it is part of the span then.
void begin_span(std::string_view route, Call& call) {
  const http::Request& request = call.exchange->request();
  trace::Span span("POST " + std::string(route), trace::SpanKind::server, call.trace);
  if (!span) return;
  span.set("http.request.method", "POST");
  span.set("http.route", route);
  span.set("url.path", request.path.substr(0, 256));
  span.set("tenon.request.id", call.headers[0].value);
  call.trace = span.context();
  if (call.about.find(" trace=") == std::string::npos) {
    call.about.append(" trace=").append(call.trace.trace_id());
    call.running.set_about(call.about);
  }
  call.running.set_span(std::move(span));
}

ApiError nothing_here() {
  return {.message = "there is nothing at this path; GET / lists what there is",
          .param = {},
          .code = "not_found"};
}

}  // namespace

std::vector<Route> routes_of(ServiceParts& parts, std::initializer_list<RouteRow> rows) {
  std::vector<Route> routes;
  for (const RouteRow& row : rows) {
    routes.push_back({row.method, row.path,
                      [&parts, serve = row.serve](Call& call) { serve(parts, call); }, row.traits});
  }
  return routes;
}

std::vector<Route> all_routes(ServiceParts& parts) {
  std::vector<Route> all;
  for (const auto group :
       {chat_routes, messages_routes, responses_routes, conversation_routes, decision_routes,
        token_routes, inspector_routes, page_routes, server_routes}) {
    std::ranges::move(group(parts), std::back_inserter(all));
  }
  return all;
}

// `access` is replaced as a whole at a reload. A request uses the one that it began with, so keys
// and origins do not change in its middle.
struct Service::Impl {
  explicit Impl(ServiceOptions chosen)
      : access(std::make_shared<const Access>(std::move(chosen.access))),
        parts(std::move(chosen)),
        router(all_routes(parts)) {}

  void handle(const Access& admitted, std::shared_ptr<http::Exchange> exchange);
  void dispatch(const Access& admitted, Call call);
  std::optional<ApiError> bar(const Route& route, const Access& admitted, Call& call) const;
  static void add_cors(const Access& admitted, Call& call);
  std::shared_ptr<const Access> current_access() const {
    const std::lock_guard lock(access_mutex);
    return access;
  }

  mutable std::mutex access_mutex;
  std::shared_ptr<const Access> access;  // guarded by access_mutex
  ServiceParts parts;
  const Router router;
};

void Service::Impl::handle(const Access& admitted, std::shared_ptr<http::Exchange> exchange) {
  const http::Request& request = exchange->request();
  Call call{.exchange = std::move(exchange), .running = RunningRequest(parts.metrics)};
  call.dialect = dialect_of(canonical_path(request.path));
  call.headers = id_headers(request_id(request), call.dialect);
  call.about = call.headers[0].value;
  call.trace = trace_of(request);
  if (!call.trace.parent.empty()) call.about.append(" trace=").append(call.trace.trace_id());
  call.running.set_about(call.about);
  add_cors(admitted, call);
  dispatch(admitted, std::move(call));
}

void Service::Impl::dispatch(const Access& admitted, Call call) {
  const http::Request& request = call.exchange->request();
  // Some clients request pages with HEAD, whose answer is that of GET without the body.
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const bool is_preflight = method == "OPTIONS" && !admitted.cors_origins.empty();
  Router::Match match = router.find(method, canonical_path(request.path));
  if (match.path.empty()) return respond_error(call, nothing_here());
  call.running.set_route(match.path);
  if (match.route == nullptr && is_preflight) return respond(call, {.status = 204});
  if (match.route == nullptr) {
    call.headers.push_back({"allow", match.allowed});
    return respond_error(call, {.message = "this path takes " + match.allowed + " only",
                                .param = {},
                                .code = "method_not_allowed"});
  }
  // Requests that ask for nothing but a look are no spans: a scrape comes every few seconds.
  if (method == "POST") begin_span(match.path, call);
  call.tail = std::move(match.tail);
  if (const auto error = bar(*match.route, admitted, call)) {
    const log::About about(call.about);
    log::info("refused " + request.peer + " at " + std::string(match.path) + ": " +
              std::to_string(error->status()) + " " + std::string(error->code.name()));
    return respond_error(call, *error);
  }
  if (log::is_on(log::Level::debug)) {
    const log::About about(call.about);
    log::debug(request.method + " " + request.path);
  }
  const bool has_body = (match.route->traits & Route::kBody) != 0;
  if (has_body) return parts.runner.hand_over(match.route->serve, std::move(call));
  parts.runner.run(match.route->serve, call);
}

// Why no client, or not this one, may use `route` now. A server without keys checks the host and
// the origin instead: a web page that the user visits could otherwise reach it, also by a name that
// resolves to this machine (DNS rebinding). With keys that does not matter, as the page has no key.
std::optional<ApiError> Service::Impl::bar(const Route& route, const Access& admitted,
                                           Call& call) const {
  const http::Request& request = call.exchange->request();
  const bool needs_key = (route.traits & Route::kOpen) == 0;
  if (needs_key && admitted.keys.empty() && !admits_host(request, admitted.allowed_hosts)) {
    return ApiError{.message =
                        "this server has no API keys and so answers to names of this "
                        "machine only, like localhost: add " +
                        json::quoted(request.header("host")) +
                        " to server.allowed_hosts, or give it keys",
                    .param = {},
                    .code = "host_not_allowed"};
  }
  if (needs_key && admitted.keys.empty() && !admits_origin(request, admitted.cors_origins)) {
    return ApiError{
        .message = "this server has no API keys and so answers no pages of other origins: add " +
                   json::quoted(request.header("origin")) +
                   " to server.cors_origins, or give it keys",
        .param = {},
        .code = "origin_not_allowed"};
  }
  std::shared_ptr<KeyOwner> owner = needs_key ? admitted.keys.owner_of(request) : nullptr;
  if (needs_key && !admitted.keys.empty() && owner == nullptr) {
    const bool has_key =
        !request.header("authorization").empty() || !request.header("x-api-key").empty();
    return ApiError{.message = has_key ? "this server does not know the API key of this request"
                                       : "this server needs an API key, as 'Authorization: Bearer "
                                         "KEY' or 'x-api-key: KEY'",
                    .param = {},
                    .code = "invalid_api_key"};
  }
  if ((route.traits & Route::kEarly) == 0 && !parts.is_ready) {
    return ApiError{
        .message = "the models are still being loaded", .param = {}, .code = "not_ready"};
  }
  if (owner != nullptr) {
    call.about += " key=" + owner->name();
    call.running.set_about(call.about);
  }
  // Only routes with kBody count towards the owner's limits.
  if (owner == nullptr || (route.traits & Route::kBody) == 0) return std::nullopt;
  if (auto refusal = owner->enter(Clock::now())) {
    return ApiError{.message = std::move(refusal->message),
                    .param = {},
                    .code = "rate_limit_exceeded",
                    .retry_after = refusal->retry_after};
  }
  call.key = KeyUse(std::move(owner));
  return std::nullopt;
}

// Adds the headers by which browsers let pages of other origins read the answer. Only origins of
// server.cors_origins get them.
void Service::Impl::add_cors(const Access& admitted, Call& call) {
  const http::Request& request = call.exchange->request();
  const std::string_view origin = request.header("origin");
  if (origin.empty() || admitted.cors_origins.empty()) return;
  const bool is_known = std::any_of(admitted.cors_origins.begin(), admitted.cors_origins.end(),
                                    [&](const auto& o) { return o == "*" || o == origin; });
  if (!is_known) return;
  call.headers.push_back({"access-control-allow-origin", std::string(origin)});
  call.headers.push_back({"vary", "origin, access-control-request-headers"});
  call.headers.push_back(
      {"access-control-expose-headers", "request-id, retry-after, x-request-id, x-tenon-left-out"});
  if (request.method != "OPTIONS") return;
  call.headers.push_back({"access-control-allow-methods", "DELETE, GET, POST"});
  // Every SDK has headers of its own (x-stainless-*); none of them changes what a request may do.
  const std::string_view wanted = request.header("access-control-request-headers");
  if (!wanted.empty()) {
    call.headers.push_back({"access-control-allow-headers", std::string(wanted)});
  }
  call.headers.push_back({"access-control-max-age", "600"});
}

Service::Service(ServiceOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Service::~Service() = default;

void Service::set_models(chat::ModelRegistry models) {
  impl_->parts.door.set_models(std::move(models));
  impl_->parts.is_ready = true;
}

chat::ModelRegistry& Service::models() {
  return impl_->parts.door.models();
}

// Owners keep what they have used of their limits.
void Service::set_access(Access access) {
  const std::lock_guard lock(impl_->access_mutex);
  access.keys.go_on_from(impl_->access->keys);
  impl_->access = std::make_shared<const Access>(std::move(access));
}

// In the order of a request's way: those that wait for a worker, those that wait for a model, those
// that are being answered. One that moves on meanwhile is met by the next.
void Service::cut_answers() {
  impl_->parts.runner.cut();
  impl_->parts.door.cut();
  impl_->parts.answers.cut();
}

void Service::handle(std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<const Access> access = impl_->current_access();
  impl_->handle(*access, std::move(exchange));
}

// For requests of this process itself, which come by no network and need no key.
void Service::handle_own(std::shared_ptr<http::Exchange> exchange) {
  impl_->handle(Access{}, std::move(exchange));
}

// Uses the status of the table, not that of HTTP: clients would repeat a request that got 501 or
// 505.
http::Response Service::error(std::string_view code, std::string_view message,
                              std::string_view path) const {
  const ErrorCode known = ErrorCode::named(code);
  const ApiError error{.message = std::string(message) + ": " + std::string(known.row().hint),
                       .param = {},
                       .code = known};
  const Dialect dialect = dialect_of(canonical_path(std::string(path)));
  return to_response(error, id_headers(random_id("req_"), dialect), dialect);
}

}  // namespace tenon::api
