#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"

namespace tenon::http {

/// One request being answered: exactly one respond(), or begin_stream(), write()* and end_stream().
/// Every method may be called from any thread, and none blocks. A write() that comes alone goes to
/// the kernel at once, as far as the kernel has room. The rest, and writes within a burst, are
/// queued for the connection, which sends the queue in one system call (see also Gathering).
///
/// Calls after the client has gone do nothing. An Exchange that is destroyed unanswered answers
/// 500; destroyed within a stream, it cuts the connection so that the client can tell. A client
/// that closes only its sending half after the request counts as gone, unless the answer is
/// complete by then. Invalid header fields, and those that frame the message, are left out.
///
///     server = Server::start({.port = 0}, [](std::shared_ptr<Exchange> exchange) {
///       exchange->begin_stream("text/event-stream", {});
///       exchange->on_drained(kHigh, [run] { run->resume(); });  // once, before the first write
///       ...
///     });
///     // In the producer. The second check covers a queue that drained before pause() took effect:
///     exchange->write(event);
///     if (exchange->queued_bytes() >= kHigh) {
///       run->pause();
///       if (exchange->queued_bytes() < kHigh / 2) run->resume();
///     }
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const Request& request() const = 0;
  /// Frees request().body and headers, so that a long stream does not keep them. Not while another
  /// thread reads them.
  virtual void release_body() {}
  virtual void respond(Response response) = 0;

  /// Sends status 200 and headers; each write() then sends a chunk.
  virtual void begin_stream(std::string content_type, std::vector<Header> headers) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end_stream() = 0;

  /// Bytes that are queued and that the kernel has not taken: a producer pauses when this grows.
  [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
  /// Whether the client has gone, or the whole answer has been sent.
  [[nodiscard]] virtual bool is_closed() const = 0;
  /// `callback` is called once, on a server thread, when the client goes away before the answer is
  /// complete, or at once on the calling thread if it already has. Callbacks are released when the
  /// answer was sent or the client has gone; one that holds its own Exchange keeps it until then.
  virtual void on_closed(std::function<void()> callback) = 0;
  /// `callback` is called each time the queue had `low_water` bytes or more and has drained below
  /// half of that: on a server thread, or where a Gathering ends.
  virtual void on_drained(std::size_t low_water, std::function<void()> callback) = 0;
};

class Answer;

/// While one lives, what its thread writes to streams is gathered; at its end each stream's part is
/// sent in one system call, without waking the stream's connection. A Gathering inside another does
/// nothing. For code that writes several pieces at once; Client calls its handlers within one.
///
///     const http::Gathering gathering;
///     exchange->begin_stream("text/event-stream", {});
///     exchange->write(first);
class Gathering {
 public:
  Gathering();
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  std::vector<std::shared_ptr<Answer>> answers_;
  const bool is_outer_;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0: any free port, see Server::port().
  unsigned threads = 1;
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_body_bytes = std::size_t{32} << 20;
  std::size_t max_connections = 10'000;                  ///< Further ones are answered 503.
  std::size_t max_bodies_bytes = std::size_t{1} << 30;   ///< All request bodies together; then 503.
  std::size_t max_queued_bytes = std::size_t{64} << 20;  ///< A stream with more queued is cut.
  /// For a request, from its first byte to its last.
  std::chrono::milliseconds read_timeout{30'000};
  /// Between requests of a kept-alive connection.
  std::chrono::milliseconds idle_timeout{120'000};
  /// Without any progress in sending: the client counts as gone.
  std::chrono::milliseconds write_timeout{60'000};
  std::string tls_certificate_file;  ///< PEM chain; with tls_key_file: HTTPS.
  std::string tls_key_file;
};

/// HTTP/1.1 server. `handler` runs on a server thread for every request and must return soon; one
/// that throws answers 500. Errors of HTTP itself (malformed, too large, timed out) never reach the
/// handler: `error_body` makes the response to them, on a server thread too, from the HTTP status,
/// a code such as "body_too_large", a sentence, and the request's path if it is known; the response
/// keeps the status. Accepts HTTP/1.0 clients, pipelined requests, chunked bodies and "Expect:
/// 100-continue"; see wire.h for what is refused. Raises the process's limit of open files towards
/// `max_connections` as far as the system allows.
class Server {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  using ErrorBody = std::function<Response(unsigned status, std::string_view code,
                                           std::string_view message, std::string_view path)>;

  /// Binds and starts. Fails with `unavailable`, the address and the reason (port in use, ...), or
  /// with `invalid`, the TLS file and the reason.
  [[nodiscard]] static Expected<std::unique_ptr<Server>> start(ServerOptions options,
                                                               Handler handler,
                                                               ErrorBody error_body = {});
  /// Stops without grace.
  virtual ~Server() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Reads TLS files, the same or others, for connections that come from now on. Fails as start()
  /// does, and with `unsupported` if the server has no TLS; nothing changes then. Any thread may
  /// call.
  [[nodiscard]] virtual Status load_tls(const std::string& certificate_file,
                                        const std::string& key_file) = 0;
  /// As in ServerOptions, from now on; a request that is being read keeps the limit of its body.
  virtual void set_limits(std::size_t max_body_bytes, std::size_t max_connections) = 0;
  /// Stops accepting and lets answers under way finish within `grace`. False if some have not;
  /// those go on. Blocks, so neither this nor stop() may be called from a server thread.
  virtual bool drain(std::chrono::milliseconds grace) = 0;
  /// drain(), then closes what is left. An Exchange may safely outlive the server.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace tenon::http
