#include "tenon/engine/upstream/token_server.h"

#include <algorithm>
#include <utility>

#include "tenon/engine/admission.h"
#include "tenon/engine/sampling_fields.h"
#include "tenon/engine/upstream/readings.h"
#include "tenon/engine/upstream/remote.h"
#include "tenon/json/value.h"

// Both servers take ids and return ids, so prompts and answers need no text. What differs is in a
// Dialect: the path, the field for the ids, the rest of the body, and a reader for the events. The
// ids of a prompt are written into the body as text (ids_text), because a prompt may have a hundred
// thousand of them.

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

/// What differs between these servers. Files and lines refer to vllm 0.33.0 and sglang 0.5.23.
struct Dialect {
  std::string_view kind;
  std::string_view path;
  std::string_view prompt;  // the field for the ids
  // The body without the prompt. SGLang serves one model and takes no name.
  json::Object (*body)(const GenerateRequest& request, const std::string& model,
                       std::uint32_t max_tokens);
  /// How many of the ids in an event are new, where the server may repeat those before.
  /// A new reader for each answer: SGLang's counts the ids that it has seen.
  DeltaReader (*reader)(const vocab::Tokenizer& tokenizer, const std::vector<TokenId>& ends);
};

Error bad_answer(std::string what) {
  return {Errc::unavailable, "an event " + std::move(what)};
}

// A token by its id. A token that ends the turn has no text.
Expected<Delta::Token> token_of(const Value& value, const vocab::Tokenizer& tokenizer,
                                const std::vector<TokenId>& ends) {
  const auto id = value.if_number() == nullptr ? std::nullopt : value.if_number()->to_int64();
  if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= tokenizer.size()) {
    return Unexpected(bad_answer("has a token that is no id of the tokenizer's vocabulary"));
  }
  Delta::Token token{.id = static_cast<TokenId>(*id)};
  if (ends_turn(ends, tokenizer, token.id)) return token;
  token.bytes = tokenizer.bytes(token.id);
  token.is_control = tokenizer.is_control(token.id);
  return token;
}

// Appends the ids from `first` on, up to the first one that is wrong.
void add_tokens(const json::Array& ids, std::size_t first, const vocab::Tokenizer& tokenizer,
                const std::vector<TokenId>& ends, Delta& delta) {
  for (std::size_t i = first; i < ids.size() && !delta.failure; ++i) {
    auto token = token_of(ids[i], tokenizer, ends);
    if (token) delta.tokens.push_back(*std::move(token));
    if (!token) delta.failure = std::move(token.error());
  }
}

// "stop", "length"; "abort" means that the server gave up.
void set_end(std::string_view word, Delta& delta) {
  if (delta.failure) return;
  if (word == "stop") delta.end = FinishReason::stop;
  if (word == "length") delta.end = FinishReason::length;
  if (!delta.end) delta.failure = bad_answer("ends the answer by '" + std::string(word) + "'");
}

void set_token_choice(json::Object& fields, const message::Sampling& sampling) {
  set_sampling(fields, sampling);
  set_biases(fields, sampling);
}

// Ends of the turn besides those that the server knows from its model's files.
void set_ends(json::Object& fields, const std::vector<TokenId>& ends) {
  if (ends.empty()) return;
  fields.set("stop_token_ids", json::Array(ends.begin(), ends.end()));
}

// ---- vLLM: entrypoints/openai/completion/protocol.py:60-180 ------------------------------------

// Control tokens are kept in the answer (skip_special_tokens), and none is added to the prompt,
// which has them already.
json::Object vllm_body(const GenerateRequest& request, const std::string& model,
                       std::uint32_t max_tokens) {
  json::Object body{{"model", model},
                    {"stream", true},
                    {"stream_options", json::Object{{"include_usage", true}}},
                    {"max_tokens", std::uint64_t{max_tokens}},
                    {"add_special_tokens", false},
                    {"skip_special_tokens", false},
                    {"return_token_ids", true}};
  set_token_choice(body, request.sampling);
  if (request.sampling.seed) body.set("seed", signed_seed(*request.sampling.seed));
  set_ends(body, request.ends);
  if (request.printed != nullptr) {
    body.set("structured_outputs", json::Object{{"grammar", *request.printed}});
  }
  return body;
}

// Each event has only its own ids. The counts come in an event without choices, after the answer:
// entrypoints/openai/completion/serving.py:438-468 and 535-547.
DeltaReader vllm_reader(const vocab::Tokenizer& tokenizer, const std::vector<TokenId>& ends) {
  return [&tokenizer, ends](const Value& event) {
    Delta delta;
    if (event.find("usage") != nullptr && event.find("usage")->if_object() != nullptr) {
      delta.completion_tokens = count_at(event, "/usage/completion_tokens");
      delta.cached_tokens = count_at(event, "/usage/prompt_tokens_details/cached_tokens");
    }
    const Value* choice = json::at_pointer(event, "/choices/0");
    if (choice == nullptr) return delta;
    const Value* ids = choice->find("token_ids");
    if (ids == nullptr || ids->if_array() == nullptr) {
      delta.failure = bad_answer("has no token_ids: the server is too old to return them");
      return delta;
    }
    add_tokens(*ids->if_array(), 0, tokenizer, ends, delta);
    if (const std::string word = text_at(*choice, "/finish_reason"); !word.empty()) {
      set_end(word, delta);
    }
    return delta;
  };
}

// ---- SGLang: srt/managers/io_struct.py:177-256, srt/sampling/sampling_params.py:149-189 --------

json::Object sglang_body(const GenerateRequest& request, const std::string& /*model*/,
                         std::uint32_t max_tokens) {
  json::Object sampling{{"max_new_tokens", std::uint64_t{max_tokens}},
                        {"skip_special_tokens", false},
                        {"no_stop_trim", true}};
  set_token_choice(sampling, request.sampling);
  if (request.sampling.seed) sampling.set("sampling_seed", signed_seed(*request.sampling.seed));
  set_ends(sampling, request.ends);
  if (request.printed != nullptr) sampling.set("ebnf", *request.printed);
  return json::Object{{"stream", true}, {"sampling_params", std::move(sampling)}};
}

// An event has the ids of the whole answer so far, or only the new ones, depending on how the
// server was started (srt/managers/tokenizer_manager.py:2631-2670); each event says how many there
// are in all.
void read_sglang_ids(const Value& event, std::size_t& seen, const vocab::Tokenizer& tokenizer,
                     const std::vector<TokenId>& ends, Delta& delta) {
  const Value* ids = event.find("output_ids");
  if (ids == nullptr || ids->if_array() == nullptr) {
    delta.failure = bad_answer("has no output_ids");
    return;
  }
  const std::size_t size = ids->if_array()->size();
  const std::size_t total = count_at(event, "/meta_info/completion_tokens");
  if (total < seen || total - seen > size) {
    delta.failure = bad_answer("has " + std::to_string(size) + " tokens, and " +
                               std::to_string(total) + " in all");
    return;
  }
  add_tokens(*ids->if_array(), size - (total - seen), tokenizer, ends, delta);
  seen = total;
}

// An aborted answer says why and who is to blame: FINISH_ABORT.to_json (srt/managers/
// schedule_batch.py:332-346), for example a grammar that cannot be compiled (srt/constrained/
// grammar_manager.py:328-330). It may have fewer ids than it counts (srt/managers/
// tokenizer_manager.py:3628-3631).
DeltaReader sglang_reader(const vocab::Tokenizer& tokenizer, const std::vector<TokenId>& ends) {
  return [&tokenizer, ends, seen = std::size_t{0}](const Value& event) mutable {
    Delta delta;
    read_sglang_ids(event, seen, tokenizer, ends, delta);
    const Value* reason = json::at_pointer(event, "/meta_info/finish_reason");
    if (reason == nullptr || reason->is_null()) return delta;
    if (const std::string said = text_at(*reason, "/message"); !said.empty()) {
      delta.failure = refusal(count_at(*reason, "/status_code"), said);
      return delta;
    }
    set_end(text_at(*reason, "/type"), delta);
    delta.completion_tokens = static_cast<std::uint32_t>(seen);
    delta.cached_tokens = count_at(event, "/meta_info/cached_tokens");
    return delta;
  };
}

const Dialect kVllm{.kind = "vllm",
                    .path = "/v1/completions",
                    .prompt = "prompt",
                    .body = vllm_body,
                    .reader = vllm_reader};
const Dialect kSglang{.kind = "sglang",
                      .path = "/generate",
                      .prompt = "input_ids",
                      .body = sglang_body,
                      .reader = sglang_reader};

class TokenServer final : public Engine {
 public:
  TokenServer(TokenServerOptions options, std::unique_ptr<Remote> remote)
      : options_(std::move(options)),
        dialect_(options_.dialect == TokenDialect::vllm ? kVllm : kSglang),
        remote_(std::move(remote)) {}

  /// Asks the server which model it has.
  Status meet();

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return *options_.tokenizer; }
  std::string_view chat_template() const override { return options_.chat_template; }
  Status check() const override;
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  [[nodiscard]] Expected<ListedModel> listed(const std::string& name) const {
    return find_model(*remote_, "/v1/models", name, /*trusts_name=*/false);
  }

  const TokenServerOptions options_;
  const Dialect& dialect_;
  const std::unique_ptr<Remote> remote_;
  std::string model_;
  Capabilities capabilities_;
};

Status TokenServer::meet() {
  auto model = listed(options_.model);
  if (!model) return Unexpected(std::move(model.error()));
  model_ = std::move(model->name);
  constexpr std::uint32_t kManyAtATime = 256;  // the default of both
  capabilities_ = {.kind = std::string(dialect_.kind),
                   .context_tokens = model->context_tokens,
                   .max_concurrent = kManyAtATime,
                   .assumes_concurrent = true,
                   .constrained_by = ConstrainedBy::ebnf};
  if (capabilities_.context_tokens > 0) return {};
  return Unexpected(Error{Errc::unavailable, remote_->url() + "/v1/models does not tell the " +
                                                 "context's size (max_model_len)"});
}

Status TokenServer::check() const {
  const auto model = listed(model_);
  if (!model) return Unexpected(model.error());
  return check_context(remote_->url(), capabilities_.context_tokens, model->context_tokens);
}

Expected<std::unique_ptr<Run>> TokenServer::start(GenerateRequest request,
                                                  std::shared_ptr<EventSink> sink) {
  if (Status checked = check_request(request, capabilities_, tokenizer()); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  if (request.logprobs) {
    return Unexpected(Error{Errc::invalid,
                            "logprobs are not taken from a '" + capabilities_.kind + "' engine",
                            "logprobs"});
  }
  // Neither server goes on by itself until the context is full, so the room is computed here.
  const auto room =
      capabilities_.context_tokens - static_cast<std::uint32_t>(request.prompt.size());
  const std::uint32_t most = request.max_tokens == 0 ? room : std::min(room, request.max_tokens);
  std::string body = "{" + json::to_string(Value(dialect_.prompt)) + ":";
  body += ids_text(request.prompt) + ",";
  body += json::to_string(dialect_.body(request, model_, most)).substr(1);
  return remote_->generate(dialect_.path, std::move(body), request,
                           {dialect_.reader(tokenizer(), request.ends)}, std::move(sink));
}

}  // namespace

Reading vllm_reading(const GenerateRequest& request, const vocab::Tokenizer& tokenizer) {
  return {vllm_reader(tokenizer, request.ends)};
}

Reading sglang_reading(const GenerateRequest& request, const vocab::Tokenizer& tokenizer) {
  return {sglang_reader(tokenizer, request.ends)};
}

Expected<std::unique_ptr<Engine>> connect_token_server(ServerAddress server,
                                                       TokenServerOptions options) {
  auto remote = Remote::create(std::move(server));
  if (!remote) return Unexpected(std::move(remote.error()));
  auto engine = std::make_unique<TokenServer>(std::move(options), *std::move(remote));
  if (Status met = engine->meet(); !met) {
    return Unexpected(Error{Errc::unavailable, met.error().message});
  }
  return engine;
}

}  // namespace tenon::engine
