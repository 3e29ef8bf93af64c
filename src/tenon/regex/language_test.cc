#include "tenon/regex/language.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/base/utf8.h"
#include "tenon/regex/dfa.h"

namespace tenon::regex {
namespace {

constexpr Limits kLanguageRoomy{.max_steps = 20'000'000, .max_bytes = 256 << 20};

// The definition, place by place: where a piece that begins at a place may end.
class Reference {
 public:
  Reference(const Syntax& syntax, std::u32string_view text) : syntax_(syntax), text_(text) {}

  bool has(Extent extent) const {
    if (extent == Extent::whole) return ends(syntax_.root, 0).contains(text_.size());
    for (std::size_t at = 0; at <= text_.size(); ++at) {
      if (!ends(syntax_.root, at).empty()) return true;
    }
    return false;
  }

 private:
  using Places = std::set<std::size_t>;

  Places ends(NodeId id, std::size_t at) const {
    const Node& node = syntax_.nodes[id];
    const auto here_if = [&](bool holds) { return holds ? Places{at} : Places{}; };
    switch (node.kind) {
      case Node::Kind::set:
        if (at == text_.size() || !syntax_.sets[node.set].contains(text_[at])) return {};
        return {at + 1};
      case Node::Kind::sequence: {
        Places places{at};
        for (const NodeId part : node.parts) places = after(part, places);
        return places;
      }
      case Node::Kind::choice: {
        Places places;
        for (const NodeId part : node.parts) places.merge(ends(part, at));
        return places;
      }
      case Node::Kind::repeat:
        return repeated(node, at);
      case Node::Kind::begin:
        return here_if(at == 0);
      case Node::Kind::end:
        return here_if(at == text_.size());
      case Node::Kind::look:
        return here_if(looks(node, at) != node.is_negative);
      case Node::Kind::atomic:
        break;
    }
    ADD_FAILURE() << "not in this test";
    return {};
  }

  Places after(NodeId part, const Places& places) const {
    Places result;
    for (const std::size_t place : places) result.merge(ends(part, place));
    return result;
  }

  Places repeated(const Node& node, std::size_t at) const {
    Places places{at};
    for (std::uint32_t i = 0; i < node.min; ++i) places = after(node.parts[0], places);
    Places result = places;
    // More optional rounds than there are characters add nothing.
    const auto most = static_cast<std::uint32_t>(text_.size()) + 1;
    for (std::uint32_t i = 0; i < std::min(node.max - node.min, most); ++i) {
      places = after(node.parts[0], places);
      result.insert(places.begin(), places.end());
    }
    return result;
  }

  bool looks(const Node& node, std::size_t at) const {
    if (!node.is_behind) return !ends(node.parts[0], at).empty();
    for (std::size_t from = 0; from <= at; ++from) {
      if (ends(node.parts[0], from).contains(at)) return true;
    }
    return false;
  }

  const Syntax& syntax_;
  std::u32string_view text_;
};

constexpr std::string_view kAtoms[] = {"a", "b", "[^a]", ".", "\\w", "\\s", "é", "[ab]"};
constexpr std::string_view kQuantifiers[] = {"*", "+?", "?", "{2}", "{1,3}", "{0,2}"};
constexpr std::string_view kLooks[] = {"(?=", "(?!", "(?<=", "(?<!"};

class RandomPattern {
 public:
  explicit RandomPattern(unsigned seed) : random_(seed) {}

  std::string make(int depth, bool is_behind = false) {
    std::string pattern;
    for (std::uint32_t i = 0, terms = 1 + below(3); i < terms; ++i) {
      const std::string part = term(depth, is_behind);
      for (std::uint32_t times = below(8) == 0 ? 5 : 1; times > 0; --times) pattern += part;
    }
    if (below(4) == 0) pattern += "|" + term(depth, is_behind);
    return pattern;
  }

  std::u32string text() {
    std::u32string text;
    for (std::uint32_t i = below(7); i > 0; --i) text += U"aab\n é"[below(6)];
    return text;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }

  std::string term(int depth, bool is_behind) {
    if (depth == 0 || below(3) == 0) return std::string(kAtoms[below(8)]);
    const std::uint32_t kind = below(10);
    if (kind < 2) return "(" + make(depth - 1, is_behind) + ")";
    if (kind < 6) {
      return "(?:" + make(depth - 1, is_behind) + ")" + std::string(kQuantifiers[below(6)]);
    }
    if (kind == 6) return "^";
    if (is_behind) return "(?<=" + make(depth - 1, true) + ")";
    if (kind == 7) return below(2) == 0 ? "$" : "(?m:^|$)";
    if (kind == 8) return below(2) == 0 ? "\\b" : "\\B";
    const std::uint32_t look = below(4);
    return std::string(kLooks[look]) + make(depth - 1, look >= 2) + ")";
  }

  std::mt19937 random_;
};

std::string in_utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) utf8::append(result, c);
  return result;
}

TEST(LanguageOf, RandomPatternsIsTheDefinition) {
  int matches = 0;
  const unsigned patterns = is_long_test() ? 5000 : 200;
  for (unsigned seed = 1; seed <= patterns; ++seed) {
    RandomPattern random(seed);
    const std::string pattern = random.make(3);
    SCOPED_TRACE(pattern);
    Budget budget("pattern", kLanguageRoomy);
    const Expected<Syntax> syntax = parse(pattern, Dialect::ecma262, budget);
    ASSERT_TRUE(syntax) << syntax.error().message;
    for (const Extent extent : {Extent::part, Extent::whole}) {
      ExprSet exprs(kLanguageRoomy);
      const Expected<Expr> language = language_of(exprs, *syntax, extent);
      ASSERT_TRUE(language) << language.error().message;
      Dfa dfa(exprs, *language);
      for (int i = 0; i < 20; ++i) {
        const std::u32string text = random.text();
        Dfa::State state = Dfa::kStart;
        for (const char byte : in_utf8(text))
          state = dfa.step(state, static_cast<std::uint8_t>(byte));
        ASSERT_NE(state, Dfa::kFailed);
        const bool expected = Reference(*syntax, text).has(extent);
        ASSERT_EQ(dfa.is_accepting(state), expected) << testing::PrintToString(in_utf8(text));
        matches += expected ? 1 : 0;
      }
    }
  }
  // The test would prove little if nearly nothing matched.
  EXPECT_GT(matches, 5 * static_cast<int>(patterns));
}

// A translation that a spent budget cuts short must leave nothing wrong for the next one.
TEST(LanguageOf, StaysRightWhereLimitsAreReachedOnTheWay) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    RandomPattern random(seed);
    const std::string pattern = random.make(3);
    SCOPED_TRACE(pattern);
    Budget budget("pattern", kLanguageRoomy);
    const Expected<Syntax> syntax = parse(pattern, Dialect::ecma262, budget);
    ASSERT_TRUE(syntax);
    ExprSet exprs(kLanguageRoomy);
    const Expected<Expr> language = language_of(exprs, *syntax, Extent::part);
    ASSERT_TRUE(language);
    Dfa dfa(exprs, *language);
    for (int i = 0; i < 20; ++i) {
      const std::u32string text = random.text();
      Dfa::State state = Dfa::kStart;
      for (const char byte : in_utf8(text)) {
        Dfa::State next = Dfa::kFailed;
        for (std::uint64_t steps = 1; next == Dfa::kFailed; steps *= 2) {
          exprs.set_limits({.max_steps = steps});
          next = dfa.step(state, static_cast<std::uint8_t>(byte));
        }
        state = next;
      }
      ASSERT_EQ(dfa.is_accepting(state), Reference(*syntax, text).has(Extent::part))
          << testing::PrintToString(in_utf8(text));
    }
  }
}

// ---- other spellings ----------------------------------------------------------------------------

// The inside of a JSON string: characters that must be escaped are, in one of two ways; "a" may be.
Expr json_spelling(ExprSet& exprs, const CodePointSet& set) {
  const CodePointSet raw = CodePointSet{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, CodePointSet::kLast}};
  std::vector<Expr> ways{utf8_spelling(exprs, set.intersected(raw))};
  const auto add = [&](char32_t c, std::string_view spelled) {
    if (set.contains(c)) ways.push_back(exprs.literal(spelled));
  };
  add('\n', "\\n");
  add('\n', "\\u000a");
  add('"', "\\\"");
  add('"', "\\u0022");
  add('\\', "\\\\");
  add('a', "\\u0061");
  return exprs.any_of(ways);
}

struct Spelled {
  std::string_view name;
  std::string_view pattern;
  std::vector<std::string_view> members;
  std::vector<std::string_view> others;  // all correctly encoded
};

const Spelled kSpelled[] = {
    {"CharactersInEachWay", "^[a\n]+$", {"a", R"(\n\u000a)", R"(\u0061a)"}, {"", "b", R"(\")"}},
    {"WhatLooksLikeAnEscape", "^\\\\n$", {R"(\\n)"}, {R"(\n)", "n"}},
    {"PartOfTheText", "n", {"n", R"(\nn)"}, {R"(\n)", R"(\u000a)", R"(\\\n)"}},
    {"NegatedClass", "^[^a]$", {"b", R"(\")", R"(\n)"}, {"a", R"(\u0061)", ""}},
    {"LookAhead", "^(?!a).", {"ba", R"(\"a)"}, {"ab", R"(\u0061)", R"(\n)"}},
    {"LookBehind", "(?<!a)b", {"b", R"(a\nb)"}, {"ab", R"(\u0061b)"}},
    {"Length", "^.{2}$", {"ab", R"(\"\\)", R"(\u0061b)"}, {"a", R"(\")", "abc"}},
};

class Spellings : public ::testing::TestWithParam<Spelled> {};

TEST_P(Spellings, AreOfTheSameTexts) {
  Budget budget("pattern", kLanguageRoomy);
  const Expected<Syntax> syntax = parse(GetParam().pattern, Dialect::ecma262, budget);
  ASSERT_TRUE(syntax);
  ExprSet exprs(kLanguageRoomy);
  const Expected<Expr> language = language_of(exprs, *syntax, Extent::part, json_spelling);
  ASSERT_TRUE(language);
  Dfa dfa(exprs, *language);
  const auto accepts = [&](std::string_view text) {
    Dfa::State state = Dfa::kStart;
    for (const char byte : text) state = dfa.step(state, static_cast<std::uint8_t>(byte));
    return dfa.is_accepting(state);
  };
  for (const std::string_view text : GetParam().members) EXPECT_TRUE(accepts(text)) << text;
  for (const std::string_view text : GetParam().others) EXPECT_FALSE(accepts(text)) << text;
}

INSTANTIATE_TEST_SUITE_P(InJson, Spellings, ::testing::ValuesIn(kSpelled),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Utf8Spelling, IsUtf8ForEachBoundary) {
  const std::vector<CodePointSet::Range> ranges[] = {
      {{0, CodePointSet::kLast}},
      {{0x7F, 0x80}, {0x7FF, 0x800}, {0xFFF, 0x1000}, {0xD000, 0xE000}, {0xFFFF, 0x10000}},
      {{0x40, 0x3FFFF}, {0x41000, 0x41FFF}, {0x10FFFE, 0x10FFFF}},
      {{0x100, 0x13F}, {0x141, 0x17F}, {0x1000, 0x1FFF}, {0x2001, 0x203F}},
  };
  for (const auto& list : ranges) {
    const CodePointSet set(list);
    ExprSet exprs(kLanguageRoomy);
    const Expr expr = utf8_spelling(exprs, set);
    for (char32_t c = 0; c <= CodePointSet::kLast; c += c < 0x3000 ? 1 : 0x3F) {
      if (c >= 0xD800 && c < 0xE000) continue;
      Expr rest = expr;
      std::string spelled;
      utf8::append(spelled, c);
      for (const char byte : spelled)
        rest = exprs.derivative(rest, static_cast<std::uint8_t>(byte));
      ASSERT_EQ(exprs.is_nullable(rest), set.contains(c)) << static_cast<std::uint32_t>(c);
    }
    // A surrogate, an overlong form, too large a code point.
    for (const std::string_view wrong : {"\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
      Expr rest = expr;
      for (const char byte : wrong) rest = exprs.derivative(rest, static_cast<std::uint8_t>(byte));
      EXPECT_EQ(rest, ExprSet::kNothing);
    }
  }
}

}  // namespace
}  // namespace tenon::regex
