#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/grammar/matcher.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

using vocab::TokenId;

/// What holds one run to the grammar of its request: where the text is in it, and the mask of the
/// token that comes next. One thread at a time.
///
/// A grammar that reaches one of its limits holds nothing from there on: is_free(), and the log
/// says why, about the request that the log was about when this was made.
///
/// One that `ends_whole` is told how many tokens the answer may still have, and sees to it that it
/// comes to a place where it may end before they are spent. While they are many that costs a look
/// at the state after each token. Once they are few, a way to an end is looked for after the tokens
/// that were chosen, in the end after each; if it is too long, the first token of the way that was
/// there before comes instead. Where there never was a way that is short enough it lets go: the
/// answer will be cut.
class Constraint {
 public:
  /// `tokenizer` outlives this.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, const vocab::Tokenizer& tokenizer,
             bool ends_whole);

  /// Where the answer may have `most` more tokens: `chosen`, which mask() allowed, or what must
  /// come instead. nullopt: the answer may end here, and must, as nothing fits that was chosen.
  /// What is returned is to be accepted next.
  [[nodiscard]] std::optional<TokenId> in_time(TokenId chosen, std::size_t most);
  /// All tokens are spent, and the answer is whole because it was brought to its end.
  [[nodiscard]] bool is_closed();

  /// The answer goes on with a token that mask() allowed.
  void accept(TokenId token);
  /// Puts the tokens that must come next into `tokens`, of the `most` that the answer may have;
  /// they are accepted. What the answer begins with may have to come before any token is chosen.
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
  /// How many there are of prepare_mask(), those of a draft among them.
  [[nodiscard]] std::size_t masks_made() const { return masks_made_; }
  /// What prepare_mask() made; empty where any token may come.
  [[nodiscard]] std::span<const std::uint32_t> mask() const;

  [[nodiscard]] bool is_free() const { return is_free_; }
  /// Of all masks so far.
  [[nodiscard]] std::chrono::nanoseconds mask_time() const { return mask_time_; }

 private:
  using Tokens = std::vector<TokenId>;

  void go_past(TokenId token);
  void give_up(const Error& error);
  void let_go(std::string_view why);
  void find_forced(Tokens& tokens, std::size_t most);
  void fit_forced(Tokens& tokens, std::size_t most);
  [[nodiscard]] bool is_far_from_end(std::size_t most);
  [[nodiscard]] std::optional<Tokens> end_within(std::size_t most, bool tries_others = false);
  [[nodiscard]] bool keep_end(std::size_t most);

  const std::string request_;  // for log lines
  grammar::Matcher matcher_;
  const vocab::Tokenizer& tokenizer_;
  const std::size_t mask_words_;
  std::vector<TokenId> draft_;        // from where masks_ begins
  std::vector<std::uint32_t> masks_;  // one before each token of draft_, and one behind it
  std::size_t masks_made_ = 0;
  std::size_t place_ = 0;      // in draft_
  bool ends_whole_;            // false too once there is no hope
  std::optional<Tokens> end_;  // from where the text is now; nullopt: not looked for
  struct Found {               // the end that was found last
    std::size_t tokens = 0;
    std::size_t bytes = 0;  // Matcher::bytes_to_end() there
    std::size_t most = 0;   // tokens that were left
  } found_;
  bool is_steered_ = false;  // it came to where an end takes all tokens that are left
  bool is_free_ = false;
  std::chrono::nanoseconds mask_time_{0};
};

}  // namespace tenon::engine
