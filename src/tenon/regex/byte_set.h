#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenon::regex {

/// A set of bytes.
class ByteSet {
 public:
  constexpr ByteSet() = default;

  [[nodiscard]] static constexpr ByteSet range(std::uint8_t first, std::uint8_t last) {
    ByteSet set;
    for (unsigned byte = first; byte <= last; ++byte) set.insert(static_cast<std::uint8_t>(byte));
    return set;
  }
  [[nodiscard]] static constexpr ByteSet of(std::uint8_t byte) { return range(byte, byte); }
  [[nodiscard]] static constexpr ByteSet all() { return ~ByteSet{}; }

  constexpr void insert(std::uint8_t byte) { words_[byte >> 6] |= std::uint64_t{1} << (byte & 63); }
  [[nodiscard]] constexpr bool contains(std::uint8_t byte) const {
    return (words_[byte >> 6] >> (byte & 63) & 1) != 0;
  }
  [[nodiscard]] constexpr bool is_empty() const { return *this == ByteSet{}; }
  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t bytes = 0;
    for (const std::uint64_t word : words_) bytes += static_cast<std::size_t>(std::popcount(word));
    return bytes;
  }
  /// Words of 64 bytes each, from the lowest byte on.
  [[nodiscard]] constexpr const std::array<std::uint64_t, 4>& words() const { return words_; }

  constexpr ByteSet& operator|=(const ByteSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  constexpr ByteSet& operator&=(const ByteSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  friend constexpr ByteSet operator|(ByteSet a, const ByteSet& b) { return a |= b; }
  friend constexpr ByteSet operator&(ByteSet a, const ByteSet& b) { return a &= b; }
  friend constexpr ByteSet operator~(ByteSet a) {
    for (std::uint64_t& word : a.words_) word = ~word;
    return a;
  }
  constexpr bool operator==(const ByteSet&) const = default;

 private:
  std::array<std::uint64_t, 4> words_{};
};

}  // namespace tenon::regex
