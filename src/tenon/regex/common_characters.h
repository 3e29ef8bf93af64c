#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/regex/byte_set.h"

namespace tenon::regex {

/// Characters beyond ASCII that patterns rarely distinguish: letters and signs of two or three
/// bytes, without spaces, controls and private use. If an automaton does not distinguish them, text
/// is read one character at a time instead of one byte at a time.
struct Utf8Range {
  std::uint8_t first;
  std::uint8_t last;
};
/// Sequences of bytes, one range for each byte. Together they are the encodings of all common
/// characters.
[[nodiscard]] std::span<const std::span<const Utf8Range>> common_characters();

/// The number of bytes of the common character at the beginning of `text`; 0: `text` does not begin
/// with one.
[[nodiscard]] std::size_t common_character_length(std::string_view text);

/// Printable characters of ASCII except the quote and the backslash: those that a JSON string may
/// hold unescaped.
[[nodiscard]] constexpr ByteSet plain_characters() {
  return ByteSet::range(0x20, 0x7E) & ~(ByteSet::of('"') | ByteSet::of('\\'));
}

}  // namespace tenon::regex
