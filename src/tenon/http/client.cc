#include "tenon/http/client.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <map>
#include <new>
#include <thread>
#include <unordered_set>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tenon/base/log.h"
#include "tenon/http/server.h"
#include "tenon/http/threads.h"
#include "tenon/http/wire.h"

// How a call runs
//
// Each call and each connection lives on one io_context, which one thread runs, so they need no
// locks. A call is one coroutine (CallState::run): it takes a kept connection or opens one (name,
// TCP, TLS), writes the request, and gives each piece that comes to the ResponseReader (wire.h),
// which hands the content to the handlers. At the end the connection is kept for the next call.
//  - Cancel, pause, a deadline and the end of the client come from outside the coroutine. stop()
//    notes the reason in stopped_ and closes what the coroutine waits for; the wait then ends with
//    an error, and the coroutine looks at stopped_ before it looks at that error.
//  - A server may close a kept connection at the moment at which we use it. If no byte of an answer
//    has come, run() sends the request a second time, on a new connection.
//  - A deadline moves with every byte. One timer serves both deadlines (the whole call, the next
//    progress) and is set anew only when it fires too early, so moving a deadline is one
//    assignment.
//  - Plain sockets are waited for and then read into a buffer of the thread, so that thousands of
//    calls that wait hold no buffers. OpenSSL needs a buffer of the connection.

namespace tenon::http {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kClientReadBytes = 64 << 10;     // buffer of a thread
constexpr std::size_t kClientTlsReadBytes = 16 << 10;  // buffer of a connection
constexpr std::size_t kSmallRequest = 16 << 10;        // sent in one piece
constexpr std::chrono::milliseconds kEndGrace{200};  // to wait for an end, when all wanted is read
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Unexpected failure(Errc code, std::string message) {
  return Unexpected(Error{code, std::move(message)});
}

bool is_ip_address(const std::string& host) {
  error_code error;
  asio::ip::make_address(host, error);
  return !error;
}

// "host", "host:8080" or "[::1]:8080": the Host field has no port that the scheme implies.
std::string authority_of(const Url& url) {
  const bool is_ipv6 = url.host.find(':') != std::string::npos;
  std::string text = is_ipv6 ? "[" + url.host + "]" : url.host;
  if (url.port != (url.is_https ? 443 : 80)) text += ":" + std::to_string(url.port);
  return text;
}

std::string origin_of(const Url& url) {
  return (url.is_https ? "https://" : "http://") + authority_of(url);
}

// A socket, with TLS over it for https.
struct Connection {
  explicit Connection(asio::io_context& context) : socket(context) {}

  asio::awaitable<std::tuple<error_code, std::size_t>> write_some(asio::const_buffer bytes) {
    if (tls) co_return co_await tls->async_write_some(bytes, kAwait);
    co_return co_await socket.async_write_some(bytes, kAwait);
  }
  void close() {
    error_code error;
    socket.close(error);
  }
  // Whether a kept connection is usable: the server has not closed it and has sent nothing unasked.
  bool is_quiet() {
    error_code error;
    char byte = 0;
    socket.non_blocking(true, error);
    socket.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
    return error == asio::error::would_block;
  }

  tcp::socket socket;
  std::unique_ptr<ssl::stream<tcp::socket&>> tls;
  std::string tls_room;  // read buffer; allocated by the first read
};

// A connection that is kept for a later call, until it is too old.
struct Idle {
  std::unique_ptr<Connection> connection;
  Clock::time_point until;
};

class CallState;

// One thread with its calls and its idle connections.
struct Worker {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  // Used on this thread only.
  std::unordered_set<std::shared_ptr<CallState>> calls;
  std::map<std::string, std::vector<Idle>, std::less<>> idle;  // the last used at the end
  asio::steady_timer sweep{context};
  bool is_sweeping = false;
  bool is_stopping = false;
  // `room` takes what a socket has, `body` the content in it. Both are empty again before the next
  // call is served, so a call that waits holds no buffer.
  std::string room = std::string(kClientReadBytes, '\0');
  std::string body;
};

// What the client and its calls share. A Call keeps it alive, because it posts to a context.
struct Core {
  ClientOptions options;
  ssl::context tls{ssl::context::tls_client};
  std::vector<std::unique_ptr<Worker>> workers;
};

void sweep_idle(Worker& worker) {
  const auto now = Clock::now();
  for (auto entry = worker.idle.begin(); entry != worker.idle.end();) {
    std::erase_if(entry->second, [&](const Idle& idle) { return idle.until <= now; });
    entry = entry->second.empty() ? worker.idle.erase(entry) : std::next(entry);
  }
}

// While connections are kept, closes from time to time those that are too old.
void plan_sweep(Worker& worker, std::chrono::milliseconds period) {
  if (worker.is_sweeping || worker.idle.empty() || worker.is_stopping) return;
  worker.is_sweeping = true;
  worker.sweep.expires_after(period);
  worker.sweep.async_wait([&worker, period](const error_code& error) {
    worker.is_sweeping = false;
    if (error) return;
    sweep_idle(worker);
    plan_sweep(worker, period);
  });
}

class CallState : public std::enable_shared_from_this<CallState> {
 public:
  CallState(const Core& core, Worker& worker, Url url, ClientRequest request,
            ResponseHandlers handlers)
      : core_(core),
        worker_(worker),
        url_(std::move(url)),
        origin_(origin_of(url_)),
        request_(std::move(request)),
        handlers_(std::move(handlers)),
        resolver_(worker.context),
        timer_(worker.context),
        resumed_(worker.context) {}

  void start();
  void stop(Error why);
  void pause();
  void resume();

 private:
  asio::awaitable<void> run();
  asio::awaitable<Status> exchange();
  asio::awaitable<Status> connect();
  asio::awaitable<Status> shake_hands();
  asio::awaitable<error_code> write_request();
  asio::awaitable<error_code> write_all(std::string_view bytes);
  asio::awaitable<Status> read_response(error_code written, bool is_reused);
  asio::awaitable<std::tuple<error_code, std::string_view>> read_some();
  bool ends_early();
  void hand_over(ResponseReader& reader, std::string_view& bytes, bool& has_told_head);
  asio::awaitable<void> wait_while_paused();
  bool reuse();
  void keep();
  std::string head() const;
  Unexpected failed(std::string_view doing, const error_code& error) const;
  Unexpected failed(const WireError& error) const;
  bool admits(const asio::ip::address& address) const;
  Unexpected not_admitted() const;
  void expect_progress(std::chrono::milliseconds within, std::string_view doing);
  void arm_timer();
  void finish(Status end);

  const Core& core_;
  Worker& worker_;
  const Url url_;
  const std::string origin_;
  ClientRequest request_;
  ResponseHandlers handlers_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  asio::steady_timer resumed_;  // does not fire by itself: resume() cancels it
  std::unique_ptr<Connection> connection_;
  Clock::time_point end_at_ = Clock::time_point::max();       // of the whole call
  Clock::time_point progress_at_ = Clock::time_point::max();  // of the next byte or phase
  Clock::time_point timer_at_ = Clock::time_point::max();     // when timer_ fires
  std::string_view doing_;        // what the call is doing until progress_at_, for the error
  std::optional<Error> stopped_;  // why the call was stopped from outside
  bool is_paused_ = false;
  bool is_enough_ = false;  // waits for the end of the answer only, and only for kEndGrace
  bool is_stale_ = false;   // the kept connection had been closed: try a new one
};

// From here until finish(), worker_.calls owns the call; the caller has only a weak reference.
void CallState::start() {
  worker_.calls.insert(shared_from_this());
  if (worker_.is_stopping) stop({Errc::unavailable, "the client is being closed"});
  if (request_.time_limit.count() > 0) {
    end_at_ = Clock::now() + request_.time_limit;
    arm_timer();
  }
  asio::co_spawn(
      worker_.context, [self = shared_from_this()] { return self->run(); }, asio::detached);
}

// Makes the coroutine's wait end with an error; the coroutine then looks at stopped_.
void CallState::stop(Error why) {
  if (stopped_) return;
  stopped_ = std::move(why);
  resolver_.cancel();
  resumed_.cancel();
  if (connection_) connection_->close();
}

void CallState::pause() {
  is_paused_ = true;
}

void CallState::resume() {
  is_paused_ = false;
  resumed_.cancel();
}

// The whole call. What ended it counts in this order: it was stopped from outside; the handlers had
// all they wanted; the result of the exchange.
asio::awaitable<void> CallState::run() {
  Status end;
  try {
    end = co_await exchange();
    if (!end && is_stale_ && !stopped_) end = co_await exchange();
  } catch (const std::exception& thrown) {
    log::error(std::string("http: a response handler threw: ") + thrown.what());
    end = failure(Errc::unavailable, std::string("a response handler threw: ") + thrown.what());
  }
  if (stopped_) end = Unexpected(*stopped_);
  if (is_enough_) end = {};
  finish(std::move(end));
}

// The handlers are taken out first: on_end may own the call, and nothing is called twice.
void CallState::finish(Status end) {
  timer_.cancel();
  if (connection_) connection_->close();
  const auto self = shared_from_this();
  worker_.calls.erase(self);
  const ResponseHandlers handlers = std::exchange(handlers_, {});
  if (!handlers.on_end) return;
  const Gathering gathering;
  try {
    handlers.on_end(std::move(end));
  } catch (const std::exception& thrown) {
    log::error(std::string("http: on_end threw: ") + thrown.what());
  }
}

// One request and its answer on one connection. Each phase has its own limit for progress, and the
// error names the phase in which nothing happened.
asio::awaitable<Status> CallState::exchange() {
  if (stopped_) co_return Unexpected(*stopped_);
  const bool is_reused = !std::exchange(is_stale_, false) && reuse();
  if (!is_reused) {
    expect_progress(core_.options.connect_timeout, "connecting");
    if (Status connected = co_await connect(); !connected) co_return connected;
  }
  expect_progress(request_.silence_limit, "sending the request");
  const error_code written = co_await write_request();
  // A server may answer without reading the whole request, for example with 413, so read anyway.
  expect_progress(request_.silence_limit, "waiting for the answer");
  if (request_.first_byte_limit.count() > 0) {
    progress_at_ = std::min(progress_at_, Clock::now() + request_.first_byte_limit);
    arm_timer();
  }
  co_return co_await read_response(written, is_reused);
}

// The connection that was used last is the likeliest to be alive. One on which bytes wait, or which
// the server has closed, is not quiet and is dropped.
bool CallState::reuse() {
  const auto kept = worker_.idle.find(origin_);
  if (kept == worker_.idle.end()) return false;
  const auto now = Clock::now();
  while (!kept->second.empty()) {
    Idle last = std::move(kept->second.back());
    kept->second.pop_back();
    if (last.until > now && last.connection->is_quiet()) {
      connection_ = std::move(last.connection);
      return true;
    }
  }
  worker_.idle.erase(kept);
  return false;
}

// Keeps the connection for the next call of this origin on this thread. The oldest one gives way.
void CallState::keep() {
  if (worker_.is_stopping || core_.options.max_idle_connections == 0) return;
  std::vector<Idle>& kept = worker_.idle[origin_];
  if (kept.size() >= core_.options.max_idle_connections) kept.erase(kept.begin());
  kept.push_back({std::move(connection_), Clock::now() + core_.options.idle_timeout});
  plan_sweep(worker_, core_.options.idle_timeout);
}

bool CallState::admits(const asio::ip::address& address) const {
  return !core_.options.admits || core_.options.admits(address.to_string());
}

Unexpected CallState::not_admitted() const {
  return failure(Errc::unavailable, url_.host + " has no address that may be connected to");
}

// Only addresses that `admits` allows are tried. They are looked at after the name was resolved, so
// a name cannot lead to a forbidden address, whatever its server of names says.
asio::awaitable<Status> CallState::connect() {
  error_code not_an_address;
  const auto address = asio::ip::make_address(url_.host, not_an_address);
  if (!not_an_address) {  // an address needs no resolver, whose thread would be woken
    if (!admits(address)) co_return not_admitted();
    connection_ = std::make_unique<Connection>(worker_.context);
    const auto [refused] = co_await connection_->socket.async_connect({address, url_.port}, kAwait);
    if (refused) co_return failed("cannot connect", refused);
  } else {
    const std::string port = std::to_string(url_.port);
    const auto [unresolved, addresses] =
        co_await resolver_.async_resolve(url_.host, port, tcp::resolver::numeric_service, kAwait);
    if (unresolved) co_return failed("cannot find the host", unresolved);
    if (stopped_) co_return Unexpected(*stopped_);
    std::vector<tcp::endpoint> admitted;
    for (const auto& found : addresses) {
      if (admits(found.endpoint().address())) admitted.push_back(found.endpoint());
    }
    if (admitted.empty()) co_return not_admitted();
    connection_ = std::make_unique<Connection>(worker_.context);
    const auto [refused, endpoint] =
        co_await asio::async_connect(connection_->socket, admitted, kAwait);
    if (refused) co_return failed("cannot connect", refused);
  }
  error_code error;
  connection_->socket.set_option(tcp::no_delay(true), error);
  connection_->socket.non_blocking(true, error);
  if (stopped_) co_return Unexpected(*stopped_);
  if (!url_.is_https) co_return Status{};
  co_return co_await shake_hands();
}

// The name is checked by OpenSSL itself, against the host of the URL; an address is checked as an
// address, which a name in the certificate does not cover.
asio::awaitable<Status> CallState::shake_hands() {
  auto& tls = connection_->tls;
  // The context is set up once, in create(); a stream only counts references to it.
  tls = std::make_unique<ssl::stream<tcp::socket&>>(connection_->socket,
                                                    const_cast<ssl::context&>(core_.tls));
  if (!is_ip_address(url_.host)) {
    // The macro SSL_set_tlsext_host_name without its C casts.
    SSL_ctrl(tls->native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(url_.host.c_str()));
  }
  if (core_.options.verifies_certificates) {
    // A callback would do, too, but then OpenSSL could not report that the name did not match.
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(tls->native_handle());
    const int is_set = is_ip_address(url_.host)
                           ? X509_VERIFY_PARAM_set1_ip_asc(wanted, url_.host.c_str())
                           : X509_VERIFY_PARAM_set1_host(wanted, url_.host.c_str(), 0);
    if (is_set != 1) co_return failure(Errc::unavailable, origin_ + ": no name for a certificate");
  }
  const auto [error] = co_await tls->async_handshake(ssl::stream_base::client, kAwait);
  if (!error) co_return Status{};
  const long verdict = SSL_get_verify_result(tls->native_handle());
  if (verdict == X509_V_OK) co_return failed("cannot agree on TLS", error);
  co_return failure(
      Errc::unavailable,
      origin_ + ": the certificate is not trusted: " + X509_verify_cert_error_string(verdict) +
          " (the environment's SSL_CERT_FILE names a file of those that are)");
}

// Without a body, only methods for which servers expect one have Content-Length: 0 (RFC 9110, 8.6).
std::string CallState::head() const {
  std::string head;
  head.reserve(512);
  head.append(request_.method).append(" ").append(url_.target).append(" HTTP/1.1\r\nHost: ");
  head.append(authority_of(url_)).append("\r\n");
  for (const Header& header : request_.headers) {
    head.append(header.name).append(": ").append(header.value).append("\r\n");
  }
  if (!request_.body.empty() || request_.method == "POST" || request_.method == "PUT" ||
      request_.method == "PATCH") {
    head.append("Content-Length: ").append(std::to_string(request_.body.size())).append("\r\n");
  }
  return head.append("\r\n");
}

asio::awaitable<error_code> CallState::write_request() {
  // A small request goes out in one piece: one packet, one system call.
  std::string first = head();
  const bool is_small = request_.body.size() <= kSmallRequest;
  if (is_small) first.append(request_.body);
  const error_code error = co_await write_all(first);
  if (error || is_small) co_return error;
  co_return co_await write_all(request_.body);
}

asio::awaitable<error_code> CallState::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto [error, sent] =
        co_await connection_->write_some(asio::buffer(bytes.data(), bytes.size()));
    if (error) co_return error;
    bytes.remove_prefix(sent);
    expect_progress(request_.silence_limit, "sending the request");
  }
  co_return error_code{};
}

// Reads until the answer is whole. If a kept connection ends before the first byte, the server
// closed it while we wrote, and the request is sent again (is_stale_). It is kept for the next call
// only if the answer ended where it said, without a byte behind it.
asio::awaitable<Status> CallState::read_response(error_code written, bool is_reused) {
  ResponseReader reader({.max_header_bytes = core_.options.max_header_bytes,
                         .max_body_bytes = request_.max_body_bytes},
                        request_.method == "HEAD");
  bool has_told_head = false;
  bool has_ended = false;
  bool has_begun = false;
  bool has_body = false;
  while (!reader.is_whole()) {
    if (is_paused_) co_await wait_while_paused();
    if (stopped_) co_return Unexpected(*stopped_);
    auto [error, fresh] = co_await read_some();
    if (stopped_) co_return Unexpected(*stopped_);
    if (error) {
      // A body without a length lasts until the connection ends; that end must be a clean one.
      has_ended = error == asio::error::eof && reader.finish_at_close();
      if (has_ended) break;
      is_stale_ = is_reused && !has_begun;
      co_return written ? failed("cannot send the request", written)
                        : failed("the answer was cut off", error);
    }
    if (!std::exchange(has_begun, true)) std::string().swap(request_.body);  // it is not sent again
    hand_over(reader, fresh, has_told_head);
    // With a limit for the first byte, the head alone is no progress: a server may send it at once
    // and begin to work then.
    has_body = has_body || request_.first_byte_limit.count() == 0 || !worker_.body.empty();
    if (has_body) expect_progress(request_.silence_limit, "reading the answer");
    if (reader.error()) co_return failed(*reader.error());
    if (!reader.is_whole() && ends_early()) co_return Status{};
    // The server has sent bytes after the answer that we did not ask for: do not keep it.
    if (reader.is_whole() && !fresh.empty()) has_ended = true;
  }
  if (!has_ended && !written && !stopped_ && reader.keeps_alive()) keep();
  co_return Status{};
}

// Whether the handlers want nothing more of the answer. If they want its end, waits for kEndGrace.
bool CallState::ends_early() {
  if (is_enough_ || !handlers_.wanted) return false;
  const Wanted wanted = handlers_.wanted();
  if (wanted != Wanted::end) return wanted == Wanted::nothing;
  is_enough_ = true;
  end_at_ = std::min(end_at_, Clock::now() + kEndGrace);
  if (end_at_ < timer_at_) arm_timer();
  return false;
}

// The bytes that have come; a view of a buffer, valid until the next read on this thread.
asio::awaitable<std::tuple<error_code, std::string_view>> CallState::read_some() {
  if (connection_->tls) {
    connection_->tls_room.resize(kClientTlsReadBytes);
    const auto [error, bytes] =
        co_await connection_->tls->async_read_some(asio::buffer(connection_->tls_room), kAwait);
    co_return std::tuple(error, std::string_view(connection_->tls_room.data(), bytes));
  }
  while (true) {
    auto [error] = co_await connection_->socket.async_wait(tcp::socket::wait_read, kAwait);
    std::size_t bytes = 0;
    if (!error) bytes = connection_->socket.read_some(asio::buffer(worker_.room), error);
    if (error == asio::error::would_block) continue;
    co_return std::tuple(error, std::string_view(worker_.room.data(), bytes));
  }
}

// Gives the handlers the content of `bytes` and removes what was read from `bytes`. What the
// handlers write to streams of a server is sent once they have returned.
void CallState::hand_over(ResponseReader& reader, std::string_view& bytes, bool& has_told_head) {
  std::string& body = worker_.body;
  body.clear();
  bytes.remove_prefix(reader.feed(bytes, body));
  if (reader.error()) return;
  const Gathering gathering;
  if (reader.has_head() && !std::exchange(has_told_head, true) && handlers_.on_head) {
    handlers_.on_head(reader.status(), reader.headers());
  }
  if (!body.empty() && handlers_.on_body) handlers_.on_body(body);
}

// While the caller pauses, the server cannot be blamed for silence, so that limit is suspended.
asio::awaitable<void> CallState::wait_while_paused() {
  const auto silence = std::exchange(progress_at_, Clock::time_point::max());
  while (is_paused_ && !stopped_) {
    resumed_.expires_at(Clock::time_point::max());
    co_await resumed_.async_wait(kAwait);
  }
  if (silence != Clock::time_point::max()) {
    expect_progress(request_.silence_limit, "reading the answer");
  }
}

Unexpected CallState::failed(std::string_view doing, const error_code& error) const {
  return failure(Errc::unavailable, origin_ + ": " + std::string(doing) + ": " + error.message());
}

// The errors of the wire are those of a server; as a client we only distinguish what was too large.
Unexpected CallState::failed(const WireError& error) const {
  const bool is_too_large = error.status == 413 || error.status == 431 || error.status == 414;
  return failure(is_too_large ? Errc::limit_exceeded : Errc::unavailable,
                 origin_ + ": the answer is refused: " + std::string(error.message));
}

// Moving a deadline later costs nothing: the timer fires too early and is then set anew.
void CallState::expect_progress(std::chrono::milliseconds within, std::string_view doing) {
  doing_ = doing;
  progress_at_ = within.count() > 0 ? Clock::now() + within : Clock::time_point::max();
  if (progress_at_ < timer_at_) arm_timer();
}

// One timer for both deadlines, armed for the earlier one. Progress moves a deadline without
// touching the timer; a timer that fires too early is armed anew.
void CallState::arm_timer() {
  timer_at_ = std::min(end_at_, progress_at_);
  if (timer_at_ == Clock::time_point::max()) return;
  timer_.expires_at(timer_at_);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->stopped_) return;
    const auto now = Clock::now();
    if (now >= self->end_at_) {
      self->stop({Errc::unavailable, self->origin_ + ": no whole answer within the time limit"});
    } else if (now >= self->progress_at_) {
      self->stop({Errc::unavailable, self->origin_ + ": nothing has happened for too long while " +
                                         std::string(self->doing_)});
    } else {
      self->arm_timer();
    }
  });
}

// --------------------------------------------------------------------------------------- Client

class ClientImpl;

// The caller's end of a call, on any thread. Each wish is posted to the thread of the call.
class CallHandle final : public Call {
 public:
  CallHandle(asio::io_context& context, std::weak_ptr<CallState> state, std::shared_ptr<Core> core)
      : core_(std::move(core)), context_(context), state_(std::move(state)) {}
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;
  ~CallHandle() override { CallHandle::cancel(); }

  void cancel() override {
    post([](CallState& state) { state.stop({Errc::unavailable, "the request was cancelled"}); });
  }
  void pause() override {
    post([](CallState& state) { state.pause(); });
  }
  void resume() override {
    post([](CallState& state) { state.resume(); });
  }

 private:
  template <class Action>
  void post(Action action) {
    // The task must not own the call: a stopped context never runs it and would keep it for ever.
    if (state_.expired()) return;
    asio::post(context_, [weak = state_, action] {
      if (const auto state = weak.lock()) action(*state);
    });
  }

  const std::shared_ptr<Core> core_;  // owns the context
  asio::io_context& context_;
  const std::weak_ptr<CallState> state_;
};

class ClientImpl final : public Client {
 public:
  explicit ClientImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ClientImpl(const ClientImpl&) = delete;
  ClientImpl& operator=(const ClientImpl&) = delete;
  ~ClientImpl() override;

  Status run();
  Expected<std::unique_ptr<Call>> send(ClientRequest request, ResponseHandlers handlers) override;

 private:
  const std::shared_ptr<Core> core_;
  std::vector<std::thread> threads_;
  std::atomic<std::size_t> next_worker_{0};
};

Status ClientImpl::run() {
  std::vector<asio::io_context*> contexts;
  for (const auto& worker : core_->workers) contexts.push_back(&worker->context);
  return start_threads(contexts, threads_);
}

// Each thread stops its own calls, whose on_end runs there, and ends once the last one is over.
ClientImpl::~ClientImpl() {
  for (const auto& worker : core_->workers) {
    asio::post(worker->context, [&worker = *worker] {
      worker.is_stopping = true;
      // A copy: a call that ends takes itself out of the set.
      const auto calls = worker.calls;
      for (const auto& call : calls) {
        call->stop({Errc::unavailable, "the client is being closed"});
      }
      worker.idle.clear();
      worker.sweep.cancel();
      worker.work.reset();
    });
  }
  for (std::thread& thread : threads_) thread.join();
}

// A field with a line end in it could smuggle a second request into the connection. The fields that
// frame the request are written here, so the caller's could contradict them.
Status check(const ClientRequest& request) {
  if (!is_field_name(request.method)) return failure(Errc::invalid, "the method is not a token");
  for (const Header& header : request.headers) {
    if (!is_field_name(header.name) || !is_field_value(header.value)) {
      return failure(Errc::invalid, "a header field has forbidden characters");
    }
    for (std::string_view ours :
         {"host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"}) {
      if (equal_ignoring_case(header.name, ours)) {
        return failure(Errc::invalid, "the header '" + header.name + "' is the client's own");
      }
    }
  }
  return {};
}

Expected<std::unique_ptr<Call>> ClientImpl::send(ClientRequest request, ResponseHandlers handlers) {
  auto url = parse_url(request.url);
  if (!url) return Unexpected(url.error());
  if (Status checked = check(request); !checked) return Unexpected(checked.error());
  Worker& worker = *core_->workers[next_worker_++ % core_->workers.size()];
  auto state = std::make_shared<CallState>(*core_, worker, *std::move(url), std::move(request),
                                           std::move(handlers));
  auto handle = std::make_unique<CallHandle>(worker.context, state, core_);
  asio::post(worker.context, [state = std::move(state)] { state->start(); });
  return handle;
}

}  // namespace

// The subset of RFC 3986 that can be called. User names and fragments are refused instead of
// ignored, because their author means something that would not happen.
Expected<Url> parse_url(std::string_view text) {
  const auto invalid = [&](std::string_view why) {
    return failure(Errc::invalid, "not a URL that can be called: " + std::string(why));
  };
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return invalid("no http:// or https://");
  Url url;
  if (equal_ignoring_case(text.substr(0, scheme_end), "https")) {
    url.is_https = true;
  } else if (!equal_ignoring_case(text.substr(0, scheme_end), "http")) {
    return invalid("neither http:// nor https://");
  }
  text.remove_prefix(scheme_end + 3);
  for (const char c : text) {
    if (c <= ' ' || c == '\x7f') return invalid("a space, a control character or one beyond ASCII");
    if (c == '#') return invalid("a fragment");
  }
  const std::size_t authority_end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, authority_end);
  text.remove_prefix(authority_end);
  if (!text.empty()) url.target = text.front() == '/' ? text : "/" + std::string(text);
  if (authority.find('@') != std::string_view::npos) return invalid("a user name");

  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return invalid("a bracket without its partner");
    url.host = authority.substr(1, end - 1);
    error_code error;
    asio::ip::make_address_v6(url.host, error);
    if (error) return invalid("no IPv6 address between the brackets");
    authority.remove_prefix(end + 1);
    if (!authority.empty() && authority.front() != ':') return invalid("text after the address");
    has_port = !authority.empty();
    port = authority.substr(has_port ? 1 : 0);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    has_port = colon < authority.size();
    port = authority.substr(std::min(colon + 1, authority.size()));
  }
  if (url.host.empty()) return invalid("no host");
  url.port = url.is_https ? 443 : 80;
  if (!has_port) return url;
  std::uint32_t number = 0;
  if (port.empty() || port.size() > 5) return invalid("a bad port");
  for (const char c : port) {
    if (c < '0' || c > '9') return invalid("a bad port");
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (number == 0 || number > 65'535) return invalid("a bad port");
  url.port = static_cast<std::uint16_t>(number);
  return url;
}

// "http://u:p@host/x?key=1" becomes "http://host/x", for logs and errors.
std::string without_secrets(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == url.npos ? 0 : scheme + 3;
  std::string_view rest = url.substr(begin);
  // A password may have any character in it, so in what is no URL of ours the last '@' counts.
  if (!parse_url(url) && rest.find('@') != rest.npos) rest.remove_prefix(rest.rfind('@') + 1);
  return std::string(url.substr(0, begin)) + std::string(rest.substr(0, rest.find_first_of("?#")));
}

Expected<std::unique_ptr<Client>> Client::create(ClientOptions options) {
  auto core = std::make_shared<Core>();
  core->options = std::move(options);
  SSL_CTX_set_min_proto_version(core->tls.native_handle(), TLS1_2_VERSION);
  error_code error;
  if (core->options.verifies_certificates) {
    core->tls.set_verify_mode(ssl::verify_peer, error);
    if (core->options.ca_file.empty()) {
      core->tls.set_default_verify_paths(error);
    } else {
      core->tls.load_verify_file(core->options.ca_file, error);
    }
    if (error) {
      return failure(Errc::invalid, "cannot read the trusted certificates '" +
                                        core->options.ca_file + "': " + error.message());
    }
  }
  for (unsigned i = 0; i < std::max(1U, core->options.threads); ++i) {
    core->workers.push_back(std::make_unique<Worker>());
  }
  auto client = std::make_unique<ClientImpl>(std::move(core));
  if (Status running = client->run(); !running) return Unexpected(running.error());
  return client;
}

// Waits for the answer, so it must not be called on the client's own thread. `response` is local:
// the handlers use it no more once on_end has been called.
Expected<Response> Client::fetch(ClientRequest request) {
  Response response;
  // Shared: on_end may still be within set_value() when we return.
  const auto ended = std::make_shared<std::promise<Status>>();
  auto call = send(std::move(request),
                   {.on_head =
                        [&](unsigned status, const std::vector<Header>& headers) {
                          response.status = status;
                          response.headers = headers;
                          response.content_type = find_header(headers, "content-type");
                        },
                    .on_body = [&](std::string_view bytes) { response.body.append(bytes); },
                    .on_end = [ended](Status end) { ended->set_value(std::move(end)); }});
  if (!call) return Unexpected(call.error());
  if (Status end = ended->get_future().get(); !end) return Unexpected(end.error());
  return response;
}

}  // namespace tenon::http
