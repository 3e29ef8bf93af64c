#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"

namespace tenon::http {

struct Url {
  bool is_https = false;
  std::string host;  ///< Without the brackets of an IPv6 address.
  std::uint16_t port = 0;
  std::string target = "/";  ///< Path and query, as in the URL.

  bool operator==(const Url&) const = default;
};

/// Reads "http://host[:port][/path][?query]" or https. Fails with `invalid` at anything else, for
/// example a user name or a fragment.
[[nodiscard]] Expected<Url> parse_url(std::string_view text);

/// The text without what may be a secret in it: a user name and password, the query and fragment.
/// For what is logged, told or kept.
[[nodiscard]] std::string without_secrets(std::string_view url);

struct ClientOptions {
  unsigned threads = 1;
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_idle_connections = 64;           ///< Kept for each server, on each thread.
  std::chrono::milliseconds idle_timeout{30'000};  ///< How long an idle connection is kept.
  /// For name, connection and TLS together. The system's search for a name cannot be interrupted:
  /// if no name server answers, this and every other limit wait for it.
  std::chrono::milliseconds connect_timeout{10'000};
  bool verifies_certificates = true;
  std::string ca_file;  ///< PEM; "": the system's roots.
  /// Asked for each numeric address before a connection to it, whatever name it was found under.
  /// The others are tried if it returns false. Any client thread may call. Empty: all addresses.
  std::function<bool(const std::string& address)> admits{};
};

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  std::vector<Header> headers;  ///< Without Host, Connection and framing: the client sends those.
  std::string body;
  std::chrono::milliseconds time_limit{0};           ///< From send() to the end; 0: no limit.
  std::chrono::milliseconds silence_limit{120'000};  ///< Between two bytes of the server.
  /// From the request to the first byte of the answer's body, if shorter; 0: no limit of its own.
  std::chrono::milliseconds first_byte_limit{0};
  std::size_t max_body_bytes = std::size_t{64} << 20;
};

/// How much of an answer the handlers still want.
enum class Wanted : std::uint8_t {
  all,
  end,      ///< Only its end, if that comes within 200 ms: then the connection can be kept.
  nothing,  ///< The connection is closed at once.
};

/// Called on one client thread, in this order: `on_head` once, unless the request failed before;
/// `on_body` for each piece, which is valid during the call; `on_end` last and exactly once. They
/// may be empty and must return soon. One that throws ends the request.
struct ResponseHandlers {
  std::function<void(unsigned status, const std::vector<Header>& headers)> on_head;
  std::function<void(std::string_view bytes)> on_body;
  /// Called after each of these two. An answer that it cuts short ends without an error.
  std::function<Wanted()> wanted;
  std::function<void(Status)> on_end;
};

/// A request under way. Any thread may call, the handlers too. Destroying it cancels; `on_end` is
/// still called.
class Call {
 public:
  virtual ~Call() = default;
  virtual void cancel() = 0;
  /// Stops calling on_body until resume(), except for what has been read already. The connection
  /// then fills up and slows the server down. The silence limit does not count meanwhile.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

/// HTTP/1.1 client. Thread-safe.
///
///     auto client = Client::create({});
///     auto call = (*client)->send(
///         {.method = "POST", .url = "http://127.0.0.1:8000/v1/completions", .body = json},
///         {.on_body = [&](std::string_view bytes) { take(sse.feed(bytes, events)); },
///          .on_end = [&](Status end) { done(end); }});
///
/// Keeps connections and uses them again. If the server had closed a kept connection before it sent
/// a byte of the answer, the request is sent once more on a new connection. Follows no redirects,
/// stores no cookies, decodes no content codings, uses no proxies. Every answer with a status is a
/// success here, also 500.
/// Errors: `unavailable` with the reason (name, connection, certificate, cut answer, malformed
/// answer, time), `limit_exceeded` if the answer is larger than allowed.
class Client {
 public:
  /// Fails with `invalid` if `ca_file` cannot be read, with `unavailable` if no thread can be
  /// started.
  [[nodiscard]] static Expected<std::unique_ptr<Client>> create(ClientOptions options = {});
  /// Cancels the calls under way and waits until each on_end was called. Not from a handler.
  virtual ~Client() = default;

  /// Fails at once with `invalid` at a bad URL, method or header; `on_end` gets all other errors.
  [[nodiscard]] virtual Expected<std::unique_ptr<Call>> send(ClientRequest request,
                                                             ResponseHandlers handlers) = 0;
  /// Sends and waits for the whole answer. Not from a handler.
  [[nodiscard]] Expected<Response> fetch(ClientRequest request);
};

}  // namespace tenon::http
