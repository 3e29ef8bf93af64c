#include "tenon/record/replay.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "tenon/chat/made_by.h"
#include "tenon/chat/model_before.h"
#include "tenon/json/members.h"
#include "tenon/record/play.h"
#include "tenon/record/recorded_tools.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::record {
namespace {

/// Gives the tokens of a recording, one run after the other.
class RecordedEngine final : public engine::Engine {
 public:
  RecordedEngine(const Read& read, chat::RecordedModel model)
      : read_(read),
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

  Expected<std::unique_ptr<engine::Run>> start(engine::GenerateRequest /*request*/,
                                               std::shared_ptr<engine::EventSink> sink) override {
    const std::lock_guard lock(mutex_);
    if (next_ == read_.runs.size()) {
      return Unexpected(
          Error{Errc::unavailable, "the recording has only " + std::to_string(next_) + " runs"});
    }
    return player_.start(read_.runs[next_++], std::move(sink));
  }

 private:
  const Read& read_;
  const vocab::ByteTokenizer tokenizer_;
  const std::string template_;
  engine::Capabilities capabilities_;
  std::mutex mutex_;  // guards next_
  std::size_t next_ = 0;
  Player player_;
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

class RecordedModel final : public chat::ModelBefore {
 public:
  RecordedModel(const Read& read, std::shared_ptr<chat::Model> inner)
      : ModelBefore(std::move(inner)), read_(read) {}

  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    const std::size_t number = next_++;
    auto answer = inner_->start(request, std::move(sink));
    if (!answer || number >= read_.runs.size()) return answer;
    return std::make_unique<RecordedAnswer>(*std::move(answer), read_.runs[number].prompt_tokens);
  }

 private:
  const Read& read_;
  std::atomic<std::size_t> next_ = 0;
};

// Members of answers whose values are drawn by chance, or tell the version.
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
  if (read.makers.empty()) {
    return Unexpected(
        Error{Errc::invalid, "the recording ends before a model has begun to answer"});
  }
  auto model = chat::read_made_by(read.makers.front());
  if (!model) return Unexpected(model.error());
  chat::ModelOptions options = model->options;
  options.name = json::text_in(read.heading, "model");
  auto engine = std::make_shared<RecordedEngine>(read, *std::move(model));
  auto inner = chat::Model::create(std::move(options), std::move(engine));
  if (!inner) return Unexpected(inner.error());
  return with_recorded_tools(read, std::make_shared<RecordedModel>(read, *std::move(inner)));
}

std::string without_chance(std::string_view answer) {
  std::map<std::string, std::size_t, std::less<>> ids;
  std::string out;
  for (std::size_t at = 0; at < answer.size();) {
    const std::string_view rest = answer.substr(at);
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
