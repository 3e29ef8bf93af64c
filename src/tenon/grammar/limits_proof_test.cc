// The expressions of a pattern may reach their limit anywhere: while the grammar is made, while a
// token is read, in the middle of a mask. Each time that must be an error and not a crash, and must
// not damage what other grammars over the same vocabulary share.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/grammar/json/string_scanner.h"
#include "tenon/grammar/machine/frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/mask_walks.h"
#include "tenon/regex/language.h"
#include "tenon/regex/spelling.h"

namespace tenon::grammar {
namespace {

using Mask = std::vector<std::uint32_t>;

struct Row {
  const char* name;
  std::string_view pattern;
  std::string_view text;  // of a JSON string that begins one of the pattern
};

constexpr Row kRows[] = {
    {"SegmentsBetweenLetters", "^.{1,20}a.{1,20}b.{1,20}c$", "\"hi there"},
    {"SegmentsBetweenSlashes", "^.{3,19}/.{3,19}/.{3,19}$", "\"usr local/b"},
    {"GroupsThatAreCounted", "^(.{1,20}e){3}$", "\"seven eels"},
    {"CountsOfAFewOnly", "^(?:[a-z]{1,9}[- ]?){0,30}$", "\"one two-three"},
    {"CountsOfWords", "^(?:\\S+\\s+){0,12}\\S+$", "\"one two three"},
    {"LooksAhead", "^(?=.{0,9}0)(?=.{0,9}1)(?=.*z).+$", "\"01 and z"},
    {"AnyTextAndAnEnd", "^.*(?:ab|cd)$", "\"x ab"},
};

// The grammar of a JSON string of at most 40 characters with this pattern; its expressions have
// `steps` and `bytes`.
Expected<std::shared_ptr<Grammar>> grammar_of(std::string_view pattern, std::uint64_t steps,
                                              std::uint64_t bytes,
                                              const std::shared_ptr<VocabIndex>& index) {
  const auto build = [=](Machine& machine) -> Expected<FrameId> {
    using regex::ExprSet;
    const auto exprs = std::make_shared<ExprSet>(Limits{.max_steps = steps, .max_bytes = bytes});
    Budget budget("pattern", {});
    const auto syntax = regex::parse(pattern, regex::Dialect::ecma262, budget);
    if (!syntax) return Unexpected(syntax.error());
    const auto language = regex::language_of(*exprs, *syntax, regex::Extent::part);
    if (!language) return Unexpected(language.error());
    StringOptions options;
    options.any_character = regex::utf8_spelling(*exprs, regex::CodePointSet::all());
    options.most = 40;
    options.on_error = [&machine](const Error& error) { machine.fail(error); };
    const regex::Expr any_text = exprs->repeat(options.any_character, 0, ExprSet::kUnbounded);
    const auto scanner = make_string_scanner(exprs, exprs->both(any_text, *language), options);
    return machine.add(
        make_sequence({machine.add(make_literal("\"")), machine.add(make_lexeme(scanner))}));
  };
  return Grammar::make(build, index);
}

/// The masks before each byte of `text` and after it, as far as no limit is reached.
struct LimitsWalked {
  std::vector<Mask> masks;
  bool is_whole = false;
};

LimitsWalked walk(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  LimitsWalked walked;
  Matcher matcher(grammar);
  Mask mask(mask_words(grammar->index().vocab().size()));
  for (std::size_t i = 0;; ++i) {
    const Status filled = matcher.fill_mask(mask);
    if (!filled) {
      EXPECT_EQ(filled.error().code, Errc::limit_exceeded) << filled.error().message;
      return walked;
    }
    walked.masks.push_back(mask);
    if (i == text.size()) break;
    if (!matcher.accept_bytes(text.substr(i, 1))) {
      EXPECT_TRUE(matcher.error()) << "the grammar refuses byte " << i;
      return walked;
    }
  }
  walked.is_whole = true;
  return walked;
}

TEST(LimitsProof, ALimitAnywhereIsAnErrorAndSpoilsNothing) {
  constexpr std::uint64_t kAmple = 50'000'000;
  bool by_bytes_only = proof_seed() % 2 == 1;
  Sample sample(3);
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    if (!sample.takes_next()) continue;
    by_bytes_only = !by_bytes_only;
    const auto apart = bundled_index(TENON_SOURCE_DIR);
    ASSERT_TRUE(apart);
    const auto wanted = grammar_of(row.pattern, kAmple, kAmple, apart);
    ASSERT_TRUE(wanted) << wanted.error().message;
    const LimitsWalked reference = walk(*wanted, row.text);
    ASSERT_TRUE(reference.is_whole);

    for (const bool is_of_bytes : {false, true}) {
      // Each row takes three seconds with sanitizers.
      if (!is_long_test() && is_of_bytes != by_bytes_only) continue;
      const auto shared = bundled_index(TENON_SOURCE_DIR);
      std::uint64_t limit = 100;
      for (bool is_whole = false; !is_whole && limit < kAmple;) {
        const auto grammar = is_of_bytes ? grammar_of(row.pattern, kAmple, limit, shared)
                                         : grammar_of(row.pattern, limit, kAmple, shared);
        limit += limit / (is_long_test() ? 20 : 2);
        if (!grammar) {
          EXPECT_EQ(grammar.error().code, Errc::limit_exceeded) << grammar.error().message;
          continue;
        }
        const LimitsWalked limited = walk(*grammar, row.text);
        is_whole = limited.is_whole;
        for (std::size_t i = 0; i < limited.masks.size(); ++i) {
          ASSERT_EQ(limited.masks[i], reference.masks[i]) << "byte " << i << ", limit " << limit;
        }
        const auto other = grammar_of(row.pattern, kAmple, kAmple, shared);
        ASSERT_TRUE(other);
        ASSERT_EQ(walk(*other, row.text).masks, reference.masks) << "limit " << limit;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::grammar
