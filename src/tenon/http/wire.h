#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/http/message.h"

/// HTTP/1.1 as bytes, without sockets: the strict readers that server and client share.
/// Source: RFC 9110 and RFC 9112. A message that can be read in two ways is refused, because a
/// proxy in front of us may read it the other way (request smuggling): bare LF or CR, folded lines,
/// two Content-Lengths, Content-Length with Transfer-Encoding, signs or spaces in numbers, chunk
/// extensions with control characters. Trailers are dropped; one that would frame the message is
/// refused.
namespace tenon::http {

/// Why a message was refused. The views are of literals.
struct WireError {
  unsigned status = 0;       ///< The status with which a server answers.
  std::string_view code;     ///< Stable, like "body_too_large".
  std::string_view message;  ///< One sentence.

  bool operator==(const WireError&) const = default;
};

struct WireLimits {
  std::size_t max_header_bytes = std::size_t{64} << 10;  ///< Chunk extensions and trailers count.
  std::size_t max_body_bytes = std::size_t{32} << 20;
  std::size_t max_fields = 256;
};

/// Reads requests one after the other from a byte stream that is cut anywhere. Where the cuts fall
/// never changes what is read or refused.
///
///     RequestReader reader(limits);
///     bytes.remove_prefix(reader.feed(bytes));
///     if (reader.error()) ...                      // answer it and close
///     if (reader.is_whole()) use(reader.take());   // then feed the rest of `bytes`
class RequestReader {
 public:
  explicit RequestReader(const WireLimits& limits);
  RequestReader(RequestReader&&) noexcept;
  RequestReader& operator=(RequestReader&&) noexcept;
  ~RequestReader();

  /// Takes bytes until a request is whole or refused; returns how many.
  std::size_t feed(std::string_view bytes);
  /// Whether no byte of a request has come yet.
  [[nodiscard]] bool is_idle() const;
  /// Sets the limit from now on; only while is_idle().
  void limit_body(std::size_t max_body_bytes);
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] const std::optional<WireError>& error() const;
  /// Whether the client waits for "100 Continue" and has not sent any of the body.
  [[nodiscard]] bool awaits_continue() const;
  [[nodiscard]] std::size_t body_bytes() const;
  /// "" until the path has come. Valid until the next call of a method that is not const.
  [[nodiscard]] std::string_view path() const;
  /// False for HTTP/1.0, which has no chunks. Ask once the request is whole.
  [[nodiscard]] bool is_http_1_1() const;
  /// Whether the connection may serve another request. Ask once the request is whole.
  [[nodiscard]] bool keeps_alive() const;
  /// Returns the whole request, without `peer`; the reader begins the next one.
  [[nodiscard]] Request take();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// Reads one response and skips interim ones (1xx) before it. One reader serves one response.
class ResponseReader {
 public:
  /// `to_head`: the request was HEAD, so no body follows, regardless of the headers.
  ResponseReader(const WireLimits& limits, bool to_head);
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;
  ~ResponseReader();

  /// Takes bytes and appends body content to `body`; returns how many it took.
  std::size_t feed(std::string_view bytes, std::string& body);
  /// Call it when the connection has been closed. False: the response was cut off.
  [[nodiscard]] bool finish_at_close();
  [[nodiscard]] bool has_head() const;
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] const std::optional<WireError>& error() const;
  [[nodiscard]] unsigned status() const;
  [[nodiscard]] const std::vector<Header>& headers() const;
  [[nodiscard]] bool keeps_alive() const;

 private:
  struct Parser;
  const WireLimits limits_;
  const bool to_head_;
  std::unique_ptr<Parser> parser_;
  int interim_responses_ = 0;
};

/// Turns `%41` into `A`. No value if an escape is not two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

struct Target {
  std::string path;        ///< Decoded: UTF-8 without NUL, starts with '/', or "*".
  std::string_view query;  ///< As sent; a view of the target that was split.
};
/// Splits a request target in origin-form, absolute-form or "*"; no value for any other form.
[[nodiscard]] std::optional<Target> split_target(std::string_view target);

/// Whether RFC 9110, 5.1 allows the name; whether a value has no control character except tab.
[[nodiscard]] bool is_field_name(std::string_view name);
[[nodiscard]] bool is_field_value(std::string_view value);
/// Compares without regard to the case of ASCII letters.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);
/// Whether one of the comma-separated elements of the fields `name` is `token`.
[[nodiscard]] bool lists_token(const std::vector<Header>& headers, std::string_view name,
                               std::string_view token);

/// "Sun, 06 Nov 1994 08:49:37 GMT"
[[nodiscard]] std::string http_date(std::time_t time);
[[nodiscard]] std::string_view reason_phrase(unsigned status);
/// Appends `data`, which is not empty, as one chunk.
void append_chunk(std::string& out, std::string_view data);
/// Ends a chunked body.
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tenon::http
