#include "tenon/config/config.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "tenon/base/toml.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/upstream/balancer.h"
#include "tenon/http/client.h"
#include "tenon/hub/model_name.h"
#include "tenon/mcp/allow_list.h"

// How a file is read
//
// Two tables, kServerKeys and kModelKeys, say everything about a key: its name, the member that its
// value goes to (a pointer whose type is the type of the value), the range or the words that are
// allowed, and the engines that have it. read_table() goes over the entries of the TOML text, finds
// the row of each and calls read_value(), so adding a key is adding a row, and every error names
// source, line and key in the same way. What concerns several keys or several models is checked
// after that: check_model() (which key belongs to which engine, what is missing), check_names() (no
// name twice), check_parts() and check_pairs() (the parts of recursive models exist).
// All of it happens before a model is loaded, so a wrong file fails at once.

namespace tenon::config {
namespace {

struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// One key of a table: where its value goes, which values it may have, and which engines have it.
template <class Table>
struct Key {
  std::string_view name;
  std::variant<std::string Table::*, std::int64_t Table::*, bool Table::*, double Table::*,
               std::vector<std::string> Table::*>
      member;
  Range range = {};      // for a number
  bool is_file = false;  // a path, which is relative to the file of the configuration
  std::span<const std::string_view> engines = {};                       // empty: all
  std::shared_ptr<const format::Format> Table::* definition = nullptr;  // if it may be a table
  std::span<const std::string_view> words = {};                         // for a string; empty: any
  bool may_be_one = false;  // a string may stand for a list with one entry
  bool may_be_empty = true;
};

constexpr std::int64_t kBillion = 1'000'000'000;
// For prices and costs: a number with a fraction whose key has no range.
constexpr double kMostMoney = 1e9;

constexpr std::string_view kUnknownFields[] = {"leave_out", "refuse"};
constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warn", "error"};

const Key<ServerConfig> kServerKeys[] = {
    {.name = "host", .member = &ServerConfig::host},
    {.name = "port", .member = &ServerConfig::port, .range = {0, 65'535}},
    {.name = "threads", .member = &ServerConfig::threads, .range = {1, 256}},
    {.name = "api_keys_file",
     .member = &ServerConfig::api_keys_file,
     .is_file = true,
     .may_be_empty = false},
    {.name = "cors_origins", .member = &ServerConfig::cors_origins},
    {.name = "format_files", .member = &ServerConfig::format_files, .is_file = true},
    {.name = "allowed_hosts", .member = &ServerConfig::allowed_hosts},
    {.name = "unknown_fields", .member = &ServerConfig::unknown_fields, .words = kUnknownFields},
    {.name = "max_body_bytes",
     .member = &ServerConfig::max_body_bytes,
     .range = {1, 1'000 * kBillion}},
    {.name = "max_connections", .member = &ServerConfig::max_connections, .range = {1, 1'000'000}},
    {.name = "request_timeout_s",
     .member = &ServerConfig::request_timeout_s,
     .range = {0, 1'000'000}},
    {.name = "max_model_bytes",
     .member = &ServerConfig::max_model_bytes,
     .range = {1, 1'000'000 * kBillion}},
    {.name = "drain_timeout_s", .member = &ServerConfig::drain_timeout_s, .range = {0, 1'000'000}},
    {.name = "tls_certificate_file",
     .member = &ServerConfig::tls_certificate_file,
     .is_file = true},
    {.name = "tls_key_file", .member = &ServerConfig::tls_key_file, .is_file = true},
    {.name = "log_level", .member = &ServerConfig::log_level, .words = kLogLevels},
    {.name = "log_contents", .member = &ServerConfig::log_contents},
    {.name = "store", .member = &ServerConfig::store, .is_file = true},
    {.name = "store_max_bytes",
     .member = &ServerConfig::store_max_bytes,
     .range = {1, 1'000 * kBillion}},
    {.name = "store_ttl_s", .member = &ServerConfig::store_ttl_s, .range = {0, 100 * kBillion}},
    {.name = "sessions", .member = &ServerConfig::sessions, .is_file = true},
    {.name = "keep_sessions", .member = &ServerConfig::keep_sessions},
    {.name = "sessions_max_bytes",
     .member = &ServerConfig::sessions_max_bytes,
     .range = {1, 1'000 * kBillion}},
    {.name = "sessions_ttl_s",
     .member = &ServerConfig::sessions_ttl_s,
     .range = {1, 100 * kBillion}},
    {.name = "record", .member = &ServerConfig::record, .is_file = true},
    {.name = "record_max_mb", .member = &ServerConfig::record_max_mb, .range = {1, kBillion}},
    {.name = "record_days", .member = &ServerConfig::record_days, .range = {1, 36'500}},
    {.name = "inspectors", .member = &ServerConfig::inspectors},
    {.name = "record_logprobs", .member = &ServerConfig::record_logprobs, .range = {0, 20}},
    {.name = "mcp_allow", .member = &ServerConfig::mcp_allow},
    {.name = "mcp_allow_private", .member = &ServerConfig::mcp_allow_private},
    {.name = "audit_log", .member = &ServerConfig::audit_log, .is_file = true},
    {.name = "crash_dir", .member = &ServerConfig::crash_dir, .is_file = true},
    {.name = "crash_reports", .member = &ServerConfig::crash_reports},
    {.name = "max_recursive_runs", .member = &ServerConfig::max_recursive_runs, .range = {1, 4096}},
    {.name = "recursive_pairs", .member = &ServerConfig::recursive_pairs},
    {.name = "recursive_pairs_like", .member = &ServerConfig::recursive_pairs_like},
    {.name = "repl_python", .member = &ServerConfig::repl_python, .is_file = true},
    {.name = "repl_packages", .member = &ServerConfig::repl_packages},
    {.name = "repl_folder_mb", .member = &ServerConfig::repl_folder_mb, .range = {0, 65'536}},
    {.name = "repl_memory_mb", .member = &ServerConfig::repl_memory_mb, .range = {64, 1'048'576}},
};

const Key<telemetry::Chosen> kTelemetryKeys[] = {
    {.name = "endpoint", .member = &telemetry::Chosen::endpoint},
    {.name = "headers", .member = &telemetry::Chosen::headers},
    {.name = "service_name", .member = &telemetry::Chosen::service_name, .may_be_empty = false},
    {.name = "resource", .member = &telemetry::Chosen::resource},
    {.name = "sampler", .member = &telemetry::Chosen::sampler, .words = telemetry::kSamplers},
    {.name = "sampler_arg", .member = &telemetry::Chosen::sampler_arg},
    {.name = "contents", .member = &telemetry::Chosen::contents},
    {.name = "traces", .member = &telemetry::Chosen::traces},
    {.name = "metrics", .member = &telemetry::Chosen::metrics},
    {.name = "metrics_interval_s",
     .member = &telemetry::Chosen::metrics_interval_s,
     .range = {1, 86'400}},
};

// The order matters: the lists below are parts of this one, by their places.
constexpr std::string_view kEngines[] = {"llama",  "llama-server", "vllm", "sglang",
                                         "ollama", "openai",       "exo",  "rlm"};
constexpr std::span kEmbedded = std::span(kEngines).first<1>();
constexpr std::span kUpstream = std::span(kEngines).subspan<1, 6>();
// Models that answer by themselves, and recursive models, which run over those.
constexpr std::span kSingle = std::span(kEngines).first<7>();
constexpr std::span kRecursive = std::span(kEngines).subspan<7>();
// Upstreams whose tokenizer may be a file on this machine, and those for which it must be one.
constexpr std::span kTokenizedHere = std::span(kEngines).subspan<1, 4>();
constexpr std::span kTokenServers = std::span(kEngines).subspan<2, 3>();
// Upstreams that serve several models.
constexpr std::span kNamingServers = std::span(kEngines).subspan<2, 5>();
// Engines for which we render the chat template.
constexpr std::span kPrompted = std::span(kEngines).first<5>();
// Where EXO listens by default.
constexpr std::string_view kExoUrl = "http://127.0.0.1:52415";
constexpr std::string_view kSizedContexts[] = {"llama", "ollama"};
constexpr std::string_view kArgumentOrders[] = {"schema", "any"};
constexpr std::string_view kOtherForms[] = {"auto", "always", "off"};
constexpr std::string_view kRepeatedCalls[] = {"auto", "keep", "drop"};
constexpr std::string_view kReasoning[] = {"auto", "on", "off"};
constexpr std::string_view kOnUnknownTool[] = {"content", "repair", "forward"};
constexpr std::string_view kOnInvalidCall[] = {"pass", "ask_again"};
constexpr std::string_view kToolSearch[] = {"request", "auto", "off"};
constexpr std::string_view kExecute[] = {"client", "server"};
constexpr std::string_view kApprove[] = {"never", "always", "by_annotation"};
constexpr std::string_view kLoadTimes[] = {"start", "first_use"};
constexpr std::string_view kLoopPolicies[] = {"tell", "stop"};
constexpr std::string_view kBounds[] = {"default", "none"};
constexpr std::string_view kFlashAttention[] = {"auto", "on", "off"};

// check_model() refuses a key whose engines do not include the model's.
const Key<ModelConfig> kModelKeys[] = {
    {.name = "name", .member = &ModelConfig::name},
    {.name = "alias", .member = &ModelConfig::aliases},
    {.name = "engine", .member = &ModelConfig::engine},
    {.name = "path", .member = &ModelConfig::path, .is_file = true, .engines = kEmbedded},
    {.name = "url", .member = &ModelConfig::urls, .engines = kUpstream, .may_be_one = true},
    {.name = "api_key_env", .member = &ModelConfig::api_key_env, .engines = kUpstream},
    {.name = "silence_limit_s",
     .member = &ModelConfig::silence_limit_s,
     .range = {1, 86'400},
     .engines = kUpstream},
    {.name = "upstream_model", .member = &ModelConfig::upstream_model, .engines = kNamingServers},
    {.name = "tokenizer",
     .member = &ModelConfig::tokenizer,
     .is_file = true,
     .engines = kTokenizedHere},
    {.name = "chat_template",
     .member = &ModelConfig::chat_template,
     .is_file = true,
     .engines = kPrompted},
    {.name = "tool_call_format",
     .member = &ModelConfig::tool_call_format,
     .engines = kSingle,
     .definition = &ModelConfig::definition},
    {.name = "generic_fallback", .member = &ModelConfig::generic_fallback, .engines = kSingle},
    {.name = "other_forms",
     .member = &ModelConfig::other_forms,
     .engines = kSingle,
     .words = kOtherForms},
    {.name = "repeated_calls",
     .member = &ModelConfig::repeated_calls,
     .engines = kSingle,
     .words = kRepeatedCalls},
    {.name = "reasoning",
     .member = &ModelConfig::reasoning,
     .engines = kPrompted,
     .words = kReasoning},
    {.name = "on_unknown_tool",
     .member = &ModelConfig::on_unknown_tool,
     .engines = kSingle,
     .words = kOnUnknownTool},
    {.name = "on_invalid_call",
     .member = &ModelConfig::on_invalid_call,
     .engines = kSingle,
     .words = kOnInvalidCall},
    {.name = "execute", .member = &ModelConfig::execute, .engines = kSingle, .words = kExecute},
    {.name = "tools", .member = &ModelConfig::tools, .is_file = true, .engines = kSingle},
    {.name = "mcp", .member = &ModelConfig::mcp, .is_file = true, .engines = kSingle},
    {.name = "max_tool_rounds",
     .member = &ModelConfig::max_tool_rounds,
     .range = {1, 100},
     .engines = kSingle},
    {.name = "approve", .member = &ModelConfig::approve, .engines = kSingle, .words = kApprove},
    {.name = "approve_always", .member = &ModelConfig::approve_always, .engines = kSingle},
    {.name = "approve_never", .member = &ModelConfig::approve_never, .engines = kSingle},
    {.name = "tool_search",
     .member = &ModelConfig::tool_search,
     .engines = kSingle,
     .words = kToolSearch},
    {.name = "tool_search_from",
     .member = &ModelConfig::tool_search_from,
     .range = {1, 100'000},
     .engines = kSingle},
    {.name = "code_execution", .member = &ModelConfig::code_execution, .engines = kSingle},
    {.name = "code_max_calls",
     .member = &ModelConfig::code_max_calls,
     .range = {1, 10'000},
     .engines = kSingle},
    {.name = "code_timeout_s",
     .member = &ModelConfig::code_timeout_s,
     .range = {1, 600},
     .engines = kSingle},
    {.name = "code_max_bytes",
     .member = &ModelConfig::code_max_bytes,
     .range = {1024, 64 << 20},
     .engines = kSingle},
    {.name = "code_output_chars",
     .member = &ModelConfig::code_output_chars,
     .range = {100, 200'000},
     .engines = kSingle},
    {.name = "code_calls", .member = &ModelConfig::code_calls, .engines = kSingle},
    {.name = "remember_results", .member = &ModelConfig::remember_results, .engines = kSingle},
    {.name = "tool_timeout_s",
     .member = &ModelConfig::tool_timeout_s,
     .range = {1, 86'400},
     .engines = kSingle},
    {.name = "argument_order",
     .member = &ModelConfig::argument_order,
     .engines = kEmbedded,
     .words = kArgumentOrders},
    {.name = "normalize", .member = &ModelConfig::normalize, .engines = kSingle},
    {.name = "repair_rules",
     .member = &ModelConfig::repair_rules,
     .is_file = true,
     .engines = kSingle},
    {.name = "close_calls", .member = &ModelConfig::close_calls, .engines = kEmbedded},
    {.name = "bounds", .member = &ModelConfig::bounds, .engines = kEmbedded, .words = kBounds},
    {.name = "context_tokens",
     .member = &ModelConfig::context_tokens,
     .range = {16, kBillion},
     .engines = kSizedContexts},
    {.name = "max_concurrent",
     .member = &ModelConfig::max_concurrent,
     .range = {1, 4096},
     .engines = kEmbedded},
    {.name = "queue_limit",
     .member = &ModelConfig::queue_limit,
     .range = {0, 1'000'000},
     .engines = kEmbedded},
    {.name = "threads", .member = &ModelConfig::threads, .range = {1, 4096}, .engines = kEmbedded},
    {.name = "gpu_layers",
     .member = &ModelConfig::gpu_layers,
     .range = {-1, 100'000},
     .engines = kEmbedded},
    {.name = "flash_attn",
     .member = &ModelConfig::flash_attn,
     .engines = kEmbedded,
     .words = kFlashAttention},
    {.name = "cache_type_k",
     .member = &ModelConfig::cache_type_k,
     .engines = kEmbedded,
     .words = engine::kCacheTypeNames},
    {.name = "cache_type_v",
     .member = &ModelConfig::cache_type_v,
     .engines = kEmbedded,
     .words = engine::kCacheTypeNames},
    {.name = "rpc", .member = &ModelConfig::rpc, .engines = kEmbedded},
    {.name = "load", .member = &ModelConfig::load, .engines = kSingle, .words = kLoadTimes},
    {.name = "max_tokens",
     .member = &ModelConfig::max_tokens,
     .range = {1, kBillion},
     .engines = kSingle},
    {.name = "max_reasoning_tokens",
     .member = &ModelConfig::max_reasoning_tokens,
     .range = {-1, kBillion},
     .engines = kSingle},
    {.name = "max_calls",
     .member = &ModelConfig::max_calls,
     .range = {0, kBillion},
     .engines = kSingle},
    {.name = "on_loop",
     .member = &ModelConfig::on_loop,
     .engines = kSingle,
     .words = kLoopPolicies},
    {.name = "price_input", .member = &ModelConfig::price_input, .engines = kSingle},
    {.name = "price_output", .member = &ModelConfig::price_output, .engines = kSingle},
    {.name = "price_cached_input", .member = &ModelConfig::price_cached_input, .engines = kSingle},
    {.name = "root", .member = &ModelConfig::root, .engines = kRecursive},
    {.name = "sub", .member = &ModelConfig::sub, .engines = kRecursive},
    {.name = "max_iterations",
     .member = &ModelConfig::max_iterations,
     .range = {1, 10'000},
     .engines = kRecursive},
    {.name = "max_depth",
     .member = &ModelConfig::max_depth,
     .range = {1, 16},
     .engines = kRecursive},
    {.name = "max_sub_calls",
     .member = &ModelConfig::max_sub_calls,
     .range = {0, kBillion},
     .engines = kRecursive},
    {.name = "max_concurrent_sub_calls",
     .member = &ModelConfig::max_concurrent_sub_calls,
     .range = {1, 1024},
     .engines = kRecursive},
    {.name = "max_total_tokens",
     .member = &ModelConfig::max_total_tokens,
     .range = {1, 1'000 * kBillion},
     .engines = kRecursive},
    {.name = "max_cost", .member = &ModelConfig::max_cost, .engines = kRecursive},
    {.name = "compact_at",
     .member = &ModelConfig::compact_at,
     .range = {0, 1},
     .engines = kRecursive},
    {.name = "max_errors",
     .member = &ModelConfig::max_errors,
     .range = {1, 10'000},
     .engines = kRecursive},
    {.name = "max_time_s",
     .member = &ModelConfig::max_time_s,
     .range = {1, 1'000'000},
     .engines = kRecursive},
    {.name = "cell_timeout_s",
     .member = &ModelConfig::cell_timeout_s,
     .range = {1, 100'000},
     .engines = kRecursive},
    {.name = "trajectory_dir",
     .member = &ModelConfig::trajectory_dir,
     .is_file = true,
     .engines = kRecursive},
    {.name = "unsafe_local", .member = &ModelConfig::unsafe_local, .engines = kRecursive},
};

// `"a" or "b" or "c"`
std::string listed(std::span<const std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) {
    list += (list.empty() ? "\"" : " or \"") + std::string(word) + '"';
  }
  return list;
}

class Reader {
 public:
  Reader(const toml::Document& document, std::string_view folder)
      : document_(document), folder_(folder) {}

  Expected<Config> run() const;

 private:
  Unexpected fail(Errc code, toml::Position position, std::string_view message) const;
  template <class Table>
  Status read_table(const toml::Table& from, std::span<const Key<Table>> keys,
                    std::string_view where, Table& out) const;
  template <class Table>
  Status read_value(const toml::Value& value, const Key<Table>& key, const std::string& path,
                    Table& out) const;
  Status read_models(const toml::Value& value, std::vector<ModelConfig>& models) const;
  Status check_model(const toml::Value& value, const ModelConfig& model) const;
  Status read_telemetry(const toml::Value& value, telemetry::Chosen& out) const;
  Status check_pairs(const Config& config) const;
  Status check_parts(const toml::Value& value, const ModelConfig& model,
                     const std::vector<ModelConfig>& all) const;
  Status check_names(const toml::Value& value, const ModelConfig& model,
                     std::vector<std::string>& taken) const;

  const toml::Document& document_;
  const std::string_view folder_;
};

Unexpected Reader::fail(Errc code, toml::Position position, std::string_view message) const {
  return Unexpected(Error{code, document_.error(position, message).message});
}

template <class Table>
const Key<Table>* find_key(std::span<const Key<Table>> keys, std::string_view name) {
  const auto key = std::ranges::find(keys, name, &Key<Table>::name);
  return key == keys.end() ? nullptr : &*key;
}

template <class Table>
Status Reader::read_table(const toml::Table& from, std::span<const Key<Table>> keys,
                          std::string_view where, Table& out) const {
  for (const toml::Entry& entry : from.entries()) {
    const std::string path = std::string(where) + "." + entry.key;
    if (const Key<Table>* key = find_key(keys, entry.key)) {
      if (Status read = read_value(entry.value, *key, path, out); !read) return read;
      continue;
    }
    const toml::Position position = entry.value.position();
    std::string known;
    for (const Key<Table>& key : keys) known += (known.empty() ? "" : ", ") + std::string(key.name);
    return fail(Errc::invalid, position, "unknown key " + path + " (known: " + known + ")");
  }
  return {};
}

// The row of a key says which member it sets and what the value must be, so a new key is a row and
// needs no code here. Every refusal names the line.
template <class Table>
Status Reader::read_value(const toml::Value& value, const Key<Table>& key, const std::string& path,
                          Table& out) const {
  if (key.definition != nullptr && value.if_table() != nullptr) {
    auto format = format::compile(document_, *value.if_table(), value.position());
    if (!format) return Unexpected(format.error());
    out.*key.definition = *std::move(format);
  } else if (const auto* text = std::get_if<std::string Table::*>(&key.member)) {
    const std::string* found = value.if_string();
    if (found == nullptr) {
      return fail(Errc::invalid, value.position(),
                  path + (key.definition == nullptr ? " must be a string"
                                                    : " must be a string or a table"));
    }
    if (!key.words.empty() && std::ranges::find(key.words, *found) == key.words.end()) {
      return fail(Errc::invalid, value.position(), path + " must be " + listed(key.words));
    }
    if (found->empty() && !key.may_be_empty) {
      return fail(Errc::invalid, value.position(),
                  path + " must not be empty: leave the key out instead");
    }
    // A path is relative to the file's folder; a name like "hf:org/model" stays as it is.
    const bool is_file = key.is_file && !hub::is_model_name(*found);
    out.*(*text) = is_file ? resolved(*found, folder_) : *found;
  } else if (const auto* number = std::get_if<std::int64_t Table::*>(&key.member)) {
    const std::int64_t* found = value.if_integer();
    if (found == nullptr || *found < key.range.least || *found > key.range.most) {
      return fail(Errc::invalid, value.position(),
                  path + " must be an integer from " + std::to_string(key.range.least) + " to " +
                      std::to_string(key.range.most));
    }
    out.*(*number) = *found;
  } else if (const auto* flag = std::get_if<bool Table::*>(&key.member)) {
    const bool* found = value.if_boolean();
    if (found == nullptr) {
      return fail(Errc::invalid, value.position(), path + " must be true or false");
    }
    out.*(*flag) = *found;
  } else if (const auto* amount = std::get_if<double Table::*>(&key.member)) {
    const double* fraction = value.if_floating();
    const std::int64_t* whole = value.if_integer();
    const double found = fraction != nullptr ? *fraction
                         : whole != nullptr  ? static_cast<double>(*whole)
                                             : -1.0;
    const bool is_bounded = key.range.most > 0;
    const double most = is_bounded ? static_cast<double>(key.range.most) : kMostMoney;
    // NaN fails every comparison, so the condition asks for what is right.
    if (!(found >= 0) || found > most) {
      return fail(Errc::invalid, value.position(),
                  path + " must be a number from 0 to " +
                      (is_bounded ? std::to_string(key.range.most) : "1e9"));
    }
    out.*(*amount) = found;
  } else {
    const auto list = std::get<std::vector<std::string> Table::*>(key.member);
    // `url = "http://a"` is short for `url = ["http://a"]`.
    if (key.may_be_one && value.if_string() != nullptr) {
      (out.*list).push_back(*value.if_string());
      return {};
    }
    const std::string wanted =
        path + " must be " + (key.may_be_one ? "a string, or " : "") + "a list of strings";
    const toml::Array* items = value.if_array();
    if (items == nullptr) return fail(Errc::invalid, value.position(), wanted);
    for (const toml::Value& item : *items) {
      if (item.if_string() == nullptr) return fail(Errc::invalid, item.position(), wanted);
      (out.*list).push_back(key.is_file ? resolved(*item.if_string(), folder_) : *item.if_string());
    }
  }
  return {};
}

// What the keys of one model must be together. A key that belongs to another kind of engine is
// refused: its author expects something that would not happen.
Status Reader::check_model(const toml::Value& value, const ModelConfig& model) const {
  const toml::Position position = value.position();
  if (model.name.empty()) return fail(Errc::invalid, position, "model.name is missing");
  const auto is_one_of = [&model](std::span<const std::string_view> engines) {
    return std::ranges::find(engines, model.engine) != engines.end();
  };
  if (!is_one_of(kEngines)) {
    return fail(Errc::unsupported, position,
                "model.engine = \"" + model.engine + "\" is not supported yet: it must be " +
                    listed(kEngines) + ", of which \"llama\" is the embedded engine");
  }
  for (const toml::Entry& entry : value.if_table()->entries()) {
    // Every entry has a row: read_table() has refused all others.
    const auto engines = find_key<ModelConfig>(kModelKeys, entry.key)->engines;
    if (engines.empty() || is_one_of(engines)) continue;
    return fail(Errc::invalid, entry.value.position(),
                "model." + entry.key + " belongs to engine = " + listed(engines) + ", and '" +
                    model.name + "' has engine = \"" + model.engine +
                    "\": remove the key, or change the engine");
  }
  if (is_one_of(kEmbedded) && model.path.empty()) {
    return fail(Errc::invalid, position,
                "model.path is missing: the GGUF file of '" + model.name + "'");
  }
  if (is_one_of(kTokenServers) && model.tokenizer.empty()) {
    return fail(Errc::invalid, position,
                "model.tokenizer is missing: the tokenizer.json of '" + model.name +
                    "', the folder that has it, or a GGUF file");
  }
  if (is_one_of(kUpstream) && model.urls.empty()) {
    return fail(Errc::invalid, position,
                "model.url is missing: where the engine of '" + model.name +
                    "' listens, like \"http://127.0.0.1:8081\"");
  }
  // The two ways of being wrong: tools that would never run, and a wish to run tools without any.
  const bool has_tools = !model.tools.empty() || !model.mcp.empty();
  if (has_tools != (model.execute == "server")) {
    return fail(Errc::invalid, position,
                has_tools ? "model.tools and model.mcp of '" + model.name +
                                "' need execute = \"server\": the server runs these tools"
                          : "model.execute of '" + model.name +
                                "' is \"server\": name the tools that it runs, with tools = FILE "
                                "or mcp = FILE");
  }
  for (const auto& [key, file] : {std::pair("tools", &model.tools), std::pair("mcp", &model.mcp)}) {
    std::error_code failed;
    if (file->empty() || std::filesystem::exists(*file, failed)) continue;
    if (!failed) failed = std::make_error_code(std::errc::no_such_file_or_directory);
    return fail(Errc::invalid, value.if_table()->find(key)->position(),
                "model." + std::string(key) + " of '" + model.name + "': " + *file + ": " +
                    failed.message());
  }
  const bool asks_approval =
      model.approve != "never" || !model.approve_always.empty() || !model.approve_never.empty();
  if (asks_approval && !has_tools) {
    return fail(Errc::invalid, position,
                "model.approve of '" + model.name +
                    "' is about tools that the server runs: name them, with execute = \"server\" "
                    "and tools = FILE or mcp = FILE");
  }
  if (!model.code_calls.empty() && !(model.code_execution && has_tools)) {
    return fail(Errc::invalid, position,
                "model.code_calls of '" + model.name +
                    "' are tools of the server that code may call: set code_execution = true, and "
                    "execute = \"server\" with tools = FILE or mcp = FILE");
  }
  if (is_one_of(kRecursive) && model.root.empty()) {
    return fail(Errc::invalid, position,
                "model.root is missing: the name of the model that leads '" + model.name + "'");
  }
  for (const std::string& url : model.urls) {
    if (const auto read = http::parse_url(url); !read) {
      return fail(Errc::invalid, position,
                  "model.url of '" + model.name + "': \"" + url + "\" is " + read.error().message);
    }
    if (std::ranges::count(model.urls, url) > 1) {
      return fail(Errc::invalid, position,
                  "model.url of '" + model.name + "' has " + url + " twice");
    }
  }
  if (model.urls.size() > engine::Balancer::kMaxServers) {
    return fail(Errc::limit_exceeded, position,
                "model.url of '" + model.name + "' has more than " +
                    std::to_string(engine::Balancer::kMaxServers) + " servers");
  }
  return {};
}

// Refuses a name or alias that is given twice, before any model is loaded.
Status Reader::check_names(const toml::Value& value, const ModelConfig& model,
                           std::vector<std::string>& taken) const {
  std::vector<std::string> names = model.aliases;
  names.push_back(model.name);
  for (const std::string& name : names) {
    if (std::ranges::find(taken, name) == taken.end()) continue;
    return fail(Errc::invalid, value.position(), "the model name '" + name + "' is given twice");
  }
  taken.insert(taken.end(), names.begin(), names.end());
  return {};
}

// References to other models are checked after all are read, so their order in the file does not
// matter.
Status Reader::read_models(const toml::Value& value, std::vector<ModelConfig>& models) const {
  const toml::Array* items = value.if_array();
  if (items == nullptr) {
    return fail(Errc::invalid, value.position(), "models are written [[model]], with two brackets");
  }
  std::vector<std::string> taken;
  for (const toml::Value& item : *items) {
    const toml::Table* table = item.if_table();
    if (table == nullptr) {
      return fail(Errc::invalid, item.position(), "a [[model]] must be a table");
    }
    ModelConfig& model = models.emplace_back();
    if (Status read = read_table<ModelConfig>(*table, kModelKeys, "model", model); !read) {
      return read;
    }
    if (model.engine == "exo" && model.urls.empty()) model.urls.emplace_back(kExoUrl);
    if (Status checked = check_model(item, model); !checked) return checked;
    if (Status checked = check_names(item, model, taken); !checked) return checked;
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (Status checked = check_parts((*items)[i], models[i], models); !checked) return checked;
  }
  return {};
}

// The root and the sub of a recursive model must be models of this file that are not recursive.
Status Reader::check_parts(const toml::Value& value, const ModelConfig& model,
                           const std::vector<ModelConfig>& all) const {
  for (const std::string& part : {model.root, model.sub}) {
    if (part.empty()) continue;
    const bool is_there = std::ranges::any_of(all, [&](const ModelConfig& each) {
      return each.engine != "rlm" &&
             (each.name == part || std::ranges::find(each.aliases, part) != each.aliases.end());
    });
    if (is_there) continue;
    return fail(Errc::invalid, value.position(),
                "'" + model.name + "' is made of the model '" + part +
                    "', but there is no such model that could answer by itself");
  }
  return {};
}

Expected<Config> Reader::run() const {
  Config config;
  for (const toml::Entry& entry : document_.root.entries()) {
    const toml::Value& value = entry.value;
    Status read;
    if (entry.key == "model") {
      read = read_models(value, config.models);
    } else if (entry.key == "telemetry") {
      read = value.if_table() == nullptr
                 ? fail(Errc::invalid, value.position(), "telemetry must be a table: [telemetry]")
                 : read_telemetry(value, config.telemetry);
    } else if (entry.key != "server") {
      const bool is_table = value.if_table() != nullptr || value.if_array() != nullptr;
      read = fail(Errc::invalid, value.position(),
                  std::string("unknown ") + (is_table ? "table " : "key ") + entry.key +
                      " (known: [server], [telemetry], [[model]])");
    } else if (value.if_table() == nullptr) {
      read = fail(Errc::invalid, value.position(), "server must be a table: [server]");
    } else {
      read = read_table<ServerConfig>(*value.if_table(), kServerKeys, "server", config.server);
    }
    if (!read) return Unexpected(std::move(read.error()));
  }
  if (Status checked = check_pairs(config); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  if (const auto allowed = mcp::AllowList::read(config.server.mcp_allow); !allowed) {
    const toml::Value& server = *document_.root.find("server");  // exists, since it has the key
    const Status why =
        fail(Errc::invalid, server.position(), "server.mcp_allow: " + allowed.error().message);
    return Unexpected(why.error());
  }
  // What [server] says for all models is copied into each, since a model is loaded from its own
  // ModelConfig alone, and a reload compares these.
  set_calls_servers(config);
  for (ModelConfig& model : config.models) model.audit_log = config.server.audit_log;
  return config;
}

Status Reader::read_telemetry(const toml::Value& value, telemetry::Chosen& out) const {
  if (Status read =
          read_table<telemetry::Chosen>(*value.if_table(), kTelemetryKeys, "telemetry", out);
      !read) {
    return read;
  }
  if (out.sampler_arg > 1) {
    return fail(Errc::invalid, value.position(),
                "telemetry.sampler_arg must be a number from 0 to 1");
  }
  // Wrong addresses and headers are told before a model is loaded. Without the environment, which
  // counts when the service starts.
  const auto settings = telemetry::settings_of(out, [](const char*) { return nullptr; });
  if (!settings) return fail(settings.error().code, value.position(), settings.error().message);
  return {};
}

// server.recursive_pairs_like lends its settings to pairs, so it must be a recursive model.
Status Reader::check_pairs(const Config& config) const {
  const std::string& like = config.server.recursive_pairs_like;
  const auto is_it = [&](const ModelConfig& one) {
    return one.engine == "rlm" && one.name == like;
  };
  if (like.empty() || std::ranges::any_of(config.models, is_it)) return {};
  const toml::Value& server = *document_.root.find("server");  // exists, since `like` is set
  return fail(Errc::invalid, server.position(),
              "server.recursive_pairs_like names '" + like +
                  "', but there is no recursive model of that name");
}

}  // namespace

Expected<Config> parse_config(std::string_view text, std::string_view source,
                              std::string_view folder) {
  const auto document = toml::parse(text, source);
  if (!document) return Unexpected(document.error());
  return Reader(*document, folder).run();
}

void set_calls_servers(Config& config) {
  for (ModelConfig& model : config.models) {
    model.calls_servers = !config.server.mcp_allow.empty() && model.engine != "rlm";
  }
}

Expected<Config> read_config(const std::string& path) {
  const Expected<std::string> text = read_file(path);
  if (!text) return at_fault(text.error());
  auto config = parse_config(*text, path, std::filesystem::path(path).parent_path().string());
  if (config) config->text = *text;
  return config;
}

}  // namespace tenon::config
