#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::grammar {

/// 64-bit keys to 32-bit values: open addressing, no erasure, one cache line per look-up. The memos
/// of the machine are asked once per trie node, which is why this is no std::unordered_map
/// (which takes about five times as long).
class IntMap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;  ///< Never a value.

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = hash(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].value == kNone) return kNone;
      if (slots_[i].key == key) return slots_[i].value;
    }
  }

  /// `key` must not be there yet.
  void insert(std::uint64_t key, std::uint32_t value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    place({key, value});
    ++size_;
  }

  [[nodiscard]] std::size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t value = kNone;
  };

  // The finalizer of MurmurHash3: keys are small numbers side by side.
  static std::size_t hash(std::uint64_t key) {
    key = (key ^ (key >> 33U)) * 0xFF51AFD7ED558CCDULL;
    key = (key ^ (key >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
    return key ^ (key >> 33U);
  }
  void place(Slot slot) {
    std::size_t i = hash(slot.key) & mask_;
    while (slots_[i].value != kNone) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.value != kNone) place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half used
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

/// Numbers of things by what the things are: open addressing, no erasure. The things themselves are
/// kept by the owner, who also hashes and compares them.
class IdIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;  ///< Never a number.

  /// `is_it(id)`: the thing of this number is the one that is looked for.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsIt is_it) const {
    if (slots_.empty()) return kNone;
    const auto low = static_cast<std::uint32_t>(hash);
    for (std::size_t i = low & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].id == kNone) return kNone;
      if (slots_[i].hash == low && is_it(slots_[i].id)) return slots_[i].id;
    }
  }

  /// The thing must not be there yet.
  void insert(std::uint64_t hash, std::uint32_t id) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    place({static_cast<std::uint32_t>(hash), id});
    ++size_;
  }

  [[nodiscard]] std::size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t id = kNone;
  };

  void place(Slot slot) {
    std::size_t i = slot.hash & mask_;
    while (slots_[i].id != kNone) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.id != kNone) place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half used
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tenon::grammar
