#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/chat/model.h"
#include "tenon/engine/engine.h"
#include "tenon/message/message.h"

namespace tenon::chat {

/// How prompts go to a model's engine: as tokens, or as text in which the engine reads control
/// tokens. Thread-safe.
class PromptSender {
 public:
  virtual ~PromptSender() = default;

  /// Whether the engine tells tokens, so that they can be counted and control tokens differ from
  /// text that spells them.
  [[nodiscard]] virtual bool tells_tokens() const = 0;
  /// Refuses a continuation that cannot be sent.
  [[nodiscard]] virtual Result<void, Refusal> check(const message::Continuation& asked) const = 0;
  /// Moves the prompt into `generate`.
  virtual void put(const message::ChatRequest& request, Prepared& prepared,
                   engine::GenerateRequest& generate) const = 0;
  /// Why text from outside may become a control token; nothing: it cannot.
  [[nodiscard]] virtual std::optional<std::string> taint() const = 0;
};

/// Adds text to the end of a prompt, as the template's own or as data.
void append(std::string_view text, bool is_data, prompt::Prompt& prompt);

/// The one for the engine, which must outlive it; `model` is the model's name, for refusals.
[[nodiscard]] std::unique_ptr<const PromptSender> make_prompt_sender(const engine::Engine& engine,
                                                                     const std::string& model);

}  // namespace tenon::chat
