#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tenon/grammar/matcher.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

using vocab::TokenId;

/// What holds one run to the grammar of its request: where the text is in it, and the mask of the
/// token that comes next. One thread at a time.
///
/// A grammar that reaches one of its limits holds nothing from there on: is_free(), and the log
/// says why.
class Constraint {
 public:
  /// `tokenizer` outlives this.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, const vocab::Tokenizer& tokenizer);

  /// The answer goes on with a token that mask() allowed.
  void accept(TokenId token);
  /// Puts the tokens that must come next into `tokens`, at most `most`; they are accepted. What the
  /// answer begins with may have to come before any token is chosen.
  void take_forced(std::vector<TokenId>& tokens, std::size_t most);
  /// The answer must end here.
  [[nodiscard]] bool is_complete();

  /// Cuts `draft`, a guess of what comes next, to what may come. prepare_mask() makes the masks
  /// behind each of its tokens, too, and they are there for as long as accept() and take_forced()
  /// follow it.
  void expect(std::vector<TokenId>& draft);

  /// Makes the mask of the next token, unless there is one.
  void prepare_mask();
  /// Whether prepare_mask() has made the mask of the next token, or any token may come.
  [[nodiscard]] bool has_mask() const { return is_free_ || place_ < masks_made_; }
  /// What prepare_mask() made; empty where any token may come.
  [[nodiscard]] std::span<const std::uint32_t> mask() const;

  [[nodiscard]] bool is_free() const { return is_free_; }
  /// Of all masks so far.
  [[nodiscard]] std::chrono::nanoseconds mask_time() const { return mask_time_; }

 private:
  void go_past(TokenId token);
  void give_up(const Error& error);

  grammar::Matcher matcher_;
  const vocab::Tokenizer& tokenizer_;
  const std::size_t mask_words_;
  std::vector<TokenId> draft_;        // from where masks_ begins
  std::vector<std::uint32_t> masks_;  // one before each token of draft_, and one behind it
  std::size_t masks_made_ = 0;
  std::size_t place_ = 0;  // in draft_
  bool is_free_ = false;
  std::chrono::nanoseconds mask_time_{0};
};

}  // namespace tenon::engine
