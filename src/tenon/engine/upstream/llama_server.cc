#include "tenon/engine/upstream/llama_server.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/base/trace.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/upstream/remote_tokenizer.h"
#include "tenon/http/client.h"
#include "tenon/http/sse.h"
#include "tenon/json/value.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

// Of what a llama-server answers at once, however busy its model is. A request waits meanwhile.
constexpr std::chrono::seconds kQuestionLimit{5};
// The server's seeds have 32 bits, and the last of them asks for one by chance.
constexpr std::uint64_t kSeeds = 0xffffffff;
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10;

Error unavailable(std::string message) {
  return {Errc::unavailable, std::move(message)};
}

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

// What the server says is wrong, in its own shape or another's.
Error refusal(unsigned status, std::string_view body) {
  std::string message = "status " + std::to_string(status);
  if (const auto document = json::parse(body)) {
    if (std::string said = text_at(*document, "/error/message"); !said.empty()) {
      message += ": " + said;
    }
  }
  // The others of 4xx are about this server: its key, its address, its load.
  const bool is_about_request = status == 400 || status == 413 || status == 422;
  return {is_about_request ? Errc::invalid : Errc::unavailable, std::move(message)};
}

/// One generation: reads the event stream, feeds the sink. All but the flag belongs to the client's
/// thread.
class Generation {
 public:
  Generation(std::shared_ptr<EventSink> sink, const GenerateRequest& request,
             const vocab::Tokenizer& tokenizer)
      : sink_(std::move(sink)),
        eos_(tokenizer.eos()),
        eos_text_(eos_ ? tokenizer.bytes(*eos_) : std::string_view()),
        is_held_(request.printed != nullptr),
        top_logprobs_(static_cast<std::size_t>(request.top_logprobs)),
        prompt_tokens_(static_cast<std::uint32_t>(request.prompt.size())),
        deadline_(request.time_limit.count() == 0 ? Clock::time_point::max()
                                                  : Clock::now() + request.time_limit) {}

  void on_head(unsigned status) { status_ = status; }

  void on_body(std::string_view bytes) {
    if (status_ != 200) {
      if (error_body_.size() < kMaxErrorBytes) error_body_ += bytes;
      return;
    }
    std::vector<http::SseEvent> events;
    const Status fed = decoder_.feed(bytes, events);
    for (const http::SseEvent& event : events) on_data(event.data);
    if (!fed && !failure_) failure_ = fed.error();
  }

  void on_end(const Status& transfer) {
    RunEnd end{.reason = reason(), .usage = usage(), .is_held = is_held_};
    if (end.reason == FinishReason::error) end.error = error(transfer);
    const std::shared_ptr<EventSink> sink = std::move(sink_);
    sink->on_end(end);
  }

  std::atomic<bool> is_cancelled = false;

 private:
  using Clock = std::chrono::steady_clock;

  // A complete answer is one, whatever became of the connection since.
  FinishReason reason() const {
    if (end_) return *end_;
    const bool is_stopped = is_cancelled || Clock::now() >= deadline_;
    return is_stopped ? FinishReason::cancelled : FinishReason::error;
  }

  Error error(const Status& transfer) const {
    if (status_ != 0 && status_ != 200) return refusal(status_, error_body_);
    if (failure_) return *failure_;
    return transfer ? unavailable("the answer broke off") : transfer.error();
  }

  void on_data(std::string_view data) {
    if (end_ || failure_ || is_cancelled || data == "[DONE]") return;
    const auto chunk = json::parse(data);
    if (!chunk) {
      failure_ = unavailable("an event is not JSON: " + chunk.error().message);
      return;
    }
    if (chunk->find("error") != nullptr) {
      failure_ = unavailable("the server says: " + text_at(*chunk, "/error/message"));
      return;
    }
    pass(*chunk);
    const Value* stop = chunk->find("stop");
    if (stop == nullptr || stop->if_bool() == nullptr || !*stop->if_bool()) return;
    predicted_ = count_at(*chunk, "/tokens_predicted");
    cached_ = count_at(*chunk, "/timings/cache_n");
    end_ = text_at(*chunk, "/stop_type") == "limit" ? FinishReason::length : FinishReason::stop;
  }

  void pass(const Value& chunk) {
    const std::string content = text_at(chunk, "/content");
    if (content.empty()) return;
    ++seen_;
    Token token{.bytes = content};
    if (const Value* id = json::at_pointer(chunk, "/tokens/0");
        id != nullptr && id->if_number() != nullptr) {
      token.id = static_cast<TokenId>(id->if_number()->to_int64().value_or(0));
    }
    // With --special the server shows the end of the turn, too, behind what it held back.
    if (token.id == eos_ && content.ends_with(eos_text_))
      token.bytes.remove_suffix(eos_text_.size());
    const std::optional<message::TokenLogprob> logprob = logprob_of(chunk);
    if (logprob) token.logprob = &*logprob;
    sink_->on_token(token);
  }

  static std::string bytes_of(const Value& entry) {
    const Value* list = entry.find("bytes");
    if (list == nullptr || list->if_array() == nullptr) return text_at(entry, "/token");
    std::string bytes;
    for (const Value& byte : *list->if_array()) {
      if (byte.if_number() == nullptr) continue;
      bytes += static_cast<char>(byte.if_number()->to_int64().value_or(0) & 0xff);
    }
    return bytes;
  }

  std::optional<message::TokenLogprob> logprob_of(const Value& chunk) const {
    const Value* entry = json::at_pointer(chunk, "/completion_probabilities/0");
    if (entry == nullptr) return {};
    const auto number = [](const Value& value) {
      const Value* found = value.find("logprob");
      return found == nullptr || found->if_number() == nullptr ? 0.0
                                                               : found->if_number()->to_double();
    };
    message::TokenLogprob logprob{.bytes = bytes_of(*entry), .logprob = number(*entry)};
    if (const Value* top = entry->find("top_logprobs"); top != nullptr && top->if_array()) {
      for (const Value& other : *top->if_array()) {
        if (logprob.top.size() == top_logprobs_) break;
        logprob.top.emplace_back(bytes_of(other), number(other));
      }
    }
    return logprob;
  }

  message::Usage usage() const {
    return {.prompt_tokens = prompt_tokens_,
            .completion_tokens = end_ ? predicted_ : seen_,
            .cached_tokens = cached_};
  }

  std::shared_ptr<EventSink> sink_;
  const std::optional<TokenId> eos_;
  const std::string eos_text_;
  const bool is_held_;
  const std::size_t top_logprobs_;
  const std::uint32_t prompt_tokens_;
  const Clock::time_point deadline_;
  unsigned status_ = 0;
  std::string error_body_;
  http::SseDecoder decoder_;
  std::optional<FinishReason> end_;
  std::optional<Error> failure_;
  std::uint32_t predicted_ = 0;
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

class LlamaServer final : public Engine {
 public:
  LlamaServer(LlamaServerOptions options, std::unique_ptr<http::Client> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  /// Asks the server what it is.
  Status meet();

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::string_view chat_template() const override { return chat_template_; }
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  http::ClientRequest question(std::string method, std::string_view path) const;
  Expected<Value> ask(http::ClientRequest request) const;
  static std::string body_of(const GenerateRequest& request);

  const LlamaServerOptions options_;
  const std::unique_ptr<http::Client> client_;
  std::unique_ptr<RemoteTokenizer> tokenizer_;
  std::string chat_template_;
  Capabilities capabilities_;
};

http::ClientRequest LlamaServer::question(std::string method, std::string_view path) const {
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

Expected<Value> LlamaServer::ask(http::ClientRequest request) const {
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

Status LlamaServer::meet() {
  auto props = ask(question("GET", "/props"));
  if (!props) return Unexpected(std::move(props.error()));
  auto models = ask(question("GET", "/v1/models"));
  if (!models) return Unexpected(std::move(models.error()));
  chat_template_ = text_at(*props, "/chat_template");
  capabilities_ = {.kind = "llama-server",
                   .context_tokens = count_at(*props, "/default_generation_settings/n_ctx"),
                   .max_concurrent = std::max(1u, count_at(*props, "/total_slots")),
                   .holding = Holding::gbnf};
  if (capabilities_.context_tokens == 0) {
    return Unexpected(unavailable(options_.url + "/props does not tell the context's size"));
  }
  auto tokenizer = RemoteTokenizer::create({.bos = text_at(*props, "/bos_token"),
                                            .eos = text_at(*props, "/eos_token"),
                                            .size = count_at(*models, "/data/0/meta/n_vocab")},
                                           [this](std::string_view path, const Value& body) {
                                             http::ClientRequest request = question("POST", path);
                                             request.body = json::to_string(body);
                                             return ask(std::move(request));
                                           });
  if (!tokenizer) return Unexpected(std::move(tokenizer.error()));
  tokenizer_ = *std::move(tokenizer);
  return {};
}

std::string LlamaServer::body_of(const GenerateRequest& request) {
  const message::Sampling& sampling = request.sampling;
  json::Object body{{"stream", true},
                    {"cache_prompt", true},
                    {"return_tokens", true},
                    {"presence_penalty", sampling.presence_penalty},
                    {"frequency_penalty", sampling.frequency_penalty},
                    {"repeat_penalty", sampling.repetition_penalty}};
  body.set("n_predict",
           request.max_tokens == 0 ? Value(-1) : Value(std::uint64_t{request.max_tokens}));
  if (sampling.temperature) body.set("temperature", *sampling.temperature);
  if (sampling.top_p) body.set("top_p", *sampling.top_p);
  if (sampling.top_k) body.set("top_k", *sampling.top_k);
  if (sampling.min_p) body.set("min_p", *sampling.min_p);
  if (sampling.seed) body.set("seed", *sampling.seed % kSeeds);
  // Without --special it hides all others, and with them the beginning of every call.
  if (request.markers != nullptr) {
    json::Array markers(request.markers->begin(), request.markers->end());
    body.set("preserved_tokens", std::move(markers));
  }
  // From the first token on, not by triggers: no call can begin in a way that none of them knows,
  // and the server looks at the grammar only where the token that it chose does not fit it.
  if (request.printed != nullptr) body.set("grammar", *request.printed);
  // 0 would be none at all, not even the chosen token's.
  if (request.logprobs) body.set("n_probs", std::max(1, request.top_logprobs));
  json::Array biases;
  for (const auto& [id, bias] : sampling.logit_bias) {
    biases.emplace_back(json::Array{json::Value(id), json::Value(bias)});
  }
  if (!biases.empty()) body.set("logit_bias", std::move(biases));
  // A prompt may have a hundred thousand ids: they are written as they are, not as values first.
  std::string out = R"({"prompt":[)";
  out.reserve(7 * request.prompt.size() + 512);
  for (const TokenId id : request.prompt) out.append(std::to_string(id)).push_back(',');
  out.back() = ']';  // a prompt is never empty
  return out.append(",").append(json::to_string(body), 1);
}

Expected<std::unique_ptr<Run>> LlamaServer::start(GenerateRequest request,
                                                  std::shared_ptr<EventSink> sink) {
  if (Status checked = check_request(request, capabilities_, *tokenizer_); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  http::ClientRequest post = question("POST", "/completion");
  post.body = body_of(request);
  post.time_limit = request.time_limit;
  post.silence_limit = options_.silence_limit;
  // The whole of a stream, which may be as long as it likes; one event is bounded by its decoder.
  post.max_body_bytes = SIZE_MAX;
  auto generation = std::make_shared<Generation>(std::move(sink), request, *tokenizer_);
  auto call = client_->send(
      std::move(post),
      {.on_head = [generation](unsigned status, const auto&) { generation->on_head(status); },
       .on_body = [generation](std::string_view bytes) { generation->on_body(bytes); },
       .on_end = [generation](const Status& end) { generation->on_end(end); }});
  if (!call) return Unexpected(std::move(call.error()));
  return std::make_unique<RemoteRun>(std::move(generation), *std::move(call));
}

}  // namespace

Expected<std::unique_ptr<Engine>> connect_llama_server(LlamaServerOptions options) {
  while (!options.url.empty() && options.url.back() == '/') options.url.pop_back();
  if (const auto url = http::parse_url(options.url); !url) return Unexpected(url.error());
  auto client = http::Client::create({.verifies_certificates = options.verifies_certificates});
  if (!client) return Unexpected(std::move(client.error()));
  auto engine = std::make_unique<LlamaServer>(std::move(options), *std::move(client));
  // Whatever it refuses now, no request of ours is to blame.
  if (Status met = engine->meet(); !met) return Unexpected(unavailable(met.error().message));
  return engine;
}

}  // namespace tenon::engine
