#include "tenon/regex/regex.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"

namespace tenon::regex {
namespace {

using namespace std::string_view_literals;
using Texts = std::vector<std::string_view>;

struct Search {
  std::string_view name;
  std::string_view pattern;
  Texts matching;
  Texts other;
};

// The results of Node's RegExp with the flag u, or without it where Annex B is named.
const Search kSearches[] = {
    {"EmptyPattern", "", {"", "a"}, {}},
    {"PartOfTheText", "b", {"b", "abc", "\n\nb"}, {"", "a", "B"}},
    {"Anchors", "^ab$", {"ab"}, {"", "xab", "abx", "ab\n", "\nab"}},
    {"AnchorsInWays", "^a|b$|^$", {"ax", "xb", ""}, {"xa", "bx", "x"}},
    {"AnchorsWhereNothingFits", "a^b|a$b|^a^$|$.", {}, {"", "a", "ab", "a\nb"}},
    {"AnchorsInLoops", "^(?:^a|b)+$", {"a", "b", "abb"}, {"", "ba", "aa"}},
    {"AnchorsTwice", "^^(^a$)$$", {"a"}, {"", "aa"}},
    {"Dot", "^.$", {"a", "é", "😀"}, {"", "\n", "\r", "\u2028", "\u2029", "ab"}},
    {"Lines", "(?m:^b$)", {"b", "a\nb", "b\nc", "a\rb\u2028c"}, {"", "ab", "a\nbc"}},
    {"DotAll", "^(?s:.)$", {"\n", "a"}, {"", "ab"}},
    {"IgnoresCase",
     "^(?i:stra\u00DFe[k-m])$",
     {"Stra\u1E9EeK", "STRA\u00DFEl"},
     {"strassek", "stra\u00DFen"}},
    {"IgnoresCaseInPart", "^a(?i:b)c(?-i:d)$", {"abcd", "aBcd"}, {"Abcd", "abCd"}},
    {"Classes", "^[a-c-9\\]]$", {"a", "c", "-", "9", "]"}, {"d", "\\", ""}},
    {"ClassEmpty", "[]", {}, {"", "a"}},
    {"ClassFull", "^[^]$", {"a", "\n", "😀"}, {"", "ab"}},
    {"ClassNegated", "^[^\\d\\n]$", {"a", "é"}, {"7", "\n", ""}},
    {"ClassOfEscapes", "^[\\w\\s\\-\\b\\u{1F600}]+$", {"a_9 -\b😀"}, {"", "é", "."}},
    {"ClassWithRangeOfCharacters", "^[à-ö]+$", {"àéö"}, {"a", "\xC3\x97", ""}},
    {"ClassWithBracket", "^[[a]$", {"[", "a"}, {"]", ""}},
    {"ClassWithSetBeforeHyphenAnnexB", "^[\\w-.]+$", {"a-.z"}, {"", ","}},
    {"Digits", "^\\d$", {"0", "9"}, {"\u0663", "a", ""}},
    {"Words", "^\\w+$", {"aZ_9"}, {"é", "-", ""}},
    {"Spaces", "^\\s+$", {" \t\n\v\f\r\u00A0\uFEFF\u2028\u3000"}, {"", "\u0085", "\u180E"}},
    {"Properties",
     "^\\p{Lu}\\p{Letter}\\P{L}\\p{Script=Greek}\\p{sc=Grek}$",
     {"Aé1αβ"},
     {"aé1αβ", "Aé1ab"}},
    {"PropertiesInClasses", "^[\\p{Nd}\\p{Emoji_Presentation}]+$", {"7\u0663😀"}, {"", "a"}},
    {"Escapes",
     "^\\t\\n\\v\\f\\r\\0\\cJ\\x41\\u0042\\u{43}\\.\\/$",
     {"\t\n\v\f\r\0\nABC./"sv},
     {"", "t"}},
    {"EscapedSurrogates", "^\\uD83D\\uDE00$", {"😀"}, {"", "\uFFFD"}},
    {"SurrogatesAreInNoText", "[\\uD800-\\uDFFF]", {}, {"", "😀", "\uFFFD"}},
    {"EscapesWithoutNeedAnnexB", "^\\-\\_\\:\\%\\'\\<\\é$", {"-_:%'<é"}, {"-_:%'<"}},
    {"BracesAnnexB", "^{a}x{,2}]}{$", {"{a}x{,2}]}{"}, {"a"}},
    {"Quantifiers",
     "^a*b+c?d{2}e{2,}f{1,2}$",
     {"bddeef", "aabbcddeeeff"},
     {"bdeef", "bddef", "bddeefff"}},
    {"QuantifiersLazy", "^a*?b+?c??d{2}?e{0,1}?$", {"bdd", "aabcdde"}, {"b"}},
    {"QuantifiersOfNothing", "^(?:){5}(a?){3}(b*)*(c{0}){7}$", {"", "aaab", "b"}, {"aaaa", "c"}},
    {"QuantifiersWithHoles",
     "^(?:a{2}|b{3}){2}(?:c{2,3}){2}(?:d{3,4})*$",
     {"aaaacccc", "aabbbccccc", "bbbbbbccccccddd", "aaaaccccdddddd"},
     {"aac", "acccc", "aaaaccccddddd"}},
    {"Groups", "^(a|(?:b|c)d|(?<name>e))$", {"a", "bd", "cd", "e"}, {"b", "ad"}},
    {"GroupsWithNothing", "^(|a)()b(c|)$", {"b", "ab", "bc"}, {"", "a"}},
    {"Boundary",
     "\\bfoo\\b",
     {"foo", "a foo.",
      "é"
      "foo"},
     {"food", "_foo", "fo"}},
    {"BoundaryNegated", "^\\Ba|a\\Ba", {"aa"}, {"a", "a a"}},
    {"BoundaryInLoop", "^(?:\\b\\w+\\b ?)+$", {"a", "a b ", "ab cd"}, {"", " ", "a  b"}},
    {"LookAhead", "^(?=.*\\d)(?=.*[a-z])\\w{3,}$", {"a1b", "1ab"}, {"abc", "111", "a1"}},
    {"LookAheadNegative", "^(?!tag|category)\\w+$", {"ta", "xtag"}, {"tag", "tagged", "category"}},
    {"LookAheadInLoop", "^((?!mode)(?!Mode).)*$", {"", "mod", "MODE"}, {"mode", "a Mode b", "\n"}},
    {"LookAheadInLookAhead", "^(?=a(?!b(?=c)))", {"a", "ab", "ac", "abd"}, {"abc", "b"}},
    {"LookAheadCounted", "^(?:(?=a)[ab]|b){2,3}$", {"ab", "bab", "bbb"}, {"a", "abab"}},
    {"LookAheadAlone", "(?=ab)", {"ab", "xab"}, {"", "a", "ba"}},
    {"LookAheadRepeatedAnnexB", "^(?=a)*(?!b){2}c$", {"c"}, {"ac", "b"}},
    {"LookBehind", "(?<=\\$)\\d", {"$1", "a$1"}, {"1", "$a1"}},
    {"LookBehindNegative", "(?<!\\$|\\d)\\d", {"1", "a1"}, {"$1", "$12"}},
    {"LookBehindLong", "(?<=^a+b)c", {"abc", "aaabc"}, {"bc", "xabc", "abbc"}},
    {"LookBehindInLoop", "^(?:a|(?<=a)b|(?<=ab)c)*$", {"", "abcaab"}, {"b", "ac", "abb"}},
    {"LookBehindInLookBehind", "(?<=(?<!x)a)b", {"ab", "aab"}, {"xab", "b"}},
    {"LookBehindInLookAhead", "^a(?=.*(?<=b)c)", {"abc", "axbc"}, {"ac", "abxc"}},
    {"LookBothWays", "(?<!\\S)(?!\\S)", {"", " ", "a  b"}, {"a", "a b", "é"}},
    {"LongAlternation",
     "^(?:abc|abd|ab|b|bcd|[a-c]x)$",
     {"abc", "abd", "ab", "b", "bcd", "cx"},
     {"a", "abcd", "x"}},
};

class Searching : public ::testing::TestWithParam<Search> {};

TEST_P(Searching, FindsWhatEcmaScriptFinds) {
  const auto regex = Regex::compile(GetParam().pattern);
  ASSERT_TRUE(regex) << regex.error().message;
  for (const std::string_view text : GetParam().matching) {
    EXPECT_EQ((*regex)->contains_match(text), true) << text;
  }
  for (const std::string_view text : GetParam().other) {
    EXPECT_EQ((*regex)->contains_match(text), false) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, Searching, ::testing::ValuesIn(kSearches),
                         [](const auto& test) { return std::string(test.param.name); });

struct Refusal {
  std::string_view name;
  std::string pattern;
  Error error;
};

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

const Refusal kRefusals[] = {
    {"GroupOpen", "a(b", {Errc::invalid, "pattern: a group is not closed at byte 3"}},
    {"GroupClosed",
     "a)",
     {Errc::invalid, "pattern: a group is closed that was not opened at byte 1"}},
    {"GroupUnknown", "(?z:a)", {Errc::invalid, "pattern: unknown group at byte 2"}},
    {"GroupNameOpen", "(?<a", {Errc::invalid, "pattern: a group's name is not closed at byte 4"}},
    {"FlagsWithoutGroup", "(?i)a", {Errc::invalid, "pattern: flags without a group at byte 3"}},
    {"ClassOpen", "[a", {Errc::invalid, "pattern: a class is not closed at byte 2"}},
    {"ClassRange", "[z-a]", {Errc::invalid, "pattern: a range is out of order at byte 4"}},
    {"RepeatNothing", "*a", {Errc::invalid, "pattern: nothing to repeat at byte 0"}},
    {"RepeatBounds", "{2}", {Errc::invalid, "pattern: nothing to repeat at byte 0"}},
    {"RepeatRepetition", "a**", {Errc::invalid, "pattern: nothing to repeat at byte 2"}},
    {"RepeatAnchor", "^*", {Errc::invalid, "pattern: nothing to repeat at byte 1"}},
    {"RepeatOutOfOrder",
     "a{3,2}",
     {Errc::invalid, "pattern: a repetition's bounds are out of order at byte 1"}},
    {"EscapeOfNothing", "a\\", {Errc::invalid, "pattern: a backslash at the end at byte 2"}},
    {"EscapeOfLetter", "^a\\Z", {Errc::invalid, "pattern: an unknown escape at byte 3"}},
    {"EscapeOfHex", "\\xg0", {Errc::invalid, "pattern: not a hexadecimal code point at byte 2"}},
    {"EscapeBeyondUnicode",
     "\\u{110000}",
     {Errc::invalid, "pattern: not a hexadecimal code point at byte 9"}},
    {"PropertyUnknown", "\\p{Klingon}", {Errc::invalid, "pattern: an unknown property at byte 3"}},
    {"PropertyOpen",
     "\\p{L",
     {Errc::invalid, "pattern: a property's name is not closed at byte 3"}},
    {"NotUtf8", "a\xFF", {Errc::invalid, "pattern: not UTF-8 at byte 1"}},
    {"BackReference", "(a)\\1", {Errc::unsupported, "pattern: a back reference at byte 4"}},
    {"BackReferenceByName",
     "(?<n>a)\\k<n>",
     {Errc::unsupported, "pattern: a back reference at byte 8"}},
    {"LookAheadInLookBehind",
     "(?<=a(?=b))",
     {Errc::unsupported, "pattern: a look ahead in a look behind is not supported"}},
    {"EndInLookBehind",
     "(?<=a$)",
     {Errc::unsupported, "pattern: '$' in a look behind is not supported"}},
    {"DeepGroups",
     repeated("(a", 60'000) + repeated(")", 60'000),
     {Errc::limit_exceeded, "pattern: groups in more than 250 groups at byte 120251"}},
    {"ManyProperties",
     "[" + repeated("\\p{L}", 20'000) + "]",
     {Errc::limit_exceeded, "pattern: more than 33554432 bytes"}},
    {"ManyCharacters",
     repeated("a", 800'000),
     {Errc::limit_exceeded, "pattern: more than 33554432 bytes"}},
};

class Refusing : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refusing, NamesTheReasonAndThePlace) {
  const auto regex = Regex::compile(GetParam().pattern);
  ASSERT_FALSE(regex);
  EXPECT_EQ(regex.error().code, GetParam().error.code);
  EXPECT_EQ(regex.error().message, GetParam().error.message);
}

INSTANTIATE_TEST_SUITE_P(Patterns, Refusing, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

// Engines that backtrack need exponential time for most of these.
struct Hostile {
  std::string_view name;
  std::string pattern;
  std::string text;
  bool is_match;
};

// "x{first}y|...|x{last - 1}y".
std::string counts_from(int first, int last) {
  std::string result;
  for (int i = first; i < last; ++i) {
    result.append(i == first ? "x{" : "|x{").append(std::to_string(i)).append("}y");
  }
  return result;
}

const Hostile kHostile[] = {
    {"StarOfStar", "^(a*)*$", repeated("a", 100'000) + "b", false},
    {"PlusOfWays", "^(a|a|aa)+$", repeated("a", 100'000) + "b", false},
    {"ManyOptions", "^" + repeated("a?", 500) + repeated("a", 500) + "$", repeated("a", 500), true},
    {"Words", "^(?:\\S+\\s+){0,99}\\S+$", repeated("word ", 99) + "word", true},
    {"WordsTooMany", "^(?:\\S+\\s+){0,99}\\S+$", repeated("word ", 100) + "word", false},
    {"CountsOfCounts", "^(a{1,1000}){1,1000}$", repeated("a", 100'000), true},
    {"CountsOfCountsOfCounts", "^(((a{1,1000}){1,1000}){1,1000}){1,1000}$", "", false},
    {"CountOfMillions", "^(?:ab){2000000,4000000000}$", repeated("ab", 1000), false},
    {"CountsInWays", "^(?:" + counts_from(2, 3000) + ")$", repeated("x", 2999) + "y", true},
    {"NothingInCounts", repeated("(?:", 100) + "^[]" + repeated("){2}", 100), "", false},
    {"AnchorInCounts", repeated("(?:", 100) + "^" + repeated("){4000000000}", 100), "a", true},
    {"EmptyGroupsInCounts", "(?:^|" + repeated("()", 20'000) + "){50000}a", "a", true},
    {"LooksBehindInCounts", repeated("(?:", 50) + "(?<=a)" + repeated("){9}", 50) + "b", "ab",
     true},
    {"Parentheses", repeated("(", 60'000) + "a" + repeated(")", 60'000), "bab", true},
    {"ManyWays", "^(?:" + repeated("abcd|", 10'000) + "x)$", "x", true},
    {"LongText", "b$", repeated("ab", 500'000), true},
    {"LooksAhead", "^" + repeated("(?=.*a)(?!.*b)", 200), repeated("c", 1000) + "a", true},
    {"Boundaries", repeated("\\b", 300) + "a", " a", true},
};

class Bounded : public ::testing::TestWithParam<Hostile> {};

TEST_P(Bounded, IsAnsweredAtOnce) {
  const auto regex = Regex::compile(GetParam().pattern);
  ASSERT_TRUE(regex) << regex.error().message;
  EXPECT_EQ((*regex)->contains_match(GetParam().text), GetParam().is_match);
}

INSTANTIATE_TEST_SUITE_P(Patterns, Bounded, ::testing::ValuesIn(kHostile),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- real patterns ------------------------------------------------------------------------------

// Collects the values of `pattern` and the keys of `patternProperties` at any depth.
void collect_patterns(const nlohmann::json& value, std::set<std::string>& patterns) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      if (key == "pattern" && member.is_string()) patterns.insert(member.get<std::string>());
      if (key == "patternProperties" && member.is_object()) {
        for (const auto& [pattern, schema] : member.items()) patterns.insert(pattern);
      }
    }
  }
  for (const auto& member : value) {
    if (member.is_structured()) collect_patterns(member, patterns);
  }
}

class PublicSchemas : public ::testing::TestWithParam<Data> {};

TEST_P(PublicSchemas, HaveNoPatternThatIsRefused) {
  if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  const std::filesystem::path folder = folder_of(GetParam()) / "masks" / "public";
  const std::size_t longest_line = is_long_test() ? SIZE_MAX : 3000;
  std::set<std::string> patterns;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.size() > longest_line || line.find("attern") == std::string::npos) continue;
      collect_patterns(nlohmann::json::parse(line).at("schema"), patterns);
    }
  }
  EXPECT_GE(patterns.size(), GetParam() == Data::own ? 9U : 400U);
  for (const std::string& pattern : patterns) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex) << pattern << ": " << regex.error().message;
    EXPECT_TRUE((*regex)->contains_match("a text of no special kind").has_value()) << pattern;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, PublicSchemas, ::testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

// ---- limits, threads ----------------------------------------------------------------------------

// Its automaton has 2^200 states, and the text reaches a new one at each byte.
TEST(Regex, RefusesATextThatNeedsTooManyStates) {
  const auto regex = Regex::compile("^[ab]*a[ab]{200}c", {.max_steps = 100'000});
  ASSERT_TRUE(regex);
  std::string text;
  for (std::uint32_t i = 0, seed = 1; i < 1'000'000; ++i) {
    seed = seed * 1664525 + 1013904223;
    text += "ab"[seed >> 31];
  }
  const auto found = (*regex)->contains_match(text);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::limit_exceeded);
  EXPECT_EQ((*regex)->contains_match("a" + std::string(200, 'b') + "c"), true);
}

TEST(Regex, KeepsToItsCallersLimits) {
  const auto regex = Regex::compile("^(?:\\S+\\s+){0,99}\\S+$", {.max_steps = 10});
  ASSERT_FALSE(regex);
  EXPECT_EQ(regex.error(), (Error{Errc::limit_exceeded, "pattern: more than 10 steps"}));
}

TEST(Regex, ServesManyThreads) {
  const auto regex = Regex::compile("^(?:[a-z]+ ){2,9}$");
  ASSERT_TRUE(regex);
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::vector<int> right(8);
  for (std::size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t words = 0; words < 12; ++words) {
        const bool expected = words >= 2 && words <= 9;
        right[i] += (*regex)->contains_match(repeated("ab ", words)) == expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(8, 12));
}

}  // namespace
}  // namespace tenon::regex
