#include "tenon/engine/upstream/ollama.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kShown =
    R"({"parameters": "stop \"x\"\nnum_ctx                        512",)"
    R"( "model_info": {"general.architecture": "llama", "llama.context_length": 2048}})";

/// An Ollama that answers every generation with a given text, cut every `step` bytes.
class OllamaFake {
 public:
  explicit OllamaFake(std::string answer, std::string_view shown = kShown,
                      std::size_t step = 1 << 20)
      : answer_(std::move(answer)), shown_(shown), step_(step) {
    auto started = http::Server::start(
        {.port = 0}, [this](std::shared_ptr<http::Exchange> exchange) { handle(*exchange); });
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server_ = *std::move(started);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  /// The path and the body of the last POST.
  std::string asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void handle(http::Exchange& exchange) {
    const http::Request& request = exchange.request();
    if (request.path == "/api/version")
      return exchange.respond({.body = R"({"version": "0.17.4"})"});
    if (request.path == "/api/tags") {
      return exchange.respond({.body = R"({"models": [{"name": "first:latest"}]})"});
    }
    {
      const std::lock_guard lock(mutex_);
      asked_ = std::string(request.path) + " " + std::string(request.body);
    }
    if (request.path == "/api/show") {
      if (shown_.empty()) {
        return exchange.respond({.status = 404, .body = R"({"error": "model 'b' not found"})"});
      }
      return exchange.respond({.body = std::string(shown_)});
    }
    if (answer_.empty()) {
      return exchange.respond({.status = 400, .body = R"({"error": "the input length"})"});
    }
    exchange.begin_stream("application/x-ndjson", {});
    for (std::size_t at = 0; at < answer_.size(); at += step_) {
      exchange.write(answer_.substr(at, step_));
    }
    exchange.end_stream();
  }

  const std::string answer_;
  const std::string_view shown_;
  const std::size_t step_;
  mutable std::mutex mutex_;
  std::string asked_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the members above
};

std::shared_ptr<const vocab::Tokenizer> tokenizer() {
  return std::make_shared<vocab::ByteTokenizer>(
      std::vector<std::string>{"<s>", "<end>", "<eom>"},
      vocab::ByteTokenizer::Roles{.bos = "<s>", .eos = "<end>", .adds_bos = true});
}

Expected<std::unique_ptr<Engine>> connect(const OllamaFake& fake, std::string model = "b",
                                          std::uint32_t context_tokens = 0) {
  return connect_ollama({.url = fake.url()}, {.model = std::move(model),
                                              .tokenizer = tokenizer(),
                                              .chat_template = "T",
                                              .context_tokens = context_tokens});
}

constexpr std::string_view kDone =
    R"({"model":"b","response":"","done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":7})";

struct OllamaCase {
  std::string_view name;
  std::string answer;
  std::string_view text;
  FinishReason reason = FinishReason::stop;
  std::uint32_t completion_tokens = 7;
  std::string_view error_part = {};
  Errc code = Errc::unavailable;  // of an error
};

const OllamaCase kOllamaCases[] = {
    {"Whole",
     "{\"response\":\"h\u00e9\",\"done\":false}\n{\"response\":\"llo\",\"done\":false}\n" +
         std::string(kDone) + "\n",
     "h\u00e9llo"},
    {"LinesAsWindowsEndsThem",
     "{\"response\":\"a\",\"done\":false}\r\n\r\n" + std::string(kDone) + "\r\n", "a"},
    {"LastLineWithoutEnd", "{\"response\":\"a\",\"done\":false}\n" + std::string(kDone), "a"},
    {"TextInTheLastLine", R"({"response":"a","done":true,"done_reason":"length","eval_count":1})",
     "a", FinishReason::length, 1},
    {"Error", "{\"response\":\"a\",\"done\":false}\n{\"error\":\"the runner died\"}\n", "a",
     FinishReason::error, 1, "the runner died"},
    {"TheFormatIsNone", "{\"error\":\"invalid JSON schema in format\"}\n", "", FinishReason::error,
     0, "JSON schema", Errc::invalid},
    {"TextBeforeABadEnd", R"({"response":"a","done":true,"done_reason":"load"})", "a",
     FinishReason::error, 1, "'load'"},
    {"BrokenOff", "{\"response\":\"a\",\"done\":false}\n{\"respon", "a", FinishReason::error, 1,
     "not JSON"},
    {"WithoutEnd", "{\"response\":\"a\",\"done\":false}\n", "a", FinishReason::error, 1,
     "broke off"},
    {"WithoutReason", R"({"response":"","done":true,"done_reason":""})", "", FinishReason::error, 0,
     "ends the answer by ''"},
    {"NothingIsGenerated", R"({"response":"","done":true,"done_reason":"load"})", "",
     FinishReason::error, 0, "'load'"},
    {"NotJson", "<html>\n", "", FinishReason::error, 0, "not JSON"},
    {"Refused", "", "", FinishReason::error, 0, "the input length", Errc::invalid},
    {"LineWithoutEnd", std::string((std::size_t{5} << 20), 'x'), "", FinishReason::error, 0,
     "too long", Errc::unavailable},
};

TEST(Ollama, ReadsLinesHoweverTheyAreCut) {
  Sample sample(3);
  for (const OllamaCase& test : kOllamaCases) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
      if (!sample.takes_next() && test.answer.size() <= 10'000) continue;
      if (test.answer.size() > 10'000 && step < 10'000) continue;
      SCOPED_TRACE(test.name);
      const OllamaFake fake(test.answer, kShown, step);
      auto engine = connect(fake);
      ASSERT_TRUE(engine) << engine.error().message;
      auto sink = std::make_shared<RecordingSink>();
      auto run = (*engine)->start({.prompt = {1}, .text = "x"}, sink);
      ASSERT_TRUE(run && sink->wait_end());
      EXPECT_EQ(sink->text(), test.text);
      EXPECT_EQ(sink->end()->reason, test.reason);
      EXPECT_EQ(sink->end()->usage.completion_tokens, test.completion_tokens);
      EXPECT_NE(sink->end()->error.message.find(test.error_part), std::string::npos)
          << sink->end()->error.message;
      if (test.reason == FinishReason::error) {
        EXPECT_EQ(sink->end()->error.code, test.code);
      }
    }
  }
}

TEST(Ollama, AnAnswerHasALimit) {
  const std::string piece(std::size_t{1} << 20, 'x');
  std::string answer;
  for (int i = 0; i < 18; ++i) answer += "{\"response\":\"" + piece + "\",\"done\":false}\n";
  const OllamaFake fake(answer + std::string(kDone));
  auto engine = connect(fake);
  ASSERT_TRUE(engine) << engine.error().message;
  auto sink = std::make_shared<RecordingSink>();
  auto run = (*engine)->start({.prompt = {1}, .text = "x"}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->text().size(), 15 * piece.size());
  EXPECT_EQ(sink->end()->error, (Error{Errc::unavailable, "the server's answer is too long"}));
}

TEST(Ollama, AsksForWhatTheRequestWants) {
  const OllamaFake fake(std::string(kDone) + "\n");
  auto engine = connect(fake);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ(fake.asked(), R"(/api/show {"model":"b"})");
  EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
  EXPECT_EQ((*engine)->capabilities().constrained_by, ConstrainedBy::json_schema);
  EXPECT_EQ((*engine)->capabilities().takes, Takes::text);
  EXPECT_TRUE((*engine)->check());
  EXPECT_EQ((*engine)->chat_template(), "T");
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request{.prompt = {5, 6}, .text = "<s>hi", .max_tokens = 9, .ends = {258}};
  request.sampling = {.temperature = 0, .top_k = 3, .seed = 7, .repetition_penalty = 1};
  request.printed = std::make_shared<const std::string>(R"({"type": "object"})");
  auto run = (*engine)->start(request, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(fake.asked(),
            R"(/api/generate {"model":"b","prompt":"hi","stream":true,"raw":true,"think":false,)"
            R"("truncate":false,"shift":false,"options":{"num_ctx":512,"num_predict":9,)"
            R"("temperature":0.0,"top_k":3,"repeat_penalty":1.0,"seed":7,)"
            R"("stop":["<end>","<eom>"]},"format":{"type": "object"}})");
  EXPECT_TRUE(sink->end()->is_constrained);
  request.max_tokens = 0;
  request.printed = nullptr;
  request.sampling = {};  // the model's Modelfile decides
  auto whole = std::make_shared<RecordingSink>();
  run = (*engine)->start(request, whole);
  ASSERT_TRUE(run && whole->wait_end());
  EXPECT_NE(fake.asked().find(R"({"num_ctx":512,"num_predict":510,"stop":)"), std::string::npos)
      << fake.asked();
  EXPECT_EQ(fake.asked().find("format"), std::string::npos);
  EXPECT_FALSE(whole->end()->is_constrained);
  request.logprobs = true;
  EXPECT_EQ((*engine)->start(request, sink).error().code, Errc::invalid);
  request.logprobs = false;
  request.sampling.logit_bias = {{4, -1.5}};
  EXPECT_EQ((*engine)->start(request, sink).error().code, Errc::invalid);
}

TEST(Ollama, TakesTheContextThatItIsTold) {
  const OllamaFake fake("");
  EXPECT_EQ((*connect(fake, "b", 100))->capabilities().context_tokens, 100u);
  EXPECT_EQ((*connect(fake, ""))->capabilities().context_tokens, 512u);
  EXPECT_EQ(fake.asked(), R"(/api/show {"model":"first:latest"})");
  const OllamaFake small(
      "", R"({"model_info": {"general.architecture": "a", "a.context_length": 64}})");
  EXPECT_EQ((*connect(small))->capabilities().context_tokens, 64u);
  const OllamaFake untold("", "{}");
  EXPECT_EQ((*connect(untold))->capabilities().context_tokens, 4096u);
  const OllamaFake none("", "");
  EXPECT_EQ(connect(none).error().code, Errc::unavailable);
}

}  // namespace
}  // namespace tenon::engine
