#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::grammar {

/// What the two maps below share: open addressing, no erasure. Several entries may have one key.
template <class Key>
class OpenTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;  ///< Never a value.

  /// The value of an entry with this key for which `is_it(value)` holds. `hash` is of the key.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::size_t hash, Key key, IsIt is_it) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].value == kNone) return kNone;
      if (slots_[i].key == key && is_it(slots_[i].value)) return slots_[i].value;
    }
  }

  /// `hash_of`: the hash of any key.
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

  std::vector<Slot> slots_;  // a power of two of them, at most half used
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

/// 64-bit keys to 32-bit values, one cache line per look-up. The memos of the machine are asked
/// once per trie node, which is why this is no std::unordered_map (which takes about five times as
/// long).
class IntMap {
 public:
  static constexpr std::uint32_t kNone = OpenTable<std::uint64_t>::kNone;  ///< Never a value.

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    return table_.find(hash(key), key, [](std::uint32_t) { return true; });
  }
  /// `key` must not be there yet.
  void insert(std::uint64_t key, std::uint32_t value) { table_.insert(key, value, hash); }
  [[nodiscard]] std::size_t memory_bytes() const { return table_.memory_bytes(); }

 private:
  // The finalizer of MurmurHash3: keys are small numbers side by side.
  static std::size_t hash(std::uint64_t key) {
    key = (key ^ (key >> 33U)) * 0xFF51AFD7ED558CCDULL;
    key = (key ^ (key >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
    return key ^ (key >> 33U);
  }

  OpenTable<std::uint64_t> table_;
};

/// Numbers of things by what the things are. The things themselves are kept by the owner, who also
/// hashes and compares them.
class IdIndex {
 public:
  static constexpr std::uint32_t kNone = OpenTable<std::uint32_t>::kNone;  ///< Never a number.

  /// `is_it(id)`: the thing of this number is the one that is looked for.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsIt is_it) const {
    const auto low = static_cast<std::uint32_t>(hash);
    return table_.find(low, low, is_it);
  }
  /// The thing must not be there yet.
  void insert(std::uint64_t hash, std::uint32_t id) {
    table_.insert(static_cast<std::uint32_t>(hash), id, [](std::uint32_t low) { return low; });
  }
  [[nodiscard]] std::size_t memory_bytes() const { return table_.memory_bytes(); }

 private:
  OpenTable<std::uint32_t> table_;
};

}  // namespace tenon::grammar
