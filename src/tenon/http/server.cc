#include "tenon/http/server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/resource.h>

#include "tenon/base/log.h"
#include "tenon/http/answer.h"
#include "tenon/http/threads.h"
#include "tenon/http/wire.h"

// How a connection works
//
// Each connection lives on one io_context, which one thread runs, so a connection needs no lock;
// accepted sockets go to the contexts in turn. Handlers write their answers from any thread into an
// Answer (answer.h), which has a mutex; wake() posts flush() to the connection's thread.
//  - Reading: a read is always under way, also during an answer, because only a read tells that the
//    client has gone. Pipelined requests wait in in_; over kMaxUnreadBytes the server stops
//    reading. advance() feeds the RequestReader (wire.h) until one request is whole, dispatch()
//    calls the handler, and finish_answer() goes on with the next request.
//  - Writing: flush() takes what the answer has queued, send() sends it, on_sent() comes back.
//    A client that does not read its stream is cut off by bytes (max_queued_bytes) and by time.
//  - Closing: after a refusal the server lingers, see kLingerTimeout. drain() closes idle
//    connections and lets answers end; stop() closes the rest.
//  - One deadline for each connection, whose meaning is waiting_. Its timer is set anew only when
//    it fires too early, so that moving the deadline with every token is cheap.

namespace tenon::http {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kServerReadBytes = 64 << 10;    // buffer of a thread
constexpr std::size_t kServerTlsReadBytes = 8 << 10;  // buffer of a connection
constexpr std::size_t kMaxUnreadBytes = 64 << 10;     // pipelined bytes, before reading stops
constexpr std::size_t kMaxRefusals = 64;              // connections over the limit that get a 503
constexpr auto kAcceptPause = 100ms;                  // when the process is out of descriptors
// After a refusal the client may still be sending: closing at once would make the kernel send a
// reset that can destroy the answer before the client has read it.
constexpr auto kLingerTimeout = 2s;

constexpr WireError kTimedOut{408, "request_timeout", "The request took too long to arrive"};
constexpr WireError kTooManyConnections{503, "too_many_connections",
                                        "The server has too many connections"};
constexpr WireError kPlainHttp{400, "bad_request",
                               "This port speaks TLS: write https:// instead of http://"};
constexpr WireError kOverloaded{503, "overloaded",
                                "The server holds too many request bodies at the moment"};

// Whether a TLS handshake failed because the client spoke plain HTTP.
bool is_plain_http(const error_code& failure) {
  return failure.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(failure.value())) == SSL_R_HTTP_REQUEST;
}

class Connection;

// One thread and its connections.
struct Worker {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  // Used on this thread only.
  std::unordered_set<std::shared_ptr<Connection>> connections;
  // Takes what a socket has, and is free again before the next connection is served: so a
  // connection that waits holds no buffer.
  std::string room = std::string(kServerReadBytes, '\0');
};

// What connections share. Each connection and each exchange keeps it alive.
struct Core {
  ServerOptions options;
  std::atomic<std::size_t> max_body_bytes{0};  // like max_connections, changed by set_limits()
  Server::Handler handler;
  AnswerRules rules;
  std::atomic<std::size_t> max_connections{0};
  bool has_tls = false;  // this and `workers` do not change once the server has started
  std::vector<std::unique_ptr<Worker>> workers;
  std::atomic<std::size_t> connections{0};   // open ones, also those that only get a 503
  std::atomic<std::size_t> bodies_bytes{0};  // of request bodies, read or held by a handler
  std::mutex mutex;
  std::condition_variable all_closed;
  std::shared_ptr<ssl::context>
      tls;  // guarded by mutex; each connection keeps the one it began with

  [[nodiscard]] WireLimits limits() const {
    return {.max_header_bytes = options.max_header_bytes, .max_body_bytes = max_body_bytes};
  }
  void count_closed() {
    const std::lock_guard lock(mutex);
    if (--connections == 0) all_closed.notify_all();
  }
};

class Connection final : public AnswerSender, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Core> core, Worker& worker, tcp::socket socket)
      : core_(std::move(core)),
        worker_(worker),
        socket_(std::move(socket)),
        timer_(worker.context),
        reader_(core_->limits()) {}

  /// Begins to serve, or only answers that there are too many connections.
  void start(bool is_one_too_many);
  void wake() override;
  /// Closes now, or after the answer under way.
  void drain();
  void close();

 private:
  // What the deadline is for. nothing: there is no deadline, the handler works; idle: the next
  // request; request: the first request, or the rest of one; write: the client has to read; linger:
  // the client has to close.
  enum class Waiting : std::uint8_t { nothing, idle, request, write, linger };

  void read();
  void on_readable(error_code error);
  void on_read(const error_code& error, std::string_view bytes);
  void advance(std::string_view& bytes);
  void forget_unread() {
    in_begin_ = 0;
    std::string().swap(in_);
  }
  std::string_view unread() const { return std::string_view(in_).substr(in_begin_); }
  void dispatch();
  void refuse(WireError error);
  void begin_answer(Manner manner);
  void flush();
  void send();
  void on_sent(const error_code& error, std::size_t bytes);
  void finish_answer();
  void linger();
  bool charge_body();
  void wait_for(Waiting what, std::chrono::milliseconds time);
  void arm_timer();
  void on_deadline();

  const std::shared_ptr<Core> core_;  // first: the members below need its contexts
  Worker& worker_;
  tcp::socket socket_;
  struct Tls {
    Tls(std::shared_ptr<ssl::context> of, tcp::socket& socket)
        : context(std::move(of)), stream(socket, *context) {}
    std::shared_ptr<ssl::context> context;  // the server may have a newer one
    ssl::stream<tcp::socket&> stream;
  };
  std::unique_ptr<Tls> tls_;
  asio::steady_timer timer_;
  RequestReader reader_;
  std::shared_ptr<Answer> answer_;  // to the request under way
  std::string peer_;

  std::string tls_room_;
  std::string in_;  // in_[in_begin_, ) is read and not yet parsed: pipelined requests
  std::size_t in_begin_ = 0;
  std::string out_;  // out_[out_begin_, ) is being sent
  std::size_t out_begin_ = 0;
  std::size_t body_charge_ = 0;  // this request's part of core_->bodies_bytes

  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();  // when timer_ fires
  Waiting waiting_ = Waiting::nothing;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool out_is_interim_ = false;  // out_ is "100 Continue", not a part of the answer
  bool sent_continue_ = false;
  bool read_ended_ = false;  // end of file after a complete answer: close once it is sent
  bool was_refused_ = false;
  bool is_lingering_ = false;
  bool is_closed_ = false;
};

// ------------------------------------------------------------------------------------ Exchange

// The handler's end of an answer. If the handler drops it without an answer, the client gets a 500
// or a cut stream (abandon). The request's body counts until it is released.
class ExchangeImpl final : public Exchange {
 public:
  ExchangeImpl(std::shared_ptr<Core> core, std::shared_ptr<Answer> answer, Request request,
               std::size_t body_charge)
      : core_(std::move(core)),
        answer_(std::move(answer)),
        request_(std::move(request)),
        body_charge_(body_charge) {}
  ExchangeImpl(const ExchangeImpl&) = delete;
  ExchangeImpl& operator=(const ExchangeImpl&) = delete;
  ~ExchangeImpl() override {
    answer_->abandon();
    release_body();
  }

  const Request& request() const override { return request_; }
  void release_body() override {
    std::string().swap(request_.body);
    std::vector<Header>().swap(request_.headers);
    core_->bodies_bytes -= std::exchange(body_charge_, 0);
  }
  void respond(Response response) override { answer_->respond(std::move(response)); }
  void begin_stream(std::string content_type, std::vector<Header> headers) override {
    answer_->begin_stream(content_type, headers);
  }
  void write(std::string bytes) override { answer_->write(bytes); }
  void end_stream() override { answer_->end_stream(); }
  std::size_t queued_bytes() const override { return answer_->queued_bytes(); }
  bool is_closed() const override { return answer_->is_closed(); }
  void on_closed(std::function<void()> callback) override {
    answer_->on_closed(std::move(callback));
  }
  void on_drained(std::size_t low_water, std::function<void()> callback) override {
    answer_->on_drained(low_water, std::move(callback));
  }

 private:
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Answer> answer_;
  Request request_;
  std::size_t body_charge_;
};

// ---------------------------------------------------------------------------------- Connection

// Without TLS, a connection above the limit is answered with 503 rather than closed, so that a
// client knows to try again. Plain HTTP on a TLS port is recognised by the failed handshake and
// gets an answer that people can read.
void Connection::start(bool is_one_too_many) {
  worker_.connections.insert(shared_from_this());
  if (core_->rules.is_draining) return close();
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (error) return close();
  peer_ = endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
  if (endpoint.address().is_v6()) peer_.insert(peer_.rfind(':'), "]").insert(0, "[");
  socket_.set_option(tcp::no_delay(true), error);
  socket_.non_blocking(true, error);

  wait_for(Waiting::request, core_->options.read_timeout);
  if (is_one_too_many) {
    if (core_->has_tls) return close();  // there is no way to answer before the handshake
    return refuse(kTooManyConnections);
  }
  if (!core_->has_tls) return read();
  {
    const std::lock_guard lock(core_->mutex);
    tls_ = std::make_unique<Tls>(core_->tls, socket_);
  }
  tls_->stream.async_handshake(ssl::stream_base::server,
                               [self = shared_from_this()](const error_code& failure) {
                                 if (self->is_closed_) return;
                                 if (is_plain_http(failure)) {
                                   self->tls_.reset();
                                   return self->refuse(kPlainHttp);
                                 }
                                 if (failure) return self->close();
                                 self->read();
                               });
}

// A read is always under way, also while an answer is being made, since only a read tells that the
// client has gone. The exception is a client that has already sent kMaxUnreadBytes of pipelined
// requests.
void Connection::read() {
  if (is_reading_ || is_closed_ || read_ended_ || unread().size() >= kMaxUnreadBytes) return;
  is_reading_ = true;
  if (!tls_) {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const error_code& e) { self->on_readable(e); });
    return;
  }
  tls_room_.resize(kServerTlsReadBytes);
  tls_->stream.async_read_some(
      asio::buffer(tls_room_),
      [self = shared_from_this()](const error_code& error, std::size_t bytes) {
        self->on_read(error, {self->tls_room_.data(), bytes});
      });
}

// The buffer of the thread takes the bytes, which on_read() uses up before it returns.
void Connection::on_readable(error_code error) {
  std::size_t bytes = 0;
  if (!error && !is_closed_) bytes = socket_.read_some(asio::buffer(worker_.room), error);
  if (error == asio::error::would_block) {
    is_reading_ = false;
    return read();
  }
  on_read(error, {worker_.room.data(), bytes});
}

// While an answer is written, bytes of the next request are only kept, up to kMaxUnreadBytes. A
// client that closes its side after the request may still read the answer, if that is complete
// already; otherwise it has gone.
void Connection::on_read(const error_code& error, std::string_view bytes) try {
  is_reading_ = false;
  if (is_closed_) return;
  if (error) {
    const bool is_end = error == asio::error::eof || error == ssl::error::stream_truncated;
    if (!is_end || is_lingering_ || !answer_ || !answer_->is_complete()) return close();
    read_ended_ = true;
    return;
  }
  // What comes after a refusal is thrown away; only the end matters.
  if (is_lingering_) return read();
  if (!answer_) advance(bytes);
  in_.erase(0, std::exchange(in_begin_, 0));
  in_ += bytes;
  read();
} catch (const std::bad_alloc&) {
  log::error("http: no memory for a request");
  close();
}

// Parses until one request is whole, and leaves the rest in `bytes`.
void Connection::advance(std::string_view& bytes) {
  while (!answer_ && !is_closed_ && !bytes.empty()) {
    if (reader_.is_idle()) reader_.limit_body(core_->max_body_bytes);
    bytes.remove_prefix(reader_.feed(bytes));
    if (reader_.error()) return refuse(*reader_.error());
    if (!charge_body()) return refuse(kOverloaded);
    if (reader_.is_whole()) return dispatch();
  }
  if (answer_ || is_closed_ || reader_.is_idle()) return;
  // The whole request has one deadline, so that a client which sends a byte now and then gains
  // nothing by it.
  if (waiting_ != Waiting::request) wait_for(Waiting::request, core_->options.read_timeout);
  if (reader_.awaits_continue() && !std::exchange(sent_continue_, true) && !is_writing_) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    out_is_interim_ = true;
    send();
  }
}

// False if the request bodies of all connections together are over the limit.
bool Connection::charge_body() {
  const std::size_t more = reader_.body_bytes() - body_charge_;
  body_charge_ += more;
  return (core_->bodies_bytes += more) <= core_->options.max_bodies_bytes;
}

// The handler may answer at once or later, from any thread; the exchange holds the answer. What a
// handler throws ends this connection only.
void Connection::dispatch() {
  const Manner manner{.is_http_1_1 = reader_.is_http_1_1(), .keeps_alive = reader_.keeps_alive()};
  Request request = reader_.take();
  request.peer = peer_;
  begin_answer({manner.is_http_1_1, manner.keeps_alive, request.method == "HEAD"});

  const auto answer = answer_;
  auto exchange = std::make_shared<ExchangeImpl>(core_, answer, std::move(request),
                                                 std::exchange(body_charge_, 0));
  try {
    core_->handler(std::move(exchange));
  } catch (const std::exception& thrown) {
    log::error(std::string("http: a handler threw: ") + thrown.what());
    answer->abandon();
  } catch (...) {
    log::error("http: a handler threw something that is no std::exception");
    answer->abandon();
  }
}

// Answers a request that cannot be read. What follows it in the stream cannot be told apart, so the
// connection ends with this answer.
void Connection::refuse(WireError error) {
  const std::string path(reader_.path());
  reader_ = RequestReader(core_->limits());  // frees at once what has come of a body
  core_->bodies_bytes -= std::exchange(body_charge_, 0);
  was_refused_ = true;
  begin_answer({.keeps_alive = false});
  answer_->refuse(error, path);
}

// While "100 Continue" is being sent, the deadline stays that of the write.
void Connection::begin_answer(Manner manner) {
  if (!is_writing_) wait_for(Waiting::nothing, {});
  sent_continue_ = false;
  // Other threads may not write past TLS, nor while "100 Continue" is still being sent.
  const int socket = tls_ || is_writing_ ? -1 : socket_.native_handle();
  answer_ = std::make_shared<Answer>(manner, socket, weak_from_this(), core_->rules);
}

void Connection::wake() {
  asio::post(worker_.context, [self = shared_from_this()] { self->flush(); });
}

// Sends what the answer has queued.
void Connection::flush() {
  if (is_closed_ || !answer_) return;
  if (answer_->has_overflowed()) {
    log::warn("http: a client that does not read its stream was cut off");
    return close();
  }
  if (is_writing_) return;
  switch (answer_->take(out_)) {
    case Answer::Next::send:
      return send();
    case Answer::Next::wait:
      return wait_for(Waiting::nothing, {});
    case Answer::Next::finish:
      return finish_answer();
    case Answer::Next::cut:
      return close();
  }
}

void Connection::send() {
  is_writing_ = true;
  wait_for(Waiting::write, core_->options.write_timeout);
  const auto bytes = asio::buffer(out_.data() + out_begin_, out_.size() - out_begin_);
  auto handler = [self = shared_from_this()](const error_code& error, std::size_t sent) {
    self->on_sent(error, sent);
  };
  if (tls_) {
    tls_->stream.async_write_some(bytes, std::move(handler));
  } else {
    socket_.async_write_some(bytes, std::move(handler));
  }
}

// Each write that makes progress moves the deadline. The buffer is freed when all is sent, so that
// idle connections hold no memory.
void Connection::on_sent(const error_code& error, std::size_t bytes) {
  is_writing_ = false;
  if (is_closed_) return;
  if (error) return close();
  out_begin_ += bytes;
  const bool is_interim = out_is_interim_;
  if (!is_interim) {
    const auto answer = answer_;
    answer->progress(bytes);
    if (is_closed_) return;
  }
  if (out_begin_ < out_.size()) return send();

  out_begin_ = 0;
  out_is_interim_ = false;
  std::string().swap(out_);
  if (answer_) return flush();
  wait_for(Waiting::request, core_->options.read_timeout);
}

// The connection goes on with the next request, which may be in the buffer already, or ends. It
// lingers if bytes of the client are unread, because closing then would reset the connection and
// could destroy the answer on its way.
void Connection::finish_answer() {
  answer_->finish();
  const bool closes = answer_->closes_connection() || core_->rules.is_draining;
  answer_.reset();
  const bool is_all_read = !was_refused_ && unread().empty();
  // A TLS connection needs a shutdown message before it is closed, so it lingers.
  if (read_ended_ || (closes && is_all_read && !tls_)) return close();
  if (closes) return linger();
  wait_for(Waiting::idle, core_->options.idle_timeout);
  // Pipelined requests that have come meanwhile. If one is whole, advance() begins its answer.
  std::string_view rest = unread();
  advance(rest);
  in_begin_ = in_.size() - rest.size();
  if (rest.empty()) forget_unread();
  read();
}

// Sends the end of our side and throws away what still comes, until the client closes.
void Connection::linger() {
  is_lingering_ = true;
  wait_for(Waiting::linger, kLingerTimeout);
  forget_unread();
  if (tls_) {
    tls_->stream.async_shutdown([self = shared_from_this()](const error_code&) { self->close(); });
  } else {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    if (error) return close();
  }
  read();
}

// A connection with a request under way closes after its answer (finish_answer).
void Connection::drain() {
  if (!answer_ && !is_lingering_ && reader_.is_idle()) close();
}

// Closes at once. The order matters: the answer loses the socket before that is closed, so that no
// other thread sends to a descriptor which may belong to another connection by then; and it hears
// of the end last, because its callback may do anything.
void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  const auto self = shared_from_this();  // the erase below may drop the last other owner
  if (answer_) answer_->lose_socket();
  error_code error;
  socket_.close(error);
  timer_.cancel();
  worker_.connections.erase(self);
  core_->bodies_bytes -= std::exchange(body_charge_, 0);
  core_->count_closed();
  if (const auto answer = std::exchange(answer_, nullptr)) answer->close();
}

// A timer that fires too early is set anew; one that would fire too late is replaced. So moving the
// deadline with every token costs one look at the clock.
void Connection::wait_for(Waiting what, std::chrono::milliseconds time) {
  waiting_ = what;
  if (what == Waiting::nothing) {
    deadline_ = Clock::time_point::max();
    return;
  }
  deadline_ = Clock::now() + time;
  if (timer_at_ > deadline_) arm_timer();
}

void Connection::arm_timer() {
  timer_at_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->is_closed_) return;
    self->timer_at_ = Clock::time_point::max();
    if (self->deadline_ == Clock::time_point::max()) return;
    if (Clock::now() < self->deadline_) return self->arm_timer();
    self->on_deadline();
  });
}

// A client that has begun a request and does not finish it gets a 408; one that has begun none is
// only closed.
void Connection::on_deadline() {
  switch (waiting_) {
    case Waiting::request:
      if (!reader_.is_idle() && !answer_ && !is_writing_) return refuse(kTimedOut);
      return close();
    case Waiting::nothing:
      return;
    case Waiting::idle:
    case Waiting::write:
    case Waiting::linger:
      return close();
  }
}

// -------------------------------------------------------------------------------------- Server

Unexpected tls_error(std::string_view what, const std::string& file, const error_code& error) {
  return Unexpected(
      Error{Errc::invalid, std::string(what) + " '" + file + "': " + error.message()});
}

// New connections use the new certificate; open ones keep the context that they began with.
Status use_certificate(Core& core, const std::string& certificate, const std::string& key) {
  if (certificate.empty() || key.empty()) {
    return Unexpected(Error{Errc::invalid, "TLS needs both a certificate file and a key file"});
  }
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  ssl::context& tls = *context;
  error_code error;
  SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  // The default callback would ask for a password on the terminal.
  tls.set_password_callback([](std::size_t, ssl::context::password_purpose) { return ""; }, error);
  tls.use_certificate_chain_file(certificate, error);
  if (error) return tls_error("TLS certificate file", certificate, error);
  // Also refuses a key that does not belong to the certificate.
  tls.use_private_key_file(key, ssl::context::pem, error);
  if (error) return tls_error("TLS key file", key, error);
  const std::lock_guard lock(core.mutex);  // declared last: the old context is freed without it
  core.tls.swap(context);
  return {};
}

// One descriptor for each connection, one for its upstream, and some for everything else.
void raise_descriptor_limit(std::size_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  // An answer may need a second descriptor, for the upstream that it comes from.
  const auto wanted = std::min<rlim_t>(limit.rlim_max, 2 * connections + kMaxRefusals + 256);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log::warn("http: the limit of open files stays low");
}

class ServerImpl final : public Server {
 public:
  explicit ServerImpl(std::shared_ptr<Core> core)
      : core_(std::move(core)), acceptor_(context()), pause_(context()) {}
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;
  ~ServerImpl() override { ServerImpl::stop(0ms); }

  Status bind();
  Status run();
  std::uint16_t port() const override { return port_; }
  Status load_tls(const std::string& certificate_file, const std::string& key_file) override;
  void set_limits(std::size_t max_body_bytes, std::size_t max_connections) override {
    core_->max_body_bytes = max_body_bytes;
    core_->max_connections = max_connections;
    raise_descriptor_limit(max_connections);
  }
  bool drain(std::chrono::milliseconds grace) override;
  void stop(std::chrono::milliseconds grace) override;

 private:
  bool drain_locked(std::chrono::milliseconds grace);
  void visit_all(void (Connection::*visit)());
  asio::io_context& context() { return core_->workers.front()->context; }
  error_code listen_at(const tcp::endpoint& endpoint);
  void accept();
  void welcome(Worker& worker, tcp::socket socket);

  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::size_t next_worker_ = 0;
  std::uint16_t port_ = 0;
  std::mutex stop_mutex_;
  std::vector<std::thread> threads_;
};

Unexpected bind_error(const ServerOptions& options, const error_code& error) {
  return Unexpected(Error{Errc::unavailable, "cannot listen on " + options.host + ":" +
                                                 std::to_string(options.port) + ": " +
                                                 error.message()});
}

// A name may have several addresses, such as ::1 and 127.0.0.1 for localhost; the first that can be
// listened on is used.
Status ServerImpl::bind() {
  const ServerOptions& options = core_->options;
  error_code error;
  tcp::resolver resolver(context());
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return bind_error(options, error);
  for (const auto& entry : found) {
    error = listen_at(entry.endpoint());
    if (!error) return {};
  }
  return bind_error(options, error);
}

error_code ServerImpl::listen_at(const tcp::endpoint& endpoint) {
  error_code error;
  acceptor_.close(error);
  if (acceptor_.open(endpoint.protocol(), error)) return error;
  // Lets a restarted server listen before old connections have timed out. On Linux this does not
  // let two listeners share a port, as SO_REUSEPORT would.
  if (acceptor_.set_option(tcp::acceptor::reuse_address(true), error)) return error;
  if (acceptor_.bind(endpoint, error)) return error;
  if (acceptor_.listen(tcp::acceptor::max_listen_connections, error)) return error;
  port_ = acceptor_.local_endpoint(error).port();
  return error;
}

Status ServerImpl::run() {
  accept();
  std::vector<asio::io_context*> contexts;
  for (const auto& worker : core_->workers) contexts.push_back(&worker->context);
  return start_threads(contexts, threads_);
}

// Accepts one connection after the other, all on the first thread; the contexts get them in turn.
void ServerImpl::accept() {
  Worker& worker = *core_->workers[next_worker_++ % core_->workers.size()];
  acceptor_.async_accept(worker.context,
                         [this, &worker](const error_code& error, tcp::socket socket) {
                           if (core_->rules.is_draining || error == asio::error::operation_aborted)
                             return;
                           if (!error) {
                             welcome(worker, std::move(socket));
                             return accept();
                           }
                           // The client has gone before it was accepted. Other errors are mostly a
                           // lack of descriptors, which trying again at once would not change.
                           if (error == asio::error::connection_aborted) return accept();
                           log::warn("http: accept failed: " + error.message());
                           pause_.expires_after(kAcceptPause);
                           pause_.async_wait([this](const error_code& cancelled) {
                             if (!cancelled && !core_->rules.is_draining) accept();
                           });
                         });
}

// Up to kMaxRefusals connections beyond the limit get a 503; those beyond that are closed without a
// word, so that refusing costs little.
void ServerImpl::welcome(Worker& worker, tcp::socket socket) {
  const std::size_t others = core_->connections++;
  const std::size_t most = core_->max_connections;
  if (others >= most + kMaxRefusals) {
    core_->count_closed();
    return;
  }
  try {
    auto connection = std::make_shared<Connection>(core_, worker, std::move(socket));
    asio::post(worker.context, [connection = std::move(connection), refused = others >= most] {
      connection->start(refused);
    });
  } catch (const std::bad_alloc&) {
    core_->count_closed();
    log::error("http: no memory for a connection");
  }
}

Status ServerImpl::load_tls(const std::string& certificate_file, const std::string& key_file) {
  if (!core_->has_tls) {
    return Unexpected(Error{Errc::unsupported, "the server was started without TLS"});
  }
  return use_certificate(*core_, certificate_file, key_file);
}

bool ServerImpl::drain(std::chrono::milliseconds grace) {
  const std::lock_guard stopping(stop_mutex_);
  return threads_.empty() || drain_locked(grace);
}

// Calls a method of each connection on its own thread. The set is copied, because a connection that
// closes takes itself out of it.
void ServerImpl::visit_all(void (Connection::*visit)()) {
  for (const auto& worker : core_->workers) {
    asio::post(worker->context, [&connections = worker->connections, visit] {
      const auto copy = connections;
      for (const auto& connection : copy) ((*connection).*visit)();
    });
  }
}

// Call under stop_mutex_, while the threads run.
bool ServerImpl::drain_locked(std::chrono::milliseconds grace) {
  core_->rules.is_draining = true;
  // Once the acceptor is closed no worker gets a new connection, so visit_all() reaches them all.
  std::promise<void> accepts_no_more;
  asio::post(context(), [&] {
    error_code error;
    acceptor_.close(error);
    pause_.cancel();
    accepts_no_more.set_value();
  });
  accepts_no_more.get_future().wait();
  visit_all(&Connection::drain);
  std::unique_lock lock(core_->mutex);
  return core_->all_closed.wait_for(lock, grace, [this] { return core_->connections == 0; });
}

// An exchange may outlive the server and keeps the Core. The handler, and what it owns, goes now.
void ServerImpl::stop(std::chrono::milliseconds grace) {
  const std::lock_guard stopping(stop_mutex_);
  if (threads_.empty()) return;
  drain_locked(grace);
  visit_all(&Connection::close);
  for (const auto& worker : core_->workers) worker->work.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  core_->handler = {};
}

}  // namespace

Expected<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler,
                                                ErrorBody error_body) {
  auto core = std::make_shared<Core>();
  core->max_body_bytes = options.max_body_bytes;
  core->max_connections = options.max_connections;
  core->has_tls = !options.tls_certificate_file.empty() || !options.tls_key_file.empty();
  core->rules.max_queued_bytes = options.max_queued_bytes;
  core->rules.error_body = std::move(error_body);
  core->options = std::move(options);
  core->handler = std::move(handler);
  const ServerOptions& chosen = core->options;
  if (core->has_tls) {
    Status loaded = use_certificate(*core, chosen.tls_certificate_file, chosen.tls_key_file);
    if (!loaded) return Unexpected(loaded.error());
  }
  for (unsigned i = 0; i < std::max(1U, core->options.threads); ++i) {
    core->workers.push_back(std::make_unique<Worker>());
  }
  raise_descriptor_limit(core->options.max_connections);

  auto server = std::make_unique<ServerImpl>(std::move(core));
  if (Status bound = server->bind(); !bound) return Unexpected(bound.error());
  if (Status running = server->run(); !running) return Unexpected(running.error());
  return server;
}

}  // namespace tenon::http
