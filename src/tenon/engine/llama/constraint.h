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

#include "tenon/engine/llama/repetition_detector.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

using vocab::TokenId;

/// Constrains one run to the grammar of its request: the state of the text in the grammar, and the
/// mask of the next token. For one thread at a time.
///
/// A grammar that reaches one of its limits constrains nothing from there on: is_free() is true,
/// and the log says why, with the request id that the log had when this object was made.
///
/// With `ends_whole` it is told how many more tokens the answer may have, and makes sure that the
/// answer reaches a place where it may end before they are spent. While many tokens are left, that
/// costs one look at the state after each token. Once few are left, it searches for a way to an end
/// after the tokens that were chosen, at last after each of them. If that way is too long, the
/// first token of the way found before comes instead of the chosen one. If there never was a way
/// that is short enough, it gives up, and the answer will be cut.
///
/// With `closes_repetitions` it closes what repeats itself (RepetitionDetector): the string, array
/// or other part of the grammar in which the tokens stay, round after round, without coming nearer
/// to an end of the answer. It does so once the repetition endangers the answer: it has 1,000
/// tokens and 30 rounds, or as many tokens as the answer may have yet. Where a round is nearest to
/// that end, the shortest way out of the part comes instead of the next round, and then the model
/// chooses again. Three repetitions of an answer are closed; with `ends_whole` a fourth one ends
/// all of it. An answer that may end within the repetition is left alone: ending it is the model's
/// choice.
class Constraint {
 public:
  struct Options {
    bool ends_whole = false;
    bool closes_repetitions = false;
  };

  /// `tokenizer` outlives this.
  Constraint(std::shared_ptr<grammar::Grammar> grammar, const vocab::Tokenizer& tokenizer,
             Options options);

  /// Call it when the answer may have `most` more tokens. Returns `chosen`, which mask() allowed,
  /// or the token that must come instead; accept() it next. nullopt: the answer may end here, and
  /// must, because nothing that was chosen fits.
  [[nodiscard]] std::optional<TokenId> next(TokenId chosen, std::size_t most);
  /// Whether the answer is whole because it was steered to its end; ask when all tokens are spent.
  [[nodiscard]] bool is_closed();

  /// How many repetitions have been closed.
  [[nodiscard]] std::uint32_t closed_repetitions() const { return closed_repetitions_; }

  /// The answer goes on with a token that mask() allowed.
  void accept(TokenId token);
  /// Puts the tokens that must come next into `tokens`, of the `most` that the answer may have, and
  /// accepts them. Even the first tokens of an answer may be forced.
  void take_forced(std::vector<TokenId>& tokens, std::size_t most);
  /// Whether the answer must end here.
  [[nodiscard]] bool is_complete();

  /// Cuts `draft`, a guess of what comes next, to tokens that the grammar allows. prepare_mask()
  /// then also makes the masks after each of its tokens; they stay valid as long as accept() and
  /// take_forced() follow the draft.
  void expect(std::vector<TokenId>& draft);

  /// Makes the mask of the next token, unless it is made already.
  void prepare_mask();
  /// Whether prepare_mask() has made the mask of the next token, or any token may come.
  [[nodiscard]] bool has_mask() const { return is_free_ || place_ < masks_made_; }
  /// How many masks prepare_mask() has made, including those of a draft.
  [[nodiscard]] std::size_t masks_made() const { return masks_made_; }
  /// The mask that prepare_mask() made; empty if any token may come.
  [[nodiscard]] std::span<const std::uint32_t> mask() const;

  [[nodiscard]] bool is_free() const { return is_free_; }
  /// The time for all masks so far.
  [[nodiscard]] std::chrono::nanoseconds mask_time() const { return mask_time_; }

 private:
  using Tokens = std::vector<TokenId>;

  // How a repetition is left.
  struct Exit {
    std::size_t floor = 0;  // bytes to the end where a round is nearest to it; it leads below them
    std::size_t at = 0;     // after so many tokens of the answer
  };

  void go_past(TokenId token);
  void give_up(const Error& error);
  void let_go(std::string_view why);
  void find_forced(Tokens& tokens, std::size_t most);
  void fit_forced(Tokens& tokens, std::size_t most);
  [[nodiscard]] TokenId out_of_repetition(TokenId chosen, std::size_t most);
  [[nodiscard]] bool endangers(std::size_t most) const;
  [[nodiscard]] bool must_leave(TokenId chosen, std::size_t most);
  [[nodiscard]] bool goes_on();
  [[nodiscard]] bool could_repeat() const;
  [[nodiscard]] std::optional<Exit> find_exit() const;
  [[nodiscard]] std::optional<std::size_t> read_again(grammar::Matcher& matcher,
                                                      TokenId token) const;
  [[nodiscard]] std::optional<TokenId> in_time(TokenId chosen, std::size_t most);
  [[nodiscard]] bool is_far_from_end(std::size_t most);
  [[nodiscard]] std::optional<Tokens> end_within(std::size_t most, bool tries_others = false);
  [[nodiscard]] bool keep_end(std::size_t most);

  const std::string request_;  // for log lines
  grammar::Matcher matcher_;
  const vocab::Tokenizer& tokenizer_;
  const std::size_t mask_words_;
  std::vector<TokenId> draft_;        // the guess that masks_ belong to
  std::vector<std::uint32_t> masks_;  // one before each token of draft_, and one after the last
  std::size_t masks_made_ = 0;
  std::size_t place_ = 0;      // in draft_
  bool ends_whole_;            // becomes false when an end cannot be reached any more
  std::optional<Tokens> end_;  // an end from the present state; nullopt: not searched for
  struct Found {               // the end that was found last
    std::size_t tokens = 0;
    std::size_t bytes = 0;  // Matcher::bytes_to_end() there
    std::size_t most = 0;   // tokens that were left
  } found_;
  bool closes_repetitions_;  // becomes false when no further repetition is to be closed
  RepetitionDetector repetitions_;
  std::optional<Exit> exit_;  // of the repetition that repetitions_ has found
  struct Leaving {
    std::size_t floor = 0;  // that of the repetition
    std::size_t below = 0;  // the bytes to the end must become fewer than these
    Tokens round;
  };
  std::optional<Leaving> leaving_;  // the repetition that is being left
  Tokens way_out_;                  // what comes next on the way out of it
  std::uint32_t closed_repetitions_ = 0;
  bool is_steered_ = false;  // the end takes all tokens that are left, or replaced a choice
  bool is_free_ = false;
  std::chrono::nanoseconds mask_time_{0};
};

}  // namespace tenon::engine
