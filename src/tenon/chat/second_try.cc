#include "tenon/chat/second_try.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/base/trace.h"

namespace tenon::chat {
namespace {

using message::ChatEvent;
using message::ChatRequest;
using message::FinishReason;
using message::TokenLogprob;

// To ask a model may mean to wait for its tokenizer, which no engine's thread can do.
class Errands {
 public:
  Errands() : thread_([this] { work(); }) {}
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;
  ~Errands() { close(); }

  /// False: it is closed.
  bool add(std::function<void()> errand) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    errands_.push_back(std::move(errand));
    changed_.notify_one();
    return true;
  }
  /// Waits for those that have been added. Not from within one.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_closed_ || !errands_.empty(); });
      if (errands_.empty()) return;
      std::function<void()> errand = std::move(errands_.front());
      errands_.pop_front();
      lock.unlock();
      errand();
      errand = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> errands_;
  bool is_closed_ = false;
  std::thread thread_;  // last: it uses the others
};

/// One request: the sink of its first answer.
class Trial final : public message::ChatSink, public std::enable_shared_from_this<Trial> {
 public:
  Trial(const std::shared_ptr<Model>& model, std::shared_ptr<Errands> errands, ChatRequest request,
        std::shared_ptr<message::ChatSink> sink)
      : model_(model),
        errands_(std::move(errands)),
        request_(std::move(request)),
        sink_(std::move(sink)) {}

  void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) override;
  void on_second(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs);

  /// Hands over the answer that feeds this; the second one comes by itself.
  void attach(std::unique_ptr<Answer> answer, unsigned number);
  void cancel();
  void set_paused(bool value);
  void detach();

 private:
  void ask_again();
  void give_first();
  [[nodiscard]] ChatRequest with_faults();

  const std::weak_ptr<Model> model_;
  const std::shared_ptr<Errands> errands_;
  const std::string about_{log::about()};
  const trace::Context trace_ = trace::current();

  // Of whichever thread the events come from; between the two answers, of the errand.
  ChatRequest request_;
  std::shared_ptr<message::ChatSink> sink_;
  message::Fold first_;
  std::vector<std::pair<ChatEvent, std::vector<TokenLogprob>>> held_;
  std::vector<std::string> faults_;  // by call; "": it fits
  bool has_fault_ = false;
  bool has_second_ = false;

  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Answer> answer_;
  unsigned number_ = 1;  // of the answer that answer_ is, or will be
  bool is_cancelled_ = false;
  bool is_paused_ = false;
};

class Second final : public message::ChatSink {
 public:
  explicit Second(std::shared_ptr<Trial> trial) : trial_(std::move(trial)) {}
  void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) override {
    trial_->on_second(event, logprobs);
  }

 private:
  const std::shared_ptr<Trial> trial_;
};

void Trial::on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  first_.add(event);
  if (std::holds_alternative<message::CallBegin>(event)) faults_.emplace_back();
  const auto* const diagnostic = std::get_if<message::Diagnostic>(&event);
  if (diagnostic != nullptr && diagnostic->code == "invalid_arguments" && !faults_.empty()) {
    faults_.back() = diagnostic->message;
    has_fault_ = true;
  }
  const auto* const finish = std::get_if<message::Finish>(&event);
  const bool is_held = !faults_.empty();
  if (is_held) {
    held_.emplace_back(event, logprobs);
  } else {
    sink_->on_event(event, logprobs);
  }
  if (finish == nullptr) return;
  if (!is_held) return sink_.reset();
  const bool is_wrong = has_fault_ && finish->reason == FinishReason::tool_calls;
  const auto ask = [self = shared_from_this()] { self->ask_again(); };
  if (!is_wrong || !errands_->add(ask)) give_first();
}

void Trial::give_first() {
  for (const auto& [event, logprobs] : held_) sink_->on_event(event, logprobs);
  held_.clear();
  sink_.reset();
}

// The calls with what is wrong with them, as the results of tools.
ChatRequest Trial::with_faults() {
  ChatRequest request = std::move(request_);
  request.messages.push_back(first_.message());
  const auto& calls = first_.message().tool_calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string& fault = faults_[i];
    request.messages.push_back(
        {.role = message::Role::tool,
         .content = fault.empty() ? "Not run, since another call was wrong. Make this call again."
                                  : "Error: " + fault +
                                        ". Nothing was run. Make the call again, with "
                                        "arguments that fit the tool's schema.",
         .tool_call_id = calls[i].id,
         .name = calls[i].name});
  }
  return request;
}

void Trial::ask_again() {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  const auto model = model_.lock();
  bool is_wanted = model != nullptr;
  {
    const std::lock_guard lock(mutex_);
    is_wanted = is_wanted && !is_cancelled_;
    if (is_wanted) ++number_;
  }
  if (!is_wanted) return give_first();
  auto answer = model->start(with_faults(), std::make_shared<Second>(shared_from_this()));
  if (answer) return attach(*std::move(answer), 2);
  log::warn("the model is not asked again: " + answer.error().error.message);
  give_first();
}

void Trial::on_second(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  const auto* const finish = std::get_if<message::Finish>(&event);
  if (finish != nullptr && finish->reason == FinishReason::error && !has_second_) {
    log::warn("the model was asked again, in vain: " + finish->error.message);
    return give_first();
  }
  if (!std::exchange(has_second_, true)) {
    held_.clear();
    std::string faults;
    for (const std::string& fault : faults_) {
      if (!fault.empty()) faults += (faults.empty() ? "" : "; ") + fault;
    }
    log::info("asked again: " + std::string(log::content(faults)));
    sink_->on_event(message::Diagnostic{"asked_again", faults}, {});
  }
  if (finish == nullptr) return sink_->on_event(event, logprobs);
  message::Finish both = *finish;
  const message::Usage& first = first_.finish().usage;
  both.usage.prompt_tokens += first.prompt_tokens;
  both.usage.completion_tokens += first.completion_tokens;
  both.usage.cached_tokens += first.cached_tokens;
  both.usage.reasoning_tokens += first.reasoning_tokens;
  sink_->on_event(both, logprobs);
  sink_.reset();
}

// The first answer may be over, and the second under way, before start() has returned it.
void Trial::attach(std::unique_ptr<Answer> answer, unsigned number) {
  std::unique_ptr<Answer> gone = std::move(answer);  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (number != number_) return;
  answer_.swap(gone);
  if (is_paused_) answer_->pause();
  if (is_cancelled_) answer_->cancel();
}

void Trial::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  if (answer_ != nullptr) answer_->cancel();
}

void Trial::set_paused(bool value) {
  const std::lock_guard lock(mutex_);
  is_paused_ = value;
  if (answer_ != nullptr) value ? answer_->pause() : answer_->resume();
}

void Trial::detach() {
  std::unique_ptr<Answer> gone;
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  gone = std::move(answer_);
}

class TrialAnswer final : public Answer {
 public:
  explicit TrialAnswer(std::shared_ptr<Trial> trial) : trial_(std::move(trial)) {}
  ~TrialAnswer() override { trial_->detach(); }
  TrialAnswer(const TrialAnswer&) = delete;
  TrialAnswer& operator=(const TrialAnswer&) = delete;

  void cancel() override { trial_->cancel(); }
  void pause() override { trial_->set_paused(true); }
  void resume() override { trial_->set_paused(false); }

 private:
  const std::shared_ptr<Trial> trial_;
};

class SecondTry final : public Model {
 public:
  explicit SecondTry(std::shared_ptr<Model> inner) : inner_(std::move(inner)) {}
  ~SecondTry() override { errands_->close(); }
  SecondTry(const SecondTry&) = delete;
  SecondTry& operator=(const SecondTry&) = delete;

  const std::string& name() const override { return inner_->name(); }
  const std::vector<std::string>& aliases() const override { return inner_->aliases(); }
  const engine::Capabilities& capabilities() const override { return inner_->capabilities(); }
  engine::EngineStats stats() const override { return inner_->stats(); }
  engine::Engine* engine() const override { return inner_->engine(); }
  const format::Format* format() const override { return inner_->format(); }
  Result<Prepared, Refusal> prepare(const ChatRequest& request) const override {
    return inner_->prepare(request);
  }
  GrammarCounts grammar_counts() const override { return inner_->grammar_counts(); }

  // An answer that goes on from its beginning cannot be begun again.
  Result<std::unique_ptr<Answer>, Refusal> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override {
    if (request.tools.empty() || request.continuation || !request.prefill.empty()) {
      return inner_->start(request, std::move(sink));
    }
    auto trial = std::make_shared<Trial>(inner_, errands_, request, std::move(sink));
    auto answer = inner_->start(request, trial);
    if (!answer) return Failure<Refusal>(std::move(answer.error()));
    trial->attach(*std::move(answer), 1);
    return std::make_unique<TrialAnswer>(std::move(trial));
  }

 private:
  const std::shared_ptr<Model> inner_;
  const std::shared_ptr<Errands> errands_ = std::make_shared<Errands>();
};

}  // namespace

std::shared_ptr<Model> with_second_try(std::shared_ptr<Model> inner) {
  return std::make_shared<SecondTry>(std::move(inner));
}

}  // namespace tenon::chat
