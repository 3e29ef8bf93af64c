#include "tenon/api/decisions.h"

#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::api {
namespace {

using json::Value;

Result<DecisionRequest, ApiError> decoded(DecisionForm form, std::string_view body) {
  const auto value = json::parse(body);
  EXPECT_TRUE(value) << body;
  return form == DecisionForm::openai ? decode_decisions(*value) : decode_system_one(*value);
}

constexpr std::string_view kOpenAi = R"({"model": "m", "input": "It rains.", "questions": [
  {"type": "predicate", "name": "wet", "instructions": "Is it wet?"},
  {"type": "choice", "instructions": "Which one?",
   "choices": [{"value": "a", "description": "first"}, {"value": true}], "abstain": true},
  {"type": "score", "name": "much", "instructions": "How much?",
   "levels": [{"label": "little", "description": "drops"}, {"label": "a lot"}]}]})";

constexpr std::string_view kSystemOne =
    R"({"model": "m", "state": {"weather": "rain"}, "questions": {
  "wet": {"type": "noul", "instructions": "Is it wet?", "criteria": {"true": "water"}},
  "which": {"type": "choice", "instructions": "Which one?", "criteria": {"a": null, "b": "second"}},
  "much": {"type": "score", "instructions": "How much?", "criteria": ["little", "a lot"]}}})";

TEST(Decisions, AskForEachOptionAlone) {
  const auto request = decoded(DecisionForm::openai, kOpenAi);
  ASSERT_TRUE(request) << request.error().message;
  const auto asked = requests_of(*request, vocab::ByteTokenizer());
  ASSERT_EQ(asked.size(), 7U);
  std::vector<std::string> options;
  for (const auto& one : asked) options.push_back(one.response_format.grammar.definition);
  const auto tokens_of = [](std::string_view text) {
    std::string tokens = "start:";
    for (const char byte : text) tokens += " <[" + std::to_string(byte) + "]>";
    return tokens;
  };
  std::vector<std::string> expected;
  for (const auto* text : {"yes", "no", "a", "true", "none of these", "1", "2"}) {
    expected.push_back(tokens_of(text));
  }
  EXPECT_EQ(options, expected);
  EXPECT_EQ(asked[0].messages[0].text(),
            "It rains.\n\nIs it wet?\nAnswer with one of these and nothing else:\n- yes\n- no");
  EXPECT_EQ(asked[5].messages[0].text(),
            "It rains.\n\nHow much?\nAnswer with one of these and nothing else:\n"
            "- 1 (little: drops)\n- 2 (a lot)");
  EXPECT_TRUE(asked[0].logprobs);
  EXPECT_TRUE(asked[0].tells_tokens);
}

TEST(Decisions, ReadBothForms) {
  const auto request = decoded(DecisionForm::system_one, kSystemOne);
  ASSERT_TRUE(request) << request.error().message;
  const auto asked = requests_of(*request, vocab::ByteTokenizer());
  ASSERT_EQ(asked.size(), 6U);
  EXPECT_EQ(asked[0].messages[0].text(),
            "{\"weather\":\"rain\"}\n\nIs it wet?\nAnswer with one of these and nothing else:\n"
            "- yes (water)\n- no");
  const auto messages = decoded(DecisionForm::openai, R"({"model": "m", "input": [
      {"role": "user", "content": "One."},
      {"role": "user", "content": [{"type": "input_text", "text": "Two."}]}],
      "questions": [{"type": "predicate", "instructions": "?"}]})");
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ(messages->input, "One.\n\nTwo.");
}

TEST(Decisions, RefuseWhatTheyCannotAnswer) {
  struct Row {
    DecisionForm form;
    std::string_view body;
    std::string_view param;
  };
  constexpr Row kRows[] = {
      {DecisionForm::openai, R"({"input": "x"})", "questions"},
      {DecisionForm::openai, R"({"input": "x", "questions": []})", "questions"},
      {DecisionForm::openai, R"({"input": 1, "questions": []})", "input"},
      {DecisionForm::openai,
       R"({"input": [{"content": [{"type": "input_image", "text": ""}]}], "questions": []})",
       "input[0].content[0].type"},
      {DecisionForm::openai,
       R"({"input": "x", "questions": [{"type": "noul", "instructions": "?"}]})",
       "questions[0].type"},
      {DecisionForm::openai, R"({"input": "x", "questions": [{"type": "predicate"}]})",
       "questions[0].instructions"},
      {DecisionForm::openai,
       R"({"input": "x", "questions": [{"type": "choice", "instructions": "?", "choices": []}]})",
       "questions[0]"},
      {DecisionForm::openai, R"({"input": "x", "questions": [{"type": "choice", "instructions": "?",
           "choices": [{"value": "a"}, {"value": "a"}]}]})",
       "questions[0]"},
      {DecisionForm::openai, R"({"input": "x", "questions": [{"type": "choice", "instructions": "?",
           "choices": [{"value": "a"}, {"value": 1}]}]})",
       "questions[0].choices[1].value"},
      {DecisionForm::openai, R"({"input": "x", "questions": [{"type": "choice", "instructions": "?",
           "choices": [{"value": "a"}, {"value": ""}]}]})",
       "questions[0]"},
      {DecisionForm::system_one,
       R"({"state": "x", "questions": {"q": {"type": "choice", "instructions": "?"}}})",
       "questions.q.criteria"},
      {DecisionForm::system_one,
       R"({"state": "x", "temperature": 0, "questions": {"q": {"type": "noul", "instructions": ""}}})",
       "temperature"},
  };
  for (const Row& row : kRows) {
    const auto request = decoded(row.form, row.body);
    ASSERT_FALSE(request) << row.body;
    EXPECT_EQ(request.error().param, row.param) << row.body << request.error().message;
  }
  std::string many =
      R"({"state": "x", "questions": {"q": {"type": "score", "instructions": "?", "criteria": ["0")";
  for (int i = 1; i <= 64; ++i) many += ", \"" + std::to_string(i) + '"';
  const auto request = decoded(DecisionForm::system_one, many + "]}}}");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().param, "questions");
}

TEST(Decisions, RefuseMoreTextThanTheyKeep) {
  const std::string questions = R"(", "questions": {"q": {"type": "noul", "instructions": "?"}}})";
  const std::string most(kMaxDecisionBytes - 100, 'x');
  EXPECT_TRUE(decoded(DecisionForm::system_one, R"({"state": ")" + most + questions));
  const std::string more(kMaxDecisionBytes, 'x');
  const auto request = decoded(DecisionForm::system_one, R"({"state": ")" + more + questions);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().param, "state");
}

// An answer that was cut says nothing of its option.
TEST(Decisions, RefuseAQuestionWithAnOptionThatWasCut) {
  for (const DecisionForm form : {DecisionForm::openai, DecisionForm::system_one}) {
    const auto request = decoded(form, form == DecisionForm::openai ? kOpenAi : kSystemOne);
    ASSERT_TRUE(request);
    DecisionEncoder encoder(*request);
    const std::size_t options = requests_of(*request, vocab::ByteTokenizer()).size();
    for (unsigned i = 0; i < options; ++i) {
      message::Finish finish{.reason = i == 1 ? message::FinishReason::length
                                              : message::FinishReason::stop};
      auto tokens = std::make_shared<message::AnswerTokens>();
      tokens->logprobs = {-1.0};
      finish.tokens = std::move(tokens);
      encoder.keep(i, finish, {});
    }
    const Value answer = encoder.whole({});
    if (form == DecisionForm::openai) {
      EXPECT_EQ(*json::at_pointer(answer, "/answers/0/type"), Value("refusal"));
      EXPECT_EQ(*json::at_pointer(answer, "/answers/1/type"), Value("choice"));
    } else {
      EXPECT_EQ(json::at_pointer(answer, "/answers/wet"), nullptr);
      EXPECT_NE(json::at_pointer(answer, "/answers/which"), nullptr);
    }
  }
}

// What the tokens of each option, with the one that ends the turn, come to.
Value answered(const DecisionRequest& request, const std::vector<std::vector<double>>& logprobs) {
  DecisionEncoder encoder(request);
  for (unsigned i = 0; i < logprobs.size(); ++i) {
    message::Finish finish{.usage = {.prompt_tokens = 10, .completion_tokens = 2}};
    auto tokens = std::make_shared<message::AnswerTokens>();
    tokens->logprobs = logprobs[i];
    finish.tokens = std::move(tokens);
    encoder.keep(i, finish, {});
  }
  return encoder.whole({});
}

double number(const Value& value, const std::string& pointer) {
  const Value* found = json::at_pointer(value, pointer);
  EXPECT_NE(found, nullptr) << pointer << json::to_string(value);
  return found == nullptr || found->if_number() == nullptr ? NAN : found->if_number()->to_double();
}

TEST(Decisions, TellHowLikelyEachOptionIs) {
  const auto log = [](double p) { return std::log(p); };
  const auto request = decoded(DecisionForm::openai, kOpenAi);
  ASSERT_TRUE(request);
  const Value answer = answered(*request, {{log(0.5), log(0.6)},  // yes: 0.3
                                           {log(0.1)},            // no: 0.1
                                           {log(0.2)},
                                           {log(0.2)},
                                           {log(0.4)},
                                           {log(0.25)},
                                           {log(0.75)}});
  EXPECT_NEAR(number(answer, "/answers/0/probability"), 0.75, 1e-9);
  EXPECT_NEAR(number(answer, "/tenon/option_mass/0"), 0.4, 1e-9);
  EXPECT_EQ(*json::at_pointer(answer, "/answers/1/choice"), Value());
  EXPECT_NEAR(number(answer, "/answers/1/probabilities/2/probability"), 0.5, 1e-9);
  EXPECT_NEAR(number(answer, "/answers/1/confidence"), 0.25, 1e-9);
  EXPECT_EQ(*json::at_pointer(answer, "/answers/1/probabilities/1/value"), Value(true));
  EXPECT_NEAR(number(answer, "/answers/2/score"), 0.75, 1e-9);
  EXPECT_EQ(*json::at_pointer(answer, "/answers/2/probabilities/1/label"), Value("a lot"));
  EXPECT_EQ(number(answer, "/usage/input_tokens"), 30);

  const auto system_one = decoded(DecisionForm::system_one, kSystemOne);
  ASSERT_TRUE(system_one);
  const Value other = answered(
      *system_one, {{log(0.3)}, {log(0.1)}, {log(0.9)}, {log(0.1)}, {log(0.25)}, {log(0.75)}});
  EXPECT_NEAR(number(other, "/answers/wet/noul"), 0.75, 1e-9);
  EXPECT_EQ(*json::at_pointer(other, "/answers/which/choice"), Value("a"));
  EXPECT_NEAR(number(other, "/answers/which/confidence"), 0.8, 1e-9);
  EXPECT_EQ(*json::at_pointer(other, "/answers/much/legend/1"), Value("a lot"));
  EXPECT_NEAR(number(other, "/answers/much/probabilities/1"), 0.75, 1e-9);
}

TEST(Decisions, AreFlatterWhenHotter) {
  auto request = decoded(DecisionForm::system_one, kSystemOne);
  ASSERT_TRUE(request);
  const std::vector<std::vector<double>> logprobs{
      {std::log(0.8)}, {std::log(0.2)}, {0}, {0}, {0}, {0}};
  EXPECT_NEAR(number(answered(*request, logprobs), "/answers/wet/noul"), 0.8, 1e-9);
  request->temperature = 2;
  EXPECT_NEAR(number(answered(*request, logprobs), "/answers/wet/noul"), 2.0 / 3.0, 1e-9);
}

}  // namespace
}  // namespace tenon::api
