#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

/// Functions that the parser, the lexer and the writers share. Not for other layers.
namespace tenon::json::detail {

/// True for bytes that are a character by themselves and that a JSON string may hold unescaped.
constexpr bool is_plain(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value >= 0x20 && value < 0x80 && byte != '"' && byte != '\\';
}

/// The number of plain bytes at the beginning of `text`, found eight at a time.
inline std::size_t plain_prefix(std::string_view text) {
  std::size_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    constexpr std::uint64_t kHighs = 0x8080808080808080U;
    for (; i + 8 <= text.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, 8);
      // A byte's high bit is set if the byte is special. A borrow can set other bits falsely, but
      // only above the first true one, and only the first is read.
      const std::uint64_t quote = word ^ (kOnes * '"');
      const std::uint64_t backslash = word ^ (kOnes * '\\');
      const std::uint64_t special =
          (((word - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & ~word & kHighs) |
          (word & kHighs);
      if (special != 0) return i + static_cast<std::size_t>(std::countr_zero(special)) / 8;
    }
  }
  while (i < text.size() && is_plain(text[i])) ++i;
  return i;
}

constexpr bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

constexpr bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

/// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

}  // namespace tenon::json::detail
