#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::grammar {

/// The number of words of a token mask: bit t % 32 of word t / 32 is set if token t is allowed.
[[nodiscard]] constexpr std::size_t mask_words(std::size_t vocab_size) {
  return (vocab_size + 31) / 32;
}
inline void set_bit(std::span<std::uint32_t> mask, vocab::TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  mask[id / 32] |= 1U << id % 32;
}

inline void clear_bit(std::span<std::uint32_t> mask, vocab::TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  mask[id / 32] &= ~(1U << id % 32);
}

/// An immutable set of tokens, as bits or as a list, whichever is smaller.
class TokenSet {
 public:
  TokenSet() = default;
  explicit TokenSet(std::span<const std::uint32_t> mask);
  /// For a vocabulary with `words` mask words; tokens may come twice.
  TokenSet(std::span<const vocab::TokenId> tokens, std::size_t words);

  /// Kept as bits, even if they are few.
  [[nodiscard]] static TokenSet of_bits(std::vector<std::uint32_t> mask);

  void add_to(std::span<std::uint32_t> mask) const;
  /// Writes the set over `mask`, whatever it holds.
  void copy_to(std::span<std::uint32_t> mask) const;
  /// Linear if the set is a list.
  [[nodiscard]] bool contains(vocab::TokenId token) const;
  /// The token, if there is exactly one.
  [[nodiscard]] std::optional<vocab::TokenId> only() const;
  /// The lowest token; nullopt: the set is empty.
  [[nodiscard]] std::optional<vocab::TokenId> first() const;
  [[nodiscard]] std::size_t memory_bytes() const {
    return (bits_.capacity() + ids_.capacity()) * sizeof(std::uint32_t);
  }

 private:
  std::vector<std::uint32_t> bits_;  // empty: see ids_
  std::vector<std::uint32_t> ids_;
};

}  // namespace tenon::grammar
