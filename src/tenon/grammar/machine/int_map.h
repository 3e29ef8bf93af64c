#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::grammar {

/// The common part of the two maps below: open addressing, without erasure. Several entries may
/// have the same key.
template <class Key>
class OpenTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;  ///< Never a value.

  /// The value of an entry with this key for which `is_it(value)` is true. `hash` is the hash of
  /// the key.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::size_t hash, Key key, IsIt is_it) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].value == kNone) return kNone;
      if (slots_[i].key == key && is_it(slots_[i].value)) return slots_[i].value;
    }
  }

  /// `hash_of` returns the hash of a key.
  template <class HashOf>
  void insert(Key key, std::uint32_t value, HashOf hash_of) {
    if (2 * (size_ + 1) > slots_.size()) {
      std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
      old.swap(slots_);
      mask_ = slots_.size() - 1;
      for (const Slot& slot : old) {
        if (slot.value != kNone) place(hash_of(slot.key), slot);
      }
    }
    place(hash_of(key), {key, value});
    ++size_;
  }

  [[nodiscard]] std::size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    Key key = 0;
    std::uint32_t value = kNone;
  };

  void place(std::size_t hash, Slot slot) {
    std::size_t i = hash & mask_;
    while (slots_[i].value != kNone) i = (i + 1) & mask_;
    slots_[i] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

/// 64-bit keys to 32-bit values, with one cache line per look-up. The machine's memos are asked
/// once per trie node; std::unordered_map takes about five times as long.
class IntMap {
 public:
  static constexpr std::uint32_t kNone = OpenTable<std::uint64_t>::kNone;  ///< Never a value.

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    return table_.find(hash(key), key, [](std::uint32_t) { return true; });
  }
  /// The map must not contain `key` yet.
  void insert(std::uint64_t key, std::uint32_t value) { table_.insert(key, value, hash); }
  [[nodiscard]] std::size_t memory_bytes() const { return table_.memory_bytes(); }

 private:
  // The finalizer of MurmurHash3, because keys are small consecutive numbers.
  static std::size_t hash(std::uint64_t key) {
    key = (key ^ (key >> 33U)) * 0xFF51AFD7ED558CCDULL;
    key = (key ^ (key >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
    return key ^ (key >> 33U);
  }

  OpenTable<std::uint64_t> table_;
};

/// Finds the number of a thing by its content. The owner keeps, hashes and compares the things.
class IdIndex {
 public:
  static constexpr std::uint32_t kNone = OpenTable<std::uint32_t>::kNone;  ///< Never a number.

  /// `is_it(id)` returns whether the thing with this number is the one looked for.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsIt is_it) const {
    const auto low = static_cast<std::uint32_t>(hash);
    return table_.find(low, low, is_it);
  }
  /// The index must not contain the thing yet.
  void insert(std::uint64_t hash, std::uint32_t id) {
    table_.insert(static_cast<std::uint32_t>(hash), id, [](std::uint32_t low) { return low; });
  }
  [[nodiscard]] std::size_t memory_bytes() const { return table_.memory_bytes(); }

 private:
  OpenTable<std::uint32_t> table_;
};

}  // namespace tenon::grammar
