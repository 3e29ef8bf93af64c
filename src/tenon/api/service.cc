#include "tenon/api/service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/api/auth.h"
#include "tenon/api/background.h"
#include "tenon/api/chat_answer.h"
#include "tenon/api/chat_encode.h"
#include "tenon/api/chat_request.h"
#include "tenon/api/compaction.h"
#include "tenon/api/completion_encode.h"
#include "tenon/api/completion_request.h"
#include "tenon/api/context_edits.h"
#include "tenon/api/error.h"
#include "tenon/api/fields.h"
#include "tenon/api/kept_conversations.h"
#include "tenon/api/kept_query.h"
#include "tenon/api/kept_responses.h"
#include "tenon/api/messages_encode.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/metrics.h"
#include "tenon/api/openapi.h"
#include "tenon/api/page.h"
#include "tenon/api/responses_encode.h"
#include "tenon/api/responses_request.h"
#include "tenon/api/seal.h"
#include "tenon/api/token_request.h"
#include "tenon/api/workers.h"
#include "tenon/base/clock.h"
#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/trace.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/model_pair.h"
#include "tenon/http/wire.h"
#include "tenon/json/value.h"

// How a request is served
//
// handle() looks up the path in kRoutes, a table of routes with their handlers and traits (needs no
// key, works before the models are there, has a body). bar() then decides whether the client may
// use the route now, and hand_over() moves requests with a body to a worker: large bodies have a
// thread of their own, so that small requests do not wait for them. A handler decodes the body
// (decoded() with one of the dialects' decoders) and asks model_for() for the model. If the model
// is not loaded, or if its engine is an upstream, model_for() returns null: it has posted the call
// again, to be handled once the model is loaded (wait_for) or on the workers of that model
// (workers_of), so the handler begins anew on a thread that may wait. With the model in hand,
// start() makes a ChatAnswer with the dialect's encoder; from then on the answer runs by itself
// (chat_answer.h), and the service only keeps it alive and cuts it when the server stops. The rest
// of the file is by subject: responses and conversations that are kept, token counts, lists of
// models, metrics, and pages about the server.

namespace tenon::api {
namespace {

using Clock = std::chrono::steady_clock;
using json::Value;

// Limits beyond what any request needs, so that no thread spends its time on more.
constexpr json::ParseOptions kBodyLimits{.max_depth = 128, .max_values = std::size_t{1} << 20};

// Larger bodies wait for each other, on one thread.
constexpr std::size_t kLargeBody = std::size_t{256} << 10;
constexpr unsigned kQuickThreads = 4;
// How many models may load at the same time, if there is room.
constexpr unsigned kLoadThreads = 4;

/// Calls a function every second on a thread of its own, until destroyed.
class Ticker {
 public:
  explicit Ticker(std::function<void()> tick)
      : tick_(std::move(tick)), thread_([this] { run(); }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ends_; })) {
      lock.unlock();
      try {
        tick_();
      } catch (const std::exception& thrown) {
        log::error(std::string("api: a tick failed: ") + thrown.what());
      }
      lock.lock();
    }
  }

  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;  // guarded by mutex_
  std::thread thread_;
};

/// A request under way: what is needed to answer it and to count it.
struct Call {
  std::shared_ptr<http::Exchange> exchange;
  std::string tail;                   // the part of the path that the route leaves open
  std::vector<http::Header> headers;  // for every answer
  RunningRequest running;
  Dialect dialect = Dialect::openai;
  KeyUse key;
  bool is_apart = false;  // it runs on the workers of its model
  std::string about;      // the beginning of its log lines: ids, and the key's owner
  trace::Context trace;
};

// A client's own id is used if it is fit for a header and a log line.
std::string request_id(const http::Request& request) {
  const std::string_view given = request.header("x-request-id");
  const bool is_fit =
      !given.empty() && given.size() <= 128 && std::all_of(given.begin(), given.end(), [](char c) {
        return c > ' ' && c < '\x7f' && c != '"' && c != '\\';
      });
  return is_fit ? std::string(given) : random_id("req_");
}

// The prefix /api/v1 means /v1, and /api/generate means Chat Completions. Clients whose base
// address ends in /v1 ask for /v1/v1/messages.
std::string canonical_path(std::string path) {
  constexpr std::string_view kTwice = "/v1/v1/";
  constexpr std::string_view kAlias = "/api/v1/";
  // A base address that ends in a slash, and one that lacks "/v1".
  for (const std::string_view doubled : {"//", "/v1//", "/v1/v1//"}) {
    while (path.starts_with(doubled)) path.erase(doubled.size() - 1, 1);
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

Dialect dialect_of(std::string_view canonical) {
  constexpr std::string_view kMessages = "/v1/messages";
  const bool is_below =
      canonical.starts_with(kMessages) &&
      canonical.substr(kMessages.size(), 1).find_first_not_of('/') == std::string_view::npos;
  return is_below ? Dialect::anthropic : Dialect::openai;
}

std::vector<http::Header> id_headers(const std::string& id, Dialect dialect) {
  std::vector<http::Header> headers{{"x-request-id", id}};
  if (dialect == Dialect::anthropic) headers.push_back({"request-id", id});
  return headers;
}

// The parts of `path` that `route` leaves open, joined by '/': `{id}` and `{item}` are one segment
// each, `{name}` is all the rest. No value: the path does not match the route.
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

ApiError bad_json(const Error& error) {
  const bool is_large = error.code == Errc::limit_exceeded;
  return {.message =
              (is_large ? "the body exceeds a limit: " : "the body is not JSON: ") + error.message,
          .param = {},
          .code = is_large ? ErrorCode("limit_exceeded") : ErrorCode("invalid_json")};
}

ApiError invalid_value(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_value"};
}

// A conversation's metadata and its items are changed by other routes.
ApiError not_here(std::string_view field) {
  return {.message = std::string(field) + " is not supported here: items are added at " +
                     "/v1/conversations/{id}/items, metadata is changed at the conversation",
          .param = std::string(field),
          .code = "unsupported_parameter"};
}

// The time in the format of RFC 3339.
std::string timestamp(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string format_name(const chat::Model& model) {
  const format::Format* format = model.format();
  return format == nullptr ? "" : format::info(*format).name;
}

std::string text_of(const message::Continuation& prompt, const vocab::Tokenizer& tokenizer) {
  if (prompt.tokens.empty()) return prompt.text;
  std::string bytes;
  for (const vocab::TokenId id : prompt.tokens) bytes += tokenizer.bytes(id);
  return utf8::sanitized(bytes);
}

ApiError overloaded() {
  return {.message = "too many requests are waiting", .param = {}, .code = "overloaded"};
}

ApiError is_stopping() {
  return {.message = "the server is being stopped", .param = {}, .code = "server_stopping"};
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

// Why the model cannot accept the request's field for recursive models.
std::optional<ApiError> refused_rlm(const message::ChatRequest& chat, const chat::Model& model) {
  if (chat.rlm.is_null() || model.takes_rlm()) return std::nullopt;
  return ApiError{.message = "rlm belongs to recursive models, and " + json::quoted(model.name()) +
                             " is not one",
                  .param = "rlm",
                  .code = "unsupported_parameter"};
}

// The tokens of the prompt: counted, or estimated if it does not fit or an upstream makes it.
std::uint64_t tokens_of(const chat::Model& model, const message::ChatRequest& chat) {
  if (model.engine() == nullptr) return guessed_tokens(chat);
  const auto prepared = model.prepare(chat);
  return prepared ? prepared->tokens.size() : guessed_tokens(chat);
}

// The paths that were left out, for a header: `tools[1], client_metadata`.
std::string paths_of(const std::vector<message::Diagnostic>& left_out) {
  constexpr std::size_t kMost = 1024;
  std::string paths;
  for (const message::Diagnostic& part : left_out) {
    std::string path = part.message.substr(0, part.message.find(" is left out"));
    std::ranges::replace_if(path, [](char c) { return c < ' ' || c > '~' || c == ','; }, '?');
    if (paths.size() + path.size() > kMost) return paths + (paths.empty() ? "..." : ", ...");
    paths += (paths.empty() ? "" : ", ") + path;
  }
  return paths;
}

ApiError nothing_here() {
  return {.message = "there is nothing at this path; GET / lists what there is",
          .param = {},
          .code = "not_found"};
}

}  // namespace

struct Service::Impl {
  using Handler = void (Impl::*)(Call& call);

  /// A decoded request, and the encoder of its answer.
  struct Asked {
    std::unique_ptr<AnswerEncoder> encoder;
    message::ChatRequest chat;
    std::vector<message::Continuation> prompts{};
    unsigned choices = 1;
    bool stream = false;
    std::vector<message::Diagnostic> left_out{};  // from the request
  };

  struct Route {
    std::string_view method;
    std::string_view path;  // may have open parts; see open_part()
    Handler handler;
    unsigned traits = 0;
  };
  // Traits of routes.
  static constexpr unsigned kOpen = 1;   // needs no key
  static constexpr unsigned kEarly = 2;  // answers before the models are there
  static constexpr unsigned kBody = 4;   // has a body, or waits for the disk: runs on a worker

  static const std::array<Route, 32> kRoutes;

  explicit Impl(ServiceOptions chosen)
      : access(std::make_shared<const Access>(std::move(chosen.access))),
        options(std::move(chosen)),
        kept(options.store),
        conversations(kept.store()),
        seal(kept.store()) {}
  ~Impl() {
    loads.stop();  // its tasks use the models
    quick.stop();
    large.stop();
    for (auto& [model, workers] : apart) workers->stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void handle(const Access& admitted, std::shared_ptr<http::Exchange> exchange);
  void dispatch(const Access& admitted, Call call);
  std::optional<ApiError> bar(const Route& route, const Access& admitted, Call& call) const;
  void hand_over(Handler handler, Call call);
  void post(Workers& workers, Handler handler, Call call);
  void run(Handler handler, Call& call);
  std::shared_ptr<const Access> current_access() const {
    const std::lock_guard lock(access_mutex);
    return access;
  }
  static void add_cors(const Access& admitted, Call& call);
  void cut_answers();
  void respond(Call& call, http::Response response);
  void respond_json(Call& call, const Value& value);
  void respond_error(Call& call, const ApiError& error);
  Result<Value, ApiError> body(const Call& call) const;
  // Reads the body with `decode`. The model may be left out if there is only one.
  template <class Decode>
  auto decoded(const Call& call, const Decode& decode) const {
    auto request = body(call).and_then(
        [&](const Value& value) { return decode(value, DecodeOptions{options.refuses_unknown}); });
    if (!request || !request->chat.model.empty()) return request;
    auto name = model_or_only("");
    if (!name) return decltype(request)(Failure<ApiError>(std::move(name.error())));
    request->chat.model = *std::move(name);
    return request;
  }
  std::shared_ptr<chat::Model> model_for(const std::string& name, Handler handler, Call& call);
  bool is_pair(std::string_view name) const;
  ApiError unknown_model(std::string_view name) const;
  bool has_prompts(const chat::Model& model, Call& call);
  Workers& workers_of(const std::string& model);
  void wait_for(const std::string& name, Handler handler, Call& call);
  void load(const std::string& name);
  Result<std::string, ApiError> model_or_only(const std::string& name) const;
  Value describe(const chat::ModelRegistry::Entry& entry) const;
  void keep_alive();
  std::vector<std::shared_ptr<ChatAnswer>> live_answers();

  static void tell_left_out(Call& call, Asked& asked);
  static void add_left_out(Call& call, const std::vector<message::Diagnostic>& left_out);
  void start(Call& call, chat::Model& model, Asked asked);
  void chat_completions(Call& call);
  void completions(Call& call);
  void messages(Call& call);
  void count_tokens(Call& call);
  void responses(Call& call);
  void input_tokens(Call& call);
  void get_response(Call& call);
  void list_input_items(Call& call);
  void delete_response(Call& call);
  void cancel_response(Call& call);
  using Keep = std::function<bool(const Value& response)>;
  Keep keeper(const Call& call, const std::string& id, const ResponsesRequest& request);
  static void truncate(const chat::Model& model, ResponsesRequest& request);
  void respond_in_background(Call& call, chat::Model& model, Asked asked, const std::string& id,
                             Keep keep);
  void compact(Call& call);
  Result<ConversationRequest, ApiError> conversation_in(Call& call) const;
  void create_conversation(Call& call);
  void get_conversation(Call& call);
  void update_conversation(Call& call);
  void delete_conversation(Call& call);
  void add_items(Call& call);
  void list_items(Call& call);
  void get_item(Call& call);
  void delete_item(Call& call);
  json::Value edit(const chat::Model& model, MessagesRequest& request) const;
  DecodeOptions with_seal(const Call& call, DecodeOptions how) const;
  void respond_result(Call& call, const Result<Value, ApiError>& result);
  void respond_count(Call& call, chat::Model& model, const message::ChatRequest& chat,
                     json::Object members);
  FindResponse finder(const Call& call) const;
  void render(Call& call);
  void tokenize(Call& call);
  void detokenize(Call& call);
  void list_models(Call& call);
  void get_model(Call& call);
  void health(Call& call);
  void version(Call& call);
  void metrics_text(Call& call);
  void openapi_document(Call& call);
  void page(Call& call);

  mutable std::mutex access_mutex;
  std::shared_ptr<const Access> access;  // guarded by access_mutex
  const ServiceOptions options;          // without its access
  const std::int64_t started = unix_time();
  const std::string fingerprint = "fp_tenon_" + options.version;
  const KeptResponses kept;
  KeptConversations conversations;
  const Seal seal;
  Background background;
  Metrics metrics;
  struct Waiting {
    Handler handler;
    Call call;
  };
  std::mutex waiting_mutex;
  std::map<std::string, std::vector<Waiting>> waiting;  // by model; guarded by waiting_mutex
  Workers quick{kQuickThreads};
  Workers large{1};             // for large bodies, and answers with logprobs
  Workers loads{kLoadThreads};  // loads models, and handles the requests that waited for them
  std::mutex apart_mutex;
  // Workers of each upstream model; guarded by apart_mutex. None is ever removed.
  std::map<std::string, std::unique_ptr<Workers>> apart;
  chat::ModelRegistry models;  // set before is_ready; its answers use the members above
  std::atomic<bool> is_ready = false;

  std::mutex openapi_mutex;
  std::vector<std::string> openapi_models;          // guarded by openapi_mutex
  std::shared_ptr<const std::string> openapi_text;  // for those models; guarded by openapi_mutex

  std::atomic<bool> is_cutting = false;
  std::mutex under_way_mutex;
  std::vector<std::weak_ptr<ChatAnswer>> under_way;  // guarded by under_way_mutex
  Ticker ticker{[this] { keep_alive(); }};           // last: it uses the members above
};

const std::array<Service::Impl::Route, 32> Service::Impl::kRoutes = {{
    {"POST", "/v1/chat/completions", &Impl::chat_completions, kBody},
    {"POST", "/v1/chat/completions/render", &Impl::render, kBody},
    {"POST", "/v1/completions", &Impl::completions, kBody},
    {"POST", "/v1/messages", &Impl::messages, kBody},
    {"POST", "/v1/messages/count_tokens", &Impl::count_tokens, kBody},
    {"POST", "/v1/responses", &Impl::responses, kBody},
    {"POST", "/v1/responses/input_tokens", &Impl::input_tokens, kBody},
    {"GET", "/v1/responses/{id}", &Impl::get_response, kBody},
    {"DELETE", "/v1/responses/{id}", &Impl::delete_response, kBody},
    {"GET", "/v1/responses/{id}/input_items", &Impl::list_input_items, kBody},
    {"POST", "/v1/responses/{id}/cancel", &Impl::cancel_response, kBody},
    {"POST", "/v1/responses/compact", &Impl::compact, kBody},
    {"POST", "/v1/conversations", &Impl::create_conversation, kBody},
    {"GET", "/v1/conversations/{id}", &Impl::get_conversation, kBody},
    {"POST", "/v1/conversations/{id}", &Impl::update_conversation, kBody},
    {"DELETE", "/v1/conversations/{id}", &Impl::delete_conversation, kBody},
    {"POST", "/v1/conversations/{id}/items", &Impl::add_items, kBody},
    {"GET", "/v1/conversations/{id}/items", &Impl::list_items, kBody},
    {"GET", "/v1/conversations/{id}/items/{item}", &Impl::get_item, kBody},
    {"DELETE", "/v1/conversations/{id}/items/{item}", &Impl::delete_item, kBody},
    {"GET", "/v1/models", &Impl::list_models},
    {"GET", "/v1/models/{name}", &Impl::get_model},
    {"POST", "/tokenize", &Impl::tokenize, kBody},
    {"POST", "/detokenize", &Impl::detokenize, kBody},
    {"GET", "/metrics", &Impl::metrics_text, kEarly},
    {"GET", "/version", &Impl::version, kEarly},
    {"GET", "/health", &Impl::health, kOpen | kEarly},
    {"GET", "/ready", &Impl::health, kOpen | kEarly},
    {"GET", "/v1/health", &Impl::health, kOpen | kEarly},
    {"GET", "/openapi.json", &Impl::openapi_document},
    {"GET", "/v1/openapi.json", &Impl::openapi_document},
    {"GET", "/", &Impl::page},
}};

// ---- what every request goes through

void Service::Impl::handle(const Access& admitted, std::shared_ptr<http::Exchange> exchange) {
  const http::Request& request = exchange->request();
  Call call{.exchange = std::move(exchange), .running = RunningRequest(metrics)};
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
  const std::string path = canonical_path(request.path);
  // Some clients request pages with HEAD, whose answer is that of GET without the body.
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const bool is_preflight = method == "OPTIONS" && !admitted.cors_origins.empty();
  const bool is_literal = std::ranges::find(kRoutes, path, &Route::path) != kRoutes.end();
  std::string allowed;
  for (const Route& route : kRoutes) {
    const auto part = open_part(route.path, path);
    if (!part || (is_literal && path != route.path)) continue;
    call.running.set_route(route.path);
    if (method != route.method) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
      continue;
    }
    call.tail = *part;
    if (const auto error = bar(route, admitted, call)) {
      const log::About about(call.about);
      log::info("refused " + request.peer + " at " + std::string(route.path) + ": " +
                std::to_string(error->status()) + " " + std::string(error->code.name()));
      return respond_error(call, *error);
    }
    if (log::is_on(log::Level::debug)) {
      const log::About about(call.about);
      log::debug(request.method + " " + request.path);
    }
    if ((route.traits & kBody) != 0) return hand_over(route.handler, std::move(call));
    return run(route.handler, call);
  }
  if (allowed.empty()) {
    return respond_error(call, nothing_here());
  }
  if (is_preflight) return respond(call, {.status = 204});
  call.headers.push_back({"allow", allowed});
  respond_error(call, {.message = "this path takes " + allowed + " only",
                       .param = {},
                       .code = "method_not_allowed"});
}

// Why no client, or not this one, may use `route` now.
std::optional<ApiError> Service::Impl::bar(const Route& route, const Access& admitted,
                                           Call& call) const {
  const http::Request& request = call.exchange->request();
  const bool needs_key = (route.traits & kOpen) == 0;
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
  if ((route.traits & kEarly) == 0 && !is_ready) {
    return ApiError{
        .message = "the models are still being loaded", .param = {}, .code = "not_ready"};
  }
  if (owner != nullptr) {
    call.about += " key=" + owner->name();
    call.running.set_about(call.about);
  }
  // Only routes with kBody count towards the owner's limits.
  if (owner == nullptr || (route.traits & kBody) == 0) return std::nullopt;
  if (auto refusal = owner->enter(Clock::now())) {
    return ApiError{.message = std::move(refusal->message),
                    .param = {},
                    .code = "rate_limit_exceeded",
                    .retry_after = refusal->retry_after};
  }
  call.key = KeyUse(std::move(owner));
  return std::nullopt;
}

// The hand-over costs 20 us of CPU (api_bench/whole_call: 65 us in place, 85 us so; 2 cores of an
// AMD EPYC, 2026-11-21), which is little beside a model. In place, a template or the tokenizer of
// an upstream would stop every stream.
void Service::Impl::hand_over(Handler handler, Call call) {
  const bool is_large = call.exchange->request().body.size() > kLargeBody;
  post(is_large ? large : quick, handler, std::move(call));
}

void Service::Impl::post(Workers& workers, Handler handler, Call call) {
  if (workers.waiting() >= options.max_waiting) {
    return respond_error(call, overloaded());
  }
  // std::function must be copyable, which a Call is not.
  auto shared = std::make_shared<Call>(std::move(call));
  workers.post([this, handler, shared = std::move(shared)] { run(handler, *shared); });
}

void Service::Impl::run(Handler handler, Call& call) try {
  if (call.exchange->is_closed()) return call.running.ended(kClientGone);
  // Copies, since the call may move to another thread.
  const std::string own = call.about;
  const trace::Context trace = call.trace;
  const log::About about(own);
  const trace::Scope scope(trace);
  // A call that waits for an upstream stops waiting once the client has gone.
  const CancelToken gone;
  if (call.is_apart) call.exchange->on_closed([gone] { gone.cancel(); });
  const patience::Scope patience({.deadline = patience::after(options.time_limit), .cancel = gone});
  const http::Gathering gathering;  // a stream's head is sent together with its first event
  if (is_cutting) return respond_error(call, is_stopping());
  (this->*handler)(call);
} catch (const std::exception& thrown) {
  // Out of memory, or a library threw: this request fails, the others go on.
  const log::About about(call.about);
  log::error(std::string("a request failed: ") + thrown.what());
  if (call.exchange) respond_error(call, internal_error());
}

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

void Service::Impl::respond(Call& call, http::Response response) {
  call.running.ended(response.status);
  call.key.leave();  // first, so that the client's next request finds the place free
  response.headers.insert(response.headers.end(), call.headers.begin(), call.headers.end());
  call.exchange->respond(std::move(response));
}

void Service::Impl::respond_json(Call& call, const Value& value) {
  respond(call, {.body = json::to_string(value)});
}

void Service::Impl::respond_error(Call& call, const ApiError& error) {
  call.running.ended(call.exchange->is_closed() ? kClientGone : error.status());
  call.key.leave();
  call.exchange->respond(to_response(error, call.headers, call.dialect));
}

Result<Value, ApiError> Service::Impl::body(const Call& call) const {
  const http::Request& request = call.exchange->request();
  const std::string_view coding = request.header("content-encoding");
  if (!coding.empty() && coding != "identity") {
    return Failure<ApiError>({.message = "the body comes with content-encoding " +
                                         json::quoted(coding) +
                                         ", which is not read here: send it as it is",
                              .param = {},
                              .code = "content_encoding_unsupported"});
  }
  Expected<Value> parsed = json::parse(request.body, kBodyLimits);
  if (!parsed) return Failure<ApiError>(bad_json(parsed.error()));
  return *std::move(parsed);
}

// ---- models

// Whether `name` is "a:b" for two models that exist.
bool Service::Impl::is_pair(std::string_view name) const {
  if (options.pairs == nullptr || models.has_own(name)) return false;
  return chat::split_pair(name, [&](auto part) { return models.has_single(part); }).has_value();
}

ApiError Service::Impl::unknown_model(std::string_view name) const {
  constexpr std::size_t kMost = 200;
  std::string why = "does not exist; GET /v1/models lists those that do";
  const auto pair = chat::split_pair(name, [&](auto part) { return models.has(part); });
  if (pair && options.pairs == nullptr) {
    why = "is a pair of models, which are not taken here (server.recursive_pairs)";
  } else if (pair) {
    const auto recursive = models.has_single(pair->root) ? pair->sub : pair->root;
    why = "is no pair of models: " + json::quoted(recursive) + " is a recursive model itself";
  }
  return {.message = "the model " + json::quoted(name.substr(0, kMost)) + " " + why,
          .param = "model",
          .code = "model_not_found"};
}

// Null: the call has been answered, or it was posted again and comes to `handler` later.
std::shared_ptr<chat::Model> Service::Impl::model_for(const std::string& name, Handler handler,
                                                      Call& call) {
  if (is_pair(name)) return options.pairs;
  // Uses the model's own name, since a model with the alias "*" answers to any name.
  const std::string own = models.own_name(name);
  if (own.empty()) {
    respond_error(call, unknown_model(name));
    return nullptr;
  }
  auto model = models.loaded(own);
  if (model == nullptr) {
    wait_for(own, handler, call);
    return nullptr;
  }
  if (!model->capabilities().is_remote || std::exchange(call.is_apart, true)) return model;
  // An upstream that does not answer delays only its own requests.
  post(workers_of(model->name()), handler, std::move(call));
  return nullptr;
}

// False: the call has been answered with an error, because there is no tokenizer.
bool Service::Impl::has_prompts(const chat::Model& model, Call& call) {
  if (model.engine() != nullptr) return true;
  respond_error(call, from_refusal(chat::no_prompts(model)));
  return false;
}

Workers& Service::Impl::workers_of(const std::string& model) {
  const std::lock_guard lock(apart_mutex);
  std::unique_ptr<Workers>& workers = apart[model];
  if (workers == nullptr) workers = std::make_unique<Workers>(kQuickThreads);
  return *workers;
}

// One thread loads a model, however many requests wait for it, so that others can load other
// models.
void Service::Impl::wait_for(const std::string& name, Handler handler, Call& call) {
  std::unique_lock lock(waiting_mutex);
  std::vector<Waiting>& those = waiting[name];
  if (those.size() >= options.max_waiting) {
    lock.unlock();
    return respond_error(call, overloaded());
  }
  // Posted first: if one of the two lines throws for lack of memory, no call waits for ever.
  if (those.empty()) loads.post([this, name] { load(name); });
  those.push_back({handler, std::move(call)});
}

void Service::Impl::load(const std::string& name) {
  std::shared_ptr<chat::Model> model;  // keeps the model loaded until all calls have begun
  ApiError error = internal_error();
  try {
    auto used = models.use(name);
    if (used) {
      model = *std::move(used);
    } else {
      error = from_refusal(used.error());
    }
  } catch (const std::exception& thrown) {
    log::error("model '" + name + "': " + thrown.what());
  }
  std::vector<Waiting> those;
  {
    const std::lock_guard lock(waiting_mutex);
    those.swap(waiting[name]);
  }
  for (auto& [handler, call] : those) {
    if (model != nullptr) {
      run(handler, call);
    } else {
      respond_error(call, error);
    }
  }
}

// ---- answers

// Reports it in the answer's `tenon.repairs`, and in a header, which comes earlier.
void Service::Impl::tell_left_out(Call& call, Asked& asked) {
  if (asked.left_out.empty()) return;
  std::string nowhere;
  for (unsigned choice = 0; choice < asked.choices; ++choice) {
    for (const message::Diagnostic& part : asked.left_out) {
      if (asked.stream) {
        asked.encoder->add(choice, part, {}, nowhere);
      } else {
        asked.encoder->keep(choice, part, {});
      }
    }
  }
  add_left_out(call, asked.left_out);
}

void Service::Impl::add_left_out(Call& call, const std::vector<message::Diagnostic>& left_out) {
  if (!left_out.empty()) call.headers.push_back({"x-tenon-left-out", paths_of(left_out)});
}

void Service::Impl::start(Call& call, chat::Model& model, Asked asked) {
  if (const auto refused = refused_rlm(asked.chat, model)) return respond_error(call, *refused);
  if (asked.choices > 1 && model.takes_rlm()) {
    return respond_error(call, {.message = "n must be 1: " + json::quoted(model.name()) +
                                           " is a recursive model, whose runs are sessions",
                                .param = "n",
                                .code = "unsupported_parameter"});
  }
  asked.chat.owner = call.key.name();
  const bool is_stream = asked.stream;
  tell_left_out(call, asked);
  Workers& writers = asked.chat.logprobs ? large : quick;
  auto answer = std::make_shared<ChatAnswer>(
      ChatAnswer::Options{.encoder = std::move(asked.encoder),
                          .model = model.name(),
                          .chat = std::make_unique<message::ChatRequest>(std::move(asked.chat)),
                          .prompts = std::move(asked.prompts),
                          .choices = asked.choices,
                          .stream = is_stream,
                          .headers = std::move(call.headers),
                          .about = call.about,
                          .running = std::move(call.running),
                          .key = std::move(call.key)},
      std::move(call.exchange), metrics, writers);
  {
    const std::lock_guard lock(under_way_mutex);
    under_way.push_back(answer);
  }
  // If the answers were cut before this one was in the list, it is cut here.
  if (is_cutting) return answer->cut(is_stopping());
  answer->start(model);
}

void Service::Impl::chat_completions(Call& call) {
  auto request = decoded(call, decode_chat_completion);
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::chat_completions, call);
  if (model == nullptr) return;
  ChatCompletionHead head{.id = random_id("chatcmpl-"),
                          .created = unix_time(),
                          .model = request->chat.model,
                          .fingerprint = fingerprint,
                          .format = format_name(*model),
                          .custom_tools = custom_names(request->chat.tools),
                          .has_functions = request->has_functions,
                          .is_json = wants_json(request->chat),
                          .usage_field = request->include_usage};
  auto encoder = std::make_unique<ChatCompletionEncoder>(
      std::move(head), ChatCompletionEncoder::Options{.choices = request->choices,
                                                      .include_usage = request->include_usage,
                                                      .logprobs = request->chat.logprobs});
  start(call, *model,
        {.encoder = std::move(encoder),
         .chat = std::move(request->chat),
         .choices = request->choices,
         .stream = request->stream,
         .left_out = std::move(request->left_out)});
}

void Service::Impl::completions(Call& call) {
  auto request = decoded(call, decode_completion);
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::completions, call);
  if (model == nullptr || !has_prompts(*model, call)) return;
  CompletionHead head{.id = random_id("cmpl-"),
                      .created = unix_time(),
                      .model = request->chat.model,
                      .fingerprint = fingerprint,
                      .prompts = request->prompts.size(),
                      .choices = request->choices,
                      .candidates = request->candidates,
                      .echoes = {},
                      .logprobs = request->chat.logprobs,
                      .is_json = wants_json(request->chat),
                      .include_usage = request->include_usage};
  for (const message::Continuation& prompt : request->prompts) {
    if (request->echo) head.echoes.push_back(text_of(prompt, model->engine()->tokenizer()));
  }
  // The best answers are found by their log probabilities.
  if (request->candidates > request->choices) request->chat.logprobs = true;
  const auto answers = static_cast<unsigned>(request->prompts.size() * request->candidates);
  start(call, *model,
        {.encoder = std::make_unique<CompletionEncoder>(std::move(head)),
         .chat = std::move(request->chat),
         .prompts = std::move(request->prompts),
         .choices = answers,
         .stream = request->stream,
         .left_out = std::move(request->left_out)});
}

void Service::Impl::messages(Call& call) {
  auto request = decoded(call, decode_messages);
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::messages, call);
  if (model == nullptr) return;
  Value applied = edit(*model, *request);
  // An upstream that makes the prompt itself says how long it was only at the end.
  const std::uint64_t guessed = model->engine() == nullptr ? guessed_tokens(request->chat) : 0;
  auto encoder = std::make_unique<MessagesEncoder>(MessageHead{
      .id = random_id("msg_"),
      .model = request->chat.model,
      .format = format_name(*model),
      .request_id = call.headers.front().value,
      .omits_thinking = request->omits_thinking,
      .is_json = wants_json(request->chat),
      .context_management = std::move(applied),
      .guessed_tokens = guessed,
  });
  start(call, *model,
        {.encoder = std::move(encoder),
         .chat = std::move(request->chat),
         .stream = request->stream,
         .left_out = std::move(request->left_out)});
}

void Service::Impl::count_tokens(Call& call) {
  auto request = decoded(call, decode_count_tokens);
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::count_tokens, call);
  if (model == nullptr) return;
  add_left_out(call, request->left_out);
  json::Object members;
  if (request->edits) {
    const std::uint64_t before = tokens_of(*model, request->chat);
    static_cast<void>(edit(*model, *request));
    members.set("context_management", json::Object{{"original_input_tokens", before}});
  }
  respond_count(call, *model, request->chat, std::move(members));
}

// Applies `context_management`. Null: there was nothing to apply.
Value Service::Impl::edit(const chat::Model& model, MessagesRequest& request) const {
  if (!request.edits) return {};
  return json::Object{
      {"applied_edits", apply_edits(*request.edits, request.chat,
                                    [&](const auto& chat) { return tokens_of(model, chat); })}};
}

// `members` come before the count in the answer.
void Service::Impl::respond_count(Call& call, chat::Model& model, const message::ChatRequest& chat,
                                  json::Object members) {
  if (const auto refused = refused_rlm(chat, model)) return respond_error(call, *refused);
  const auto prepared = model.prepare(chat);
  if (!prepared) {
    const bool is_messages = call.dialect == Dialect::anthropic;
    const std::span<const FieldName> names =
        is_messages ? std::span<const FieldName>(kMessagesNames) : kResponsesNames;
    return respond_error(call, renamed(from_refusal(prepared.error()), names));
  }
  members.set("input_tokens", static_cast<std::uint64_t>(prepared->tokens.size()));
  respond_json(call, members);
}

// ---- responses

FindResponse Service::Impl::finder(const Call& call) const {
  return [this, owner = call.key.name()](const std::string& id) {
    return id.starts_with("conv_") ? conversations.find(owner, id) : kept.find(owner, id);
  };
}

DecodeOptions Service::Impl::with_seal(const Call& call, DecodeOptions how) const {
  how.unseal = [this, owner = std::string(call.key.name())](std::string_view sealed) {
    return seal.open(owner, sealed);
  };
  return how;
}

void Service::Impl::respond_result(Call& call, const Result<Value, ApiError>& result) {
  result ? respond_json(call, *result) : respond_error(call, result.error());
}

void Service::Impl::responses(Call& call) {
  const std::string id = random_id("resp_");
  auto request = decoded(call, [&](const Value& value, const DecodeOptions& how) {
    return decode_response(value, id, finder(call), with_seal(call, how));
  });
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::responses, call);
  if (model == nullptr) return;
  request->echo.set("model", request->chat.model);  // the request may lack it
  if (request->truncates) truncate(*model, *request);
  Keep keep = keeper(call, id, *request);
  ResponseHead head{.id = id,
                    .created_at = unix_time(),
                    .echo = std::move(request->echo),
                    .format = format_name(*model),
                    .custom_tools = custom_names(request->chat.tools),
                    .called_as = std::move(request->called_as),
                    .logprobs = request->chat.logprobs,
                    .is_json = wants_json(request->chat),
                    .keep = keep,
                    .now = unix_time};
  if (request->wants_sealed) {
    head.seal = [this, owner = std::string(call.key.name())](std::string_view text) {
      return seal.close(owner, text);
    };
  }
  Asked asked{.encoder = std::make_unique<ResponsesEncoder>(std::move(head)),
              .chat = std::move(request->chat),
              .stream = request->stream,
              .left_out = std::move(request->left_out)};
  if (!request->background) return start(call, *model, std::move(asked));
  respond_in_background(call, *model, std::move(asked), id, std::move(keep));
}

// Leaves the oldest messages out if the prompt does not fit into the model's context with room for
// the answer. An upstream that makes the prompt itself says by itself what does not fit.
void Service::Impl::truncate(const chat::Model& model, ResponsesRequest& request) {
  const std::uint32_t context = model.capabilities().context_tokens;
  if (context == 0 || model.engine() == nullptr) return;
  const std::uint32_t answer = std::min(request.chat.max_tokens.value_or(context / 4), context / 4);
  const auto fits = [&](const message::ChatRequest& chat) {
    const auto prepared = model.prepare(chat);
    if (!prepared) return prepared.error().code != "context_length_exceeded";
    return prepared->tokens.size() + answer <= context;
  };
  if (fits(request.chat)) return;
  const std::size_t dropped = drop_oldest(request.chat, fits);
  if (dropped == 0) return;
  request.left_out.push_back(
      {.code = std::string(kLeftOut),
       .message = "input is left out: its oldest " + std::to_string(dropped) +
                  " messages, which do not fit into the model's context (truncation: auto)"});
}

// A function that stores the response and adds new items to its conversation. Null if neither is
// asked for.
Service::Impl::Keep Service::Impl::keeper(const Call& call, const std::string& id,
                                          const ResponsesRequest& request) {
  const std::string owner(call.key.name());
  Keep store;
  if (request.store) store = kept.keeper(owner, id, request.input);
  if (request.conversation.empty()) return store;
  json::Array own(request.input.begin() + static_cast<std::ptrdiff_t>(request.first_new),
                  request.input.end());
  return [this, owner, name = request.conversation, own = std::move(own),
          store = std::move(store)](const Value& response) {
    const Value* status = response.find("status");
    const bool is_answer =
        status != nullptr && (*status == Value("completed") || *status == Value("incomplete"));
    if (is_answer) {
      json::Array items = own;
      const Value* output = response.find("output");
      if (output != nullptr && output->if_array() != nullptr) {
        items.insert(items.end(), output->if_array()->begin(), output->if_array()->end());
      }
      if (const auto added = conversations.add(owner, name, items); !added) {
        log::error("the conversation " + name + " lacks a response: " + added.error().message);
      }
    }
    return store && store(response);
  };
}

// Answers the client at once with the response as it begins, or lets it follow the events.
void Service::Impl::respond_in_background(Call& call, chat::Model& model, Asked asked,
                                          const std::string& id, Keep keep) {
  if (!background.has_room()) return respond_error(call, overloaded());
  std::string begun;
  asked.encoder->begin(begun);
  auto run = std::make_shared<BackgroundRun>(response_begun_in(begun), std::move(keep), quick);
  const std::shared_ptr<http::Exchange> client = std::exchange(call.exchange, run);
  const std::string owner(call.key.name());
  const bool is_stream = std::exchange(asked.stream, true);
  add_left_out(call, asked.left_out);
  std::vector<http::Header> headers = call.headers;
  background.add(owner, id, run);
  start(call, model, std::move(asked));
  if (auto refusal = run->refusal()) {
    background.remove(owner, id);
    return client->respond(*std::move(refusal));
  }
  if (!is_stream) {
    return client->respond({.headers = std::move(headers), .body = json::to_string(run->state())});
  }
  headers.push_back({"cache-control", "no-cache"});
  headers.push_back({"x-accel-buffering", "no"});
  static_cast<void>(run->follow(client, std::move(headers), -1));
}

void Service::Impl::compact(Call& call) {
  constexpr std::uint32_t kSummaryTokens = 1024;
  constexpr std::uint32_t kUnknownContext = 32'768;
  constexpr std::size_t kBytesPerToken = 3;
  const std::string id = random_id("resp_");
  auto request = decoded(call, [&](const Value& value, DecodeOptions how) {
    how.is_all_past = true;
    return decode_response(value, id, finder(call), with_seal(call, std::move(how)));
  });
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::compact, call);
  if (model == nullptr) return;
  const std::uint32_t told = model->capabilities().context_tokens;
  const std::uint32_t context = told == 0 ? kUnknownContext : told;
  const std::uint32_t most = std::min(kSummaryTokens, std::max(context / 4, 1U));
  std::size_t bytes = (context - most) * kBytesPerToken;
  message::ChatRequest asked = summary_request(request->chat, bytes, most);
  // If the text has short tokens, it is shortened further.
  for (int tries = 0; tries < 8 && model->engine() != nullptr; ++tries) {
    const auto prepared = model->prepare(asked);
    const bool is_too_long = prepared ? prepared->tokens.size() + most > context
                                      : prepared.error().code == "context_length_exceeded";
    if (!is_too_long) break;
    bytes /= 2;
    asked = summary_request(request->chat, bytes, most);
  }
  CompactionHead head{.id = id,
                      .created_at = unix_time(),
                      .format = format_name(*model),
                      .kept_items = {},
                      .seal = [this, owner = std::string(call.key.name())](std::string_view text) {
                        return seal.close(owner, text);
                      }};
  for (Value& item : request->input) {
    const Value* role = present(item, "role");
    if (role != nullptr && *role == Value("user")) head.kept_items.push_back(std::move(item));
  }
  start(call, *model,
        {.encoder = std::make_unique<CompactionEncoder>(std::move(head)),
         .chat = std::move(asked),
         .left_out = std::move(request->left_out)});
}

void Service::Impl::input_tokens(Call& call) {
  const auto request = decoded(call, [&](const Value& value, const DecodeOptions& how) {
    return decode_response(value, "resp_", finder(call), with_seal(call, how));
  });
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::input_tokens, call);
  if (model == nullptr) return;
  add_left_out(call, request->left_out);
  respond_count(call, *model, request->chat, {{"object", "response.input_tokens"}});
}

// A response that is under way, or was until lately, can be followed from any of its events on.
void Service::Impl::get_response(Call& call) {
  const std::string owner(call.key.name());
  const std::string_view query = call.exchange->request().query;
  const auto run = background.find(owner, call.tail);
  if (run == nullptr) return respond_result(call, kept.get(owner, call.tail, query));
  const auto fields =
      fields_of_query(query, {"include", "include_obfuscation", "starting_after", "stream"});
  if (!fields) return respond_error(call, fields.error());
  bool is_stream = false;
  std::int64_t after = -1;
  for (const auto& [name, value] : *fields) {
    if (name == "stream") is_stream = value == "true";
    if (name != "starting_after") continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), after);
    if (error != std::errc() || end != value.data() + value.size() || after < 0) {
      return respond_error(call, invalid_value(name, name + " must be an integer from 0 on"));
    }
  }
  if (!is_stream) {
    Value ended = run->ended();
    if (ended.is_null()) return respond_json(call, run->state());
    auto stored = kept.get(owner, call.tail, "");
    return respond_json(call, stored ? *stored : ended);
  }
  std::vector<http::Header> headers = call.headers;
  headers.push_back({"cache-control", "no-cache"});
  headers.push_back({"x-accel-buffering", "no"});
  if (!run->follow(call.exchange, std::move(headers), after)) {
    return respond_error(
        call, invalid_value("starting_after", "the events behind it are not kept any more"));
  }
  call.running.ended(200);
  call.key.leave();
}

void Service::Impl::list_input_items(Call& call) {
  respond_result(call, kept.list_input(call.key.name(), call.tail, call.exchange->request().query));
}

void Service::Impl::delete_response(Call& call) {
  const std::string owner(call.key.name());
  const auto run = background.find(owner, call.tail);
  auto erased = kept.erase(owner, call.tail);
  if (run == nullptr) return respond_result(call, erased);
  static_cast<void>(run->cancel(/*is_kept=*/false));
  background.remove(owner, call.tail);
  respond_json(call, json::Object{{"id", call.tail}, {"object", "response"}, {"deleted", true}});
}

void Service::Impl::cancel_response(Call& call) {
  const std::string owner(call.key.name());
  if (const auto run = background.find(owner, call.tail)) {
    return respond_json(call, run->cancel(/*is_kept=*/true));
  }
  respond_result(call, kept.cancel(owner, call.tail));
}

// ---- conversations

Result<ConversationRequest, ApiError> Service::Impl::conversation_in(Call& call) const {
  const std::string id = random_id("resp_");
  auto request = body(call).and_then([&](const Value& value) {
    return decode_conversation(
        value, id, with_seal(call, {.refuses_unknown_fields = options.refuses_unknown}));
  });
  if (request) add_left_out(call, request->left_out);
  return request;
}

void Service::Impl::create_conversation(Call& call) {
  auto request = conversation_in(call);
  if (!request) return respond_error(call, request.error());
  respond_result(call, conversations.create(call.key.name(), std::move(request->items),
                                            std::move(request->metadata), unix_time()));
}

void Service::Impl::get_conversation(Call& call) {
  respond_result(call, conversations.get(call.key.name(), call.tail));
}

void Service::Impl::update_conversation(Call& call) {
  auto request = conversation_in(call);
  if (!request) return respond_error(call, request.error());
  if (!request->has_metadata) {
    return respond_error(call, {.message = "metadata is required",
                                .param = "metadata",
                                .code = "missing_required_parameter"});
  }
  if (!request->items.empty()) return respond_error(call, not_here("items"));
  respond_result(call,
                 conversations.update(call.key.name(), call.tail, std::move(request->metadata)));
}

void Service::Impl::delete_conversation(Call& call) {
  respond_result(call, conversations.erase(call.key.name(), call.tail));
}

void Service::Impl::add_items(Call& call) {
  const auto request = conversation_in(call);
  if (!request) return respond_error(call, request.error());
  if (request->has_metadata) return respond_error(call, not_here("metadata"));
  if (request->items.empty()) {
    return respond_error(call, {.message = "items must have at least one item",
                                .param = "items",
                                .code = "invalid_value"});
  }
  respond_result(call, conversations.add(call.key.name(), call.tail, request->items));
}

void Service::Impl::list_items(Call& call) {
  respond_result(call,
                 conversations.list(call.key.name(), call.tail, call.exchange->request().query));
}

void Service::Impl::get_item(Call& call) {
  respond_result(call, conversations.item(call.key.name(), call.tail));
}

void Service::Impl::delete_item(Call& call) {
  respond_result(call, conversations.erase_item(call.key.name(), call.tail));
}

std::vector<std::shared_ptr<ChatAnswer>> Service::Impl::live_answers() {
  std::vector<std::shared_ptr<ChatAnswer>> live;
  const std::lock_guard lock(under_way_mutex);
  std::erase_if(under_way, [](const auto& each) { return each.expired(); });
  live.reserve(under_way.size());
  for (const auto& each : under_way) {
    if (auto answer = each.lock()) live.push_back(std::move(answer));
  }
  return live;
}

void Service::Impl::keep_alive() {
  const auto now = Clock::now();
  for (const auto& answer : live_answers()) answer->keep_alive(now);
}

void Service::Impl::cut_answers() {
  is_cutting = true;
  std::map<std::string, std::vector<Waiting>> those;
  {
    const std::lock_guard lock(waiting_mutex);
    those.swap(waiting);
  }
  for (auto& [model, calls] : those) {
    for (Waiting& each : calls) respond_error(each.call, is_stopping());
  }
  for (const auto& answer : live_answers()) answer->cut(is_stopping());
}

void Service::Impl::render(Call& call) {
  auto request = decoded(call, decode_chat_completion);
  if (!request) return respond_error(call, request.error());
  const auto model = model_for(request->chat.model, &Impl::render, call);
  if (model == nullptr) return;
  add_left_out(call, request->left_out);
  if (const auto refused = refused_rlm(request->chat, *model)) {
    return respond_error(call, *refused);
  }
  auto prepared = model->prepare(request->chat);
  if (!prepared) return respond_error(call, from_refusal(prepared.error()));

  prompt::Prompt& prompt = prepared->prompt;
  const std::size_t opening = prompt.text.size();
  for (const auto& [bytes, is_control] : prepared->opening) prompt.text += bytes;
  if (prompt.text.size() > opening) prompt.spans.push_back({opening, prompt.text.size(), false});
  json::Array spans;
  for (const jinja::Span& span : prompt.spans) {
    spans.emplace_back(json::Array{static_cast<std::uint64_t>(span.begin),
                                   static_cast<std::uint64_t>(span.end),
                                   span.is_data ? "data" : "template"});
  }
  json::Array tokens;
  for (const vocab::TokenId id : prepared->tokens) tokens.emplace_back(id);
  json::Array shaping;
  for (const std::string& change : prompt.shaping) shaping.emplace_back(change);
  json::Object ids;
  for (const auto& [sent, read] : prompt.ids) ids.set(sent, read);
  respond_json(call,
               json::Object{{"model", model->name()},
                            {"prompt", std::move(prompt.text)},
                            {"spans", std::move(spans)},
                            {"tokens", std::move(tokens)},
                            {"token_count", static_cast<std::uint64_t>(prepared->tokens.size())},
                            {"context_tokens", std::uint64_t{model->capabilities().context_tokens}},
                            {"shaping", std::move(shaping)},
                            {"ids", std::move(ids)}});
}

// ---- text and tokens

Result<std::string, ApiError> Service::Impl::model_or_only(const std::string& name) const {
  if (!name.empty()) return name;
  const auto entries = models.entries();
  if (entries.size() == 1) return entries[0].name;
  return Failure<ApiError>(ApiError{.message = "model is required where there are several",
                                    .param = "model",
                                    .code = "missing_required_parameter"});
}

// Text stays text, unless `parse_special` asks for control tokens.
void Service::Impl::tokenize(Call& call) {
  const auto request = body(call).and_then(decode_tokenize);
  if (!request) return respond_error(call, request.error());
  const auto name = model_or_only(request->model);
  if (!name) return respond_error(call, name.error());
  const auto model = model_for(*name, &Impl::tokenize, call);
  if (model == nullptr || !has_prompts(*model, call)) return;
  std::vector<vocab::TokenId> ids;
  const engine::Engine& engine = *model->engine();
  const auto controls = request->parse_special ? vocab::Controls::on : vocab::Controls::off;
  const Status done = engine.tokenizer().encode(request->content, controls, /*at_start=*/true, ids);
  if (!done && patience::Clock::now() >= patience::current().deadline) {
    return respond_error(call, time_is_up());
  }
  if (!done) return respond_error(call, from_refusal(chat::refusal_of(done.error(), "content")));
  json::Array tokens;
  for (const vocab::TokenId id : ids) tokens.emplace_back(id);
  respond_json(
      call, json::Object{{"tokens", std::move(tokens)},
                         {"count", static_cast<std::uint64_t>(ids.size())},
                         {"max_model_len", std::uint64_t{engine.capabilities().context_tokens}}});
}

void Service::Impl::detokenize(Call& call) {
  const auto request = body(call).and_then(decode_detokenize);
  if (!request) return respond_error(call, request.error());
  const auto name = model_or_only(request->model);
  if (!name) return respond_error(call, name.error());
  const auto model = model_for(*name, &Impl::detokenize, call);
  if (model == nullptr || !has_prompts(*model, call)) return;
  const vocab::Tokenizer& tokenizer = model->engine()->tokenizer();
  std::string bytes;
  for (std::size_t i = 0; i < request->tokens.size(); ++i) {
    const vocab::TokenId id = request->tokens[i];
    if (static_cast<std::size_t>(id) >= tokenizer.size()) {
      const std::string path = at("tokens", i);
      return respond_error(call, invalid_value(path, path + ": the model has tokens 0 to " +
                                                         std::to_string(tokenizer.size() - 1)));
    }
    bytes += tokenizer.bytes(id);
    if (patience::current().is_over()) return respond_error(call, time_is_up());
  }
  respond_json(call, json::Object{{"content", utf8::sanitized(bytes)}});
}

// ---- models, metrics and pages

Value Service::Impl::describe(const chat::ModelRegistry::Entry& entry) const {
  json::Array aliases;
  for (const std::string& alias : entry.aliases) aliases.emplace_back(alias);
  json::Object described{{"id", entry.name},
                         {"object", "model"},
                         {"created", started},
                         {"owned_by", "tenon"},
                         // Fields that Anthropic's SDKs read.
                         {"type", "model"},
                         {"display_name", entry.name},
                         {"created_at", timestamp(started)},
                         {"aliases", std::move(aliases)},
                         {"loaded", entry.loaded.has_value()}};
  if (!entry.loaded) return described;  // the rest is known once the model is loaded
  const chat::ModelRegistry::Loaded& loaded = *entry.loaded;
  json::Object capabilities{{"tool_calls", loaded.is_recursive || !loaded.format.empty()},
                            {"parallel_tool_calls", loaded.is_recursive || loaded.is_parallel}};
  if (loaded.engine.context_tokens > 0) {  // some servers do not tell
    described.set("context_length", std::uint64_t{loaded.engine.context_tokens});
  }
  described.set("capabilities", std::move(capabilities));
  described.set("tool_call_format", loaded.format.empty() ? Value() : Value(loaded.format));
  described.set("engine", loaded.engine.kind);
  return described;
}

void Service::Impl::list_models(Call& call) {
  json::Array data;
  for (const auto& entry : models.entries()) data.push_back(describe(entry));
  respond_json(call, json::Object{{"object", "list"}, {"data", std::move(data)}});
}

void Service::Impl::get_model(Call& call) {
  // Tested first, as in model_for(): a model that answers to every name would hide a pair.
  const std::string own = is_pair(call.tail) ? std::string() : models.own_name(call.tail);
  for (const auto& entry : models.entries()) {
    if (entry.name == own) return respond_json(call, describe(entry));
  }
  if (is_pair(call.tail)) {
    return respond_json(
        call,
        describe(
            {.name = std::string(call.tail),
             .aliases = {},
             .loaded = chat::ModelRegistry::Loaded{
                 .engine = options.pairs->capabilities(), .format = {}, .is_recursive = true}}));
  }
  respond_error(call, unknown_model(call.tail));
}

void Service::Impl::health(Call& call) {
  const std::string_view tier = options.sandbox_tier ? options.sandbox_tier() : "";
  json::Object ok{{"status", "ok"}};
  if (!tier.empty()) ok.set("sandbox", tier);
  if (is_ready) return respond_json(call, std::move(ok));
  respond(call, {.status = 503, .body = json::to_string(json::Object{{"status", "loading"}})});
}

void Service::Impl::version(Call& call) {
  respond_json(call, json::Object{{"name", "tenon"}, {"version", options.version}});
}

void Service::Impl::metrics_text(Call& call) {
  if (is_ready) {
    const auto entries = models.entries();
    for (const auto& entry : entries) {
      metrics.grammars(entry.name, entry.grammars);
      metrics.engine(entry.name, entry.stats);
    }
    metrics.models(entries);
  }
  respond(call,
          {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.text()});
}

void Service::Impl::openapi_document(Call& call) {
  OpenApiOptions about{.version = options.version, .models = {}};
  for (const auto& entry : models.entries()) {
    about.models.push_back(entry.name);
    about.models.insert(about.models.end(), entry.aliases.begin(), entry.aliases.end());
  }
  std::shared_ptr<const std::string> text;
  {
    const std::lock_guard lock(openapi_mutex);
    if (openapi_text == nullptr || openapi_models != about.models) {
      openapi_text = std::make_shared<std::string>(json::to_string(openapi(about)));
      openapi_models = about.models;
    }
    text = openapi_text;
  }
  respond(call, {.body = *text});
}

void Service::Impl::page(Call& call) {
  // The address under which the client reached us, perhaps through a proxy.
  const std::string_view host = call.exchange->request().header("host");
  const std::string scheme = options.base_url.substr(0, options.base_url.find("://") + 3);
  const std::string base = host.empty() ? options.base_url : scheme + std::string(host);
  respond(call, {.content_type = "text/html; charset=utf-8",
                 .body = start_page(base, options.version, models)});
}

// ---- the service

Service::Service(ServiceOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Service::~Service() = default;

void Service::set_models(chat::ModelRegistry models) {
  impl_->models = std::move(models);
  impl_->is_ready = true;
}

chat::ModelRegistry& Service::models() {
  return impl_->models;
}

void Service::set_access(Access access) {
  const std::lock_guard lock(impl_->access_mutex);
  access.keys.go_on_from(impl_->access->keys);
  impl_->access = std::make_shared<const Access>(std::move(access));
}

void Service::cut_answers() {
  impl_->cut_answers();
}

void Service::handle(std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<const Access> access = impl_->current_access();
  impl_->handle(*access, std::move(exchange));
}

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
