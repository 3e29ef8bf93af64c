#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "command.h"
#include "config.h"

#include "tenon/chat/model_registry.h"
#include "tenon/chat/responder.h"

namespace tenon::app {

/// Loads a model: engine, chat template, format. `time_limit` bounds each answer; 0: nothing does.
[[nodiscard]] OrComplaint<std::shared_ptr<chat::Model>> load_model(
    const ModelConfig& config, std::chrono::milliseconds time_limit = {});

/// The same when it is asked for, with what it will take. Fails where its file is not readable.
[[nodiscard]] OrComplaint<chat::ModelSource> model_source(const ModelConfig& config,
                                                          std::chrono::milliseconds time_limit);

/// The GGUF file `path`, named after the file; "": the bundled model.
[[nodiscard]] OrComplaint<ModelConfig> model_from_path(const std::string& path);

}  // namespace tenon::app
