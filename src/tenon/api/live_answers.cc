#include "tenon/api/live_answers.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "tenon/api/secrets.h"
#include "tenon/base/log.h"
#include "tenon/chat/code_functions.h"

namespace tenon::api {
namespace {

// Reports what was left out in the answer's `tenon.repairs`, and in a header, which comes earlier.
void tell_left_out(Call& call, Asked& asked) {
  if (asked.left_out.empty()) return;
  // The encoder writes nothing for a diagnostic, and only its note keeps it; no stream is open yet.
  std::string nowhere;
  for (unsigned choice = 0; choice < asked.choices; ++choice) {
    for (const message::Diagnostic& part : asked.left_out) {
      if (asked.stream) {
        asked.encoder->add(choice, part, {}, nowhere);
      } else {
        asked.encoder->keep(choice, part, {});
      }
    }
  }
  add_left_out(call, asked.left_out);
}

// Whether something of the request can be called by code alone, the code itself is demanded, or
// code of an earlier answer waits.
bool needs_code(const message::ChatRequest& chat) {
  const auto is_for_code_alone = [](const auto& tool) { return tool.for_code && !tool.for_model; };
  const bool is_only_one = chat.tools.empty() && chat.servers.empty();
  return std::ranges::any_of(chat.tools, is_for_code_alone) ||
         std::ranges::any_of(chat.servers, is_for_code_alone) ||
         (chat.tool_choice.mode == message::ToolMode::required && is_only_one) ||
         chat::goes_on_with_code(chat);
}

}  // namespace

void leave_out_code(message::ChatRequest& chat, std::vector<message::Diagnostic>& left_out,
                    const chat::Model& model) {
  if (!chat.code || model.runs_code() || needs_code(chat)) return;
  left_out.push_back({.code = std::string(kLeftOut),
                      .message = "the tool " + json::quoted(chat.code->name) + " is left out: " +
                                 json::quoted(model.name()) + " runs no code (docs/code-tools.md)",
                      .path = "tools"});
  chat.code.reset();
  for (message::Tool& tool : chat.tools) tool.for_code = false;
  for (message::HostedServer& server : chat.servers) server.for_code = false;
}

std::optional<ApiError> refused_by(const message::ChatRequest& chat, const chat::Model& model) {
  if (chat.code && !model.runs_code()) {
    return ApiError{.message = json::quoted(model.name()) +
                               " runs no code: leave out the tool that runs it, or let the "
                               "operator set code_execution = true for this model "
                               "(docs/code-tools.md)",
                    .param = "tools",
                    .code = "code_execution_off"};
  }
  if (chat.rlm.is_null() || model.takes_rlm()) return std::nullopt;
  return ApiError{.message = "rlm belongs to recursive models, and " + json::quoted(model.name()) +
                             " is not one",
                  .param = "rlm",
                  .code = "unsupported_parameter"};
}

Ticker::Ticker(std::function<void()> tick) : tick_(std::move(tick)), thread_([this] { run(); }) {}

Ticker::~Ticker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

// The lock is not held during a tick, which takes locks of its own.
void Ticker::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return ends_; })) {
    lock.unlock();
    try {
      tick_();
    } catch (const std::exception& thrown) {
      log::error(std::string("api: a tick failed: ") + thrown.what());
    }
    lock.lock();
  }
}

// Checks what the model cannot do at all, then makes the answer and starts it. From there on the
// sinks of its runs hold it; the list here does not.
void LiveAnswers::start(Call& call, chat::Model& model, Asked asked) {
  if (const auto refused = refused_by(asked.chat, model)) return respond_error(call, *refused);
  if (!asked.chat.servers.empty() && model.takes_rlm()) {
    return respond_error(call, {.message = json::quoted(model.name()) +
                                           " is a recursive model, which calls no servers of tools",
                                .param = "tools",
                                .code = "tools_not_supported"});
  }
  if (asked.choices > 1 && model.takes_rlm()) {
    return respond_error(call, {.message = "n must be 1: " + json::quoted(model.name()) +
                                           " is a recursive model, whose runs are sessions",
                                .param = "n",
                                .code = "unsupported_parameter"});
  }
  asked.chat.owner = call.key.name();
  const bool is_stream = asked.stream;
  tell_left_out(call, asked);
  std::shared_ptr<record::Recording> recording;
  if (recorder_ != nullptr) {
    const http::Request& request = call.exchange->request();
    const auto id = std::ranges::find(call.headers, "x-request-id", &http::Header::name);
    // Recordings are kept and looked at later, so tokens of servers of tools do not get into them.
    const std::string body = without_secrets(request.body);
    recording = recorder_->begin({.id = id == call.headers.end() ? std::string() : id->value,
                                  .model = model.name(),
                                  .path = request.path,
                                  .is_stream = is_stream,
                                  .request = body,
                                  .found = asked.found.empty() ? nullptr : &asked.found});
  }
  // Log probabilities make the end of an answer large.
  Workers& writers = asked.chat.logprobs ? runner_.large() : runner_.quick();
  auto answer = std::make_shared<ChatAnswer>(
      ChatAnswer::Options{.encoder = std::move(asked.encoder),
                          .model = model.name(),
                          .chat = std::make_unique<message::ChatRequest>(std::move(asked.chat)),
                          .prompts = std::move(asked.prompts),
                          .requests = std::move(asked.requests),
                          .choices = asked.choices,
                          .stream = is_stream,
                          .headers = std::move(call.headers),
                          .about = call.about,
                          .running = std::move(call.running),
                          .key = std::move(call.key),
                          .recording = std::move(recording)},
      std::move(call.exchange), metrics_, writers);
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(answer);
  }
  // If the answers were cut before this one was in the list, it is cut here.
  if (runner_.is_cutting()) return answer->cut(is_stopping());
  answer->start(model);
}

// The list holds weak pointers, since an answer lives as long as its runs; those that are over are
// removed whenever the list is read, once a second at least.
std::vector<std::shared_ptr<ChatAnswer>> LiveAnswers::live() {
  std::vector<std::shared_ptr<ChatAnswer>> live;
  const std::lock_guard lock(mutex_);
  std::erase_if(under_way_, [](const auto& each) { return each.expired(); });
  live.reserve(under_way_.size());
  for (const auto& each : under_way_) {
    if (auto answer = each.lock()) live.push_back(std::move(answer));
  }
  return live;
}

void LiveAnswers::keep_alive() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& answer : live()) answer->keep_alive(now);
}

void LiveAnswers::cut() {
  for (const auto& answer : live()) answer->cut(is_stopping());
}

}  // namespace tenon::api
