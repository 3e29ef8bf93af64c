#include "tenon/record/play.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "tenon/engine/upstream/kept_answer.h"
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
  end.closed_loops = static_cast<std::uint32_t>(json::number_in(run.end, "closed_loops"));
  if (end.reason == FinishReason::error)
    end.error = {Errc::unavailable, json::text_in(run.end, "error")};
  return end;
}

// The handle of a run that is being given; destroying it cancels, as for any engine.
class RecordedRun final : public engine::Run {
 public:
  RecordedRun(std::shared_ptr<std::atomic<bool>> is_cancelled, std::function<void()> on_cancel)
      : is_cancelled_(std::move(is_cancelled)), on_cancel_(std::move(on_cancel)) {}
  ~RecordedRun() override { cancel(); }
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;
  void cancel() override {
    is_cancelled_->store(true);
    on_cancel_();
  }
  void pause() override {}  // an answer of at most kMaxFileBytes fits into memory
  void resume() override {}

 private:
  const std::shared_ptr<std::atomic<bool>> is_cancelled_;
  const std::function<void()> on_cancel_;
};

/// The tokens that a run had, by their ids. It knows no others, and encodes nothing.
class KeptTokens final : public vocab::Tokenizer {
 public:
  /// `end` is the text of the token that ends a turn, which is recorded without its text.
  KeptTokens(const std::vector<Step>& steps, std::string end) : end_(std::move(end)) {
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::token) tokens_.try_emplace(step.id, &step);
    }
  }
  std::size_t size() const override {
    return tokens_.empty() ? 0 : static_cast<std::size_t>(tokens_.rbegin()->first) + 1;
  }
  Status encode(std::string_view /*text*/, vocab::Controls /*controls*/, bool /*at_start*/,
                std::vector<vocab::TokenId>& /*ids*/) const override {
    return Unexpected(Error{Errc::unsupported, "a recording has no tokenizer"});
  }
  std::string_view bytes(vocab::TokenId id) const override {
    const Step* const step = find(id);
    if (step == nullptr) return {};
    return step->bytes.empty() ? std::string_view(end_) : step->bytes;
  }
  bool is_control(vocab::TokenId id) const override {
    const Step* const step = find(id);
    return step != nullptr && (step->is_control || step->bytes.empty());
  }
  bool ends_generation(vocab::TokenId id) const override {
    const Step* const step = find(id);
    return step != nullptr && step->bytes.empty();
  }
  std::optional<vocab::TokenId> control_token(std::string_view /*text*/) const override {
    return std::nullopt;
  }
  std::optional<vocab::TokenId> bos() const override { return std::nullopt; }
  std::optional<vocab::TokenId> eos() const override {
    const auto end = std::ranges::find_if(
        tokens_, [](const auto& token) { return token.second->bytes.empty(); });
    return end == tokens_.end() ? std::nullopt : std::optional(end->first);
  }
  bool adds_bos() const override { return false; }

 private:
  const Step* find(vocab::TokenId id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : found->second;
  }

  const std::string end_;
  std::map<vocab::TokenId, const Step*> tokens_;
};

/// Adds to what is read in an upstream's bytes what they do not tell: whether the answer was
/// constrained, what is made of a failure after several servers were asked, and how much was
/// counted of a run that was cancelled, which is chance: a replay has all of its bytes at once.
class AsRecorded final : public engine::EventSink {
 public:
  AsRecorded(engine::RunEnd then, std::shared_ptr<engine::EventSink> sink)
      : then_(std::move(then)), sink_(std::move(sink)) {}
  void on_token(const engine::Token& token) override { sink_->on_token(token); }
  void on_reasoning(std::string_view text) override { sink_->on_reasoning(text); }
  void on_call(const engine::CallPiece& piece) override { sink_->on_call(piece); }
  void on_upstream(const message::UpstreamPart& part) override { sink_->on_upstream(part); }
  void on_end(const engine::RunEnd& end) override {
    using message::FinishReason;
    engine::RunEnd now = end;
    now.is_constrained = then_.is_constrained;
    now.unconstrained_because = then_.unconstrained_because;
    now.closed_loops = then_.closed_loops;
    const bool was_cut = then_.reason == FinishReason::cancelled;
    if (was_cut || now.reason == FinishReason::cancelled) now.usage = then_.usage;
    if (now.reason == FinishReason::error && then_.reason == FinishReason::error) {
      now.error.message = then_.error.message;
    }
    sink_->on_end(now);
  }

 private:
  const engine::RunEnd then_;
  const std::shared_ptr<engine::EventSink> sink_;
};

}  // namespace

// As fast as the sink takes them: the recorded times are not kept.
void play_steps(const Run& run, const std::atomic<bool>& is_cancelled, engine::EventSink& sink) {
  for (const Step& step : run.steps) {
    if (is_cancelled) break;
    play(step, sink);
  }
  sink.on_end(end_of(run));
}

void play_upstream(const Run& run, const json::Value& made_by, engine::GenerateRequest request,
                   const std::atomic<bool>& is_cancelled, std::shared_ptr<engine::EventSink> sink) {
  const json::Value* const engine = made_by.find("engine");
  const std::string kind = engine == nullptr ? std::string() : json::text_in(*engine, "kind");
  const KeptTokens tokens(run.steps, json::text_in(made_by, "eos"));
  // The ids of today's request are bytes; those that the upstream had are known by the run's.
  request.ends.clear();
  if (request.chat == nullptr) request.prompt.resize(run.prompt_tokens);
  auto told = std::make_shared<AsRecorded>(end_of(run), sink);
  if (!engine::read_kept_answer(kind, *run.upstream, request, tokens, is_cancelled, told)) {
    play_steps(run, is_cancelled, *sink);
  }
}

void play(const Step& step, engine::EventSink& sink) {
  if (step.kind == Step::Kind::reasoning) {
    sink.on_reasoning(step.bytes);
  } else if (step.kind == Step::Kind::call) {
    sink.on_call({.index = step.index, .name = step.name, .arguments = step.arguments});
  } else {
    const std::span<const bool> top_is_legal =
        step.logprob ? std::span(step.logprob->top_is_legal).first(step.logprob->legal_tops)
                     : std::span<const bool>();
    sink.on_token({.id = step.id,
                   .bytes = step.bytes,
                   .is_control = step.is_control,
                   .logprob = step.logprob ? &step.logprob->logprob : nullptr,
                   .legal = step.legal,
                   .top_is_legal = top_is_legal,
                   .count = step.count});
  }
}

Player::~Player() {
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<engine::Run> Player::start(Play play) {
  auto is_cancelled = std::make_shared<std::atomic<bool>>(false);
  const std::lock_guard lock(mutex_);
  threads_.emplace_back([play = std::move(play), is_cancelled] { play(*is_cancelled); });
  return std::make_unique<RecordedRun>(std::move(is_cancelled), on_cancel_);
}

}  // namespace tenon::record
