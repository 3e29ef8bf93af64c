#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

using vocab::TokenId;

/// Guesses how one answer goes on: as the text went on after the last place, in the prompt or in
/// the answer, where its last two tokens stood (prompt lookup decoding,
/// github.com/apoorvumang/prompt-lookup-decoding). Calls repeat text that came before: names and
/// keys of earlier calls, values from the conversation.
///
/// The number of guessed tokens follows the last guess: one more than came true, or twice as many
/// if all came true.
class Drafter {
 public:
  static constexpr std::size_t kMost = 8;

  /// Puts the tokens that may follow `tokens`, at most `most` and kMost, into `draft`; none if the
  /// last two tokens never stood together. `tokens` must begin with those of the last call. Memory:
  /// 8 to 16 bytes for each token.
  void guess(std::span<const TokenId> tokens, std::size_t most, std::vector<TokenId>& draft);
  /// Reports that `accepted` tokens of a guess of `drafted` came true.
  void learn(std::size_t drafted, std::size_t accepted);
  /// The share of guessed tokens that is expected to come true, smoothed.
  [[nodiscard]] double hope() const { return hope_; }
  /// Reports a token without a guess: what is known about guesses gets a little older.
  void forget();

 private:
  void note(std::span<const TokenId> tokens);
  void grow(std::span<const TokenId> tokens);
  std::size_t place_of(TokenId first, TokenId second) const;

  std::vector<std::uint32_t> ends_;  // by pair of tokens: the place after its last; 0: none
  std::size_t noted_ = 0;            // pairs that end before this token are in `ends_`
  std::size_t length_ = 4;
  double hope_ = 0.5;
};

/// The time of a batch by its number of tokens: `fixed + per_token * tokens` seconds, fitted to the
/// latest batches.
class BatchCost {
 public:
  void learn(std::size_t tokens, double seconds);
  /// Whether a guessed token that comes true with probability `hope` is worth its place in a batch
  /// for `runs` runs: the time that generating a token takes, against the cost of one more in the
  /// batch. True while too little is known.
  [[nodiscard]] bool is_worth(double hope, std::size_t runs) const;

 private:
  double weight_ = 0.0, tokens_ = 0.0, seconds_ = 0.0, squares_ = 0.0, products_ = 0.0;
};

}  // namespace tenon::engine
