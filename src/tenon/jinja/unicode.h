#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What Python's str methods know about characters (Unicode 14, as in Python 3.11), and walking
/// over text by code point.
namespace tenon::jinja::unicode {

// Flags of a character.
inline constexpr std::uint16_t kAlpha = 1 << 0;
inline constexpr std::uint16_t kDecimal = 1 << 1;
inline constexpr std::uint16_t kDigit = 1 << 2;
inline constexpr std::uint16_t kNumeric = 1 << 3;
inline constexpr std::uint16_t kSpace = 1 << 4;
inline constexpr std::uint16_t kUpper = 1 << 5;
inline constexpr std::uint16_t kLower = 1 << 6;
inline constexpr std::uint16_t kTitle = 1 << 7;
inline constexpr std::uint16_t kPrintable = 1 << 8;
inline constexpr std::uint16_t kIdStart = 1 << 9;
inline constexpr std::uint16_t kIdContinue = 1 << 10;
inline constexpr std::uint16_t kCased = 1 << 11;
inline constexpr std::uint16_t kIgnorable = 1 << 12;

struct Record {
  std::uint16_t flags;
  std::uint8_t decimal;  // value of a decimal digit
  std::int32_t upper, lower, title, fold;
};

[[nodiscard]] const Record& record(char32_t point);
[[nodiscard]] inline bool is(char32_t point, std::uint16_t flags) {
  return (record(point).flags & flags) != 0;
}
[[nodiscard]] inline bool is_space(char32_t point) {
  if (point < 0x80)
    return point == ' ' || (point >= 9 && point <= 13) || (point >= 28 && point <= 31);
  return is(point, kSpace);
}

/// Returns the character at `at` and moves `at` behind it. A byte that begins no valid character
/// counts as a character of its own.
[[nodiscard]] char32_t next_wide(std::string_view text, std::size_t& at);  // for bytes beyond ASCII
[[nodiscard]] inline char32_t next(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte >= 0x80) return next_wide(text, at);
  ++at;
  return byte;
}
[[nodiscard]] inline bool next_is_space(std::string_view text, std::size_t& at) {
  return is_space(next(text, at));
}
/// Returns the character that ends at `at` and moves `at` to its beginning.
[[nodiscard]] char32_t previous_wide(std::string_view text, std::size_t& at);
[[nodiscard]] inline char32_t previous(std::string_view text, std::size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at - 1]);
  if (byte >= 0x80) return previous_wide(text, at);
  --at;
  return byte;
}

/// Where `wanted` begins in `text` at or after `from`, or npos. Linear even if much of `wanted`
/// matches again and again, unlike std::string_view::find.
[[nodiscard]] std::size_t find(std::string_view text, std::string_view wanted,
                               std::size_t from = 0);
/// Where the last `wanted` in `text` begins, or npos. Also linear.
[[nodiscard]] std::size_t find_last(std::string_view text, std::string_view wanted);

[[nodiscard]] bool is_ascii(std::string_view text);
[[nodiscard]] std::size_t length(std::string_view text);
/// Byte offset of code point `index`, counted from byte `from`; text.size() if there are fewer.
[[nodiscard]] std::size_t offset(std::string_view text, std::size_t index, std::size_t from = 0);

enum class Case : std::uint8_t { upper, lower, title, fold };

/// Appends `point` in the given case. The caller must handle the lower case of a final sigma.
void append_mapped(std::string& out, char32_t point, Case to);

/// The code point that Unicode calls `name` in `\N{name}`, for the blocks that prompts are likely
/// to use; 0 for other names.
[[nodiscard]] char32_t by_name(std::string_view name);

}  // namespace tenon::jinja::unicode
