#include "tenon/engine/upstream/remote.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tenon/base/trace.h"
#include "tenon/http/message.h"
#include "tenon/http/sse.h"

namespace tenon::engine {

using json::Value;
using message::FinishReason;

std::string text_at(const Value& value, std::string_view pointer) {
  const Value* found = json::at_pointer(value, pointer);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : std::string();
}

std::uint32_t count_at(const Value& value, std::string_view pointer) {
  const Value* found = json::at_pointer(value, pointer);
  if (found == nullptr || found->if_number() == nullptr) return 0;
  const auto count = found->if_number()->to_int64().value_or(0);
  return count > 0 && count <= UINT32_MAX ? static_cast<std::uint32_t>(count) : 0;
}

std::string ids_text(const std::vector<TokenId>& ids) {
  std::string out = "[";
  out.reserve(7 * ids.size() + 2);
  for (const TokenId id : ids) out.append(std::to_string(id)).push_back(',');
  if (!ids.empty()) out.pop_back();
  return out + "]";
}

namespace {

// A request waits meanwhile.
constexpr std::chrono::seconds kQuestionLimit{5};
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxLineBytes = http::SseDecoder::kDefaultMaxEventBytes;
constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;

Error unavailable(std::string message) {
  return {Errc::unavailable, std::move(message)};
}

// In the shapes of llama-server and vLLM ({"error": {"message"}}) and of SGLang and Ollama
// ({"error": "..."}).
std::string said_in(const Value& answer) {
  std::string said = text_at(answer, "/error/message");
  return said.empty() ? text_at(answer, "/error") : said;
}

// What the server says is wrong, in its own shape or another's.
Error refusal(unsigned status, std::string_view body) {
  std::string message = "status " + std::to_string(status);
  if (const auto document = json::parse(body)) {
    if (std::string said = said_in(*document); !said.empty()) message += ": " + said;
  }
  // The others of 4xx are about this server: its key, its address, its load.
  // Ollama has no other word for a format that it can make no grammar of (llm/server.go:1555).
  const bool is_about_request = status == 400 || status == 413 || status == 422 ||
                                message.ends_with("invalid JSON schema in format");
  return {is_about_request ? Errc::invalid : Errc::unavailable, std::move(message)};
}

/// One generation: reads the event stream, feeds the sink. All but the flag belongs to the client's
/// thread.
class Generation {
 public:
  Generation(std::shared_ptr<EventSink> sink, const GenerateRequest& request, DeltaReader read,
             Framing framing)
      : sink_(std::move(sink)),
        read_(std::move(read)),
        framing_(framing),
        is_held_(request.printed != nullptr),
        prompt_tokens_(static_cast<std::uint32_t>(request.prompt.size())),
        deadline_(request.time_limit.count() == 0 ? Clock::time_point::max()
                                                  : Clock::now() + request.time_limit) {}

  void on_head(unsigned status, const std::vector<http::Header>& headers) {
    status_ = status;
    type_ = http::find_header(headers, "content-type");
    const std::string_view coding = http::find_header(headers, "content-encoding");
    is_document_ = framing_ == Framing::chat && type_.starts_with("application/json");
    if (status == 200 && !coding.empty() && coding != "identity") {
      failure_ = unavailable("the answer is compressed ('" + std::string(coding) +
                             "'), which nobody asked for");
    }
  }

  // Of what has not come yet: behind an error nothing, behind the end its counts and the end.
  http::Wanted wanted() const {
    if (failure_ || error_body_.size() >= kMaxErrorBytes) return http::Wanted::nothing;
    return end_ ? http::Wanted::end : http::Wanted::all;
  }

  void on_body(std::string_view bytes) {
    if (status_ != 200) {
      if (error_body_.size() < kMaxErrorBytes) error_body_ += bytes;
      return;
    }
    if (framing_ == Framing::lines || is_document_) return on_text(bytes);
    if (!has_come_ && !type_.starts_with("text/event-stream")) error_body_ += bytes;
    std::vector<http::SseEvent> events;
    const Status fed = decoder_.feed(bytes, events);
    has_come_ = has_come_ || !events.empty();
    for (const http::SseEvent& event : events) on_data(event.data);
    if (!fed) fail(fed.error());
  }

  void on_end(const Status& transfer) {
    // The last line may have no end, a document never has one. What was cut is no JSON.
    if (!text_.empty() && transfer) on_data(text_);
    RunEnd end{.reason = reason(), .usage = usage(), .is_held = is_held_};
    if (end.reason == FinishReason::error) end.error = error(transfer);
    const std::shared_ptr<EventSink> sink = std::move(sink_);
    sink->on_end(end);
  }

  std::atomic<bool> is_cancelled = false;

 private:
  using Clock = std::chrono::steady_clock;

  void fail(Error error) {
    if (!failure_ && !end_) failure_ = std::move(error);
  }

  // Lines, or one document.
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
    fail({Errc::limit_exceeded, "the server's answer has a line that is too long"});
    text_.clear();
  }

  // A complete answer is one, whatever became of the connection since.
  FinishReason reason() const {
    if (end_) return *end_;
    const bool is_stopped = is_cancelled || Clock::now() >= deadline_;
    return is_stopped ? FinishReason::cancelled : FinishReason::error;
  }

  Error error(const Status& transfer) const {
    if (status_ != 0 && status_ != 200) return refusal(status_, error_body_);
    if (failure_) return *failure_;
    if (!has_come_ && !error_body_.empty()) return no_stream();
    return transfer ? unavailable("the answer broke off") : transfer.error();
  }

  // HTTP's 200 does not keep servers from answering with an error, nor proxies with a page.
  Error no_stream() const {
    const auto document = json::parse(error_body_);
    const std::string said = document ? said_in(*document) : std::string();
    return unavailable(said.empty() ? "the answer is no event stream, but '" + type_ + "'"
                                    : "the server says: " + said);
  }

  void on_data(std::string_view data) {
    if (failure_ || is_cancelled) return;
    if (data == "[DONE]") {
      // Not every server says why it ends.
      if (framing_ == Framing::chat && has_delta_ && !end_) end_ = FinishReason::stop;
      return;
    }
    const auto event = json::parse(data);
    if (!event) return fail(unavailable("an event is not JSON: " + event.error().message));
    if (const Value* error = event->find("error"); error != nullptr && !error->is_null()) {
      return fail(unavailable("the server says: " + said_in(*event)));
    }
    const auto delta = read_(*event);
    if (!delta) return fail(delta.error());
    take(*delta);
    if (delta->failure) fail(*delta->failure);
  }

  // Behind the end of an answer only its counts may come.
  void take(const Delta& delta) {
    if (delta.completion_tokens) predicted_ = delta.completion_tokens;
    if (delta.cached_tokens) cached_ = *delta.cached_tokens;
    if (delta.prompt_tokens) prompt_tokens_ = *delta.prompt_tokens;
    if (end_) return;
    has_delta_ = true;
    if (!delta.reasoning.empty()) sink_->on_reasoning(delta.reasoning);
    for (const Delta::Token& token : delta.tokens) {
      ++seen_;
      sink_->on_token({.id = token.id,
                       .bytes = token.bytes,
                       .is_control = token.is_control,
                       .logprob = token.logprob ? &*token.logprob : nullptr});
    }
    for (const Delta::Call& call : delta.calls) {
      sink_->on_call({.index = call.index, .name = call.name, .arguments = call.arguments});
    }
    end_ = delta.end;
  }

  message::Usage usage() const {
    return {.prompt_tokens = prompt_tokens_,
            .completion_tokens = end_ && predicted_ ? *predicted_ : seen_,
            .cached_tokens = cached_};
  }

  std::shared_ptr<EventSink> sink_;
  const DeltaReader read_;
  const Framing framing_;
  const bool is_held_;
  std::uint32_t prompt_tokens_;
  const Clock::time_point deadline_;
  unsigned status_ = 0;
  std::string type_;
  std::string error_body_;  // what came with another status, or instead of a stream
  bool has_come_ = false;   // an event
  http::SseDecoder decoder_;
  bool is_document_ = false;
  std::string text_;  // the line that has no end yet, or the document so far
  bool has_delta_ = false;
  std::optional<FinishReason> end_;
  std::optional<Error> failure_;
  std::optional<std::uint32_t> predicted_;
  std::uint32_t cached_ = 0;
  std::uint32_t seen_ = 0;  // pieces, which are tokens for a server that streams them one by one
};

class RemoteRun final : public Run {
 public:
  RemoteRun(std::shared_ptr<Generation> generation, std::unique_ptr<http::Call> call)
      : generation_(std::move(generation)), call_(std::move(call)) {}
  ~RemoteRun() override { generation_->is_cancelled = true; }
  RemoteRun(const RemoteRun&) = delete;
  RemoteRun& operator=(const RemoteRun&) = delete;

  void cancel() override {
    generation_->is_cancelled = true;
    call_->cancel();
  }
  void pause() override { call_->pause(); }
  void resume() override { call_->resume(); }

 private:
  std::shared_ptr<Generation> generation_;
  std::unique_ptr<http::Call> call_;
};

}  // namespace

Expected<std::unique_ptr<Remote>> Remote::create(Options options) {
  while (!options.url.empty() && options.url.back() == '/') options.url.pop_back();
  if (const auto url = http::parse_url(options.url); !url) return Unexpected(url.error());
  auto client = http::Client::create({.verifies_certificates = options.verifies_certificates});
  if (!client) return Unexpected(std::move(client.error()));
  return std::unique_ptr<Remote>(new Remote(std::move(options), *std::move(client)));
}

http::ClientRequest Remote::question(std::string method, std::string_view path) const {
  http::ClientRequest request{.method = std::move(method), .url = options_.url + std::string(path)};
  request.headers.push_back({"content-type", "application/json"});
  if (!options_.api_key.empty()) {
    request.headers.push_back({"authorization", "Bearer " + options_.api_key});
  }
  // We record no spans, so what comes after us is a child of what came before us.
  if (const trace::Context& trace = trace::current(); !trace.parent.empty()) {
    request.headers.push_back({"traceparent", trace.parent});
    if (!trace.state.empty()) request.headers.push_back({"tracestate", trace.state});
  }
  return request;
}

Expected<Value> Remote::ask(http::ClientRequest request) const {
  const std::string what = request.method + " " + request.url;
  request.time_limit = kQuestionLimit;
  auto answer = client_->fetch(std::move(request));
  if (!answer) return Unexpected(Error{answer.error().code, what + ": " + answer.error().message});
  if (answer->status != 200) {
    const Error refused = refusal(answer->status, answer->body);
    return Unexpected(Error{refused.code, what + ": " + refused.message});
  }
  auto document = json::parse(answer->body);
  if (!document) return Unexpected(unavailable(what + ": the answer is not JSON"));
  return *std::move(document);
}

Expected<Value> Remote::get(std::string_view path) const {
  return ask(question("GET", path));
}

Expected<Value> Remote::post(std::string_view path, const Value& body) const {
  http::ClientRequest request = question("POST", path);
  request.body = json::to_string(body);
  return ask(std::move(request));
}

Expected<std::unique_ptr<Run>> Remote::generate(std::string_view path, std::string body,
                                                const GenerateRequest& request, DeltaReader read,
                                                std::shared_ptr<EventSink> sink,
                                                Framing framing) const {
  http::ClientRequest post = question("POST", path);
  post.body = std::move(body);
  post.time_limit = request.time_limit;
  post.silence_limit = options_.silence_limit;
  // The whole of a stream, which may be as long as it likes; one event is bounded by its decoder.
  post.max_body_bytes = SIZE_MAX;
  auto generation =
      std::make_shared<Generation>(std::move(sink), request, std::move(read), framing);
  auto call = client_->send(
      std::move(post),
      {.on_head = [generation](unsigned status,
                               const auto& headers) { generation->on_head(status, headers); },
       .on_body = [generation](std::string_view bytes) { generation->on_body(bytes); },
       .wanted = [generation] { return generation->wanted(); },
       .on_end = [generation](const Status& end) { generation->on_end(end); }});
  if (!call) return Unexpected(std::move(call.error()));
  return std::make_unique<RemoteRun>(std::move(generation), *std::move(call));
}

}  // namespace tenon::engine
