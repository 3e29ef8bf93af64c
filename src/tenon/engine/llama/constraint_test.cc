#include "tenon/engine/llama/constraint.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/grammar_for_test.h"
#include "tenon/engine/llama/repetition_detector.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/vocab/byte_tokenizer.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::engine {
namespace {

const vocab::ByteTokenizer& bytes() {
  static const vocab::ByteTokenizer tokenizer({"<eos>"}, {.eos = "<eos>"});
  return tokenizer;
}

std::shared_ptr<grammar::Grammar> grammar_of_lark(const std::string& source) {
  return grammar_of(*grammar::read_rules(source, grammar::Syntax::lark), bytes());
}

/// Values of a schema, without white space.
std::shared_ptr<grammar::Grammar> values_of(std::string schema) {
  schema.insert(1, R"("x-guidance": {"whitespace_flexible": false}, )");
  return grammar_of_lark("start: %json " + schema);
}

/// Writes `begin`, then `repetition` again and again; after one of the texts of `then`, what
/// follows it.
struct RepeatingModel {
  std::string begin;
  std::string repetition;
  std::vector<std::pair<std::string, char>> then;

  [[nodiscard]] char after(std::string_view text) const {
    for (const auto& [end, next] : then) {
      if (text.ends_with(end)) return next;
    }
    if (text.size() < begin.size()) return begin[text.size()];
    return repetition[(text.size() - begin.size()) % repetition.size()];
  }
};

struct Answer {
  std::string text;
  bool is_complete = false;
  std::uint32_t closed = 0;
};

/// The answer of a model that takes what it wants or else the least byte of the mask.
Answer answer_of(const std::shared_ptr<grammar::Grammar>& grammar, const RepeatingModel& model,
                 std::size_t most, Constraint::Options options = {.closes_repetitions = true}) {
  Constraint constraint(grammar, bytes(), options);
  Answer answer;
  std::vector<TokenId> forced;
  const auto add = [&](TokenId id) { answer.text += bytes().bytes(id); };
  while (true) {
    constraint.take_forced(forced, most - answer.text.size());
    for (const TokenId id : forced) add(id);
    answer.is_complete = constraint.is_complete();
    if (answer.is_complete || answer.text.size() >= most) break;
    constraint.prepare_mask();
    const auto mask = constraint.mask();
    const auto is_allowed = [&](TokenId id) {
      const auto bit = static_cast<std::uint32_t>(id);
      return (mask[bit / 32] >> bit % 32 & 1U) != 0;
    };
    TokenId chosen = static_cast<unsigned char>(model.after(answer.text));
    for (TokenId id = 0; !is_allowed(chosen); ++id) chosen = id;
    const std::optional<TokenId> next = constraint.next(chosen, most - answer.text.size());
    if (!next || bytes().ends_generation(*next)) break;
    EXPECT_TRUE(is_allowed(*next)) << answer.text << " and " << *next;
    add(*next);
    constraint.accept(*next);
  }
  EXPECT_FALSE(constraint.is_free());
  answer.closed = constraint.closed_repetitions();
  return answer;
}

std::string times(std::size_t count, std::string_view text) {
  std::string all;
  for (; count > 0; --count) all += text;
  return all;
}

constexpr const char* kPerson = R"({"type": "object", "properties": {"a": {"type": "string"},
  "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": false})";
constexpr const char* kRows = R"({"type": "array", "items": {"type": "object",
  "properties": {"n": {"type": "string"}, "m": {"type": "integer"}}, "required": ["n", "m"],
  "additionalProperties": false}})";
constexpr const char* kTexts = R"({"type": "array", "items": {"type": "string"}})";

TEST(Constraint, ClosesWhatRepeatsItself) {
  struct Row {
    const char* name;
    std::shared_ptr<grammar::Grammar> grammar;
    RepeatingModel model;
    std::string text;
    std::uint32_t closed = 1;
    bool ends_whole = false;
  };
  const std::string row = R"({"n":"x","m":1},)";
  const Row rows[] = {
      {"AStringAndThenTheModelGoesOn",
       values_of(kPerson),
       {R"({"a":")", "so ", {{"\"b\":", '7'}, {"\"b\":7", '}'}}},
       R"({"a":")" + times(333, "so ") + R"(s","b":7})"},
      {"OneByte",
       values_of(kPerson),
       {R"({"a":")", " ", {{"\"b\":", '7'}, {"\"b\":7", '}'}}},
       R"({"a":")" + times(1000, " ") + R"(","b":7})"},
      {"CharactersAreWhole",
       values_of(kPerson),
       {R"({"a":")", "\xc3\xa9", {{"\"b\":", '7'}, {"\"b\":7", '}'}}},
       R"({"a":")" + times(500, "\xc3\xa9") + R"(","b":7})"},
      {"EscapesAreWhole",
       values_of(kPerson),
       {R"({"a":")", "\\n", {{"\"b\":", '7'}, {"\"b\":7", '}'}}},
       R"({"a":")" + times(500, "\\n") + R"(","b":7})"},
      {"AnArrayBehindAWholeItem",
       values_of(kRows),
       {"[", row, {}},
       "[" + times(62, row) + R"({"n":"x","m":1}])"},
      {"AStringWithinAnArray",
       values_of(kTexts),
       {"[\"", "ab", {{"b\"", ']'}}},
       "[\"" + times(500, "ab") + "\"]"},
      {"TheFourthEndsAnAnswerThatEndsWhole",
       values_of(kTexts),
       {"[\"", "a", {{"a\"", ','}}},
       "[\"" + times(1000, "a") + "\",\"" + times(1000, "a") + "\",\"" + times(1000, "a") +
           "\",\"" + times(1000, "a") + "\"]",
       4,
       true},
      {"AnArrayWithinOneOfAnyItems",
       values_of(R"({"type": "object", "properties": {"grid": {"type": "array"},
                     "b": {"type": "integer"}}, "required": ["grid", "b"],
                     "additionalProperties": false})"),
       {R"({"grid":[[)",
        "0,",
        {{"0]", ','}, {"0],", '1'}, {"],1", ']'}, {"\"b\":", '7'}, {"7", '}'}}},
       R"({"grid":[[)" + times(500, "0,") + R"(0],1],"b":7})"},
      {"WhatGrowsWithEachRound",
       grammar_of_lark("start: \"[\" start* \"]\""),
       {"", "[", {}},
       times(1000, "[") + times(1000, "]")},
      {"ReasoningBeforeAnAnswer",
       grammar_of_lark("start: /[^<]*/ \"</think>\" /[0-9]+!/"),
       {"", "Wait. ", {{"</think>", '7'}, {"7", '!'}}},
       times(166, "Wait. ") + "Wait</think>7!"},
      {"AnEndThatTheRepetitionCouldCover",
       grammar_of_lark("start: /[a-zA-Z ]*END\\?/ \"!\""),
       {"", "so ", {}},
       times(333, "so ") + "sEND?!"},
  };
  for (const Row& row : rows) {
    const Answer answer = answer_of(row.grammar, row.model, 8000,
                                    {.ends_whole = row.ends_whole, .closes_repetitions = true});
    EXPECT_TRUE(answer.is_complete) << row.name << ": " << answer.text;
    EXPECT_TRUE(holds(row.grammar, answer.text)) << row.name << ": " << answer.text;
    EXPECT_EQ(answer.closed, row.closed) << row.name << ": " << answer.text;
    EXPECT_EQ(answer.text, row.text) << row.name;
    const Answer without = answer_of(row.grammar, row.model, 8000, {});
    EXPECT_FALSE(without.is_complete) << row.name;
    EXPECT_EQ(without.closed, 0U) << row.name;
    // It has no part in what comes before.
    const std::size_t same = row.model.begin.size() + 999;
    EXPECT_EQ(answer.text.substr(0, same), without.text.substr(0, same)) << row.name;
  }
}

// The members that the schema demands are the model's own or none.
TEST(Constraint, TheFourthRepetitionIsLeftAlone) {
  const RepeatingModel model{"[\"", "a", {{"a\"", ','}}};
  const Answer answer = answer_of(values_of(kTexts), model, 8000);
  EXPECT_FALSE(answer.is_complete);
  EXPECT_EQ(answer.closed, 3U);
  std::string text = "[";
  for (int i = 0; i < 3; ++i) text += "\"" + times(1000, "a") + "\",";
  EXPECT_EQ(answer.text, text + "\"" + times(8000 - text.size() - 1, "a"));
}

// Many tokens and rounds, or half of the tokens that were left when the repetition began.
TEST(Constraint, ClosesOnlyWhatEndangersTheAnswer) {
  struct Row {
    const char* name;
    std::size_t period;
    std::size_t most;    // tokens of the answer
    std::size_t tokens;  // of the repetition, when it is closed; 0: it is not
  };
  const Row rows[] = {
      {"ManyTokens", 1, 8002, 1000},
      {"ManyTokensOfALongerPeriod", 30, 8002, 1000},
      {"ManyRounds", 64, 8002, 30 * 64},
      {"HalfOfWhatWasLeft", 1, 602, 300},
      {"HalfOfWhatWasLeftAtAll", 1, 303, 200},
      {"TooFewTokens", 1, 190, 0},
      {"HalfInLongRounds", 64, 1002, 500},
      {"SixRounds", 64, 502, 6 * 64},
      {"TooFewRounds", 64, 380, 0},
  };
  const std::string_view letters =
      "it was the best of times, it was the worst of times; it was wise";
  for (const Row& row : rows) {
    const std::string round(letters.substr(0, row.period));
    const std::string text = "[\"" + times(row.most, round);
    const Answer answer = answer_of(values_of(kTexts), {"[\"", round, {}}, row.most);
    EXPECT_EQ(answer.closed > 0, row.tokens > 0) << row.name;
    if (row.tokens == 0) continue;
    EXPECT_EQ(answer.text.substr(0, row.tokens + 3), text.substr(0, row.tokens + 2) + "\"")
        << row.name;
  }
}

TEST(Constraint, LeavesAloneWhatIsNoRepetitionOrMayEnd) {
  struct Row {
    const char* name;
    std::shared_ptr<grammar::Grammar> grammar;
    RepeatingModel model;
    bool is_complete;
  };
  std::string numbers;
  for (int i = 0; i < 400; ++i) numbers += std::to_string(i) + ",";
  const std::string zeros = "[" + times(15, "0,") + "0]";
  const std::string board = times(64, "<b/>");
  const Row rows[] = {
      {"TextThatMayEnd", grammar_of_lark("start: /(.|\\n)*/"), {"", "so ", {}}, false},
      {"LinesEachOfWhichMayBeTheLast",
       grammar_of_lark("start: (/[a-z ]+;/)+"),
       {"", "so so;", {}},
       false},
      {"ALongPeriod",
       values_of(kTexts),
       {"[\"", "a man a plan a canal and then some more of the very same old story again", {}},
       false},
      {"ASeriesThatGrows",
       values_of(R"({"type": "array", "items": {"type": "integer"}})"),
       {"[", numbers, {}},
       false},
      {"ItemsThatTheSchemaDemands",
       values_of(R"({"type": "array", "items": {"type": "integer"}, "minItems": 500,
                     "maxItems": 500})"),
       {"[", "1,", {}},
       true},
      {"AMatrix",
       values_of(R"({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})"),
       {"[" + times(15, zeros + ",") + zeros + "]", "", {}},
       true},
      {"Base64", values_of(kTexts), {"[\"" + times(600, "A") + "\"]", "", {}}, true},
      {"ABoard", values_of(kTexts), {"[\"" + board + "\"]", "", {}}, true},
      {"AHundredTimes", values_of(kTexts), {"[" + times(99, "\"no\",") + "\"no\"]", "", {}}, true},
  };
  for (const Row& row : rows) {
    const Answer answer = answer_of(row.grammar, row.model, 4000);
    EXPECT_EQ(answer.closed, 0U) << row.name;
    EXPECT_EQ(answer.is_complete, row.is_complete) << row.name << ": " << answer.text;
    EXPECT_EQ(answer.text, answer_of(row.grammar, row.model, 4000, {}).text) << row.name;
  }
}

// A token of a real vocabulary may end an item and go on behind it: the repetition is left before
// it, so the last item is as whole as the others.
TEST(Constraint, NoItemIsInvented) {
  const auto tokenizer = *vocab::load_tokenizer(std::filesystem::path(TENON_SOURCE_DIR) / "models" /
                                                "tenon-tiny.gguf");
  const std::string item = R"({"name": "Anna", "role": "the cook"})";
  for (const std::string_view between : {", ", ","}) {
    const std::string schema = R"({"x-guidance": {"whitespace_flexible": true}, "type": "array",
      "items": {"type": "object", "required": ["name", "role"], "additionalProperties": false,
                "properties": {"name": {"type": "string"}, "role": {"type": "string"}}}})";
    const auto grammar = grammar_of(
        *grammar::read_rules("start: %json " + schema, grammar::Syntax::lark), *tokenizer);
    std::vector<TokenId> wanted;
    std::string text = "[";
    while (text.size() < 4000) text += item + std::string(between);
    ASSERT_TRUE(tokenizer->encode(text, vocab::Controls::off, /*at_start=*/false, wanted));
    Constraint constraint(grammar, *tokenizer, {.closes_repetitions = true});
    std::string answer;
    for (std::size_t i = 0; i < wanted.size() && !constraint.is_complete(); ++i) {
      const std::optional<TokenId> next = constraint.next(wanted[i], wanted.size() - i);
      ASSERT_TRUE(next);
      answer += tokenizer->bytes(*next);
      constraint.accept(*next);
      if (constraint.closed_repetitions() > 0 && answer.ends_with(']')) break;
    }
    EXPECT_EQ(constraint.closed_repetitions(), 1U);
    EXPECT_TRUE(answer.ends_with(item + "]")) << answer;
    EXPECT_LT(answer.size(), 3000U);
    EXPECT_TRUE(holds(grammar, answer)) << answer;
  }
}

// Repetitions of every length, beside answers that come to their end in time and others.
TEST(Constraint, EveryRepetitionUpToTheLongestEnds) {
  const auto texts = values_of(kTexts);
  const std::string_view letters =
      "it was the best of times, it was the worst of times; it was wise";
  ASSERT_EQ(letters.size(), RepetitionDetector::kLongestPeriod);
  for (std::size_t period = 1; period <= letters.size(); ++period) {
    for (const bool ends_whole : {false, true}) {
      const Answer answer = answer_of(texts, {"[\"", std::string(letters.substr(0, period)), {}},
                                      4000, {.ends_whole = ends_whole, .closes_repetitions = true});
      EXPECT_EQ(answer.is_complete, ends_whole) << period;
      EXPECT_EQ(holds(texts, answer.text), ends_whole) << answer.text;
      EXPECT_GE(answer.closed, 3U) << period;
    }
  }
}

}  // namespace
}  // namespace tenon::engine
