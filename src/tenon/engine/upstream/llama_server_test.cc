#include "tenon/engine/upstream/llama_server.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/trace.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/engine/upstream/byte_server.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kProps =
    R"({"default_generation_settings": {"n_ctx": 512}, "total_slots": 3, "chat_template": "T",
        "bos_token": "", "eos_token": "~"})";
constexpr std::string_view kLlamaServerModels =
    R"({"data": [{"id": "m", "meta": {"n_vocab": 256}}]})";

/// How a fake server differs from one that works.
struct Faults {
  unsigned status = 200;                         // of /completion
  bool hangs = false;                            // after the answer
  std::string_view tokens = {};                  // answered by /tokenize; "": the truth
  std::string_view models = kLlamaServerModels;  // answered by /v1/models
};

/// A llama-server whose tokens are bytes, and which answers /completion with a given text.
class LlamaServerFake {
 public:
  explicit LlamaServerFake(std::string answer, Faults faults = {})
      : answer_(std::move(answer)), faults_(faults) {
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
  /// How many were about tokens.
  int questions() const {
    const std::lock_guard lock(mutex_);
    return questions_;
  }
  /// The trace fields of the last request, as "parent state".
  std::string trace() const {
    const std::lock_guard lock(mutex_);
    return trace_;
  }

 private:
  void handle(std::shared_ptr<http::Exchange> exchange) {
    const http::Request& request = exchange->request();
    if (request.path == "/props") return exchange->respond({.body = std::string(kProps)});
    if (request.path == "/v1/models") {
      return exchange->respond({.body = std::string(faults_.models)});
    }
    const std::lock_guard lock(mutex_);
    trace_ = std::string(request.header("traceparent")) + " " +
             std::string(request.header("tracestate"));
    if (request.path == "/tokenize") {
      ++questions_;
      const std::string truth = json::to_string(tokenize_bytes(*json::parse(request.body)));
      return exchange->respond(
          {.body = faults_.tokens.empty() ? truth : std::string(faults_.tokens)});
    }
    body_ = request.body;
    if (faults_.status != 200)
      return exchange->respond({.status = faults_.status, .body = answer_});
    exchange->begin_stream("text/event-stream", {});
    exchange->write(answer_);
    if (faults_.hangs) {
      held_ = std::move(exchange);
    } else {
      exchange->end_stream();
    }
  }

  const std::string answer_;
  const Faults faults_;
  mutable std::mutex mutex_;
  std::string body_;
  std::string trace_;
  int questions_ = 0;
  std::shared_ptr<http::Exchange> held_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the members above
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
  std::string_view error_part = {};
  Errc code = Errc::unavailable;
};

constexpr std::string_view kTooLong = R"({"error": {"message": "too long"}})";

const Case kCases[] = {
    {"Eos", with_end("eos"), 200, FinishReason::stop, "Hello"},
    {"Limit", with_end("limit"), 200, FinishReason::length, "Hello"},
    {"BrokenOff", std::string(kPieces), 200, FinishReason::error, "Hello", "broke off"},
    {"NotJson", std::string(kPieces) + "data: {\n\n" + with_end("eos"), 200, FinishReason::error,
     "Hello", "not JSON"},
    {"ErrorWithin", std::string(kPieces) + "data: {\"error\": {\"message\": \"oops\"}}\n\n", 200,
     FinishReason::error, "Hello", "oops"},
    {"BadRequest", std::string(kTooLong), 400, FinishReason::error, "", "status 400: too long",
     Errc::invalid},
    {"TooLarge", std::string(kTooLong), 413, FinishReason::error, "", "status 413", Errc::invalid},
    {"Unprocessable", std::string(kTooLong), 422, FinishReason::error, "", "422", Errc::invalid},
    {"BadKey", std::string(kTooLong), 401, FinishReason::error, "", "(status 401)"},
    {"NotFound", std::string(kTooLong), 404, FinishReason::error, "", "status 404"},
    {"Busy", std::string(kTooLong), 429, FinishReason::error, "", "status 429"},
    {"Failing", "<html>", 502, FinishReason::error, "", "status 502"},
    {"Loading", R"({"error": {"message": "Loading model"}})", 503, FinishReason::error, "",
     "status 503: Loading model"},
};

TEST(LlamaServer, IsToldWhichTraceARequestIsPartOf) {
  const LlamaServerFake fake(with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  const trace::Context plain =
      trace::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "");
  const trace::Context whole = trace::read(plain.parent, "a=1, b=2");
  const struct {
    trace::Context context;
    std::string told;
  } rows[] = {{{}, " "}, {plain, plain.parent + " "}, {whole, plain.parent + " a=1, b=2"}};
  for (const auto& [context, told] : rows) {
    const trace::Scope scope(context);
    auto sink = std::make_shared<RecordingSink>();
    const auto run = (*engine)->start({.prompt = {1, 2, 3}}, sink);
    ASSERT_TRUE(run) << run.error().message;
    ASSERT_TRUE(sink->wait_end());
    EXPECT_EQ(fake.trace(), told);
    std::vector<TokenId> ids;
    EXPECT_TRUE((*engine)->tokenizer().encode("new " + told, vocab::Controls::off, false, ids));
    EXPECT_EQ(fake.trace(), told);
  }
}

TEST(LlamaServer, PassesTokensOnAndSaysHowItEnded) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const LlamaServerFake fake(test.answer, {.status = test.status});
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
    if (test.reason == FinishReason::error) {
      EXPECT_EQ(sink->end()->error.code, test.code);
      continue;
    }
    EXPECT_EQ(sink->ids(), (std::vector<TokenId>{7, 8}));
    EXPECT_EQ(sink->end()->usage.completion_tokens, 5u);
    EXPECT_EQ(sink->end()->usage.cached_tokens, 2u);
  }
}

TEST(LlamaServer, AsksForWhatTheRequestWants) {
  const LlamaServerFake fake(with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
  EXPECT_EQ((*engine)->capabilities().max_concurrent, 3u);
  EXPECT_EQ((*engine)->capabilities().constrained_by, ConstrainedBy::gbnf);
  EXPECT_EQ((*engine)->chat_template(), "T");
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request{.prompt = {5, 6}, .max_tokens = 9};
  request.sampling = {.temperature = 0, .logit_bias = {{4, -1.5}}};
  request.markers = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{"<call>", "</call>"});
  auto run = (*engine)->start(request, sink);
  ASSERT_TRUE(run);
  ASSERT_TRUE(sink->wait_end());
  const Value body = fake.body();
  EXPECT_EQ(json::to_string(*body.find("prompt")), "[5,6]");
  EXPECT_EQ(*body.find("n_predict"), Value(9));
  EXPECT_EQ(*body.find("temperature"), Value(0));
  for (const std::string_view unsaid :
       {"top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty"}) {
    EXPECT_EQ(body.find(unsaid), nullptr) << unsaid;
  }
  EXPECT_EQ(body.find("seed"), nullptr);
  EXPECT_EQ(body.find("n_probs"), nullptr);
  EXPECT_EQ(json::to_string(*body.find("logit_bias")), "[[4,-1.5]]");
  EXPECT_EQ(body.find("top_p"), nullptr);
  EXPECT_EQ(body.find("grammar"), nullptr);
  EXPECT_FALSE(sink->end()->is_constrained);
  auto held = std::make_shared<RecordingSink>();
  GenerateRequest with_grammar{.prompt = {5}};
  with_grammar.printed = std::make_shared<const std::string>("root ::= \"a\"");
  const auto held_run = (*engine)->start(with_grammar, held);
  ASSERT_TRUE(held_run && held->wait_end());
  EXPECT_EQ(*fake.body().find("grammar"), Value("root ::= \"a\""));
  EXPECT_TRUE(held->end()->is_constrained);
  EXPECT_EQ(json::to_string(*body.find("preserved_tokens")), R"(["<call>","</call>"])");
  EXPECT_FALSE((*engine)->start({.prompt = std::vector<TokenId>(512, 1)}, sink));
  EXPECT_FALSE((*engine)->start({.prompt = {256}}, sink));
}

struct Seed {
  std::uint64_t asked;
  std::uint64_t sent;
};

// The seed 2^32 - 1 makes the server draw a seed, so no seed of ours may be mapped to it.
TEST(LlamaServer, EverySeedRepeatsItsAnswer) {
  const Seed seeds[] = {{0, 0},           {42, 42},           {0xffff'fffe, 0xffff'fffe},
                        {0xffff'ffff, 0}, {0x1'0000'0002, 3}, {0xffff'ffff'ffff'ffff, 0}};
  const LlamaServerFake fake(with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  for (const Seed& seed : seeds) {
    auto sink = std::make_shared<RecordingSink>();
    GenerateRequest request{.prompt = {5}};
    request.sampling.seed = seed.asked;
    auto run = (*engine)->start(request, sink);
    ASSERT_TRUE(run && sink->wait_end());
    EXPECT_EQ(*fake.body().find("seed"), Value(seed.sent)) << seed.asked;
  }
}

struct Logprobs {
  int top;              // as the client asks
  int n_probs;          // as sent
  std::size_t got_top;  // of the two that the server sends
};

TEST(LlamaServer, TellsAsManyLogprobsAsWereAskedFor) {
  const Logprobs cases[] = {{0, 1, 0}, {1, 1, 1}, {2, 2, 2}, {5, 5, 2}};
  const LlamaServerFake fake(
      R"(data: {"content": "a", "tokens": [97], "completion_probabilities": [{"token": "a",)"
      R"( "bytes": [97], "logprob": -0.5, "top_logprobs": [{"token": "a", "logprob": -0.5},)"
      R"( {"token": "b", "bytes": [98], "logprob": -1.5}]}]})"
      "\n\n" +
      with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  for (const Logprobs& test : cases) {
    SCOPED_TRACE(test.top);
    auto sink = std::make_shared<RecordingSink>();
    auto run = (*engine)->start({.prompt = {5}, .logprobs = true, .top_logprobs = test.top}, sink);
    ASSERT_TRUE(run && sink->wait_end());
    EXPECT_EQ(*fake.body().find("n_probs"), Value(test.n_probs));
    ASSERT_EQ(sink->logprobs().size(), 1u);
    EXPECT_EQ(sink->logprobs()[0].bytes, "a");
    EXPECT_EQ(sink->logprobs()[0].logprob, -0.5);
    EXPECT_EQ(sink->logprobs()[0].top.size(), test.got_top);
  }
}

TEST(LlamaServer, TheEndOfTheTurnIsNoText) {
  const LlamaServerFake fake(R"(data: {"content": "a~", "tokens": [97]})"
                             "\n\n"
                             R"(data: {"content": "b~", "tokens": [126]})"
                             "\n\n" +
                             with_end("eos"));
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  auto sink = std::make_shared<RecordingSink>();
  auto run = (*engine)->start({.prompt = {5}}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->text(), "a~bHello");
  EXPECT_EQ(sink->ids(), (std::vector<TokenId>{97, 126, 7, 8}));
}

TEST(LlamaServer, CancelsAndEndsOnce) {
  const LlamaServerFake fake(std::string(kPieces), {.hangs = true});
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

TEST(LlamaServer, ACompleteAnswerIsOneWhateverComesAfter) {
  const LlamaServerFake fake(with_end("eos"), {.hangs = true});
  auto engine = connect_llama_server({.url = fake.url()});
  ASSERT_TRUE(engine) << engine.error().message;
  auto sink = std::make_shared<RecordingSink>();
  auto run = (*engine)->start({.prompt = {1}, .time_limit = std::chrono::seconds(1)}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->end()->reason, FinishReason::stop);
  EXPECT_EQ(sink->end()->usage.completion_tokens, 5u);
}

TEST(LlamaServer, IsRefusedWhereItDoesNotTellItsVocabulary) {
  const Faults cases[] = {{.tokens = "<html>"}, {.models = R"({"data": [{"id": "m"}]})"}};
  for (const Faults& faults : cases) {
    const LlamaServerFake fake("", faults);
    const auto engine = connect_llama_server({.url = fake.url()});
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Errc::unavailable);
  }
}

constexpr std::string_view kLargerModels = R"({"data": [{"id": "m", "meta": {"n_vocab": 258}}]})";

std::shared_ptr<const vocab::Tokenizer> tokenizer_here(std::string control) {
  return std::make_shared<vocab::ByteTokenizer>(
      std::vector<std::string>{std::move(control), std::string(kMarkerText)},
      vocab::ByteTokenizer::Roles{.eos = std::string(kMarkerText)});
}

// With a tokenizer from a file, prompts need no question to the server.
TEST(LlamaServer, IsAskedForNoTokensWhereTheTokenizerIsHere) {
  const LlamaServerFake fake(with_end("eos"), {.models = kLargerModels});
  auto engine = connect_llama_server({.url = fake.url()},
                                     {.tokenizer = tokenizer_here(std::string(kControlText))});
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_TRUE((*engine)->capabilities().knows_controls);
  EXPECT_EQ((*engine)->chat_template(), "T");
  const int asked = fake.questions();
  std::vector<TokenId> ids;
  const std::string text = "a" + std::string(kControlText);
  ASSERT_TRUE((*engine)->tokenizer().encode(text, vocab::Controls::on, true, ids));
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', kControlId}));
  EXPECT_EQ(fake.questions(), asked);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*engine)->start({.prompt = ids}, sink);
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->end()->reason, FinishReason::stop);
  EXPECT_TRUE((*engine)->check());
}

TEST(LlamaServer, RefusesATokenizerOfAnotherModel) {
  const struct {
    std::string_view name;
    std::string_view control;
    Faults faults;
    Errc code = Errc::invalid;
  } rows[] = {
      {"another control token", "<|x|>", {.models = kLargerModels}},
      {"more tokens than the server", kControlText, {}},
      {"another vocabulary",
       kControlText,
       {.tokens = R"({"tokens": [1]})", .models = kLargerModels}},
      {"no tokens", kControlText, {.tokens = "{}", .models = kLargerModels}},
      {"no answer", kControlText, {.tokens = "<html>", .models = kLargerModels}, Errc::unavailable},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const LlamaServerFake fake("", row.faults);
    const auto engine = connect_llama_server(
        {.url = fake.url()}, {.tokenizer = tokenizer_here(std::string(row.control))});
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, row.code) << engine.error().message;
  }
}

TEST(LlamaServer, IsNotThere) {
  EXPECT_EQ(connect_llama_server({.url = "gopher://x"}).error().code, Errc::invalid);
  const auto absent = connect_llama_server({.url = "http://127.0.0.1:1"});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace tenon::engine
