#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon::jinja {

inline constexpr std::uint32_t kNoBuiltin = ~0U;

/// A hash table over the names of a list, which the compiler computes:
///
///     constexpr NameIndex<std::size(kRows)> kIndex(kRows, [](const Row& row) { return row.name;
///     }); const std::uint32_t number = kIndex.find(name);  // of the row, or kNoBuiltin
template <std::size_t N>
class NameIndex {
 public:
  constexpr explicit NameIndex(const std::string_view (&names)[N])
      : NameIndex(names, [](std::string_view name) { return name; }) {}
  template <class Row, class Name>
  constexpr NameIndex(const Row (&rows)[N], Name name_of) {
    static_assert(N < 255);
    for (std::size_t i = 0; i < N; ++i) {
      names_[i] = name_of(rows[i]);
      std::size_t slot = hash_of(names_[i]) % kSlots;
      while (slots_[slot] != 0) slot = (slot + 1) % kSlots;
      slots_[slot] = static_cast<std::uint8_t>(i + 1);
    }
  }

  /// The number of the row with this name, or kNoBuiltin.
  [[nodiscard]] std::uint32_t find(std::string_view name) const {
    for (std::size_t slot = hash_of(name) % kSlots; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
      if (names_[slots_[slot] - 1U] == name) return slots_[slot] - 1U;
    }
    return kNoBuiltin;
  }

 private:
  static constexpr std::size_t kSlots = 1024;

  static constexpr std::size_t hash_of(std::string_view name) {
    std::size_t hash = 2166136261U;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash ^ hash >> 13;
  }

  std::array<std::string_view, N> names_{};
  std::array<std::uint8_t, kSlots> slots_{};  // name number + 1
};

}  // namespace tenon::jinja
