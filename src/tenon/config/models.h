#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/chat/model_registry.h"
#include "tenon/config/config.h"
#include "tenon/engine/engine.h"
#include "tenon/hub/pull.h"
#include "tenon/rlm/host.h"
#include "tenon/rlm/recursive_model.h"

namespace tenon::config {

/// Loads a model: engine, chat template, format. `time_limit` bounds each answer; 0: no limit.
/// `host` runs code that the model writes; null: such code is not run.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_model(
    const ModelConfig& config, std::chrono::milliseconds time_limit = {},
    const std::shared_ptr<rlm::Host>& host = nullptr);

/// The engine alone, and the model on an engine that is loaded already: several models may share
/// one engine.
///
///     auto engine = load_engine(config);
///     auto model = load_model(config, *engine);
[[nodiscard]] Expected<std::shared_ptr<engine::Engine>> load_engine(const ModelConfig& config);
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_model(
    const ModelConfig& config, std::shared_ptr<engine::Engine> engine,
    std::chrono::milliseconds time_limit = {});

/// How the registry loads the model when it is asked for, and how much memory that takes. Fails if
/// the model's file is not readable. `host` runs recursive models.
[[nodiscard]] Expected<chat::ModelSource> model_source(const ModelConfig& config,
                                                       std::chrono::milliseconds time_limit,
                                                       const std::shared_ptr<rlm::Host>& host);

/// What the code of a configuration's recursive models runs in.
[[nodiscard]] rlm::SandboxOptions sandbox_options(const Config& config);
/// The host of a configuration's recursive models; it opens sandbox and store when they are needed.
[[nodiscard]] std::shared_ptr<rlm::Host> make_host(const Config& config);
/// The model for requests that name "root:sub", with the limits of the recursive model that
/// server.recursive_pairs_like names, else with the defaults. Null if the server allows no pairs.
[[nodiscard]] std::shared_ptr<chat::Model> pair_model(const Config& config,
                                                      const std::shared_ptr<rlm::Host>& host);
/// Lets recursive models find the other models in `registry`, which must live until the host is
/// closed or destroyed.
void connect(rlm::Host& host, const chat::ModelRegistry& registry);
/// The recursive model called `name` in a configuration: one of its tables, by name or alias, or a
/// pair of its other models as root:sub. No value if it is neither.
[[nodiscard]] std::optional<rlm::RecursiveOptions> recursive_named(const Config& config,
                                                                   std::string_view name);
/// A recursive model outside of a server, with its own host and its own copy of the models of
/// `config`. Its sessions are not kept on disk. Fails with `unavailable` if no sandbox works.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> load_recursive(const Config& config,
                                                                    rlm::RecursiveOptions options);
/// What RLM_MAX_ITERATIONS says, if it is set. Fails if that is not allowed.
[[nodiscard]] Expected<std::optional<unsigned>> turns_of_environment();
/// The options of a recursive model, with RLM_MAX_ITERATIONS and RLM_LOGGING applied.
[[nodiscard]] rlm::RecursiveOptions recursive_options(const ModelConfig& config);

/// A model for the GGUF file `path`, with the file's name as its name. `path` may also be a name
/// for hub::locate(), which fetches a model that is not here; "": the bundled model. Progress of
/// the fetch goes to `progress`, or to the log if that is empty.
[[nodiscard]] Expected<ModelConfig> model_from_path(const std::string& path,
                                                    const hub::Progress& progress = {});

/// `config` with a name in its path replaced by the file, see hub::locate(). All functions above do
/// that themselves. Blocks while a file is fetched.
[[nodiscard]] Expected<ModelConfig> located(ModelConfig config);

}  // namespace tenon::config
