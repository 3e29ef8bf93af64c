#include "models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "files.h"
#include "model_format.h"
#include "model_template.h"

#include "tenon/base/log.h"
#include "tenon/chat/second_try.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/upstream/chat_server.h"
#include "tenon/engine/upstream/llama_server.h"
#include "tenon/engine/upstream/ollama.h"
#include "tenon/engine/upstream/pool.h"
#include "tenon/engine/upstream/token_server.h"
#include "tenon/repair/rules.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::app {
namespace {

engine::FlashAttention flash_attention_of(std::string_view word) {
  if (word == "on") return engine::FlashAttention::on;
  return word == "off" ? engine::FlashAttention::off : engine::FlashAttention::automatic;
}

engine::CacheType cache_type_of(std::string_view name) {
  const auto* const found = std::ranges::find(engine::kCacheTypeNames, name);
  return static_cast<engine::CacheType>(found - std::begin(engine::kCacheTypeNames));
}

engine::LlamaOptions llama_options(const ModelConfig& config) {
  engine::LlamaOptions options{.path = config.path,
                               .context_tokens = static_cast<std::uint32_t>(config.context_tokens),
                               .threads = static_cast<int>(config.threads),
                               .gpu_layers = static_cast<int>(config.gpu_layers),
                               .flash_attention = flash_attention_of(config.flash_attn),
                               .rpc = config.rpc,
                               .cache_type_k = cache_type_of(config.cache_type_k),
                               .cache_type_v = cache_type_of(config.cache_type_v)};
  if (config.max_concurrent > 0) {
    options.max_concurrent = static_cast<std::uint32_t>(config.max_concurrent);
  }
  if (config.queue_limit >= 0) {
    options.queue_limit = static_cast<std::uint32_t>(config.queue_limit);
  }
  return options;
}

using Connect = std::function<Expected<std::unique_ptr<engine::Engine>>(const std::string& url)>;

// A server whose model's tokenizer and template are files here.
OrComplaint<Connect> connect_with_files(const ModelConfig& config, std::string key) {
  const std::filesystem::path files = config.tokenizer;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(files, ignored);
  auto tokenizer = vocab::load_tokenizer(is_folder ? files / "tokenizer.json" : files);
  if (!tokenizer) {
    return complaint(kBadInput, "model '" + config.name + "': " + tokenizer.error().message);
  }
  // Else the model gets the plain one, which is logged.
  std::string chat_template;
  const bool is_gguf = files.extension() == ".gguf";
  if (const auto found =
          template_of((is_folder || is_gguf ? files : files.parent_path()).string())) {
    chat_template = found->source;
  }
  if (config.engine == "ollama") {
    const engine::OllamaOptions options{
        .api_key = std::move(key),
        .model = config.upstream_model,
        .tokenizer = *std::move(tokenizer),
        .chat_template = std::move(chat_template),
        .context_tokens = static_cast<std::uint32_t>(config.context_tokens)};
    return [options](const std::string& url) {
      engine::OllamaOptions one = options;
      one.url = url;
      return engine::connect_ollama(std::move(one));
    };
  }
  const engine::TokenServerOptions options{.dialect = config.engine == "vllm"
                                                          ? engine::TokenDialect::vllm
                                                          : engine::TokenDialect::sglang,
                                           .api_key = std::move(key),
                                           .model = config.upstream_model,
                                           .tokenizer = *std::move(tokenizer),
                                           .chat_template = std::move(chat_template)};
  return [options](const std::string& url) {
    engine::TokenServerOptions one = options;
    one.url = url;
    return engine::connect_token_server(std::move(one));
  };
}

// How one server of the model is met.
OrComplaint<Connect> connector(const ModelConfig& config, std::string key) {
  if (config.engine == "openai" || config.engine == "exo") {
    const engine::ChatServerOptions options{
        .dialect = config.engine == "exo" ? engine::ChatDialect::exo : engine::ChatDialect::openai,
        .api_key = std::move(key),
        .model = config.upstream_model};
    return [options](const std::string& url) {
      engine::ChatServerOptions one = options;
      one.url = url;
      return engine::connect_chat_server(std::move(one));
    };
  }
  if (config.engine != "llama-server") return connect_with_files(config, std::move(key));
  return [key = std::move(key)](const std::string& url) {
    return engine::connect_llama_server({.url = url, .api_key = key});
  };
}

OrComplaint<std::unique_ptr<engine::Engine>> connect(const ModelConfig& config) {
  if (config.engine == "llama") {
    auto engine = engine::LlamaEngine::load(llama_options(config));
    if (!engine) return complaint(kEngine, engine.error().message);
    return *std::move(engine);
  }
  std::string key;
  if (!config.api_key_env.empty()) {
    const char* found = std::getenv(config.api_key_env.c_str());
    if (found == nullptr) {
      return complaint(kBadInput, "model '" + config.name + "': the environment has no variable " +
                                      config.api_key_env);
    }
    key = found;
  }
  const auto connect_one = connector(config, std::move(key));
  if (!connect_one) return Failure<Complaint>(connect_one.error());
  std::vector<engine::PoolServer> servers;
  for (const std::string& url : config.urls) {
    servers.push_back({url, [url, connect = *connect_one] { return connect(url); }});
  }
  auto engine = engine::connect_pool(std::move(servers));
  if (!engine) {
    return complaint(engine.error().code == Errc::invalid ? kBadInput : kEngine,
                     "model '" + config.name + "': " + engine.error().message);
  }
  return *std::move(engine);
}

std::string place_of(const ModelConfig& config) {
  std::string place = config.path;
  for (const std::string& url : config.urls) place += (place.empty() ? "" : ", ") + url;
  return place;
}

// Document 000 names the one of EXO, whose users find it honoured here.
bool is_normalization_disabled() {
  return std::ranges::any_of(std::initializer_list<const char*>{"TENON_DISABLE_NORMALIZATION",
                                                                "EXO_DISABLE_NORMALIZATION"},
                             [](const char* name) {
                               const char* value = std::getenv(name);
                               return value != nullptr && *value != '\0' &&
                                      std::string_view(value) != "0";
                             });
}

// Null: nothing is mended.
OrComplaint<std::shared_ptr<const repair::Rules>> repair_rules(const ModelConfig& config) {
  if (is_normalization_disabled()) return nullptr;
  if (config.repair_rules.empty()) return repair::Rules::builtin();
  const auto text = read_file(config.repair_rules);
  if (!text) return complaint(kBadInput, text.error().message);
  auto rules = repair::Rules::compile(*text, config.repair_rules);
  if (!rules) return complaint(kBadInput, rules.error().message);
  return *std::move(rules);
}

}  // namespace

OrComplaint<std::shared_ptr<chat::Model>> load_model(const ModelConfig& config,
                                                     std::chrono::milliseconds time_limit) {
  chat::ModelOptions options{.name = config.name,
                             .aliases = config.aliases,
                             .format = config.tool_call_format,
                             .generic_fallback = config.generic_fallback,
                             .default_max_tokens = static_cast<std::uint32_t>(config.max_tokens),
                             .time_limit = time_limit,
                             .normalize = config.normalize,
                             .close_calls = config.close_calls};
  if (!config.chat_template.empty()) {
    auto source = read_file(config.chat_template);
    if (!source) return complaint(kBadInput, source.error().message);
    options.chat_template = *std::move(source);
  }
  auto rules = repair_rules(config);
  if (!rules) return Failure<Complaint>(rules.error());
  options.repair_rules = *std::move(rules);
  const std::string folder = folder_of(config.path.empty() ? config.tokenizer : config.path);
  options.own_format = config.definition;
  if (options.own_format == nullptr) {
    auto declared = declared_format(folder, config.tool_call_format);
    if (!declared) {
      return complaint(declared.error().status,
                       "model '" + config.name + "': " + declared.error().message);
    }
    options.own_format = std::move(declared->format);
  }
  options.imported = imported_format(folder);
  if (config.engine != "llama-server") options.turn_ends = declared_ends(folder);
  auto engine = connect(config);
  if (!engine) return Failure<Complaint>(engine.error());
  options.begin_required_call = config.engine == "llama";
  if (config.on_unknown_tool == "repair") options.on_unknown_tool = chat::UnknownTool::repair;
  if (config.on_unknown_tool == "forward") options.on_unknown_tool = chat::UnknownTool::forward;
  if (config.argument_order == "any") options.argument_order = message::ArgumentOrder::any;
  auto model = chat::Model::create(std::move(options), *std::move(engine));
  if (!model) return complaint(kBadInput, model.error().message);
  if (const format::Format* format = (*model)->format()) {
    log::info(
        "Loaded tool parser " +
        json::dumps(json::Object{{"format", format::info(*format).name}, {"model", config.name}}));
  }
  if (config.on_invalid_call == "pass") return *std::move(model);
  return chat::with_second_try(*std::move(model));
}

OrComplaint<chat::ModelSource> model_source(const ModelConfig& config,
                                            std::chrono::milliseconds time_limit) {
  chat::ModelSource source{.name = config.name, .aliases = config.aliases};
  if (config.engine == "llama") {
    const auto bytes = engine::LlamaEngine::memory_bytes(llama_options(config));
    if (!bytes) return complaint(kEngine, bytes.error().message);
    source.memory_bytes = *bytes;
  }
  source.load = [config, time_limit]() -> Expected<std::shared_ptr<chat::Model>> {
    const auto begun = std::chrono::steady_clock::now();
    auto model = load_model(config, time_limit);
    if (!model) {
      const bool is_config = model.error().status == kBadInput;
      return Unexpected(
          Error{is_config ? Errc::invalid : Errc::unavailable, model.error().message});
    }
    const format::Format* format = (*model)->format();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begun);
    log::info("model " + config.name + ": " + place_of(config) + ", tool-call format " +
              (format == nullptr ? "none" : format::info(*format).name) + ", context " +
              std::to_string((*model)->capabilities().context_tokens) + " tokens, loaded in " +
              std::to_string(took.count()) + " ms");
    return *std::move(model);
  };
  return source;
}

OrComplaint<ModelConfig> model_from_path(const std::string& path) {
  ModelConfig config{.path = path};
  if (path.empty()) {
    auto bundled = bundled_model();
    if (!bundled) return complaint(kBadInput, bundled.error().message);
    config.path = *std::move(bundled);
  }
  config.name = std::filesystem::path(config.path).stem().string();
  return config;
}

}  // namespace tenon::app
