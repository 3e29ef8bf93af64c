#include "tenon/api/chat_answer.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tenon/api/chat_encode.h"

namespace tenon::api {
namespace {

/// Tells by which thread it was answered.
class Told final : public http::Exchange {
 public:
  const http::Request& request() const override { return request_; }
  void respond(http::Response response) override {
    body = std::move(response.body);
    answered_by.set_value(std::this_thread::get_id());
  }
  void begin_stream(std::string, std::vector<http::Header>) override {}
  void write(std::string) override {}
  void end_stream() override {}
  std::size_t queued_bytes() const override { return 0; }
  bool is_closed() const override { return false; }
  void on_closed(std::function<void()>) override {}
  void on_drained(std::size_t, std::function<void()>) override {}

  std::string body;
  std::promise<std::thread::id> answered_by;

 private:
  http::Request request_;
};

/// Answers on the thread that asks.
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

TEST(ChatAnswer, WritesAWholeAnswerDownOnAWorkerAndNotOnTheEnginesThread) {
  Metrics metrics;
  Workers workers(1);
  std::promise<std::thread::id> worker;
  workers.post([&] { worker.set_value(std::this_thread::get_id()); });
  const auto exchange = std::make_shared<Told>();
  Prompt engine;
  std::make_shared<ChatAnswer>(
      ChatAnswer::Options{.encoder = std::make_unique<ChatCompletionEncoder>(
                              ChatCompletionHead{}, ChatCompletionEncoder::Options{}),
                          .model = "m",
                          .running = RunningRequest(metrics)},
      exchange, metrics, workers)
      ->start(engine);
  EXPECT_EQ(exchange->answered_by.get_future().get(), worker.get_future().get());
  EXPECT_NE(exchange->body.find(R"("content":"hi")"), std::string::npos);
}

}  // namespace
}  // namespace tenon::api
