#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tenon/vocab/token_trie.h"

namespace tenon::vocab {

/// Finds which of many strings a text begins with. Immutable.
class PrefixSearch {
 public:
  explicit PrefixSearch(std::vector<TokenTrie::Entry> entries = {});

  [[nodiscard]] bool can_begin(char byte) const {
    return roots_[static_cast<unsigned char>(byte)] != 0;
  }

  /// Calls `found(token, length)` for each string that `text` begins with, the shortest first.
  template <typename Found>
  void each(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    std::uint32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node != 0; ++length) {
      for (const TokenId token : trie_.tokens_at(node)) found(token, length);
      if (length == text.size()) return;
      node = child(node, static_cast<std::uint8_t>(text[length]));
    }
  }

 private:
  // The child of `node` by `byte`; 0 if it has no such child, because the root is not a child.
  [[nodiscard]] std::uint32_t child(std::uint32_t node, std::uint8_t byte) const {
    const std::uint32_t end = trie_.end_of(node);
    std::uint32_t at = node + 1;
    while (at < end && trie_.symbol(at) < byte) at = trie_.end_of(at);
    return at < end && trie_.symbol(at) == byte ? at : 0;
  }

  TokenTrie trie_;
  std::array<std::uint32_t, 256> roots_{};  // the root's children by byte
};

}  // namespace tenon::vocab
