#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// A partition of the 256 byte values. Bytes of one class are the same to whoever reads them.
struct ByteClasses {
  static constexpr std::uint8_t kNone = 255;  ///< Class of bytes that are not read at all.

  std::array<std::uint8_t, 256> of{};  ///< In [0, count), or kNone.
  unsigned count = 0;                  ///< At most 255.

  /// Every byte a class of its own, but for 255, which no UTF-8 text holds.
  [[nodiscard]] static ByteClasses identity();
  /// Classes numbered by their first byte, so that equal partitions compare equal.
  [[nodiscard]] ByteClasses canonical() const;
  /// True if bytes of one class here are of one class in `coarser`, and what it reads is read here.
  [[nodiscard]] bool refines(const ByteClasses& coarser) const;

  bool operator==(const ByteClasses&) const = default;
};

/// The tokens of a vocabulary by their beginnings, in preorder in one array:
///
///     for (std::uint32_t i = 1; i < trie.end_of(0);) {          // 0 is the root
///       state[trie.depth(i)] = step(state[trie.depth(i) - 1], trie.symbol(i));
///       if (is_dead(state[trie.depth(i)])) { i = trie.end_of(i); continue; }
///       for (TokenId token : trie.tokens_at(i)) allow(token);
///       ++i;
///     }
///
/// Symbols are bytes, or classes of bytes in a quotient. Immutable after construction; 12 bytes per
/// node and 4 per token.
class TokenTrie {
 public:
  struct Entry {
    std::string_view bytes;  ///< Not empty; outlives the construction only.
    TokenId token;
  };

  /// A trie of its own symbols only; the order of `entries` does not matter, and several tokens may
  /// have the same bytes.
  explicit TokenTrie(std::vector<Entry> entries);

  /// The trie of the tokens' class strings. Tokens with a byte of class kNone are left out. Costs
  /// about 10 ns per node of this trie.
  ///
  /// `unit`, if given, is the length of the unit that a text begins with, or 0. All units are the
  /// same: each is the byte kUnit instead of its own, which must not be those of ASCII. Tokens that
  /// have this byte themselves are left out.
  using Unit = std::size_t (*)(std::string_view);
  static constexpr std::uint8_t kUnit = 255;
  [[nodiscard]] TokenTrie quotient(const ByteClasses& classes, Unit unit = nullptr) const;

  /// Nodes are [0, node_count()), the root is 0, a node's first child follows it.
  [[nodiscard]] std::uint32_t node_count() const {
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  /// One past the last node of the subtree of `node`.
  [[nodiscard]] std::uint32_t end_of(std::uint32_t node) const { return nodes_[node].end; }
  [[nodiscard]] std::uint8_t symbol(std::uint32_t node) const { return nodes_[node].symbol; }
  [[nodiscard]] std::uint16_t depth(std::uint32_t node) const { return nodes_[node].depth; }
  /// The root's child by `symbol`; 0: there is none.
  [[nodiscard]] std::uint32_t child_of_root(std::uint8_t symbol) const {
    return children_of_root_[symbol];
  }
  /// Of the root and its longest path; a walk needs so many states.
  [[nodiscard]] std::uint32_t max_depth() const { return max_depth_; }

  /// Tokens whose symbols end at `node`.
  [[nodiscard]] std::span<const TokenId> tokens_at(std::uint32_t node) const {
    return tokens(nodes_[node].first_token, nodes_[node + 1].first_token);
  }
  /// Tokens that end in the subtree of `node`.
  [[nodiscard]] std::span<const TokenId> tokens_below(std::uint32_t node) const {
    return tokens(nodes_[node].first_token, nodes_[nodes_[node].end].first_token);
  }

  [[nodiscard]] std::size_t memory_bytes() const {
    return nodes_.capacity() * sizeof(Node) + tokens_.capacity() * sizeof(TokenId);
  }

 private:
  struct Node {
    std::uint32_t first_token = 0;  // in tokens_; own tokens come before those of the children
    std::uint32_t end = 0;
    std::uint16_t depth = 0;
    std::uint8_t symbol = 0;
  };

  struct Linked;

  TokenTrie() = default;
  [[nodiscard]] std::span<const TokenId> tokens(std::uint32_t from, std::uint32_t to) const {
    return std::span(tokens_).subspan(from, to - from);
  }
  [[nodiscard]] TokenTrie in_preorder(const Linked& linked,
                                      std::span<const std::uint32_t> node_of_token) const;
  void finish();

  std::vector<Node> nodes_;  // and one more, which ends the last one's tokens
  std::vector<TokenId> tokens_;
  std::uint32_t max_depth_ = 0;
  std::array<std::uint32_t, 256> children_of_root_{};
};

}  // namespace tenon::vocab
