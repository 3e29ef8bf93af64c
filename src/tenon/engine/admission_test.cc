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
};

const Refused kRefused[] = {
    {"EmptyPrompt", [](auto& r) { r.prompt.clear(); }, Errc::invalid, "the prompt has no tokens"},
    {"PromptFillsTheContext", [](auto& r) { r.prompt.assign(10, 1); }, Errc::limit_exceeded,
     "the prompt has 10 tokens, but the model's context holds 10 for prompt and answer together"},
    {"TokenTooLarge", [](auto& r) { r.prompt = {1, 256}; }, Errc::invalid,
     "the prompt has token 256, but the model has tokens 0 to 255"},
    {"TokenNegative", [](auto& r) { r.prompt = {-1}; }, Errc::invalid,
     "the prompt has token -1, but the model has tokens 0 to 255"},
    {"TopLogprobs", [](auto& r) { r.top_logprobs = 21; }, Errc::invalid,
     "top_logprobs must be between 0 and 20"},
    {"TemperatureNegative", [](auto& r) { r.sampling.temperature = -0.1; }, Errc::invalid,
     "temperature must be at least 0"},
    {"TemperatureNan", [](auto& r) { r.sampling.temperature = kNan; }, Errc::invalid,
     "temperature must be at least 0"},
    {"TemperatureInfinite", [](auto& r) { r.sampling.temperature = kInfinity; }, Errc::invalid,
     "temperature must be at least 0"},
    {"TopP", [](auto& r) { r.sampling.top_p = 1.5; }, Errc::invalid,
     "top_p must be between 0 and 1"},
    {"TopK", [](auto& r) { r.sampling.top_k = -1; }, Errc::invalid, "top_k must be at least 0"},
    {"MinP", [](auto& r) { r.sampling.min_p = -1; }, Errc::invalid,
     "min_p must be between 0 and 1"},
    {"PresencePenalty", [](auto& r) { r.sampling.presence_penalty = 101; }, Errc::invalid,
     "presence_penalty must be between -100 and 100"},
    {"FrequencyPenalty", [](auto& r) { r.sampling.frequency_penalty = kNan; }, Errc::invalid,
     "frequency_penalty must be between -100 and 100"},
    {"RepetitionPenalty", [](auto& r) { r.sampling.repetition_penalty = 0; }, Errc::invalid,
     "repetition_penalty must be between 0.001 and 1000"},
    {"BiasOfNoToken", [](auto& r) { r.sampling.logit_bias = {{256, 1.0}}; }, Errc::invalid,
     "logit_bias names token 256, but the model has tokens 0 to 255"},
    {"BiasInfinite", [](auto& r) { r.sampling.logit_bias = {{1, kInfinity}}; }, Errc::invalid,
     "logit_bias must be finite numbers"},
    {"GrammarForAnEngineWithout",
     [](auto& r) { r.grammar = grammar_of_pattern(".*", vocab::ByteTokenizer()); }, Errc::invalid,
     "grammar is given, but a 'test' engine cannot hold answers to one"},
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
  EXPECT_EQ(checked.error(), (Error{GetParam().code, std::string(GetParam().message)}));
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
