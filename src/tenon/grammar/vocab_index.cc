#include "tenon/grammar/vocab_index.h"

#include <initializer_list>
#include <string_view>
#include <utility>

namespace tenon::grammar {

using vocab::ByteClasses;
using vocab::TokenId;
using vocab::TokenTrie;

namespace {

// How often a partition is asked for before a quotient is made for it.
constexpr int kAsksBeforeMaking = 3;

// The bytes of JSON strings without quotes and escapes: what any pattern may tell apart of
// characters beyond ASCII is where they begin and end, and which of them UTF-8 allows.
ByteClasses text_classes() {
  ByteClasses classes;
  classes.of.fill(ByteClasses::kNone);
  unsigned next = 0;
  const auto add = [&](unsigned first, unsigned last) {
    for (unsigned byte = first; byte <= last; ++byte)
      classes.of[byte] = static_cast<std::uint8_t>(next);
    ++next;
  };
  add(0x20, 0x7F);
  classes.of['"'] = classes.of['\\'] = ByteClasses::kNone;
  for (const auto& [first, last] :
       std::initializer_list<std::pair<unsigned, unsigned>>{{0x80, 0x8F},
                                                            {0x90, 0x9F},
                                                            {0xA0, 0xBF},
                                                            {0xC2, 0xDF},
                                                            {0xE0, 0xE0},
                                                            {0xE1, 0xEF},
                                                            {0xED, 0xED},
                                                            {0xF0, 0xF0},
                                                            {0xF1, 0xF3},
                                                            {0xF4, 0xF4}}) {
    add(first, last);
  }
  classes.count = next;
  return classes.canonical();
}

// And what most patterns tell apart within ASCII.
ByteClasses rich_classes() {
  ByteClasses classes = text_classes();
  for (unsigned byte = 0x21; byte < 0x7F; ++byte) {
    if (byte == '"' || byte == '\\') continue;
    const auto own = [&](std::uint8_t group) {
      classes.of[byte] = static_cast<std::uint8_t>(32 + group);
    };
    if (byte >= '0' && byte <= '9') {
      own(0);
    } else if ((byte >= 'a' && byte <= 'f')) {
      own(1);
    } else if (byte >= 'A' && byte <= 'F') {
      own(2);
    } else if (byte >= 'g' && byte <= 'z') {
      own(3);
    } else if (byte >= 'G' && byte <= 'Z') {
      own(4);
    } else {
      own(static_cast<std::uint8_t>(5 + byte - 0x21));
    }
  }
  classes.count = 254;
  return classes.canonical();
}

// Where the string ends that `bytes` begin in; npos: it does not.
std::size_t closing_quote(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\\') {
      ++i;
    } else if (bytes[i] == '"') {
      return i;
    }
  }
  return std::string_view::npos;
}

VocabIndex::Quotes find_quotes(const vocab::Vocab& vocab) {
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> at_once;
  std::vector<TokenTrie::Entry> before;
  std::vector<TokenTrie::Entry> after;
  std::map<std::string_view, std::size_t> remainders{{"", 0}};
  std::vector<std::vector<std::uint32_t>> by_remainder(1);
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (vocab.kind(id) != vocab::Token::Kind::text) continue;
    const std::string_view bytes = vocab.bytes(id);
    const std::size_t quote = closing_quote(bytes);
    if (quote == std::string_view::npos) continue;
    const auto index = static_cast<std::uint32_t>(tokens.size());
    tokens.push_back(id);
    if (quote == 0) {
      at_once.push_back(index);
    } else {
      before.push_back({bytes.substr(0, quote), static_cast<TokenId>(index)});
    }
    const std::string_view rest = bytes.substr(quote + 1);
    const auto [place, is_new] = remainders.try_emplace(rest, by_remainder.size());
    if (is_new) {
      after.push_back({rest, static_cast<TokenId>(by_remainder.size())});
      by_remainder.emplace_back();
    }
    by_remainder[place->second].push_back(index);
  }
  return {std::move(tokens), TokenTrie(std::move(before)), std::move(at_once),
          TokenTrie(std::move(after)), std::move(by_remainder)};
}

}  // namespace

VocabIndex::VocabIndex(std::shared_ptr<const vocab::Vocab> vocab)
    : vocab_(std::move(vocab)), quotes_(find_quotes(*vocab_)) {
  make_quotient(text_classes());
  make_quotient(rich_classes());
}

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

const VocabIndex::Quotient* VocabIndex::quotient(const ByteClasses& classes) {
  const std::lock_guard lock(mutex_);
  const Quotient* best = nullptr;
  for (const auto& quotient : quotients_) {
    if (quotient->classes.refines(classes) &&
        (best == nullptr || quotient->trie.node_count() < best->trie.node_count())) {
      best = quotient.get();
    }
  }
  if (best != nullptr) return best;
  const ByteClasses canonical = classes.canonical();
  if (++asked_[canonical.of] < kAsksBeforeMaking) return nullptr;
  return &make_quotient(canonical);
}

const VocabIndex::Quotient& VocabIndex::make_quotient(const ByteClasses& canonical) {
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

std::shared_ptr<const VocabIndex::Common> VocabIndex::common(int state) const {
  const std::lock_guard lock(mutex_);
  const auto known = common_.find(state);
  return known == common_.end() ? nullptr : known->second;
}

void VocabIndex::keep_common(int state, std::shared_ptr<const Common> common) {
  const std::lock_guard lock(mutex_);
  common_.emplace(state, std::move(common));
}

std::size_t VocabIndex::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& trie : containing_) bytes += trie ? trie->memory_bytes() : 0;
  bytes += quotes_.before.memory_bytes() + quotes_.after.memory_bytes();
  for (const auto& quotient : quotients_) bytes += quotient->trie.memory_bytes();
  return bytes;
}

}  // namespace tenon::grammar
