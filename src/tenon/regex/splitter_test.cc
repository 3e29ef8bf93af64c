#include "tenon/regex/splitter.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::regex {
namespace {

constexpr Dialect kOniguruma = Dialect::oniguruma;
constexpr Dialect kFancyRegex = Dialect::fancy_regex;

constexpr std::string_view kGpt2 =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+)"
    R"(| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Splitting {
  std::string_view name;
  Dialect dialect;
  std::string_view pattern;
  std::string_view text;
  std::vector<std::string_view> pieces;
};

// The results of the `tokenizers` package (Oniguruma) and of Python's `regex` (for tiktoken).
const Splitting kSplittings[] = {
    {"Gpt2",
     kOniguruma,
     kGpt2,
     "it's  2024, OK?\n\n  no ",
     {"it", "'s", " ", " 2024", ",", " OK", "?", "\n\n ", " no", " "}},
    {"Gpt2Unicode",
     kOniguruma,
     kGpt2,
     "d\u00E9j\u00E0 \u6F22\u5B57\u3000\U0001F600\u0661\u0662",
     {"d\u00E9j\u00E0", " \u6F22\u5B57", "\u3000", "\U0001F600", "\u0661\u0662"}},
    {"Llama3",
     kOniguruma,
     kLlama3,
     "I'LL pay 12345.67!\r\n\n  \n x",
     {"I", "'LL", " pay", " ", "123", "45", ".", "67", "!\r\n\n", "  \n", " x"}},
    {"Llama3LongS", kOniguruma, kLlama3, "it'\u017F _a", {"it", "'\u017F", " _", "a"}},
    {"Cl100k",
     kFancyRegex,
     kCl100k,
     "we'Ve 1234  \n\n.a  ",
     {"we", "'Ve", " ", "123", "4", "  \n\n", ".a", "  "}},
    {"O200k",
     kOniguruma,
     kO200k,
     "HTTPServer's /path/\n \u01C5x",
     {"HTTPServer's", " /", "path", "/\n", " \u01C5x"}},
    {"Gemma", kOniguruma, " ", "a b  c", {" ", " ", " "}},
    {"FirstChoiceBeforeLongest", kOniguruma, "a|ab|b", "abab", {"a", "b", "a", "b"}},
    {"Lazy", kOniguruma, "a+?|b{2,3}?|c*?d", "aabbbccd", {"a", "a", "bb", "ccd"}},
    {"LazySequence", kOniguruma, "(?:ab)+?c", "ababc", {"ababc"}},
    {"Possessive", kOniguruma, "a++a|x*+y|b", "aaaxxyb", {"xxy", "b"}},
    {"BracesAndPlusRepeat", kOniguruma, "a{2}+", "aaaaa", {"aaaa"}},
    {"BracesAndPlusArePossessive", kFancyRegex, "a{1,2}+a", "aaaa", {"aaa"}},
    {"Atomic", kOniguruma, "(?>a|ab)c", "acabc", {"ac"}},
    {"AtomicGivesBackNothing", kOniguruma, "(?>a*)ab|b", "aab", {"b"}},
    {"LookAhead", kOniguruma, "a(?=bc)|a(?!b)", "abcabaa", {"a", "a", "a"}},
    {"LookAheadKeepsNoChoice", kOniguruma, "(?=(a|ab))(?:ab|a)", "aba", {"ab", "a"}},
    {"LookBehind", kOniguruma, "(?<=[\u00E9x])a|(?<!b)b", "\u00E9aabb", {"a", "b"}},
    {"Boundaries", kOniguruma, R"(\b\w|\w\B)", "a\u00E9b cd", {"a", "\u00E9", "c"}},
    {"LineAnchors", kOniguruma, "^a|b$", "aab\nab", {"a", "b", "a", "b"}},
    {"TextAnchors", kFancyRegex, "^a|b$", "ab\nab", {"a", "b"}},
    {"TextAnchorsByEscapes", kOniguruma, R"(\Aa|b\Z|b\z)", "ab\nab\n", {"a", "b"}},
    {"ClassesNest", kOniguruma, "[a-c[x-z]]+|[\\w&&[^a-f]]+", "abxg1e", {"abx", "g1"}},
    {"ClassesIntersect", kOniguruma, "[a-m&&f-z&&[^h]]+", "efghij", {"fg", "ij"}},
    {"ClassesNamed",
     kOniguruma,
     "[[:digit:][:^alpha:]]+|[]a]+",
     "1-a]b\u0663",
     {"1-", "a]", "\u0663"}},
    {"FlagsToTheEnd", kFancyRegex, "a(?i)b|c", "aBaCb", {"aB", "C"}},
    {"FlagsOff", kFancyRegex, "(?i)a(?-i:b)", "AbaBAB", {"Ab"}},
    {"DotAll", kOniguruma, "a.|(?m:b.)", "a\nb\n", {"b\n"}},
    {"PropertiesShort", kOniguruma, R"(\pL+|\p{^L}|\P{Han})", "ab1", {"ab", "1"}},
    {"PropertiesOfScripts",
     kOniguruma,
     R"([\p{Han}\p{Hiragana}]+)",
     "a\u6F22\u3042b",
     {"\u6F22\u3042"}},
    {"Comments", kOniguruma, "a(?#b|c)d", "adab", {"ad"}},
    {"EmptyMatchesAreNoPieces", kOniguruma, "a*|b", "baab", {"aa"}},
    {"EmptyRounds", kOniguruma, "(?:a*)*b|(?:a|)+c", "aabac", {"aab", "ac"}},
    {"InvalidBytesAreOtherCharacters",
     kOniguruma,
     "a+|[^a]",
     "a\xFF"
     "a\xE6\xBC",
     {"a", "\xFF", "a", "\xE6", "\xBC"}},
};

class Pieces : public ::testing::TestWithParam<Splitting> {};

TEST_P(Pieces, AreTheMatches) {
  const auto splitter = Splitter::compile(GetParam().pattern, GetParam().dialect);
  ASSERT_TRUE(splitter) << splitter.error().message;
  std::vector<Splitter::Piece> pieces;
  ASSERT_TRUE((*splitter)->find_all(GetParam().text, pieces));
  std::vector<std::string_view> texts;
  texts.reserve(pieces.size());
  for (const auto& [begin, end] : pieces)
    texts.push_back(GetParam().text.substr(begin, end - begin));
  EXPECT_EQ(texts, GetParam().pieces);
}

INSTANTIATE_TEST_SUITE_P(Rules, Pieces, ::testing::ValuesIn(kSplittings),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Splitter, RepeatsNothingOnce) {
  const auto splitter = Splitter::compile("(?:(?:){4000000000}){4000000000}a");
  ASSERT_TRUE(splitter) << splitter.error().message;
  std::vector<Splitter::Piece> pieces;
  ASSERT_TRUE((*splitter)->find_all("ba", pieces));
  EXPECT_EQ(pieces, (std::vector<Splitter::Piece>{{1, 2}}));
}

TEST(Splitter, TakesLongTexts) {
  for (const std::string_view part : {" ", "a", "\n", "1", "word, ", " \n", "\u6F22"}) {
    std::string text;
    while (text.size() < 100'000) text += part;
    for (const std::string_view pattern : {kGpt2, kLlama3, kO200k}) {
      const auto splitter = Splitter::compile(pattern);
      std::vector<Splitter::Piece> pieces;
      ASSERT_TRUE((*splitter)->find_all(text, pieces)) << part;
      std::size_t end = 0;
      for (const Splitter::Piece& piece : pieces) {
        ASSERT_EQ(piece.begin, end);
        end = piece.end;
      }
      EXPECT_EQ(end, text.size());
    }
  }
}

TEST(Splitter, RefusesWhatItCannotDo) {
  const auto behind = Splitter::compile("(?<=ab)c");
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error(),
            (Error{Errc::unsupported, "pattern: a look behind of more than one character"}));
  const auto large =
      Splitter::compile("(?:(?:ab){1000}){1000}", kOniguruma, {.max_bytes = 1 << 20});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::limit_exceeded);
}

TEST(Splitter, StopsWhereEveryAttemptReadsToTheEnd) {
  const auto splitter = Splitter::compile("a*b|.");
  std::vector<Splitter::Piece> pieces;
  const Status found = (*splitter)->find_all(std::string(10'000, 'a'), pieces);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::limit_exceeded);
}

}  // namespace
}  // namespace tenon::regex
