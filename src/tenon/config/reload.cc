#include "tenon/config/reload.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/chat/model_registry.h"
#include "tenon/config/failure.h"
#include "tenon/config/models.h"

// How a running server takes another configuration
//
// apply() reads the file, puts back what cannot change while the server runs (kFixed), and compares
// the models one by one: a model whose table is unchanged stays loaded. Everything that may fail
// comes first: keys, new models, certificates. Then the models are replaced in one step of the
// registry, and requests that use an old one keep it until they end.

namespace tenon::config {
namespace {

bool has_tls(const ServerConfig& config) {
  return !config.tls_certificate_file.empty() || !config.tls_key_file.empty();
}

// A key that is fixed when the server starts: `keep` puts the running server's value into `config`,
// and returns whether that changes `config`.
struct Fixed {
  std::string_view key;
  bool (*keep)(const ServerConfig& running, ServerConfig& config);
};

template <auto member>
constexpr Fixed fixed(std::string_view key) {
  return {key, [](const ServerConfig& running, ServerConfig& config) {
            if (config.*member == running.*member) return false;
            config.*member = running.*member;
            return true;
          }};
}

// TLS files may be replaced by others, but not be added or removed.
bool keep_tls(const ServerConfig& running, ServerConfig& config) {
  if (has_tls(config) == has_tls(running)) return false;
  config.tls_certificate_file = running.tls_certificate_file;
  config.tls_key_file = running.tls_key_file;
  return true;
}

const Fixed kFixed[] = {
    fixed<&ServerConfig::host>("host"),
    fixed<&ServerConfig::port>("port"),
    fixed<&ServerConfig::threads>("threads"),
    fixed<&ServerConfig::format_files>("format_files"),
    fixed<&ServerConfig::request_timeout_s>("request_timeout_s"),
    fixed<&ServerConfig::store>("store"),
    fixed<&ServerConfig::store_max_bytes>("store_max_bytes"),
    fixed<&ServerConfig::store_ttl_s>("store_ttl_s"),
    fixed<&ServerConfig::sessions>("sessions"),
    fixed<&ServerConfig::keep_sessions>("keep_sessions"),
    fixed<&ServerConfig::sessions_max_bytes>("sessions_max_bytes"),
    fixed<&ServerConfig::sessions_ttl_s>("sessions_ttl_s"),
    fixed<&ServerConfig::record>("record"),
    fixed<&ServerConfig::record_max_mb>("record_max_mb"),
    fixed<&ServerConfig::record_days>("record_days"),
    fixed<&ServerConfig::record_logprobs>("record_logprobs"),
    fixed<&ServerConfig::inspectors>("inspectors"),
    fixed<&ServerConfig::mcp_allow>("mcp_allow"),
    fixed<&ServerConfig::mcp_allow_private>("mcp_allow_private"),
    fixed<&ServerConfig::crash_dir>("crash_dir"),
    fixed<&ServerConfig::crash_reports>("crash_reports"),
    fixed<&ServerConfig::max_recursive_runs>("max_recursive_runs"),
    fixed<&ServerConfig::recursive_pairs>("recursive_pairs"),
    fixed<&ServerConfig::recursive_pairs_like>("recursive_pairs_like"),
    fixed<&ServerConfig::repl_python>("repl_python"),
    fixed<&ServerConfig::repl_packages>("repl_packages"),
    fixed<&ServerConfig::repl_folder_mb>("repl_folder_mb"),
    fixed<&ServerConfig::repl_memory_mb>("repl_memory_mb"),
    {"tls_certificate_file", &keep_tls},
};

// For a file whose text is unchanged: keeps its definitions, of which each reading makes new
// objects. Without it every model with a definition would count as changed, and be loaded again.
void keep_definitions(const std::vector<ModelConfig>& running, std::vector<ModelConfig>& models) {
  for (ModelConfig& model : models) {
    const auto old = std::ranges::find(running, model.name, &ModelConfig::name);
    if (old != running.end()) model.definition = old->definition;
  }
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace

/// What changes between the models of two configurations.
struct Reloader::Models {
  std::vector<std::string> removed;  // includes the models that changed
  std::vector<chat::ModelRegistry::Addition> added;
  std::string summary;  // "": nothing changes
};

// Finds out what changes and loads what is to be loaded, so that a model that cannot be loaded
// leaves all as it was. A changed model is removed and added.
Expected<Reloader::Models> Reloader::changed_models(const Config& config) const {
  const std::vector<ModelConfig>& before = running_.models;
  Models models;
  std::vector<std::string> gone;
  std::vector<std::string> changed;
  std::vector<std::string> come;
  std::vector<const ModelConfig*> wanted;
  // A model that changed is in both lists: its old form goes, its new one comes.
  for (const ModelConfig& model : before) {
    const auto after = std::ranges::find(config.models, model.name, &ModelConfig::name);
    if (after != config.models.end() && *after == model) continue;
    models.removed.push_back(model.name);
    (after == config.models.end() ? gone : changed).push_back(model.name);
  }
  for (const ModelConfig& model : config.models) {
    const auto old = std::ranges::find(before, model.name, &ModelConfig::name);
    if (old != before.end() && *old == model) continue;
    wanted.push_back(&model);
    if (old == before.end()) come.push_back(model.name);
  }
  const auto say = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) models.summary += ", " + std::string(what) + " " + listed(names);
  };
  say("models added", come);
  say("models changed", changed);
  say("models removed", gone);

  const auto most = static_cast<std::uint64_t>(config.server.max_model_bytes);
  std::uint64_t held = 0;
  for (const auto& entry : options_.instance.service().models().entries()) {
    if (entry.loaded) held += entry.memory_bytes;
  }
  const std::chrono::seconds limit(running_.server.request_timeout_s);
  for (const ModelConfig* const model : wanted) {
    auto source = model_source(*model, limit, options_.instance.host());
    if (!source) return Unexpected(source.error());
    const std::uint64_t bytes = source->memory_bytes;
    if (most > 0 && bytes > most) {
      return invalid("model '" + model->name + "' needs " + std::to_string(bytes) +
                     " bytes, but server.max_model_bytes is " + std::to_string(most));
    }
    std::shared_ptr<chat::Model> loaded;
    if (model->load == "start") {
      // The old model may still be answering while the new one loads, so both must fit.
      if (most > 0 && held + bytes > most) {
        log::info("model '" + model->name +
                  "' is loaded by its first request: others have the room");
      } else {
        auto result = source->load();
        if (!result) return at_fault(result.error());
        loaded = *std::move(result);
        held += bytes;
      }
    }
    models.added.push_back({.source = *std::move(source), .model = std::move(loaded)});
  }
  return models;
}

// Returns what has changed, in words. Everything that may fail comes before the first change,
// except two models with one name, which no configuration has.
Expected<std::vector<std::string>> Reloader::apply() {
  auto config = options_.read();
  if (!config) return Unexpected(config.error());
  const ServerConfig& running = running_.server;
  std::vector<std::string> fixed;
  for (const Fixed& each : kFixed) {
    if (each.keep(running, config->server)) {
      fixed.emplace_back("server." + std::string(each.key));
    }
  }
  // Again, since mcp_allow is that of the running server now.
  set_calls_servers(*config);
  if (config->telemetry != running_.telemetry) {
    config->telemetry = running_.telemetry;
    fixed.emplace_back("telemetry");
  }
  if (config->text == running_.text) keep_definitions(running_.models, config->models);
  if (Status reach = check_reach(config->server); !reach) return Unexpected(reach.error());
  auto access = read_access(config->server);
  if (!access) return Unexpected(access.error());
  auto models = changed_models(*config);
  if (!models) return Unexpected(models.error());
  const ServerConfig& server = config->server;
  if (has_tls(server)) {
    const Status loaded =
        // Connections that are open keep the old certificate.
        options_.instance.server()->load_tls(server.tls_certificate_file, server.tls_key_file);
    if (!loaded) return at_fault(loaded.error());
  }

  const std::string keys =
      access->keys.empty() ? "no keys" : std::to_string(access->keys.size()) + " keys";
  options_.instance.service().models().set_max_bytes(
      static_cast<std::uint64_t>(server.max_model_bytes));
  if (Status replaced =
          options_.instance.service().models().replace(models->removed, std::move(models->added));
      !replaced) {
    return at_fault(replaced.error());
  }
  options_.instance.service().set_access(*std::move(access));
  options_.instance.server()->set_limits(static_cast<std::size_t>(server.max_body_bytes),
                                         static_cast<std::size_t>(server.max_connections));
  options_.set_log_level(server.log_level);
  log::set_contents(server.log_contents);
  log::info("reloaded: " + keys + ", log level " + server.log_level + models->summary);
  running_ = *std::move(config);
  return fixed;
}

void Reloader::reload() try {
  log::info("reloading on SIGHUP");
  const auto fixed = apply();
  if (!fixed) {
    log::error("not reloaded, all stays as it was: " + fixed.error().message);
  } else if (!fixed->empty()) {
    log::warn("changed, and not taken over before the next start: " + listed(*fixed));
  }
} catch (const std::exception& thrown) {
  log::error(std::string("not reloaded: ") + thrown.what());
}

}  // namespace tenon::config
