#include "tenon/engine/upstream/token_server.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kTokenServerModels =
    R"({"object": "list", "data": [{"id": "a", "max_model_len": 64}, {"id": "b", "max_model_len": 512}]})";

/// A server that lists two models and answers every generation with a given text.
class TokenServerFake {
 public:
  explicit TokenServerFake(std::string answer, std::string_view models = kTokenServerModels)
      : answer_(std::move(answer)), models_(models) {
    auto started = http::Server::start(
        {.port = 0}, [this](std::shared_ptr<http::Exchange> exchange) { handle(*exchange); });
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server_ = *std::move(started);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  /// The path and the body of the last generation.
  std::string asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void handle(http::Exchange& exchange) {
    const http::Request& request = exchange.request();
    if (request.path == "/v1/models") return exchange.respond({.body = std::string(models_)});
    {
      const std::lock_guard lock(mutex_);
      asked_ = std::string(request.path) + " " + std::string(request.body);
    }
    exchange.begin_stream("text/event-stream", {});
    exchange.write(answer_);
    exchange.end_stream();
  }

  const std::string answer_;
  const std::string_view models_;
  mutable std::mutex mutex_;
  std::string asked_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the members above
};

std::shared_ptr<const vocab::Tokenizer> tokenizer() {
  return std::make_shared<vocab::ByteTokenizer>(
      std::vector<std::string>{"<call>", "<end>"},
      vocab::ByteTokenizer::Roles{.eos = "<end>"});  // 256 and 257
}

Expected<std::unique_ptr<Engine>> connect(TokenDialect dialect, const TokenServerFake& fake,
                                          std::string model = "b") {
  return connect_token_server({.url = fake.url()}, {.dialect = dialect,
                                                    .model = std::move(model),
                                                    .tokenizer = tokenizer(),
                                                    .chat_template = "T"});
}

std::string events(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += "data: " + one + "\n\n";
  return text + "data: [DONE]\n\n";
}

struct Case {
  std::string_view name;
  TokenDialect dialect;
  std::vector<std::string> events;
  std::string_view text;
  FinishReason reason = FinishReason::stop;
  std::uint32_t completion_tokens = 3;
  std::string_view error_part = {};
  Errc code = Errc::unavailable;  // of an error
};

const Case kCases[] = {
    {"Vllm",
     TokenDialect::vllm,
     {R"({"choices": [{"index": 0, "text": "", "token_ids": [256]}]})",
      R"({"choices": [{"index": 0, "text": "h", "token_ids": [104, 257], "finish_reason": "stop"}]})",
      R"({"choices": [], "usage": {"completion_tokens": 3}})"},
     "<call>h"},
    {"VllmLength",
     TokenDialect::vllm,
     {R"({"choices": [{"index": 0, "text": "hi", "token_ids": [104, 105], "finish_reason": "length"}]})"},
     "hi",
     FinishReason::length,
     2},
    {"VllmError",
     TokenDialect::vllm,
     {R"({"error": {"message": "out of memory", "code": 500}})"},
     "",
     FinishReason::error,
     0,
     "out of memory"},
    {"VllmRefusesTheGrammar",  // serve/exception_handling/error_response.py:14-92
     TokenDialect::vllm,
     {R"({"error": {"message": "Invalid grammar specification.", "type": "BadRequestError",
          "param": null, "code": 400}})"},
     "",
     FinishReason::error,
     0,
     "Invalid grammar",
     Errc::invalid},
    {"VllmCannotProcess",
     TokenDialect::vllm,
     {R"({"error": {"message": "no", "type": "UnprocessableEntityError", "code": 422}})"},
     "",
     FinishReason::error,
     0,
     "no",
     Errc::invalid},
    {"VllmHasNoSuchModel",
     TokenDialect::vllm,
     {R"({"error": {"message": "no", "type": "NotFoundError", "code": 404}})"},
     "",
     FinishReason::error,
     0,
     "no"},
    {"VllmAborts",
     TokenDialect::vllm,
     {R"({"choices": [{"index": 0, "text": "h", "token_ids": [104], "finish_reason": "abort"}]})"},
     "h",
     FinishReason::error,
     1,
     "'abort'"},
    {"VllmTooOld",
     TokenDialect::vllm,
     {R"({"choices": [{"index": 0, "text": "h"}]})"},
     "",
     FinishReason::error,
     0,
     "token_ids"},
    {"VllmOfAnotherVocabulary",
     TokenDialect::vllm,
     {R"({"choices": [{"index": 0, "text": "h", "token_ids": [104, 258, 104]}]})"},
     "h",
     FinishReason::error,
     1,
     "vocabulary"},
    {"SglangWhole",
     TokenDialect::sglang,
     {R"({"output_ids": [256], "meta_info": {"completion_tokens": 1, "finish_reason": null}})",
      R"({"output_ids": [256, 104, 257], "meta_info": {"completion_tokens": 3,
          "finish_reason": {"type": "stop", "matched": 257}}})"},
     "<call>h"},
    {"SglangNewOnesOnly",
     TokenDialect::sglang,
     {R"({"output_ids": [256], "meta_info": {"completion_tokens": 1, "finish_reason": null}})",
      R"({"output_ids": [104, 257], "meta_info": {"completion_tokens": 3,
          "finish_reason": {"type": "stop", "matched": 257}}})"},
     "<call>h"},
    {"SglangRefusesTheGrammar",  // srt/constrained/grammar_manager.py:328-330
     TokenDialect::sglang,
     {R"({"output_ids": [], "meta_info": {"completion_tokens": 0, "finish_reason": {"type": "abort",
          "message": "Failed to compile ebnf grammar: no", "status_code": 400,
          "err_type": "BadRequestError"}}})"},
     "",
     FinishReason::error,
     0,
     "Failed to compile",
     Errc::invalid},
    {"SglangAborts",
     TokenDialect::sglang,
     {R"({"output_ids": [104], "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "abort",
          "message": "Aborted", "status_code": null, "err_type": null}}})"},
     "h",
     FinishReason::error,
     1,
     "Aborted"},
    {"SglangIsGone",
     TokenDialect::sglang,
     {R"({"output_ids": [], "meta_info": {"completion_tokens": 0, "finish_reason": {"type": "abort",
          "message": "no worker", "status_code": 503, "err_type": null}}})"},
     "",
     FinishReason::error,
     0,
     "no worker"},
    {"SglangAbortsWithTheLastIdOnly",  // srt/managers/tokenizer_manager.py:3628-3631
     TokenDialect::sglang,
     {R"({"output_ids": [104], "meta_info": {"completion_tokens": 1, "finish_reason": null}})",
      R"({"output_ids": [105], "meta_info": {"completion_tokens": 3,
          "finish_reason": {"type": "abort", "message": "Abort in waiting queue"}}})"},
     "h",
     FinishReason::error,
     1,
     "Abort in waiting queue"},
    {"SglangMiscounts",
     TokenDialect::sglang,
     {R"({"output_ids": [104], "meta_info": {"completion_tokens": 3, "finish_reason": null}})"},
     "",
     FinishReason::error,
     0,
     "in all"},
    {"SglangError",
     TokenDialect::sglang,
     {R"({"error": {"message": "no such thing", "type": "invalid_request_error", "code": 400,
          "retryable": false}})"},
     "",
     FinishReason::error,
     0,
     "no such thing",
     Errc::invalid},
    {"NotAnObject", TokenDialect::sglang, {"[]"}, "", FinishReason::error, 0, "output_ids"},
};

TEST(TokenServer, ReadsWhatComesByItsIds) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    std::vector<std::string> lines;
    for (std::string line : test.events) {
      std::erase(line, '\n');
      lines.push_back(std::move(line));
    }
    const TokenServerFake fake(events(lines));
    auto engine = connect(test.dialect, fake);
    ASSERT_TRUE(engine) << engine.error().message;
    auto sink = std::make_shared<RecordingSink>();
    auto run = (*engine)->start({.prompt = {1}}, sink);
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

struct Asked {
  TokenDialect dialect;
  std::string_view asked;
};

const Asked kAsked[] = {
    {TokenDialect::vllm,
     R"(/v1/completions {"prompt":[5,6],"model":"b","stream":true,"stream_options":{"include_usage":true},)"
     R"("max_tokens":9,"add_special_tokens":false,"skip_special_tokens":false,"return_token_ids":true,)"
     R"("temperature":0.0,"top_k":3,"presence_penalty":0.0,)"
     R"("logit_bias":{"4":-1.5},"seed":7,"stop_token_ids":[256],"structured_outputs":{"grammar":"G"}})"},
    {TokenDialect::sglang,
     R"(/generate {"input_ids":[5,6],"stream":true,"sampling_params":{"max_new_tokens":9,)"
     R"("skip_special_tokens":false,"no_stop_trim":true,"temperature":0.0,"top_k":3,"presence_penalty":0.0,)"
     R"("logit_bias":{"4":-1.5},"sampling_seed":7,"stop_token_ids":[256],"ebnf":"G"}})"},
};

TEST(TokenServer, AsksForWhatTheRequestWants) {
  for (const Asked& test : kAsked) {
    const TokenServerFake fake(events({}));
    auto engine = connect(test.dialect, fake);
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
    EXPECT_EQ((*engine)->capabilities().constrained_by, ConstrainedBy::ebnf);
    EXPECT_EQ((*engine)->chat_template(), "T");
    auto sink = std::make_shared<RecordingSink>();
    GenerateRequest request{.prompt = {5, 6}, .max_tokens = 9, .ends = {256}};
    request.sampling = {
        .temperature = 0, .top_k = 3, .seed = 7, .presence_penalty = 0, .logit_bias = {{4, -1.5}}};
    request.printed = std::make_shared<const std::string>("G");
    auto run = (*engine)->start(request, sink);
    ASSERT_TRUE(run && sink->wait_end());
    EXPECT_EQ(fake.asked(), test.asked);
    EXPECT_EQ(sink->end()->reason, FinishReason::error);  // the stream had no end
    request.max_tokens = 0;
    request.sampling = {};  // the server's generation_config.json decides
    auto whole = std::make_shared<RecordingSink>();
    run = (*engine)->start(request, whole);
    ASSERT_TRUE(run && whole->wait_end());
    EXPECT_NE(fake.asked().find("tokens\":510,"), std::string::npos) << fake.asked();
    for (const std::string_view unsaid : {"temperature", "\"top_", "min_p", "penalty", "seed"}) {
      EXPECT_EQ(fake.asked().find(unsaid), std::string::npos) << fake.asked();
    }
    request.logprobs = true;
    EXPECT_EQ((*engine)->start(request, sink).error().code, Errc::invalid);
  }
}

TEST(TokenServer, IsRefusedWhereItHasNoSuchModel) {
  const TokenServerFake fake("");
  EXPECT_EQ((*connect(TokenDialect::vllm, fake, ""))->capabilities().context_tokens, 64u);
  const TokenServerFake empty("", R"({"data": [{"id": "b"}]})");
  const TokenServerFake none("", "[]");
  for (const auto& engine : {connect(TokenDialect::vllm, fake, "c").map([](auto&&) {}),
                             connect(TokenDialect::sglang, empty).map([](auto&&) {}),
                             connect(TokenDialect::sglang, none).map([](auto&&) {})}) {
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Errc::unavailable);
  }
}

}  // namespace
}  // namespace tenon::engine
