#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/http/client.h"
#include "tenon/http/sse.h"
#include "tenon/mcp/transport.h"

// Messages over HTTP
//
// Each message that we send is a POST, whose response is one JSON message or a stream of events;
// each POST, and the GET that listens, is an Exchange. Servers up to 2025-11-25 have a session
// (mcp-session-id), and a stream of theirs that broke off is continued after its last event by a
// GET (resume, tend). Messages to servers of 2026-07-28 name their revision, and there is no
// session (is_modern).
//
// An exchange ends in on_end(), which says once what became of its request: answered, refused
// because it had no token, failed, or lost with the session. The client's thread uses the members
// of an exchange without a lock; the mutex guards the list of exchanges and what callers see.

namespace tenon::mcp {
namespace {

constexpr std::chrono::milliseconds kLongest{24 * 3600 * 1000};  // the caller's limits are shorter
constexpr std::chrono::milliseconds kGoodbye{1000};   // for the server to take our DELETE
constexpr std::chrono::seconds kBetweenListening{1};  // at least, between two streams
constexpr std::size_t kMaxExcerpt = 300;              // bytes of a server's text that are kept
constexpr std::ptrdiff_t kMaxUnanswered = 16;         // answers to the server, and notifications

/// One HTTP request and its response.
struct Exchange {
  Exchange(std::int64_t of, bool listens, std::size_t max_bytes)
      : id(of), is_listening(listens), decoder(max_bytes) {}

  const std::int64_t id;    // of the JSON-RPC request; 0: it is not a request
  const bool is_listening;  // waits for messages that the server sends by itself
  bool is_modern = false;   // its message names its revision, so there is no session
  // Used by the client's thread:
  unsigned status = 0;
  bool is_stream = false;
  std::string location;
  std::optional<Challenge> challenge;  // it was refused for want of a token
  std::string body;
  http::SseDecoder decoder;
  std::string last_event;    // its id, after which the stream can be continued
  bool is_answered = false;  // the request has its answer
  int resumed = 0;           // how often the stream was continued
  std::optional<Error> failure;
  std::string token;  // that was sent
  // Used under the transport's mutex:
  std::unique_ptr<http::Call> call;
  bool is_taken = false;  // the server has begun to answer, or will never do so
  bool is_over = false;
};

class HttpTransport final : public Transport {
 public:
  // `authorizer` is null if the configuration has the server's Authorization.
  HttpTransport(const ServerConfig& server, std::size_t max_bytes, TransportHandlers handlers,
                std::unique_ptr<Authorizer> authorizer, std::unique_ptr<http::Client> client)
      : server_(server),
        authorizer_(std::move(authorizer)),
        max_bytes_(max_bytes),
        handlers_(std::move(handlers)),
        client_(*client),
        owned_(std::move(client)) {}
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  ~HttpTransport() override {
    // Calls are destroyed without the lock: each ends in on_end(), which takes it.
    std::vector<std::unique_ptr<http::Call>> calls;
    bool has_session = false;
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      has_session = !session_.empty();
      for (const auto& exchange : exchanges_) calls.push_back(std::move(exchange->call));
    }
    calls.clear();
    // A server that does not know DELETE drops the session after a time.
    if (has_session) {
      (void)client_.fetch({.method = "DELETE",
                           .url = server_.url,
                           .headers = headers(token()),
                           .time_limit = kGoodbye});
    }
  }

  bool cancels_by_abandoning() const override { return true; }

  Status send(const json::Value& message, std::int64_t id,
              const std::vector<http::Header>& more) override {
    if (id != 0) listen();
    auto exchange = std::make_shared<Exchange>(id, /*listens=*/false, max_bytes_);
    std::vector<http::Header> own = more;
    const json::Value* const version =
        json::at_pointer(message, "/params/_meta/io.modelcontextprotocol~1protocolVersion");
    exchange->is_modern = version != nullptr && version->if_string() != nullptr;
    if (exchange->is_modern) add_modern_headers(message, *version->if_string(), own);
    // The trace stands in `_meta` and in the headers, for proxies that read only these.
    for (const char* const name : {"traceparent", "tracestate"}) {
      const json::Value* const field =
          json::at_pointer(message, std::string("/params/_meta/") + name);
      const std::string* const text = field == nullptr ? nullptr : field->if_string();
      if (text != nullptr) own.push_back({name, *text});
    }
    return ask("POST", json::to_string(message), exchange, std::move(own));
  }

  Status authorize(const Challenge& challenge, const CallOptions& call) override {
    if (authorizer_ == nullptr) return Transport::authorize(challenge, call);
    return authorizer_->renew(challenge, call.deadline, call.cancel);
  }

  void abandon(std::int64_t id) override {
    std::unique_ptr<http::Call> gone;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [id](const auto& one) { return one.second->id == id; });
    const auto found =
        std::ranges::find_if(exchanges_, [id](const auto& one) { return one->id == id; });
    if (found != exchanges_.end()) gone = std::move((*found)->call);
  }

  // Waits until the server has begun to answer `hello`: requests go over connections of their own
  // and could otherwise arrive before it.
  void begin(const std::string& version, const json::Value& hello,
             const CallOptions& call) override {
    constexpr std::chrono::milliseconds kMoment{20};
    {
      const std::lock_guard lock(mutex_);
      version_ = version;
    }
    const auto exchange = std::make_shared<Exchange>(0, /*listens=*/false, max_bytes_);
    const Status sent = ask("POST", json::to_string(hello), exchange);
    std::unique_lock lock(mutex_);
    while (sent && !exchange->is_taken && std::chrono::steady_clock::now() < call.deadline &&
           !call.cancel.is_cancelled()) {
      changed_.wait_for(lock, kMoment);
    }
    may_listen_ = true;
    lock.unlock();
    listen();
  }

 private:
  [[nodiscard]] std::string token() const {
    return authorizer_ == nullptr ? "" : authorizer_->token();
  }
  std::vector<http::Header> headers(const std::string& token) {
    const std::lock_guard lock(mutex_);
    std::vector<http::Header> all = server_.headers;
    if (!token.empty()) all.push_back({"Authorization", "Bearer " + token});
    all.push_back({"Accept", "application/json, text/event-stream"});
    if (!version_.empty()) all.push_back({"MCP-Protocol-Version", version_});
    if (!session_.empty()) all.push_back({"Mcp-Session-Id", session_});
    return all;
  }

  // The headers by which a proxy can route a message without reading it (2026-07-28): its method,
  // and the tool, prompt or resource that it names.
  static void add_modern_headers(const json::Value& message, const std::string& version,
                                 std::vector<http::Header>& headers) {
    headers.push_back({"MCP-Protocol-Version", version});
    const auto add = [&](const char* name, std::string_view pointer) {
      const json::Value* const found = json::at_pointer(message, pointer);
      const std::string* const text = found == nullptr ? nullptr : found->if_string();
      if (text != nullptr) headers.push_back({name, header_value(*text)});
    };
    add("Mcp-Method", "/method");
    add("Mcp-Name", "/params/name");
    add("Mcp-Name", "/params/uri");
  }

  // Opens a stream for messages that the server sends by itself. A server without this answers 405,
  // and is not asked again (may_listen_ stays false).
  void listen() {
    {
      const std::lock_guard lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      if (!may_listen_ || now < next_listening_) return;
      may_listen_ = false;
      next_listening_ = now + kBetweenListening;
    }
    if (ask("GET", "", std::make_shared<Exchange>(0, /*listens=*/true, max_bytes_))) return;
    const std::lock_guard lock(mutex_);
    may_listen_ = true;
  }

  // Continues a stream that broke off before the answer, after the last event that arrived, if the
  // server numbers its events (2025-03-26 to 2025-11-25).
  bool resume(const Exchange& broken) {
    constexpr int kMost = 100;
    if (broken.is_modern || broken.id == 0 || broken.is_answered || broken.last_event.empty() ||
        broken.failure || broken.resumed >= kMost) {
      return false;
    }
    auto exchange = std::make_shared<Exchange>(broken.id, /*listens=*/false, max_bytes_);
    exchange->last_event = broken.last_event;
    exchange->resumed = broken.resumed + 1;
    const std::lock_guard lock(mutex_);
    if (is_closing_) return false;
    constexpr std::chrono::milliseconds kLeast{50};
    const auto pause = std::max(broken.decoder.retry().value_or(kBetweenListening), kLeast);
    waiting_.push_back({std::chrono::steady_clock::now() + pause, exchange});
    return true;
  }
  // Continues the broken streams whose pause is over. It runs on the thread of a caller that waits.
  void tend() override {
    std::vector<std::shared_ptr<Exchange>> due;
    {
      const std::lock_guard lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      std::erase_if(waiting_, [&](const auto& one) {
        if (one.first > now) return false;
        due.push_back(one.second);
        return true;
      });
    }
    for (const auto& exchange : due) {
      if (const Status asked = ask("GET", "", exchange, {{"Last-Event-ID", exchange->last_event}});
          !asked) {
        handlers_.on_failed(exchange->id, asked.error());
      }
    }
  }

  // Begins an HTTP request. Its limits are wide, because callers have limits of their own and a
  // stream may stay silent for hours; the size of each message is bounded in on_body().
  Status ask(std::string method, std::string body, const std::shared_ptr<Exchange>& exchange,
             std::vector<http::Header> more = {}) {
    const std::int64_t id = exchange->id;
    exchange->token = token();
    http::ClientRequest request{.method = std::move(method),
                                .url = server_.url,
                                .headers = headers(exchange->token),
                                .body = std::move(body),
                                .silence_limit = kLongest,
                                .max_body_bytes = std::size_t{1} << 40};
    if (!request.body.empty()) request.headers.push_back({"Content-Type", "application/json"});
    std::ranges::move(more, std::back_inserter(request.headers));
    {
      const std::lock_guard lock(mutex_);
      // The number of answers to the server's own requests that it does not accept is bounded.
      const auto own =
          std::ranges::count_if(exchanges_, [](const auto& one) { return one->id == 0; });
      if (is_closing_) return Unexpected(Error{Errc::unavailable, server_.name + " is let go"});
      if (id == 0 && own > kMaxUnanswered) {
        return Unexpected(Error{Errc::limit_exceeded, "the server leaves too much unanswered"});
      }
      exchanges_.push_back(exchange);
    }
    auto call = client_.send(
        std::move(request),
        {.on_head = [this, exchange](unsigned status,
                                     const auto& fields) { on_head(*exchange, status, fields); },
         .on_body = [this, exchange](std::string_view bytes) { on_body(*exchange, bytes); },
         .wanted =
             [exchange] { return exchange->failure ? http::Wanted::nothing : http::Wanted::all; },
         .on_end = [this, exchange](Status end) { on_end(exchange, std::move(end)); }});
    std::unique_ptr<http::Call> old;
    const std::lock_guard lock(mutex_);
    if (!call) {
      std::erase(exchanges_, exchange);
      return Unexpected(std::move(call.error()));
    }
    // It may have ended already.
    exchange->is_over ? old.swap(*call) : exchange->call.swap(*call);
    return {};
  }

  // The first answer of a server with sessions names the session; every later request repeats it.
  void on_head(Exchange& exchange, unsigned status, const std::vector<http::Header>& fields) {
    exchange.status = status;
    const std::string_view type = http::find_header(fields, "content-type");
    exchange.is_stream = status == 200 && type.starts_with("text/event-stream");
    exchange.challenge = Challenge::of(status, fields, exchange.token);
    exchange.location = http::find_header(fields, "location").substr(0, kMaxExcerpt);
    const std::string_view session = http::find_header(fields, "mcp-session-id");
    const std::lock_guard lock(mutex_);
    exchange.is_taken = true;
    changed_.notify_all();
    if (session.empty() || session.size() > 1024 || status >= 300 || exchange.is_modern) return;
    session_ = session;
  }

  void on_body(Exchange& exchange, std::string_view bytes) {
    if (!exchange.is_stream) {
      if (exchange.body.size() + bytes.size() > max_bytes_) {
        exchange.failure = Error{Errc::limit_exceeded, server_.name + " answered with more than " +
                                                           std::to_string(max_bytes_) + " bytes"};
      } else {
        exchange.body += bytes;
      }
      return;
    }
    std::vector<http::SseEvent> events;
    if (Status fed = exchange.decoder.feed(bytes, events); !fed) exchange.failure = fed.error();
    for (const http::SseEvent& event : events) {
      if (!event.id.empty() && event.id.size() <= kMaxExcerpt) exchange.last_event = event.id;
      take(exchange, event.data);
    }
  }

  // One message of the server. The answer to our request may follow notifications on the same
  // stream.
  void take(Exchange& exchange, const std::string& text) {
    if (text.empty()) return;  // the server only shows that it is alive
    auto message = parse_message(text);
    if (message) {
      const bool is_answer = message->find("method") == nullptr;
      exchange.is_answered |= is_answer && own_id(message->find("id")) == exchange.id;
      return handlers_.on_message(*std::move(message));
    }
    exchange.failure =
        Error{message.error().code, server_.name + " sent no message: " + message.error().message};
  }

  // A lost session is answered with 404, and by some servers with 400 and a text. Nothing was run
  // then.
  bool is_session_lost(const Exchange& exchange) {
    if (exchange.id == 0 || exchange.is_modern || !has_session()) return false;
    if (exchange.status == 404) return true;
    return exchange.status == 400 && exchange.body.find("ession") != std::string::npos;
  }

  // A refusal of a 2026-07-28 server has a JSON-RPC error in its body. False: there is no such
  // error.
  bool take_refusal(Exchange& exchange) {
    if (!exchange.is_modern || exchange.id == 0) return false;
    auto message = parse_message(exchange.body);
    if (!message || message->if_object() == nullptr) return false;
    const json::Value* const error = message->find("error");
    if (error == nullptr || error->if_object() == nullptr) return false;
    // A server that could not read the request has no id to answer with.
    message->if_object()->set("id", exchange.id);
    exchange.is_answered = true;
    handlers_.on_message(*std::move(message));
    return true;
  }

  // The order matters: the error of the body comes before the bare status; a stream that is
  // continued has not ended; the exchange leaves the list before a handler runs, which may begin
  // another one.
  void on_end(const std::shared_ptr<Exchange>& exchange, Status end) {
    const unsigned status = exchange->status;
    const bool is_lost = is_session_lost(*exchange);
    // A server may put an error of JSON-RPC into its answer although it wants a token.
    const bool wants_token = exchange->challenge && authorizer_ != nullptr;
    if (status >= 300 && !exchange->failure && (wants_token || !take_refusal(*exchange))) {
      exchange->failure = Error{Errc::unavailable, server_.name + " answered with status " +
                                                       std::to_string(status) + excerpt(*exchange)};
    }
    const bool is_resumed = (exchange->is_stream || exchange->resumed > 0) && resume(*exchange);
    if (!end && !exchange->failure) exchange->failure = std::move(end.error());
    if (!exchange->is_stream && !exchange->failure && status < 300) {
      take(*exchange, exchange->body);
    }
    bool is_closing = false;
    {
      std::unique_ptr<http::Call> gone = nullptr;
      const std::lock_guard lock(mutex_);
      exchange->is_taken = exchange->is_over = true;
      changed_.notify_all();
      // If the stream ends or the server cannot be reached, a new stream may be opened later.
      if (exchange->is_listening && (exchange->is_stream || status == 0)) may_listen_ = true;
      is_closing = is_closing_;
      gone = std::move(exchange->call);
      std::erase(exchanges_, exchange);
    }
    if (is_closing || is_resumed) return;
    const std::string& name = server_.name;
    if (is_lost) {
      // It is not known whether other calls were run.
      handlers_.on_closed({.why = {Errc::unavailable, name + " has forgotten the session"},
                           .refused = exchange->id});
    } else if (exchange->id != 0 && exchange->challenge && authorizer_ != nullptr) {
      handlers_.on_refused(exchange->id, *std::move(exchange->challenge),
                           exchange->failure.value_or(Error{Errc::unavailable, name}));
    } else if (exchange->id != 0) {
      // Has no effect if the answer has arrived.
      handlers_.on_failed(exchange->id, exchange->failure.value_or(Error{
                                            Errc::unavailable, name + " ended without an answer"}));
    }
  }

  bool has_session() {
    const std::lock_guard lock(mutex_);
    return !session_.empty();
  }
  // What an error says besides the status: where a redirect leads, what a 401 lacks, or the body.
  static std::string excerpt(const Exchange& exchange) {
    std::string text = exchange.body.substr(0, kMaxExcerpt);
    if (!exchange.location.empty()) return ": its url is " + exchange.location;
    if (exchange.status == 401) return " (its headers need another Authorization)";
    return text.empty() ? "" : ": " + text;
  }

  const ServerConfig server_;
  const std::unique_ptr<Authorizer> authorizer_;
  const std::size_t max_bytes_;
  const TransportHandlers handlers_;

  http::Client& client_;  // belongs to owned_; valid until its thread has ended

  std::mutex mutex_;  // guards the members below, except the client
  std::condition_variable changed_;
  std::string version_;
  std::string session_;
  std::list<std::shared_ptr<Exchange>> exchanges_;
  // Streams that broke off, and when they are continued.
  std::vector<std::pair<std::chrono::steady_clock::time_point, std::shared_ptr<Exchange>>> waiting_;
  bool may_listen_ = false;
  std::chrono::steady_clock::time_point next_listening_;
  bool is_closing_ = false;

  const std::unique_ptr<http::Client> owned_;  // last, because its thread uses the others
};

}  // namespace

Status Transport::authorize(const Challenge& /*challenge*/, const CallOptions& /*call*/) {
  return Unexpected(Error{Errc::unsupported, "there are no tokens for this server"});
}

Expected<std::unique_ptr<Transport>> open_http(const ServerConfig& server,
                                               const ClientOptions& options,
                                               TransportHandlers handlers) {
  auto client = http::Client::create({.admits = options.admits});
  if (!client) return Unexpected(std::move(client.error()));
  std::unique_ptr<Authorizer> authorizer;
  if (options.gets_tokens && http::find_header(server.headers, "authorization").empty()) {
    authorizer = std::make_unique<Authorizer>(AuthorizerOptions{.name = server.name,
                                                                .url = server.url,
                                                                .oauth = server.oauth,
                                                                .tokens = options.tokens,
                                                                .on_login = options.on_login});
  }
  return std::make_unique<HttpTransport>(server, options.max_message_bytes, std::move(handlers),
                                         std::move(authorizer), *std::move(client));
}

}  // namespace tenon::mcp
