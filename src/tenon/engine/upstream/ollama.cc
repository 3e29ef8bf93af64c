#include "tenon/engine/upstream/ollama.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/sampling_fields.h"
#include "tenon/engine/upstream/readings.h"
#include "tenon/engine/upstream/remote.h"
#include "tenon/json/value.h"

// Ollama takes text and gives text, a JSON object for each line of its answer. `raw` switches its
// own template off. What ends a turn must be sent as `stop`, since control tokens come as text; the
// server leaves that text out of the answer.
//
// Files and lines refer to the Go module github.com/ollama/ollama v0.17.4.
namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

// The server's default (docs/faq.mdx:25).
constexpr std::uint32_t kContextTokens = 4096;

// `num_ctx` among the parameters of the model's Modelfile, one per line:
// server/routes.go:1210-1225.
std::uint32_t configured_context(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::size_t end = std::min(parameters.find('\n'), parameters.size());
    const std::string_view line = parameters.substr(0, end);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    if (!line.starts_with("num_ctx ")) continue;
    const std::size_t value = line.find_first_not_of(' ', 8);
    if (value == std::string_view::npos) continue;
    std::uint32_t tokens = 0;
    std::from_chars(line.data() + value, line.data() + line.size(), tokens);
    return tokens;
  }
  return 0;
}

// Names as in api/types.go:581-608; parameters that it does not have are not sent.
json::Object options_of(const GenerateRequest& request, std::uint32_t context_tokens,
                        std::uint32_t most, const std::vector<std::string>& stops) {
  const message::Sampling& sampling = request.sampling;
  json::Object options{{"num_ctx", std::uint64_t{context_tokens}},
                       {"num_predict", std::uint64_t{most}}};
  set_sampling(options, sampling, "repeat_penalty");
  // The server reads it as a float64 (api/types.go:989-993), which holds 53 bits exactly.
  if (sampling.seed) options.set("seed", *sampling.seed & ((std::uint64_t{1} << 53U) - 1));
  // These replace the stops of the model's own Modelfile, which may be anything.
  options.set("stop", json::Array(stops.begin(), stops.end()));
  return options;
}

// This message is the only sign of a format for which the server can make no grammar; the status
// may be any: llm/server.go:1555.
bool blames_format(unsigned status, std::string_view said) {
  return blames_request(status, said) || said.ends_with("invalid JSON schema in format");
}

// server/routes.go:545-569, api/types.go:848-901.
Delta read_line(const Value& line) {
  Delta delta;
  if (std::string text = text_at(line, "/response"); !text.empty()) {
    delta.tokens.push_back({.bytes = std::move(text)});
  }
  const Value* done = line.find("done");
  if (done == nullptr || done->if_bool() == nullptr || !*done->if_bool()) return delta;
  const std::string reason = text_at(line, "/done_reason");
  if (reason != "stop" && reason != "length") {
    delta.failure = unavailable("the server ends the answer by '" + reason + "'");
    return delta;
  }
  delta.end = reason == "length" ? FinishReason::length : FinishReason::stop;
  delta.completion_tokens = told_at(line, "/eval_count");
  return delta;
}

class Ollama final : public Engine {
 public:
  Ollama(OllamaOptions options, std::unique_ptr<Remote> remote)
      : options_(std::move(options)), remote_(std::move(remote)) {
    // Once, when the engine is made: a vocabulary has some hundred thousand tokens, and two or
    // three that end a turn.
    for (std::size_t i = 0; i < tokenizer().size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (tokenizer().ends_generation(id)) stops_.emplace_back(tokenizer().bytes(id));
    }
  }

  /// Asks the server what it serves.
  Status meet();

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return *options_.tokenizer; }
  std::string_view chat_template() const override { return options_.chat_template; }
  Status check() const override;
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  Expected<std::string> named_model() const;
  std::string body_of(const GenerateRequest& request) const;

  const OllamaOptions options_;
  const std::unique_ptr<Remote> remote_;
  std::string model_;
  std::vector<std::string> stops_;  // texts that end a turn
  Capabilities capabilities_;
};

Expected<std::string> Ollama::named_model() const {
  if (!options_.model.empty()) return options_.model;
  const auto tags = remote_->get("/api/tags");
  if (!tags) return Unexpected(tags.error());
  std::string first = text_at(*tags, "/models/0/name");
  if (first.empty()) return Unexpected(unavailable(remote_->url() + "/api/tags lists no model"));
  return first;
}

Status Ollama::meet() {
  const auto version = remote_->get("/api/version");
  if (!version) return Unexpected(version.error());
  if (text_at(*version, "/version").empty()) {
    return Unexpected(unavailable(remote_->url() + "/api/version tells no version"));
  }
  auto model = named_model();
  if (!model) return Unexpected(std::move(model.error()));
  model_ = *std::move(model);
  const auto shown = remote_->post("/api/show", json::Object{{"model", model_}});
  if (!shown) return Unexpected(shown.error());
  const Value* info = shown->find("model_info");
  const std::string architecture = text_at(*shown, "/model_info/general.architecture");
  const std::uint32_t trained =
      info == nullptr ? 0 : count_at(*info, "/" + architecture + ".context_length");
  std::uint32_t context = options_.context_tokens;
  // First the operator's number, then the Modelfile's, then the server's default, which is never
  // more than the model was trained with.
  if (context == 0) context = configured_context(text_at(*shown, "/parameters"));
  if (context == 0) context = trained == 0 ? kContextTokens : std::min(kContextTokens, trained);
  log::info("Ollama " + text_at(*version, "/version") + " at " + remote_->url() + ": model '" +
            model_ + "', context " + std::to_string(context) + " of " + std::to_string(trained) +
            " tokens");
  capabilities_ = {.kind = "ollama",
                   .context_tokens = context,
                   .max_concurrent = 1,  // the server's default: envconfig/config.go:250
                   .assumes_concurrent = true,
                   .constrained_by = ConstrainedBy::json_schema,
                   .takes = Takes::text};
  return {};
}

Status Ollama::check() const {
  return remote_->post("/api/show", json::Object{{"model", model_}}).transform([](auto&&) {});
}

// api/types.go:62-144.
std::string Ollama::body_of(const GenerateRequest& request) const {
  std::string_view prompt = request.text;
  // The server adds the token before a text itself (tokenizer/vocabulary.go:46-54,
  // llama/llama.go:481).
  if (const auto bos = tokenizer().bos(); bos && tokenizer().adds_bos()) {
    const std::string_view text = tokenizer().bytes(*bos);
    if (!text.empty() && prompt.starts_with(text)) prompt.remove_prefix(text.size());
  }
  const auto room =
      capabilities_.context_tokens - static_cast<std::uint32_t>(request.prompt.size());
  const std::uint32_t most = request.max_tokens == 0 ? room : std::min(room, request.max_tokens);
  std::vector<std::string> stops = stops_;
  for (const TokenId id : request.ends) stops.emplace_back(tokenizer().bytes(id));
  json::Object body{
      {"model", model_},
      {"prompt", prompt},
      {"stream", true},
      {"raw", true},
      // Otherwise the server looks for reasoning itself, and drops its tags: routes.go:521.
      {"think", false},
      // The server neither shortens a prompt that is too long, nor drops tokens on the way.
      {"truncate", false},
      {"shift", false},
      {"options", options_of(request, capabilities_.context_tokens, most, stops)}};
  std::string text = json::to_string(Value(std::move(body)));
  if (request.printed == nullptr) return text;
  // The schema is JSON text already, and is put in without reading it again.
  text.pop_back();
  return text + ",\"format\":" + *request.printed + "}";
}

Expected<std::unique_ptr<Run>> Ollama::start(GenerateRequest request,
                                             std::shared_ptr<EventSink> sink) {
  if (Status checked = check_request(request, capabilities_, tokenizer()); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  const auto refused = [](std::string_view what) {
    return Unexpected(Error{Errc::invalid,
                            std::string(what) + " are not taken from an 'ollama' engine",
                            std::string(what)});
  };
  if (request.logprobs) return refused("logprobs");
  if (!request.sampling.logit_bias.empty()) return refused("logit_bias");
  return remote_->generate("/api/generate", body_of(request), request,
                           ollama_reading(request, tokenizer()), std::move(sink));
}

}  // namespace

Reading ollama_reading(const GenerateRequest& /*request*/, const vocab::Tokenizer& /*tokenizer*/) {
  return {.read = read_line, .framing = Framing::lines, .blames = blames_format};
}

Expected<std::unique_ptr<Engine>> connect_ollama(ServerAddress server, OllamaOptions options) {
  auto remote = Remote::create(std::move(server), blames_format);
  if (!remote) return Unexpected(std::move(remote.error()));
  auto engine = std::make_unique<Ollama>(std::move(options), *std::move(remote));
  if (Status met = engine->meet(); !met) return Unexpected(unavailable(met.error().message));
  return engine;
}

}  // namespace tenon::engine
