#include "conversation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>
#include <variant>

#include "command.h"
#include "fetch_view.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tenon/api/chat_request.h"
#include "tenon/chat/event_queue.h"
#include "tenon/config/config.h"
#include "tenon/config/models.h"
#include "tenon/config/user_formats.h"

// What commands that ask a model share: which model (a file, or one of a configuration), the
// request from the options, the wait for the answer, and Ctrl-C meanwhile (Interruption).

namespace tenon::app {
namespace {

// A signal handler may use only a lock-free flag, a number and an eventfd. `current` is the token
// of the one Interruption that exists.
std::atomic<const CancelToken*> current = nullptr;
std::atomic<int> last_signal = 0;
std::atomic<int> wake = -1;

// `tools` are those of the request; null without tools.
json::Value tool_choice_of(const std::string& word, const json::Value* tools) {
  if (word == "auto" || word == "none" || word == "required") return word;
  const json::Array* const list = tools != nullptr ? tools->if_array() : nullptr;
  const bool is_custom =
      list != nullptr && std::ranges::any_of(*list, [&](const json::Value& tool) {
        const json::Value* const name = json::at_pointer(tool, "/custom/name");
        return name != nullptr && *name == json::Value(word);
      });
  const std::string kind = is_custom ? "custom" : "function";
  return json::Object{{"type", kind}, {kind, json::Object{{"name", word}}}};
}

// The model of --config whose name is --model; the first if no name is given.
OrComplaint<config::ModelConfig> configured_model(const AskOptions& options,
                                                  config::Config& config) {
  for (config::ModelConfig& model : config.models) {
    const bool is_alias = std::ranges::find(model.aliases, options.model) != model.aliases.end();
    if (options.model.empty() || model.name == options.model || is_alias) return std::move(model);
  }
  return complaint(kBadInput, options.config + " has no model" +
                                  (options.model.empty() ? "" : " '" + options.model + "'"));
}

// Reads the file --config and its formats; without a file there are no models.
OrComplaint<config::Config> read_config(const AskOptions& options) {
  if (options.config.empty()) return config::Config();
  auto read = config::read_config(options.config);
  if (!read) return complaint(read.error());
  if (auto loaded = config::load_formats(read->server.format_files); !loaded) {
    return complaint(loaded.error());
  }
  return *std::move(read);
}

// The recursive model that the options choose; no value for a single model.
std::optional<rlm::RecursiveOptions> recursive_one(const AskOptions& options,
                                                   const config::Config& all) {
  if (options.config.empty()) return std::nullopt;
  const bool is_first = options.model.empty() && !all.models.empty();
  return config::recursive_named(all, is_first ? all.models.front().name : options.model);
}

// The chosen model, with what the other options change.
OrComplaint<config::ModelConfig> chosen_model(const AskOptions& options, config::Config& all) {
  auto config = options.config.empty()
                    ? or_complaint(config::model_from_path(options.model, fetch_view()))
                    : configured_model(options, all);
  if (!config) return config;
  if (!options.chat_template.empty()) config->chat_template = options.chat_template;
  if (!options.format.empty()) config->tool_call_format = options.format;
  if (options.threads > 0) config->threads = options.threads;
  return config;
}

}  // namespace

Interruption::Interruption(bool ends) : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  current = &cancel_;
  wake = wake_;
  last_signal = 0;
  struct sigaction action{};
  action.sa_handler = [](int signal) {
    last_signal = signal;
    const int before = errno;
    if (const CancelToken* const token = current) token->cancel();
    // If the write fails, the eventfd is set already.
    if (const int fd = wake; fd >= 0) static_cast<void>(!eventfd_write(fd, 1));
    errno = before;
  };
  for (const int signal : ends ? std::vector{SIGINT, SIGTERM, SIGHUP} : std::vector{SIGINT}) {
    sigaction(signal, &action, &before_.emplace_back(signal, action).second);
  }
}

// The handlers of before come back first, so that none of ours runs on what is being destroyed.
Interruption::~Interruption() {
  for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  current = nullptr;
  wake = -1;
  if (wake_ >= 0) close(wake_);
}

// A signal that comes between a prompt and the read would leave the read waiting, and one that
// another thread handles would not interrupt it. So this also waits for the handler's eventfd.
bool Interruption::wait_for_input() {
  std::array<pollfd, 2> ways{
      {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = wake, .events = POLLIN}}};
  while (poll(ways.data(), ways.size(), -1) < 0) {
    if (errno != EINTR) return true;
  }
  return ways[1].revents == 0;
}

int Interruption::signal() const {
  return cancel_.is_cancelled() ? last_signal.load() : 0;
}

void add_model_options(App app, AskOptions& options, std::string_view otherwise) {
  app.add_option(
      "--model", options.model,
      "GGUF file, hf:OWNER/REPO[:QUANT] or ollama:NAME[:TAG] (default: " + std::string(otherwise) +
          "), or with --config a [[model]]'s name (default: its first)");
  app.add_option("--config", options.config, "tenon.toml that has the model");
  app.add_option("--chat-template", options.chat_template,
                 "Template file instead of the model's own");
  app.add_option("--format,--tool-call-parser", options.format,
                 "Tool-call format instead of the detected one");
  app.add_option("--threads", options.threads, "CPU threads of the engine").between(1, 4096);
}

void add_ask_options(App app, AskOptions& options) {
  add_model_options(app, options);
  app.add_option("--tools", options.tools_file,
                 "JSON file with an array of tools (OpenAI's shape)");
  app.add_option("--tool-choice", options.tool_choice, "auto, none, required, or a tool's name");
  app.add_option("--system", options.system, "System message");
  app.add_option("--temperature", options.temperature, "0: always the likeliest token");
  app.add_option("--top-p", options.top_p, "Nucleus sampling");
  app.add_option("--seed", options.seed, "Repeats an answer");
  app.add_option("--max-tokens", options.max_tokens, "Most tokens of an answer");
}

OrComplaint<config::ModelConfig> single_model(const AskOptions& options,
                                              std::string_view why_single) {
  auto all = read_config(options);
  if (!all) return Failure<Complaint>(all.error());
  if (const auto recursive = recursive_one(options, *all)) {
    return complaint(
        kUsage, "'" + recursive->name + "' is a recursive model, and " + std::string(why_single));
  }
  return chosen_model(options, *all);
}

// A recursive model or a single one; options that belong to single models are refused with the
// former.
OrComplaint<std::shared_ptr<chat::Model>> load_model(const AskOptions& options) {
  auto all = read_config(options);
  if (!all) return Failure<Complaint>(all.error());
  if (auto recursive = recursive_one(options, *all)) {
    if (options.chat_template.empty() && options.format.empty() && options.threads == 0) {
      return or_complaint(config::load_recursive(*all, *std::move(recursive)));
    }
    return complaint(kUsage,
                     "--chat-template, --format and --threads belong to a single model, and '" +
                         recursive->name + "' is a recursive one: its parts have them in " +
                         options.config);
  }
  const auto config = chosen_model(options, *all);
  if (!config) return Failure<Complaint>(config.error());
  return or_complaint(config::load_model(*config));
}

// A body of Chat Completions, which the server's own decoder then checks: the command accepts what
// the server accepts.
OrComplaint<json::Object> request_body(const AskOptions& options, json::Array tools) {
  json::Object body{{"model", "local"}};
  if (!tools.empty()) body.set("tools", std::move(tools));
  if (!options.tool_choice.empty()) {
    body.set("tool_choice", tool_choice_of(options.tool_choice, body.find("tools")));
  }
  if (options.temperature) body.set("temperature", *options.temperature);
  if (options.top_p) body.set("top_p", *options.top_p);
  if (options.seed) body.set("seed", *options.seed);
  if (options.max_tokens) body.set("max_tokens", *options.max_tokens);
  json::Array messages;
  if (!options.system.empty()) {
    messages.emplace_back(json::Object{{"role", "system"}, {"content", options.system}});
  }
  body.set("messages", std::move(messages));
  return body;
}

OrComplaint<message::ChatRequest> decode_request(const json::Object& body) {
  auto decoded = api::decode_chat_completion(body);
  if (!decoded) return complaint(kBadInput, decoded.error().message);
  return std::move(decoded->chat);
}

OrComplaint<message::Fold> answer(chat::Model& model, const message::ChatRequest& request,
                                  const std::function<void(const message::ChatEvent&)>& on_event) {
  const Interruption interruption;
  return answer(model, request, interruption.token(), on_event);
}

OrComplaint<message::Fold> answer(chat::Model& model, const message::ChatRequest& request,
                                  const CancelToken& cancel,
                                  const std::function<void(const message::ChatEvent&)>& on_event) {
  constexpr std::chrono::milliseconds kMoment{50};
  auto queue = std::make_shared<chat::EventQueue>();
  auto running = model.start(request, queue);
  if (!running) return Failure<Complaint>(complaint_of(running.error()));
  message::Fold fold;
  while (true) {
    // Cancelling again does nothing, so no flag is needed.
    if (cancel.is_cancelled()) (*running)->cancel();
    for (const message::ChatEvent& event : queue->wait(kMoment)) {
      fold.add(event);
      if (on_event) on_event(event);
      const auto* const finish = std::get_if<message::Finish>(&event);
      if (finish == nullptr) continue;
      if (finish->reason == message::FinishReason::error) {
        const bool is_request = finish->error.code == Errc::invalid;
        return complaint(is_request ? kBadInput : kEngine, finish->error.message);
      }
      return fold;
    }
  }
}

// Codes that begin with "engine_" are trouble of the engine, all others are the request's fault.
Complaint complaint_of(const chat::Refusal& refusal) {
  const bool is_engine = refusal.code.starts_with("engine_");
  return {is_engine ? kEngine : kBadInput, refusal.error.message};
}

// `get_weather(city: "Paris", days: 3)`.
std::string described(const message::ToolCall& call) {
  const auto arguments = json::parse(call.arguments);
  if (!arguments || arguments->if_object() == nullptr) {
    return call.name + "(" + call.arguments + ")";
  }
  std::string text = call.name + "(";
  for (const json::Member& member : *arguments->if_object()) {
    if (text.back() != '(') text += ", ";
    text += member.key + ": " + json::dumps(member.value, {.ensure_ascii = false});
  }
  return text + ")";
}

}  // namespace tenon::app
