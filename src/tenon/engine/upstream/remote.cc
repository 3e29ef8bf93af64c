#include "tenon/engine/upstream/remote.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <ctime>
#include <future>
#include <iomanip>
#include <locale>
#include <sstream>
#include <utility>

#include "tenon/base/clock.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/span.h"
#include "tenon/base/trace.h"
#include "tenon/base/utf8.h"
#include "tenon/engine/upstream/kept_answer.h"
#include "tenon/engine/upstream/readings.h"
#include "tenon/http/message.h"
#include "tenon/http/sse.h"

// How an answer is read
//
// Remote asks questions and posts generations. A Generation reads one answer, as the client's
// thread brings its bytes: on_body() cuts them into events (server-sent events, lines, or one
// document), on_data() parses each as JSON and calls the DeltaReader of the dialect, and take()
// passes what the reader found on to the sink. An answer ends in one of three ways:
//  - end_: an event said that the answer is whole. What fails afterwards does not matter.
//  - failure_: the first error, from an event, from the reader or from a limit.
//  - Neither: the answer broke off, and the status of the transfer says why.
// An error may come instead of the answer (another status), in the stream (fault_in), or as a page
// with status 200 (no_stream). refused() decides whether the request or the server is to blame, and
// keeps keys and addresses out of messages to clients. Silence has two limits: the HTTP client's
// for bytes, and idle_limit_ for pieces of the answer, since some servers send keep-alive bytes
// only.

namespace tenon::engine {

using json::Value;
using message::FinishReason;

std::string text_at(const Value& value, std::string_view pointer) {
  const Value* found = json::at_pointer(value, pointer);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : std::string();
}

std::uint32_t count_at(const Value& value, std::string_view pointer) {
  return told_at(value, pointer).value_or(0);
}

std::optional<std::uint32_t> told_at(const Value& value, std::string_view pointer) {
  const Value* found = json::at_pointer(value, pointer);
  if (found == nullptr || found->if_number() == nullptr) return std::nullopt;
  const auto count = found->if_number()->to_int64().value_or(-1);
  if (count < 0 || count > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(count);
}

namespace {

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

}  // namespace

std::string ids_text(const std::vector<TokenId>& ids) {
  std::string out = "[";
  out.reserve(7 * ids.size() + 2);
  for (const TokenId id : ids) out.append(std::to_string(id)).push_back(',');
  if (!ids.empty()) out.pop_back();
  return out + "]";
}

bool blames_request(unsigned status, std::string_view /*said*/) {
  return status == 400 || status == 413 || status == 422;
}

// The shapes that servers send: "text", {"message": "text"}, {"error": {"message": ...}},
// {"detail": [{"msg": "a"}, {"msg": "b"}]} ("a; b"). The first key that has words counts.
std::string words_of(const Value& error, unsigned depth) {
  constexpr unsigned kMostDepth = 4;
  constexpr std::size_t kMostItems = 4;
  if (const std::string* text = error.if_string()) return *text;
  if (depth >= kMostDepth) return {};
  std::string words;
  if (const json::Array* items = error.if_array()) {
    for (const Value& item : std::span(*items).first(std::min(items->size(), kMostItems))) {
      const std::string more = words_of(item, depth + 1);
      if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    }
    return words;
  }
  for (const std::string_view key : {"message", "error", "detail", "msg", "reason", "error_message",
                                     "description", "errors", "title"}) {
    const Value* member = error.find(key);
    if (member != nullptr) words = words_of(*member, depth + 1);
    if (!words.empty()) break;
  }
  return words;
}

Error unavailable(std::string message) {
  return {Errc::unavailable, std::move(message)};
}

Status check_context(const std::string& url, std::uint32_t met, std::uint32_t now) {
  if (now >= met) return {};
  const std::string was = std::to_string(met);
  return Unexpected(
      unavailable(url + " has a context of " + std::to_string(now) + " tokens now, and had " + was +
                  ": start it with at least " + was +
                  ", or start this server anew, whose model has that context until then"));
}

// 401 and 403 are about our key, 404 about our address or model name: the operator's business, so
// the client gets `unavailable`. Only what `blames` says is the request's fault.
Trouble refusal(unsigned status, const std::string& said, BlamesRequest blames) {
  using Reason = message::Denial::Reason;
  const std::string number = status == 0 ? "the server says" : "status " + std::to_string(status);
  const std::string words = said.empty() ? number : number + ": " + said;
  if (blames(status, said)) return Error{Errc::invalid, words};
  switch (status) {
    case 401:
    case 403:
      return {unavailable("the server does not take the key that it was asked with (" + number +
                          "): the log says which"),
              {.reason = Reason::denied}};
    case 404:
      return {unavailable("the server has not the model, or nothing where it was asked: " + words),
              {.reason = Reason::denied}};
    case 429:
      return {unavailable("the server has too much to do: " + words), {.reason = Reason::busy}};
    default:
      return unavailable(words);
  }
}

namespace {

// A client's request waits while a question is asked, so it is short.
constexpr std::chrono::seconds kQuestionLimit{5};
constexpr std::chrono::milliseconds kLook{20};  // between looks at whether the wait is cancelled
// Bytes of an error's body that are kept: enough for any message.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxLineBytes = http::SseDecoder::kDefaultMaxEventBytes;
constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;

// An error message of a server, in any shape that words_of() reads, among them those of
// llama-server, vLLM and SGLang ({"error": {"message", "code"}}), of OpenAI's API, whose codes are
// words, and of FastAPI ({"detail": [{"msg"}]}).
struct Fault {
  std::string said;
  unsigned status = 0;
};

// Codes that are words, and the HTTP status that each would have had before the answer began.
constexpr std::array<std::pair<std::string_view, unsigned>, 5> kCodes = {
    {{"invalid_api_key", 401},
     {"model_not_found", 404},
     {"rate_limit_exceeded", 429},
     {"insufficient_quota", 429},
     {"engine_busy", 429}}};  // another Tenon server's

Fault fault_in(const Value& answer) {
  Fault fault{words_of(answer), count_at(answer, "/error/code")};
  // The event's type says that it is an error.
  if (answer.find("error") == nullptr) fault.status = count_at(answer, "/code");
  const std::string code = text_at(answer, "/error/code");
  for (const auto& [word, status] : kCodes) {
    if (code == word) fault.status = status;
  }
  return fault;
}

// A date as HTTP writes it (RFC 9110, 5.6.7; not the two old forms that it lists), in seconds since
// 1970.
std::optional<std::int64_t> http_date(std::string_view text) {
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  std::tm date{};
  in >> std::get_time(&date, "%a, %d %b %Y %H:%M:%S GMT");
  if (in.fail()) return std::nullopt;
  return timegm(&date);
}

// Seconds, or a date. A date is compared with the server's clock if the server sends its time.
std::uint32_t retry_after_of(const std::vector<http::Header>& headers) {
  const std::string_view text = http::find_header(headers, "retry-after");
  std::uint32_t seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec == std::errc()) return seconds;
  const std::optional<std::int64_t> then = http_date(text);
  if (!then) return 0;
  const std::int64_t now = http_date(http::find_header(headers, "date")).value_or(unix_time());
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*then - now, 0, UINT32_MAX));
}

// The message in an error's body; "" for a page of HTML or an empty body.
std::string said_in(std::string_view body) {
  const auto document = json::parse(body);
  return document ? fault_in(*document).said : std::string();
}

// The host in `url`, with its port.
// "http://10.0.0.5:8000/v1" gives "10.0.0.5:8000".
std::string authority_in(const std::string& url) {
  const std::string::size_type scheme = url.find("://");
  const std::string::size_type begin = scheme == url.npos ? 0 : scheme + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

// The names by which the server may call its own host. An ordinary word is not searched for alone.
std::vector<std::string> names_of_host(const std::string& url) {
  const std::string authority = authority_in(url);
  const bool has_port = authority.rfind(':') != authority.npos && !authority.ends_with(']');
  const std::string host = has_port ? authority.substr(0, authority.rfind(':')) : authority;
  const bool is_local = host == "localhost" || host == "[::1]" || host.starts_with("127.");
  if (is_local) return {"localhost", "[::1]", "127.0.0.1", host};
  return host.find_first_of(".:") == host.npos ? std::vector<std::string>{authority}
                                               : std::vector<std::string>{host};
}

// As much of a server's words as a person reads.
std::string shortened(std::string words) {
  constexpr std::size_t kMostWords = 2048;
  if (words.size() <= kMostWords) return words;
  return utf8::sanitized(std::string_view(words).substr(0, kMostWords)) + "...";
}

// Clients must not learn where the server listens; only the log has the address. The scheme before
// a host and the port behind it go too.
std::string without_address(std::string message, const std::string& url) {
  constexpr std::string_view kInstead = "the server";
  message = shortened(std::move(message));
  for (const std::string& host : names_of_host(url)) {
    if (host.empty()) continue;
    for (auto at = message.find(host); at != message.npos; at = message.find(host, at)) {
      std::size_t begin = at;
      std::size_t end = at + host.size();
      for (const std::string_view scheme : {"https://", "http://"}) {
        if (std::string_view(message).substr(0, begin).ends_with(scheme)) begin -= scheme.size();
      }
      if (end + 1 < message.size() && message[end] == ':' && is_digit(message[end + 1])) {
        ++end;
        while (end < message.size() && is_digit(message[end])) ++end;
      }
      // An address at the beginning is a heading ("10.0.0.5:8000: refused"), and is taken away with
      // its colon.
      const bool begins = begin == 0 && std::string_view(message).substr(end).starts_with(": ");
      const std::string_view instead = begins ? std::string_view() : kInstead;
      message.replace(begin, end - begin + (begins ? 2 : 0), instead);
      at = begin + instead.size();
    }
  }
  return message;
}

// As refusal(); the details that clients must not see go to the log.
Trouble refused(unsigned status, const std::string& said, const ServerAddress& to,
                BlamesRequest blames) {
  Trouble trouble = refusal(status, without_address(said, to.url), blames);
  if (status == 401 || status == 403) {
    log::error("upstream " + to.url + ": status " + std::to_string(status) + " for " +
               (to.api_key.empty()     ? "being asked without a key: the model has no api_key_env"
                : to.key_place.empty() ? "the key that it was asked with"
                                       : to.key_place) +
               (said.empty() ? "" : ": " + std::string(log::content(shortened(said)))));
  }
  return trouble;
}

// What a piece costs a reader that keeps the answer, besides its text.
constexpr std::size_t kPieceBytes = 16;

std::size_t bytes_of(const Delta& delta) {
  std::size_t bytes = delta.reasoning.empty() ? 0 : delta.reasoning.size() + kPieceBytes;
  for (const Delta::Token& token : delta.tokens) {
    bytes += token.bytes.size() + kPieceBytes;
    if (!token.logprob) continue;
    for (const auto& [text, logprob] : token.logprob->top) bytes += text.size() + kPieceBytes;
  }
  for (const Delta::Call& call : delta.calls) {
    bytes += call.name.size() + call.arguments.size() + kPieceBytes;
  }
  return bytes;
}

// Estimates for servers that do not count. A prompt of messages is sent as JSON, mostly text.
constexpr std::size_t kQuestionBytesPerToken = 4;
constexpr std::size_t kMostBytesPerToken = 8;

/// One generation: reads the event stream and calls the sink. All members except the two atomics
/// are used by the client's thread only. `server` belongs to the Remote, which outlives its client.
class Generation {
 public:
  Generation(std::shared_ptr<EventSink> sink, const GenerateRequest& request,
             std::size_t asked_bytes, Reading reading, const ServerAddress& server)
      : sink_(std::move(sink)),
        read_(std::move(reading.read)),
        framing_(reading.framing),
        server_(server),
        blames_(reading.blames),
        idle_limit_(server.silence_limit.count() == 0 ? Clock::duration::max()
                                                      : kIdleSilences * server.silence_limit),
        is_constrained_(request.printed != nullptr),
        is_by_token_(request.chat == nullptr && request.text.empty()),
        is_watched_(request.is_watched),
        asked_bytes_(asked_bytes),
        guessed_prompt_(static_cast<std::uint32_t>(asked_bytes / kQuestionBytesPerToken)),
        prompt_tokens_(request.chat == nullptr ? std::optional(known_tokens(request))
                                               : std::nullopt),
        deadline_(request.time_limit.count() == 0 ? Clock::time_point::max()
                                                  : Clock::now() + request.time_limit) {}

  void on_head(unsigned status, const std::vector<http::Header>& headers) {
    on_head({.status = status,
             .type = http::find_header(headers, "content-type"),
             .coding = http::find_header(headers, "content-encoding"),
             .retry_after_s = retry_after_of(headers),
             .asked_bytes = asked_bytes_});
  }
  void on_head(const message::UpstreamHead& head) {
    if (is_watched_) sink_->on_upstream(head);
    status_ = head.status;
    retry_after_s_ = head.retry_after_s;
    type_ = head.type;
    // A chat server that cannot stream answers with one document.
    is_document_ = framing_ == Framing::chat && type_.starts_with("application/json");
    if (head.status == 200 && !head.coding.empty() && head.coding != "identity") {
      failure_ = unavailable("the answer is compressed ('" + std::string(head.coding) +
                             "'), which was not asked for");
    }
  }

  // How much of the rest is needed: nothing after an error, only counts and the end after the end.
  http::Wanted wanted() const {
    if (failure_ || (!has_come_ && error_body_.size() >= kMaxErrorBytes)) {
      return http::Wanted::nothing;
    }
    return end_ ? http::Wanted::end : http::Wanted::all;
  }

  void on_body(std::string_view bytes) {
    // A server that does not take its key may repeat a part of it.
    const bool may_have_key = status_ == 401 || status_ == 403;
    if (is_watched_ && !may_have_key) sink_->on_upstream(bytes);
    if (status_ != 200) {
      if (error_body_.size() < kMaxErrorBytes) error_body_ += bytes;
      return;
    }
    if (framing_ == Framing::lines || is_document_) {
      on_text(bytes);
    } else {
      on_stream(bytes);
    }
    // Looked at when bytes come: a server that sends nothing at all reaches the client's own limit.
    if (Clock::now() - moved_at_.load(std::memory_order_relaxed) < idle_limit_) return;
    fail(unavailable("nothing of the answer has come for too long"));
  }

  void on_end(const Status& transfer) {
    if (is_watched_) {
      sink_->on_upstream(message::UpstreamEnd{transfer ? nullptr : &transfer.error()});
    }
    // The last line, and a document, may lack a line end. Text that was cut is not valid JSON.
    if (!text_.empty() && transfer) on_data(text_);
    RunEnd end{.reason = reason(), .usage = usage(), .is_constrained = is_constrained_};
    if (end.reason == FinishReason::error) {
      Trouble trouble = this->trouble(transfer);
      end.error = std::move(trouble.error);
      end.denial = trouble.denial;
      if (end.denial.retry_after_s == 0) end.denial.retry_after_s = retry_after_s_;
    }
    const std::shared_ptr<EventSink> sink = std::move(sink_);
    sink->on_end(end);
  }

  /// Starts the clock for silence anew, because the server is not to blame for the silence so far.
  void forgive() { moved_at_.store(Clock::now(), std::memory_order_relaxed); }

  std::atomic<bool> is_cancelled = false;

 private:
  using Clock = std::chrono::steady_clock;
  // Pieces may be so many silence limits apart, as long as keep-alive bytes come in between.
  static constexpr int kIdleSilences = 5;
  // The end of the stream is kept for said_last().
  static constexpr std::size_t kLastBytes = 4096;

  static std::uint32_t known_tokens(const GenerateRequest& request) {
    return static_cast<std::uint32_t>(request.prompt.size());
  }

  void on_stream(std::string_view bytes) {
    std::vector<http::SseEvent> events;
    const Status fed = decoder_.feed(bytes, events);
    if (!events.empty() && !std::exchange(has_come_, true)) error_body_.clear();
    if (!has_come_ && !type_.starts_with("text/event-stream")) error_body_ += bytes;
    last_bytes_.append(bytes);
    if (last_bytes_.size() > 2 * kLastBytes) last_bytes_.erase(0, last_bytes_.size() - kLastBytes);
    for (const http::SseEvent& event : events) {
      event.type == "error" ? on_error(event.data) : on_data(event.data);
    }
    if (!fed) fail(too_large(fed.error().message));
  }

  // `unavailable`, not `limit_exceeded`: a client cannot avoid this limit by a shorter request.
  static Trouble too_large(std::string what) { return unavailable(std::move(what)); }

  // An event of the type `error` has JSON with the server's message, or the message itself.
  void on_error(std::string_view data) {
    const auto event = json::parse(data);
    const Fault fault = event ? fault_in(*event) : Fault{.said = std::string(data)};
    fail(refused(fault.status, fault.said, server_, blames_));
  }

  void fail(Trouble trouble) {
    if (!failure_ && !end_) failure_ = std::move(trouble);
  }

  // Reads lines, or collects one document.
  void on_text(std::string_view bytes) {
    while (!is_document_) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos) break;
      text_ += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      if (text_.find_first_not_of(" \t\r") != std::string::npos) on_data(text_);
      text_.clear();
    }
    if (failure_) return;
    text_ += bytes;
    if (text_.size() <= (is_document_ ? kMaxDocumentBytes : kMaxLineBytes)) return;
    fail(too_large("the server's answer has a line that is too long"));
    text_.clear();
  }

  // An answer that was complete stays complete, even if the connection failed afterwards.
  FinishReason reason() const {
    if (end_) return *end_;
    const bool is_stopped = is_cancelled || Clock::now() >= deadline_;
    return is_stopped ? FinishReason::cancelled : FinishReason::error;
  }

  Trouble trouble(const Status& transfer) const {
    if (status_ != 0 && status_ != 200)
      return refused(status_, said_in(error_body_), server_, blames_);
    if (failure_) return *failure_;
    if (!has_come_ && !error_body_.empty()) return no_stream();
    if (const std::string said = said_last(); !said.empty()) {
      return refused(0, said, server_, blames_);
    }
    if (transfer) return unavailable("the answer broke off");
    log::warn("upstream " + transfer.error().message);
    const Errc code = transfer.error().code;
    return Error{code == Errc::limit_exceeded ? Errc::unavailable : code,
                 without_address(transfer.error().message, server_.url)};
  }

  // Some servers write their error as a line of the stream that is no event: `error: {...}` of
  // llama.cpp, or the JSON alone.
  std::string said_last() const {
    std::string_view rest = last_bytes_;
    while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
    std::string_view line = rest.substr(rest.rfind('\n') + 1);
    constexpr std::string_view kName = "error:";
    const bool is_named = line.starts_with(kName);
    if (is_named) line.remove_prefix(kName.size());
    const auto document = json::parse(line);
    const bool is_error = document && (is_named || document->find("error") != nullptr);
    return is_error ? fault_in(*document).said : std::string();
  }

  // With status 200 a server may still answer with an error document, and a proxy with a page.
  Trouble no_stream() const {
    const auto document = json::parse(error_body_);
    const Fault fault = document ? fault_in(*document) : Fault{};
    if (!fault.said.empty()) return refused(fault.status, fault.said, server_, blames_);
    return unavailable("the answer is no event stream, but '" + type_ + "'");
  }

  void on_data(std::string_view data) {
    if (failure_ || is_cancelled) return;
    if (data == "[DONE]") {
      // Some servers send [DONE] without saying why the answer ends.
      if (framing_ != Framing::chat || !has_answer_ || end_) return;
      take(read_(Value()));
      end_ = FinishReason::stop;
      return;
    }
    const auto event = json::parse(data);
    if (!event) return fail(unavailable("an event is not JSON: " + event.error().message));
    if (event->is_null()) return fail(unavailable("an event is no object"));
    const Value* error = event->find("error");
    const bool is_error =
        text_at(*event, "/object") == "error" || text_at(*event, "/type") == "error";
    if (is_error || (error != nullptr && !error->is_null())) {
      const Fault fault = fault_in(*event);
      return fail(refused(fault.status, fault.said, server_, blames_));
    }
    const Delta delta = read_(*event);
    take(delta);
    if (!delta.failure) return;
    Trouble trouble = *delta.failure;
    trouble.error.message = without_address(std::move(trouble.error.message), server_.url);
    fail(std::move(trouble));
  }

  // After the end of an answer only its counts may come.
  void take(const Delta& delta) {
    if (!end_) take_pieces(delta);
    if (delta.completion_tokens) {
      told_ = *delta.completion_tokens;
      seen_ = 0;
      seen_bytes_ = 0;
    }
    if (delta.cached_tokens) cached_ = *delta.cached_tokens;
    if (delta.reasoning_tokens) reasoning_tokens_ = *delta.reasoning_tokens;
    if (delta.prompt_tokens) prompt_tokens_ = *delta.prompt_tokens;
  }

  void take_pieces(const Delta& delta) {
    has_answer_ = has_answer_ || delta.is_of_answer;
    const std::size_t bytes = bytes_of(delta);
    if (bytes > 0 || delta.end) forgive();
    answer_bytes_ += bytes;
    if (answer_bytes_ > Remote::kMaxAnswerBytes) {
      return fail(too_large("the server's answer is too long"));
    }
    if (!delta.reasoning.empty()) {
      see(1, delta.reasoning.size());
      sink_->on_reasoning(delta.reasoning);
    }
    for (const Delta::Token& token : delta.tokens) {
      see(token.count, token.bytes.size());
      sink_->on_token({.id = token.id,
                       .bytes = token.bytes,
                       .is_control = token.is_control,
                       .logprob = token.logprob ? &*token.logprob : nullptr,
                       .count = token.count});
    }
    for (const Delta::Call& call : delta.calls) {
      see(1, call.name.size() + call.arguments.size());
      sink_->on_call({.index = call.index, .name = call.name, .arguments = call.arguments});
    }
    end_ = delta.end;
  }

  void see(std::uint32_t tokens, std::size_t bytes) {
    seen_ += tokens;
    seen_bytes_ += bytes;
  }

  message::Usage usage() const {
    // What has come since the server last counted. A server that counts at the end leaves nothing
    // here; one that never counts leaves all of it.
    std::uint32_t more = seen_;
    if (!is_by_token_) {
      more = std::max(more, static_cast<std::uint32_t>(seen_bytes_ / kMostBytesPerToken));
    }
    return {.prompt_tokens = prompt_tokens_.value_or(guessed_prompt_),
            .completion_tokens = told_ + more,
            .cached_tokens = cached_,
            .reasoning_tokens = reasoning_tokens_,
            .is_estimated = !prompt_tokens_ || (more > 0 && !is_by_token_)};
  }

  std::shared_ptr<EventSink> sink_;
  const DeltaReader read_;
  const Framing framing_;
  const ServerAddress& server_;
  const BlamesRequest blames_;
  const Clock::duration idle_limit_;
  std::atomic<Clock::time_point> moved_at_ = Clock::now();  // when the last piece came
  const bool is_constrained_;
  const bool is_by_token_;  // each piece says how many tokens it has
  const bool is_watched_;
  const std::size_t asked_bytes_;
  const std::uint32_t guessed_prompt_;
  std::optional<std::uint32_t> prompt_tokens_;
  const Clock::time_point deadline_;
  unsigned status_ = 0;
  std::uint32_t retry_after_s_ = 0;
  std::string type_;
  std::string error_body_;  // what came with another status, or instead of a stream
  std::string last_bytes_;  // of the stream
  bool has_come_ = false;   // an event has come
  http::SseDecoder decoder_;
  bool is_document_ = false;
  std::string text_;         // the line that has no end yet, or the document so far
  bool has_answer_ = false;  // an event of the answer has come, perhaps without content
  std::size_t answer_bytes_ = 0;
  std::optional<FinishReason> end_;
  std::optional<Trouble> failure_;
  std::uint32_t told_ = 0;  // tokens of the answer, as the server counts
  std::uint32_t seen_ = 0;  // tokens since the server's last count
  std::size_t seen_bytes_ = 0;
  std::uint32_t cached_ = 0;
  std::uint32_t reasoning_tokens_ = 0;
};

class RemoteRun final : public Run {
 public:
  RemoteRun(std::shared_ptr<Generation> generation, std::unique_ptr<http::Call> call)
      : generation_(std::move(generation)), call_(std::move(call)) {}
  // Destroying call_ cancels the request; the flag makes its end `cancelled`, not an error.
  ~RemoteRun() override { generation_->is_cancelled = true; }
  RemoteRun(const RemoteRun&) = delete;
  RemoteRun& operator=(const RemoteRun&) = delete;

  void cancel() override {
    generation_->is_cancelled = true;
    call_->cancel();
  }
  void pause() override { call_->pause(); }
  void resume() override {
    generation_->forgive();
    call_->resume();
  }

 private:
  std::shared_ptr<Generation> generation_;
  std::unique_ptr<http::Call> call_;
};

}  // namespace

// vLLM and SGLang send `max_model_len` (vllm entrypoints/openai/models/serving.py:66-71, sglang
// srt/entrypoints/http_server.py:2005), EXO and others `context_length`; mlx-lm's server has no
// list if it has no cache.
Expected<ListedModel> find_model(const Remote& remote, std::string_view path,
                                 const std::string& name, bool trusts_name) {
  const auto models = remote.get(path);
  if (!models) {
    const bool has_none = trusts_name && remote.has_nothing_at(path);
    if (has_none && !name.empty()) return ListedModel{name};
    const std::string hint = has_none ? ": upstream_model must name the one to ask for" : "";
    return Unexpected(unavailable(models.error().message + hint));
  }
  const Value* list = models->find("data");
  const json::Array none;
  const json::Array& all =
      list == nullptr || list->if_array() == nullptr ? none : *list->if_array();
  if (trusts_name && all.empty() && !name.empty()) return ListedModel{name};
  const auto one = std::ranges::find_if(
      all, [&name](const Value& each) { return name.empty() || text_at(each, "/id") == name; });
  if (one == all.end()) {
    return Unexpected(unavailable(remote.url() + std::string(path) + " lists no model" +
                                  (name.empty() ? "" : " '" + name + "'")));
  }
  return ListedModel{text_at(*one, "/id"),
                     std::max(count_at(*one, "/max_model_len"), count_at(*one, "/context_length"))};
}

Expected<std::unique_ptr<Remote>> Remote::create(ServerAddress server, BlamesRequest blames) {
  while (!server.url.empty() && server.url.back() == '/') server.url.pop_back();
  if (const auto url = http::parse_url(server.url); !url) return Unexpected(url.error());
  // As many as there are runs and questions at a time in practice: a new connection costs a round
  // trip, with TLS three.
  constexpr std::size_t kIdleConnections = 1024;
  auto client = http::Client::create({.max_idle_connections = kIdleConnections,
                                      .verifies_certificates = server.verifies_certificates});
  if (!client) return Unexpected(std::move(client.error()));
  return std::unique_ptr<Remote>(new Remote(std::move(server), blames, *std::move(client)));
}

http::ClientRequest Remote::question(std::string method, std::string_view path) const {
  http::ClientRequest request{.method = std::move(method), .url = server_.url + std::string(path)};
  request.headers.push_back({"content-type", "application/json"});
  request.headers.push_back({"accept-encoding", "identity"});
  if (!server_.api_key.empty()) {
    request.headers.push_back({"authorization", "Bearer " + server_.api_key});
  }
  // Where Tenon makes no spans, the upstream's span becomes a child of the client's.
  if (const trace::Context& trace = trace::current(); !trace.parent.empty()) {
    request.headers.push_back({"traceparent", trace.parent});
    if (!trace.state.empty()) request.headers.push_back({"tracestate", trace.state});
  }
  return request;
}

// As http::Client::fetch, but the thread's patience can cancel the wait.
Expected<http::Response> Remote::fetch(http::ClientRequest request) const {
  using std::chrono::milliseconds;
  const patience::Limit& patience = patience::current();
  const auto left = patience.deadline - patience::Clock::now();
  if (patience.is_over()) return Unexpected(unavailable("the answer is not waited for any more"));
  request.time_limit = std::max(
      milliseconds(1),
      std::chrono::duration_cast<milliseconds>(std::min<decltype(left)>(left, kQuestionLimit)));
  struct Answer {
    http::Response response;
    std::promise<Status> ended;
  };
  // Shared: the client may still be within set_value() when we return.
  const auto answer = std::make_shared<Answer>();
  auto call = client_->send(
      std::move(request),
      {.on_head = [answer](unsigned status, const auto&) { answer->response.status = status; },
       .on_body = [answer](std::string_view bytes) { answer->response.body.append(bytes); },
       .on_end = [answer](Status end) { answer->ended.set_value(std::move(end)); }});
  if (!call) return Unexpected(call.error());
  std::future<Status> ended = answer->ended.get_future();
  const patience::Waiting waiting;
  while (ended.wait_for(kLook) == std::future_status::timeout) {
    if (patience.is_over()) (*call)->cancel();
  }
  if (Status end = ended.get(); !end) return Unexpected(end.error());
  return std::move(answer->response);
}

Expected<Value> Remote::ask(http::ClientRequest request) const {
  const std::string what = request.method + " " + request.url;
  auto answer = fetch(std::move(request));
  if (!answer) return Unexpected(Error{answer.error().code, what + ": " + answer.error().message});
  if (answer->status != 200) {
    const Error error = refused(answer->status, said_in(answer->body), server_, blames_).error;
    return Unexpected(Error{error.code, what + ": " + error.message});
  }
  auto document = json::parse(answer->body);
  if (!document) return Unexpected(unavailable(what + ": the answer is not JSON"));
  return *std::move(document);
}

Expected<Value> Remote::get(std::string_view path) const {
  return ask(question("GET", path));
}

bool Remote::has_nothing_at(std::string_view path) const {
  http::ClientRequest request = question("GET", path);
  request.time_limit = kQuestionLimit;
  const auto answer = client_->fetch(std::move(request));
  if (!answer) return false;
  if (answer->status == 200) return !json::parse(answer->body);
  return answer->status == 404 || answer->status == 405 || answer->status == 501;
}

Expected<Value> Remote::post(std::string_view path, const Value& body) const {
  http::ClientRequest request = question("POST", path);
  request.body = json::to_string(body);
  auto answer = ask(std::move(request));
  if (answer) return answer;
  log::warn("upstream " + server_.url + ": " + std::string(log::content(answer.error().message)));
  return Unexpected(
      Error{answer.error().code, without_address(answer.error().message, server_.url)});
}

namespace {

// The span of one attempt at one server.
std::shared_ptr<trace::Span> request_span(const std::string& server, std::string_view path) {
  auto span = std::make_shared<trace::Span>("POST", trace::SpanKind::client);
  if (!*span) return span;
  span->set("http.request.method", "POST");
  span->set("url.full", server + std::string(path));
  if (const auto url = http::parse_url(server)) {
    span->set("server.address", url->host);
    span->set("server.port", std::int64_t{url->port});
  }
  return span;
}

}  // namespace

Expected<std::unique_ptr<Run>> Remote::generate(std::string_view path, std::string body,
                                                const GenerateRequest& request, Reading reading,
                                                std::shared_ptr<EventSink> sink) const {
  // A shared one, since std::function must be copyable.
  const auto span = request_span(server_.url, path);
  const trace::SpanScope within(*span);
  http::ClientRequest post = question("POST", path);
  post.body = std::move(body);
  post.time_limit = request.time_limit;
  post.silence_limit = server_.silence_limit;
  post.first_byte_limit = request.first_limit;
  // A stream may be long although its answer is short, so its bytes are not limited: the decoder
  // limits each event, and the generation limits the answer.
  post.max_body_bytes = SIZE_MAX;
  auto generation = std::make_shared<Generation>(std::move(sink), request, post.body.size(),
                                                 std::move(reading), server_);
  auto call = client_->send(
      std::move(post),
      {.on_head =
           [generation, span](unsigned status, const auto& headers) {
             span->set("http.response.status_code", std::int64_t{status});
             if (status >= 400) span->fail(std::to_string(status));
             generation->on_head(status, headers);
           },
       .on_body = [generation](std::string_view bytes) { generation->on_body(bytes); },
       .wanted = [generation] { return generation->wanted(); },
       .on_end =
           [generation, span](const Status& end) {
             if (!end) span->fail(errc_name(end.error().code));
             span->end();
             generation->on_end(end);
           }});
  if (!call) return Unexpected(std::move(call.error()));
  return std::make_unique<RemoteRun>(std::move(generation), *std::move(call));
}

// ---- kept answers ---------------------------------------------------------------------------

namespace {

struct KindOfAnswer {
  std::string_view kind;
  MakeReading reading;
  bool reads_chat = false;  // the request's messages are needed
};
constexpr KindOfAnswer kKinds[] = {{"openai", openai_reading, true},
                                   {"exo", exo_reading, true},
                                   {"llama-server", llama_server_reading},
                                   {"ollama", ollama_reading},
                                   {"vllm", vllm_reading},
                                   {"sglang", sglang_reading}};

}  // namespace

Status read_kept_answer(std::string_view kind, const KeptAnswer& answer,
                        const GenerateRequest& request, const vocab::Tokenizer& tokenizer,
                        const std::atomic<bool>& is_cancelled, std::shared_ptr<EventSink> sink) {
  const auto* const how = std::ranges::find(kKinds, kind, &KindOfAnswer::kind);
  if (how == std::end(kKinds) || (how->reads_chat && request.chat == nullptr)) {
    return Unexpected(Error{Errc::unsupported,
                            "'" + std::string(kind) + "' is no engine that sends such answers"});
  }
  const ServerAddress server{.url = answer.url, .api_key = {}, .silence_limit = {}};
  Generation generation(std::move(sink), request, answer.asked_bytes,
                        how->reading(request, tokenizer), server);
  generation.on_head({.status = answer.status,
                      .type = answer.type,
                      .coding = answer.coding,
                      .retry_after_s = answer.retry_after_s,
                      .asked_bytes = answer.asked_bytes});
  for (const std::string& piece : answer.body) {
    generation.is_cancelled = is_cancelled.load();
    if (generation.is_cancelled || generation.wanted() == http::Wanted::nothing) break;
    generation.on_body(piece);
  }
  generation.is_cancelled = is_cancelled || answer.was_cancelled;
  generation.on_end(answer.broken ? Status(Unexpected(*answer.broken)) : Status());
  return {};
}

}  // namespace tenon::engine
