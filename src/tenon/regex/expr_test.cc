#include "tenon/regex/expr.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/regex/language.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

namespace tenon::regex {
namespace {

constexpr std::uint32_t kUnbounded = ExprSet::kUnbounded;

ExprSet roomy() {
  return ExprSet({.max_steps = 10'000'000, .max_bytes = 64 << 20});
}

bool holds(ExprSet& exprs, Expr expr, std::string_view text) {
  for (const char byte : text) expr = exprs.derivative(expr, static_cast<std::uint8_t>(byte));
  return exprs.is_nullable(expr);
}

// ---- what is the same has the same number -------------------------------------------------------

struct Identity {
  std::string_view name;
  Expr (*one)(ExprSet&);
  Expr (*other)(ExprSet&);
};

Expr x(ExprSet& e) {
  return e.literal("xy");
}
Expr y(ExprSet& e) {
  return e.literal("yx");
}
Expr z_star(ExprSet& e) {
  return e.repeat(e.literal("z"), 0, kUnbounded);
}
Expr z(ExprSet& e) {
  return e.repeat(e.literal("z"), 2, 5);
}

const Identity kIdentities[] = {
    {"ConcatIsAssociative", [](ExprSet& e) { return e.concat(e.concat(x(e), y(e)), z(e)); },
     [](ExprSet& e) { return e.concat(x(e), e.concat(y(e), z(e))); }},
    {"ConcatWithNothing", [](ExprSet& e) { return e.concat(x(e), ExprSet::kNothing); },
     [](ExprSet&) { return ExprSet::kNothing; }},
    {"AnythingBehindWhatCanBeEmpty",
     [](ExprSet& e) {
       return e.concat(x(e), e.concat(e.either(ExprSet::kEpsilon, y(e)), ExprSet::kAnything));
     },
     [](ExprSet& e) { return e.concat(x(e), ExprSet::kAnything); }},
    {"EitherIsSet", [](ExprSet& e) { return e.either(x(e), e.either(y(e), x(e))); },
     [](ExprSet& e) { return e.either(y(e), x(e)); }},
    {"EitherOfBytes",
     [](ExprSet& e) {
       return e.either(e.literal("ab"), e.either(e.literal("cb"), e.literal("bb")));
     },
     [](ExprSet& e) { return e.concat(e.bytes(ByteSet::range('a', 'c')), e.literal("b")); }},
    {"EitherWithEpsilon",
     [](ExprSet& e) { return e.either(e.repeat(x(e), 0, 3), ExprSet::kEpsilon); },
     [](ExprSet& e) { return e.repeat(x(e), 0, 3); }},
    {"EitherFactorsOut",
     [](ExprSet& e) { return e.either(e.concat(z(e), x(e)), e.concat(z(e), y(e))); },
     [](ExprSet& e) { return e.concat(z(e), e.either(x(e), y(e))); }},
    {"EitherJoinsCounts",
     [](ExprSet& e) {
       return e.either(e.concat(e.repeat(x(e), 2, 5), y(e)), e.concat(e.repeat(x(e), 6, 9), y(e)));
     },
     [](ExprSet& e) { return e.concat(e.repeat(x(e), 2, 9), y(e)); }},
    {"EitherJoinsNoCounts",
     [](ExprSet& e) {
       return e.either(e.repeat(x(e), 2, 5), e.concat(e.repeat(x(e), 1, 9), y(e)));
     },
     [](ExprSet& e) {
       return e.either(e.concat(e.repeat(x(e), 1, 9), y(e)), e.repeat(x(e), 2, 5));
     }},
    {"EitherAbsorbs", [](ExprSet& e) { return e.either(x(e), e.both(x(e), z(e))); },
     [](ExprSet& e) { return x(e); }},
    {"EitherOfOpposites", [](ExprSet& e) { return e.either(x(e), e.complement(x(e))); },
     [](ExprSet&) { return ExprSet::kAnything; }},
    {"BothAbsorbs", [](ExprSet& e) { return e.both(x(e), e.either(x(e), z(e))); },
     [](ExprSet& e) { return x(e); }},
    {"BothOfOpposites", [](ExprSet& e) { return e.both(z(e), e.complement(e.either(z(e), x(e)))); },
     [](ExprSet&) { return ExprSet::kNothing; }},
    {"BothWithEpsilon", [](ExprSet& e) { return e.both(x(e), ExprSet::kEpsilon); },
     [](ExprSet&) { return ExprSet::kNothing; }},
    {"BothOfNone", [](ExprSet& e) { return e.all_of({}); },
     [](ExprSet&) { return ExprSet::kAnything; }},
    {"ComplementTwice", [](ExprSet& e) { return e.complement(e.complement(x(e))); },
     [](ExprSet& e) { return x(e); }},
    {"ComplementsJoin", [](ExprSet& e) { return e.both(e.complement(x(e)), e.complement(y(e))); },
     [](ExprSet& e) { return e.complement(e.either(x(e), y(e))); }},
    {"RepeatOnce", [](ExprSet& e) { return e.repeat(x(e), 1, 1); },
     [](ExprSet& e) { return x(e); }},
    {"RepeatNever", [](ExprSet& e) { return e.repeat(x(e), 0, 0); },
     [](ExprSet&) { return ExprSet::kEpsilon; }},
    {"RepeatOfRepeat",
     [](ExprSet& e) { return e.repeat(e.repeat(e.repeat(x(e), 1, 1000), 1, 1000), 3, 1000); },
     [](ExprSet& e) { return e.repeat(x(e), 3, 1'000'000'000); }},
    {"RepeatOfStar", [](ExprSet& e) { return e.repeat(e.repeat(x(e), 0, kUnbounded), 3, 4); },
     [](ExprSet& e) { return e.repeat(x(e), 0, kUnbounded); }},
    {"RepeatBeyondAllTexts",
     [](ExprSet& e) { return e.repeat(e.repeat(x(e), 65'536, 65'536), 65'536, 65'536); },
     [](ExprSet& e) { return e.repeat(x(e), kUnbounded - 1, kUnbounded - 1); }},
    {"RepeatsJoin", [](ExprSet& e) { return e.concat(e.literal("z"), e.concat(z_star(e), x(e))); },
     [](ExprSet& e) { return e.concat(z_star(e), e.literal("zxy")); }},
    {"NonEmptyStar", [](ExprSet& e) { return e.non_empty(e.repeat(x(e), 0, kUnbounded)); },
     [](ExprSet& e) { return e.repeat(x(e), 1, kUnbounded); }},
};

class Identities : public ::testing::TestWithParam<Identity> {};

TEST_P(Identities, HoldByNumber) {
  ExprSet exprs = roomy();
  EXPECT_EQ(GetParam().one(exprs), GetParam().other(exprs));
  EXPECT_TRUE(exprs.status());
}

INSTANTIATE_TEST_SUITE_P(Laws, Identities, ::testing::ValuesIn(kIdentities),
                         [](const auto& test) { return std::string(test.param.name); });

// Counts with a gap between them stay separate.
TEST(ExprSet, RepeatOfRepeatKeepsItsGaps) {
  ExprSet exprs = roomy();
  const Expr pairs = exprs.repeat(exprs.repeat(exprs.literal("a"), 3, 4), 0, 2);
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length < 12; ++length) {
    if (holds(exprs, pairs, std::string(length, 'a'))) lengths.push_back(length);
  }
  EXPECT_EQ(lengths, (std::vector<std::size_t>{0, 3, 4, 6, 7, 8}));
}

// ---- random expressions against their definition ------------------------------------------------

// An expression as the test asks for it, with the texts that it has by definition.
struct Tree {
  char kind = 'e';  // e(psilon), b(ytes), .(concat), |, &, !, r(epeat)
  std::string bytes;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::vector<Tree> parts;

  bool has(std::string_view text) const {
    switch (kind) {
      case 'b':
        return text.size() == 1 && bytes.find(text[0]) != std::string::npos;
      case '.':
        return is_split(text, [&](auto a, auto b) { return parts[0].has(a) && parts[1].has(b); });
      case '|':
        return parts[0].has(text) || parts[1].has(text);
      case '&':
        return parts[0].has(text) && parts[1].has(text);
      case '!':
        return !parts[0].has(text);
      case 'r':
        return has_repeated(text, min, max);
      default:
        return text.empty();
    }
  }

  Expr build(ExprSet& exprs) const {
    ByteSet set;
    switch (kind) {
      case 'b':
        for (const char byte : bytes) set.insert(static_cast<std::uint8_t>(byte));
        return exprs.bytes(set);
      case '.':
        return exprs.concat(parts[0].build(exprs), parts[1].build(exprs));
      case '|':
        return exprs.either(parts[0].build(exprs), parts[1].build(exprs));
      case '&':
        return exprs.both(parts[0].build(exprs), parts[1].build(exprs));
      case '!':
        return exprs.complement(parts[0].build(exprs));
      case 'r':
        return exprs.repeat(parts[0].build(exprs), min, max);
      default:
        return ExprSet::kEpsilon;
    }
  }

 private:
  template <class Halves>
  static bool is_split(std::string_view text, const Halves& halves) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      if (halves(text.substr(0, cut), text.substr(cut))) return true;
    }
    return false;
  }
  // One string first, then the others; empty strings fill up to `least`.
  bool has_repeated(std::string_view text, std::uint32_t least, std::uint32_t most) const {
    if (text.empty()) return least == 0 || parts[0].has("");
    if (most == 0) return false;
    if (least > 0 && parts[0].has("")) least = 0;
    const std::uint32_t fewer = most == kUnbounded ? most : most - 1;
    for (std::size_t cut = 1; cut <= text.size(); ++cut) {
      if (parts[0].has(text.substr(0, cut)) &&
          has_repeated(text.substr(cut), least == 0 ? 0 : least - 1, fewer)) {
        return true;
      }
    }
    return false;
  }
};

Tree random_tree(std::mt19937& random, int depth) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
  if (depth == 0 || below(6) == 0) {
    if (below(8) == 0) return {};
    Tree tree{.kind = 'b'};
    for (const char byte : {'a', 'b', 'c'}) {
      if (below(2) == 0) tree.bytes += byte;
    }
    return tree;
  }
  Tree tree{.kind = "..||&!rr"[below(8)]};
  tree.parts.push_back(random_tree(random, depth - 1));
  if (tree.kind == 'r') {
    tree.min = below(4);
    tree.max = below(3) == 0 ? kUnbounded : tree.min + below(3);
  } else if (tree.kind != '!') {
    tree.parts.push_back(random_tree(random, depth - 1));
  }
  return tree;
}

std::vector<std::string> texts_up_to(std::size_t length) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) break;
    for (const char byte : {'a', 'b', 'c'}) texts.push_back(texts[i] + byte);
  }
  return texts;
}

TEST(ExprSet, DerivativesAgreeWithTheDefinition) {
  std::mt19937 random(1);
  const std::vector<std::string> texts = texts_up_to(4);
  for (int round = 0; round < 400; ++round) {
    const Tree tree = random_tree(random, 4);
    ExprSet exprs = roomy();
    const Expr expr = tree.build(exprs);
    const auto classes = exprs.byte_classes(expr);
    for (const std::string& text : texts) {
      ASSERT_EQ(holds(exprs, expr, text), tree.has(text)) << "round " << round << ": " << text;
    }
    // Bytes of one class have one derivative.
    for (unsigned byte = 1; byte < 256; ++byte) {
      if (classes[byte] != classes[byte - 1]) continue;
      ASSERT_EQ(exprs.derivative(expr, static_cast<std::uint8_t>(byte)),
                exprs.derivative(expr, static_cast<std::uint8_t>(byte - 1)));
    }
    if (!exprs.may_be_nothing(expr)) {
      ASSERT_TRUE(expr != ExprSet::kNothing);
    } else if (std::ranges::any_of(texts, [&](const auto& text) { return tree.has(text); })) {
      ASSERT_NE(expr, ExprSet::kNothing);
    }
    ASSERT_TRUE(exprs.status());
  }
}

// ---- what is known without a walk ---------------------------------------------------------------

struct Known {
  std::string_view name;
  std::string_view pattern;
  std::uint32_t absorbed;
  bool has_text;
};

const Known kKnown[] = {
    {"Segments", "^.{1,20}a.{1,20}b$", 20, true},
    {"SegmentsAreCountedTogether", "^.{2}.{3}a$", 5, true},
    {"TheLargestWayCounts", "^(?:.{3}a|.{7}b)$", 7, true},
    {"WhatMayBeLeftOut", "^a?.{4}b$", 4, true},
    {"CountedGroups", "^(.{1,6}e){3}$", 6, true},
    {"WithoutEnd", "^.*a$", kUnbounded, true},
    {"Anywhere", "a", kUnbounded, true},
    {"OtherCharacters", "^[a-z]{1,20}/$", 0, true},
    {"Literals", "^ab.{0,3}$", 0, true},
    {"Tails", "^[^a]{0,9}[^b]{0,9}.{5}xxxxxxxxxxxxxxxxxxxx$", 5, true},
    {"LooksAhead", "^(?=.*a)(?=.*b).*$", 0, false},
};

// Whether some text over a and b follows.
bool goes_on(ExprSet& exprs, Expr expr) {
  std::vector<Expr> met{expr};
  for (std::size_t i = 0; i < met.size() && i < 2000; ++i) {
    if (exprs.is_nullable(met[i])) return true;
    for (const std::uint8_t byte : {'a', 'b', 'e', '/', 'x'}) {
      const Expr next = exprs.derivative(met[i], byte);
      if (std::ranges::find(met, next) == met.end()) met.push_back(next);
    }
  }
  return false;
}

// All texts of valid UTF-8; tells `exprs` that these are the texts.
Expr every_text(ExprSet& exprs) {
  const Expr any = utf8_spelling(exprs, {{1, 0xD7FF}, {0xE000, 0x10FFFF}});
  const Expr every = exprs.repeat(any, 0, kUnbounded);
  exprs.set_text(every);
  return every;
}

Expr of_pattern(ExprSet& exprs, std::string_view pattern, Extent extent) {
  Budget budget("pattern", {});
  return *language_of(exprs, *parse(pattern, Dialect::ecma262, budget), extent);
}

std::vector<Expr> without_repeats(std::vector<Expr> list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

TEST(ExprSet, KnowsWhichTextsGoOn) {
  for (const Known& row : kKnown) {
    SCOPED_TRACE(row.name);
    ExprSet exprs = roomy();
    const Expr language =
        exprs.both(every_text(exprs), of_pattern(exprs, row.pattern, Extent::part));
    EXPECT_EQ(exprs.absorbed_characters(language), row.absorbed);
    EXPECT_EQ(exprs.has_text(language), row.has_text);
    // Checks the claims on all texts of a, b and x, and on what may follow them.
    std::vector<Expr> level{language};
    for (std::uint32_t length = 0; length <= 5; ++length) {
      std::vector<Expr> next;
      for (const Expr at : level) {
        const bool is_live = goes_on(exprs, at);
        EXPECT_TRUE(is_live || length > row.absorbed) << length;
        EXPECT_TRUE(is_live || !exprs.has_text(at)) << length;
        EXPECT_TRUE(exprs.absorbed_characters(at) == 0 || goes_on(exprs, exprs.derivative(at, 'x')))
            << length;
        for (const std::uint8_t byte : {'a', 'b', 'x'}) next.push_back(exprs.derivative(at, byte));
      }
      level = without_repeats(std::move(next));
    }
  }
}

// For languages of all texts except those that hold a stop: where a text may end, a text without
// any of the signs may follow.
TEST(ExprSet, KnowsTheSignsOfWhatIsLeftOut) {
  struct Row {
    const char* name;
    std::string_view stops;  // a pattern
    std::string_view signs;  // at the beginning
    bool is_known = true;
  };
  const Row rows[] = {
      {"RareByteOfALiteral", "ab<x", "<"},
      {"OneOfTwo", "a<b|x>", "<>"},
      {"WithoutWhatIsOptional", "<?ab", "a"},
      {"Repeated", "x[<>]{2,3}a", "<>"},
      {"Set", "[abx]<*", "abx"},
      {"LastByteBeyondAscii", "<\u00E9", "", false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ExprSet exprs = roomy();
    const Expr every = every_text(exprs);
    const Expr stops = of_pattern(exprs, row.stops, Extent::whole);
    const Expr left_out = exprs.concat(ExprSet::kAnything, exprs.concat(stops, ExprSet::kAnything));
    const Expr language = exprs.both(every, exprs.complement(left_out));
    const auto known = exprs.as_all_but(language);
    ASSERT_EQ(known.has_value(), row.is_known);
    if (!known) continue;
    EXPECT_EQ(known->text, every);
    ByteSet signs;
    for (const char byte : row.signs) signs.insert(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(known->signs, signs);
    std::vector<Expr> level{language};
    for (int length = 0; length <= 4; ++length) {
      std::vector<Expr> next;
      for (const Expr at : level) {
        for (const std::uint8_t byte : {'a', 'b', 'x', '<', '>'}) {
          next.push_back(exprs.derivative(at, byte));
        }
        const auto here = exprs.as_all_but(at);
        if (!here) continue;
        std::vector<Expr> behind{at};
        for (int more = 0; more < 4; ++more) {
          std::vector<Expr> after;
          for (const Expr from : behind) {
            for (const std::uint8_t byte : {'a', 'b', 'x', '<', '>'}) {
              if (!here->signs.contains(byte)) after.push_back(exprs.derivative(from, byte));
            }
          }
          behind = without_repeats(std::move(after));
          for (const Expr each : behind) EXPECT_NE(each, ExprSet::kNothing) << length;
        }
      }
      level = without_repeats(std::move(next));
    }
  }
  ExprSet exprs = roomy();
  EXPECT_FALSE(exprs.as_all_but(exprs.literal("abc")));
}

TEST(ExprSet, KnowsWhatCompletesATextHoweverDeepItIs) {
  ExprSet exprs = roomy();
  const Expr any = exprs.bytes(ByteSet::all());
  Expr deep = exprs.literal("a");
  for (int i = 0; i < 1000; ++i) {
    deep = exprs.either(exprs.concat(deep, exprs.literal("bc")), exprs.literal("dd"));
  }
  EXPECT_EQ(exprs.completion_bound(deep), 2000U);
  EXPECT_EQ(exprs.completion_bound(exprs.concat(exprs.repeat(any, 7, 9), deep)), 2000U);
  EXPECT_EQ(exprs.completion_bound(exprs.repeat(any, 7, 9)), 7U);
  EXPECT_EQ(exprs.completion_bound(exprs.bytes(ByteSet::of(0))), std::nullopt);
  EXPECT_EQ(exprs.completion_bound(exprs.complement(deep)), std::nullopt);
  EXPECT_EQ(exprs.absorbed_characters(exprs.concat(exprs.repeat(any, 7, 9), deep)), 9U);
}

TEST(ExprSet, KnowsWhatHoldsLongTexts) {
  ExprSet exprs = roomy();
  const Expr any = exprs.bytes(ByteSet::range('a', 'z'));
  const Expr every = exprs.repeat(any, 0, kUnbounded);
  exprs.set_text(every);
  const Expr few = exprs.repeat(any, 2, 5);
  const Expr but_few = exprs.both(every, exprs.complement(few));
  EXPECT_TRUE(exprs.holds_long_texts(but_few));
  EXPECT_FALSE(exprs.may_be_nothing(but_few));
  EXPECT_TRUE(exprs.holds_long_texts(exprs.both(but_few, exprs.complement(exprs.literal("ab")))));
  EXPECT_TRUE(exprs.holds_long_texts(exprs.derivative(but_few, 'a')));
  EXPECT_FALSE(exprs.holds_long_texts(few));
  const Expr begins = exprs.concat(exprs.literal("a"), every);
  EXPECT_FALSE(exprs.holds_long_texts(exprs.both(every, exprs.complement(begins))));
}

// ---- limits -------------------------------------------------------------------------------------

TEST(ExprSet, AnswersNothingOnceALimitIsReached) {
  ExprSet exprs({.max_steps = 20});
  const Expr small = exprs.literal("abc");
  ASSERT_TRUE(exprs.status());
  EXPECT_EQ(exprs.literal(std::string(100, 'x')), ExprSet::kNothing);
  ASSERT_FALSE(exprs.status());
  EXPECT_EQ(exprs.status().error(),
            (Error{Errc::limit_exceeded, "regular expression: more than 20 steps"}));
  EXPECT_EQ(exprs.either(small, small), ExprSet::kNothing);
  EXPECT_EQ(exprs.complement(small), ExprSet::kNothing);

  exprs.set_limits({.max_steps = 1000});
  EXPECT_TRUE(holds(exprs, small, "abc"));
}

TEST(ExprSet, BoundsItsBytes) {
  ExprSet exprs({.max_bytes = 10'000});
  EXPECT_EQ(exprs.literal(std::string(1000, 'x')), ExprSet::kNothing);
  ASSERT_FALSE(exprs.status());
  EXPECT_EQ(exprs.status().error().code, Errc::limit_exceeded);
}

TEST(ExprSet, CopiesAreIndependent) {
  ExprSet exprs = roomy();
  const Expr expr = exprs.literal("ab");
  ExprSet copy = exprs;
  const Expr in_copy = copy.literal("in the copy alone");
  const Expr other = exprs.literal("xy");
  EXPECT_TRUE(holds(copy, expr, "ab"));
  EXPECT_TRUE(holds(copy, in_copy, "in the copy alone"));
  EXPECT_TRUE(holds(exprs, other, "xy"));
}

}  // namespace
}  // namespace tenon::regex
