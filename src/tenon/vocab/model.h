#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/prefix_search.h"
#include "tenon/vocab/string_table.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// The part of a tokenizer that knows the tokens: it turns one piece of text, as the pre-tokenizer
/// cut it, into ids. Immutable, hence thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `piece`. Fails with `invalid` at a character that the vocabulary does not
  /// have.
  [[nodiscard]] virtual Status encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
};

/// What a model does with a character that has no token.
struct Fallback {
  /// The tokens of the bytes ("<0x0A>"): all or none of them.
  std::optional<std::array<TokenId, 256>> bytes;
  std::optional<TokenId> unknown;
  bool fuses_unknown = false;  ///< A run of unknown characters is one token.
};

/// Byte pair encoding: the characters of a piece (or its bytes) become tokens. As long as two
/// neighbours are a pair of the merges, the pair with the least rank, the leftmost first, becomes
/// one token. A piece of n symbols costs O(n log n).
/// Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units (2016).
class BpeModel final : public Model {
 public:
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
    std::uint32_t rank;  ///< Below kNoRank.
  };
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  struct Options {
    bool of_bytes = false;       ///< Begins with bytes instead of characters.
    bool prefers_whole = false;  ///< A piece that is a token becomes that token, whatever the
                                 ///< merges say.
    Fallback fallback;
  };

  /// `texts` finds the tokens that a piece may become. If a pair has two merges, the later one
  /// counts.
  BpeModel(StringTable texts, const std::vector<Merge>& merges, const Options& options);

  [[nodiscard]] Status encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  struct Symbol {
    TokenId id;  // kGone once it is part of the symbol before it
    std::uint32_t previous;
    std::uint32_t next;
    std::uint32_t rank;  // of the pair of this symbol and the next
    TokenId result;      // the token that they become
  };
  struct Slot {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = kNoRank;
    TokenId result = 0;
  };
  static constexpr TokenId kGone = -1;
  static constexpr std::size_t kFew = 32;
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  static std::uint64_t pair_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const {
    return static_cast<std::size_t>((pair ^ seed_) * factor_ >> shift_);
  }
  [[nodiscard]] const Slot& merge_of(TokenId left, TokenId right) const;
  [[nodiscard]] Status begin(std::string_view piece, std::vector<TokenId>& ids) const;
  void merge_few(std::vector<TokenId>& ids, std::size_t begin) const;
  void merge_many(std::vector<TokenId>& ids, std::size_t begin) const;

  StringTable texts_;
  Options options_;
  std::array<TokenId, 256> ascii_;  // of single bytes, or of characters below 128; kGone: no token
  std::uint64_t seed_;  // random per process, so that an attacker cannot choose pairs that collide
  std::uint64_t factor_;
  unsigned shift_ = 0;
  std::vector<Slot> slots_;  // by pair; a power of two, at most 3/4 used
};

/// The merges of a vocabulary that lists none: any two tokens whose texts make up a third token, in
/// the order of the third token's `rank`. `whole_characters`: tokens are cut between characters
/// only. Fails with `limit_exceeded` if the squares of the tokens' lengths add up to more than
/// 2^32, a hundred times what the largest vocabularies need.
[[nodiscard]] Expected<std::vector<BpeModel::Merge>> merges_by_text(
    const StringTable& texts, bool whole_characters,
    const std::function<std::uint32_t(TokenId)>& rank);

/// The unigram language model: of all ways to cut a piece into tokens, the one with the greatest
/// sum of scores. A piece of n bytes costs O(n * longest token).
/// Kudo: Subword Regularization (2018), section 3.2.
class UnigramModel final : public Model {
 public:
  /// `scores` are log-probabilities, by id. `texts` finds the tokens that may be used.
  UnigramModel(StringTable texts, std::vector<double> scores, const Fallback& fallback);

  [[nodiscard]] Status encode(std::string_view piece, std::vector<TokenId>& ids) const override;

 private:
  [[nodiscard]] Status append_unknown(std::string_view text, std::vector<TokenId>& ids) const;

  StringTable texts_;
  std::vector<double> scores_;
  Fallback fallback_;
  double unknown_score_;
  PrefixSearch search_;
};

}  // namespace tenon::vocab
