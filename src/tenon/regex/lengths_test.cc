#include "tenon/regex/lengths.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "tenon/base/budget.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/language.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

namespace tenon::regex {
namespace {

// The texts of valid UTF-8 that match `pattern` from beginning to end.
Expr texts(ExprSet& exprs, std::string_view pattern) {
  Budget budget("pattern", {.max_steps = 100'000});
  const auto syntax = parse(pattern, Dialect::ecma262, budget);
  const Expr character = utf8_spelling(exprs, CodePointSet{{1, 0xD7FF}, {0xE000, 0x10FFFF}});
  return exprs.both(*language_of(exprs, *syntax, Extent::whole),
                    exprs.repeat(character, 0, ExprSet::kUnbounded));
}

TEST(Lengths, Questions) {
  struct Row {
    const char* name;
    std::string_view pattern;
    std::string_view read;
    std::uint64_t least, most;
    bool is_live;
  };
  constexpr std::uint64_t kUnbounded = Lengths::kUnbounded;
  const Row rows[] = {
      {"Anything", "[^]*", "", 1'000'000, 1'000'000, true},
      {"NothingLeft", "[^]*", "abc", 0, 0, true},
      {"CrossedBounds", "[^]*", "", 3, 2, false},
      {"Shortest", "abc|abcdef", "ab", 1, 1, true},
      {"TooShort", "abc|abcdef", "ab", 0, 0, false},
      {"Between", "abc|abcdef", "ab", 2, 3, false},
      {"Longer", "abc|abcdef", "ab", 2, 4, true},
      {"Finite", "abc|abcdef", "", 7, kUnbounded, false},
      {"Even", "(?:..)*", "", 999'999, 999'999, false},
      {"EvenFarAway", "(?:..)*", "", 999'999, 1'000'000, true},
      {"SixAndTen", "(?:.{6}|.{10})*", "", 14, 15, false},
      {"SixAndTenFarAway", "(?:.{6}|.{10})*", "", 1'000'002, 1'000'002, true},
      {"PeriodAfterABeginning", "a{50}(?:b{7})*", "", 1'000'050, 1'000'056, true},
      {"NoPeriodThere", "a{50}(?:b{7})*", "", 700'051, 700'056, false},
      {"CharactersNotBytes", "é{5}", "", 5, 5, true},
      {"CharactersNotBytesEither", "é{5}", "", 10, 10, false},
      {"WithinACharacter", "é{5}", "\xC3", 4, 4, true},
      {"Dead", "abc", "x", 0, kUnbounded, false},
      {"Words", "(?:\\S+\\s+){0,99}\\S+", "ab ", 100'000, 100'000, true},
  };
  for (const Row& row : rows) {
    ExprSet exprs({.max_steps = 10'000'000, .max_bytes = 64 << 20});
    Dfa dfa(exprs, texts(exprs, row.pattern));
    Dfa::State state = Dfa::kStart;
    for (const char c : row.read) state = dfa.step(state, static_cast<std::uint8_t>(c));
    Lengths lengths(dfa);
    const auto live = lengths.is_live(state, row.least, row.most);
    ASSERT_TRUE(live) << row.name;
    EXPECT_EQ(*live, row.is_live) << row.name;
  }
}

// A loop on the way is enough to know that there are longer texts.
TEST(Lengths, LongTextsNeedFewStates) {
  ExprSet exprs({.max_steps = 50'000'000, .max_bytes = 256 << 20});
  const Expr language = exprs.all_of(std::array{texts(exprs, "(?:[a-z][0-9])+"),
                                                texts(exprs, "[^]*(?:(?:c1d3g3).{4,8}){6}[^]*"),
                                                texts(exprs, "[^]*(?:t|8){10}")});
  Dfa dfa(exprs, language);
  Lengths lengths(dfa);
  EXPECT_EQ(lengths.is_live(Dfa::kStart, 100, Lengths::kUnbounded), true);
  EXPECT_TRUE(lengths.is_endless(Dfa::kStart));
  EXPECT_LT(dfa.state_count(), 1'500);  // of some thousands
}

// The loop that is found first says nothing of other lengths.
TEST(Lengths, AreTheSameWhetherALoopIsFoundOrNot) {
  constexpr std::uint64_t kMost = 40;
  for (const std::string_view pattern :
       {"(?:a{4}|b{6}c)*", "a{3}(?:b{5})*|c{12}", "(?:(?:ab)*c){2}d?", "é{2}(?:é.)*x|y{9}",
        "(?:abc|d{5})*e{0,3}f", "a{1,20}", "(?:a(?:b(?:c{7})*){3})*z"}) {
    ExprSet exprs({.max_steps = 10'000'000, .max_bytes = 64 << 20});
    Dfa dfa(exprs, texts(exprs, pattern));
    Lengths lengths(dfa);
    // Which lengths there are, counted text by text.
    std::set<Dfa::State> here{Dfa::kStart};
    for (std::uint64_t length = 0; length <= kMost; ++length) {
      const bool ends = std::ranges::any_of(here, [&](auto at) { return dfa.is_accepting(at); });
      EXPECT_EQ(Lengths(dfa).is_live(Dfa::kStart, length, length), ends) << pattern << length;
      EXPECT_EQ(lengths.is_live(Dfa::kStart, length, length), ends) << pattern << length;
      std::set<Dfa::State> next;
      for (const Dfa::State from : here) {
        for (const std::string_view character :
             {"a", "b", "c", "d", "e", "f", "x", "y", "z", "é"}) {
          Dfa::State to = from;
          for (const char byte : character) to = dfa.step(to, static_cast<std::uint8_t>(byte));
          next.insert(to);
        }
      }
      here = std::move(next);
    }
  }
}

TEST(Lengths, AnAutomatonThatIsTooLargeIsALimit) {
  ExprSet exprs({.max_steps = 50'000'000, .max_bytes = 256 << 20});
  Dfa dfa(exprs, texts(exprs, "[ab]{0,30}a[ab]{12}"));
  Lengths lengths(dfa);
  EXPECT_TRUE(lengths.is_live(Dfa::kStart, 0, 50).value_or(false));
  const auto live = lengths.is_live(Dfa::kStart, 50, 1'000);
  ASSERT_FALSE(live);
  EXPECT_EQ(live.error().code, Errc::limit_exceeded);
}

}  // namespace
}  // namespace tenon::regex
