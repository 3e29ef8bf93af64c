#include "tenon/regex/dfa.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/regex/common_characters.h"
#include "tenon/regex/language.h"

namespace tenon::regex {
namespace {

constexpr Limits kDfaRoomy{.max_steps = 5'000'000, .max_bytes = 64 << 20};

Expr whole(ExprSet& exprs, std::string_view pattern) {
  Budget budget("pattern", kDfaRoomy);
  const Expected<Syntax> syntax = parse(pattern, Dialect::ecma262, budget);
  EXPECT_TRUE(syntax) << pattern;
  const Expected<Expr> language = language_of(exprs, *syntax, Extent::whole);
  EXPECT_TRUE(language) << language.error().message;
  return *language;
}

Dfa::State walk(Dfa& dfa, std::string_view text) {
  Dfa::State state = Dfa::kStart;
  for (const char byte : text) state = dfa.step(state, static_cast<std::uint8_t>(byte));
  return state;
}

// ---- life and death -----------------------------------------------------------------------------

struct Life {
  std::string_view name;
  std::string_view pattern;
  std::string_view also;  // the language has the texts that match both
  std::string_view text;
  bool is_live;
};

const Life kLives[] = {
    {"Beginning", "abc", ".*", "", true},
    {"Middle", "abc", ".*", "ab", true},
    {"Behind", "abc", ".*", "abcd", false},
    {"Besides", "abc", ".*", "b", false},
    {"CommonText", "[a-m]+", "[h-z]+", "", true},
    {"NoCommonText", "[a-h]+", "[i-z]+", "", false},
    {"NoCommonLength", "(?:..)+", ".(?:..)*", "abc", false},
    {"NoCommonLengthFarAway", "(?:.{7})+", "(?:.{11}){1,6}", "", false},
    {"CommonLengthFarAway", "(?:.{7})+", "(?:.{11}){1,7}", "", true},
    {"LookAheadThatFails", "(?=.*b)a+", ".*", "a", false},
    {"LookAheadThatMayHold", "(?=.*b)[ab]+", ".*", "a", true},
    {"NegativeLookAheadForAll", "(?!.*b)a+b", ".*", "", false},
    {"LookBehindThatFails", "a(?<=b).*", ".*", "", false},
    {"LookBehindThatHeld", "(?:a|b)(?<=b)c", ".*", "b", true},
    {"LookBehindThatFailed", "(?:a|b)(?<=b)c", ".*", "a", false},
    {"LongCount", "a{10000}", ".*", "aa", true},
    {"LongCountWithBound", "a{1000}", "[a-z]{0,1001}", "", true},
    {"LongCountOutOfBound", "a{1000}", "[a-z]{0,999}", "", false},
    {"InsideACharacter", "[^a]", ".*", "\xC3", true},
    {"WrongByte", "[^a]", ".*", "\xFF", false},
};

class Lives : public ::testing::TestWithParam<Life> {};

TEST_P(Lives, AreKnownExactly) {
  ExprSet exprs(kDfaRoomy);
  Dfa dfa(exprs, exprs.both(whole(exprs, GetParam().pattern), whole(exprs, GetParam().also)));
  EXPECT_EQ(dfa.is_live(walk(dfa, GetParam().text)), GetParam().is_live);
}

INSTANTIATE_TEST_SUITE_P(Texts, Lives, ::testing::ValuesIn(kLives),
                         [](const auto& test) { return std::string(test.param.name); });

// Computes which states lead to an accepting one, backwards from the accepting states.
std::vector<bool> lives_of_all(Dfa& dfa) {
  std::vector<std::vector<Dfa::State>> next(1);  // the first is kFailed, which leads nowhere
  for (Dfa::State state = Dfa::kStart; state < dfa.state_count(); ++state) {
    next.emplace_back();
    for (unsigned byte = 0; byte < 256; ++byte) {
      next[state].push_back(dfa.step(state, static_cast<std::uint8_t>(byte)));
    }
  }
  std::vector<bool> lives(next.size());
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Dfa::State state = Dfa::kStart; state < lives.size(); ++state) {
      if (lives[state]) continue;
      lives[state] = dfa.is_accepting(state) ||
                     std::ranges::any_of(next[state], [&](auto other) { return lives[other]; });
      is_changed |= lives[state];
    }
  }
  return lives;
}

constexpr std::string_view kPatterns[] = {
    ".*foo.*",        "[^]{3,9}",     "(?!.*oo)[a-z]*",
    "(?:.{3}|.{5})*", "[fo]+(?<=fo)", "(?=.*o$).*f",
    "(?:foo|of){2}",  "f{2,4}o{0,3}", "",
    "\\bfo\\b.?.?",
};

TEST(Dfa, KnowsLifeInWhateverOrderItIsAsked) {
  for (const std::string_view one : kPatterns) {
    for (const std::string_view other : kPatterns) {
      ExprSet exprs(kDfaRoomy);
      const Expr language = exprs.both(whole(exprs, one), whole(exprs, other));
      Dfa all(exprs, language);
      const std::vector<bool> lives = lives_of_all(all);
      for (const std::size_t stride : {std::size_t{1}, std::size_t{7}, lives.size() - 1}) {
        Dfa dfa(exprs, language);
        (void)lives_of_all(dfa);  // the same numbers
        for (std::size_t i = 0, state = 1; i < lives.size(); ++i, state += stride) {
          const auto asked = static_cast<Dfa::State>(state % lives.size());
          ASSERT_EQ(dfa.is_live(asked), lives[asked]) << one << " and " << other << ": " << asked;
        }
      }
    }
  }
}

// ---- the rest of the header ---------------------------------------------------------------------

// Within a character the expression does not say that a text follows, but after it does: no search
// for an end is needed, which would cost as many states as the text has bytes to come.
TEST(Dfa, NeedsNoSearchForAnEndBehindACharacter) {
  ExprSet exprs(kDfaRoomy);
  const Expr text = whole(exprs, "[^]*");
  exprs.set_text(text);
  const Expr segments = whole(exprs, "^.{1,20}a.{1,20}b.{1,20}c.{1,20}d.{1,20}e$");
  Dfa dfa(exprs, exprs.both(text, segments));
  for (const std::string_view begun :
       {"\xC3", "xyz\xE2\x82", "xa\xF0", "xax\xE2", "xaxaxbxb\xC4"}) {
    const Dfa::State state = walk(dfa, begun);
    const Dfa::State before = dfa.state_count();
    EXPECT_TRUE(*dfa.is_live(state)) << begun;
    EXPECT_LT(dfa.state_count() - before, 2 * dfa.class_count()) << begun;
  }
}

// The tails of many equal parts are joined to the end of the sequence, once for all bytes.
// A letter of any script has some 200 classes of bytes and as many states behind its first byte.
// The search goes towards the end and not through all of them.
TEST(Dfa, FindsAnEndPastLettersOfManyScriptsInFewSteps) {
  ExprSet exprs(kDfaRoomy);
  const Expr word = exprs.both(whole(exprs, "\\p{L}+"), exprs.complement(whole(exprs, "if|else")));
  const Expr words = exprs.concat(word, whole(exprs, "(?:, ?\\p{L}+)*do."));
  const Expr begun = exprs.concat(whole(exprs, "[^]*<do>"), exprs.concat(word, ExprSet::kAnything));
  const Expr language = exprs.both(words, exprs.complement(begun));
  exprs.set_limits({.max_steps = 20'000, .max_bytes = 64 << 20});
  Dfa dfa(exprs, language);
  EXPECT_EQ(dfa.is_live(Dfa::kStart), true);
}

TEST(Dfa, ReadsASequenceOfManyEqualPartsInFewSteps) {
  std::string pattern = "^";
  for (int i = 0; i < 100; ++i) pattern += "\\w{1,8}\\s?";
  // 75,000 steps are enough; 240,000 would be needed if the tails were joined anew each time.
  ExprSet exprs({.max_steps = 150'000, .max_bytes = 64 << 20});
  Dfa dfa(exprs, whole(exprs, pattern + "the end$"));
  constexpr unsigned kSize = 12;
  for (unsigned bits = 0; bits < 1U << kSize; ++bits) {
    Dfa::State state = Dfa::kStart;
    for (unsigned i = 0; i < kSize; ++i) state = dfa.step(state, (bits >> i & 1U) != 0 ? 'a' : ' ');
  }
  EXPECT_TRUE(exprs.status());
}

TEST(Dfa, KnowsTheBytesThatChangeNothing) {
  ExprSet exprs(kDfaRoomy);
  Dfa dfa(exprs, whole(exprs, "\"[a-z]*\"(?:x|y)"));
  EXPECT_TRUE(dfa.loops(Dfa::kStart).is_empty());
  EXPECT_EQ(dfa.loops(walk(dfa, "\"")), ByteSet::range('a', 'z'));
  EXPECT_EQ(dfa.loops(walk(dfa, "?")), ByteSet::all());  // a dead state stays dead
}

// ---- free text ----------------------------------------------------------------------------------

struct Free {
  std::string_view name;
  std::string_view pattern;
  std::string_view text;    // before
  std::string_view free;    // characters that are
  std::string_view others;  // characters that are not
  bool has_common;
};

const Free kFree[] = {
    {"AnyText", ".*", "", "aZ0 \"", "\n", true},
    {"AllButOne", "[^k]*", "", "aZ0 ", "k", true},
    {"EndsWithALetter", ".*n", "", "anZ", "\n", true},
    {"BeginsOrEnds", "k.*|.*n", "", "akn", "\n", true},
    {"BeginsWithALetter", "k.*", "", "k", "a", false},
    {"BehindTheLetter", "k.*", "k", "ak", "\n", true},
    {"EscapesAndAnEnd", R"((?:[^"\\]|\\[nt])*")", "", "ant ", "\"\\", true},
    {"LettersOnly", "[a-z]+", "", "az", "A1 ", false},
    {"WordsBetweenDots", "(?:[a-z]+\\.)*[a-z]+", "a", "az", "A1", false},
    {"Counted", ".{0,100}", "", "", "a", false},
    {"TheEnd", "a", "a", "", "a", false},
    {"LookAhead", "(?=.*b).*", "", "ab", "\n", true},
};

class FreeTexts : public ::testing::TestWithParam<Free> {};

TEST_P(FreeTexts, AreFoundAndStayLive) {
  const Free& row = GetParam();
  ExprSet exprs(kDfaRoomy);
  Dfa dfa(exprs, whole(exprs, row.pattern));
  const Dfa::State from = walk(dfa, row.text);
  const Dfa::FreeText free = dfa.free_text(from);
  for (const char c : row.free) {
    EXPECT_TRUE(free.ascii.contains(static_cast<std::uint8_t>(c))) << c;
  }
  for (const char c : row.others) {
    EXPECT_FALSE(free.ascii.contains(static_cast<std::uint8_t>(c))) << c;
  }
  EXPECT_EQ(free.has_common, row.has_common);
  // Every text of up to two free characters is live, and so is a byte behind it.
  std::vector<std::string> characters;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    if (free.ascii.contains(static_cast<std::uint8_t>(byte))) {
      characters.emplace_back(1, static_cast<char>(byte));
    }
  }
  if (free.has_common) {
    for (const std::string_view common : {"é", "ß", "中", "–", "ﬁ"})
      characters.emplace_back(common);
  }
  std::vector<std::string> texts{""};
  for (int length = 1; length <= 2; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& character : characters) longer.push_back(text + character);
    }
    for (const std::string& text : longer) {
      Dfa::State state = from;
      for (const char byte : text) state = dfa.step(state, static_cast<std::uint8_t>(byte));
      EXPECT_TRUE(dfa.is_live(state).value_or(false)) << row.pattern << ": " << text;
      EXPECT_NE(dfa.language(state), ExprSet::kEpsilon) << row.pattern << ": " << text;
    }
    texts = std::move(longer);
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, FreeTexts, ::testing::ValuesIn(kFree),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Dfa, NumbersItsStatesInTheOrderOfMeetingThem) {
  ExprSet exprs(kDfaRoomy);
  Dfa dfa(exprs, whole(exprs, "a{0,1000000}b"));
  EXPECT_EQ(dfa.state_count(), 2U);
  EXPECT_EQ(walk(dfa, "a"), 2U);
  EXPECT_EQ(walk(dfa, "aa"), 3U);
  EXPECT_EQ(walk(dfa, "aa"), 3U);
  EXPECT_EQ(walk(dfa, "aab"), 4U);
  EXPECT_TRUE(dfa.is_accepting(4));
  EXPECT_EQ(dfa.state_count(), 5U);
}

TEST(Dfa, HasOneClassForBytesThatItDoesNotTellApart) {
  ExprSet exprs(kDfaRoomy);
  const Dfa dfa(exprs, whole(exprs, "[a-z]+[0-9]"));
  EXPECT_EQ(dfa.class_count(), 3U);
  EXPECT_EQ(dfa.byte_classes()['b'], dfa.byte_classes()['y']);
  EXPECT_NE(dfa.byte_classes()['b'], dfa.byte_classes()['0']);
  EXPECT_EQ(dfa.byte_classes()['-'], dfa.byte_classes()[0xFF]);
}

TEST(Dfa, KnowsWhereEveryTextIsAccepted) {
  ExprSet exprs(kDfaRoomy);
  Dfa dfa(exprs, exprs.concat(exprs.literal("ab"), ExprSet::kAnything));
  EXPECT_FALSE(dfa.accepts_all(walk(dfa, "a")));
  EXPECT_TRUE(dfa.accepts_all(walk(dfa, "ab")));
  EXPECT_TRUE(dfa.accepts_all(walk(dfa, "abx")));
}

TEST(Dfa, KnowsWhereCommonCharactersLeadToOneState) {
  struct Row {
    std::string_view name, pattern, text;
    // The state that they lead to; nothing: they lead to several.
    std::optional<std::string_view> common;
  };
  const Row rows[] = {
      {"AnyCharacter", ".+", "", "\xC3\xA9"},
      {"Spaces", R"((?:\S+\s+){0,9}\S+)", "a ", "a b"},
      {"CountOfCharacters", "[^x]{3}", "a", "ab"},
      {"NoneOfThem", "[a-z]*", "a", "\xC3\xA9"},
      {"SomeOfThem", "[\xD0\xB0-\xD1\x8F]*", "", std::nullopt},
      {"SomeOfThemLater", "a[^\xE4\xB8\x80]", "a", std::nullopt},
      {"BesideTheLater", "a[^\xE4\xB8\x80]", "", "\xC3\xA9"},
      {"WithinACharacter", "[^x]*", "\xE4", "\xE4\xC3"},
  };
  for (const Row& row : rows) {
    ExprSet exprs(kDfaRoomy);
    Dfa dfa(exprs, whole(exprs, row.pattern));
    const auto common = dfa.step_common(walk(dfa, row.text));
    ASSERT_EQ(common.has_value(), row.common.has_value()) << row.name;
    if (!common) continue;
    EXPECT_EQ(dfa.language(*common), dfa.language(walk(dfa, *row.common))) << row.name;
    EXPECT_EQ(dfa.step_common(walk(dfa, row.text)), common) << row.name;
  }
}

TEST(ExprSet, MakesCountsFar) {
  struct Row {
    std::string_view name, pattern;
    bool is_changed;
    std::string_view text;  // walked with far counts
    bool stays_far = true;  // on the whole way
  };
  const Row rows[] = {
      {"Words", R"((?:\S+\s+){0,99}\S+)", true, "a b c d"},
      {"MoreWordsThanAFew", R"((?:\S+\s+){0,99}\S+)", true, "a b c d e f g h i j k", false},
      {"Letters", "[a-z]{3,20}-", true, "abcd"},
      {"MoreLettersThanAFew", "[a-z]{3,20}-", true, "abcdefghi", false},
      {"BeyondThem", "[a-z]{0,20}-.*", true, "abc-abcdefghijklmno"},
      {"FewOnly", "a{0,4}b", false, ""},
      {"AnyCharacter", ".{0,9}[^a]*", false, ""},
      {"AnyCharacterInAWord", R"((?:.{0,9}\s){0,9}a)", true, "b b"},
      {"ManyAreWanted", "a{9,20}b", false, ""},
      {"WithoutEnd", "a{2,}b*", false, ""},
      {"OneOfTwo", "(?:a{0,9}|b{1,5})c", true, "aaaa"},
      {"CountsOfCounts", "(?:a{2,9}b?){0,30}c", true, "aabaab"},
      {"LookAhead", "(?=a)[a-z]{0,20}", false, ""},
      {"TwoThatBecomeOne", "(?:a{0,9}b){0,5}(?:a{0,12}b){0,7}", true, "b", false},
      {"OneAndAFew", "(?:a{0,9}b){0,5}(?:a{0,12}b){0,3}", true, "bbbbbbb"},
      {"OneAndAFewRunOut", "(?:a{0,9}b){0,5}(?:a{0,12}b){0,3}", true, "bbbbbbbb", false},
  };
  for (const Row& row : rows) {
    ExprSet exprs(kDfaRoomy);
    const Expr language = whole(exprs, row.pattern);
    const std::optional<Expr> far = exprs.with_far_counts(language);
    ASSERT_EQ(far.has_value(), row.is_changed) << row.name;
    if (!far) continue;
    Dfa exact(exprs, language);
    Dfa dfa(exprs, *far);
    std::vector<Expr> met{*far};
    for (std::size_t i = 1; i <= row.text.size(); ++i) {
      const Dfa::State state = walk(dfa, row.text.substr(0, i));
      met.push_back(dfa.language(state));
      if (row.stays_far) {
        EXPECT_EQ(dfa.is_live(state), exact.is_live(walk(exact, row.text.substr(0, i))))
            << row.name << " " << i;
      }
    }
    EXPECT_EQ(exprs.are_counts_far(met), row.stays_far) << row.name;
  }
}

TEST(CommonCharacters, AreThoseWithoutSpacesAndControls) {
  struct Row {
    std::string_view name, text;
    std::size_t length;
  };
  const Row rows[] = {
      {"Nothing", "", 0},
      {"Ascii", "a", 0},
      {"Latin", "\xC3\xA9t", 2},
      {"Cut", "\xC3", 0},
      {"NoBreakSpace", "\xC2\xA0", 0},
      {"FirstAfterIt", "\xC2\xA1", 2},
      {"Cjk", "\xE4\xB8\x80\xE4", 3},
      {"Dash", "\xE2\x80\x94", 3},
      {"LineSeparator", "\xE2\x80\xA8", 0},
      {"IdeographicSpace", "\xE3\x80\x80", 0},
      {"ByteOrderMark", "\xEF\xBB\xBF", 0},
      {"FullWidth", "\xEF\xBC\x81", 3},
      {"Surrogate", "\xED\xA0\x80", 0},
      {"PrivateUse", "\xEE\x80\x80", 0},
      {"Emoji", "\xF0\x9F\x98\x80", 0},
      {"Overlong", "\xE0\x80\x80", 0},
      {"Continuation", "\x80", 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(common_character_length(row.text), row.length) << row.name;
  }
}

TEST(Dfa, StaysFailedOnceALimitIsReached) {
  ExprSet exprs(kDfaRoomy);
  const Expr language = whole(exprs, "[ab]*a[ab]{100}");
  exprs.set_limits({.max_steps = 1000});
  Dfa dfa(exprs, language);
  const Dfa::State early = walk(dfa, "ab");
  EXPECT_NE(early, Dfa::kFailed);
  std::string text = "ab";
  for (int i = 0; i < 100; ++i) text += i % 3 == 0 ? "a" : "b";
  EXPECT_EQ(walk(dfa, text), Dfa::kFailed);
  EXPECT_EQ(dfa.step(Dfa::kFailed, 'a'), Dfa::kFailed);
  EXPECT_FALSE(dfa.is_accepting(Dfa::kFailed));
  EXPECT_EQ(dfa.is_live(Dfa::kFailed), false);
  EXPECT_EQ(exprs.status().error().code, Errc::limit_exceeded);
  EXPECT_EQ(walk(dfa, "ab"), early);
}

TEST(Dfa, OfAFailedLanguageHasAStartThatLeadsNowhere) {
  ExprSet exprs({.max_steps = 1});
  const Expr language = exprs.literal("abc");
  Dfa dfa(exprs, language);
  EXPECT_EQ(dfa.step(Dfa::kStart, 'a'), Dfa::kFailed);
  EXPECT_FALSE(dfa.is_accepting(Dfa::kStart));
}

}  // namespace
}  // namespace tenon::regex
