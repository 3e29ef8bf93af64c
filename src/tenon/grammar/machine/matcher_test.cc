#include "tenon/grammar/machine/matcher.h"

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/machine/frames.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::grammar {
namespace {

using vocab::Token;
using vocab::TokenId;

// All bytes, many short texts over the letters of the grammars below, and an end token.
std::shared_ptr<const vocab::Vocab> small_vocab() {
  std::vector<Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  std::mt19937 random(7);
  for (int i = 0; i < 600; ++i) {
    std::string text(2 + random() % 4, ' ');
    for (char& c : text) c = "ab01+()\"x, "[random() % 11];
    tokens.push_back({text});
  }
  tokens.push_back({"<|end|>", Token::Kind::control});
  tokens.push_back({"<|other|>", Token::Kind::control});
  const TokenId end = static_cast<TokenId>(tokens.size()) - 2;
  return *vocab::Vocab::make(std::move(tokens), {end});
}

// Quoted text of a, b and spaces, at most six characters, as a scanner: 0 before the opening quote,
// 1 + n after n characters, 8 at the end.
class QuotedScanner final : public Scanner {
 public:
  QuotedScanner() {
    classes_.of.fill(vocab::ByteClasses::kNone);
    for (const char c : {'a', 'b', ' '}) classes_.of[static_cast<unsigned char>(c)] = 0;
    classes_.of['"'] = 1;
    classes_.count = 2;
  }
  State start() override { return 0; }
  State step(State state, std::uint8_t byte) override {
    if (state == 0) return byte == '"' ? 1 : kDead;
    if (state == 8) return kDead;
    if (byte == '"') return 8;
    return state < 7 && (byte == 'a' || byte == 'b' || byte == ' ') ? state + 1 : kDead;
  }
  bool is_accepting(State state) const override { return state == 8; }
  bool is_final(State state) const override { return state == 8; }
  std::optional<vocab::ByteClasses> classes(State) override { return classes_; }

 private:
  vocab::ByteClasses classes_;
};

regex::ByteSet set_of(std::string_view bytes) {
  regex::ByteSet set;
  for (const char c : bytes) set.insert(static_cast<unsigned char>(c));
  return set;
}

struct Built {
  std::unique_ptr<Machine> machine = std::make_unique<Machine>();
  FrameId root = 0;
  FrameId add(std::unique_ptr<Frame> frame) { return machine->add(std::move(frame)); }
};

// sum ::= term ("+" term)*,  term ::= [01]{1,3} | "(" sum ")"
Built sums() {
  Built b;
  const FrameId sum = b.machine->reserve();
  const FrameId digits = b.add(make_repeat(b.add(make_byte(set_of("01"))), 1, 3));
  const FrameId nested =
      b.add(make_sequence({b.add(make_literal("(")), sum, b.add(make_literal(")"))}));
  const FrameId term = b.add(make_choice({digits, nested}));
  const FrameId more = b.add(make_sequence({b.add(make_literal("+")), term}));
  b.machine->set(sum, make_sequence({term, b.add(make_repeat(more, 0, kNoMaximum))}));
  b.root = sum;
  return b;
}

// list ::= (quoted ", ")* quoted?, where the body of the repetition is a choice with an empty
// alternative.
Built lists() {
  Built b;
  const FrameId quoted = b.add(make_lexeme(std::make_shared<QuotedScanner>()));
  const FrameId item = b.add(make_sequence({quoted, b.add(make_literal(", "))}));
  const FrameId maybe = b.add(make_choice({item, b.add(make_literal(""))}));
  const FrameId items = b.add(make_repeat(maybe, 0, kNoMaximum));
  b.root = b.add(make_sequence({items, b.add(make_repeat(quoted, 0, 1))}));
  return b;
}

// Two ways to read the same prefixes: "a" "b"* "a"  and  "ab" "x".
Built ambiguous() {
  Built b;
  const FrameId a = b.add(make_literal("a"));
  const FrameId bs = b.add(make_repeat(b.add(make_literal("b")), 0, kNoMaximum));
  b.root = b.add(make_choice({b.add(make_sequence({a, bs, a})), b.add(make_literal("abx"))}));
  return b;
}

// (control "a")*, then perhaps the end token as a part of the text and any token except a control
// token; or "x1" by bytes.
Built controls() {
  Built b;
  const TokenId end = 256 + 600;
  const auto token = [&](std::vector<TokenId> ids) {
    return b.add(make_token(TokenSet(ids, mask_words(256 + 602))));
  };
  std::vector<TokenId> texts;
  for (TokenId id = 0; id < end; ++id) texts.push_back(id);
  const FrameId a = b.add(make_literal("a"));
  const FrameId marked = b.add(make_sequence({token({end + 1}), a}));
  const FrameId rest = b.add(
      make_choice({b.add(make_sequence({token({end}), token(texts)})), b.add(make_literal("x1"))}));
  b.root = b.add(
      make_sequence({b.add(make_repeat(marked, 0, kNoMaximum)), b.add(make_repeat(rest, 0, 1))}));
  return b;
}

// A token read as a whole beside the same bytes: "ab" "1", or one token and "0".
Built whole_or_bytes() {
  Built b;
  std::vector<TokenId> texts;
  for (TokenId id = 100; id < 500; ++id) texts.push_back(id);
  const FrameId whole = b.add(make_token(TokenSet(texts, mask_words(256 + 602))));
  b.root = b.add(make_choice(
      {b.add(make_sequence({whole, b.add(make_literal("0"))})), b.add(make_literal("ab1"))}));
  return b;
}

constexpr std::array kBuilders{sums, lists, ambiguous, controls, whole_or_bytes};

std::shared_ptr<Grammar> matcher_grammar_of(Built built,
                                            std::shared_ptr<const vocab::Vocab> vocab) {
  auto grammar = Grammar::make(std::move(built.machine), built.root,
                               std::make_shared<VocabIndex>(std::move(vocab)));
  EXPECT_TRUE(grammar) << grammar.error().message;
  return *grammar;
}

std::vector<TokenId> allowed(Matcher& matcher, std::size_t vocab_size) {
  std::vector<std::uint32_t> mask(mask_words(vocab_size));
  const Status filled = matcher.fill_mask(mask);
  EXPECT_TRUE(filled) << filled.error().message;
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < mask.size() * 32; ++i) {
    if ((mask[i / 32] >> i % 32 & 1U) != 0) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

TEST(Matcher, AcceptsTheLanguage) {
  struct Row {
    const char* name;
    Built (*build)();
    std::string_view text;
    bool accepted;
  };
  const Row rows[] = {
      {"OneTerm", sums, "101", true},
      {"TooManyDigits", sums, "1010", false},
      {"Nested", sums, "((1)+0)+(1+1)", true},
      {"Unbalanced", sums, "((1)", false},
      {"EmptyList", lists, "", true},
      {"List", lists, "\"a b\", \"\", \"bbbbbb\"", true},
      {"TrailingSeparator", lists, "\"a\", ", true},
      {"SevenCharacters", lists, "\"aaaaaaa\"", false},
      {"FirstReading", ambiguous, "abba", true},
      {"SecondReading", ambiguous, "abx", true},
      {"NeitherReading", ambiguous, "abbx", false},
  };
  const auto vocab = small_vocab();
  for (const Row& row : rows) {
    Matcher matcher(matcher_grammar_of(row.build(), vocab));
    EXPECT_EQ(matcher.accept_bytes(row.text) && matcher.is_accepting(), row.accepted) << row.name;
  }
}

TEST(Matcher, MaskIsWhatCanBeAccepted) {
  const auto vocab = small_vocab();
  for (const auto build : kBuilders) {
    const auto grammar = matcher_grammar_of(build(), vocab);
    std::mt19937 random(3);
    for (int walk = 0; walk < 20; ++walk) {
      Matcher matcher(grammar);
      for (int step = 0; step < 30 && !matcher.is_finished(); ++step) {
        std::vector<TokenId> wanted;
        for (TokenId id = 0; std::cmp_less(id, vocab->size()); ++id) {
          Matcher fork = matcher;
          if (fork.accept(id)) wanted.push_back(id);
        }
        const std::vector<TokenId> got = allowed(matcher, vocab->size());
        ASSERT_EQ(got, wanted);
        ASSERT_FALSE(got.empty());
        ASSERT_TRUE(matcher.accept(got[random() % got.size()]));
      }
    }
  }
}

TEST(Matcher, RollbackIsExact) {
  const auto vocab = small_vocab();
  for (const auto build : kBuilders) {
    Matcher matcher(matcher_grammar_of(build(), vocab));
    std::vector<std::vector<TokenId>> masks{allowed(matcher, vocab->size())};
    std::mt19937 random(5);
    for (int step = 0; step < 200; ++step) {
      if (!masks.back().empty() && random() % 3 != 0) {
        ASSERT_TRUE(matcher.accept(masks.back()[random() % masks.back().size()]));
        masks.push_back(allowed(matcher, vocab->size()));
      } else {
        const std::size_t count = random() % masks.size();
        matcher.rollback(count);
        masks.resize(masks.size() - count);
        ASSERT_EQ(allowed(matcher, vocab->size()), masks.back());
      }
    }
  }
}

TEST(Matcher, RefusalChangesNothing) {
  const auto vocab = small_vocab();
  Matcher matcher(matcher_grammar_of(sums(), vocab));
  ASSERT_TRUE(matcher.accept('1'));
  for (const TokenId id : {TokenId{'x'}, TokenId{-1}, static_cast<TokenId>(vocab->size()),
                           static_cast<TokenId>(vocab->size()) - 1}) {
    EXPECT_FALSE(matcher.accept(id)) << id;
  }
  EXPECT_FALSE(matcher.accept_bytes("+)"));
  EXPECT_EQ(matcher.accepted_count(), 1U);
  EXPECT_TRUE(matcher.accept_bytes("+1"));
}

TEST(Matcher, EndTokenEnds) {
  const auto vocab = small_vocab();
  const TokenId end = vocab->ends()[0];
  Matcher matcher(matcher_grammar_of(sums(), vocab));
  EXPECT_FALSE(matcher.accept(end));
  ASSERT_TRUE(matcher.accept('1'));
  ASSERT_TRUE(matcher.accept(end));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_TRUE(allowed(matcher, vocab->size()).empty());
  EXPECT_FALSE(matcher.accept('1'));
  matcher.rollback(1);
  EXPECT_TRUE(matcher.accept('1'));
}

TEST(Matcher, AnEndTokenThatTheGrammarWaitsForIsReadByIt) {
  const auto vocab = small_vocab();
  const TokenId end = vocab->ends()[0];
  Matcher matcher(matcher_grammar_of(controls(), vocab));
  ASSERT_TRUE(matcher.is_accepting());
  ASSERT_TRUE(matcher.accept(end));
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_FALSE(matcher.is_accepting());
  EXPECT_FALSE(matcher.accept(end));
  ASSERT_TRUE(matcher.accept('x'));
  ASSERT_TRUE(matcher.accept(end));
  EXPECT_TRUE(matcher.is_finished());
}

TEST(Matcher, ATokenIsReadAsAWholeAndByItsBytes) {
  const auto vocab = small_vocab();
  Matcher matcher(matcher_grammar_of(whole_or_bytes(), vocab));
  ASSERT_TRUE(matcher.accept('a'));  // it is not one of the whole tokens
  EXPECT_FALSE(matcher.accept('0'));
  matcher.rollback(1);
  EXPECT_EQ(matcher.forced_bytes(10), "");
  ASSERT_TRUE(matcher.accept('d'));
  EXPECT_EQ(matcher.forced_bytes(10), "0");
}

TEST(Matcher, DraftsAreJudgedWithoutBeingAccepted) {
  Matcher matcher(matcher_grammar_of(sums(), small_vocab()));
  const std::vector<TokenId> draft{'1', '+', '(', ')', '1'};
  EXPECT_EQ(matcher.validate_draft(draft), 3U);
  EXPECT_EQ(matcher.accepted_count(), 0U);
}

// A tree of nodes whose tokens are allowed or not, an end token among them.
struct GuessedTree {
  std::vector<TokenId> tokens{0};
  std::vector<std::int32_t> parents{-1};
};
GuessedTree guess(Matcher matcher, std::size_t vocab_size, std::mt19937& random) {
  GuessedTree tree;
  std::vector<Matcher> at{std::move(matcher)};
  while (tree.tokens.size() < 12) {
    const std::size_t parent = random() % at.size();
    std::vector<TokenId> may = allowed(at[parent], vocab_size);
    const bool is_wild = may.empty() || random() % 4 == 0;
    const auto token =
        is_wild ? static_cast<TokenId>(random() % vocab_size) : may[random() % may.size()];
    at.push_back(at[parent]);
    (void)at.back().accept(
        token);  // where it cannot come, its children are guessed as its siblings
    tree.tokens.push_back(token);
    tree.parents.push_back(static_cast<std::int32_t>(parent));
  }
  return tree;
}

TEST(Matcher, MasksOfADraftTreeAreThoseOfItsPaths) {
  const auto vocab = small_vocab();
  const std::size_t words = mask_words(vocab->size());
  const std::size_t row_words = words + 2;
  for (const auto build : kBuilders) {
    Matcher matcher(matcher_grammar_of(build(), vocab));
    std::mt19937 random(11);
    for (int round = 0; round < 40; ++round) {
      const GuessedTree tree = guess(matcher, vocab->size(), random);
      const std::size_t accepted = matcher.accepted_count();
      std::vector<std::uint32_t> masks(tree.tokens.size() * row_words, 0xffffffffU);
      const auto reached = matcher.fill_draft_masks({tree.tokens, tree.parents}, masks, row_words);
      ASSERT_TRUE(reached) << reached.error().message;
      EXPECT_EQ(matcher.accepted_count(), accepted);
      std::size_t can_come = 0;
      for (std::size_t node = 0; node < tree.tokens.size(); ++node) {
        std::vector<TokenId> path;
        for (std::size_t at = node; at != 0; at = static_cast<std::size_t>(tree.parents[at])) {
          path.insert(path.begin(), tree.tokens[at]);
        }
        Matcher fork = matcher;
        std::vector<std::uint32_t> wanted(row_words);
        if (std::ranges::all_of(path, [&](TokenId token) { return fork.accept(token); })) {
          ++can_come;
          ASSERT_TRUE(fork.fill_mask(std::span(wanted).first(words)));
        }
        const std::span row = std::span(masks).subspan(node * row_words, row_words);
        ASSERT_EQ(std::vector(row.begin(), row.end()), wanted) << node;
      }
      EXPECT_EQ(*reached, can_come);
      const auto next = allowed(matcher, vocab->size());
      if (!matcher.accept(next[random() % next.size()]) || matcher.is_finished()) {
        matcher.rollback(matcher.accepted_count());
      }
    }
  }
}

TEST(Matcher, WhatIsNoDraftTreeChangesNothing) {
  const auto vocab = small_vocab();
  Matcher matcher(matcher_grammar_of(sums(), vocab));
  const std::vector<TokenId> tokens{0, '1', '+'};
  const std::vector<std::int32_t> circle{-1, 2, 1};
  std::vector<std::uint32_t> masks(3 * mask_words(vocab->size()), 0xffffffffU);
  const auto reached = matcher.fill_draft_masks({tokens, circle}, masks, mask_words(vocab->size()));
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().code, Errc::invalid);
  EXPECT_TRUE(std::ranges::all_of(masks, [](std::uint32_t word) { return word == 0; }));
  EXPECT_EQ(matcher.accepted_count(), 0U);
}

TEST(Matcher, ForcedBytes) {
  Matcher matcher(matcher_grammar_of(ambiguous(), small_vocab()));
  EXPECT_EQ(matcher.forced_bytes(10), "a");
  ASSERT_TRUE(matcher.accept_bytes("abx"));
  EXPECT_EQ(matcher.forced_bytes(10), "");
}

TEST(Matcher, ATokenThatMustComeAsAWholeIsForced) {
  Built b;
  const auto token = [&](std::vector<TokenId> ids) {
    return b.add(make_token(TokenSet(ids, mask_words(256 + 602))));
  };
  const FrameId one = token({300});
  const FrameId two = token({300, 301});
  b.root = b.add(make_sequence({one, two, b.add(make_literal("a")), one}));
  const vocab::ByteTokenizer bytes;
  Matcher matcher(matcher_grammar_of(std::move(b), small_vocab()));
  const auto forced = [&] { return *matcher.forced_tokens(bytes, 10); };
  EXPECT_EQ(forced(), std::vector<TokenId>{300});
  ASSERT_TRUE(matcher.accept(300));
  EXPECT_EQ(forced(), std::vector<TokenId>{});
  ASSERT_TRUE(matcher.accept(301) && matcher.accept('a'));
  EXPECT_EQ(forced(), std::vector<TokenId>{300});
}

TEST(Matcher, IsCompleteWhereNothingButTheEndCanCome) {
  const auto vocab = small_vocab();
  Matcher sum(matcher_grammar_of(sums(), vocab));
  ASSERT_TRUE(sum.accept('1'));
  EXPECT_TRUE(sum.is_accepting());
  EXPECT_FALSE(sum.is_complete());
  Matcher marked(matcher_grammar_of(controls(), vocab));
  EXPECT_FALSE(marked.is_complete());
  ASSERT_TRUE(marked.accept(vocab->ends()[0]) && marked.accept('x'));
  EXPECT_TRUE(marked.is_complete());
  ASSERT_TRUE(marked.accept(vocab->ends()[0]));
  EXPECT_FALSE(marked.is_complete());
}

TEST(Grammar, WithoutASentence) {
  Built b;
  b.root = b.add(make_choice({}));
  const auto grammar =
      Grammar::make(std::move(b.machine), b.root, std::make_shared<VocabIndex>(small_vocab()));
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, Errc::unsatisfiable);
}

TEST(Grammar, ARuleThatBeginsWithItselfIsNoHang) {
  Built b;
  const FrameId rule = b.machine->reserve();
  b.machine->set(rule, make_choice({b.add(make_sequence({rule, b.add(make_literal("x"))})),
                                    b.add(make_literal("x"))}));
  const auto grammar =
      Grammar::make(std::move(b.machine), rule, std::make_shared<VocabIndex>(small_vocab()));
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, Errc::limit_exceeded);
}

}  // namespace
}  // namespace tenon::grammar
