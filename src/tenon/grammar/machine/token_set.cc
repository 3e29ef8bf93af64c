#include "tenon/grammar/machine/token_set.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenon::grammar {

TokenSet::TokenSet(std::span<const std::uint32_t> mask) {
  // Setting a bit from the list costs about as much as one word of the bits.
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size() && count < mask.size(); ++i) {
    count += static_cast<std::size_t>(std::popcount(mask[i]));
  }
  if (count >= mask.size()) {
    bits_.assign(mask.begin(), mask.end());
    return;
  }
  ids_.reserve(count);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::uint32_t word = mask[i]; word != 0; word &= word - 1) {
      ids_.push_back(static_cast<std::uint32_t>(i * 32) +
                     static_cast<std::uint32_t>(std::countr_zero(word)));
    }
  }
}

TokenSet::TokenSet(std::span<const vocab::TokenId> tokens, std::size_t words) {
  // A list of as many ids as words takes as many bytes as the bits and is slower to search.
  if (tokens.size() < words) {
    ids_.assign(tokens.begin(), tokens.end());
    return;
  }
  bits_.resize(words, 0);
  for (const vocab::TokenId token : tokens) set_bit(bits_, token);
}

// For sets that are added to masks again and again, as those of a quotient's large nodes are.
TokenSet TokenSet::of_bits(std::vector<std::uint32_t> mask) {
  TokenSet set;
  set.bits_ = std::move(mask);
  return set;
}

void TokenSet::copy_to(std::span<std::uint32_t> mask) const {
  // The bits cover all words, so nothing need be cleared before they are copied. A list does not.
  if (bits_.empty()) {
    std::ranges::fill(mask, 0U);
    add_to(mask);
  } else {
    std::ranges::copy(bits_, mask.begin());
  }
}

// Masks are unions of such sets, one for each way to read the text, so this is the innermost loop
// of a mask.
void TokenSet::add_to(std::span<std::uint32_t> mask) const {
  // Separate ranges, so that the loop can use vector instructions.
  std::uint32_t* __restrict to = mask.data();
  const std::uint32_t* __restrict from = bits_.data();
  for (std::size_t i = 0; i < bits_.size(); ++i) to[i] |= from[i];
  for (const std::uint32_t id : ids_) mask[id / 32] |= 1U << id % 32;
}

bool TokenSet::contains(vocab::TokenId token) const {
  const auto id = static_cast<std::uint32_t>(token);
  if (!bits_.empty()) return id / 32 < bits_.size() && (bits_[id / 32] >> id % 32 & 1U) != 0;
  return std::ranges::find(ids_, id) != ids_.end();
}

std::optional<vocab::TokenId> TokenSet::first() const {
  if (!ids_.empty()) return static_cast<vocab::TokenId>(*std::ranges::min_element(ids_));
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (bits_[i] == 0) continue;
    return static_cast<vocab::TokenId>(i * 32 +
                                       static_cast<std::size_t>(std::countr_zero(bits_[i])));
  }
  return std::nullopt;
}

// A list may have a token twice, which is still one.
std::optional<vocab::TokenId> TokenSet::only() const {
  std::optional<std::uint32_t> found;
  for (const std::uint32_t id : ids_) {
    if (found && *found != id) return std::nullopt;
    found = id;
  }
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (bits_[i] == 0) continue;
    if (found || !std::has_single_bit(bits_[i])) return std::nullopt;
    found =
        static_cast<std::uint32_t>(i * 32) + static_cast<std::uint32_t>(std::countr_zero(bits_[i]));
  }
  if (!found) return std::nullopt;
  return static_cast<vocab::TokenId>(*found);
}

}  // namespace tenon::grammar
