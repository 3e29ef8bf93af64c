#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/grammar.h"
#include "tenon/grammar/token_set.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::grammar {

/// Follows one text, token by token. Copying one is a fork and costs a copy of the text and 16
/// bytes for each of its tokens. One thread at a time; different matchers of one grammar may be
/// used from different threads.
///
///     Matcher matcher(grammar);  // grammar.h shows how one is made
///     std::vector<std::uint32_t> mask(mask_words(vocab.size()));
///     while (!matcher.is_finished()) {
///       if (const Status filled = matcher.fill_mask(mask); !filled) return filled;
///       const TokenId token = sample(logits, mask);
///       if (!matcher.accept(token)) break;  // cannot be: the token was in the mask
///     }
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);

  /// True if the token, or all of the bytes, can come next; then they have. Nothing changes
  /// otherwise. An end token is read by the grammar where that waits for it, and is the end
  /// elsewhere.
  [[nodiscard]] bool accept(vocab::TokenId token);
  [[nodiscard]] bool accept_bytes(std::string_view bytes);
  /// The limit, or the part of the grammar that cannot be understood, because of which the last
  /// call was false or failed; nothing: that was the grammar's verdict.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// How many of `tokens` could be accepted one after the other; accepts none.
  [[nodiscard]] std::size_t validate_draft(std::span<const vocab::TokenId> tokens);
  /// Takes back the last `count` calls of accept and accept_bytes that were true.
  void rollback(std::size_t count);
  /// How many can be taken back.
  [[nodiscard]] std::size_t accepted_count() const { return points_.size() - 1; }

  /// Bit t is set if token t can come next, an end token if the text may end. Fails with
  /// `limit_exceeded` where the grammar's limits are reached, those of this text among them
  /// (MachineLimits::max_text_steps, after which nothing is accepted any more), as it does or
  /// `unsupported` where it cannot be understood, and with `unsatisfiable` where nothing can come
  /// next, which no grammar comes to but one whose values must be looked at as a whole.
  [[nodiscard]] Status fill_mask(std::span<std::uint32_t> mask);
  /// The text may end here.
  [[nodiscard]] bool is_accepting();
  /// The text must end here: an end token is all that can come next.
  [[nodiscard]] bool is_complete();
  /// An end token has been accepted: nothing follows.
  [[nodiscard]] bool is_finished() const { return finished_; }
  /// The bytes that must come next, since no others can; at most `max_bytes`. Empty where there is
  /// a choice, or where the text may end.
  [[nodiscard]] std::string forced_bytes(std::size_t max_bytes);
  /// Tokens that must come next: those of forced_bytes() as the model's tokenizer writes them,
  /// which is what the model is used to, or the one token that must come as a whole. More may have
  /// to come behind them. `tokenizer` is the vocabulary's own; the text goes on behind a prompt.
  /// Tokens at the end which what may follow would change are left out: after `{"name": "` the last
  /// quote may be part of a longer token.
  [[nodiscard]] Expected<std::vector<vocab::TokenId>> forced_tokens(
      const vocab::Tokenizer& tokenizer, std::size_t max_bytes);

  /// Bytes to the next place where the text may end, roughly and at the least; 0 at such a place. A
  /// token that must come as a whole counts as one. Cheap.
  [[nodiscard]] std::size_t bytes_to_end();
  /// At most `most` tokens with which the text comes to a place where it may end, few though not
  /// always the fewest; none where it is at one. Each is the longest that the bytes begin with.
  /// Fails with `limit_exceeded` where no such way is found in so many steps of the machine; up to
  /// 64 times as many where the shortest in bytes is over `most`.
  [[nodiscard]] Expected<std::vector<vocab::TokenId>> tokens_to_end(
      std::size_t most = std::numeric_limits<std::size_t>::max(), std::size_t max_steps = 50'000);

 private:
  static constexpr vocab::TokenId kBytes = -1;  // instead of a token: accept_bytes
  struct Point {
    StateId state;
    vocab::TokenId token;
    std::size_t text_size;
  };

  template <class Use>
  auto use(Use use) -> decltype(use());
  [[nodiscard]] std::optional<Error> refusal() const;
  [[nodiscard]] std::string all_read() const;
  bool has_steps();
  void catch_up();
  Machine& machine() { return *grammar_->run_->machine; }
  StateId next(StateId from, vocab::TokenId token, std::string_view text, std::size_t before);
  bool advance(vocab::TokenId token, std::string_view bytes);
  std::string find_forced(std::size_t max_bytes, StateId& state);
  bool find_forced_by_asking(StateId& state);
  bool may_extend(std::string_view bytes, StateId state);
  bool spell(std::string_view bytes, std::vector<vocab::TokenId>& ids) const;

  std::shared_ptr<Grammar> grammar_;
  std::uint64_t epoch_ = 0;    // of the grammar, in which the states are
  std::vector<Point> points_;  // the start and one per accepted call
  std::string text_;           // what has been accepted
  bool finished_ = false;
  std::uint64_t bytes_ = 0;      // that were read, however often, and calls
  std::uint64_t steps_ = 0;      // of the machine for them
  bool is_new_machine_ = false;  // use() runs on one that has seen nothing but this text
  std::optional<Error> error_;
};

}  // namespace tenon::grammar
