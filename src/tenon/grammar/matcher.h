#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine.h"
#include "tenon/grammar/mask_builder.h"
#include "tenon/grammar/token_set.h"
#include "tenon/grammar/vocab_index.h"

namespace tenon::grammar {

/// A grammar over a vocabulary, ready to be matched. Shared by all requests that use it; what one
/// of them makes (states, masks) the others find. Thread-safe: matchers take turns.
class Grammar {
 public:
  /// `root` is a frame of `machine`. Fails with `unsatisfiable` if no text at all can be read.
  [[nodiscard]] static Expected<std::shared_ptr<Grammar>> make(std::unique_ptr<Machine> machine,
                                                               FrameId root,
                                                               std::shared_ptr<VocabIndex> index);

  [[nodiscard]] const VocabIndex& index() const { return *index_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  friend class Matcher;

  Grammar(std::unique_ptr<Machine> machine, std::shared_ptr<VocabIndex> index)
      : machine_(std::move(machine)), masks_(*machine_, index), index_(std::move(index)) {}

  mutable std::mutex mutex_;  // guards the two below
  std::unique_ptr<Machine> machine_;
  MaskBuilder masks_;
  std::shared_ptr<VocabIndex> index_;
  StateId start_ = 0;
};

/// Follows one text, token by token. Copying one is a fork and costs a vector; one thread at a
/// time.
///
///     Matcher matcher(grammar);
///     std::vector<std::uint32_t> mask(mask_words(vocab.size()));
///     while (!matcher.is_finished()) {
///       if (const Status filled = matcher.fill_mask(mask); !filled) return filled;
///       const TokenId token = sample(logits, mask);
///       matcher.accept(token);
///     }
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);

  /// True if the token, or all of the bytes, can come next; then they have. Nothing changes
  /// otherwise. An end token is read by the grammar where that waits for it, and is the end
  /// elsewhere.
  [[nodiscard]] bool accept(vocab::TokenId token);
  [[nodiscard]] bool accept_bytes(std::string_view bytes);
  /// How many of `tokens` could be accepted one after the other; accepts none.
  [[nodiscard]] std::size_t validate_draft(std::span<const vocab::TokenId> tokens);
  /// Takes back the last `count` calls of accept and accept_bytes that were true.
  void rollback(std::size_t count);
  /// How many can be taken back.
  [[nodiscard]] std::size_t accepted_count() const { return points_.size() - 1; }

  /// Bit t is set if token t can come next, an end token if the text may end. Fails with
  /// limit_exceeded where the grammar's limits are reached.
  [[nodiscard]] Status fill_mask(std::span<std::uint32_t> mask);
  /// The text may end here.
  [[nodiscard]] bool is_accepting() const;
  /// An end token has been accepted: nothing follows.
  [[nodiscard]] bool is_finished() const { return finished_; }
  /// The bytes that must come next, since no others can; at most `max_bytes`. Empty where there is
  /// a choice, or where the text may end.
  [[nodiscard]] std::string forced_bytes(std::size_t max_bytes);

 private:
  bool advance(std::string_view bytes, StateId beside);

  std::shared_ptr<Grammar> grammar_;
  struct Point {
    StateId state;
    std::size_t text_size;
  };
  std::vector<Point> points_;  // the start and one per accepted call
  std::string text_;           // what has been accepted
  bool finished_ = false;
};

}  // namespace tenon::grammar
