#include "tenon/chat/server_tools.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/base/trace.h"
#include "tenon/chat/kept_tokens.h"
#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::ChatEvent;
using message::ChatRequest;
using message::FinishReason;
using message::TokenLogprob;
using message::ToolCall;

/// What the requests of one model share; it outlives all of them.
struct Common {
  std::weak_ptr<Model> model;
  std::weak_ptr<Toolbox> tools;
  ServerToolsOptions options;
  std::atomic<std::uint32_t> waiting = 0;  // requests whose tools run
};

/// One request; the sink of all of its answers, one after the other.
class Request final : public message::ChatSinkBefore, public std::enable_shared_from_this<Request> {
 public:
  Request(std::shared_ptr<Common> common, ChatRequest request, ToolSet ours,
          std::shared_ptr<message::ChatSink> sink)
      : ChatSinkBefore(sink),
        common_(std::move(common)),
        ours_(std::move(ours)),
        request_(std::move(request)),
        sink_(std::move(sink)) {
    if (common_->options.time_limit.count() > 0) {
      deadline_ = Clock::now() + common_->options.time_limit;
    }
    if (common_->options.remembers) memory_ = std::make_shared<ToolMemory>();
  }

  void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) override;

  /// Asks the model on this thread.
  [[nodiscard]] Result<void, Refusal> ask(Model& model);
  void cancel();
  void set_paused(bool value);
  void detach();

 private:
  void pass_text(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs);
  void pass_call(const ChatEvent& event, std::uint32_t index,
                 const std::vector<TokenLogprob>& logprobs);
  void end_round(const message::Finish& finish, const std::vector<TokenLogprob>& logprobs);
  void run_tools();
  void go_on(std::vector<ToolResult> results);
  void end(message::Finish finish, const std::vector<TokenLogprob>& logprobs = {});
  void forget_tools();

  const std::shared_ptr<Common> common_;
  const ToolSet ours_;  // the server's tools
  const std::string about_{log::about()};
  const trace::Context trace_ = trace::current();

  // Used by the thread that the events come from; between two answers, by the toolbox's.
  ChatRequest request_;
  std::shared_ptr<message::ChatSink> sink_;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::shared_ptr<ToolMemory> memory_;                 // null: each call is run
  message::Fold round_;                                // the present answer, all of it
  std::vector<std::optional<std::uint32_t>> numbers_;  // its calls: the client's index, or ours
  std::uint32_t calls_ = 0;                            // calls that were passed to the client
  std::size_t rounds_ = 0;                             // answers that have ended
  std::size_t run_ = 0;                                // calls of our tools that were run
  bool has_text_ = false;                              // an earlier round had text
  bool has_text_now_ = false;
  message::Usage usage_;

  std::mutex mutex_;  // guards the members below
  std::unique_ptr<Answer> answer_;
  std::size_t number_ = 0;  // the number of the answer that answer_ is, or will be
  const CancelToken cancel_;
  bool is_paused_ = false;
};

void Request::on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  round_.add(event);
  if (const auto* const finish = std::get_if<message::Finish>(&event)) {
    return end_round(*finish, logprobs);
  }
  if (const auto* const begin = std::get_if<message::CallBegin>(&event)) {
    const bool is_ours = ours_.has(begin->name);
    numbers_.push_back(is_ours ? std::nullopt : std::optional(calls_++));
    pass_call(event, begin->index, logprobs);
  } else if (const auto* const arguments = std::get_if<message::CallArguments>(&event)) {
    pass_call(event, arguments->index, logprobs);
  } else if (const auto* const call_end = std::get_if<message::CallEnd>(&event)) {
    pass_call(event, call_end->index, logprobs);
  } else if (std::holds_alternative<message::ContentDelta>(event)) {
    pass_text(event, logprobs);
  } else if (rounds_ == 0 || !std::holds_alternative<message::Diagnostic>(event) ||
             std::get<message::Diagnostic>(event).code != kTaintUnenforced) {
    sink_->on_event(event, logprobs);
  }
}

void Request::pass_text(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  if (has_text_ && !has_text_now_) sink_->on_event(message::ContentDelta{"\n\n"}, {});
  has_text_now_ = true;
  sink_->on_event(event, logprobs);
}

void Request::pass_call(const ChatEvent& event, std::uint32_t index,
                        const std::vector<TokenLogprob>& logprobs) {
  const auto number = numbers_.at(index);
  if (!number) return;
  ChatEvent told = event;
  std::visit(
      [&](auto& one) {
        if constexpr (requires { one.index; }) one.index = *number;
      },
      told);
  sink_->on_event(told, logprobs);
}

void Request::end_round(const message::Finish& finish, const std::vector<TokenLogprob>& logprobs) {
  ++rounds_;
  usage_ += finish.usage;
  const bool has_ours = std::ranges::any_of(numbers_, [](const auto& one) { return !one; });
  if (finish.reason == FinishReason::tool_calls && has_ours) {
    if (calls_ == 0) return run_tools();
    const auto& calls = round_.message().tool_calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (numbers_[i]) continue;
      sink_->on_event(
          message::Diagnostic{"left_call", calls[i].name + " was not run, since the answer has "
                                                           "calls of the client's tools, too"},
          {});
    }
  }
  end(finish, logprobs);
}

void Request::end(message::Finish finish, const std::vector<TokenLogprob>& logprobs) {
  finish.usage = usage_;
  if (calls_ == 0) finish.format.clear();
  sink_->on_event(finish, logprobs);
  sink_.reset();
}

void Request::run_tools() {
  const auto tools = common_->tools.lock();
  if (tools == nullptr) return end({.reason = FinishReason::cancelled});
  common_->waiting.fetch_add(1);
  has_text_ = has_text_ || has_text_now_;
  tools->start(ours_, round_.message().tool_calls,
               [self = shared_from_this()](std::vector<ToolResult> results) {
                 self->go_on(std::move(results));
                 self->common_->waiting.fetch_sub(1);
               },
               {.cancel = cancel_, .deadline = deadline_, .memory = memory_});
}

// From now on the model must answer without the server's tools.
void Request::forget_tools() {
  std::erase_if(request_.tools, [this](const auto& tool) { return ours_.has(tool.name); });
}

void Request::go_on(std::vector<ToolResult> results) {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  const std::vector<ToolCall> calls = round_.message().tool_calls;
  message::Message said = round_.message();
  request_.messages.push_back(std::move(said));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string outcome = (results[i].is_error ? " failed: " : " gave ") +
                                std::to_string(results[i].output.size()) + " bytes";
    const std::string told = calls[i].name + outcome;
    log::info((results[i].is_remembered ? "did not run again: " : "ran ") +
              std::string(log::content(calls[i].name)) + outcome);
    const char* const code = results[i].is_error        ? "tool_failed"
                             : results[i].is_remembered ? "remembered_tool"
                                                        : "ran_tool";
    sink_->on_event(message::Diagnostic{code, told}, {});
    request_.messages.push_back(message::tool_result(calls[i], std::move(results[i].output)));
    if (results[i].is_error) request_.messages.back().extra.set("is_error", true);
  }
  run_ += calls.size();
  request_.previous_tokens = tokens_so_far(round_.finish());
  round_ = {};
  numbers_.clear();
  has_text_now_ = false;
  const auto model = common_->model.lock();
  if (model == nullptr || cancel_.is_cancelled()) return end({.reason = FinishReason::cancelled});
  if (Clock::now() >= deadline_) return end({.reason = FinishReason::length});
  const ServerToolsOptions& options = common_->options;
  if (rounds_ + 1 >= options.max_rounds || run_ >= options.max_calls) forget_tools();
  if (auto asked = ask(*model); !asked) {
    log::warn("the model cannot go on: " + std::string(log::content(asked.error().error.message)));
    end({.reason = FinishReason::error, .error = asked.error().error});
  }
}

Result<void, Refusal> Request::ask(Model& model) {
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++number_;
  }
  auto started = model.start(request_, shared_from_this());
  if (!started) return Failure<Refusal>(std::move(started.error()));
  // The answer may be over, and the next one under way, before it arrives here.
  std::unique_ptr<Answer> gone = *std::move(started);  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (number != number_) return {};
  answer_.swap(gone);
  if (is_paused_) answer_->pause();
  if (cancel_.is_cancelled()) answer_->cancel();
  return {};
}

void Request::cancel() {
  const std::lock_guard lock(mutex_);
  cancel_.cancel();
  if (answer_ != nullptr) answer_->cancel();
}

void Request::set_paused(bool value) {
  const std::lock_guard lock(mutex_);
  is_paused_ = value;
  if (answer_ != nullptr) value ? answer_->pause() : answer_->resume();
}

void Request::detach() {
  std::unique_ptr<Answer> gone;
  const std::lock_guard lock(mutex_);
  cancel_.cancel();
  gone = std::move(answer_);
}

class RequestAnswer final : public Answer {
 public:
  explicit RequestAnswer(std::shared_ptr<Request> request) : request_(std::move(request)) {}
  ~RequestAnswer() override { request_->detach(); }
  RequestAnswer(const RequestAnswer&) = delete;
  RequestAnswer& operator=(const RequestAnswer&) = delete;

  void cancel() override { request_->cancel(); }
  void pause() override { request_->set_paused(true); }
  void resume() override { request_->set_paused(false); }

 private:
  const std::shared_ptr<Request> request_;
};

class ServerTools final : public Model {
 public:
  ServerTools(std::shared_ptr<Model> inner, std::shared_ptr<Toolbox> tools,
              const ServerToolsOptions& options)
      : inner_(std::move(inner)),
        tools_(std::move(tools)),
        common_(std::make_shared<Common>(inner_, tools_, options)) {}
  ServerTools(const ServerTools&) = delete;
  ServerTools& operator=(const ServerTools&) = delete;
  ~ServerTools() override { tools_.reset(); }  // waits for running calls, which use the model

  const std::string& name() const override { return inner_->name(); }
  const std::vector<std::string>& aliases() const override { return inner_->aliases(); }
  const engine::Capabilities& capabilities() const override { return inner_->capabilities(); }
  // While a request's tools run, the model is still in use.
  engine::EngineStats stats() const override {
    engine::EngineStats stats = inner_->stats();
    stats.unfinished += common_->waiting.load();
    return stats;
  }
  engine::Engine* engine() const override { return inner_->engine(); }
  const format::Format* format() const override { return inner_->format(); }
  GrammarCounts grammar_counts() const override { return inner_->grammar_counts(); }
  Model* without_tools() override { return inner_.get(); }
  Prices prices() const override { return inner_->prices(); }

  Result<Prepared, Refusal> prepare(const ChatRequest& request) const override {
    if (!takes_tools(request)) return inner_->prepare(request);
    ChatRequest with = request;
    (void)add_tools(with);
    return inner_->prepare(with);
  }

  Result<std::unique_ptr<Answer>, Refusal> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override {
    if (!takes_tools(request)) return inner_->start(request, std::move(sink));
    ChatRequest with = request;
    ToolSet ours = add_tools(with);
    if (ours.list().empty()) return inner_->start(request, std::move(sink));
    auto asked =
        std::make_shared<Request>(common_, std::move(with), std::move(ours), std::move(sink));
    if (auto started = asked->ask(*inner_); !started) {
      return Failure<Refusal>(std::move(started.error()));
    }
    return std::make_unique<RequestAnswer>(std::move(asked));
  }

 private:
  [[nodiscard]] bool takes_tools(const ChatRequest& request) const {
    const engine::ConstrainedBy constrained_by = capabilities().constrained_by;
    const bool holds_text = request.response_format.kind != message::ResponseFormat::Kind::text;
    const bool holds_both = constrained_by != engine::ConstrainedBy::none &&
                            constrained_by != engine::ConstrainedBy::json_schema;
    return format() != nullptr && common_->options.max_rounds > 1 && !request.continuation &&
           request.prefill.empty() && request.prompt_tokens.empty() &&
           request.tool_choice.mode != message::ToolMode::none &&
           request.tool_choice.allowed.empty() && (!holds_text || holds_both);
  }
  // Returns the tools that it adds.
  ToolSet add_tools(ChatRequest& request) const {
    ToolSet added = tools_->known_tools().beside(request.tools);
    request.tools.insert(request.tools.end(), added.list().begin(), added.list().end());
    added.add_instructions(request.messages);
    return added;
  }

  const std::shared_ptr<Model> inner_;
  std::shared_ptr<Toolbox> tools_;
  const std::shared_ptr<Common> common_;
};

}  // namespace

std::shared_ptr<Model> with_server_tools(std::shared_ptr<Model> inner,
                                         std::shared_ptr<Toolbox> tools,
                                         const ServerToolsOptions& options) {
  return std::make_shared<ServerTools>(std::move(inner), std::move(tools), options);
}

}  // namespace tenon::chat
