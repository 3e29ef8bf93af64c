#include "tenon/http/answer.h"

#include <cassert>
#include <ctime>
#include <exception>

#include <sys/socket.h>

#include "tenon/base/log.h"

namespace tenon::http {
namespace {

using namespace std::chrono_literals;

constexpr auto kBurst = 1ms;  // writes that follow sooner than this are gathered

constexpr WireError kUnanswered{500, "internal_error", "The request could not be answered"};

Response default_error_body(unsigned status, std::string_view code, std::string_view message) {
  // The messages are literals; some of them quote a token.
  std::string quoted;
  for (const char c : message) {
    if (c == '"') quoted.push_back('\\');
    quoted.push_back(c);
  }
  Response response{.status = status};
  response.body.append(R"({"error":{"message":")")
      .append(quoted)
      .append(R"(","type":")")
      .append(status < 500 ? "invalid_request_error" : "server_error")
      .append(R"(","code":")")
      .append(code)
      .append("\"}}");
  return response;
}

Response error_response(const AnswerRules& rules, const WireError& error,
                        std::string_view path = {}) {
  if (!rules.error_body) return default_error_body(error.status, error.code, error.message);
  try {
    return rules.error_body(error.status, error.code, error.message, path);
  } catch (const std::exception& thrown) {
    log::error(std::string("http: error_body threw: ") + thrown.what());
    return default_error_body(error.status, error.code, error.message);
  }
}

// The current date, formatted once a second per thread.
std::string_view current_date() {
  thread_local std::time_t formatted = -1;
  thread_local std::string text;
  if (const std::time_t now = std::time(nullptr); now != formatted) {
    formatted = now;
    text = http_date(now);
  }
  return text;
}

// These fields are written here; a handler's would contradict them. `connection: close` of a
// handler is obeyed all the same (closes_connection_).
bool is_framing_field(std::string_view name) {
  for (const std::string_view ours : {"content-length", "transfer-encoding", "connection", "date",
                                      "content-type", "keep-alive"}) {
    if (equal_ignoring_case(name, ours)) return true;
  }
  return false;
}

// A value with a line end in it would let its author write further fields or a second response.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  if (!is_field_name(name) || !is_field_value(value)) {
    log::error("http: a response field with forbidden characters was left out");
    return;
  }
  out.append(name).append(": ").append(value).append("\r\n");
}

// What this thread gathers; null outside of a Gathering.
thread_local std::vector<std::shared_ptr<Answer>>* gathering = nullptr;

// Status line and fields, up to where the framing fields go.
std::string head_of(unsigned status, std::string_view content_type,
                    const std::vector<Header>& headers) {
  std::string head;
  head.reserve(256);
  head.append("HTTP/1.1 ").append(std::to_string(status)).append(" ");
  head.append(reason_phrase(status)).append("\r\nDate: ").append(current_date()).append("\r\n");
  if (!content_type.empty()) append_field(head, "Content-Type", content_type);
  for (const Header& header : headers) {
    if (!is_framing_field(header.name)) append_field(head, header.name, header.value);
  }
  return head;
}

}  // namespace

Gathering::Gathering() : is_outer_(gathering == nullptr) {
  if (is_outer_) gathering = &answers_;
}

Gathering::~Gathering() {
  if (!is_outer_) return;
  gathering = nullptr;
  for (const auto& answer : answers_) answer->send_gathered();
}

// Call under the lock. True: the queue is sent when the Gathering of this or another thread ends.
bool Answer::gathers() {
  if (is_gathered_) return true;
  if (gathering == nullptr || is_awake_ || is_closed_ || socket_ < 0) return false;
  gathering->push_back(shared_from_this());
  return is_gathered_ = true;
}

// Sends at the end of a Gathering what was written within it, in one system call. What the kernel
// does not take, and the end of the answer, are the connection's business.
void Answer::send_gathered() try {
  Callback drained;
  {
    const std::lock_guard lock(mutex_);
    is_gathered_ = false;
    if (is_awake_ || is_closed_) return;  // the connection sends it, or the client has gone
    const std::size_t before = pending_.size();
    send_now();
    drained = count_sent(before - pending_.size());
    if (!pending_.empty() || stage_ != Stage::streaming) wake();
  }
  if (drained) (*drained)();
} catch (const std::exception& thrown) {
  log::error(std::string("http: what was gathered could not be sent: ") + thrown.what());
}

// Call under the lock. While is_awake_, the connection alone sends; it falls asleep in take().
void Answer::wake() {
  if (is_awake_ || is_closed_) return;
  is_awake_ = true;
  if (const auto sender = sender_.lock()) sender->wake();
}

void Answer::queue(std::string_view bytes) {
  pending_.append(bytes);
  count_queued(bytes.size());
}

void Answer::count_queued(std::size_t bytes) {
  queued_bytes_ += bytes;
  if (low_water_ > 0 && queued_bytes_ >= low_water_) was_high_ = true;
}

// A token that comes alone is sent by the thread that made it, so the connection's thread need not
// be woken. In a burst that would be a system call per token, so the connection sends what has
// gathered meanwhile. http_bench, streams/server, CPU per token: 1000/5 16 to 23 -> 10 to 12 us,
// 100/20 21 to 23 -> 12 us, 32/500 6 to 11 -> 6 us (2 cores of an EPYC, busy; 2026-11-21).
void Answer::send_lone() {
  const auto now = std::chrono::steady_clock::now();
  const bool is_lone = now - std::exchange(last_write_, now) > kBurst;
  if (is_lone) send_now();
}

// Call under the lock. The connection sends what the kernel does not take, and learns of errors. If
// it is asleep and nothing is gathered, pending_ has only what was written just now.
void Answer::send_now() {
  if (is_awake_ || socket_ < 0 || pending_.empty()) return;  // asleep: nothing else is being sent
  const auto sent = ::send(socket_, pending_.data(), pending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) pending_.erase(0, static_cast<std::size_t>(sent));
  // A stream that waits keeps no buffer: with 5,000 streams that is worth more than an allocation.
  if (pending_.empty()) std::string().swap(pending_);
}

void Answer::respond(Response response) {
  // Destroyed after the lock: on_closed will not be called any more, and what it owns goes with it.
  Callback released;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (stage_ != Stage::open) return log::error("http: respond() on an answer already begun");
  respond_locked(response, lists_token(response.headers, "connection", "close"));
  released.swap(on_closed_);
}

void Answer::refuse(const WireError& error, std::string_view path) {
  const std::lock_guard lock(mutex_);
  respond_locked(error_response(rules_, error, path), /*closes=*/true);
}

// Queues a whole response. 204 and 304 have no body and no length (RFC 9110, 8.6); the answer to
// HEAD has the length of a body that is not sent.
void Answer::respond_locked(const Response& response, bool closes) {
  // A handler cannot send interim responses (1xx).
  const unsigned status = response.status >= 200 && response.status <= 599 ? response.status : 500;
  const bool has_body = status != 204 && status != 304;
  closes_connection_ = closes || !manner_.keeps_alive || rules_.is_draining;

  std::string head = head_of(status, has_body ? response.content_type : "", response.headers);
  if (has_body) append_field(head, "Content-Length", std::to_string(response.body.size()));
  if (closes_connection_) {
    append_field(head, "Connection", "close");
  } else if (!manner_.is_http_1_1) {
    append_field(head, "Connection", "keep-alive");
  }
  head.append("\r\n");
  if (has_body && !manner_.to_head) head.append(response.body);
  queue(head);
  stage_ = Stage::complete;
  wake();
}

// HTTP/1.0 has no chunks: the stream ends with the connection.
void Answer::begin_stream(std::string_view content_type, const std::vector<Header>& headers) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (stage_ != Stage::open) return log::error("http: begin_stream() on an answer already begun");
  closes_connection_ = !manner_.is_http_1_1 || !manner_.keeps_alive || rules_.is_draining ||
                       lists_token(headers, "connection", "close");
  std::string head = head_of(200, content_type, headers);
  if (manner_.is_http_1_1) append_field(head, "Transfer-Encoding", "chunked");
  if (closes_connection_) append_field(head, "Connection", "close");
  queue(head.append("\r\n"));
  stage_ = Stage::streaming;
  if (!gathers()) wake();
}

void Answer::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || overflowed_ || bytes.empty()) return;
  if (stage_ != Stage::streaming) return log::error("http: write() outside of a stream");
  if (manner_.to_head) return;
  if (queued_bytes_ + bytes.size() > rules_.max_queued_bytes) {
    overflowed_ = true;
    is_awake_ = false;  // the connection may be waiting for a client that does not read
    return wake();
  }
  const std::size_t before = pending_.size();
  if (manner_.is_http_1_1) {
    append_chunk(pending_, bytes);
  } else {
    pending_.append(bytes);
  }
  const bool is_later = gathers();
  if (!is_later) send_lone();
  if (pending_.empty()) return;
  count_queued(pending_.size() - before);
  if (!is_later) wake();
}

void Answer::end_stream() {
  Callback released;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (stage_ != Stage::streaming) return log::error("http: end_stream() outside of a stream");
  if (manner_.is_http_1_1 && !manner_.to_head) queue(kLastChunk);
  stage_ = Stage::complete;
  if (!gathers()) wake();
  released.swap(on_closed_);
}

// A stream that is cut has no last chunk, so the client sees that it is not whole.
void Answer::abandon() {
  Callback released;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (stage_ == Stage::open) {
    respond_locked(error_response(rules_, kUnanswered), /*closes=*/false);
  } else if (stage_ == Stage::streaming) {
    stage_ = Stage::cut;
    wake();
  }
  released.swap(on_closed_);
}

// An answer that is complete calls nothing: its handler has done its work, whether the client reads
// it or not. If the client has gone already, the callback runs at once, without the lock.
void Answer::on_closed(std::function<void()> callback) {
  {
    auto shared = std::make_shared<std::function<void()>>(std::move(callback));
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
      if (stage_ == Stage::open || stage_ == Stage::streaming) on_closed_.swap(shared);
      return;
    }
    callback = std::move(*shared);
  }
  callback();
}

void Answer::on_drained(std::size_t low_water, std::function<void()> callback) {
  auto shared = std::make_shared<std::function<void()>>(std::move(callback));
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  // The queue may have passed the mark before the handler asked.
  low_water_ = low_water;
  was_high_ = low_water > 0 && queued_bytes_ >= low_water;
  on_drained_.swap(shared);
}

std::size_t Answer::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

bool Answer::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

bool Answer::is_complete() const {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::complete;
}

bool Answer::has_overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

bool Answer::closes_connection() const {
  const std::lock_guard lock(mutex_);
  return closes_connection_;
}

// Only an answer with nothing to send lets the connection sleep; the next write wakes it.
Answer::Next Answer::take(std::string& out) {
  assert(out.empty());
  const std::lock_guard lock(mutex_);
  if (overflowed_) return Next::cut;
  if (!pending_.empty()) {
    pending_.swap(out);
    return Next::send;
  }
  if (stage_ == Stage::complete) return Next::finish;
  if (stage_ == Stage::cut) return Next::cut;
  is_awake_ = false;
  return Next::wait;
}

void Answer::progress(std::size_t bytes) {
  Callback drained;
  {
    const std::lock_guard lock(mutex_);
    drained = count_sent(bytes);
  }
  if (drained) (*drained)();
}

// Call under the lock. Returns the callback to call, without the lock, if the queue has drained.
// The queue has drained when it falls below half of low_water_ (rounded up), so that a handler does
// not stop and go with every byte. was_high_ makes it one call for each time it was full.
Answer::Callback Answer::count_sent(std::size_t bytes) {
  queued_bytes_ -= bytes;
  if (!was_high_ || queued_bytes_ >= low_water_ / 2 + low_water_ % 2) return nullptr;
  was_high_ = false;
  return on_drained_;
}

void Answer::lose_socket() {
  const std::lock_guard lock(mutex_);
  socket_ = -1;
}

void Answer::close() {
  Callback closed;
  Callback released;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    queued_bytes_ = 0;
    std::string().swap(pending_);
    closed.swap(on_closed_);
    released.swap(on_drained_);
  }
  if (closed) (*closed)();
}

// Callbacks are moved out first and destroyed after the lock, since their owners may call us.
void Answer::finish() {
  Callback closed;
  Callback drained;
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  closed.swap(on_closed_);
  drained.swap(on_drained_);
}

}  // namespace tenon::http
