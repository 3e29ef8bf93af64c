#include "tenon/grammar/vocab_index.h"

#include <utility>

namespace tenon::grammar {

using vocab::ByteClasses;
using vocab::TokenId;
using vocab::TokenTrie;

namespace {

// A finer partition costs more nodes at every walk, so only one that is not much finer will do.
constexpr unsigned kFinerBy = 8;

}  // namespace

const TokenTrie& VocabIndex::containing(std::uint8_t byte) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const TokenTrie>& slot = containing_[byte];
  if (!slot) {
    std::vector<TokenTrie::Entry> entries;
    for (std::size_t i = 0; i < vocab_->size(); ++i) {
      const TokenId id = static_cast<TokenId>(i);
      if (vocab_->kind(id) != vocab::Token::Kind::text) continue;
      if (vocab_->bytes(id).find(static_cast<char>(byte)) != std::string_view::npos) {
        entries.push_back({vocab_->bytes(id), id});
      }
    }
    slot = std::make_unique<const TokenTrie>(std::move(entries));
  }
  return *slot;
}

const VocabIndex::Quotient& VocabIndex::quotient(const ByteClasses& classes) {
  const std::lock_guard lock(mutex_);
  const Quotient* best = nullptr;
  for (const auto& quotient : quotients_) {
    if (quotient->classes.count <= classes.count + kFinerBy && quotient->classes.refines(classes) &&
        (best == nullptr || quotient->trie.node_count() < best->trie.node_count())) {
      best = quotient.get();
    }
  }
  if (best != nullptr) return *best;
  const ByteClasses canonical = classes.canonical();
  std::array<std::uint8_t, 256> representative{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (canonical.of[byte] != ByteClasses::kNone) {
      representative[canonical.of[byte]] = static_cast<std::uint8_t>(byte);
    }
  }
  quotients_.push_back(std::make_unique<const Quotient>(
      Quotient{canonical, representative, vocab_->trie().quotient(canonical)}));
  return *quotients_.back();
}

std::size_t VocabIndex::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& trie : containing_) bytes += trie ? trie->memory_bytes() : 0;
  for (const auto& quotient : quotients_) bytes += quotient->trie.memory_bytes();
  return bytes;
}

}  // namespace tenon::grammar
