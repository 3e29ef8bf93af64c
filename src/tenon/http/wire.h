#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/http/message.h"

/// HTTP/1.1 as bytes, without sockets: the strict readers that server and client share.
/// Source: RFC 9110 and RFC 9112. Where a message can be read in two ways we refuse it instead of
/// choosing, because a proxy in front of us may choose otherwise (request smuggling): bare LF or
/// CR, folded lines, two Content-Lengths, Content-Length with Transfer-Encoding, signs or spaces in
/// numbers, chunk extensions with control characters.
namespace tenon::http {

/// Why a message was refused. The texts are literals.
struct WireError {
  unsigned status = 0;       ///< What a server answers.
  std::string_view code;     ///< Stable, like "body_too_large".
  std::string_view message;  ///< One sentence.

  bool operator==(const WireError&) const = default;
};

struct WireLimits {
  std::size_t max_header_bytes = std::size_t{64} << 10;  ///< Also of chunk extensions and trailers.
  std::size_t max_body_bytes = std::size_t{32} << 20;
  std::size_t max_fields = 256;
};

/// Collects a message head, up to and with its blank line. Refuses control characters and line ends
/// other than CRLF at the byte where they come, so that nobody waits for a line that cannot end.
class HeadReader {
 public:
  explicit HeadReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Takes bytes until the head is whole or refused; returns how many.
  std::size_t feed(std::string_view bytes);
  [[nodiscard]] bool is_whole() const { return whole_; }
  [[nodiscard]] bool is_empty() const { return text_.empty(); }
  [[nodiscard]] const std::optional<WireError>& error() const { return error_; }
  /// The lines, each with its CRLF, without the blank one.
  [[nodiscard]] std::string_view text() const { return text_; }
  void clear();

 private:
  bool take(char c);

  std::size_t max_bytes_;
  std::string text_;
  std::size_t line_length_ = 0;  // bytes since the last CRLF, its CR not counted
  std::size_t skipped_ = 0;      // an empty line before the start line, which RFC 9112 2.2 allows
  bool after_cr_ = false;
  bool whole_ = false;
  std::optional<WireError> error_;
};

/// How a body's end is known.
struct Framing {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;
};

/// Reads a body in any framing.
class BodyReader {
 public:
  BodyReader(Framing framing, const WireLimits& limits);

  /// Takes bytes up to the body's end and appends its content to `out`; returns how many it took.
  std::size_t feed(std::string_view bytes, std::string& out);
  /// Ends a body that lasts until the connection closes. False: it was cut off.
  [[nodiscard]] bool finish_at_close();
  [[nodiscard]] bool is_whole() const { return state_ == State::whole; }
  /// No byte of it has come yet.
  [[nodiscard]] bool is_untouched() const { return untouched_; }
  [[nodiscard]] const std::optional<WireError>& error() const { return error_; }

 private:
  enum class State : std::uint8_t {
    data,     // `left_` bytes of it
    data_cr,  // the CRLF after a chunk's data
    data_lf,
    size,       // hexadecimal digits
    extension,  // up to the CR
    size_lf,
    trailer_line,  // at its first byte
    trailer,       // in it
    trailer_lf,
    end_lf,
    whole,
  };
  void take_chunk_byte(char c);
  bool take_overhead();
  void start_chunk();
  void fail(WireError error);

  Framing::Kind kind_;
  State state_ = State::whole;
  std::uint64_t left_ = 0;      // of this chunk, or of the body
  std::uint64_t content_left_;  // until max_body_bytes
  std::size_t overhead_left_;   // extensions and trailers, until max_header_bytes
  std::uint8_t size_digits_ = 0;
  bool untouched_ = true;
  std::optional<WireError> error_;
};

/// Reads one request after the other from a byte stream, cut anywhere: the cuts never change what
/// is read or refused.
///
///     RequestReader reader(limits);
///     bytes.remove_prefix(reader.feed(bytes));
///     if (reader.error()) ...                      // answer it and close
///     if (reader.is_whole()) use(reader.take());   // then feed the rest of `bytes`
class RequestReader {
 public:
  explicit RequestReader(const WireLimits& limits)
      : limits_(limits), head_(limits.max_header_bytes) {}

  /// Takes bytes until a request is whole or refused; returns how many.
  std::size_t feed(std::string_view bytes);
  /// No byte of a request has come yet.
  [[nodiscard]] bool is_idle() const { return !body_ && head_.is_empty(); }
  [[nodiscard]] bool is_whole() const { return body_ && body_->is_whole(); }
  [[nodiscard]] const std::optional<WireError>& error() const { return error_; }
  /// The client waits for "100 Continue" before it sends the body, of which nothing has come.
  [[nodiscard]] bool awaits_continue() const;
  [[nodiscard]] std::size_t body_bytes() const { return request_.body.size(); }
  /// False for HTTP/1.0, which knows no chunks. Valid once the head has been read, as the next one.
  [[nodiscard]] bool is_http_1_1() const { return is_http_1_1_; }
  /// The connection may serve another request.
  [[nodiscard]] bool keeps_alive() const { return keeps_alive_; }
  /// The whole request, without `peer`; the reader starts anew.
  [[nodiscard]] Request take();

 private:
  std::optional<WireError> read_head();
  std::optional<WireError> read_request_line(std::string_view line);
  std::optional<WireError> read_framing(Framing& framing);

  WireLimits limits_;
  HeadReader head_;
  std::optional<BodyReader> body_;
  Request request_;
  std::optional<WireError> error_;
  bool is_http_1_1_ = true;
  bool keeps_alive_ = true;
  bool expects_continue_ = false;
};

/// Reads one response, the interim ones (1xx) before it skipped. One reader serves one response.
class ResponseReader {
 public:
  /// `to_head`: the request was HEAD, so no body follows whatever the headers say.
  ResponseReader(const WireLimits& limits, bool to_head)
      : limits_(limits), to_head_(to_head), head_(limits.max_header_bytes) {}

  /// Takes bytes and appends body content to `body`; returns how many it took.
  std::size_t feed(std::string_view bytes, std::string& body);
  /// The connection has been closed. False: the response was cut off.
  [[nodiscard]] bool finish_at_close();
  [[nodiscard]] bool is_idle() const { return !body_ && head_.is_empty(); }
  [[nodiscard]] bool has_head() const { return body_.has_value(); }
  [[nodiscard]] bool is_whole() const { return body_ && body_->is_whole(); }
  [[nodiscard]] const std::optional<WireError>& error() const { return error_; }
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] const std::vector<Header>& headers() const { return headers_; }
  [[nodiscard]] bool keeps_alive() const { return keeps_alive_; }

 private:
  std::optional<WireError> read_head();

  WireLimits limits_;
  bool to_head_;
  HeadReader head_;
  std::optional<BodyReader> body_;
  unsigned status_ = 0;
  std::vector<Header> headers_;
  bool keeps_alive_ = true;
  int interim_responses_ = 0;
  std::optional<WireError> error_;
};

/// `%41` to `A`. Nothing where an escape is not two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

struct Target {
  std::string path;        ///< Decoded: UTF-8 without NUL, starts with '/', or "*".
  std::string_view query;  ///< As sent, a part of what was split.
};
/// Splits a request target in origin-form, absolute-form or "*"; nothing if it is none of them.
[[nodiscard]] std::optional<Target> split_target(std::string_view target);

/// A name that RFC 9110 5.1 allows, a value without control characters other than tab.
[[nodiscard]] bool is_field_name(std::string_view name);
[[nodiscard]] bool is_field_value(std::string_view value);
/// ASCII letters are compared without regard to case.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);
/// True if one of the comma-separated elements of the fields `name` is `token`.
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
