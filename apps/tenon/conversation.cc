#include "conversation.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <utility>
#include <variant>

#include "command.h"
#include "files.h"
#include <CLI/CLI.hpp>

#include "tenon/api/chat_request.h"

namespace tenon::app {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// While it lives, Ctrl-C sets `interrupted` and nothing else.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_{};
};

/// Carries events from the engine's thread to ours.
class EventQueue final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>&) override {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    changed_.notify_one();
  }

  /// The next event, or nothing after a moment without one.
  std::optional<message::ChatEvent> next() {
    constexpr std::chrono::milliseconds kMoment{50};
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kMoment, [this] { return !events_.empty(); })) return {};
    message::ChatEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<message::ChatEvent> events_;  // guarded by mutex_
};

// A file holds the array that goes into a request, or an object that has it under "tools".
OrComplaint<json::Value> read_tools(const std::string& path) {
  auto parsed = read_json(path);
  if (!parsed) return complaint(kBadInput, parsed.error().message);
  if (const json::Value* tools = parsed->find("tools")) return *tools;
  if (parsed->if_array() != nullptr) return *std::move(parsed);
  return complaint(kBadInput,
                   path + ": a JSON array of tools is wanted, in the shape of OpenAI's API");
}

// `tools`: of the request; null where there are none.
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

}  // namespace

void add_ask_options(CLI::App& app, AskOptions& options) {
  app.add_option("--model", options.model, "GGUF file (default: the bundled model)");
  app.add_option("--chat-template", options.chat_template,
                 "Template file instead of the model's own");
  app.add_option("--format,--tool-call-parser", options.format,
                 "Tool-call format instead of the detected one");
  app.add_option("--threads", options.threads, "CPU threads of the engine")
      ->check(CLI::Range(1, 4096));
  app.add_option("--tools", options.tools_file,
                 "JSON file with an array of tools (OpenAI's shape)");
  app.add_option("--tool-choice", options.tool_choice, "auto, none, required, or a tool's name");
  app.add_option("--system", options.system, "System message");
  app.add_option("--temperature", options.temperature, "0: always the likeliest token");
  app.add_option("--top-p", options.top_p, "Nucleus sampling");
  app.add_option("--seed", options.seed, "Repeats an answer");
  app.add_option("--max-tokens", options.max_tokens, "Most tokens of an answer");
}

OrComplaint<std::shared_ptr<chat::Model>> load_model(const AskOptions& options) {
  auto config = model_from_path(options.model);
  if (!config) return Failure<Complaint>(config.error());
  config->chat_template = options.chat_template;
  config->tool_call_format = options.format;
  config->threads = options.threads;
  return load_model(*config);
}

OrComplaint<json::Object> request_body(const AskOptions& options) {
  json::Object body{{"model", "local"}};
  if (!options.tools_file.empty()) {
    auto tools = read_tools(options.tools_file);
    if (!tools) return Failure<Complaint>(tools.error());
    body.set("tools", *std::move(tools));
  }
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
  const InterruptGuard guard;
  auto queue = std::make_shared<EventQueue>();
  auto running = model.start(request, queue);
  if (!running) {
    const bool is_engine = running.error().code.starts_with("engine_");
    return complaint(is_engine ? kEngine : kBadInput, running.error().error.message);
  }
  message::Fold fold;
  while (true) {
    if (interrupted != 0) (*running)->cancel();
    const std::optional<message::ChatEvent> event = queue->next();
    if (!event) continue;
    fold.add(*event);
    if (on_event) on_event(*event);
    const auto* finish = std::get_if<message::Finish>(&*event);
    if (finish == nullptr) continue;
    if (finish->reason == message::FinishReason::error) {
      const bool is_request = finish->error.code == Errc::invalid;
      return complaint(is_request ? kBadInput : kEngine, finish->error.message);
    }
    return fold;
  }
}

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
