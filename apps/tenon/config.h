#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"

namespace tenon::app {

/// The [server] table. docs/configuration.md explains every key.
struct ServerConfig {
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::int64_t threads = 1;
  std::string api_keys_file;
  std::vector<std::string> cors_origins;
  std::vector<std::string> format_files;  ///< Definitions of tool-call formats, or folders of them.
  std::vector<std::string> allowed_hosts;  ///< Beside loopback names, where there are no keys.
  std::int64_t max_body_bytes = std::int64_t{32} << 20;
  std::int64_t max_connections = 10'000;
  std::int64_t request_timeout_s = 0;  ///< Of an answer; 0: none.
  std::int64_t max_model_bytes = 0;    ///< Of all models that are loaded; 0: no limit.
  std::int64_t drain_timeout_s = 10;   ///< For answers under way when the server is told to stop.
  std::string tls_certificate_file;
  std::string tls_key_file;
  std::string log_level = "info";
  bool log_contents = true;  ///< Names and values of clients and models in the log.
  std::string store;  ///< File where responses are kept; "": in memory, within narrow limits.
  std::int64_t store_max_bytes = std::int64_t{256} << 20;
  std::int64_t store_ttl_s = std::int64_t{30} * 24 * 3600;  ///< 0: until there is no room.
};

/// One [[model]] table.
struct ModelConfig {
  std::string name;
  std::vector<std::string> aliases;
  std::string engine = "llama";   ///< Or one of those that run elsewhere.
  std::string path;               ///< GGUF file, of "llama".
  std::vector<std::string> urls;  ///< Of those: where the same model is served.
  std::string api_key_env;        ///< Variable that holds its key.
  std::string upstream_model;     ///< Its name there; "": the first.
  std::string tokenizer;          ///< File or folder, of "vllm", "sglang" and "ollama".
  std::string chat_template;      ///< File; "": the model's own.
  std::string tool_call_format;
  std::shared_ptr<const format::Format> definition;  ///< Instead: one that stands in the table.
  std::string argument_order = "schema";             ///< Or "any".
  bool normalize = true;                             ///< Arguments are mended by their schema.
  std::string repair_rules;  ///< File, instead of those that come with Tenon.
  bool close_calls = false;  ///< Calls end before max_tokens does.
  /// Tools by the prompt alone where no format is known, and calls in other forms than the model's.
  bool generic_fallback = true;
  std::string on_unknown_tool = "content";  ///< Or "repair", or "forward".
  std::string on_invalid_call = "pass";     ///< Or "ask_again".
  std::int64_t context_tokens = 0;          ///< 0: what the model was trained with.
  std::int64_t max_concurrent = 0;          ///< 0: the engine's default.
  std::int64_t queue_limit = -1;  ///< Answers that wait for a place; -1: the engine's default.
  std::int64_t threads = 0;       ///< 0: the engine's default.
  std::int64_t gpu_layers = -1;   ///< -1: all, where there is a GPU.
  std::string flash_attn = "auto";
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  std::vector<std::string> rpc;  ///< "host:port" of workers.
  std::string load = "start";    ///< Or "first_use".
  std::int64_t max_tokens = 0;   ///< Where a request sets none; 0: until the context is full.

  /// A definition is equal to itself only, not to another of the same text.
  bool operator==(const ModelConfig&) const = default;
};

struct Config {
  ServerConfig server;
  std::vector<ModelConfig> models;
  std::string text;  ///< It was read from this; "": from no file.
};

/// Reads tenon.toml. Fails with `invalid` or, for what this version cannot do yet, `unsupported`,
/// naming `source`, line and key. Files named in it are taken relative to `folder`.
[[nodiscard]] Expected<Config> parse_config(std::string_view text, std::string_view source,
                                            std::string_view folder);
[[nodiscard]] Expected<Config> read_config(const std::string& path);

}  // namespace tenon::app
