#include "tenon/record/play.h"

#include <atomic>
#include <string>
#include <utility>

#include "tenon/json/members.h"

namespace tenon::record {
namespace {

// A run that was not recorded to its end was cancelled, as far as anybody knows.
engine::RunEnd end_of(const Run& run) {
  engine::RunEnd end{.reason = message::FinishReason::cancelled};
  if (run.end.is_null()) return end;
  using message::FinishReason;
  // The reasons that an engine gives; `tool_calls` is only known to the parser behind it.
  for (const FinishReason reason :
       {FinishReason::stop, FinishReason::length, FinishReason::cancelled, FinishReason::error}) {
    if (json::text_in(run.end, "run_end") == message::finish_reason_name(reason))
      end.reason = reason;
  }
  end.usage = {
      .prompt_tokens = static_cast<std::uint32_t>(json::number_in(run.end, "prompt_tokens")),
      .completion_tokens =
          static_cast<std::uint32_t>(json::number_in(run.end, "completion_tokens")),
      .cached_tokens = static_cast<std::uint32_t>(json::number_in(run.end, "cached_tokens")),
      .reasoning_tokens = static_cast<std::uint32_t>(json::number_in(run.end, "reasoning_tokens")),
      .is_estimated = json::flag_in(run.end, "is_estimated")};
  end.is_constrained = json::flag_in(run.end, "is_constrained");
  end.unconstrained_because = json::text_in(run.end, "unconstrained_because");
  if (end.reason == FinishReason::error)
    end.error = {Errc::unavailable, json::text_in(run.end, "error")};
  return end;
}

// The handle of a run that is being given; destroying it cancels, as for any engine.
class RecordedRun final : public engine::Run {
 public:
  explicit RecordedRun(std::shared_ptr<std::atomic<bool>> is_cancelled)
      : is_cancelled_(std::move(is_cancelled)) {}
  ~RecordedRun() override { cancel(); }
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;
  void cancel() override { is_cancelled_->store(true); }
  void pause() override {}  // an answer of at most kMaxFileBytes fits into memory
  void resume() override {}

 private:
  const std::shared_ptr<std::atomic<bool>> is_cancelled_;
};

// As fast as the sink takes them: the recorded times are not kept.
void play_all(const Run& run, const std::atomic<bool>& is_cancelled, engine::EventSink& sink) {
  for (const Step& step : run.steps) {
    if (is_cancelled) break;
    play(step, sink);
  }
  sink.on_end(end_of(run));
}

}  // namespace

void play(const Step& step, engine::EventSink& sink) {
  if (step.kind == Step::Kind::reasoning) {
    sink.on_reasoning(step.bytes);
  } else if (step.kind == Step::Kind::call) {
    sink.on_call({.index = step.index, .name = step.name, .arguments = step.arguments});
  } else {
    sink.on_token(
        {.id = step.id, .bytes = step.bytes, .is_control = step.is_control, .count = step.count});
  }
}

Player::~Player() {
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<engine::Run> Player::start(const Run& run,
                                           std::shared_ptr<engine::EventSink> sink) {
  auto is_cancelled = std::make_shared<std::atomic<bool>>(false);
  const std::lock_guard lock(mutex_);
  threads_.emplace_back(
      [&run, is_cancelled, sink = std::move(sink)] { play_all(run, *is_cancelled, *sink); });
  return std::make_unique<RecordedRun>(std::move(is_cancelled));
}

}  // namespace tenon::record
