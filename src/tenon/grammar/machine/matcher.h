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
#include "tenon/grammar/machine/draft_tree.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::grammar {

struct EndPart;

/// Follows one text, token by token. A copy is a fork, and costs a copy of the text and 16 bytes
/// for each of its tokens. Use it from one thread at a time; different matchers of one grammar may
/// be used from different threads.
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

  /// Returns true if the token, or all of the bytes, can come next, and then reads them. Otherwise
  /// nothing changes. An end token is read by the grammar if the grammar waits for it; otherwise it
  /// is the end.
  [[nodiscard]] bool accept(vocab::TokenId token);
  [[nodiscard]] bool accept_bytes(std::string_view bytes);
  /// The reason why the last call was false or failed, if it was a limit or a part of the grammar
  /// that cannot be understood; nothing: it was the grammar's verdict.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// The number of `tokens` that could be accepted one after the other; it accepts none of them.
  [[nodiscard]] std::size_t validate_draft(std::span<const vocab::TokenId> tokens);
  /// Undoes the last `count` successful calls of accept and accept_bytes.
  void rollback(std::size_t count);
  [[nodiscard]] const Grammar& grammar() const { return *grammar_; }
  /// The number of calls that can be undone.
  [[nodiscard]] std::size_t accepted_count() const { return points_.size() - 1; }

  /// Sets bit t if token t can come next; for an end token, if the text may end. Fails with
  /// `limit_exceeded` if a limit of the grammar is reached, or that of this text
  /// (MachineLimits::max_text_steps, after which nothing is accepted any more); with
  /// `limit_exceeded` or `unsupported` if a part of the grammar cannot be understood; and with
  /// `unsatisfiable` if nothing can come next, which happens only with grammars whose values must
  /// be checked as a whole.
  [[nodiscard]] Status fill_mask(std::span<std::uint32_t> mask);
  /// Fills a mask for each node of a tree of guessed tokens, row after row of `row_words` words
  /// each (at least those of a mask; words beyond are 0): what may follow the text so far, the
  /// tokens on the way to the node, and the node's own. A node whose token is not allowed there has
  /// an empty mask, and so have those behind it, and those behind an end token. Accepts none of the
  /// tokens. Returns the number of nodes that may come. Fails with `invalid` if it is no tree
  /// (preorder()), and with `limit_exceeded` as fill_mask does; then all masks are empty.
  [[nodiscard]] Expected<std::size_t> fill_draft_masks(const DraftTree& tree,
                                                       std::span<std::uint32_t> masks,
                                                       std::size_t row_words);
  /// True if the text may end here.
  [[nodiscard]] bool is_accepting();
  /// True if the text must end here: only an end token can come next.
  [[nodiscard]] bool is_complete();
  /// True if an end token has been accepted; nothing can follow.
  [[nodiscard]] bool is_finished() const { return finished_; }
  /// The bytes that must come next because no others can; at most `max_bytes`. Empty if there is a
  /// choice, or if the text may end.
  [[nodiscard]] std::string forced_bytes(std::size_t max_bytes);
  /// Tokens that must come next: those of forced_bytes() as the model's tokenizer writes them,
  /// which is what the model has learned, or the one token that must come as a whole. More tokens
  /// may be forced after them. `tokenizer` must be the vocabulary's own; the text continues a
  /// prompt. Tokens at the end that the following text could change are left out: after `{"name":
  /// "` the last quote may be part of a longer token.
  [[nodiscard]] Expected<std::vector<vocab::TokenId>> forced_tokens(
      const vocab::Tokenizer& tokenizer, std::size_t max_bytes);

  /// The estimated least number of bytes to the next place where the text may end; 0 at such a
  /// place. A token that must come as a whole counts as one. Cheap.
  [[nodiscard]] std::size_t bytes_to_end();
  /// At most `most` tokens that lead the text to a place where it may end: few tokens, though not
  /// always the fewest; none at such a place. Each token is the longest prefix of the remaining
  /// bytes. Fails with `limit_exceeded` if no such way is found in so many steps of the machine.
  [[nodiscard]] Expected<std::vector<vocab::TokenId>> tokens_to_end(
      std::size_t most = std::numeric_limits<std::size_t>::max(), std::size_t max_steps = 50'000);

  /// The beginning of such a way, up to the first place where bytes_to_end() is below `bytes`,
  /// which must not be 0: an end of the value at hand, if `bytes` is what its end and all behind it
  /// take.
  [[nodiscard]] Expected<std::vector<vocab::TokenId>> tokens_towards_end(
      std::size_t bytes, std::size_t max_steps = 50'000);

 private:
  static constexpr vocab::TokenId kBytes = -1;  // in place of a token: accept_bytes
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
  void cut_below(std::size_t bytes, std::vector<EndPart>& way);
  Expected<std::size_t> fill_nodes(const DraftTree& tree, std::span<const std::int32_t> order,
                                   std::span<std::uint32_t> masks, std::size_t row_words);
  std::string find_forced(std::size_t max_bytes, StateId& state);
  bool find_forced_by_asking(StateId& state);
  bool may_extend(std::string_view bytes, StateId state);
  bool spell(std::string_view bytes, std::vector<vocab::TokenId>& ids) const;
  bool spell(std::span<const EndPart> parts, std::vector<vocab::TokenId>& ids) const;
  [[nodiscard]] Error no_end_in(std::size_t steps) const;

  std::shared_ptr<Grammar> grammar_;
  std::uint64_t epoch_ = 0;    // of the grammar's machine to which the states belong
  std::vector<Point> points_;  // the start, and one for each accepted call
  std::string text_;           // the accepted text
  bool finished_ = false;
  std::uint64_t bytes_ = 0;      // bytes that were read, repetitions included, and calls
  std::uint64_t steps_ = 0;      // steps of the machine for them
  bool is_new_machine_ = false;  // use() runs on a machine that has read only this text
  std::optional<Error> error_;
};

}  // namespace tenon::grammar
