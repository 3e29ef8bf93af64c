#include "tenon/record/replay.h"

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/ids.h"
#include "tenon/engine/scripted.h"
#include "tenon/format/definition.h"
#include "tenon/record/list.h"
#include "tenon/record/recorder.h"

namespace tenon::record {
namespace {

namespace fs = std::filesystem;

/// Collects the events of an answer, and lets a recording watch it.
class Watching final : public message::ChatSink {
 public:
  explicit Watching(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    if (recording_ != nullptr) recording_->event(0, event);
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    is_over_ = std::holds_alternative<message::Finish>(event);
    if (is_over_) ended_.notify_one();
  }
  bool watches() const override { return recording_ != nullptr; }
  std::uint32_t watched_logprobs() const override {
    return recording_ == nullptr ? 0 : recording_->logprobs();
  }
  void on_run(const message::RunBegin& run) override { recording_->run(0, run); }
  void on_made(const message::MadeToken& token) override { recording_->made(0, token); }
  void on_piece(const message::MadePiece& piece) override { recording_->piece(0, piece); }
  void on_run_end(const message::RunEnded& end) override { recording_->run_end(0, end); }

  /// All events, with the ids of calls, which are drawn by chance, left out.
  std::vector<message::ChatEvent> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return is_over_; });
    std::vector<message::ChatEvent> events = events_;
    for (message::ChatEvent& event : events) {
      if (auto* begin = std::get_if<message::CallBegin>(&event)) begin->id.clear();
    }
    return events;
  }

 private:
  const std::shared_ptr<Recording> recording_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<message::ChatEvent> events_;
  bool is_over_ = false;
};

message::ChatRequest request_for_test() {
  message::ChatRequest request{.model = "tiny",
                               .messages = {{.role = message::Role::user, .content = "Hi, Zoë"}}};
  request.tools.push_back(
      {.name = "get_weather",
       .parameters = *json::parse(
           R"({"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]})")});
  return request;
}

struct ReplayRow {
  std::string_view name;
  std::string text;  // of the model
  message::FinishReason end = message::FinishReason::stop;
  engine::ConstrainedBy constrained_by = engine::ConstrainedBy::none;
  void (*change)(message::ChatRequest&) = [](message::ChatRequest&) {};
};

const ReplayRow kReplayRows[] = {
    {"Text", "Good day, Zoë."},
    {"Call",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 3}}\n</tool_call>"},
    {"RepairedCall",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": \"3\"}}\n</tool_call>"},
    {"MaskedCall",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 3}}\n</tool_call>",
     message::FinishReason::stop, engine::ConstrainedBy::masks,
     [](message::ChatRequest& request) { request.tool_choice.mode = message::ToolMode::required; }},
    {"CutCall", "Look: <tool_call>\n{\"name\": \"get_weather\", \"argu",
     message::FinishReason::length},
    {"Stopped", "one two three", message::FinishReason::stop, engine::ConstrainedBy::none,
     [](message::ChatRequest& request) { request.stop = {"two"}; }},
    {"Failed", "so f", message::FinishReason::error},
};

class Replays : public testing::TestWithParam<ReplayRow> {};

TEST_P(Replays, AreTheSameAnswer) {
  const ReplayRow& row = GetParam();
  const std::string folder = (fs::temp_directory_path() / random_id("tenon_replay_")).string();
  auto engine = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{.constrained_by = row.constrained_by},
      std::vector<engine::Script>{{.text = row.text, .end = row.end}});
  const auto model = chat::Model::create({.name = "tiny", .format = "hermes"}, engine);
  ASSERT_TRUE(model) << model.error().message;
  message::ChatRequest request = request_for_test();
  row.change(request);
  std::vector<message::ChatEvent> events;
  {
    const auto recorder = *Recorder::open({.folder = folder});
    const auto recording =
        recorder->begin({.id = "a", .model = "tiny", .path = "/", .request = "{}"});
    const auto sink = std::make_shared<Watching>(recording);
    const auto answer = (*model)->start(request, sink);
    ASSERT_TRUE(answer) << answer.error().error.message;
    events = sink->wait();
    recording->end(200);
  }
  const std::string name =
      *list_recordings(folder, "", 1)->recordings.at(0).find("name")->if_string();
  const auto text = read_recorded(folder, name, 0);
  fs::remove_all(folder);
  const auto read = read_recording(*text);
  ASSERT_TRUE(read) << read.error().message;
  const auto again = recorded_model(*read);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->format()->info.name, "hermes");
  const auto sink = std::make_shared<Watching>(nullptr);
  const auto answer = (*again)->start(request, sink);
  ASSERT_TRUE(answer) << answer.error().error.message;
  EXPECT_EQ(sink->wait(), events) << *text;
  // The recording has no second run.
  const auto more = (*again)->start(request, std::make_shared<Watching>(nullptr));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().error.message, "the recording has only 1 run of this choice");
}

INSTANTIATE_TEST_SUITE_P(Rows, Replays, testing::ValuesIn(kReplayRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Replay, ChanceIsLeftOut) {
  EXPECT_EQ(without_chance(
                R"({"id":"chatcmpl-x","created":17,"a":[{"id":"call_1"},{"call_id":"call_1"}]})"),
            R"({"id":"ID1","created":0,"a":[{"id":"ID2"},{"call_id":"ID2"}]})");
  EXPECT_EQ(without_chance(R"("id":"cut)"), R"("id":"ID1)");
}

TEST(Replay, RefusesARecordingWithoutARun) {
  const auto read = read_recording("{\"recording\":1,\"request\":{}}\n");
  ASSERT_TRUE(read);
  const auto model = recorded_model(*read);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "the recording ends before a model has begun to answer");
}

}  // namespace
}  // namespace tenon::record
