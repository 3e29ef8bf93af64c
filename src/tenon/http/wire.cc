#include "tenon/http/wire.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <utility>

#include "tenon/base/utf8.h"

namespace tenon::http {
namespace {

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
                                    "The only versions that are understood are HTTP/1.0 and 1.1"};
constexpr WireError kUnknownExpectation{417, "expectation_failed",
                                        "The only expectation that is understood is "
                                        "\"100-continue\""};
constexpr WireError kTargetTooLong{414, "target_too_long", "The request line is too long"};
constexpr WireError kHeadTooLarge{431, "headers_too_large", "The header fields are too large"};
constexpr WireError kTooManyFields{431, "headers_too_large", "There are too many header fields"};
constexpr WireError kBodyTooLarge{413, "body_too_large", "The body is too large"};
constexpr WireError kBadChunk{400, "bad_request", "The chunked body is malformed"};
constexpr WireError kBadStatusLine{502, "bad_response", "The status line is malformed"};

constexpr int kMaxInterimResponses = 16;

// RFC 9110 5.6.2.
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

// Cuts the first line, without its CRLF, off `text`, in which every line is whole.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\r');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return line;
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  // 18 digits fit; a longer number is over every limit and may be malformed: refused either way.
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::optional<WireError> read_fields(std::string_view lines, std::size_t max_fields,
                                     std::vector<Header>& fields) {
  while (!lines.empty()) {
    const std::string_view line = next_line(lines);
    if (fields.size() == max_fields) return kTooManyFields;
    // A name has no spaces, so this refuses folded lines and "Name : value" as well.
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_field_name(line.substr(0, colon))) return kBadField;
    fields.push_back(
        {std::string(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))});
  }
  return std::nullopt;
}

struct FramingFields {
  std::size_t lengths = 0;
  std::string_view length;
  std::size_t encodings = 0;
  std::string_view encoding;
};

FramingFields find_framing(const std::vector<Header>& headers) {
  FramingFields found;
  for (const Header& header : headers) {
    if (equal_ignoring_case(header.name, "content-length")) {
      ++found.lengths;
      found.length = header.value;
    } else if (equal_ignoring_case(header.name, "transfer-encoding")) {
      ++found.encodings;
      found.encoding = header.value;
    }
  }
  return found;
}

// Digits, a dot and a digit: what may follow "HTTP/".
bool is_version(std::string_view text) {
  return text.size() == 8 && text.starts_with("HTTP/") && text[5] >= '0' && text[5] <= '9' &&
         text[6] == '.' && text[7] >= '0' && text[7] <= '9';
}

bool keeps_alive_by(const std::vector<Header>& headers, bool is_http_1_1) {
  if (lists_token(headers, "connection", "close")) return false;
  return is_http_1_1 || lists_token(headers, "connection", "keep-alive");
}

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

// ---------------------------------------------------------------------------------------- head

std::size_t HeadReader::feed(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !whole_ && take(bytes[taken])) ++taken;
  return taken;
}

bool HeadReader::take(char c) {
  if (error_) return false;
  if (text_.size() + skipped_ >= max_bytes_) {
    error_ = text_.find('\n') == std::string::npos ? kTargetTooLong : kHeadTooLarge;
    return false;
  }
  const bool is_line_end = after_cr_ && c == '\n';
  if (after_cr_ ? !is_line_end : is_control(c) && c != '\t' && c != '\r') {
    error_ = kBadCharacter;
    return false;
  }
  if (!is_line_end) {
    // So that a TLS hello, or anything else that is not HTTP, is refused at its first byte.
    if (text_.empty() && c != '\r' && !is_token_char(c)) {
      error_ = kBadRequestLine;
      return false;
    }
    after_cr_ = c == '\r';
    if (!after_cr_) ++line_length_;
    text_.push_back(c);
    return true;
  }
  after_cr_ = false;
  if (line_length_ > 0) {
    line_length_ = 0;
    text_.push_back(c);
    return true;
  }
  text_.pop_back();  // the CR
  if (!text_.empty()) {
    whole_ = true;
  } else if (skipped_ == 0) {
    skipped_ = 2;
  } else {
    error_ = kBadRequestLine;
  }
  return true;
}

void HeadReader::clear() {
  text_.clear();
  line_length_ = skipped_ = 0;
  after_cr_ = whole_ = false;
  error_.reset();
}

// ---------------------------------------------------------------------------------------- body

BodyReader::BodyReader(Framing framing, const WireLimits& limits)
    : kind_(framing.kind),
      left_(framing.length),
      content_left_(limits.max_body_bytes),
      overhead_left_(limits.max_header_bytes) {
  switch (kind_) {
    case Framing::Kind::none:
      break;
    case Framing::Kind::length:
      if (left_ > content_left_) {
        fail(kBodyTooLarge);
      } else if (left_ > 0) {
        state_ = State::data;
      }
      break;
    case Framing::Kind::chunked:
      state_ = State::size;
      break;
    case Framing::Kind::until_close:
      state_ = State::data;
      break;
  }
}

std::size_t BodyReader::feed(std::string_view bytes, std::string& out) {
  std::size_t taken = 0;
  if (!bytes.empty()) untouched_ = false;
  while (taken < bytes.size() && state_ != State::whole && !error_) {
    if (state_ != State::data) {
      take_chunk_byte(bytes[taken]);
      ++taken;
      continue;
    }
    std::string_view data = bytes.substr(taken);
    if (kind_ == Framing::Kind::until_close) {
      left_ = data.size();
      if (left_ > content_left_) {
        fail(kBodyTooLarge);
        break;
      }
    }
    data = data.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, data.size())));
    out.append(data);
    taken += data.size();
    left_ -= data.size();
    content_left_ -= data.size();
    if (left_ > 0 || kind_ == Framing::Kind::until_close) continue;
    state_ = kind_ == Framing::Kind::chunked ? State::data_cr : State::whole;
  }
  return taken;
}

bool BodyReader::finish_at_close() {
  if (kind_ == Framing::Kind::until_close && !error_) state_ = State::whole;
  return is_whole();
}

// RFC 9112 7.1. Everything but the data is counted, or a client could feed extensions and trailers
// for ever.
void BodyReader::take_chunk_byte(char c) {
  if (state_ != State::data_cr && state_ != State::data_lf && !take_overhead()) return;
  const auto expect = [&](char wanted, State next) {
    if (c == wanted) {
      state_ = next;
    } else {
      fail(kBadChunk);
    }
  };
  switch (state_) {
    case State::data_cr:
      return expect('\r', State::data_lf);
    case State::data_lf:
      return expect('\n', State::size);
    case State::size: {
      if (const int digit = hex_value(c); digit >= 0) {
        // 15 digits cannot overflow.
        if (++size_digits_ > 15) return fail(kBadChunk);
        left_ = (size_digits_ == 1 ? 0 : left_ * 16) + static_cast<std::uint64_t>(digit);
        return;
      }
      if (size_digits_ == 0) return fail(kBadChunk);
      if (c == '\r') return expect('\r', State::size_lf);
      if (c != ';' && c != ' ' && c != '\t') return fail(kBadChunk);
      state_ = State::extension;
      return;
    }
    case State::extension:
      if (c == '\r') return expect('\r', State::size_lf);
      if (is_control(c) && c != '\t') fail(kBadChunk);
      return;
    case State::size_lf:
      expect('\n', State::data);
      if (!error_) start_chunk();
      return;
    case State::trailer_line:
      if (c == '\r') return expect('\r', State::end_lf);
      if (!is_token_char(c)) return fail(kBadChunk);
      state_ = State::trailer;
      return;
    case State::trailer:
      if (c == '\r') return expect('\r', State::trailer_lf);
      if (is_control(c) && c != '\t') fail(kBadChunk);
      return;
    case State::trailer_lf:
      return expect('\n', State::trailer_line);
    case State::end_lf:
      return expect('\n', State::whole);
    case State::data:
    case State::whole:
      assert(false);
  }
}

void BodyReader::start_chunk() {
  size_digits_ = 0;
  if (left_ == 0) {
    state_ = State::trailer_line;
  } else if (left_ > content_left_) {
    fail(kBodyTooLarge);
  } else {
    state_ = State::data;
  }
}

// A chunk's size line is paid for by its data, to which it adds 17 bytes at most, so that a large
// body in small chunks is no fault.
bool BodyReader::take_overhead() {
  if (state_ == State::size || state_ == State::size_lf) return true;
  if (overhead_left_ == 0) {
    fail(kBadChunk);
    return false;
  }
  --overhead_left_;
  return true;
}

void BodyReader::fail(WireError error) {
  error_ = error;
}

// ------------------------------------------------------------------------------------- request

std::size_t RequestReader::feed(std::string_view bytes) {
  std::size_t taken = 0;
  if (!body_ && !error_) {
    taken = head_.feed(bytes);
    error_ = head_.error();
    if (!error_ && head_.is_whole()) error_ = read_head();
  }
  if (body_ && !error_) {
    taken += body_->feed(bytes.substr(taken), request_.body);
    error_ = body_->error();
  }
  return taken;
}

bool RequestReader::awaits_continue() const {
  return expects_continue_ && body_ && !error_ && !body_->is_whole() && body_->is_untouched();
}

Request RequestReader::take() {
  assert(is_whole());
  body_.reset();
  return std::exchange(request_, {});
}

std::optional<WireError> RequestReader::read_head() {
  std::string_view lines = head_.text();
  if (const auto error = read_request_line(next_line(lines))) return error;
  if (const auto error = read_fields(lines, limits_.max_fields, request_.headers)) return error;
  head_.clear();

  Framing framing;
  if (const auto error = read_framing(framing)) return error;
  body_.emplace(framing, limits_);
  if (body_->error()) return body_->error();

  const auto is_host = [](const Header& h) { return equal_ignoring_case(h.name, "host"); };
  const auto hosts = std::count_if(request_.headers.begin(), request_.headers.end(), is_host);
  if (hosts > 1 || (hosts == 0 && is_http_1_1_)) return kBadHost;

  keeps_alive_ = keeps_alive_by(request_.headers, is_http_1_1_);
  expects_continue_ = false;
  if (const std::string_view expectation = request_.header("expect");
      is_http_1_1_ && !expectation.empty()) {
    if (!equal_ignoring_case(expectation, "100-continue")) return kUnknownExpectation;
    expects_continue_ = true;
  }
  return std::nullopt;
}

std::optional<WireError> RequestReader::read_request_line(std::string_view line) {
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || method_end == target_end) return kBadRequestLine;
  const std::string_view method = line.substr(0, method_end);
  const std::string_view version = line.substr(target_end + 1);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);

  if (!is_field_name(method) || !is_version(version)) return kBadRequestLine;
  is_http_1_1_ = version == "HTTP/1.1";
  if (!is_http_1_1_ && version != "HTTP/1.0") return kUnknownVersion;
  const auto split = split_target(target);
  if (!split) return kBadTarget;
  request_.method = method;
  request_.target = target;
  request_.path = split->path;
  request_.query = split->query;
  return std::nullopt;
}

std::optional<WireError> RequestReader::read_framing(Framing& framing) {
  const FramingFields fields = find_framing(request_.headers);
  if (fields.encodings > 0) {
    if (fields.lengths > 0) return kBadLength;
    if (!is_http_1_1_) return kBadTransferEncoding;
    if (fields.encodings > 1 || !equal_ignoring_case(fields.encoding, "chunked")) {
      return kUnknownTransferEncoding;
    }
    framing.kind = Framing::Kind::chunked;
  } else if (fields.lengths > 0) {
    const auto length = decimal(fields.length);
    if (fields.lengths > 1 || !length) return kBadLength;
    framing = {Framing::Kind::length, *length};
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------ response

std::size_t ResponseReader::feed(std::string_view bytes, std::string& body) {
  std::size_t taken = 0;
  while (!body_ && !error_ && taken < bytes.size()) {
    taken += head_.feed(bytes.substr(taken));
    error_ = head_.error();
    if (!error_ && head_.is_whole()) error_ = read_head();
  }
  if (body_ && !error_) {
    taken += body_->feed(bytes.substr(taken), body);
    error_ = body_->error();
  }
  return taken;
}

bool ResponseReader::finish_at_close() {
  return body_ && body_->finish_at_close();
}

std::optional<WireError> ResponseReader::read_head() {
  std::string_view lines = head_.text();
  const std::string_view line = next_line(lines);
  // "HTTP/1.1 200 OK"; the reason, and even the space before it, may be missing.
  if (line.size() < 12 || !line.starts_with("HTTP/1.") || !is_version(line.substr(0, 8)) ||
      line[8] != ' ' || (line.size() > 12 && line[12] != ' ')) {
    return kBadStatusLine;
  }
  const auto status = decimal(line.substr(9, 3));
  if (!status || *status < 100 || *status > 599) return kBadStatusLine;
  status_ = static_cast<unsigned>(*status);
  const bool is_http_1_1 = line[7] != '0';
  headers_.clear();
  if (const auto error = read_fields(lines, limits_.max_fields, headers_)) return error;
  head_.clear();
  if (status_ < 200) {
    if (status_ == 101 || ++interim_responses_ > kMaxInterimResponses) return kBadStatusLine;
    return std::nullopt;
  }

  keeps_alive_ = keeps_alive_by(headers_, is_http_1_1);
  Framing framing{Framing::Kind::until_close, 0};
  const FramingFields fields = find_framing(headers_);
  if (to_head_ || status_ == 204 || status_ == 304) {
    framing.kind = Framing::Kind::none;
  } else if (fields.encodings > 0) {
    if (fields.lengths > 0) return kBadLength;
    if (fields.encodings > 1 || !equal_ignoring_case(fields.encoding, "chunked")) {
      return kUnknownTransferEncoding;
    }
    framing.kind = Framing::Kind::chunked;
  } else if (fields.lengths > 0) {
    const auto length = decimal(fields.length);
    if (fields.lengths > 1 || !length) return kBadLength;
    framing = {Framing::Kind::length, *length};
  }
  if (framing.kind == Framing::Kind::until_close) keeps_alive_ = false;
  body_.emplace(framing, limits_);
  return body_->error();
}

// ------------------------------------------------------------------------------------- details

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

std::optional<Target> split_target(std::string_view target) {
  if (target == "*") return Target{.path = "*", .query = {}};
  for (const char c : target) {
    if (is_control(c) || c == ' ' || c == '#') return std::nullopt;
  }
  if (!target.starts_with('/')) {
    // Absolute-form, which proxies receive and RFC 9112 3.2.2 bids every server to accept.
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
      return "";  // RFC 9112 4: may be empty
  }
}

void append_chunk(std::string& out, std::string_view data) {
  assert(!data.empty());
  std::array<char, 24> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  out.append(size.data(), static_cast<std::size_t>(digits)).append(data).append("\r\n");
}

}  // namespace tenon::http
