#include "tenon/chat/prompt_sender.h"

#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/prompt/plain_text.h"

namespace tenon::chat {
namespace {

class AsTokens final : public PromptSender {
 public:
  explicit AsTokens(bool knows_controls) : knows_controls_(knows_controls) {}

  bool tells_tokens() const override { return true; }
  Result<void, Refusal> check(const message::Continuation& /*asked*/) const override { return {}; }
  void put(const message::ChatRequest& /*request*/, Prepared& prepared,
           engine::GenerateRequest& generate) const override {
    generate.prompt = std::move(prepared.tokens);
  }
  std::optional<std::string> taint() const override {
    if (knows_controls_) return std::nullopt;
    return "the engine's tokenizer does not tell which texts it makes control tokens of";
  }

 private:
  const bool knows_controls_;
};

/// The tokens go along, because their number is known by them.
class AsText final : public PromptSender {
 public:
  AsText(const engine::Engine& engine, std::string model)
      : engine_(engine), model_(std::move(model)), plain_text_(engine.tokenizer()) {}

  bool tells_tokens() const override { return false; }
  Result<void, Refusal> check(const message::Continuation& asked) const override {
    if (!asked.suffix) return {};
    return refuse(Errc::unsupported,
                  "suffix needs an engine that takes tokens; that of '" + model_ + "' is '" +
                      engine_.capabilities().kind + "'",
                  "suffix", "unsupported_parameter");
  }
  void put(const message::ChatRequest& request, Prepared& prepared,
           engine::GenerateRequest& generate) const override {
    generate.text =
        request.continuation ? continued(*request.continuation, prepared) : written(prepared);
    generate.prompt = std::move(prepared.tokens);
  }
  std::optional<std::string> taint() const override {
    return "prompts are sent as text to an engine that reads control tokens in it";
  }

 private:
  // The prompt as text in which no data spells a control token; the beginning of a demanded call is
  // the template's and not data.
  [[nodiscard]] std::string written(const Prepared& prepared) const {
    if (prepared.opening.empty()) return plain_text_.of(prepared.prompt);
    prompt::Prompt begun = prepared.prompt;
    for (const auto& [bytes, unused] : prepared.opening) {
      append(bytes, /*is_data=*/false, begun);
    }
    return plain_text_.of(begun);
  }
  // The author's control tokens count.
  [[nodiscard]] std::string continued(const message::Continuation& asked,
                                      const Prepared& prepared) const {
    if (asked.tokens.empty()) return asked.text;
    std::string text;
    for (const vocab::TokenId id : prepared.tokens) text += engine_.tokenizer().bytes(id);
    return utf8::sanitized(text);
  }

  const engine::Engine& engine_;
  const std::string model_;
  const prompt::PlainText plain_text_;
};

}  // namespace

void append(std::string_view text, bool is_data, prompt::Prompt& prompt) {
  const std::size_t begin = prompt.text.size();
  prompt.text += text;
  prompt.spans.push_back({begin, prompt.text.size(), is_data});
}

std::unique_ptr<const PromptSender> make_prompt_sender(const engine::Engine& engine,
                                                       const std::string& model) {
  if (engine.capabilities().takes == engine::Takes::text) {
    return std::make_unique<AsText>(engine, model);
  }
  return std::make_unique<AsTokens>(engine.capabilities().knows_controls);
}

}  // namespace tenon::chat
