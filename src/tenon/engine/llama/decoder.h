#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// What the scheduler needs from a model: a cache of token sequences, and logits for the tokens
/// that are added. One thread uses it. The real one is libllama; tests have one made of arithmetic.
class Decoder {
 public:
  struct Item {
    vocab::TokenId token = 0;
    std::int32_t position = 0;  ///< In its sequence; follows the last one there.
    std::int32_t sequence = 0;  ///< In [0, sequences()).
    bool wants_logits = false;
  };

  enum class Result : std::uint8_t {
    done,         ///< The whole batch is in the cache.
    no_room,      ///< Nothing changed: the cache is full.
    emptied,      ///< The cache was made anew, with more room: every sequence is empty now.
    interrupted,  ///< Part of the batch may be in the cache: truncate() its sequences.
    failed,       ///< As interrupted, and the same batch would fail again.
    reset,        ///< As emptied, because the batch failed.
  };

  virtual ~Decoder() = default;

  /// Adds `batch` (at most batch_tokens() items) to the cache. Returns `interrupted` soon after
  /// `must_stop` has become true, if the hardware can; `must_stop` is called from any thread.
  [[nodiscard]] virtual Result decode(std::span<const Item> batch,
                                      const std::function<bool()>& must_stop) = 0;

  /// The logits of item `index` of the last batch, which must have wanted them. Valid until the
  /// next decode(); the caller may overwrite them.
  [[nodiscard]] virtual std::span<float> logits(std::size_t index) = 0;

  /// Announces that a sequence will have `tokens` tokens, so that decode() need not grow the cache
  /// on the way. False: the cache was made anew, and every sequence is empty now.
  [[nodiscard]] virtual bool reserve(std::uint32_t tokens) = 0;

  /// Forgets the positions from `from` on. False: this model cannot forget a part, and has
  /// forgotten the whole sequence.
  [[nodiscard]] virtual bool truncate(std::int32_t sequence, std::int32_t from) = 0;

  /// Makes sequence `to` hold exactly the first `tokens` tokens of `from`, which has at least as
  /// many. False: this model cannot copy a part, and `to` is empty.
  [[nodiscard]] virtual bool copy(std::int32_t from, std::int32_t to, std::int32_t tokens) = 0;

  [[nodiscard]] virtual std::uint32_t sequences() const = 0;
  [[nodiscard]] virtual std::uint32_t cache_tokens() const = 0;  ///< For all sequences together.
  [[nodiscard]] virtual std::uint32_t batch_tokens() const = 0;
  /// How many items of a batch may want logits.
  [[nodiscard]] virtual std::uint32_t batch_rows() const = 0;
};

}  // namespace tenon::engine
