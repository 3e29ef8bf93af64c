#include "tenon/json/lexer.h"

#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/json/test_rows.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

static_assert(std::is_trivially_copyable_v<Lexer>);
static_assert(sizeof(Lexer) <= 176);

Lexer after(std::string_view text) {
  Lexer lexer;
  lexer.feed(text);
  return lexer;
}

std::string_view without_trailing_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

class ValidTexts : public ::testing::TestWithParam<TextRow> {};
class InvalidTexts : public ::testing::TestWithParam<TextRow> {};

TEST_P(ValidTexts, AreTakenWhole) {
  const std::string_view text = GetParam().text;
  Lexer lexer;
  EXPECT_EQ(lexer.feed(text).used, without_trailing_space(text).size());
  EXPECT_TRUE(lexer.is_complete());
  EXPECT_TRUE(is_prefix(text));
  EXPECT_EQ(lexer.completion(), "");
}

TEST_P(ValidTexts, EndBeforeWhatFollows) {
  const std::string_view text = without_trailing_space(GetParam().text);
  for (const std::string_view tail : {" ", "\n", ",", "]", "x", "<|im_end|>", "\xff", "\""}) {
    const std::string both = std::string(text) + std::string(tail);
    Lexer lexer;
    const Lexer::Fed fed = lexer.feed(both);
    EXPECT_EQ(fed.verdict, Verdict::done) << both;
    EXPECT_EQ(fed.used, text.size());
    EXPECT_EQ(lexer.feed("1").verdict, Verdict::done);
    EXPECT_EQ(lexer.feed("1").used, 0u);
  }
}

// completion() promises a valid text after every prefix; json::parse decides whether it is one.
TEST_P(ValidTexts, CanBeCompletedAfterEveryByte) {
  const std::string_view text = without_trailing_space(GetParam().text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view begun = text.substr(0, cut);
    EXPECT_TRUE(is_prefix(begun)) << begun;
    const Lexer lexer = after(begun);
    const std::string whole = std::string(begun) + lexer.completion();
    EXPECT_TRUE(parse(whole)) << whole;
    EXPECT_EQ(lexer.is_complete(), parse(begun).has_value()) << begun;
    if (lexer.is_complete()) {
      EXPECT_EQ(lexer.completion(), "");
    }
  }
}

struct Lexeme {
  Token token;
  std::string text;
  bool operator==(const Lexeme&) const = default;
};

// The tokens, each put together from its pieces, without white space.
std::vector<Lexeme> tokens(const std::vector<std::string_view>& chunks, Verdict& verdict) {
  std::vector<Lexeme> runs;
  Lexer lexer;
  bool is_open = false;
  for (std::string_view chunk : chunks) {
    while (true) {
      const Lexer::Piece piece = lexer.next(chunk);
      verdict = piece.verdict;
      if (piece.size == 0 && !piece.ends) break;
      if (piece.token != Token::space) {
        EXPECT_EQ(piece.begins, !is_open);
        if (piece.begins) runs.push_back({piece.token, ""});
        runs.back().text += chunk.substr(0, piece.size);
        is_open = !piece.ends;
      }
      chunk.remove_prefix(piece.size);
    }
    if (verdict == Verdict::invalid) break;
  }
  return runs;
}

std::vector<std::string_view> bytes_of(std::string_view text) {
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  return bytes;
}

void expect_same_for_every_cut(std::string_view text) {
  Verdict verdict{};
  const std::vector<Lexeme> expected = tokens({text}, verdict);
  const Lexer::Fed fed = Lexer().feed(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    SCOPED_TRACE(cut);
    Verdict cut_verdict{};
    EXPECT_EQ(tokens({text.substr(0, cut), text.substr(cut)}, cut_verdict), expected);
    EXPECT_EQ(cut_verdict, verdict);

    Lexer lexer;
    Lexer::Fed first = lexer.feed(text.substr(0, cut));
    if (first.used == cut && first.verdict != Verdict::invalid) {
      const Lexer::Fed second = lexer.feed(text.substr(cut));
      first.used += second.used;
      first.verdict = second.verdict;
    }
    EXPECT_EQ(first.used, fed.used);
    EXPECT_EQ(first.verdict, fed.verdict);
  }
  Verdict byte_verdict{};
  EXPECT_EQ(tokens(bytes_of(text), byte_verdict), expected);
  if (!text.empty()) {
    EXPECT_EQ(byte_verdict, verdict);
  }
}

TEST_P(ValidTexts, AreTheSameWhereverTheyAreCut) {
  expect_same_for_every_cut(GetParam().text);
}
TEST_P(InvalidTexts, AreTheSameWhereverTheyAreCut) {
  expect_same_for_every_cut(GetParam().text);
}

TEST_P(InvalidTexts, AreNotTakenWhole) {
  const std::string_view text = GetParam().text;
  Lexer lexer;
  const Lexer::Fed fed = lexer.feed(text);
  const bool is_whole = lexer.is_complete() && fed.used == text.size();
  EXPECT_FALSE(is_whole);
  // The bytes taken before the fault are still the beginning of some JSON text.
  const std::string whole = std::string(text.substr(0, fed.used)) + lexer.completion();
  EXPECT_TRUE(parse(whole)) << whole;
}

std::string lexer_row_name(const ::testing::TestParamInfo<TextRow>& row) {
  return std::string(row.param.name);
}
INSTANTIATE_TEST_SUITE_P(Rfc8259, ValidTexts, ::testing::ValuesIn(kValidTexts), lexer_row_name);
INSTANTIATE_TEST_SUITE_P(Rfc8259, InvalidTexts, ::testing::ValuesIn(kInvalidTexts), lexer_row_name);

// From every state that the rows reach, each of the 256 bytes is tried: after a byte that is taken
// the text can be completed, and after a byte that is refused none of the known endings makes JSON.
TEST(Lexer, TakesAByteExactlyIfSomeTextGoesOnWithIt) {
  std::map<std::string, std::string> prefixes;  // one for each state that can be told apart
  for (const TextRow& row : kValidTexts) {
    for (std::size_t cut = 0; cut <= row.text.size(); ++cut) {
      const std::string_view prefix = row.text.substr(0, cut);
      const Lexer lexer = after(prefix);
      std::string state = lexer.completion() + std::string(lexer.expected());
      if (lexer.place() == Lexer::Place::in_number) state += prefix.back();  // "0" is not "1"
      prefixes.emplace(state, prefix);
    }
  }
  const std::vector<std::string_view> endings = {
      "",          "\"",      "0\"",        "00\"",   "000\"",
      "0000\"",    "\x80\"",  "\x80\x80\"", "\xBF\"", "n\"",
      "\\udc00\"", "udc00\"", "dc00\"",     "c00\"",  "\x80\x80\x80\"",
      "\":0}",     "0",       "null",       "ull",    "ll",
      "l",         "rue",     "alse",       "\":0",   ":0",
      "a\":0",     "]",       "}",          "0]",     "0}",
      "\"]",       "\"}",     "\"\":0}",    "null]",  "ull]",
      "0\":0}",    "00\":0}", "n\":0}"};
  Sample refused(3);
  for (const auto& [state, prefix] : prefixes) {
    const Lexer before = after(prefix);
    for (int byte = 0; byte < 256; ++byte) {
      const char next = static_cast<char>(byte);
      Lexer lexer = before;
      const bool taken = lexer.feed({&next, 1}).used == 1;
      const std::string text = prefix + next;
      if (taken) {
        ASSERT_TRUE(parse(text + lexer.completion())) << text << " + " << lexer.completion();
        continue;
      }
      if (before.is_complete()) continue;  // the value has ended; more is another text
      if (before.depth() > 2) continue;    // nothing new, and the endings multiply
      if (!refused.takes_next()) continue;
      for (const std::string_view ending : endings) {
        std::string whole = text + std::string(ending);
        for (std::size_t depth = 0; depth <= before.depth(); ++depth) {
          ASSERT_FALSE(parse(whole)) << whole;
          whole += before.is_in_object() ? '}' : ']';
        }
      }
    }
  }
}

struct CompletionRow {
  std::string_view begun;
  std::string_view completion;
};

const CompletionRow kCompletions[] = {
    {"", "null"},
    {"  ", "null"},
    {"[", "]"},
    {"[1", "]"},
    {"[1,", "null]"},
    {"{", "}"},
    {R"({"a)", R"(":null})"},
    {R"({"a")", ":null}"},
    {R"({"a":)", "null}"},
    {R"({"a": )", "null}"},
    {R"({"a":1,)", R"("":null})"},
    {R"({"a":{"b":["c)", R"("]}})"},
    {"tr", "ue"},
    {"[fals", "e]"},
    {"-", "0"},
    {"1.", "0"},
    {"1e", "0"},
    {"1e-", "0"},
    {"1e-5", ""},
    {"\"", "\""},
    {"\"\\", "\\\""},
    {"\"\\u", "0000\""},
    {"\"\\u00e", "0\""},
    {"\"\\ud", "000\""},
    {"\"\\ud8", "00\\udc00\""},
    {"\"\\ud83d", "\\udc00\""},
    {"\"\\ud83d\\", "udc00\""},
    {"\"\\ud83d\\u", "dc00\""},
    {"\"\\ud83d\\ud", "c00\""},
    {"\"\\ud83d\\ude0", "0\""},
    {"\"\xE2\x82", "\x80\""},
    {"\"\xE0", "\xA0\x80\""},
    {"\"\xF0\x9F", "\x80\x80\""},
    {R"({"a":1})", ""},
};

TEST(Lexer, CompletesWithTheShortestEnd) {
  for (const CompletionRow& row : kCompletions) {
    EXPECT_EQ(after(row.begun).completion(), row.completion) << row.begun;
    EXPECT_TRUE(parse(std::string(row.begun) + std::string(row.completion))) << row.begun;
  }
}

struct PlaceRow {
  std::string_view begun;
  Lexer::Place place;
  std::size_t depth;
  std::string_view expected;
};

TEST(Lexer, TellsWhereItIs) {
  using Place = Lexer::Place;
  const PlaceRow rows[] = {
      {" ", Place::value, 0, "a value"},
      {"[", Place::first_item, 1, "a value or ']'"},
      {"[1,", Place::value, 1, "a value"},
      {"[1 ", Place::after_value, 1, "',' or ']' after an item"},
      {"[1", Place::in_number, 1, "a digit"},
      {"{", Place::first_key, 1, "a key in double quotes or '}'"},
      {R"({"a)", Place::in_key, 1, "a character or escape of the string"},
      {R"({"a\)", Place::in_key, 1, "one of \"\\/bfnrtu after '\\'"},
      {R"({"a")", Place::colon, 1, "':' after a key"},
      {R"({"a":)", Place::value, 1, "a value"},
      {R"({"a":[{"b":tr)", Place::in_word, 3, "true, false or null"},
      {R"({"a":[])", Place::after_value, 1, "',' or '}' after a member"},
      {R"({"a":1,)", Place::next_key, 1, "a key in double quotes"},
      {"\"a", Place::in_string, 0, "a character or escape of the string"},
      {"\"\xC3", Place::in_string, 0, "valid UTF-8"},
      {"{}", Place::end, 0, "the end of the text"},
  };
  for (const PlaceRow& row : rows) {
    const Lexer lexer = after(row.begun);
    EXPECT_EQ(lexer.place(), row.place) << row.begun;
    EXPECT_EQ(lexer.depth(), row.depth) << row.begun;
    EXPECT_EQ(lexer.expected(), row.expected) << row.begun;
  }
  EXPECT_TRUE(after(R"({"a":[{)").is_in_object());
  EXPECT_FALSE(after(R"({"a":[)").is_in_object());
  EXPECT_TRUE(after(" ").is_empty());
  EXPECT_FALSE(after("1").is_empty());
}

TEST(Lexer, TellsTokens) {
  Verdict verdict{};
  const std::vector<Lexeme> expected = {
      {Token::begin_object, "{"}, {Token::key, R"("a\n")"}, {Token::colon, ":"},
      {Token::begin_array, "["},  {Token::number, "-1.5"},  {Token::comma, ","},
      {Token::word, "null"},      {Token::comma, ","},      {Token::string, R"("x")"},
      {Token::end_array, "]"},    {Token::end_object, "}"}};
  EXPECT_EQ(tokens({R"( { "a\n" : [-1.5 ,null, "x"]} tail)"}, verdict), expected);
  EXPECT_EQ(verdict, Verdict::done);
}

TEST(Lexer, RefusesTheByteAndStaysWhereItWas) {
  Lexer lexer;
  const Lexer::Fed fed = lexer.feed(R"({"a": tru})");
  EXPECT_EQ(fed.verdict, Verdict::invalid);
  EXPECT_EQ(fed.used, 9u);
  EXPECT_EQ(lexer.feed("}").verdict, Verdict::invalid);
  EXPECT_EQ(lexer.feed("e}").verdict, Verdict::done);
}

TEST(Lexer, RefusesWhatIsTooDeep) {
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65}, Lexer::kMostDepth}) {
    for (const std::string_view open : {"[", R"({"a":)"}) {
      Lexer lexer(Lexer::Options{.max_depth = limit});
      for (std::size_t i = 0; i < limit; ++i) {
        ASSERT_EQ(lexer.feed(open).used, open.size());
      }
      EXPECT_EQ(lexer.feed(open).verdict, Verdict::too_deep);
      EXPECT_EQ(lexer.depth(), limit);
      EXPECT_EQ(lexer.feed(open).used, 0u);
    }
  }
  Lexer lexer(Lexer::Options{.max_depth = 1'000'000});
  const std::string deep(2 * Lexer::kMostDepth, '[');
  EXPECT_EQ(lexer.feed(deep).used, Lexer::kMostDepth);
  EXPECT_EQ(lexer.completion(), std::string(Lexer::kMostDepth, ']'));
}

TEST(Lexer, TakesOnlyTheSpaceItIsAskedTo) {
  Lexer strict(Lexer::Options{.leading_space = false});
  EXPECT_EQ(strict.feed(" {}").verdict, Verdict::invalid);
  EXPECT_EQ(strict.feed("{ } ").used, 3u);
}

TEST(Lexer, TakesControlCharactersInStringsIfAskedTo) {
  const std::string_view text = "{\"a\nb\": \"\t\x01\"}";
  EXPECT_EQ(Lexer().feed(text).verdict, Verdict::invalid);
  EXPECT_EQ(Lexer(Lexer::Options{.control_in_strings = true}).feed(text).verdict, Verdict::done);
}

}  // namespace
}  // namespace tenon::json
