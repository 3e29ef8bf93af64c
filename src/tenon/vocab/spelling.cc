#include "tenon/vocab/spelling.h"

#include "tenon/base/utf8.h"

namespace tenon::vocab {
namespace {

// GPT-2's printable bytes stand for themselves, and the other 68 for U+0100 and up, in order.
// Source: https://github.com/openai/gpt-2/blob/master/src/encoder.py (bytes_to_unicode)
constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::size_t kAlphabet = 256 + 68;

// By code point; -1: the alphabet does not have it.
constexpr std::array<std::int16_t, kAlphabet> bytes_of_characters() {
  std::array<std::int16_t, kAlphabet> table{};
  table.fill(-1);
  std::size_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[is_itself(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return table;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

// "Ġhello" is " hello"; nothing if a character is not in the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static constexpr auto kBytes = bytes_of_characters();
  std::string bytes;
  while (!text.empty()) {
    const utf8::Decoded character = utf8::decode(text);
    if (character.length == 0 || character.code_point >= kAlphabet) return std::nullopt;
    const std::int16_t byte = kBytes[character.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    text.remove_prefix(character.length);
  }
  return bytes;
}

// "<0x0A>" is 10. Only capitals, as SentencePiece writes them.
std::optional<std::uint8_t> byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

// `what` must not be empty.
std::string with_replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what)) {
    result.append(text.substr(0, at)).append(with);
    text.remove_prefix(at + what.size());
  }
  return result.append(text);
}

// RFC 4648, with padding.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 4; ++j) {
      // The padding counts as zeros; its bytes are cut off at the end.
      const int digit = j + padding >= text.size() ? 0 : base64_digit(text[j]);
      if (digit < 0) return std::nullopt;
      group = group << 6U | static_cast<std::uint32_t>(digit);
    }
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(group >> shift & 0xFFU);
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

// All 256, or nothing: a text could not be written with some of them.
std::optional<std::array<TokenId, 256>> byte_tokens(const std::vector<std::string>& texts) {
  std::array<TokenId, 256> tokens{};
  tokens.fill(-1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (const auto byte = byte_of_name(texts[i])) tokens[*byte] = static_cast<TokenId>(i);
  }
  for (const TokenId token : tokens) {
    if (token < 0) return std::nullopt;
  }
  return tokens;
}

}  // namespace tenon::vocab
