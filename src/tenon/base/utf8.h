#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
namespace tenon::utf8 {

struct Decoded {
  char32_t code_point = 0;
  std::uint8_t length = 0;  ///< Bytes used; 0: `text` does not begin with a whole, valid character.
};

/// What a first byte says about its character. Only the second byte has limits of its own; later
/// bytes are 0x80 to 0xBF (Unicode, table 3-7).
struct Lead {
  std::uint8_t length = 0;  ///< Bytes of the character; 0: no character begins with this byte.
  std::uint8_t least_second = 0x80;
  std::uint8_t most_second = 0xBF;
};

[[nodiscard]] constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

/// The first character of `text`.
[[nodiscard]] Decoded decode(std::string_view text);
/// Appends `code_point`, or U+FFFD for a surrogate or a value above U+10FFFF.
void append(std::string& out, char32_t code_point);
/// The first byte that is not part of a valid character, or text.size().
[[nodiscard]] std::size_t valid_prefix(std::string_view text);
[[nodiscard]] inline bool is_valid(std::string_view text) {
  return valid_prefix(text) == text.size();
}
/// How many bytes (0 to 3) at the end of `text` begin a character that may yet become valid.
[[nodiscard]] std::size_t open_tail(std::string_view text);
/// Code points in `text`; an invalid byte counts as one.
[[nodiscard]] std::size_t length(std::string_view text);
/// `text` with every byte that is not valid replaced as the WHATWG decoder does, by U+FFFD per
/// maximal subpart.
[[nodiscard]] std::string sanitized(std::string_view text);

/// Makes valid UTF-8 of bytes that are cut anywhere: a character is passed on once it is whole, and
/// what can never become valid turns into U+FFFD. Where the cuts fall does not change the output.
class Sanitizer {
 public:
  /// Appends what is certain so far to `out`.
  void feed(std::string_view bytes, std::string& out);
  /// Call it at the end of the bytes: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string tail_;
};

}  // namespace tenon::utf8
