#include "tenon/record/replay.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/chat/made_by.h"
#include "tenon/chat/model_before.h"
#include "tenon/json/members.h"
#include "tenon/record/play.h"
#include "tenon/record/recorded_tools.h"
#include "tenon/record/turns.h"
#include "tenon/vocab/byte_tokenizer.h"

// How a recording is played again
//
// The models of today answer the recorded request, over an engine that gives the recorded tokens
// instead of computing some (RecordedEngine). Everything behind the engine is the code that serves
// clients: parser, repair, checks, rounds of tools. So the new events differ from the recorded ones
// only where the code has changed. Each choice has a model of its own (RecordedChoices), since
// choices run at once and their runs must not be mixed up. Their tokens come in the recorded order
// (Turns).

namespace tenon::record {
namespace {

/// Gives the tokens of a choice, one run after the other.
class RecordedEngine final : public engine::Engine {
 public:
  RecordedEngine(const Read& read, std::vector<const Run*> runs, chat::RecordedModel model,
                 std::shared_ptr<Turns> turns)
      : read_(read),
        runs_(std::move(runs)),
        turns_(std::move(turns)),
        tokenizer_(std::move(model.controls), {.bos = std::move(model.bos),
                                               .eos = std::move(model.eos),
                                               .ends = std::move(model.ends)}),
        template_(model.options.chat_template),
        capabilities_(std::move(model.engine)) {
    // The prompt is made of bytes instead of tokens, and no model reads it.
    capabilities_.context_tokens = 1U << 30U;
    capabilities_.max_concurrent = 1;
  }

  const engine::Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return tokenizer_; }
  std::string_view chat_template() const override { return template_; }

  Expected<std::unique_ptr<engine::Run>> start(engine::GenerateRequest request,
                                               std::shared_ptr<engine::EventSink> sink) override {
    const std::lock_guard lock(mutex_);
    if (next_ == runs_.size()) {
      return Unexpected(Error{Errc::unavailable, "the recording has only " + std::to_string(next_) +
                                                     (next_ == 1 ? " run" : " runs") +
                                                     " of this choice"});
    }
    const Run& run = *runs_[next_++];
    return player_.start([this, &run, request = std::move(request),
                          sink = std::move(sink)](const std::atomic<bool>& is_cancelled) {
      const auto told = in_turn(turns_, run, is_cancelled, sink);
      if (run.upstream) {
        play_upstream(run, read_.makers[run.made_by], request, is_cancelled, told);
      } else {
        play_steps(run, is_cancelled, *told);
      }
    });
  }

 private:
  const Read& read_;
  const std::vector<const Run*> runs_;
  const std::shared_ptr<Turns> turns_;
  const vocab::ByteTokenizer tokenizer_;
  const std::string template_;
  engine::Capabilities capabilities_;
  std::mutex mutex_;      // guards next_
  std::size_t next_ = 0;  // in runs_
  Player player_{[turns = turns_] { turns->wake(); }};
};

/// Tells how many tokens the recorded prompt had: made again, it has bytes instead.
class RecordedAnswer final : public chat::Answer {
 public:
  RecordedAnswer(std::unique_ptr<chat::Answer> answer, std::uint32_t prompt_tokens)
      : answer_(std::move(answer)), prompt_tokens_(prompt_tokens) {}
  void cancel() override { answer_->cancel(); }
  void pause() override { answer_->pause(); }
  void resume() override { answer_->resume(); }
  std::uint32_t prompt_tokens() const override { return prompt_tokens_; }

 private:
  const std::unique_ptr<chat::Answer> answer_;
  const std::uint32_t prompt_tokens_;
};

/// One choice of the recording.
class RecordedChoice final : public chat::ModelBefore {
 public:
  RecordedChoice(const std::vector<const Run*>& runs, std::shared_ptr<chat::Model> inner)
      : ModelBefore(std::move(inner)) {
    for (const Run* const run : runs) prompt_tokens_.push_back(run->prompt_tokens);
  }

  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    const std::size_t number = next_++;
    // It names tokens of the model's vocabulary, and has done its work.
    message::ChatRequest asked = request;
    asked.sampling.logit_bias.clear();
    auto answer = inner_->start(asked, std::move(sink));
    if (!answer || number >= prompt_tokens_.size()) return answer;
    return std::make_unique<RecordedAnswer>(*std::move(answer), prompt_tokens_[number]);
  }

 private:
  std::vector<std::uint32_t> prompt_tokens_;  // of each run
  std::atomic<std::size_t> next_ = 0;
};

/// Tells the others that a choice has ended: runs that it had then may not come now.
class ChoiceSink final : public message::ChatSinkBefore {
 public:
  ChoiceSink(unsigned choice, std::shared_ptr<Turns> turns, std::shared_ptr<message::ChatSink> sink)
      : ChatSinkBefore(sink), choice_(choice), turns_(std::move(turns)), sink_(std::move(sink)) {}
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    if (!std::holds_alternative<message::Finish>(event)) return sink_->on_event(event, logprobs);
    // The sink may own this object, so it is released after the last event.
    const auto sink = std::move(sink_);
    sink->on_event(event, logprobs);
    turns_->end_choice(choice_);
  }

 private:
  const unsigned choice_;
  const std::shared_ptr<Turns> turns_;
  std::shared_ptr<message::ChatSink> sink_;  // null after the last event
};

/// A model for each choice, since several are under way at once and each has its own runs. An
/// answer starts its choices in order.
class RecordedChoices final : public chat::ModelBefore {
 public:
  /// `turns` may be null: the choices are no recorded runs.
  RecordedChoices(std::vector<std::shared_ptr<chat::Model>> choices, std::shared_ptr<Turns> turns)
      : ModelBefore(choices.front()), choices_(std::move(choices)), turns_(std::move(turns)) {}

  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    const std::size_t number = std::min(next_++, choices_.size() - 1);
    if (turns_ != nullptr) {
      sink = std::make_shared<ChoiceSink>(static_cast<unsigned>(number), turns_, std::move(sink));
    }
    return choices_[number]->start(request, std::move(sink));
  }

 private:
  const std::vector<std::shared_ptr<chat::Model>> choices_;
  const std::shared_ptr<Turns> turns_;
  std::atomic<std::size_t> next_ = 0;
};

// The model of one choice. The first line `made_by` holds for all runs: only a recursive model has
// several, and the reader refuses its answers.
Expected<std::shared_ptr<chat::Model>> choice_of(const Read& read, unsigned choice,
                                                 const std::shared_ptr<Turns>& turns) {
  auto model = chat::read_made_by(read.makers.front());
  if (!model) return Unexpected(model.error());
  chat::ModelOptions options = model->options;
  options.name = json::text_in(read.heading, "model");
  std::vector<const Run*> runs;
  for (const Run& run : read.runs) {
    if (run.choice == choice) runs.push_back(&run);
  }
  auto engine = std::make_shared<RecordedEngine>(read, runs, *std::move(model), turns);
  auto inner = chat::Model::create(std::move(options), std::move(engine));
  if (!inner) return Unexpected(inner.error());
  return with_recorded_tools(read, choice,
                             std::make_shared<RecordedChoice>(runs, *std::move(inner)));
}

// A model whose choices are those that `make` makes, as many as the recording has.
template <class Make>
Expected<std::shared_ptr<chat::Model>> for_each_choice(const Read& read,
                                                       const std::shared_ptr<Turns>& turns,
                                                       Make make) {
  constexpr unsigned kMostChoices = 128;
  unsigned last = 0;
  for (const Run& run : read.runs) last = std::max(last, run.choice);
  if (last >= kMostChoices) {
    return Unexpected(Error{
        Errc::invalid, "the recording has more than " + std::to_string(kMostChoices) + " choices"});
  }
  std::vector<std::shared_ptr<chat::Model>> choices;
  for (unsigned choice = 0; choice <= last; ++choice) {
    auto model = make(choice);
    if (!model) return Unexpected(model.error());
    choices.push_back(*std::move(model));
  }
  return std::make_shared<RecordedChoices>(std::move(choices), turns);
}

// Members of answers whose values are drawn by chance, or tell the version. They are found in the
// text, since an answer may be a stream of events or one JSON document.
constexpr std::string_view kIds[] = {"\"system_fingerprint\":\"",
                                     "\"id\":\"",
                                     "\"call_id\":\"",
                                     "\"item_id\":\"",
                                     "\"tool_call_id\":\"",
                                     "\"approval_request_id\":\"",
                                     "\"tool_use_id\":\"",
                                     "\"response_id\":\"",
                                     "\"encrypted_content\":\""};
// What keeps a silent stream alive.
constexpr std::string_view kSilence[] = {": keep-alive\n\n",
                                         "event: ping\ndata: {\"type\":\"ping\"}\n\n"};
constexpr std::string_view kTimes[] = {"\"created\":", "\"created_at\":", "\"completed_at\":"};

}  // namespace

Expected<std::shared_ptr<chat::Model>> recorded_model(const Read& read) {
  if (!read.why_not_played.empty()) {
    return Unexpected(Error{Errc::unsupported, read.why_not_played});
  }
  const auto is_refused = [](const Run& run) {
    return run.end.is_null() && run.steps.empty() && !run.upstream;
  };
  const bool has_begun = !read.makers.empty();
  if (!has_begun && read.status == 0) {
    return Unexpected(
        Error{Errc::invalid, "the recording ends before a model has begun to answer"});
  }
  if (read.status != 0 && (!has_begun || std::ranges::any_of(read.runs, is_refused))) {
    return Unexpected(Error{Errc::unsupported,
                            "the engine refused the request, and only the engine itself can say "
                            "whether it still does"});
  }
  const auto turns = std::make_shared<Turns>(read);
  return for_each_choice(read, turns,
                         [&](unsigned choice) { return choice_of(read, choice, turns); });
}

Expected<std::shared_ptr<chat::Model>> with_tools_of_choices(
    const Read& read, const std::shared_ptr<chat::Model>& model) {
  return for_each_choice(read, nullptr,
                         [&](unsigned choice) { return with_recorded_tools(read, choice, model); });
}

namespace {

// An event of a stream whose choices come at once: which one it is of; nothing if it is of none or
// of several.
std::optional<std::int64_t> choice_of_event(std::string_view event) {
  constexpr std::string_view kData = "data: ";
  if (!event.starts_with(kData)) return std::nullopt;
  const auto data = json::parse(event.substr(kData.size()));
  const json::Value* const choices = data ? json::at_pointer(*data, "/choices") : nullptr;
  if (choices == nullptr || choices->if_array() == nullptr || choices->if_array()->size() != 1) {
    return std::nullopt;
  }
  return json::number_in(choices->if_array()->front(), "index");
}

// Puts the choices of a stream one after the other, up to an event that is of none. The order
// between them is chance: each is made by itself. What keeps a silent stream alive is left out: it
// parts nothing.
std::string by_choice(std::string_view answer) {
  constexpr std::string_view kEnd = "\n\n";
  std::string out;
  std::map<std::int64_t, std::string> waiting;
  const auto flush = [&] {
    for (const auto& [choice, events] : waiting) out += events;
    waiting.clear();
  };
  while (!answer.empty()) {
    const std::size_t end = answer.find(kEnd);
    const std::string_view event =
        answer.substr(0, end == std::string_view::npos ? answer.size() : end + kEnd.size());
    answer.remove_prefix(event.size());
    if (std::ranges::find(kSilence, event) != std::end(kSilence)) continue;
    if (const auto choice = choice_of_event(event)) {
      waiting[*choice] += event;
    } else {
      flush();
      out += event;
    }
  }
  flush();
  return out;
}

}  // namespace

// Equal ids become equal names, so that an id which is repeated wrongly still shows.
std::string without_chance(std::string_view told) {
  const std::string answer = by_choice(told);
  std::map<std::string, std::size_t, std::less<>> ids;
  std::string out;
  for (std::size_t at = 0; at < answer.size();) {
    const std::string_view rest = std::string_view(answer).substr(at);
    const auto begins = [&](std::string_view member) { return rest.starts_with(member); };
    if (const auto* id = std::ranges::find_if(kIds, begins); id != std::end(kIds)) {
      const std::size_t end = std::min(rest.find('"', id->size()), rest.size());
      const std::string_view value = rest.substr(id->size(), end - id->size());
      const auto known = ids.try_emplace(std::string(value), ids.size() + 1).first;
      out.append(*id).append("ID").append(std::to_string(known->second));
      at += end;
    } else if (const auto* time = std::ranges::find_if(kTimes, begins); time != std::end(kTimes)) {
      out.append(*time).append("0");
      const std::size_t end = rest.find_first_not_of("0123456789", time->size());
      at += std::min(end, rest.size());
    } else if (const auto* silence = std::ranges::find_if(kSilence, begins);
               silence != std::end(kSilence)) {
      at += silence->size();
    } else {
      out += rest.front();
      ++at;
    }
  }
  return out;
}

}  // namespace tenon::record
