#include "tenon/record/fork.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/value.h"
#include "tenon/record/play.h"

// How an answer goes on from recorded tokens
//
// The first runs are given as they were (Player). The run within which the fork lies is asked of
// the engine with its recorded tokens behind the prompt (go_on), and the sink gets these tokens
// first, as if they had been generated (Continued). Later runs are the engine's alone.

namespace tenon::record {
namespace {

Unexpected refused(Errc code, std::string message) {
  return Unexpected(Error{code, std::move(message)});
}

/// Gives the recorded tokens before the first one of the engine, and counts them as the answer's.
class Continued final : public engine::EventSink {
 public:
  Continued(std::span<const Step> head, std::shared_ptr<engine::EventSink> sink)
      : head_(head), sink_(std::move(sink)) {}

  void on_token(const engine::Token& token) override {
    give_head();
    sink_->on_token(token);
  }
  void on_end(const engine::RunEnd& end) override {
    give_head();
    // The engine has read the recorded tokens as a part of its prompt.
    engine::RunEnd told = end;
    const auto count = static_cast<std::uint32_t>(head_.size());
    told.usage.prompt_tokens -= std::min(count, told.usage.prompt_tokens);
    told.usage.completion_tokens += count;
    sink_->on_end(told);
  }

 private:
  void give_head() {
    if (std::exchange(has_given_, true)) return;
    for (const Step& step : head_) play(step, *sink_);
  }

  const std::span<const Step> head_;
  const std::shared_ptr<engine::EventSink> sink_;
  bool has_given_ = false;
};

class ForkedEngine final : public engine::Engine {
 public:
  ForkedEngine(const Read& read, std::size_t tokens, std::shared_ptr<engine::Engine> engine)
      : read_(read), tokens_(tokens), engine_(std::move(engine)) {}

  const engine::Capabilities& capabilities() const override { return engine_->capabilities(); }
  const vocab::Tokenizer& tokenizer() const override { return engine_->tokenizer(); }
  std::string_view chat_template() const override { return engine_->chat_template(); }
  engine::EngineStats stats() const override { return engine_->stats(); }

  Expected<std::unique_ptr<engine::Run>> start(engine::GenerateRequest request,
                                               std::shared_ptr<engine::EventSink> sink) override {
    const Run* run = nullptr;
    // How many recorded tokens this run begins with. tokens_ counts down from run to run.
    std::size_t head = 0;
    {
      const std::lock_guard lock(mutex_);
      if (tokens_ > 0 && next_ < read_.runs.size()) {
        run = &read_.runs[next_++];
        head = std::min(tokens_, run->steps.size());
        tokens_ -= head;
      }
    }
    if (head == 0) return engine_->start(std::move(request), std::move(sink));
    if (head == run->steps.size() && !run->end.is_null()) {
      return recorded_.start([run, sink = std::move(sink)](const std::atomic<bool>& is_cancelled) {
        play_steps(*run, is_cancelled, *sink);
      });
    }
    return go_on(std::span(run->steps).first(head), std::move(request), std::move(sink));
  }

 private:
  Expected<std::unique_ptr<engine::Run>> go_on(std::span<const Step> head,
                                               engine::GenerateRequest request,
                                               std::shared_ptr<engine::EventSink> sink) {
    if (request.printed != nullptr) {
      return refused(Errc::unsupported,
                     "this engine constrains answers by a grammar of its own server, which knows "
                     "nothing of the recorded tokens: fork with a GGUF file");
    }
    if (request.max_tokens > 0 && request.max_tokens <= head.size()) {
      return refused(Errc::invalid, "the answer may have only " +
                                        std::to_string(request.max_tokens) +
                                        " tokens: fork at an earlier one, or raise max_tokens");
    }
    // The engine's own matcher reads them again (GenerateRequest::begun); here it is only checked
    // that it will accept them.
    if (request.grammar != nullptr) {
      grammar::Matcher matcher(request.grammar);
      for (std::size_t i = 0; i < head.size(); ++i) {
        if (matcher.accept(head[i].id)) continue;
        return refused(Errc::invalid, "token " + std::to_string(i + 1) + " of the recorded ones, " +
                                          json::quoted(head[i].bytes) +
                                          ", cannot come there under this request: fork before "
                                          "it");
      }
    }
    if (request.max_tokens > 0) request.max_tokens -= static_cast<std::uint32_t>(head.size());
    for (const Step& step : head) {
      request.prompt.push_back(step.id);
      request.text += step.bytes;
    }
    request.begun = head.size();
    return engine_->start(std::move(request), std::make_shared<Continued>(head, std::move(sink)));
  }

  const Read& read_;
  std::mutex mutex_;      // guards the next two
  std::size_t tokens_;    // recorded ones that are still to be given
  std::size_t next_ = 0;  // in read_.runs
  const std::shared_ptr<engine::Engine> engine_;
  Player recorded_;
};

// Whether some choice of several has several runs: rounds of tools. An engine is not told which
// choice asks it, so only the first run is known to be the one that asks first.
bool has_choices_with_rounds(const Read& read) {
  std::map<unsigned, std::size_t> runs;
  for (const Run& run : read.runs) ++runs[run.choice];
  return runs.size() > 1 && runs.size() < read.runs.size();
}

}  // namespace

Expected<std::shared_ptr<engine::Engine>> forked_engine(const Read& read, std::size_t tokens,
                                                        std::shared_ptr<engine::Engine> engine) {
  if (engine->capabilities().takes == engine::Takes::messages && tokens > 0) {
    return refused(Errc::unsupported,
                   "the engine makes its prompts itself, so an answer cannot go on from the middle "
                   "of another");
  }
  if (has_choices_with_rounds(read) && tokens > read.runs.front().steps.size()) {
    return refused(Errc::unsupported,
                   "the recording has several choices with several runs, so only tokens of the "
                   "first run can be kept, which has " +
                       std::to_string(read.runs.front().steps.size()));
  }
  const vocab::Tokenizer& tokenizer = engine->tokenizer();
  std::size_t seen = 0;
  for (const Run& run : read.runs) {
    for (const Step& step : run.steps) {
      if (seen == tokens) break;
      if (step.kind != Step::Kind::token) {
        return refused(Errc::unsupported,
                       "the recorded answer came from a server that made its prompts itself, and "
                       "has no tokens to go on from");
      }
      ++seen;
      const bool is_known = step.id >= 0 && static_cast<std::size_t>(step.id) < tokenizer.size();
      // Ids mean something in one vocabulary only. A token without bytes ends a turn.
      if (is_known && (step.bytes.empty() || tokenizer.bytes(step.id) == step.bytes)) continue;
      return refused(Errc::invalid, "token " + std::to_string(seen) + " of the recording is " +
                                        json::quoted(step.bytes) + ", which is not token " +
                                        std::to_string(step.id) +
                                        " of this model: give the model that was recorded");
    }
  }
  if (seen < tokens) {
    return refused(Errc::invalid, "the recording has only " + std::to_string(seen) + " tokens");
  }
  return std::make_shared<ForkedEngine>(read, tokens, std::move(engine));
}

}  // namespace tenon::record
