#include "tenon/engine/admission.h"

#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/engine/grammar_for_test.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Refused {
  std::string_view name;
  std::function<void(GenerateRequest&)> spoil;
  Errc code;
  std::string_view message;
  std::string_view path;
};

const Refused kRefused[] = {
    {"EmptyPrompt", [](auto& r) { r.prompt.clear(); }, Errc::invalid, "the prompt has no tokens",
     "messages"},
    {"PromptFillsTheContext", [](auto& r) { r.prompt.assign(10, 1); }, Errc::limit_exceeded,
     "the prompt has 10 tokens, but the model's context holds 10 for prompt and answer together",
     "messages"},
    {"TokenTooLarge", [](auto& r) { r.prompt = {1, 256}; }, Errc::invalid,
     "the prompt has token 256, but the model has tokens 0 to 255", "messages"},
    {"TokenNegative", [](auto& r) { r.prompt = {-1}; }, Errc::invalid,
     "the prompt has token -1, but the model has tokens 0 to 255", "messages"},
    {"TopLogprobs", [](auto& r) { r.top_logprobs = 21; }, Errc::invalid,
     "top_logprobs must be between 0 and 20", "top_logprobs"},
    {"TemperatureNegative", [](auto& r) { r.sampling.temperature = -0.1; }, Errc::invalid,
     "temperature must be at least 0", "temperature"},
    {"TemperatureNan", [](auto& r) { r.sampling.temperature = kNan; }, Errc::invalid,
     "temperature must be at least 0", "temperature"},
    {"TemperatureInfinite", [](auto& r) { r.sampling.temperature = kInfinity; }, Errc::invalid,
     "temperature must be at least 0", "temperature"},
    {"TopP", [](auto& r) { r.sampling.top_p = 1.5; }, Errc::invalid,
     "top_p must be between 0 and 1", "top_p"},
    {"TopK", [](auto& r) { r.sampling.top_k = -1; }, Errc::invalid, "top_k must be at least 0",
     "top_k"},
    {"MinP", [](auto& r) { r.sampling.min_p = -1; }, Errc::invalid, "min_p must be between 0 and 1",
     "min_p"},
    {"PresencePenalty", [](auto& r) { r.sampling.presence_penalty = 101; }, Errc::invalid,
     "presence_penalty must be between -100 and 100", "presence_penalty"},
    {"FrequencyPenalty", [](auto& r) { r.sampling.frequency_penalty = kNan; }, Errc::invalid,
     "frequency_penalty must be between -100 and 100", "frequency_penalty"},
    {"RepetitionPenalty", [](auto& r) { r.sampling.repetition_penalty = 0; }, Errc::invalid,
     "repetition_penalty must be between 0.001 and 1000", "repetition_penalty"},
    {"BiasOfNoToken", [](auto& r) { r.sampling.logit_bias = {{256, 1.0}}; }, Errc::invalid,
     "logit_bias names token 256, but the model has tokens 0 to 255", "logit_bias"},
    {"BiasInfinite", [](auto& r) { r.sampling.logit_bias = {{1, kInfinity}}; }, Errc::invalid,
     "logit_bias must be finite numbers", "logit_bias"},
    {"GrammarForAnEngineWithout",
     [](auto& r) { r.grammar = grammar_of_pattern(".*", vocab::ByteTokenizer()); }, Errc::invalid,
     "grammar is given, but a 'test' engine cannot hold answers to one", "grammar"},
};

class Admission : public ::testing::TestWithParam<Refused> {};

TEST_P(Admission, RefusesInWords) {
  const vocab::ByteTokenizer tokenizer;
  const Capabilities capabilities{.kind = "test", .context_tokens = 10};
  GenerateRequest request{.prompt = {1, 2, 255}};
  ASSERT_TRUE(check_request(request, capabilities, tokenizer));
  GetParam().spoil(request);
  const Status checked = check_request(request, capabilities, tokenizer);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error(), (Error{GetParam().code, std::string(GetParam().message),
                                    std::string(GetParam().path)}));
}

INSTANTIATE_TEST_SUITE_P(Rules, Admission, ::testing::ValuesIn(kRefused),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Admission, LetsThePromptLeaveRoomForOneToken) {
  const vocab::ByteTokenizer tokenizer;
  const Capabilities capabilities{.kind = "test", .context_tokens = 10};
  EXPECT_TRUE(check_request({.prompt = std::vector<TokenId>(9, 1)}, capabilities, tokenizer));
}

}  // namespace
}  // namespace tenon::engine
