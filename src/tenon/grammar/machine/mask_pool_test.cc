#include "tenon/grammar/machine/mask_pool.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/machine/frames.h"

namespace tenon::grammar {
namespace {

using vocab::Token;
using vocab::TokenId;

// The bytes, some longer texts and an end token.
std::shared_ptr<const vocab::Vocab> pool_vocab() {
  std::vector<Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  for (const char* text : {"aa", "aaa", "bb", "bbbb", "cc", "a.", "bb."}) tokens.push_back({text});
  tokens.push_back({"<|end|>", Token::Kind::control});
  const TokenId end = static_cast<TokenId>(tokens.size()) - 1;
  return *vocab::Vocab::make(std::move(tokens), {end});
}

// Up to six times the letter, then a point.
std::shared_ptr<Grammar> letters(char letter, const std::shared_ptr<VocabIndex>& index,
                                 const MachineLimits& limits = {}) {
  auto machine = std::make_unique<Machine>(limits);
  const FrameId one = machine->add(make_literal(std::string(1, letter)));
  const FrameId root = machine->add(
      make_sequence({machine->add(make_repeat(one, 0, 6)), machine->add(make_literal("."))}));
  auto grammar = Grammar::make(std::move(machine), root, index);
  EXPECT_TRUE(grammar) << grammar.error().message;
  return *grammar;
}

// Texts of several grammars, in an order that mixes them, and what is asked for each of them.
struct Batch {
  explicit Batch(const std::vector<std::shared_ptr<Grammar>>& grammars, std::size_t texts) {
    for (std::size_t i = 0; i < texts; ++i) {
      matchers.emplace_back(grammars[i % grammars.size()]);
      const char letter = static_cast<char>('a' + i % grammars.size());
      EXPECT_TRUE(matchers.back().accept_bytes(std::string(i / grammars.size() % 7, letter)));
    }
    masks.assign(texts, std::vector<std::uint32_t>(9, 0xffffffffU));
    for (std::size_t i = 0; i < texts; ++i) rows.push_back({&matchers[i], masks[i], {}});
  }
  std::vector<Matcher> matchers;
  std::vector<std::vector<std::uint32_t>> masks;
  std::vector<MaskRow> rows;
};

void expect_as_one_by_one(Batch& batch) {
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    std::vector<std::uint32_t> alone(9);
    Matcher fork = batch.matchers[i];
    ASSERT_TRUE(fork.fill_mask(alone));
    EXPECT_TRUE(batch.rows[i].status);
    EXPECT_EQ(batch.masks[i], alone) << i;
  }
}

TEST(MaskPool, MasksOfABatchAreThoseOfEachText) {
  for (const std::size_t threads : {0U, 1U, 4U}) {
    const auto index = std::make_shared<VocabIndex>(pool_vocab());
    MaskPool pool(threads);
    for (const std::size_t count : {1U, 3U, 5U}) {
      std::vector<std::shared_ptr<Grammar>> grammars;
      for (std::size_t i = 0; i < count; ++i) {
        grammars.push_back(letters(static_cast<char>('a' + i), index));
      }
      for (const std::size_t texts : {0U, 1U, 2U, 40U}) {
        Batch batch(grammars, texts);
        for (int again = 0; again < 3; ++again) pool.fill_masks(batch.rows);
        expect_as_one_by_one(batch);
      }
    }
  }
}

// The grammars are shared by the batches, so that their threads meet in them.
TEST(MaskPool, SeveralThreadsMayHandInBatches) {
  const auto index = std::make_shared<VocabIndex>(pool_vocab());
  std::vector<std::shared_ptr<Grammar>> grammars;
  for (const char letter : {'a', 'b', 'c', 'd'}) grammars.push_back(letters(letter, index));
  MaskPool shared(2);
  std::vector<std::thread> engines;
  for (int i = 0; i < 4; ++i) {
    engines.emplace_back([&, i] {
      MaskPool own(1);
      Batch batch(grammars, 24);
      for (int token = 0; token < 30; ++token) {
        (i % 2 == 0 ? shared : own).fill_masks(batch.rows);
        for (Matcher& matcher : batch.matchers) {
          if (matcher.accept('.')) matcher.rollback(1);
        }
      }
      expect_as_one_by_one(batch);
    });
  }
  for (std::thread& engine : engines) engine.join();
}

TEST(MaskPool, ARowThatFailsLeavesTheOthersAlone) {
  const auto index = std::make_shared<VocabIndex>(pool_vocab());
  MachineLimits none;
  none.max_text_steps = 0;
  none.steps_per_byte = 0;
  MaskPool pool(2);
  Batch batch({letters('a', index), letters('b', index), letters('c', index, none)}, 9);
  pool.fill_masks(batch.rows);
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    // Rows 5 and 8 have read a c, which is more than that grammar allows.
    const bool fails = i == 5 || i == 8;
    EXPECT_EQ(batch.rows[i].status.has_value(), !fails) << i;
    if (!fails) continue;
    EXPECT_EQ(batch.rows[i].status.error().code, Errc::limit_exceeded);
    EXPECT_EQ(batch.masks[i], std::vector<std::uint32_t>(9, 0U));
  }
}

TEST(MaskPool, ATextThatHasEndedHasAnEmptyMask) {
  const auto index = std::make_shared<VocabIndex>(pool_vocab());
  MaskPool pool(1);
  Batch batch({letters('a', index), letters('b', index)}, 4);
  ASSERT_TRUE(batch.matchers[1].accept_bytes("."));
  ASSERT_TRUE(batch.matchers[1].accept(index->vocab().ends()[0]));
  pool.fill_masks(batch.rows);
  EXPECT_EQ(batch.masks[1], std::vector<std::uint32_t>(9, 0U));
  expect_as_one_by_one(batch);
}

}  // namespace
}  // namespace tenon::grammar
