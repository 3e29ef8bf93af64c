#include "tenon/http/wire.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <limits>
#include <utility>

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "tenon/base/utf8.h"

namespace tenon::http {
namespace {

namespace beast = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

constexpr WireError kBadCharacter{400, "bad_request",
                                  "The message head has a control character or a line that does "
                                  "not end in CRLF"};
constexpr WireError kBadRequestLine{400, "bad_request", "The request line is malformed"};
constexpr WireError kBadTarget{400, "bad_request", "The request target is malformed"};
constexpr WireError kBadField{400, "bad_request", "A header field is malformed"};
constexpr WireError kBadHost{400, "bad_request", "An HTTP/1.1 request has exactly one Host header"};
constexpr WireError kBadLength{400, "bad_request",
                               "Content-Length is not one decimal number, or comes with "
                               "Transfer-Encoding"};
constexpr WireError kBadTransferEncoding{400, "bad_request",
                                         "Transfer-Encoding comes with HTTP/1.0"};
constexpr WireError kUnknownTransferEncoding{501, "transfer_encoding_unsupported",
                                             "The only Transfer-Encoding that is understood is "
                                             "\"chunked\""};
constexpr WireError kUnknownVersion{505, "http_version_unsupported",
                                    "The request line does not end in HTTP/1.0 or HTTP/1.1, or has "
                                    "a space too many"};
constexpr WireError kUnknownExpectation{417, "expectation_failed",
                                        "The only expectation that is understood is "
                                        "\"100-continue\""};
constexpr WireError kTargetTooLong{414, "target_too_long", "The request line is too long"};
constexpr WireError kHeadTooLarge{431, "headers_too_large", "The header fields are too large"};
constexpr WireError kTooManyFields{431, "headers_too_large", "There are too many header fields"};
constexpr WireError kBodyTooLarge{413, "body_too_large", "The body is too large"};
constexpr WireError kBadChunk{400, "bad_request", "The chunked body is malformed"};
constexpr WireError kBadStatusLine{502, "bad_response", "The status line is malformed"};

constexpr int kMaxInterimResponses = 16;  // of one response; a server could send them for ever

// The characters of a token (RFC 9110, 5.6.2): methods and names of fields are made of them.
constexpr bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

constexpr bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == '\x7f';
}

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// What is said of an error of Beast. check() refuses most bad lines before Beast sees them.
WireError refusal_of(const error_code& error, bool is_request) {
  switch (static_cast<beast::error>(error.value())) {
    case beast::error::bad_method:
      return kBadRequestLine;
    case beast::error::bad_target:
      return kBadTarget;
    case beast::error::bad_version:
      return is_request ? kUnknownVersion : kBadStatusLine;
    case beast::error::bad_status:
    case beast::error::bad_reason:
      return kBadStatusLine;
    case beast::error::bad_content_length:
    case beast::error::multiple_content_length:
    case beast::error::bad_transfer_encoding:
      return kBadLength;
    case beast::error::bad_chunk:
    case beast::error::bad_chunk_extension:
      return kBadChunk;
    case beast::error::body_limit:
      return kBodyTooLarge;
    default:
      return kBadField;
  }
}

// How a message is read
//
// Boost.Beast reads the lines and counts the bodies, behind a filter of ours. Beast 1.81 accepts
// folded lines, and refuses some others only if they come in one piece. That would make the result
// depend on where the network cuts the bytes, and would let a message through that a proxy reads
// differently. So feed() works in two modes:
//  - Body bytes, of which data_left() is known, go to Beast in blocks.
//  - All other bytes (head, chunk sizes, trailers) go byte by byte through check(), which refuses
//    control characters, line ends other than CRLF, folds, and more bytes than the limit. Beast
//    gets the head once it is whole, and then one line at a time.
// What Beast is too lenient about in the fields that frame a message is refused in on_field_impl,
// in on_header_impl and in on_chunk_header_impl.
template <bool kIsRequest>
class MessageParser : public beast::basic_parser<kIsRequest> {
  using Base = beast::basic_parser<kIsRequest>;

 public:
  MessageParser(const WireLimits& message_limits, bool to_head) : limits(message_limits) {
    Base::header_limit(std::numeric_limits<std::uint32_t>::max());  // check() counts
    limit_body(limits.max_body_bytes);
    Base::skip(to_head);
  }

  void limit_body(std::size_t max_body_bytes) {
    limits.max_body_bytes = max_body_bytes;
    Base::body_limit(max_body_bytes);
  }

  /// Takes bytes until the message is whole or faulty, appends its content to `body`, and returns
  /// how many bytes it took. The rest belongs to the next message.
  std::size_t feed(std::string_view bytes, std::string& body) {
    body_ = &body;
    std::size_t taken = 0;
    while (taken < bytes.size() && !error && !Base::is_done()) {
      const std::string_view rest = bytes.substr(taken);
      if (const std::uint64_t data = std::min<std::uint64_t>(data_left(), rest.size()); data > 0) {
        taken += put(rest.substr(0, static_cast<std::size_t>(data)));
      } else {
        take(rest.front());
        ++taken;
      }
    }
    return taken;
  }
  /// True before the first byte of a message; an empty line before it does not count.
  bool is_idle() const { return lines_.empty() && !Base::is_header_done(); }
  bool is_whole() const { return Base::is_done() && !error; }
  bool keeps_alive() const { return Base::is_header_done() && Base::keep_alive(); }
  /// True if the head is whole and says that a body follows, of which no byte has come.
  bool awaits_body() const {
    return Base::is_header_done() && !Base::is_done() && !error && !has_body_bytes_;
  }

  WireLimits limits;
  Request head;  // for a response, only the header fields are used
  unsigned status = 0;
  bool is_http_1_1 = true;
  std::optional<WireError> error;

 private:
  // How many bytes of the body or chunk are left before a line may follow.
  std::uint64_t data_left() const {
    if (!Base::is_header_done()) return 0;
    if (Base::chunked()) return chunk_left_;
    // A response without a length lasts until the connection ends.
    if (Base::need_eof()) return std::numeric_limits<std::uint64_t>::max();
    return *Base::content_length_remaining();
  }

  // Takes one byte of the head or of a chunk's line, and gives Beast what is complete: the whole
  // head at its empty line, or one line behind it.
  void take(char c) {
    const bool in_head = !Base::is_header_done();
    has_body_bytes_ = !in_head;
    if (const auto refusal = check(c, in_head)) {
      error = in_head ? *refusal : kBadChunk;
      return;
    }
    lines_.push_back(c);
    if (c != '\n') return;
    if (in_head && lines_ == "\r\n") {
      overhead_ = 2;  // counts the line, and remembers for check() that there was one
      return lines_.clear();
    }
    if (in_head && !lines_.ends_with("\r\n\r\n")) return;
    // A status line without a reason may lack the space before it, too. "HTTP/1.1 500" has 12
    // bytes.
    if (!kIsRequest && in_head && lines_.find('\r') == 12) lines_.insert(12, 1, ' ');
    if (put(lines_) == 0) {
      // If the first line is too short, Beast waits for the rest, although the head has ended.
      if (in_head && !error) error = kIsRequest ? kBadRequestLine : kBadStatusLine;
      return;
    }
    // The size of a chunk is followed by as much data. Anything else on its line counts towards the
    // limit, or a client could send extensions and zeros for ever. A line "\r\n", 15 digits, "\r\n"
    // has 19 bytes, so 20 are free.
    if (!in_head) overhead_ += lines_.size() - std::min<std::size_t>(lines_.size(), 20);
    lines_.clear();
  }

  // Why byte `c` may not come next; nothing if it may. Outside of the head, the caller reports
  // kBadChunk instead.
  std::optional<WireError> check(char c, bool in_head) const {
    if (lines_.size() + overhead_ >= limits.max_header_bytes) {
      return lines_.find('\n') == std::string::npos ? kTargetTooLong : kHeadTooLarge;
    }
    const char before = lines_.empty() ? '\n' : lines_.back();
    if (before == '\r' ? c != '\n' : is_control(c) && c != '\t' && c != '\r') return kBadCharacter;
    // Each line begins with a token: this refuses a folded line, and a TLS hello at its first byte.
    if (before == '\n' && c != '\r' && !is_token_char(c)) {
      return lines_.empty() ? kBadRequestLine : kBadField;
    }
    // RFC 9112, 2.2 allows one empty line before a message.
    if (in_head && c == '\n' && lines_ == "\r" && overhead_ > 0) return kBadRequestLine;
    return std::nullopt;
  }

  std::size_t put(std::string_view bytes) {
    error_code failed;
    const std::size_t taken = Base::put({bytes.data(), bytes.size()}, failed);
    if (failed && failed != beast::error::need_more && !error) {
      error = refusal_of(failed, kIsRequest);
    }
    return taken;
  }

  // Ends the parsing from within a callback of Beast, with our own error.
  void refuse(const WireError& why, error_code& failed) {
    error = why;
    failed = beast::error::bad_field;
  }

  void on_request_impl(beast::verb, string_view method, string_view target, int version,
                       error_code& failed) override {
    is_http_1_1 = version == 11;
    head.method = std::string(method);
    head.target = std::string(target);
    auto split = split_target(head.target);
    if (!split) return refuse(kBadTarget, failed);
    head.path = std::move(split->path);
    head.query = split->query;
  }
  void on_response_impl(int code, string_view, int version, error_code& failed) override {
    is_http_1_1 = version == 11;
    status = static_cast<unsigned>(code);
    // 101 would switch to a protocol that no request of ours asks for.
    if (code < 100 || code > 599 || code == 101) refuse(kBadStatusLine, failed);
  }
  void on_field_impl(beast::field field, string_view name, string_view value,
                     error_code& failed) override {
    if (Base::is_header_done()) return;  // trailers are dropped
    if (head.headers.size() == limits.max_fields) return refuse(kTooManyFields, failed);
    // Beast accepts lists of lengths, the same length twice, any number of leading zeros, and
    // codings that it does not know.
    if (field == beast::field::content_length) {
      const bool is_number =
          value.size() <= 18 && value.find_first_not_of("0123456789") == string_view::npos;
      if (std::exchange(has_length_, true) || !is_number) return refuse(kBadLength, failed);
    }
    if (field == beast::field::transfer_encoding) {
      if (!equal_ignoring_case(value, "chunked")) return refuse(kUnknownTransferEncoding, failed);
      if (!is_http_1_1) return refuse(kBadTransferEncoding, failed);
    }
    head.headers.push_back({std::string(name), std::string(value)});
  }
  // RFC 9112, 3.2: exactly one Host since HTTP/1.1. RFC 9110, 10.1.1: HTTP/1.0 knows no Expect.
  void on_header_impl(error_code& failed) override {
    if (!kIsRequest) return;
    const auto is_host = [](const Header& h) { return equal_ignoring_case(h.name, "host"); };
    const auto hosts = std::count_if(head.headers.begin(), head.headers.end(), is_host);
    if (hosts > 1 || (hosts == 0 && is_http_1_1)) return refuse(kBadHost, failed);
    const std::string_view expectation = head.header("expect");
    if (!is_http_1_1 || expectation.empty()) return;
    if (!equal_ignoring_case(expectation, "100-continue")) refuse(kUnknownExpectation, failed);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view data, error_code&) override {
    has_body_bytes_ = true;
    body_->append(data);
    return data.size();
  }
  void on_chunk_header_impl(std::uint64_t size, string_view extension,
                            error_code& failed) override {
    chunk_left_ = size;
    // Beast accepts any number of zeros. The CRLF before the size belongs to the last chunk.
    const auto digits = extension.data() - lines_.data() - (lines_.front() == '\r' ? 2 : 0);
    // 15 digits are below 2^60, so no count of bytes overflows.
    if (digits > 15) refuse(kBadChunk, failed);
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view data, error_code& failed) override {
    chunk_left_ -= data.size();
    return on_body_impl(data, failed);
  }
  void on_finish_impl(error_code&) override {}

  std::string lines_;            // lines that Beast has not got yet
  std::size_t overhead_ = 0;     // bytes of earlier lines that count towards max_header_bytes
  std::string* body_ = nullptr;  // valid during feed()
  std::uint64_t chunk_left_ = 0;
  bool has_length_ = false;
  bool has_body_bytes_ = false;
};

}  // namespace

std::string_view find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

std::string_view Request::header(std::string_view name) const {
  return find_header(headers, name);
}

// ------------------------------------------------------------------------------------- request

struct RequestReader::Parser final : MessageParser<true> {
  using MessageParser::MessageParser;
};

RequestReader::RequestReader(const WireLimits& limits)
    : parser_(std::make_unique<Parser>(limits, /*to_head=*/false)) {}
RequestReader::RequestReader(RequestReader&&) noexcept = default;
RequestReader& RequestReader::operator=(RequestReader&&) noexcept = default;
RequestReader::~RequestReader() = default;

std::size_t RequestReader::feed(std::string_view bytes) {
  return parser_->feed(bytes, parser_->head.body);
}

bool RequestReader::is_idle() const {
  return parser_->is_idle();
}

void RequestReader::limit_body(std::size_t max_body_bytes) {
  assert(is_idle());
  parser_->limit_body(max_body_bytes);
}

bool RequestReader::is_whole() const {
  return parser_->is_whole();
}

const std::optional<WireError>& RequestReader::error() const {
  return parser_->error;
}

bool RequestReader::awaits_continue() const {
  return parser_->awaits_body() && parser_->is_http_1_1 && !parser_->head.header("expect").empty();
}

std::size_t RequestReader::body_bytes() const {
  return parser_->head.body.size();
}

bool RequestReader::is_http_1_1() const {
  return parser_->is_http_1_1;
}

bool RequestReader::keeps_alive() const {
  return parser_->keeps_alive();
}

std::string_view RequestReader::path() const {
  return parser_->head.path;
}

Request RequestReader::take() {
  assert(is_whole());
  const auto whole = std::exchange(parser_, std::make_unique<Parser>(parser_->limits, false));
  return std::move(whole->head);
}

// ------------------------------------------------------------------------------------ response

struct ResponseReader::Parser final : MessageParser<false> {
  using MessageParser::MessageParser;
};

ResponseReader::ResponseReader(const WireLimits& limits, bool to_head)
    : limits_(limits), to_head_(to_head), parser_(std::make_unique<Parser>(limits, to_head)) {}
ResponseReader::~ResponseReader() = default;

// Interim responses (1xx) come before the final one and are dropped. Beast parses one message, so
// each of them needs a new parser.
std::size_t ResponseReader::feed(std::string_view bytes, std::string& body) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !is_whole() && !error()) {
    taken += parser_->feed(bytes.substr(taken), body);
    if (!is_whole() || status() >= 200) continue;
    if (++interim_responses_ > kMaxInterimResponses) {
      parser_->error = kBadStatusLine;
    } else {
      parser_ = std::make_unique<Parser>(limits_, to_head_);
    }
  }
  return taken;
}

// The connection has ended. That is the end of the body if it has no length; else it was cut off.
bool ResponseReader::finish_at_close() {
  error_code cut;
  if (has_head() && !error() && !is_whole()) parser_->put_eof(cut);
  return is_whole();
}

bool ResponseReader::has_head() const {
  return parser_->is_header_done();
}

bool ResponseReader::is_whole() const {
  return parser_->is_whole();
}

const std::optional<WireError>& ResponseReader::error() const {
  return parser_->error;
}

unsigned ResponseReader::status() const {
  return parser_->status;
}

const std::vector<Header>& ResponseReader::headers() const {
  return parser_->head.headers;
}

bool ResponseReader::keeps_alive() const {
  return parser_->keeps_alive();
}

// ------------------------------------------------------------------------------------- details

// "a%20b" becomes "a b"; nothing for "%4" or "%zz". A '+' stays: only forms mean a space by it.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  while (!text.empty()) {
    if (text.front() != '%') {
      decoded.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3) return std::nullopt;
    const int high = hex_value(text[1]);
    const int low = hex_value(text[2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    text.remove_prefix(3);
  }
  return decoded;
}

// "/a%20b?c=%20" becomes the path "/a b" and the query "c=%20", a view of `target`. The path is
// decoded once, here, so that all routes and rules see the same text.
std::optional<Target> split_target(std::string_view target) {
  if (target == "*") return Target{.path = "*", .query = {}};
  for (const char c : target) {
    if (is_control(c) || c == ' ' || c == '#') return std::nullopt;
  }
  if (!target.starts_with('/')) {
    // The absolute form, which proxies receive and RFC 9112, 3.2.2 requires every server to accept.
    const std::size_t colon = target.find("://");
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view scheme = target.substr(0, colon);
    if (!equal_ignoring_case(scheme, "http") && !equal_ignoring_case(scheme, "https")) {
      return std::nullopt;
    }
    target.remove_prefix(colon + 3);
    const std::size_t authority_end = std::min(target.find_first_of("/?"), target.size());
    if (authority_end == 0) return std::nullopt;
    target.remove_prefix(authority_end);
  }
  const std::size_t path_end = std::min(target.find('?'), target.size());
  auto path = percent_decoded(target.substr(0, path_end));
  if (!path || path->find('\0') != std::string::npos || !utf8::is_valid(*path)) {
    return std::nullopt;
  }
  if (path->empty()) *path = "/";
  return Target{.path = *std::move(path),
                .query = target.substr(std::min(path_end + 1, target.size()))};
}

bool is_field_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_token_char);
}

bool is_field_value(std::string_view value) {
  return std::none_of(value.begin(), value.end(),
                      [](char c) { return is_control(c) && c != '\t'; });
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

// A list may be spread over several fields of the same name (RFC 9110, 5.3).
bool lists_token(const std::vector<Header>& headers, std::string_view name,
                 std::string_view token) {
  for (const Header& header : headers) {
    if (!equal_ignoring_case(header.name, name)) continue;
    std::string_view list = header.value;
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      if (equal_ignoring_case(trimmed(list.substr(0, comma)), token)) return true;
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  return false;
}

// "Sun, 06 Nov 1994 08:49:37 GMT". strftime would use the names of the locale.
std::string http_date(std::time_t time) {
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                    "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";  // RFC 9112, 4: the reason may be empty
  }
}

// "hello" becomes "5\r\nhello\r\n". An empty chunk would end the body.
void append_chunk(std::string& out, std::string_view data) {
  assert(!data.empty());
  std::array<char, 24> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  out.append(size.data(), static_cast<std::size_t>(digits)).append(data).append("\r\n");
}

}  // namespace tenon::http
