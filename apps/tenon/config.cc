#include "config.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "files.h"
#include <toml++/toml.h>

namespace tenon::app {
namespace {

/// One key of a table: where its value goes, what it may be.
template <class Table>
struct Key {
  std::string_view name;
  std::variant<std::string Table::*, std::int64_t Table::*, std::vector<std::string> Table::*>
      member;
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool is_file = false;
};

const Key<ServerConfig> kServerKeys[] = {
    {"host", &ServerConfig::host},
    {"port", &ServerConfig::port, 0, 65'535},
    {"threads", &ServerConfig::threads, 1, 256},
    {"api_keys_file", &ServerConfig::api_keys_file, 0, 0, true},
    {"cors_origins", &ServerConfig::cors_origins},
    {"max_body_bytes", &ServerConfig::max_body_bytes, 1, std::int64_t{1} << 40},
    {"max_connections", &ServerConfig::max_connections, 1, 1'000'000},
    {"request_timeout_s", &ServerConfig::request_timeout_s, 0, 1'000'000},
    {"drain_timeout_s", &ServerConfig::drain_timeout_s, 0, 1'000'000},
    {"tls_certificate_file", &ServerConfig::tls_certificate_file, 0, 0, true},
    {"tls_key_file", &ServerConfig::tls_key_file, 0, 0, true},
    {"log_level", &ServerConfig::log_level},
};

const Key<ModelConfig> kModelKeys[] = {
    {"name", &ModelConfig::name},
    {"alias", &ModelConfig::aliases},
    {"engine", &ModelConfig::engine},
    {"path", &ModelConfig::path, 0, 0, true},
    {"url", &ModelConfig::url},
    {"api_key_env", &ModelConfig::api_key_env},
    {"chat_template", &ModelConfig::chat_template, 0, 0, true},
    {"tool_call_format", &ModelConfig::tool_call_format},
    {"context_tokens", &ModelConfig::context_tokens, 16, std::int64_t{1} << 30},
    {"max_concurrent", &ModelConfig::max_concurrent, 1, 4096},
    {"threads", &ModelConfig::threads, 1, 4096},
    {"gpu_layers", &ModelConfig::gpu_layers, -1, 100'000},
    {"max_tokens", &ModelConfig::max_tokens, 1, std::int64_t{1} << 30},
};

// Keys of the design that have no effect in this version: to ignore them would be to lie.
constexpr std::string_view kLaterKeys[] = {
    "generic_fallback", "argument_order", "on_unknown_tool", "root", "sub",
    "trajectory_dir",   "normalize"};

class Reader {
 public:
  Reader(std::string_view source, std::string_view folder) : source_(source), folder_(folder) {}

  Expected<Config> run(const toml::table& root);

 private:
  Unexpected fail(Errc code, const toml::node& node, std::string message) const;
  template <class Table>
  Status table(const toml::table& from, std::span<const Key<Table>> keys, std::string_view where,
               Table& out) const;
  template <class Table>
  Status value(const toml::node& node, const Key<Table>& key, const std::string& path,
               Table& out) const;
  Status check_model(const toml::table& node, const ModelConfig& model) const;

  std::string_view source_;
  std::string_view folder_;
};

Unexpected Reader::fail(Errc code, const toml::node& node, std::string message) const {
  return Unexpected(Error{code, std::string(source_) + ":" +
                                    std::to_string(node.source().begin.line) + ": " +
                                    std::move(message)});
}

template <class Table>
Status Reader::table(const toml::table& from, std::span<const Key<Table>> keys,
                     std::string_view where, Table& out) const {
  for (const auto& [name, node] : from) {
    const std::string path = std::string(where) + "." + std::string(name.str());
    const auto key = std::find_if(keys.begin(), keys.end(),
                                  [&](const Key<Table>& k) { return k.name == name.str(); });
    if (key == keys.end()) {
      const bool is_later = std::find(std::begin(kLaterKeys), std::end(kLaterKeys), name.str()) !=
                            std::end(kLaterKeys);
      if (is_later) return fail(Errc::unsupported, node, path + " is not supported yet");
      std::string known;
      for (const Key<Table>& k : keys) known += (known.empty() ? "" : ", ") + std::string(k.name);
      return fail(Errc::invalid, node, "unknown key " + path + " (known: " + known + ")");
    }
    if (Status read = value(node, *key, path, out); !read) return read;
  }
  return {};
}

template <class Table>
Status Reader::value(const toml::node& node, const Key<Table>& key, const std::string& path,
                     Table& out) const {
  if (const auto* text = std::get_if<std::string Table::*>(&key.member)) {
    const auto found = node.value_exact<std::string>();
    if (!found) return fail(Errc::invalid, node, path + " must be a string");
    out.*(*text) = key.is_file ? resolved(*found, folder_) : *found;
  } else if (const auto* number = std::get_if<std::int64_t Table::*>(&key.member)) {
    const auto found = node.value_exact<std::int64_t>();
    if (!found || *found < key.least || *found > key.most) {
      return fail(Errc::invalid, node,
                  path + " must be an integer from " + std::to_string(key.least) + " to " +
                      std::to_string(key.most));
    }
    out.*(*number) = *found;
  } else {
    auto& list = out.*std::get<std::vector<std::string> Table::*>(key.member);
    const toml::array* items = node.as_array();
    if (items == nullptr) return fail(Errc::invalid, node, path + " must be a list of strings");
    for (const toml::node& item : *items) {
      const auto found = item.value_exact<std::string>();
      if (!found) return fail(Errc::invalid, item, path + " must be a list of strings");
      list.push_back(*found);
    }
  }
  return {};
}

Status Reader::check_model(const toml::table& node, const ModelConfig& model) const {
  if (model.name.empty()) return fail(Errc::invalid, node, "model.name is missing");
  const bool is_local = model.engine == "llama";
  if (!is_local && model.engine != "llama-server") {
    return fail(
        Errc::unsupported, node,
        "model.engine = \"" + model.engine +
            "\" is not supported yet; \"llama\", the embedded engine, and \"llama-server\" are");
  }
  if (is_local && model.path.empty()) {
    return fail(Errc::invalid, node,
                "model.path is missing: the GGUF file of '" + model.name + "'");
  }
  if (!is_local && model.url.empty()) {
    return fail(Errc::invalid, node,
                "model.url is missing: where the engine of '" + model.name +
                    "' listens, like \"http://127.0.0.1:8081\"");
  }
  return {};
}

Expected<Config> Reader::run(const toml::table& root) {
  Config config;
  for (const auto& [name, node] : root) {
    if (name == "server") {
      const toml::table* server = node.as_table();
      if (server == nullptr) return fail(Errc::invalid, node, "server must be a table: [server]");
      Status read = table<ServerConfig>(*server, kServerKeys, "server", config.server);
      if (!read) return Unexpected(std::move(read.error()));
      continue;
    }
    const toml::array* models = name == "model" ? node.as_array() : nullptr;
    if (models == nullptr) {
      return fail(Errc::invalid, node,
                  name == "model" ? "models are written [[model]], with two brackets"
                                  : "unknown table " + std::string(name.str()) +
                                        " (known: [server], [[model]])");
    }
    for (const toml::node& item : *models) {
      const toml::table* model = item.as_table();
      if (model == nullptr) return fail(Errc::invalid, item, "a [[model]] must be a table");
      ModelConfig& out = config.models.emplace_back();
      Status read = table<ModelConfig>(*model, kModelKeys, "model", out);
      if (read) read = check_model(*model, out);
      if (!read) return Unexpected(std::move(read.error()));
    }
  }
  return config;
}

}  // namespace

Expected<Config> parse_config(std::string_view text, std::string_view source,
                              std::string_view folder) {
  try {
    return Reader(source, folder).run(toml::parse(text, source));
  } catch (const toml::parse_error& error) {
    return Unexpected(Error{Errc::invalid, std::string(source) + ":" +
                                               std::to_string(error.source().begin.line) + ": " +
                                               std::string(error.description())});
  }
}

Expected<Config> read_config(const std::string& path) {
  const Expected<std::string> text = read_file(path);
  if (!text) return Unexpected(text.error());
  return parse_config(*text, path, std::filesystem::path(path).parent_path().string());
}

}  // namespace tenon::app
