#include "tenon/chat/second_try.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/trace.h"
#include "tenon/chat/kept_tokens.h"
#include "tenon/chat/model_before.h"
#include "tenon/engine/run_slot.h"

// How a second answer is asked for
//
// Text before the first call goes to the client at once. From the first call on, events are held
// back, because a call that was shown cannot be taken back. At the end of the answer:
//  - all calls are valid, or the answer was cut: the held events are given (give_first);
//  - a call was invalid: an errand asks the model again, with the calls and their faults as
//    messages (ask_again). If the second answer begins, it replaces the held events
//    (begin_second); if it fails before that, the client gets the first answer after all.
// There is no third answer: Second passes on what comes.

namespace tenon::chat {
namespace {

using message::ChatEvent;
using message::ChatRequest;
using message::FinishReason;
using message::TokenLogprob;

// Runs tasks on a thread of its own: asking a model may wait for its tokenizer, which an engine's
// thread must not do.
class Errands {
 public:
  Errands() : thread_([this] { work(); }) {}
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;
  ~Errands() { close(); }

  /// Returns false if it is closed.
  bool add(std::function<void()> errand) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    errands_.push_back(std::move(errand));
    changed_.notify_one();
    return true;
  }
  /// Waits for the tasks that were added. Not from within one.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  static void run(const std::function<void()>& errand) {
    try {
      errand();
    } catch (const std::exception& error) {  // out of memory
      log::error("asking again: " + std::string(error.what()));
    }
  }
  void work() {
    const crash::ThreadStack stack;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_closed_ || !errands_.empty(); });
      if (errands_.empty()) return;
      std::function<void()> errand = std::move(errands_.front());
      errands_.pop_front();
      lock.unlock();
      run(errand);
      errand = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> errands_;
  bool is_closed_ = false;
  std::thread thread_;  // last: it uses the members above
};

/// One request; the sink of its first answer.
class Trial final : public message::ChatSinkBefore, public std::enable_shared_from_this<Trial> {
 public:
  Trial(const std::shared_ptr<Model>& model, std::shared_ptr<Errands> errands, ChatRequest request,
        std::chrono::milliseconds time_limit, std::shared_ptr<message::ChatSink> sink)
      : ChatSinkBefore(sink),
        model_(model),
        errands_(std::move(errands)),
        deadline_(patience::after(time_limit)),
        request_(std::move(request)),
        sink_(std::move(sink)) {}

  void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) override;
  void on_second(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs);

  /// The slot of the first answer; the second one is attached by this class.
  engine::RunSlot<Answer>& answer() { return answer_; }

 private:
  void ask_again();
  void give_first();
  void begin_second();
  [[nodiscard]] ChatRequest with_faults();

  const std::weak_ptr<Model> model_;
  const std::shared_ptr<Errands> errands_;
  const std::string about_{log::about()};
  const trace::Context trace_ = trace::current();
  const patience::Clock::time_point deadline_;

  // Used by the thread that the events come from; between the two answers, by the errand.
  ChatRequest request_;
  std::shared_ptr<message::ChatSink> sink_;
  message::Fold first_;
  // Events of the first answer from its first call on, which the client has not seen.
  std::vector<std::pair<ChatEvent, std::vector<TokenLogprob>>> held_;
  std::vector<std::string> faults_;  // by call; "": it is valid
  bool has_fault_ = false;
  bool has_second_ = false;
  std::vector<ChatEvent> second_told_;  // diagnostics that came before the second answer begins

  engine::RunSlot<Answer> answer_;
};

// The sink of the second answer.
class Second final : public message::ChatSinkBefore {
 public:
  explicit Second(const std::shared_ptr<Trial>& trial) : ChatSinkBefore(trial), trial_(trial) {}
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
  // The check of arguments reports a fault behind the call that it is about (chat/turn.cc).
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
  // This is an engine's thread, which must not ask the model: see Errands.
  if (!is_wrong || !errands_->add(ask)) give_first();
}

// Gives the client what was held of the first answer, faults and all.
void Trial::give_first() {
  for (const auto& [event, logprobs] : held_) sink_->on_event(event, logprobs);
  held_.clear();
  sink_.reset();
}

// The request with the calls and, as the results of tools, what is wrong with them.
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
  request.previous_token_ids = tokens_so_far(first_.finish());
  return request;
}

void Trial::ask_again() {
  const log::About about(about_);
  const trace::Scope scope(trace_);
  const patience::Scope patience({.deadline = deadline_});
  const auto model = model_.lock();
  if (model == nullptr || answer_.is_cancelled()) return give_first();
  // The first answer may be over before start() has returned it.
  const unsigned number = answer_.next();
  auto answer = model->start(with_faults(), std::make_shared<Second>(shared_from_this()));
  if (answer) return answer_.attach(*std::move(answer), number);
  log::warn("the model is not asked again: " +
            std::string(log::content(answer.error().error.message)));
  give_first();
}

// Drops what was kept of the first answer, and tells what was wrong with it.
void Trial::begin_second() {
  held_.clear();
  std::string faults;
  for (const std::string& fault : faults_) {
    if (!fault.empty()) faults += (faults.empty() ? "" : "; ") + fault;
  }
  log::info("asked again: " + std::string(log::content(faults)));
  sink_->on_event(message::Diagnostic{"asked_again", faults}, {});
  for (const ChatEvent& told : second_told_) sink_->on_event(told, {});
}

// An engine may send diagnostics before it says that there is no answer.
void Trial::on_second(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) {
  const auto* const finish = std::get_if<message::Finish>(&event);
  const bool has_failed = finish != nullptr && (finish->reason == FinishReason::error ||
                                                finish->reason == FinishReason::cancelled);
  if (has_failed && !has_second_) {
    log::warn("the model was asked again, in vain: " +
              std::string(log::content(finish->error.message)));
    return give_first();
  }
  if (!has_second_ && std::holds_alternative<message::Diagnostic>(event)) {
    return second_told_.push_back(event);
  }
  if (!std::exchange(has_second_, true)) begin_second();
  if (finish == nullptr) return sink_->on_event(event, logprobs);
  message::Finish both = *finish;
  both.usage += first_.finish().usage;
  sink_->on_event(both, logprobs);
  sink_.reset();
}

class TrialAnswer final : public Answer {
 public:
  TrialAnswer(std::shared_ptr<Trial> trial, std::uint32_t prompt_tokens)
      : trial_(std::move(trial)), prompt_tokens_(prompt_tokens) {}
  ~TrialAnswer() override { trial_->answer().detach(); }
  TrialAnswer(const TrialAnswer&) = delete;
  TrialAnswer& operator=(const TrialAnswer&) = delete;

  void cancel() override { trial_->answer().cancel(); }
  void pause() override { trial_->answer().set_paused(true); }
  void resume() override { trial_->answer().set_paused(false); }
  [[nodiscard]] std::uint32_t prompt_tokens() const override { return prompt_tokens_; }

 private:
  const std::shared_ptr<Trial> trial_;
  const std::uint32_t prompt_tokens_;
};

class SecondTry final : public ModelBefore {
 public:
  SecondTry(std::shared_ptr<Model> inner, std::chrono::milliseconds time_limit)
      : ModelBefore(std::move(inner)), time_limit_(time_limit) {}
  // Errands use the model, so they end before it does.
  ~SecondTry() override { errands_->close(); }
  SecondTry(const SecondTry&) = delete;
  SecondTry& operator=(const SecondTry&) = delete;

  // An answer that continues a given beginning cannot be begun again.
  Result<std::unique_ptr<Answer>, Refusal> start(const ChatRequest& request,
                                                 std::shared_ptr<message::ChatSink> sink) override {
    if (request.tools.empty() || request.continuation || !request.prefill.empty() ||
        !request.prompt_token_ids.empty()) {
      return inner_->start(request, std::move(sink));
    }
    auto trial = std::make_shared<Trial>(inner_, errands_, request, time_limit_, std::move(sink));
    auto answer = inner_->start(request, trial);
    if (!answer) return Failure<Refusal>(std::move(answer.error()));
    const std::uint32_t prompt_tokens = (*answer)->prompt_tokens();
    trial->answer().attach(*std::move(answer));
    return std::make_unique<TrialAnswer>(std::move(trial), prompt_tokens);
  }

 private:
  const std::chrono::milliseconds time_limit_;
  const std::shared_ptr<Errands> errands_ = std::make_shared<Errands>();
};

}  // namespace

std::shared_ptr<Model> with_second_try(std::shared_ptr<Model> inner,
                                       std::chrono::milliseconds time_limit) {
  return std::make_shared<SecondTry>(std::move(inner), time_limit);
}

}  // namespace tenon::chat
