#include "bench_model_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tenon::app::bench {
namespace {

using Clock = std::chrono::steady_clock;

// With masks the parser reads answers differently, so an unconstrained engine must say that it has
// none. A printed grammar is left out of the request.
engine::Capabilities capabilities_of(const engine::Engine& engine, bool holds) {
  engine::Capabilities can = engine.capabilities();
  if (!holds && can.constrained_by == engine::ConstrainedBy::masks)
    can.constrained_by = engine::ConstrainedBy::none;
  return can;
}

}  // namespace

Speed& Speed::operator+=(const Speed& other) {
  prompt_tokens += other.prompt_tokens;
  prompt_time += other.prompt_time;
  generated_tokens += other.generated_tokens;
  generated_time += other.generated_time;
  return *this;
}

class WatchedEngine::Sink final : public engine::EventSink {
 public:
  Sink(std::shared_ptr<engine::EventSink> inner, std::shared_ptr<Watch> watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}

  void on_token(const engine::Token& token) override {
    note_first();
    inner_->on_token(token);
  }
  void on_reasoning(std::string_view text) override {
    note_first();
    inner_->on_reasoning(text);
  }
  void on_call(const engine::CallPiece& piece) override {
    note_first();
    inner_->on_call(piece);
  }
  void on_end(const engine::RunEnd& end) override {
    using enum message::FinishReason;
    if (first_ && end.reason != cancelled && end.reason != error) note_end(end.usage);
    inner_->on_end(end);
  }

 private:
  void note_first() {
    if (!first_) first_ = Clock::now();
  }

  void note_end(const message::Usage& usage) {
    Speed speed;
    // A prompt that was mostly found in the cache says nothing about the speed of prompts.
    const std::uint32_t computed =
        usage.prompt_tokens - std::min(usage.prompt_tokens, usage.cached_tokens);
    if (computed > usage.prompt_tokens / 2) {
      speed.prompt_tokens = computed;
      speed.prompt_time = *first_ - begin_;
    }
    if (usage.completion_tokens > 1) {
      // The first token belongs to the time of the prompt.
      speed.generated_tokens = usage.completion_tokens - 1;
      speed.generated_time = Clock::now() - *first_;
    }
    const std::lock_guard lock(watch_->mutex);
    watch_->speed += speed;
  }

  const std::shared_ptr<engine::EventSink> inner_;
  const std::shared_ptr<Watch> watch_;
  const Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> first_;  // of the engine's thread
};

WatchedEngine::WatchedEngine(std::shared_ptr<engine::Engine> inner, bool holds)
    : inner_(std::move(inner)), holds_(holds), capabilities_(capabilities_of(*inner_, holds)) {}

Expected<std::unique_ptr<engine::Run>> WatchedEngine::start(
    engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) {
  if (!holds_) request.printed.reset();
  return inner_->start(std::move(request), std::make_shared<Sink>(std::move(sink), watch_));
}

Speed WatchedEngine::speed() const {
  const std::lock_guard lock(watch_->mutex);
  return watch_->speed;
}

}  // namespace tenon::app::bench
