#include "tenon/engine/upstream/llama_server.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/engine/admission.h"
#include "tenon/engine/sampling_fields.h"
#include "tenon/engine/upstream/readings.h"
#include "tenon/engine/upstream/remote.h"
#include "tenon/engine/upstream/remote_tokenizer.h"
#include "tenon/json/value.h"

// The prompt goes as ids, and tokens come back as text with their ids beside it (return_tokens).
// The tokenizer knows the texts of the ids, but the text of the answer counts: the server holds
// back half of a character, and then one event has the text of several tokens.

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

// The server's seeds have 32 bits, and the largest one makes it draw a seed.
constexpr std::uint64_t kSeeds = 0xffffffff;

// The bytes of a token in "completion_probabilities"; its text may be half of a character, which
// JSON cannot hold.
std::string bytes_of(const Value& entry) {
  const Value* list = entry.find("bytes");
  if (list == nullptr || list->if_array() == nullptr) return text_at(entry, "/token");
  std::string bytes;
  for (const Value& byte : *list->if_array()) {
    if (byte.if_number() == nullptr) continue;
    bytes += static_cast<char>(byte.if_number()->to_int64().value_or(0) & 0xff);
  }
  return bytes;
}

// {"completion_probabilities": [{"token": "a", "bytes": [97], "logprob": -0.1, "top_logprobs":
// [...]}]}.
std::optional<message::TokenLogprob> logprob_of(const Value& chunk, std::size_t most) {
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
      if (logprob.top.size() == most) break;
      logprob.top.emplace_back(bytes_of(other), number(other));
    }
  }
  return logprob;
}

// A chunk is one token as text, or several if the server held back half of a character.
DeltaReader reader_of(const GenerateRequest& request, const vocab::Tokenizer& tokenizer) {
  const auto eos = tokenizer.eos();
  return [eos, eos_text = eos ? std::string(tokenizer.bytes(*eos)) : std::string(),
          most = static_cast<std::size_t>(request.top_logprobs),
          seen = std::uint32_t{0}](const Value& chunk) mutable {
    Delta delta;
    Delta::Token token{.bytes = text_at(chunk, "/content")};
    // The count of the answer so far: its growth is how many tokens this event has.
    const std::uint32_t predicted = count_at(chunk, "/tokens_predicted");
    if (predicted > seen) token.count = predicted - std::exchange(seen, predicted);
    if (const Value* id = json::at_pointer(chunk, "/tokens/0");
        id != nullptr && id->if_number() != nullptr) {
      token.id = static_cast<TokenId>(id->if_number()->to_int64().value_or(0));
    }
    if (!token.bytes.empty()) {
      // With --special the server sends the text of the end of the turn, too, after held-back text.
      if (token.id == eos && token.bytes.ends_with(eos_text)) {
        token.bytes.resize(token.bytes.size() - eos_text.size());
      }
      token.logprob = logprob_of(chunk, most);
      delta.tokens.push_back(std::move(token));
    }
    const Value* stop = chunk.find("stop");
    if (stop == nullptr || stop->if_bool() == nullptr || !*stop->if_bool()) return delta;
    delta.completion_tokens = told_at(chunk, "/tokens_predicted");
    delta.cached_tokens = count_at(chunk, "/timings/cache_n");
    delta.end = text_at(chunk, "/stop_type") == "limit" ? FinishReason::length : FinishReason::stop;
    return delta;
  };
}

std::string body_of(const GenerateRequest& request) {
  const message::Sampling& sampling = request.sampling;
  json::Object body{{"stream", true}, {"cache_prompt", true}, {"return_tokens", true}};
  body.set("n_predict",
           request.max_tokens == 0 ? Value(-1) : Value(std::uint64_t{request.max_tokens}));
  set_sampling(body, sampling, "repeat_penalty");
  if (sampling.seed) body.set("seed", *sampling.seed % kSeeds);
  // Without --special the server hides control tokens that it is not told to keep, and with them
  // the beginning of every call.
  if (request.markers != nullptr) {
    json::Array markers(request.markers->begin(), request.markers->end());
    body.set("preserved_tokens", std::move(markers));
  }
  // The grammar holds from the first token on, not from a trigger, so no call can begin in a form
  // that no trigger knows. The server applies it only if the token that it chose does not fit.
  if (request.printed != nullptr) body.set("grammar", *request.printed);
  // With 0 the server sends none at all, not even that of the chosen token.
  if (request.logprobs) body.set("n_probs", std::max(1, request.top_logprobs));
  json::Array biases;
  for (const auto& [id, bias] : sampling.logit_bias) {
    biases.emplace_back(json::Array{json::Value(id), json::Value(bias)});
  }
  if (!biases.empty()) body.set("logit_bias", std::move(biases));
  // The ids are written as text directly, without making JSON values first.
  return R"({"prompt":)" + ids_text(request.prompt) + "," + json::to_string(body).substr(1);
}

class LlamaServer final : public Engine {
 public:
  LlamaServer(std::unique_ptr<Remote> remote, LlamaServerOptions options)
      : remote_(std::move(remote)),
        is_tokenized_here_(options.tokenizer != nullptr),
        tokenizer_(std::move(options.tokenizer)) {}

  /// Asks the server what it serves.
  Status meet();
  /// Fails with `invalid` if the server has other tokens than the tokenizer of a file.
  Status compare_tokenizer() const;

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::string_view chat_template() const override { return chat_template_; }
  Status check() const override;
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  Status ask_for_tokenizer(const Value& props);
  [[nodiscard]] Expected<Value> tokens_there(Value content, bool parses_special) const;

  const std::unique_ptr<Remote> remote_;
  const bool is_tokenized_here_;
  std::shared_ptr<const vocab::Tokenizer> tokenizer_;
  std::uint32_t vocabulary_ = 0;  // the server's
  std::string chat_template_;
  Capabilities capabilities_;
};

std::uint32_t vocabulary_in(const Value& models) {
  return count_at(models, "/data/0/meta/n_vocab");
}

std::uint32_t context_in(const Value& props) {
  return count_at(props, "/default_generation_settings/n_ctx");
}

Status LlamaServer::check() const {
  const auto props = remote_->get("/props");
  if (!props) return Unexpected(props.error());
  const auto models = remote_->get("/v1/models");
  if (!models) return Unexpected(models.error());
  const std::uint32_t vocabulary = vocabulary_in(*models);
  if (vocabulary != vocabulary_) {
    return Unexpected(
        unavailable(remote_->url() + " has another model now, of " + std::to_string(vocabulary) +
                    " tokens instead of " + std::to_string(vocabulary_) +
                    ": start it with the model that it had, or start this server anew"));
  }
  if (Status same = compare_tokenizer(); !same) {
    return Unexpected(unavailable(same.error().message));
  }
  return check_context(remote_->url(), capabilities_.context_tokens, context_in(*props));
}

// /props has the context, slots and template, /v1/models the size of the vocabulary.
Status LlamaServer::meet() {
  auto props = remote_->get("/props");
  if (!props) return Unexpected(std::move(props.error()));
  auto models = remote_->get("/v1/models");
  if (!models) return Unexpected(std::move(models.error()));
  chat_template_ = text_at(*props, "/chat_template");
  capabilities_ = {.kind = "llama-server",
                   .context_tokens = context_in(*props),
                   .max_concurrent = std::max(1u, count_at(*props, "/total_slots")),
                   .constrained_by = ConstrainedBy::gbnf,
                   .is_remote = true};
  if (capabilities_.context_tokens == 0) {
    return Unexpected(unavailable(remote_->url() + "/props does not tell the context's size"));
  }
  vocabulary_ = vocabulary_in(*models);
  capabilities_.knows_controls = true;
  return is_tokenized_here_ ? Status() : ask_for_tokenizer(*props);
}

Status LlamaServer::ask_for_tokenizer(const Value& props) {
  auto tokenizer = RemoteTokenizer::create(
      {.bos = text_at(props, "/bos_token"),
       .eos = text_at(props, "/eos_token"),
       .size = vocabulary_},
      [this](std::string_view path, const Value& asked) { return remote_->post(path, asked); });
  if (!tokenizer) return Unexpected(std::move(tokenizer.error()));
  capabilities_.knows_controls = (*tokenizer)->knows_all_texts();
  tokenizer_ = *std::move(tokenizer);
  return {};
}

// What the server makes of texts.
Expected<Value> LlamaServer::tokens_there(Value content, bool parses_special) const {
  auto answer = remote_->post("/tokenize", json::Object{{"content", std::move(content)},
                                                        {"add_special", false},
                                                        {"parse_special", parses_special}});
  if (!answer) return Unexpected(unavailable(answer.error().message));
  const Value* tokens = answer->find("tokens");
  return tokens == nullptr ? Value() : *tokens;
}

// Tokenizers of two models may have the same size, and those of one family differ in their control
// tokens only. So the server is asked for the tokens of a text in which the others differ (words of
// several scripts, numbers, spaces, code), and for those of the control tokens' texts.
Status LlamaServer::compare_tokenizer() const {
  constexpr std::string_view kSample =
      "The qu\u00edck brown f\u00f6x:  12345.678\n\n\tif (x_1 >= 42) { return \"na\u00efve\"; }\r\n"
      "\u041f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d\uff0c\u4e16\u754c "
      "\u0645\u0631\u062d\u0628\u0627 \U0001f600 internationalization";
  constexpr std::size_t kMostControls = 4096;
  if (!is_tokenized_here_) return {};
  std::vector<TokenId> sample;
  if (Status done = tokenizer_->encode(kSample, vocab::Controls::off, true, sample); !done) {
    return done;
  }
  json::Array texts;
  json::Array controls;
  for (std::size_t i = 0; i < tokenizer_->size() && controls.size() < kMostControls; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = tokenizer_->bytes(id);
    if (!tokenizer_->is_control(id) || tokenizer_->control_token(text) != id) continue;
    texts.emplace_back(text);
    controls.emplace_back(id);
  }
  const auto of_sample = tokens_there(kSample, false);
  if (!of_sample) return Unexpected(of_sample.error());
  bool is_same = *of_sample == Value(json::Array(sample.begin(), sample.end())) &&
                 tokenizer_->size() <= std::size_t{vocabulary_};
  if (is_same && !controls.empty()) {
    const auto of_controls = tokens_there(std::move(texts), true);
    if (!of_controls) return Unexpected(of_controls.error());
    is_same = *of_controls == Value(std::move(controls));
  }
  if (is_same) return {};
  return Unexpected(Error{Errc::invalid,
                          remote_->url() + " has other tokens than the file in `tokenizer`: name " +
                              "the GGUF file that the server has, or leave the key out, so that " +
                              "the server is asked for tokens"});
}

Expected<std::unique_ptr<Run>> LlamaServer::start(GenerateRequest request,
                                                  std::shared_ptr<EventSink> sink) {
  if (Status checked = check_request(request, capabilities_, *tokenizer_); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  return remote_->generate("/completion", body_of(request), request,
                           llama_server_reading(request, *tokenizer_), std::move(sink));
}

}  // namespace

Reading llama_server_reading(const GenerateRequest& request, const vocab::Tokenizer& tokenizer) {
  return {reader_of(request, tokenizer)};
}

Expected<std::unique_ptr<Engine>> connect_llama_server(ServerAddress server,
                                                       LlamaServerOptions options) {
  auto remote = Remote::create(std::move(server));
  if (!remote) return Unexpected(std::move(remote.error()));
  auto engine = std::make_unique<LlamaServer>(*std::move(remote), std::move(options));
  // Whatever the server refuses at this point is not the fault of a client's request.
  if (Status met = engine->meet(); !met) return Unexpected(unavailable(met.error().message));
  if (Status same = engine->compare_tokenizer(); !same) return Unexpected(std::move(same.error()));
  return engine;
}

}  // namespace tenon::engine
