#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "config.h"

#include "tenon/chat/responder.h"

namespace tenon::app {

/// A failure and the exit status that goes with it.
struct Failure {
  int status;
  std::string message;
};

/// Loads a model: engine, chat template, format. `time_limit` bounds each answer; 0: nothing does.
[[nodiscard]] tl::expected<std::shared_ptr<chat::Model>, Failure> load_model(
    const ModelConfig& config, std::chrono::milliseconds time_limit = {});

/// The bundled model, or the GGUF file `path`, named after the file.
[[nodiscard]] tl::expected<ModelConfig, Failure> model_from_path(const std::string& path);

}  // namespace tenon::app
