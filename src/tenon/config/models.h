#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/chat/model_registry.h"
#include "tenon/chat/responder.h"
#include "tenon/config/config.h"
#include "tenon/engine/engine.h"
#include "tenon/hub/pull.h"
#include "tenon/rlm/host.h"
#include "tenon/rlm/recursive_model.h"

namespace tenon::config {

/// Loads a model: engine, chat template, format. `time_limit` bounds each answer; 0: nothing does.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_model(
    const ModelConfig& config, std::chrono::milliseconds time_limit = {});

/// Its engine alone, and the model on an engine that is there already: of one engine there may be
/// several models.
///
///     auto engine = load_engine(config);
///     auto model = load_model(config, *engine);
[[nodiscard]] Expected<std::shared_ptr<engine::Engine>> load_engine(const ModelConfig& config);
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_model(
    const ModelConfig& config, std::shared_ptr<engine::Engine> engine,
    std::chrono::milliseconds time_limit = {});

/// The model of load_model() when it is asked for, with what it will take. Fails where its file is
/// not readable. `host` is what recursive models run on.
[[nodiscard]] Expected<chat::ModelSource> model_source(const ModelConfig& config,
                                                       std::chrono::milliseconds time_limit,
                                                       const std::shared_ptr<rlm::Host>& host);

/// What the recursive models of a configuration run on; it opens what they need when they need it.
[[nodiscard]] std::shared_ptr<rlm::Host> make_host(const Config& config);
/// What answers requests for "root:sub": with the limits of the recursive model that
/// server.recursive_pairs_like names, else with the defaults. Null where the server takes none.
[[nodiscard]] std::shared_ptr<chat::Model> pair_model(const Config& config,
                                                      const std::shared_ptr<rlm::Host>& host);
/// Lets recursive models find those of `registry` that are not, which outlives them or the host's
/// close().
void connect(rlm::Host& host, const chat::ModelRegistry& registry);
/// The recursive model that `name` is in a configuration: one of its tables, by name or alias, or
/// two of its other models as root:sub. Null: neither.
[[nodiscard]] std::optional<rlm::RecursiveOptions> recursive_named(const Config& config,
                                                                   std::string_view name);
/// A recursive model outside of a server, with a host and with the models of `config` for itself.
/// Nothing that it does is kept. Fails with `unavailable` where no sandbox works.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_recursive(const Config& config,
                                                                    rlm::RecursiveOptions options);
/// A recursive model, with what RLM_MAX_ITERATIONS and RLM_LOGGING say.
[[nodiscard]] rlm::RecursiveOptions recursive_options(const ModelConfig& config);

/// The GGUF file `path`, named after the file, or the model that `path` names (hub::locate()),
/// named as there, which is fetched if it is not here; "": the bundled model. What is fetched is
/// told to `progress`, or to the log where that is empty.
[[nodiscard]] Expected<ModelConfig> model_from_path(const std::string& path,
                                                    const hub::Progress& progress = {});

/// `config` with the file that its path names (hub::locate()) as its path. All functions above do
/// it by themselves. Blocks while a file is fetched.
[[nodiscard]] Expected<ModelConfig> located(ModelConfig config);

}  // namespace tenon::config
