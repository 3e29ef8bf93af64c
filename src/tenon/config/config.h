#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/telemetry/settings.h"

/// Makes models, tools and a service from a tenon.toml.
namespace tenon::config {

/// The [server] table. docs/configuration.md explains every key.
struct ServerConfig {
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::int64_t threads = 1;
  std::string api_keys_file;
  std::vector<std::string> cors_origins;
  std::vector<std::string> format_files;  ///< Definitions of tool-call formats, or folders of them.
  std::vector<std::string> allowed_hosts;    ///< Besides loopback names, if there are no keys.
  std::string unknown_fields = "leave_out";  ///< Also for hosted tools and pictures; or "refuse".
  std::int64_t max_body_bytes = std::int64_t{32} << 20;
  std::int64_t max_connections = 10'000;
  std::int64_t request_timeout_s = 0;  ///< For an answer; 0: no limit.
  std::int64_t max_model_bytes = 0;    ///< For all loaded models together; 0: no limit.
  std::int64_t drain_timeout_s = 10;   ///< For answers under way when the server is told to stop.
  std::string tls_certificate_file;
  std::string tls_key_file;
  std::string log_level = "info";
  bool log_contents = true;  ///< Whether the log shows names and values of clients and models.
  std::string store;  ///< File where responses are kept; "": in memory, within narrow limits.
  std::int64_t store_max_bytes = std::int64_t{256} << 20;
  std::int64_t store_ttl_s = std::int64_t{30} * 24 * 3600;  ///< 0: until there is no room.
  /// File where paused sessions of recursive models are kept; "": in the user's state folder.
  std::string sessions;
  bool keep_sessions = true;  ///< If false, they are kept in memory alone.
  std::int64_t sessions_max_bytes = std::int64_t{1} << 30;
  std::int64_t sessions_ttl_s = std::int64_t{24} * 3600;
  std::string record;  ///< Folder of recordings (docs/recording.md); "": nothing is recorded.
  std::int64_t record_max_mb = 1024;    ///< For all of them.
  std::int64_t record_days = 7;         ///< How long one is kept.
  std::vector<std::string> inspectors;  ///< Owners of keys who may see recordings.
  std::int64_t record_logprobs = 0;     ///< How many of the likeliest tokens are kept.
  /// Addresses of servers of tools that requests may name (mcp::AllowList); empty: none.
  std::vector<std::string> mcp_allow;
  bool mcp_allow_private = false;  ///< Their names may be found in private networks.
  std::string audit_log;      ///< File of the calls of tools that run here; "": lines of the log.
  std::string crash_dir;      ///< Folder of crash reports; "": in the user's state folder.
  bool crash_reports = true;  ///< If false, reports go to stderr alone.
  std::int64_t max_recursive_runs = 64;    ///< At the same time.
  bool recursive_pairs = true;             ///< Requests may name a recursive model as "root:sub".
  std::string recursive_pairs_like;        ///< The recursive model whose limits such pairs have.
  std::string repl_python;                 ///< The interpreter of their code; "": the system's.
  std::vector<std::string> repl_packages;  ///< Packages that their code may import.
  std::int64_t repl_folder_mb = 0;         ///< A folder for their code to write into; 0: no folder.
  std::int64_t repl_memory_mb = 1024;      ///< Address space of a process that runs it.
};

/// One [[model]] table.
struct ModelConfig {
  std::string name;
  std::vector<std::string> aliases;
  std::string engine = "llama";        ///< Or the name of an upstream engine, or "rlm".
  std::string path;                    ///< For "llama": a GGUF file, or a name for hub::locate().
  std::vector<std::string> urls;       ///< For upstreams: servers of the same model.
  std::string api_key_env;             ///< Variable that has the upstream's key.
  std::int64_t silence_limit_s = 120;  ///< Between two bytes of an upstream.
  std::string upstream_model;          ///< The upstream's name for it; "": its first model.
  std::string tokenizer;               ///< File or folder; "" for "llama-server": it is asked.
  std::string chat_template;           ///< File; "": the model's own.
  std::string tool_call_format;
  std::shared_ptr<const format::Format> definition;  ///< A format that is defined in the table.
  std::string argument_order = "schema";             ///< Or "any".
  bool normalize = true;                             ///< Arguments are repaired by their schema.
  std::string repair_rules;  ///< File, instead of the rules that come with Tenon.
  bool close_calls = false;  ///< An open call is closed before max_tokens is reached.
  /// Tools are described in the prompt alone if no format is known, and then calls are read in
  /// other forms than the model's.
  bool generic_fallback = true;
  /// Calls in other forms than the model's: "auto", "always" (also if a call is required), "off".
  std::string other_forms = "auto";
  std::string repeated_calls = "auto";  ///< For a call equal to the one before; or "keep", "drop".
  std::string reasoning = "auto";  ///< Whether the model has a section for it; or "on", or "off".
  std::string on_unknown_tool = "content";  ///< Or "repair", or "forward".
  std::string on_invalid_call = "pass";     ///< Or "ask_again".
  std::string execute = "client";           ///< Who runs `tools` and `mcp`; or "server".
  std::string tools;                        ///< File of tools with commands; "": none.
  std::string mcp;                          ///< File of mcpServers; "": none.
  std::int64_t max_tool_rounds = 10;        ///< Model outputs per request, if tools run here.
  std::int64_t tool_timeout_s = 60;         ///< For one call.
  std::string approve = "never";            ///< Which of these calls need approval; or "always",
                                            ///< "by_annotation".
  std::vector<std::string> approve_always;  ///< Names of tools.
  std::vector<std::string> approve_never;
  std::string tool_search = "request";       ///< Whether tools are searched for; or "auto", "off".
  std::int64_t tool_search_from = 40;        ///< Of "auto": a request with so many tools.
  bool code_execution = false;               ///< Code that the model writes is run, in the sandbox.
  std::int64_t code_max_calls = 100;         ///< Calls of tools by one run of code.
  std::int64_t code_timeout_s = 30;          ///< For one run, without the time in which it waits.
  std::int64_t code_max_bytes = 16'777'216;  ///< Arguments and results of a run's calls.
  std::int64_t code_output_chars = 20'000;   ///< Each of stdout and stderr of a run.
  std::vector<std::string> code_calls;       ///< Tools of `tools` and `mcp` that code may call.
  bool remember_results = false;             ///< A call that comes again in a request is not rerun.
  std::int64_t context_tokens = 0;           ///< 0: what the model was trained with.
  std::int64_t max_concurrent = 0;           ///< 0: the engine's default.
  std::int64_t queue_limit = -1;  ///< Answers that wait for a place; -1: the engine's default.
  std::int64_t threads = 0;       ///< 0: the engine's default.
  std::int64_t gpu_layers = -1;   ///< -1: all, if there is a GPU.
  std::string flash_attn = "auto";
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  std::vector<std::string> rpc;  ///< "host:port" of workers.
  std::string load = "start";    ///< Or "first_use".
  std::int64_t max_tokens = 0;   ///< If a request sets none; 0: until the context is full.
  std::int64_t max_reasoning_tokens = -1;  ///< If a request sets none; -1: any number.
  std::int64_t max_calls = 64;     ///< In one answer, if a request sets none; 0: any number.
  std::string on_loop = "tell";    ///< About a conversation in a loop; or "stop".
  std::string bounds = "default";  ///< The bounds of constrained values; or "none".
  double price_input = 0;          ///< For a million tokens, in one currency for all models.
  double price_output = 0;
  double price_cached_input = -1;  ///< -1: the same as other input.

  // From the server's table.
  bool calls_servers = false;  ///< ServerConfig::mcp_allow has an address.
  std::string audit_log;

  // For "rlm". -1 stands for the default, and requests may then set a higher limit.
  std::string root;
  std::string sub;  ///< "": the root.
  std::int64_t max_iterations = -1;
  double compact_at = -1;
  std::int64_t max_depth = -1;
  std::int64_t max_sub_calls = -1;
  std::int64_t max_concurrent_sub_calls = -1;
  std::int64_t max_total_tokens = -1;
  double max_cost = 0;  ///< 0: no limit.
  std::int64_t max_errors = -1;
  std::int64_t max_time_s = -1;
  std::int64_t cell_timeout_s = -1;
  std::string trajectory_dir;  ///< Folder; "": no traces are written.
  bool unsafe_local = false;   ///< Code runs even if no sandbox works.

  /// A definition is equal only to itself, not to another one with the same text.
  bool operator==(const ModelConfig&) const = default;
};

struct Config {
  ServerConfig server;
  telemetry::Chosen telemetry;  ///< The table [telemetry].
  std::vector<ModelConfig> models;
  std::string text;  ///< The text of the file; "" if it was not read from a file.
};

/// Reads tenon.toml. Fails with `invalid`, or with `unsupported` for what this version cannot do
/// yet, naming `source`, line and key. Paths in it are relative to `folder`.
[[nodiscard]] Expected<Config> parse_config(std::string_view text, std::string_view source,
                                            std::string_view folder);
[[nodiscard]] Expected<Config> read_config(const std::string& path);

/// Sets ModelConfig::calls_servers by ServerConfig::mcp_allow, as reading does.
void set_calls_servers(Config& config);

}  // namespace tenon::config
