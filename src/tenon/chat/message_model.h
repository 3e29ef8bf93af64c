#pragma once

#include <memory>

#include "tenon/chat/model.h"

namespace tenon::chat {

/// A model whose engine takes messages (engine::Takes::messages).
[[nodiscard]] std::shared_ptr<Model> make_message_model(
    ModelOptions options, std::shared_ptr<engine::Engine> engine,
    const std::shared_ptr<const format::Format>& format);

}  // namespace tenon::chat
