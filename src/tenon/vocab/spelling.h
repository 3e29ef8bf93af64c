#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

/// How vocabulary files write tokens that are not text.
namespace tenon::vocab {

/// SentencePiece's space, U+2581.
inline constexpr std::string_view kLowerBlock = "\xE2\x96\x81";

/// More ids than any vocabulary has: the most that a file can make us allocate without holding the
/// bytes.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 22U;

/// Control characters that texts rarely have; some vocabularies have no token for them.
[[nodiscard]] constexpr bool is_rare_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
}

/// The bytes that a text of GPT-2's alphabet stands for. The alphabet has a printable character for
/// each byte ("Ġ" is the space). nullopt if a character is not of that alphabet.
[[nodiscard]] std::optional<std::string> from_byte_alphabet(std::string_view text);

/// The byte that "<0x0A>" stands for.
[[nodiscard]] std::optional<std::uint8_t> byte_of_name(std::string_view text);

/// `text` with every occurrence of `what` replaced.
[[nodiscard]] std::string with_replaced(std::string_view text, std::string_view what,
                                        std::string_view with);

/// RFC 4648, section 4, with padding required; nullopt for anything else.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// The tokens "<0x00>" to "<0xFF>" among `texts`, if all are there.
[[nodiscard]] std::optional<std::array<TokenId, 256>> byte_tokens(
    const std::vector<std::string>& texts);

}  // namespace tenon::vocab
