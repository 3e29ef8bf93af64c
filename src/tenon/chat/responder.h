#pragma once

#include <cstdint>
#include <memory>

#include "tenon/chat/refusal.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::chat {

/// An answer under way. Destroying it cancels.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void cancel() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// The tokens of the prompt, if they are known before the model has read it; else 0.
  [[nodiscard]] virtual std::uint32_t prompt_tokens() const { return 0; }
};

/// Anything that answers chat requests: a turn of a model, a recursive model. Thread-safe.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Starts the answer; events come to `sink` from an engine's thread.
  [[nodiscard]] virtual Result<std::unique_ptr<Answer>, Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) = 0;
};

}  // namespace tenon::chat
