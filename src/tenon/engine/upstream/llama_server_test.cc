#include "tenon/engine/upstream/llama_server.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kProps =
    R"({"default_generation_settings": {"n_ctx": 512}, "total_slots": 3, "chat_template": "T",
        "bos_token": "", "eos_token": "~"})";
constexpr std::string_view kModels = R"({"data": [{"id": "m", "meta": {"n_vocab": 256}}]})";

/// A llama-server whose tokens are bytes, and whose answer to /completion is written down.
class Fake {
 public:
  explicit Fake(std::string answer, unsigned status = 200, bool hangs = false)
      : answer_(std::move(answer)), status_(status), hangs_(hangs) {
    auto started = http::Server::start(
        {.port = 0},
        [this](std::shared_ptr<http::Exchange> exchange) { handle(std::move(exchange)); });
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server_ = *std::move(started);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  Value body() const {
    const std::lock_guard lock(mutex_);
    return json::parse(body_).value_or(Value());
  }
  std::size_t questions() const {
    const std::lock_guard lock(mutex_);
    return questions_;
  }

 private:
  void handle(std::shared_ptr<http::Exchange> exchange) {
    const http::Request& request = exchange->request();
    if (request.path == "/props") return exchange->respond({.body = std::string(kProps)});
    if (request.path == "/v1/models") return exchange->respond({.body = std::string(kModels)});
    const std::lock_guard lock(mutex_);
    if (request.path == "/tokenize") {
      ++questions_;
      const Value asked = *json::parse(request.body);
      json::Array ids;
      for (const char byte : *asked.find("content")->if_string()) {
        ids.emplace_back(static_cast<int>(static_cast<unsigned char>(byte)));
      }
      const json::Object answer{{"tokens", std::move(ids)}};
      return exchange->respond({.body = json::to_string(answer)});
    }
    body_ = request.body;
    if (status_ != 200) return exchange->respond({.status = status_, .body = answer_});
    exchange->begin_stream("text/event-stream", {});
    exchange->write(answer_);
    if (hangs_) {
      held_ = std::move(exchange);
    } else {
      exchange->end_stream();
    }
  }

  const std::string answer_;
  const unsigned status_;
  const bool hangs_;
  mutable std::mutex mutex_;
  std::string body_;
  std::size_t questions_ = 0;
  std::shared_ptr<http::Exchange> held_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses all of the above
};

constexpr std::string_view kPieces =
    "data: {\"content\": \"Hel\", \"tokens\": [7], \"stop\": false}\n\n"
    "data: {\"content\": \"lo\", \"tokens\": [8], \"stop\": false}\n\n";

std::string with_end(std::string_view stop_type) {
  return std::string(kPieces) + "data: {\"content\": \"\", \"stop\": true, \"stop_type\": \"" +
         std::string(stop_type) + "\", \"tokens_predicted\": 5, \"timings\": {\"cache_n\": 2}}\n\n";
}

struct Case {
  std::string_view name;
  std::string answer;
  unsigned status;
  FinishReason reason;
  std::string_view text;
  std::string_view error_part;
};

const Case kCases[] = {
    {"Eos", with_end("eos"), 200, FinishReason::stop, "Hello", ""},
    {"Limit", with_end("limit"), 200, FinishReason::length, "Hello", ""},
    {"BrokenOff", std::string(kPieces), 200, FinishReason::error, "Hello", "broke off"},
    {"NotJson", std::string(kPieces) + "data: {\n\n" + with_end("eos"), 200, FinishReason::error,
     "Hello", "not JSON"},
    {"ErrorWithin", std::string(kPieces) + "data: {\"error\": {\"message\": \"oops\"}}\n\n", 200,
     FinishReason::error, "Hello", "oops"},
    {"Refused", R"({"error": {"message": "too long"}})", 400, FinishReason::error, "",
     "status 400: too long"},
    {"Failing", "<html>", 502, FinishReason::error, "", "status 502"},
};

TEST(LlamaServer, PassesTokensOnAndSaysHowItEnded) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const Fake fake(test.answer, test.status);
    auto engine = connect_llama_server({.url = fake.url() + "/"});
    ASSERT_TRUE(engine) << engine.error().message;
    auto sink = std::make_shared<RecordingSink>();
    auto run = (*engine)->start({.prompt = {1, 2, 3}}, sink);
    ASSERT_TRUE(run) << run.error().message;
    ASSERT_TRUE(sink->wait_end());
    EXPECT_EQ(sink->text(), test.text);
    EXPECT_EQ(sink->end()->reason, test.reason);
    EXPECT_NE(sink->end()->error.message.find(test.error_part), std::string::npos)
        << sink->end()->error.message;
    EXPECT_EQ(sink->end()->usage.prompt_tokens, 3u);
    if (test.reason == FinishReason::error) continue;
    EXPECT_EQ(sink->ids(), (std::vector<TokenId>{7, 8}));
    EXPECT_EQ(sink->end()->usage.completion_tokens, 5u);
    EXPECT_EQ(sink->end()->usage.cached_tokens, 2u);
  }
}

TEST(LlamaServer, AsksForWhatTheRequestWants) {
  const Fake fake(with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
  EXPECT_EQ((*engine)->capabilities().max_concurrent, 3u);
  EXPECT_EQ((*engine)->chat_template(), "T");
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request{.prompt = {5, 6}, .max_tokens = 9};
  request.sampling = {.temperature = 0, .seed = 0x1'0000'0002, .logit_bias = {{4, -1.5}}};
  auto run = (*engine)->start(request, sink);
  ASSERT_TRUE(run);
  ASSERT_TRUE(sink->wait_end());
  const Value body = fake.body();
  EXPECT_EQ(json::to_string(*body.find("prompt")), "[5,6]");
  EXPECT_EQ(*body.find("n_predict"), Value(9));
  EXPECT_EQ(*body.find("temperature"), Value(0));
  EXPECT_EQ(*body.find("seed"), Value(2));
  EXPECT_EQ(json::to_string(*body.find("logit_bias")), "[[4,-1.5]]");
  EXPECT_EQ(body.find("top_p"), nullptr);
  EXPECT_FALSE((*engine)->start({.prompt = std::vector<TokenId>(512, 1)}, sink));
  EXPECT_FALSE((*engine)->start({.prompt = {256}}, sink));
}

TEST(LlamaServer, TokenizesOnceWhatComesAgain) {
  const Fake fake(with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  const vocab::Tokenizer& tokenizer = (*engine)->tokenizer();
  EXPECT_EQ(tokenizer.eos(), '~');
  EXPECT_FALSE(tokenizer.bos());
  const std::size_t before = fake.questions();
  for (int i = 0; i < 3; ++i) {
    std::vector<TokenId> ids;
    ASSERT_TRUE(tokenizer.encode("ab", vocab::Controls::on, true, ids));
    EXPECT_EQ(ids, (std::vector<TokenId>{'a', 'b'}));
  }
  EXPECT_EQ(fake.questions(), before + 1);
  std::vector<TokenId> ids;
  ASSERT_TRUE(tokenizer.encode("ab", vocab::Controls::off, true, ids));
  EXPECT_EQ(fake.questions(), before + 2);  // data is a question of its own
}

TEST(LlamaServer, CancelsAndEndsOnce) {
  const Fake fake(std::string(kPieces), 200, /*hangs=*/true);
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  auto sink = std::make_shared<RecordingSink>();
  auto run = (*engine)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run);
  ASSERT_TRUE(sink->wait_tokens(2));
  (*run)->cancel();
  ASSERT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  auto limited = std::make_shared<RecordingSink>();
  auto slow =
      (*engine)->start({.prompt = {1}, .time_limit = std::chrono::milliseconds(200)}, limited);
  ASSERT_TRUE(limited->wait_end());
  EXPECT_EQ(limited->end()->reason, FinishReason::cancelled);
  EXPECT_EQ(limited->calls_after_end(), 0u);
}

TEST(LlamaServer, IsNotThere) {
  EXPECT_EQ(connect_llama_server({.url = "gopher://x"}).error().code, Errc::invalid);
  const auto nobody = connect_llama_server({.url = "http://127.0.0.1:1"});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace tenon::engine
