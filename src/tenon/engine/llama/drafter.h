#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

using vocab::TokenId;

/// Guesses how one answer goes on: as the text went on where its last two tokens stood before, in
/// the prompt or in the answer (prompt lookup decoding, github.com/apoorvumang/prompt-lookup-
/// decoding). Calls repeat what is in front of them: names and keys of earlier calls, values of the
/// question.
///
/// How many tokens it guesses follows what became of the guesses before: one more than came true of
/// the last, twice as many where all did.
class Drafter {
 public:
  static constexpr std::size_t kMost = 8;

  /// Puts the tokens that may follow `tokens`, at most `most` and kMost, into `draft`; none where
  /// the last two are new. `tokens` is what it was in the last call, and more. Memory: 8 to 16
  /// bytes for each token.
  void guess(std::span<const TokenId> tokens, std::size_t most, std::vector<TokenId>& draft);
  /// Of a guess of `drafted` tokens, `accepted` came true.
  void learn(std::size_t drafted, std::size_t accepted);
  /// The share of guessed tokens that may be hoped to come true, smoothed.
  [[nodiscard]] double hope() const { return hope_; }
  /// A token came without a guess: what is known of them is a little older.
  void forget();

 private:
  void note(std::span<const TokenId> tokens);
  void grow(std::span<const TokenId> tokens);
  std::size_t place_of(TokenId first, TokenId second) const;

  std::vector<std::uint32_t> ends_;  // by pair of tokens: behind where it stood last; 0: nowhere
  std::size_t noted_ = 0;            // pairs that end before this token are in `ends_`
  std::size_t length_ = 4;
  double hope_ = 0.5;
};

/// What a batch costs, by its tokens: `fixed + per_token * tokens` seconds, fitted to the batches
/// that came last.
class BatchCost {
 public:
  void learn(std::size_t tokens, double seconds);
  /// Whether a token that comes true with the chance `hope` is worth its place in a batch for
  /// `runs` runs: the time in which one token is generated, against what one more costs. True while
  /// not enough is known.
  [[nodiscard]] bool is_worth(double hope, std::size_t runs) const;

 private:
  double weight_ = 0.0, tokens_ = 0.0, seconds_ = 0.0, squares_ = 0.0, products_ = 0.0;
};

}  // namespace tenon::engine
