#include "tenon/api/chat_answer.h"

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/chat_encode.h"
#include "tenon/base/ids.h"
#include "tenon/json/members.h"
#include "tenon/record/list.h"
#include "tenon/record/reader.h"
#include "tenon/record/recorder.h"

namespace tenon::api {
namespace {

/// Records the thread by which it was answered.
class Told final : public http::Exchange {
 public:
  const http::Request& request() const override { return request_; }
  void respond(http::Response response) override {
    status = response.status;
    retry_after = http::find_header(response.headers, "retry-after");
    body = std::move(response.body);
    answered_by.set_value(std::this_thread::get_id());
  }
  void begin_stream(std::string, std::vector<http::Header>) override {
    status = 200;
    body += "<begin>";
  }
  void write(std::string bytes) override { body += bytes; }
  void end_stream() override {
    body += "<end>";
    ended.set_value();
  }
  std::size_t queued_bytes() const override { return 0; }
  bool is_closed() const override { return false; }
  void on_closed(std::function<void()>) override {}
  void on_drained(std::size_t, std::function<void()>) override {}

  unsigned status = 0;
  std::string retry_after;
  std::string body;
  std::promise<std::thread::id> answered_by;
  std::promise<void> ended;

 private:
  http::Request request_;
};

/// Answers on the calling thread.
class Prompt final : public chat::Responder {
 public:
  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest&, std::shared_ptr<message::ChatSink> sink) override {
    sink->on_event(message::ContentDelta{"hi"}, {});
    sink->on_event(message::Finish{}, {});
    return std::make_unique<Over>();
  }

 private:
  struct Over final : chat::Answer {
    void cancel() override {}
    void pause() override {}
    void resume() override {}
  };
};

/// Its first answer fails while the answer of that number is being started.
class Failing final : public chat::Responder {
 public:
  Failing(std::size_t at, bool has_text, message::Denial denial = {})
      : at_(at), has_text_(has_text), denial_(denial) {}
  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const message::ChatRequest&, std::shared_ptr<message::ChatSink> sink) override {
    sinks_.push_back(std::move(sink));
    if (started++ == at_) {
      if (has_text_) sinks_.front()->on_event(message::ContentDelta{"hi"}, {});
      sinks_.front()->on_event(message::Finish{.reason = message::FinishReason::error,
                                               .error = {Errc::unavailable, "the engine is gone"},
                                               .denial = denial_},
                               {});
    }
    return std::make_unique<Started>(*this);
  }
  std::size_t started = 0;
  std::size_t cancelled = 0;

 private:
  struct Started final : chat::Answer {
    explicit Started(Failing& of) : of_(of) {}
    void cancel() override { ++of_.cancelled; }
    void pause() override {}
    void resume() override {}
    Failing& of_;
  };

  const std::size_t at_;
  const bool has_text_;
  const message::Denial denial_;
  std::vector<std::shared_ptr<message::ChatSink>> sinks_;
};

/// Chat Completions whose end takes long, so that a worker makes it.
class Slow final : public AnswerEncoder {
 public:
  [[nodiscard]] bool ends_slowly() const override { return true; }
  [[nodiscard]] Dialect dialect() const override { return of_.dialect(); }
  [[nodiscard]] std::span<const FieldName> field_names() const override {
    return of_.field_names();
  }
  void begin(std::string& out) override { of_.begin(out); }
  void add(unsigned choice, const message::ChatEvent& event,
           const std::vector<message::TokenLogprob>& logprobs, std::string& out) override {
    of_.add(choice, event, logprobs, out);
  }
  void end(const message::Usage& usage, std::string& out) override { of_.end(usage, out); }
  void fail(const ApiError& error, std::string& out) override { of_.fail(error, out); }
  void keep_alive(std::string& out) override { of_.keep_alive(out); }
  void keep(unsigned choice, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override {
    of_.keep(choice, event, logprobs);
  }
  [[nodiscard]] json::Value whole(const message::Usage& usage) override { return of_.whole(usage); }

 private:
  ChatCompletionEncoder of_{ChatCompletionHead{}, ChatCompletionEncoder::Options{.choices = 3}};
};

ChatAnswer::Options options(Metrics& metrics) {
  return {.encoder = std::make_unique<ChatCompletionEncoder>(ChatCompletionHead{},
                                                             ChatCompletionEncoder::Options{}),
          .model = "m",
          .running = RunningRequest(metrics)};
}

// A choice that fails while others are being started ends them all; none goes on without a client.
TEST(ChatAnswer, LeavesNoChoiceBehindOneThatFails) {
  const struct {
    bool stream;
    bool has_text;
    unsigned status;
  } rows[] = {{false, false, 503}, {false, true, 503}, {true, false, 503}, {true, true, 200}};
  for (const auto& row : rows) {
    for (const std::size_t at : {0U, 1U, 3U}) {
      Metrics metrics;
      Workers workers(1);
      const auto exchange = std::make_shared<Told>();
      Failing engine(at, row.has_text);
      ChatAnswer::Options asked = options(metrics);
      asked.choices = 4;
      asked.stream = row.stream;
      std::make_shared<ChatAnswer>(std::move(asked), exchange, metrics, workers)->start(engine);
      EXPECT_EQ(engine.started, at + 1);
      EXPECT_EQ(engine.cancelled, at + 1);
      EXPECT_EQ(exchange->status, row.status);
      EXPECT_NE(exchange->body.find("the engine is gone"), std::string::npos) << exchange->body;
      EXPECT_EQ(exchange->body.find("hi") != std::string::npos, row.status == 200);
    }
  }
}

TEST(ChatAnswer, TellsWhyAServerElsewhereAnswersNothing) {
  using Reason = message::Denial::Reason;
  const struct {
    message::Denial denial;
    unsigned status;
    std::string_view code;
    std::string_view retry_after;
  } rows[] = {{{}, 503, "\"engine_error\"", "1"},
              {{.retry_after_s = 9}, 503, "\"engine_error\"", "9"},
              {{.reason = Reason::denied}, 502, "\"engine_denied\"", ""},
              {{.reason = Reason::busy}, 429, "\"engine_busy\"", "1"},
              {{.reason = Reason::busy, .retry_after_s = 30}, 429, "\"engine_busy\"", "30"}};
  for (const auto& row : rows) {
    for (const bool stream : {false, true}) {
      Metrics metrics;
      Workers workers(1);
      const auto exchange = std::make_shared<Told>();
      Failing engine(0, /*has_text=*/false, row.denial);
      ChatAnswer::Options asked = options(metrics);
      asked.stream = stream;
      std::make_shared<ChatAnswer>(std::move(asked), exchange, metrics, workers)->start(engine);
      EXPECT_EQ(exchange->status, row.status);
      EXPECT_EQ(exchange->retry_after, row.retry_after);
      EXPECT_NE(exchange->body.find(row.code), std::string::npos) << exchange->body;
    }
  }
}

// An answer may end while its choices are still being started, before its stream can open. Then the
// stream is sent as a whole, in order, and ends once.
TEST(ChatAnswer, SendsAStreamThatEndedBeforeItOpened) {
  for (const bool is_slow : {false, true}) {
    for (const unsigned choices : {1U, 3U}) {
      Metrics metrics;
      Workers workers(1);
      const auto exchange = std::make_shared<Told>();
      Prompt engine;
      ChatAnswer::Options asked = options(metrics);
      if (is_slow) {
        asked.encoder = std::make_unique<Slow>();
      } else {
        asked.encoder = std::make_unique<ChatCompletionEncoder>(
            ChatCompletionHead{}, ChatCompletionEncoder::Options{.choices = choices});
      }
      asked.stream = true;
      asked.choices = choices;
      const std::string folder =
          (std::filesystem::temp_directory_path() / random_id("tenon_early_")).string();
      auto recorder = *record::Recorder::open({.folder = folder});
      asked.recording = recorder->begin({.id = "a", .model = "m", .path = "/", .request = "{}"});
      auto answer = std::make_shared<ChatAnswer>(std::move(asked), exchange, metrics, workers);
      answer->start(engine);
      exchange->ended.get_future().wait();
      const std::string& body = exchange->body;
      answer.reset();
      workers.stop();
      recorder.reset();
      const auto listed = record::list_recordings(folder, "", 1);
      const std::string name = json::text_in(listed->recordings.at(0), "name");
      const auto read = record::read_recording(*record::read_recorded(folder, name, 0));
      std::filesystem::remove_all(folder);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ("<begin>" + read->sent + "<end>", body);
      EXPECT_EQ(read->status, 200);
      EXPECT_TRUE(body.starts_with("<begin>")) << body;
      EXPECT_TRUE(body.ends_with("data: [DONE]\n\n<end>")) << body;
      std::size_t said = 0;
      for (std::size_t at = body.find("hi"); at != std::string::npos; at = body.find("hi", at + 1))
        ++said;
      EXPECT_EQ(said, choices) << body;
    }
  }
}

TEST(ChatAnswer, WritesAWholeAnswerDownOnAWorkerAndNotOnTheEnginesThread) {
  Metrics metrics;
  Workers workers(1);
  std::promise<std::thread::id> worker;
  workers.post([&] { worker.set_value(std::this_thread::get_id()); });
  const auto exchange = std::make_shared<Told>();
  Prompt engine;
  std::make_shared<ChatAnswer>(options(metrics), exchange, metrics, workers)->start(engine);
  EXPECT_EQ(exchange->answered_by.get_future().get(), worker.get_future().get());
  EXPECT_NE(exchange->body.find(R"("content":"hi")"), std::string::npos);
}

}  // namespace
}  // namespace tenon::api
