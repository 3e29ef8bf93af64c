#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/vocab/token_trie.h"
#include "tenon/vocab/vocab.h"

namespace tenon::grammar {

/// What all grammars over one vocabulary share: its trie, and parts and quotients of it, made when
/// first asked for. Thread-safe; what it hands out lives as long as it does.
class VocabIndex {
 public:
  explicit VocabIndex(std::shared_ptr<const vocab::Vocab> vocab) : vocab_(std::move(vocab)) {}

  [[nodiscard]] const vocab::Vocab& vocab() const { return *vocab_; }
  /// The trie of the text tokens that contain `byte`.
  [[nodiscard]] const vocab::TokenTrie& containing(std::uint8_t byte);
  struct Quotient {
    vocab::ByteClasses classes;
    std::array<std::uint8_t, 256> representative{};  ///< class -> one of its bytes
    vocab::TokenTrie trie;
  };
  /// The quotient by `classes` or by a partition at hand that refines it. Costs milliseconds the
  /// first time.
  [[nodiscard]] const Quotient& quotient(const vocab::ByteClasses& classes);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  std::shared_ptr<const vocab::Vocab> vocab_;
  mutable std::mutex mutex_;  // guards the two below
  std::array<std::unique_ptr<const vocab::TokenTrie>, 256> containing_;
  std::vector<std::unique_ptr<const Quotient>> quotients_;
};

}  // namespace tenon::grammar
