#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// A partition of the 256 byte values. The reader of the bytes does not distinguish bytes of one
/// class.
struct ByteClasses {
  static constexpr std::uint8_t kNone = 255;  ///< The class of bytes that are never read.

  std::array<std::uint8_t, 256> of{};  ///< In [0, count), or kNone.
  unsigned count = 0;                  ///< At most 255.

  /// Every byte is a class of its own, except 255, which does not occur in UTF-8.
  [[nodiscard]] static ByteClasses identity();
  /// Classes numbered by their first byte, so that equal partitions compare equal.
  [[nodiscard]] ByteClasses canonical() const;
  /// True if bytes of one class here are of one class in `coarser`, and every byte that it reads is
  /// read here.
  [[nodiscard]] bool refines(const ByteClasses& coarser) const;

  bool operator==(const ByteClasses&) const = default;
};

/// The tokens of a vocabulary by their prefixes, in preorder in one array:
///
///     for (std::uint32_t i = 1; i < trie.end_of(0);) {          // 0 is the root
///       state[trie.depth(i)] = step(state[trie.depth(i) - 1], trie.symbol(i));
///       if (is_dead(state[trie.depth(i)])) { i = trie.end_of(i); continue; }
///       for (TokenId token : trie.tokens_at(i)) allow(token);
///       ++i;
///     }
///
/// Symbols are bytes, or classes of bytes in a quotient. Immutable after construction. A node needs
/// 12 bytes and a token 4.
class TokenTrie {
 public:
  struct Entry {
    std::string_view bytes;  ///< Not empty; needed during construction only.
    TokenId token;
  };

  /// A trie with symbols of its own. The order of `entries` does not matter, and several tokens may
  /// have the same bytes.
  explicit TokenTrie(std::vector<Entry> entries);

  /// The trie of the tokens' class strings, without tokens that have a byte of class kNone. Costs
  /// about 10 ns per node of this trie.
  ///
  /// `unit`, if given, returns the length of the unit at the beginning of a text, or 0. All units
  /// count as the same: each is the one byte kUnit instead of its own bytes, which must not be
  /// ASCII. Tokens that contain the byte kUnit themselves are left out.
  using Unit = std::size_t (*)(std::string_view);
  static constexpr std::uint8_t kUnit = 255;
  [[nodiscard]] TokenTrie quotient(const ByteClasses& classes, Unit unit = nullptr) const;

  /// Nodes are [0, node_count()). The root is 0, and a node's first child follows it.
  [[nodiscard]] std::uint32_t node_count() const {
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  /// One past the last node of the subtree of `node`.
  [[nodiscard]] std::uint32_t end_of(std::uint32_t node) const { return nodes_[node].end; }
  [[nodiscard]] std::uint8_t symbol(std::uint32_t node) const { return nodes_[node].symbol; }
  [[nodiscard]] std::uint16_t depth(std::uint32_t node) const { return nodes_[node].depth; }
  /// The root's child by `symbol`; 0: no such child.
  [[nodiscard]] std::uint32_t child_of_root(std::uint8_t symbol) const {
    return children_of_root_[symbol];
  }
  /// The length of the longest path from the root; a walk needs one state more.
  [[nodiscard]] std::uint32_t max_depth() const { return max_depth_; }

  /// The tokens that end at `node`.
  [[nodiscard]] std::span<const TokenId> tokens_at(std::uint32_t node) const {
    return tokens(nodes_[node].first_token, nodes_[node + 1].first_token);
  }
  /// The tokens that end in the subtree of `node`.
  [[nodiscard]] std::span<const TokenId> tokens_below(std::uint32_t node) const {
    return tokens(nodes_[node].first_token, nodes_[nodes_[node].end].first_token);
  }

  [[nodiscard]] std::size_t memory_bytes() const {
    return nodes_.capacity() * sizeof(Node) + tokens_.capacity() * sizeof(TokenId);
  }

 private:
  struct Node {
    std::uint32_t first_token = 0;  // in tokens_; a node's own tokens come before those of its
                                    // children
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

  std::vector<Node> nodes_;  // and one more, which ends the token list of the last node
  std::vector<TokenId> tokens_;
  std::uint32_t max_depth_ = 0;
  std::array<std::uint32_t, 256> children_of_root_{};
};

}  // namespace tenon::vocab
