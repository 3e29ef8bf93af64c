#include "agents.h"

#include <algorithm>

#include "tenon/json/value.h"

// The coding agents that `tenon launch` knows. Each row says how the agent is told of a server: by
// variables, by options, or by a file, with slots: ${server}, ${key}, ${model}, ${context},
// ${folder}. Variables that would lead the agent to another provider are unset.

namespace tenon::app {
namespace {

// opencode reads a whole configuration from a variable; it is the one of docs/clients/opencode.md.
constexpr std::string_view kOpencode =
    R"({"$schema": "https://opencode.ai/config.json", "provider": {"tenon": {)"
    R"("npm": "@ai-sdk/openai-compatible", "name": "Tenon", "options": {)"
    R"("baseURL": "${server}/v1", "apiKey": "${key}"}, "models": {"${model}": {"tool_call": true, )"
    R"("limit": {"context": ${context}, "output": 8192}}}}}, "enabled_providers": ["tenon"], )"
    R"("model": "tenon/${model}", "small_model": "tenon/${model}"})";

// A module of JavaScript that pi loads as an extension, which registers the server as a provider.
constexpr std::string_view kPi =
    R"(export default (pi) => pi.registerProvider("tenon", {name: "Tenon", baseUrl: "${server}/v1", )"
    R"(apiKey: "$TENON_API_KEY", api: "openai-completions", models: [{type: "chat", id: "${model}", )"
    R"(name: "${model}", reasoning: false, input: ["text"], contextWindow: ${context}, )"
    R"(maxTokens: 8192, cost: {input: 0, output: 0, cacheRead: 0, cacheWrite: 0}}]});)"
    "\n";

// YAML takes JSON.
constexpr std::string_view kContinue =
    R"({"name": "Tenon", "version": "1.0.0", "schema": "v1", "models": [{"name": "Tenon", )"
    R"("provider": "openai", "model": "${model}", "apiBase": "${server}/v1", "apiKey": "${key}", )"
    R"("roles": ["chat", "edit", "apply"], "capabilities": ["tool_use"]}]})"
    "\n";

// The file in which Cline keeps the providers that were chosen.
constexpr std::string_view kCline =
    R"({"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {)"
    R"("openai-compatible": {"settings": {"provider": "openai-compatible", "apiKey": "${key}", )"
    R"("model": "${model}", "baseUrl": "${server}/v1"}, "updatedAt": "2026-01-01T00:00:00.000Z", )"
    R"("tokenSource": "manual"}}})"
    "\n";

// Sources: each agent's own documentation of its variables and options.
const std::vector<AgentRow>& rows() {
  static const std::vector<AgentRow> kRows = {
      {.name = "claude",
       .program = "claude",
       .install = "npm install -g @anthropic-ai/claude-code",
       .environment = {{"ANTHROPIC_BASE_URL", "${server}"},
                       {"ANTHROPIC_AUTH_TOKEN", "${key}"},
                       {"ANTHROPIC_MODEL", "${model}"},
                       {"ANTHROPIC_DEFAULT_HAIKU_MODEL", "${model}"},
                       {"ANTHROPIC_DEFAULT_SONNET_MODEL", "${model}"},
                       {"ANTHROPIC_DEFAULT_OPUS_MODEL", "${model}"},
                       {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"}},
       .unset = {"ANTHROPIC_API_KEY"},
       .arguments = {},
       .least_context = 32'768},
      {.name = "codex",
       .program = "codex",
       .install = "npm install -g @openai/codex",
       .environment = {{"TENON_API_KEY", "${key}"}},
       .unset = {},
       .arguments = {"-c", R"(model="${model}")", "-c", R"(model_provider="tenon")", "-c",
                     R"(model_providers.tenon.name="Tenon")", "-c",
                     R"(model_providers.tenon.base_url="${server}/v1")", "-c",
                     R"(model_providers.tenon.wire_api="responses")", "-c",
                     R"(model_providers.tenon.env_key="TENON_API_KEY")", "-c",
                     "model_context_window=${context}"},
       .least_context = 32'768},
      {.name = "opencode",
       .program = "opencode",
       .install = "npm install -g opencode-ai",
       .environment = {{"OPENCODE_CONFIG_CONTENT", kOpencode}},
       .unset = {},
       .arguments = {},
       .least_context = 16'384},
      {.name = "qwen",
       .program = "qwen",
       .install = "npm install -g @qwen-code/qwen-code",
       .environment = {{"OPENAI_BASE_URL", "${server}/v1"},
                       {"OPENAI_API_KEY", "${key}"},
                       {"OPENAI_MODEL", "${model}"}},
       .unset = {},
       .arguments = {"--auth-type", "openai"},
       .least_context = 32'768},
      {.name = "aider",
       .program = "aider",
       .install = "python3 -m pip install aider-chat",
       .environment = {{"OPENAI_API_BASE", "${server}/v1"}, {"OPENAI_API_KEY", "${key}"}},
       .unset = {},
       .arguments = {"--model", "openai/${model}"},
       .least_context = 8'192},
      {.name = "pi",
       .program = "pi",
       .install = "npm install -g @earendil-works/pi-coding-agent",
       .environment = {{"TENON_API_KEY", "${key}"}},
       .unset = {},
       .arguments = {"--extension", "${folder}/provider.js", "--provider", "tenon", "--model",
                     "${model}"},
       .least_context = 8'192,
       .file_name = "provider.js",
       .file = kPi},
      {.name = "continue",
       .program = "cn",
       .install = "npm install -g @continuedev/cli",
       .environment = {{"CONTINUE_TELEMETRY_ENABLED", "0"}},
       .unset = {},
       .arguments = {"--config", "${folder}/config.yaml"},
       .least_context = 8'192,
       .file_name = "config.yaml",
       .file = kContinue},
      {.name = "cline",
       .program = "cline",
       .install = "npm install -g cline",
       .environment = {{"CLINE_PROVIDER_SETTINGS_PATH", "${folder}/providers.json"}},
       .unset = {},
       .arguments = {"--provider", "openai-compatible", "--model", "${model}"},
       .least_context = 32'768,
       .file_name = "providers.json",
       .file = kCline},
      {.name = "gptme",
       .program = "gptme",
       .install = "python3 -m pip install gptme",
       .environment = {{"OPENAI_BASE_URL", "${server}/v1"}, {"OPENAI_API_KEY", "${key}"}},
       .unset = {},
       .arguments = {"--model", "local/${model}", "--tool-format", "tool"},
       .least_context = 16'384},
      {.name = "llm",
       .program = "llm",
       .install = "python3 -m pip install llm",
       .environment = {{"LLM_USER_PATH", "${folder}"}},
       .unset = {},
       .arguments = {"openai", "endpoint", "${server}/v1", "--model", "${model}", "--key", "tenon"},
       .least_context = 2'048,
       .file_name = "keys.json",
       .file = "{\"tenon\": \"${key}\"}\n"},
  };
  return kRows;
}

std::string filled(std::string_view text, const Served& served) {
  // Fills the slots. A text with quotation marks is JSON or a language like it, so values are
  // escaped; other texts are words of their own and take values as they are.
  const bool is_quoted = text.find('"') != text.npos;
  const auto value_of = [&](std::string_view slot) {
    if (slot == "context") return std::to_string(served.context);
    const std::string& value = slot == "server"   ? served.server
                               : slot == "model"  ? served.model
                               : slot == "folder" ? served.folder
                                                  : served.key;
    if (!is_quoted) return value;
    const std::string quoted = json::quoted(value);
    return quoted.substr(1, quoted.size() - 2);
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t slot = text.find("${", at);
    out += text.substr(at, slot - at);
    if (slot == text.npos) break;
    const std::size_t end = text.find('}', slot);
    out += value_of(text.substr(slot + 2, end - slot - 2));
    at = end + 1;
  }
  return out;
}

}  // namespace

std::span<const AgentRow> agents() {
  return rows();
}

const AgentRow* find_agent(std::string_view name) {
  const auto found = std::ranges::find(rows(), name, &AgentRow::name);
  return found == rows().end() ? nullptr : &*found;
}

// The row's own arguments come first, so that the user's win where an agent takes the last one.
Launch launch_of(const AgentRow& agent, const Served& served,
                 std::span<const std::string> arguments) {
  Launch launch;
  launch.command.emplace_back(agent.program);
  for (const std::string_view argument : agent.arguments) {
    launch.command.push_back(filled(argument, served));
  }
  launch.command.insert(launch.command.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : agent.environment) {
    launch.environment.emplace_back(name, filled(value, served));
  }
  launch.file = filled(agent.file, served);
  return launch;
}

}  // namespace tenon::app
