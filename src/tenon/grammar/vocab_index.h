#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/grammar/token_set.h"
#include "tenon/vocab/token_trie.h"
#include "tenon/vocab/vocab.h"

namespace tenon::grammar {

/// What all grammars over one vocabulary share: its trie, and parts and quotients of it, made when
/// first asked for. Thread-safe; what it hands out lives as long as it does.
class VocabIndex {
 public:
  explicit VocabIndex(std::shared_ptr<const vocab::Vocab> vocab);

  [[nodiscard]] const vocab::Vocab& vocab() const { return *vocab_; }
  /// The trie of the text tokens that contain `byte`.
  [[nodiscard]] const vocab::TokenTrie& containing(std::uint8_t byte);

  struct Quotient {
    vocab::ByteClasses classes;
    std::array<std::uint8_t, 256> representative{};  ///< class -> one of its bytes
    vocab::TokenTrie trie;
  };
  /// The smallest quotient at hand whose partition refines `classes`, or null. One that is asked
  /// for again and again is made, which costs milliseconds.
  [[nodiscard]] const Quotient* quotient(const vocab::ByteClasses& classes);

  /// The tokens that close a JSON string which they begin in: before the first quote that is not
  /// escaped, and after it.
  struct Quotes {
    std::vector<vocab::TokenId> tokens;  ///< by index, which stands for a token below
    vocab::TokenTrie before;             ///< indices, by what comes before the quote
    std::vector<std::uint32_t> at_once;  ///< indices with nothing before it
    vocab::TokenTrie after;              ///< numbers of remainders, by what comes after it
    std::vector<std::vector<std::uint32_t>> by_remainder;  ///< indices; 0: nothing comes after it
  };
  [[nodiscard]] const Quotes& quotes() const { return quotes_; }

  /// What Scanner::common_state numbers: the tokens after which the lexeme goes on, and those that
  /// close it, as bits over quotes().tokens. Null until somebody has kept it.
  struct Common {
    std::shared_ptr<const TokenSet> inside;
    std::vector<std::uint64_t> closing;
  };
  [[nodiscard]] std::shared_ptr<const Common> common(int state) const;
  void keep_common(int state, std::shared_ptr<const Common> common);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  const Quotient& make_quotient(const vocab::ByteClasses& canonical);

  std::shared_ptr<const vocab::Vocab> vocab_;
  Quotes quotes_;
  mutable std::mutex mutex_;  // guards what follows
  std::array<std::unique_ptr<const vocab::TokenTrie>, 256> containing_;
  std::vector<std::unique_ptr<const Quotient>> quotients_;
  std::map<int, std::shared_ptr<const Common>> common_;
  std::map<std::array<std::uint8_t, 256>, int> asked_;  // for partitions without one
};

}  // namespace tenon::grammar
