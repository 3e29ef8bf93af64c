#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/regex/byte_set.h"

namespace tenon::regex {

/// Characters beyond ASCII that patterns hardly ever tell apart: letters and signs of two or three
/// bytes, no spaces, no controls, none of private use. Where an automaton does not, text is walked
/// by the character instead of by the byte.
struct Utf8Range {
  std::uint8_t first;
  std::uint8_t last;
};
/// Sequences of bytes, one range for each; together they spell every common character.
[[nodiscard]] std::span<const std::span<const Utf8Range>> common_characters();

/// How many bytes the common character has that `text` begins with; 0: it begins with none.
[[nodiscard]] std::size_t common_character_length(std::string_view text);

/// Printable characters of ASCII but for the quote and the backslash: what a JSON string may hold
/// as it is.
[[nodiscard]] constexpr ByteSet plain_characters() {
  return ByteSet::range(0x20, 0x7E) & ~(ByteSet::of('"') | ByteSet::of('\\'));
}

}  // namespace tenon::regex
