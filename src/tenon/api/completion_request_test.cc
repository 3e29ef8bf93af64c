#include "tenon/api/completion_request.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using json::Value;

Result<CompletionRequest, ApiError> completion_decode(std::string_view fields) {
  const std::string text =
      R"({"model": "m")" + std::string(fields.empty() ? "" : ", ") + std::string(fields) + "}";
  const auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return decode_completion(value.value_or(Value()), {.refuses_unknown_fields = true});
}

struct CompletionRefused {
  std::string_view name;
  std::string_view fields;
  std::string_view param;
  std::string_view code;
};

const CompletionRefused kCompletionRefused[] = {
    {"UnknownField", R"("temprature": 1)", "temprature", "unknown_parameter"},
    {"ChatsField", R"("messages": [])", "messages", "unknown_parameter"},
    {"PromptOfAnotherType", R"("prompt": 1)", "prompt", "invalid_type"},
    {"PromptIsAnObject", R"("prompt": {"text": "x"})", "prompt", "invalid_type"},
    {"NoTokens", R"("prompt": [])", "prompt", "invalid_value"},
    {"NoTokensInAList", R"("prompt": [[1], []])", "prompt[1]", "invalid_value"},
    {"TextAmongTokens", R"("prompt": [1, "a"])", "prompt[1]", "invalid_type"},
    {"TokensAmongTexts", R"("prompt": ["a", [1]])", "prompt[1]", "invalid_type"},
    {"ListsInLists", R"("prompt": [[[1]]])", "prompt[0][0]", "invalid_type"},
    {"NullAmongTexts", R"("prompt": ["a", null])", "prompt[1]", "invalid_type"},
    {"NegativeToken", R"("prompt": [1, -1])", "prompt[1]", "invalid_value"},
    {"TokenIsNoInteger", R"("prompt": [[1.5]])", "prompt[0][0]", "invalid_value"},
    {"TokenIsTooLarge", R"("prompt": [2147483648])", "prompt[0]", "invalid_value"},
    {"BooleanTokens", R"("prompt": [true])", "prompt[0]", "invalid_type"},
    {"TooManyAnswers", R"("prompt": ["a", "b", "c", "d", "e"], "n": 16)", "prompt",
     "invalid_value"},
    {"NIsZero", R"("n": 0)", "n", "invalid_value"},
    {"BestOfBelowN", R"("n": 3, "best_of": 2)", "best_of", "invalid_value"},
    {"BestOfOfAStream", R"("best_of": 2, "stream": true)", "best_of", "invalid_value"},
    {"LogprobsIsABoolean", R"("logprobs": true)", "logprobs", "invalid_type"},
    {"TooManyLogprobs", R"("logprobs": 21)", "logprobs", "invalid_value"},
    {"EchoWithLogprobs", R"("echo": true, "logprobs": 0)", "echo", "unsupported_parameter"},
    {"NoTokensAtAll", R"("max_tokens": 0)", "max_tokens", "invalid_value"},
    {"SuffixOfTokens", R"("prompt": [1], "suffix": "x")", "suffix", "invalid_value"},
    {"UsageOfNoStream", R"("stream_options": {"include_usage": true})", "stream_options",
     "invalid_value"},
    {"Padding", R"("stream": true, "stream_options": {"include_obfuscation": true})",
     "stream_options.include_obfuscation", "unsupported_parameter"},
    {"UserIsNoText", R"("user": 1)", "user", "invalid_type"},
    {"BiasOfAWord", R"("logit_bias": {"a": 1})", "logit_bias", "invalid_value"},
    {"ResponseFormatWithoutType", R"("response_format": {})", "response_format.type",
     "missing_required_parameter"},
};

TEST(CompletionRequest, RefusesWhatItCannotHonour) {
  for (const CompletionRefused& row : kCompletionRefused) {
    const auto decoded = completion_decode(row.fields);
    ASSERT_FALSE(decoded) << row.name;
    EXPECT_EQ(decoded.error().status(), 400u) << row.name;
    EXPECT_EQ(decoded.error().param, row.param) << row.name;
    EXPECT_EQ(decoded.error().code.name(), row.code) << row.name;
  }
}

TEST(CompletionRequest, HasOpenAisDefaults) {
  const auto decoded = completion_decode("");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->chat.max_tokens, 16u);
  EXPECT_EQ(decoded->choices, 1u);
  EXPECT_EQ(decoded->candidates, 1u);
  EXPECT_FALSE(decoded->chat.logprobs);
  ASSERT_EQ(decoded->prompts.size(), 1u);
  EXPECT_EQ(decoded->prompts[0].text, "");
}

std::string prompts_of(std::string_view fields) {
  const auto decoded = completion_decode(fields);
  if (!decoded) return decoded.error().message;
  std::string shown;
  for (const message::Continuation& prompt : decoded->prompts) {
    shown += '(' + prompt.text;
    for (const std::int32_t id : prompt.tokens) shown += ' ' + std::to_string(id);
    if (prompt.suffix) shown += '|' + *prompt.suffix;
    shown += ')';
  }
  return shown;
}

TEST(CompletionRequest, ReadsPromptsInAllTheirForms) {
  EXPECT_EQ(prompts_of(R"("prompt": "a")"), "(a)");
  EXPECT_EQ(prompts_of(R"("prompt": null)"), "()");
  EXPECT_EQ(prompts_of(R"("prompt": ["a", "b"])"), "(a)(b)");
  EXPECT_EQ(prompts_of(R"("prompt": [1, 2])"), "( 1 2)");
  EXPECT_EQ(prompts_of(R"("prompt": [[1, 2], [3]])"), "( 1 2)( 3)");
  EXPECT_EQ(prompts_of(R"("prompt": ["a", "b"], "suffix": "c")"), "(a|c)(b|c)");
  EXPECT_EQ(prompts_of(R"("prompt": "a", "suffix": "")"), "(a)");
}

TEST(CompletionRequest, ReadsTheRest) {
  const auto decoded = completion_decode(
      R"("prompt": "a", "n": 2, "best_of": 3, "logprobs": 0, "max_tokens": 7, "stop": ["x"],
         "seed": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1,
         "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1,
         "logit_bias": {"5": -100}, "user": "u", "response_format": {"type": "json_object"})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->choices, 2u);
  EXPECT_EQ(decoded->candidates, 3u);
  EXPECT_TRUE(decoded->chat.logprobs);
  EXPECT_EQ(decoded->chat.top_logprobs, 0);
  EXPECT_EQ(decoded->chat.max_tokens, 7u);
  EXPECT_EQ(decoded->chat.stop, std::vector<std::string>{"x"});
  const message::Sampling& sampling = decoded->chat.sampling;
  EXPECT_EQ(sampling.seed, 5u);
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.presence_penalty, 1.0);
  EXPECT_EQ(sampling.frequency_penalty, -1.0);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.logit_bias.size(), 1u);
  EXPECT_EQ(decoded->chat.response_format.kind, message::ResponseFormat::Kind::json);
}

TEST(CompletionRequest, HoldsTheTextAsLocalServersDo) {
  for (const std::string_view fields :
       {R"("guided_choice": ["a", "b"])", R"("guided_regex": "a|b")",
        R"("grammar": "root ::= \"a\"")", R"("structured_outputs": {"choice": ["a"]})"}) {
    const auto decoded = completion_decode(fields);
    ASSERT_TRUE(decoded) << fields << decoded.error().message;
    EXPECT_EQ(decoded->chat.response_format.kind, message::ResponseFormat::Kind::grammar) << fields;
  }
  const auto json = completion_decode(R"("json_schema": {"type": "object"})");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->chat.response_format.kind, message::ResponseFormat::Kind::json);
}

// The create() parameters of the OpenAI Python SDK 3.52: none is dropped in silence.
TEST(CompletionRequest, EveryFieldOfTheSdkHasItsPlace) {
  std::set<std::string_view> known;
  for (const FieldInfo& field : completion_fields()) known.insert(field.name);
  for (const std::string_view name :
       {"model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs",
        "max_tokens", "n", "presence_penalty", "seed", "stop", "stream", "stream_options", "suffix",
        "temperature", "top_p", "user"}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

}  // namespace
}  // namespace tenon::api
