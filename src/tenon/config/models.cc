#include "tenon/config/models.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/audit.h"
#include "tenon/chat/model_pair.h"
#include "tenon/chat/second_try.h"
#include "tenon/chat/server_tools.h"
#include "tenon/chat/toolbox.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/config/model_format.h"
#include "tenon/config/model_template.h"
#include "tenon/config/tools.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/upstream/chat_server.h"
#include "tenon/engine/upstream/llama_server.h"
#include "tenon/engine/upstream/ollama.h"
#include "tenon/engine/upstream/pool.h"
#include "tenon/engine/upstream/token_server.h"
#include "tenon/repair/rules.h"
#include "tenon/rlm/code_interpreter.h"
#include "tenon/vocab/tokenizer_file.h"

// How a model is made from its table
//
// load_model() takes four steps. located() replaces a name of the hub or of Ollama by a file, which
// it fetches if needed. model_options() reads what is cheap and may be wrong in the configuration:
// template, format, repair rules. load_engine() then loads the weights or connects to the upstream,
// which takes long; for an upstream, connector() chooses the kind of server and connect_pool()
// joins several servers of one model. make_model() puts both together and adds the wrappers that
// the configuration asks for: a second try for invalid calls, tools that run on the server. The
// server does not call it directly: model_source() gives the registry a function that loads the
// model when it is asked for, and how much memory that takes. Recursive models have no engine: they
// are made over the registry's models, by name, when they run (make_host, recursive_options).

namespace tenon::config {
namespace {

engine::FlashAttention flash_attention_of(std::string_view word) {
  if (word == "on") return engine::FlashAttention::on;
  return word == "off" ? engine::FlashAttention::off : engine::FlashAttention::automatic;
}

// The enumerators are in the order of the names, which config.cc has checked.
engine::CacheType cache_type_of(std::string_view name) {
  const auto* const found = std::ranges::find(engine::kCacheTypeNames, name);
  return static_cast<engine::CacheType>(found - std::begin(engine::kCacheTypeNames));
}

// 0 and -1 in the configuration mean that the engine decides.
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

// Connects to one of a model's servers. The pool calls it again after a server was away, so it owns
// all it needs.
using Connect =
    std::function<Expected<std::unique_ptr<engine::Engine>>(engine::ServerAddress server)>;

// An upstream whose model has its tokenizer, and perhaps its template, in files on this machine.
Expected<Connect> connect_with_files(const ModelConfig& config) {
  const std::filesystem::path files = config.tokenizer;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(files, ignored);
  auto tokenizer = vocab::load_tokenizer(is_folder ? files / "tokenizer.json" : files);
  if (!tokenizer) {
    return at_fault(tokenizer.error(), "model '" + config.name + "': ");
  }
  if (config.engine == "llama-server") {
    const engine::LlamaServerOptions options{.tokenizer = *std::move(tokenizer)};
    return [options](engine::ServerAddress server) {
      return engine::connect_llama_server(std::move(server), options);
    };
  }
  // Without a template here the model gets the plain one, which is logged.
  std::string chat_template;
  const bool is_gguf = files.extension() == ".gguf";
  if (const auto found = template_of(is_gguf ? config.tokenizer : folder_of(config.tokenizer))) {
    chat_template = found->source;
  }
  if (config.engine == "ollama") {
    const engine::OllamaOptions options{
        .model = config.upstream_model,
        .tokenizer = *std::move(tokenizer),
        .chat_template = std::move(chat_template),
        .context_tokens = static_cast<std::uint32_t>(config.context_tokens)};
    return [options](engine::ServerAddress server) {
      return engine::connect_ollama(std::move(server), options);
    };
  }
  const engine::TokenServerOptions options{.dialect = config.engine == "vllm"
                                                          ? engine::TokenDialect::vllm
                                                          : engine::TokenDialect::sglang,
                                           .model = config.upstream_model,
                                           .tokenizer = *std::move(tokenizer),
                                           .chat_template = std::move(chat_template)};
  return [options](engine::ServerAddress server) {
    return engine::connect_token_server(std::move(server), options);
  };
}

// How to connect to one server of the model.
Expected<Connect> connector(const ModelConfig& config) {
  if (config.engine == "openai" || config.engine == "exo") {
    const engine::ChatServerOptions options{
        .dialect = config.engine == "exo" ? engine::ChatDialect::exo : engine::ChatDialect::openai,
        .model = config.upstream_model};
    return [options](engine::ServerAddress server) {
      return engine::connect_chat_server(std::move(server), options);
    };
  }
  if (!config.tokenizer.empty()) return connect_with_files(config);
  return
      [](engine::ServerAddress server) { return engine::connect_llama_server(std::move(server)); };
}

Expected<std::unique_ptr<engine::Engine>> connect(const ModelConfig& config) {
  if (config.engine == "llama") {
    auto engine = engine::LlamaEngine::load(llama_options(config));
    if (!engine) return unavailable(engine.error().message);
    return *std::move(engine);
  }
  engine::ServerAddress address{.silence_limit = std::chrono::seconds(config.silence_limit_s)};
  if (!config.api_key_env.empty()) {
    const char* found = std::getenv(config.api_key_env.c_str());
    if (found == nullptr) {
      return invalid("model '" + config.name + "': the environment has no variable " +
                     config.api_key_env);
    }
    address.api_key = found;
    // Errors name the variable and never the key.
    address.key_place = "the key in " + config.api_key_env;
  }
  const auto connect_one = connector(config);
  if (!connect_one) return Unexpected(connect_one.error());
  // The servers of a model share key, options and limits; only the addresses differ.
  std::vector<engine::PoolServer> servers;
  servers.reserve(config.urls.size());
  for (const std::string& url : config.urls) {
    address.url = url;
    servers.push_back({url, [address, connect = *connect_one] { return connect(address); }});
  }
  auto engine = engine::connect_pool(std::move(servers));
  if (!engine) {
    const std::string message = "model '" + config.name + "': " + engine.error().message;
    return engine.error().code == Errc::invalid ? invalid(message) : unavailable(message);
  }
  return *std::move(engine);
}

// Where the model is, for the log: its file, or the addresses of its servers.
std::string place_of(const ModelConfig& config) {
  std::string place = config.path;
  for (const std::string& url : config.urls) place += (place.empty() ? "" : ", ") + url;
  return place;
}

// EXO's variable is read, too, for the users of EXO (docs/requirements.md, section 000).
bool is_normalization_disabled() {
  return std::ranges::any_of(std::initializer_list<const char*>{"TENON_DISABLE_NORMALIZATION",
                                                                "EXO_DISABLE_NORMALIZATION"},
                             [](const char* name) {
                               const char* value = std::getenv(name);
                               return value != nullptr && *value != '\0' &&
                                      std::string_view(value) != "0";
                             });
}

// Null: arguments are not repaired. The file of the configuration replaces the built-in rules.
Expected<std::shared_ptr<const repair::Rules>> repair_rules(const ModelConfig& config) {
  if (is_normalization_disabled()) return nullptr;
  if (config.repair_rules.empty()) return repair::Rules::builtin();
  const auto text = read_file(config.repair_rules);
  if (!text) return at_fault(text.error());
  auto rules = repair::Rules::compile(*text, config.repair_rules);
  if (!rules) return at_fault(rules.error());
  return *std::move(rules);
}

message::Approvals approvals_of(const ModelConfig& config) {
  using Rule = message::Approvals::Rule;
  return {.rule = config.approve == "always"          ? Rule::always
                  : config.approve == "by_annotation" ? Rule::by_annotation
                                                      : Rule::never,
          .always = config.approve_always,
          .never = config.approve_never};
}

// Servers that requests name are slower than tools of our own, so more calls run at a time.
chat::Toolbox::Options toolbox_options(const ModelConfig& config) {
  chat::Toolbox::Options options{.time_limit = std::chrono::seconds(config.tool_timeout_s)};
  if (config.calls_servers) options.max_concurrent = 32;
  return options;
}

// Without tools of our own: it runs what servers of tools offer, or searches among the request's
// tools.
Expected<std::shared_ptr<chat::Toolbox>> hosted_toolbox(const ModelConfig& config) {
  return std::make_shared<chat::Toolbox>(toolbox_options(config));
}

// A misspelt name in a list of approvals has no effect, and the tool that it was to guard runs
// without a question; one in code_calls is of no function. Only here is it known which tools there
// are.
void warn_of_names(const ModelConfig& config, const chat::ToolSet& tools,
                   const std::string& tool_names, const chat::Toolbox& toolbox) {
  std::string there = " runs here; there are: " +
                      (tool_names.empty() ? "none" : std::string(log::content(tool_names)));
  for (const auto& [server, why] : toolbox.silent_sources()) {
    there += "; the server " + server + " has not told its tools";
  }
  using List = std::pair<std::string_view, const std::vector<std::string>*>;
  for (const auto& [key, names] :
       {List("approve_always", &config.approve_always),
        List("approve_never", &config.approve_never), List("code_calls", &config.code_calls)}) {
    for (const std::string& name : chat::names_of_no_tool(*names, tools)) {
      log::warn("model '" + config.name + "': no tool " + json::quoted(name) + " of " +
                std::string(key) + there);
    }
  }
  for (const std::string& name :
       chat::names_that_wait(config.code_calls, tools, approvals_of(config))) {
    log::warn(
        "model '" + config.name + "': code cannot call the tool " + json::quoted(name) +
        " of code_calls, since its calls wait for an approval: name it in approve_never alone");
  }
}

// Tool servers that cannot be reached now may be reachable later; slow ones are not waited for.
Expected<std::shared_ptr<chat::Toolbox>> server_toolbox(const ModelConfig& config) {
  constexpr std::chrono::seconds kStart{10};
  auto toolbox = std::make_shared<chat::Toolbox>(toolbox_options(config));
  const auto failed = [&config](const Error& why) {
    return Unexpected(Error{why.code, "model '" + config.name + "': " + why.message});
  };
  if (!config.tools.empty()) {
    const auto file = read_tools(config.tools);
    if (!file) return failed(file.error());
    if (std::ranges::any_of(file->commands, [](const auto& one) { return one.empty(); })) {
      return failed({Errc::invalid, config.tools +
                                        ": each tool needs a command, since the server is to "
                                        "run it"});
    }
    if (auto added = add_commands(*file, config.tools, *toolbox); !added) {
      return failed(added.error());
    }
  }
  if (!config.mcp.empty()) {
    const auto notes = add_servers(config.mcp, *toolbox, /*must_answer=*/false);
    if (!notes) return failed(notes.error());
    for (const std::string& note : *notes) log::warn(note);
  }
  std::string names;
  const chat::ToolSet tools =
      toolbox->tools({.deadline = std::chrono::steady_clock::now() + kStart});
  for (const message::Tool& tool : tools.list()) {
    names += (names.empty() ? "" : ", ") + tool.name;
  }
  log::info("model " + config.name + " runs these tools here: " +
            (names.empty() ? "none" : std::string(log::content(names))));
  warn_of_names(config, tools, names, *toolbox);
  return toolbox;
}

// Everything that can be read before the engine is loaded, which takes longer.
Expected<chat::ModelOptions> model_options(const ModelConfig& config,
                                           std::chrono::milliseconds time_limit) {
  chat::ModelOptions options{
      .name = config.name,
      .aliases = config.aliases,
      .format = config.tool_call_format,
      .generic_fallback = config.generic_fallback,
      .other_forms = config.other_forms != "off",
      .required_in_other_forms = config.other_forms == "always",
      .drops_repeats = config.repeated_calls == "auto"
                           ? std::nullopt
                           : std::optional<bool>(config.repeated_calls == "drop"),
      .reasoning =
          config.reasoning == "auto" ? std::nullopt : std::optional<bool>(config.reasoning == "on"),
      .default_max_tokens = static_cast<std::uint32_t>(config.max_tokens),
      .max_reasoning_tokens =
          config.max_reasoning_tokens < 0
              ? std::nullopt
              : std::optional(static_cast<std::uint32_t>(config.max_reasoning_tokens)),
      .max_calls = static_cast<std::uint32_t>(config.max_calls),
      .on_loop = config.on_loop == "stop" ? message::OnLoop::stop : message::OnLoop::tell,
      .bounds = config.bounds == "none" ? message::Bounds::none : message::Bounds::usual,
      .time_limit = time_limit,
      .normalize = config.normalize,
      .close_calls = config.close_calls,
      .prices = {.input = config.price_input,
                 .output = config.price_output,
                 .cached_input = config.price_cached_input < 0 ? config.price_input
                                                               : config.price_cached_input}};
  if (!config.chat_template.empty()) {
    auto source = read_file(config.chat_template);
    if (!source) return at_fault(source.error());
    options.chat_template = *std::move(source);
  }
  auto rules = repair_rules(config);
  if (!rules) return Unexpected(rules.error());
  options.repair_rules = *std::move(rules);
  // The folder of the weights or of the tokenizer has the files by which a model says how it calls.
  const std::string folder = folder_of(config.path.empty() ? config.tokenizer : config.path);
  // A definition in the configuration goes before the name of a format, and both before what the
  // model's files say.
  options.own_format = config.definition;
  if (options.own_format == nullptr) {
    auto declared = declared_format(folder, config.tool_call_format);
    if (!declared) {
      return at_fault(declared.error(), "model '" + config.name + "': ");
    }
    options.own_format = std::move(declared->format);
  }
  options.imported = imported_format(folder);
  if (config.engine != "llama-server") options.turn_ends = declared_ends(folder);
  options.begin_required_call = config.engine == "llama";
  if (config.on_unknown_tool == "repair") options.on_unknown_tool = chat::UnknownTool::repair;
  if (config.on_unknown_tool == "forward") options.on_unknown_tool = chat::UnknownTool::forward;
  if (config.argument_order == "any") options.argument_order = message::ArgumentOrder::any;
  return options;
}

// Null: the model runs no code. The sandbox is opened now, so that one that does not work here
// stops the start; without a host (a command that serves no clients) no code is run.
Expected<std::shared_ptr<chat::CodeInterpreter>> interpreter_of(
    const ModelConfig& config, const std::shared_ptr<rlm::Host>& host) {
  if (!config.code_execution || host == nullptr) return nullptr;
  const auto sandbox = host->sandbox();
  std::string why = sandbox ? "" : sandbox.error().message;
  if (sandbox && (*sandbox)->tier() == rlm::Tier::unsafe_local) why = (*sandbox)->why_no_better();
  if (!why.empty()) {
    return Unexpected(Error{Errc::unavailable, "model '" + config.name +
                                                   "': code_execution needs a sandbox, and none "
                                                   "works here: " +
                                                   why});
  }
  log::info("model " + config.name + " runs code, sandbox " + std::string(host->tier()) +
            ", Python " + (*sandbox)->interpreter().version);
  return rlm::make_code_interpreter(host);
}

Expected<std::shared_ptr<chat::Model>> make_model(const ModelConfig& config,
                                                  chat::ModelOptions options,
                                                  std::shared_ptr<engine::Engine> engine,
                                                  const std::shared_ptr<rlm::Host>& host) {
  const std::chrono::milliseconds time_limit = options.time_limit;
  auto model = chat::Model::create(std::move(options), std::move(engine));
  if (!model) return at_fault(model.error());
  if (const format::Format* format = (*model)->format()) {
    log::info(
        "Loaded tool parser " +
        json::dumps(json::Object{{"format", format::info(*format).name}, {"model", config.name}}));
  }
  std::shared_ptr<chat::Model> loaded = *std::move(model);
  if (config.on_invalid_call == "ask_again") {
    // The order of the wrappers matters: each round of tools is an answer that may have its second
    // try.
    loaded = chat::with_second_try(std::move(loaded), time_limit);
  }
  const bool runs_tools = config.execute != "client" || config.calls_servers;
  const bool searches = config.tool_search != "off";
  auto interpreter = interpreter_of(config, host);
  if (!interpreter) return Unexpected(std::move(interpreter.error()));
  if (!runs_tools && !searches && *interpreter == nullptr) return loaded;
  auto toolbox = config.execute == "client" ? hosted_toolbox(config) : server_toolbox(config);
  if (!toolbox) return Unexpected(std::move(toolbox.error()));
  // Only runs of tools are audited; a model that only searches among tools runs none of the
  // client's.
  auto audit = chat::AuditLog::open(runs_tools || *interpreter != nullptr ? config.audit_log : "");
  if (!audit) return at_fault(audit.error(), "server.audit_log: ");
  return chat::with_server_tools(
      std::move(loaded), *std::move(toolbox),
      {.remembers = config.remember_results,
       .max_rounds = static_cast<std::size_t>(config.max_tool_rounds),
       .time_limit = time_limit,
       .approvals = approvals_of(config),
       .search = {.is_on = searches,
                  .from = config.tool_search == "auto"
                              ? static_cast<std::size_t>(config.tool_search_from)
                              : 0},
       .hosts = config.calls_servers,
       .version = TENON_VERSION,
       .audit = *std::move(audit),
       .code = *std::move(interpreter),
       .code_limits = {.max_calls = static_cast<std::size_t>(config.code_max_calls),
                       .time_limit = std::chrono::seconds(config.code_timeout_s),
                       .max_output_chars = static_cast<std::size_t>(config.code_output_chars),
                       .max_bytes = static_cast<std::size_t>(config.code_max_bytes)},
       .code_calls = config.code_calls});
}

}  // namespace

Expected<std::shared_ptr<engine::Engine>> load_engine(const ModelConfig& config) {
  const auto local = located(config);
  if (!local) return Unexpected(local.error());
  auto engine = connect(*local);
  if (!engine) return Unexpected(engine.error());
  return std::shared_ptr<engine::Engine>(*std::move(engine));
}

Expected<std::shared_ptr<chat::Model>> load_model(const ModelConfig& config,
                                                  std::shared_ptr<engine::Engine> engine,
                                                  std::chrono::milliseconds time_limit) {
  const auto local = located(config);
  if (!local) return Unexpected(local.error());
  auto options = model_options(*local, time_limit);
  if (!options) return Unexpected(options.error());
  return make_model(*local, *std::move(options), std::move(engine), nullptr);
}

Expected<std::shared_ptr<chat::Model>> load_model(const ModelConfig& config,
                                                  std::chrono::milliseconds time_limit,
                                                  const std::shared_ptr<rlm::Host>& host) {
  const auto local = located(config);
  if (!local) return Unexpected(local.error());
  auto options = model_options(*local, time_limit);
  if (!options) return Unexpected(options.error());
  auto engine = load_engine(*local);
  if (!engine) return Unexpected(engine.error());
  return make_model(*local, *std::move(options), *std::move(engine), host);
}

namespace {

// "": sessions are kept in memory alone.
std::string sessions_file(const ServerConfig& server) {
  if (!server.keep_sessions) return {};
  if (!server.sessions.empty()) return server.sessions;
  const std::string folder = state_folder();
  return folder.empty() ? folder : folder + "/sessions.db";
}

const char* set_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

rlm::SandboxOptions sandbox_options(const Config& config) {
  const ServerConfig& server = config.server;
  return {.python = server.repl_python,
          .unsafe_local = std::ranges::any_of(config.models, &ModelConfig::unsafe_local),
          .packages = server.repl_packages,
          .folder_bytes = static_cast<std::uint64_t>(server.repl_folder_mb) << 20};
}

std::shared_ptr<rlm::Host> make_host(const Config& config) {
  const ServerConfig& server = config.server;
  return std::make_shared<rlm::Host>(rlm::HostOptions{
      .sandbox = sandbox_options(config),
      .worker = {.memory_bytes = static_cast<std::uint64_t>(server.repl_memory_mb) << 20},
      .max_runs = static_cast<std::size_t>(server.max_recursive_runs),
      .session_ttl = std::chrono::seconds(server.sessions_ttl_s),
      .store = sessions_file(server),
      .store_max_bytes = static_cast<std::uint64_t>(server.sessions_max_bytes)});
}

// The variable replaces what the configuration says, as a flag would.
Expected<std::optional<unsigned>> turns_of_environment() {
  const char* const turns = set_variable("RLM_MAX_ITERATIONS");
  if (turns == nullptr) return std::nullopt;
  const unsigned most = rlm::default_most().max_iterations;
  unsigned count = 0;
  const char* const end = turns + std::strlen(turns);
  const auto [rest, error] = std::from_chars(turns, end, count);
  if (error == std::errc() && rest == end && count >= 1 && count <= most) return count;
  return invalid("RLM_MAX_ITERATIONS is " + json::quoted(utf8::sanitized(turns)) +
                 " and is not taken: it must be a number from 1 to " + std::to_string(most));
}

rlm::RecursiveOptions recursive_options(const ModelConfig& config) {
  rlm::RecursiveOptions options{.name = config.name,
                                .aliases = config.aliases,
                                .root = config.root,
                                .sub = config.sub,
                                .most = rlm::default_most(),
                                .trajectory_dir = config.trajectory_dir,
                                .unsafe_local = config.unsafe_local};
  const auto turns = turns_of_environment();
  if (!turns) log::warn(turns.error().message);
  if (const char* const logging = set_variable("RLM_LOGGING")) {
    const std::string_view word = logging;
    options.logs_turns = word == "1" || word == "true" || word == "True" || word == "yes";
    if (!options.logs_turns && word != "0" && word != "false" && word != "False" && word != "no") {
      log::warn("RLM_LOGGING is neither true nor false, and is not taken");
    }
  }
  // A value of the configuration is the default of requests and also their upper bound.
  const auto set = [&](std::int64_t value, auto member) {
    if (value < 0) return;
    options.limits.*member = static_cast<std::decay_t<decltype(options.limits.*member)>>(value);
    options.most.*member = options.limits.*member;
  };
  const auto set_time = [&](std::int64_t value, auto member) {
    if (value < 0) return;
    options.limits.*member = options.most.*member = std::chrono::seconds(value);
  };
  using rlm::RunLimits;
  set(config.max_iterations, &RunLimits::max_iterations);
  if (turns && *turns) {
    options.limits.max_iterations = **turns;
    options.most.max_iterations = std::max(options.most.max_iterations, **turns);
  }
  set(config.max_depth, &RunLimits::max_depth);
  set(config.max_sub_calls, &RunLimits::max_sub_calls);
  set(config.max_concurrent_sub_calls, &RunLimits::max_concurrent);
  set(config.max_total_tokens, &RunLimits::max_tokens);
  set(config.max_errors, &RunLimits::max_errors);
  if (config.max_cost > 0) options.limits.max_cost = options.most.max_cost = config.max_cost;
  if (config.compact_at >= 0) options.limits.compact_at = config.compact_at;
  set_time(config.max_time_s, &RunLimits::max_time);
  set_time(config.cell_timeout_s, &RunLimits::cell_timeout);
  return options;
}

// The model behind every name "ROOT:SUB". The request names the parts, so it has none of its own;
// its limits are those of the model that server.recursive_pairs_like names.
std::shared_ptr<chat::Model> pair_model(const Config& config,
                                        const std::shared_ptr<rlm::Host>& host) {
  if (!config.server.recursive_pairs) return nullptr;
  ModelConfig pair{.engine = "rlm"};
  for (const ModelConfig& model : config.models) {
    if (model.name == config.server.recursive_pairs_like) pair = model;
  }
  pair.name = "root:sub";
  pair.aliases.clear();
  pair.root = pair.sub = "";
  return rlm::make_recursive_model(recursive_options(pair), host);
}

void connect(rlm::Host& host, const chat::ModelRegistry& registry) {
  // By name, at each run: a reload may have replaced the model.
  host.connect([&registry](std::string_view name) { return registry.use(name); },
               [&registry](std::string_view name) { return registry.has_single(name); });
}

Expected<chat::ModelSource> model_source(const ModelConfig& config,
                                         std::chrono::milliseconds time_limit,
                                         const std::shared_ptr<rlm::Host>& host) {
  chat::ModelSource source{
      .name = config.name, .aliases = config.aliases, .is_recursive = config.engine == "rlm"};
  if (config.engine == "rlm") {
    // Runs when the model is loaded, and finds then that a folder, the sandbox or the store cannot
    // be opened.
    source.load = [config, host]() -> Expected<std::shared_ptr<chat::Model>> {
      if (!config.trajectory_dir.empty()) {
        std::error_code failed;
        std::filesystem::create_directories(config.trajectory_dir, failed);
        if (failed) {
          return Unexpected(Error{
              Errc::invalid,
              "model '" + config.name + "': " + config.trajectory_dir + ": " + failed.message()});
        }
      }
      const auto sandbox = host->sandbox();
      if (!sandbox) {
        return Unexpected(
            Error{Errc::unavailable, "model '" + config.name + "': " + sandbox.error().message});
      }
      if (const Status opened = host->open_store(); !opened) {
        return Unexpected(Error{Errc::invalid, "server.sessions: " + opened.error().message});
      }
      log::info("model " + config.name + ": recursive, root " + config.root + ", sub " +
                (config.sub.empty() ? config.root : config.sub) + ", sandbox " +
                std::string(host->tier()) + ", Python " + (*sandbox)->interpreter().version);
      if (host->tier() == rlm::tier_name(rlm::Tier::unsafe_local)) {
        log::warn("model " + config.name +
                  ": NO SANDBOX works here: what models write runs with this user's rights (" +
                  (*sandbox)->why_no_better() + ")");
      }
      return rlm::make_recursive_model(recursive_options(config), host);
    };
    return source;
  }
  // Upstreams take no memory here. The file's header tells how much an embedded model takes,
  // without loading it.
  if (config.engine == "llama") {
    const auto local = located(config);
    if (!local) return Unexpected(local.error());
    const auto bytes = engine::LlamaEngine::memory_bytes(llama_options(*local));
    if (!bytes) return unavailable(bytes.error().message);
    source.memory_bytes = *bytes;
  }
  source.load = [config, time_limit, host]() -> Expected<std::shared_ptr<chat::Model>> {
    const auto begun = std::chrono::steady_clock::now();
    auto model = load_model(config, time_limit, host);
    if (!model) {
      // What may work later keeps its code; everything else is wrong in the configuration.
      return model.error().code == Errc::unavailable ? Unexpected(std::move(model.error()))
                                                     : invalid(std::move(model.error().message));
    }
    const format::Format* format = (*model)->format();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begun);
    const std::uint32_t context = (*model)->capabilities().context_tokens;
    log::info("model " + config.name + ": " + place_of(config) + ", tool-call format " +
              (format == nullptr ? "none" : format::info(*format).name) +
              (context == 0 ? "" : ", context " + std::to_string(context) + " tokens") +
              ", loaded in " + std::to_string(took.count()) + " ms");
    return *std::move(model);
  };
  return source;
}

// A recursive model of the configuration, or the pair of two of its models; no value for others.
std::optional<rlm::RecursiveOptions> recursive_named(const Config& config, std::string_view name) {
  const auto find = [&](std::string_view wanted) {
    return std::ranges::find_if(config.models, [&](const ModelConfig& one) {
      return one.name == wanted || std::ranges::find(one.aliases, wanted) != one.aliases.end();
    });
  };
  if (const auto found = find(name); found != config.models.end()) {
    if (found->engine != "rlm") return std::nullopt;
    return recursive_options(*found);
  }
  const auto pair = chat::split_pair(name, [&](std::string_view part) {
    const auto found = find(part);
    return found != config.models.end() && found->engine != "rlm";
  });
  if (!pair) return std::nullopt;
  return recursive_options({.name = std::string(name),
                            .engine = "rlm",
                            .root = std::string(pair->root),
                            .sub = std::string(pair->sub)});
}

namespace {

// A recursive model with its own host and models. Runs end first; then members are destroyed from
// the last to the first.
struct Alone {
  chat::ModelRegistry registry;
  std::shared_ptr<rlm::Host> host;
  std::shared_ptr<chat::Model> model;

  ~Alone() {
    if (host != nullptr) host->close();
  }
};

}  // namespace

Expected<std::shared_ptr<chat::Model>> load_recursive(const Config& config,
                                                      rlm::RecursiveOptions options) {
  auto alone = std::make_shared<Alone>();
  Config own = config;
  // One question of a command needs no session that lasts.
  own.server.keep_sessions = false;
  alone->host = make_host(own);
  for (const ModelConfig& model : own.models) {
    if (model.engine == "rlm") continue;  // cannot be a part of another recursive model
    auto source = model_source(model, std::chrono::milliseconds(0), alone->host);
    if (!source) return Unexpected(std::move(source.error()));
    if (const Status added = alone->registry.add(*std::move(source)); !added) {
      return at_fault(added.error());
    }
  }
  connect(*alone->host, alone->registry);
  if (const auto sandbox = alone->host->sandbox(); !sandbox) {
    return unavailable(sandbox.error().message);
  }
  alone->model = rlm::make_recursive_model(std::move(options), alone->host);
  chat::Model* const model = alone->model.get();
  // The pointer shares `alone`, so the host and the registry live as long as the model.
  return std::shared_ptr<chat::Model>(std::move(alone), model);
}

}  // namespace tenon::config
