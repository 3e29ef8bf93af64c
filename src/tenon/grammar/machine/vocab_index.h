#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/grammar/machine/bounded_cache.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"
#include "tenon/vocab/token_trie.h"
#include "tenon/vocab/vocab.h"

namespace tenon::grammar {

/// What all grammars over one vocabulary share: its trie, parts and quotients of it, which are made
/// when first asked for, and parts of masks. Thread-safe. What it returns lives as long as it does,
/// except parts of masks.
class VocabIndex {
 public:
  explicit VocabIndex(std::shared_ptr<const vocab::Vocab> vocab);

  [[nodiscard]] const vocab::Vocab& vocab() const { return *vocab_; }
  /// The trie of the text tokens that contain `byte`.
  [[nodiscard]] const vocab::TokenTrie& containing(std::uint8_t byte);

  /// The trie of the text tokens of more than kShort bytes, which are few.
  [[nodiscard]] const vocab::TokenTrie& long_tokens() const { return long_tokens_; }
  static constexpr std::uint32_t kShort = 32;

  /// By node of a trie: the number of symbols of the longest way down, if all symbols below are
  /// printable ASCII without quote and backslash; else kOthers.
  using PlainHeights = std::vector<std::uint16_t>;
  static constexpr std::uint16_t kOthers = 0xFFFF;
  /// Those of the vocabulary's own trie.
  [[nodiscard]] const PlainHeights& plain_heights();

  /// A set of characters, each bit of which stands for one character or several: letters and signs
  /// of ASCII, all common characters (regex/common_characters.h), everything else.
  using Characters = std::uint64_t;
  /// The bits of which all characters are in the set. The bit of everything else is not set.
  [[nodiscard]] static Characters characters(const regex::ByteSet& ascii, bool has_common);
  /// The bits of which at least one character has one of `bytes`.
  [[nodiscard]] static Characters characters_with(const regex::ByteSet& bytes);
  /// By node of the vocabulary's own trie: the characters that the tokens of the subtree have below
  /// the node.
  [[nodiscard]] const std::vector<Characters>& characters_below() const {
    return characters_below_;
  }

  struct Quotient {
    vocab::ByteClasses classes;  ///< also of kUnit, if common characters are units of the trie
    std::array<std::uint8_t, 256> representative{};  ///< class -> one of its bytes
    vocab::TokenTrie trie;
    std::unordered_map<std::uint32_t, TokenSet> large;  ///< For nodes with many tokens: all of
                                                        ///< them.
    static constexpr std::size_t kManyTokens = 512;
    PlainHeights plain_heights;
  };
  /// The smallest existing quotient whose partition refines `classes`, or null. When `classes` are
  /// asked for again, a quotient of their own is made from it, which takes about a millisecond. Its
  /// units are common characters (regex/common_characters.h) if `classes` has a class for kUnit.
  [[nodiscard]] std::shared_ptr<const Quotient> quotient(const vocab::ByteClasses& classes);

  /// Tokens of two parts, indexed by either part: docs/masks.md, "Boundary".
  struct Border {
    std::vector<vocab::TokenId> tokens;  ///< by index; below, an index stands for a token
    std::vector<std::uint16_t> split;    ///< by index: the bytes before the second part
    vocab::TokenTrie before;             ///< indices, by the first part
    std::vector<std::uint16_t> height;   ///< by node of it: the bytes of the longest way down
    std::vector<std::uint32_t> at_once;  ///< indices with an empty first part
    vocab::TokenTrie after;              ///< numbers of second parts, by these parts
    std::vector<std::uint32_t> by_rest;  ///< indices, ordered by the number of the second part,
    std::vector<std::uint32_t> first;    ///< which has [first[n], first[n + 1]) of them

    /// The number of the empty second part.
    static constexpr std::size_t kNoRest = 0;
    [[nodiscard]] std::span<const std::uint32_t> with_rest(std::size_t number) const {
      return std::span(by_rest).subspan(first[number], first[number + 1] - first[number]);
    }
  };
  /// The tokens that close a JSON string inside which they begin: the part before the first
  /// unescaped quote, and the part after it. The quote itself is in neither part.
  [[nodiscard]] const Border& quotes() const { return quotes_; }
  /// The tokens that begin with bytes of `alphabet` and continue with others.
  [[nodiscard]] const Border& border(const regex::ByteSet& alphabet);

  /// How many text tokens contain `byte`.
  [[nodiscard]] std::uint32_t count_with(std::uint8_t byte) const { return counts_[byte]; }
  /// The text tokens, as a mask.
  [[nodiscard]] const std::vector<std::uint32_t>& text_tokens() const { return text_tokens_; }
  /// The tokens that have a byte beyond ASCII.
  [[nodiscard]] const vocab::TokenTrie& beyond_ascii();

  // ---- Parts of masks, for scanners in states of equal keys ------------------------------------

  using Bits = std::vector<std::uint64_t>;
  /// The tokens after which a lexeme continues.
  using Insides = BoundedCache<regex::Fingerprint, TokenSet>;
  [[nodiscard]] Insides& insides() { return insides_; }
  /// The tokens of a border, by index, whose first part ends a lexeme.
  struct ClosingKey {
    regex::Fingerprint language;
    const Border* border;
    auto operator<=>(const ClosingKey&) const = default;
  };
  using Closings = BoundedCache<ClosingKey, Bits>;
  [[nodiscard]] Closings& closings() { return closings_; }
  /// For the subtree of a trie's node, in a lexeme that begins there: the tokens that stay inside
  /// it, and the nodes at which it ends with the text read so far.
  struct Opening {
    struct End {
      std::uint32_t node;
      std::string text;
    };
    std::vector<vocab::TokenId> inside;
    std::vector<End> ends;
    [[nodiscard]] std::size_t memory_bytes() const {
      return inside.capacity() * sizeof(vocab::TokenId) + ends.capacity() * sizeof(End);
    }
  };
  struct OpeningKey {
    regex::Fingerprint language;
    const vocab::TokenTrie* trie;
    std::uint32_t node;
    auto operator<=>(const OpeningKey&) const = default;
  };
  using Openings = BoundedCache<OpeningKey, Opening>;
  [[nodiscard]] Openings& openings() { return openings_; }

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  struct Kept {
    std::shared_ptr<const Quotient> quotient;
    std::uint64_t last_use;
    [[nodiscard]] std::uint32_t nodes() const { return quotient->trie.node_count(); }
  };
  std::shared_ptr<const Quotient> keep(std::shared_ptr<const Quotient> quotient);
  [[nodiscard]] std::shared_ptr<const Quotient> make_quotient(vocab::TokenTrie trie,
                                                              const vocab::ByteClasses& canonical);
  [[nodiscard]] std::shared_ptr<const Quotient> coarser(const Quotient& from,
                                                        const vocab::ByteClasses& canonical);

  std::shared_ptr<const vocab::Vocab> vocab_;
  Border quotes_;
  vocab::TokenTrie long_tokens_;
  std::vector<Characters> characters_below_;
  std::vector<std::uint32_t> text_tokens_;
  std::array<std::uint32_t, 256> counts_{};
  mutable std::mutex mutex_;  // guards the next seven members
  std::array<std::unique_ptr<const vocab::TokenTrie>, 256> containing_;
  std::vector<Kept> quotients_;
  std::unique_ptr<const PlainHeights> plain_heights_;
  std::unique_ptr<const vocab::TokenTrie> beyond_ascii_;
  std::uint64_t uses_ = 0;
  std::map<std::array<std::uint8_t, 256>, int> asked_;  // for partitions that have no quotient of
                                                        // their own
  std::map<std::array<std::uint64_t, 4>, std::unique_ptr<const Border>> borders_;
  Insides insides_;
  Closings closings_;
  Openings openings_;
};

}  // namespace tenon::grammar
