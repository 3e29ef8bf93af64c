#include "tenon/grammar/front/source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tenon/base/utf8.h"

namespace tenon::grammar {

bool Source::take(std::string_view text) {
  if (!rest().starts_with(text)) return false;
  at_ += text.size();
  return true;
}

std::optional<char32_t> Source::take_character() {
  const utf8::Decoded decoded = utf8::decode(rest());
  if (decoded.length == 0) return std::nullopt;
  at_ += decoded.length;
  return decoded.code_point;
}

std::optional<std::uint32_t> Source::take_hex(int digits) {
  std::uint32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at_) {
    const char c = peek();
    if (is_digit(c)) {
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      value = value * 16 + static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// It stops at the greatest number and does not wrap round: a huge count is never read as a small
// one.
std::optional<std::uint32_t> Source::take_number() {
  if (!is_digit(peek())) return std::nullopt;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t value = 0;
  for (; is_digit(peek()); ++at_) {
    value = std::min(kMax, value * 10 + static_cast<std::uint64_t>(peek() - '0'));
  }
  return static_cast<std::uint32_t>(value);
}

// Counts from the beginning of the text. There is one error for each grammar, so no positions are
// kept while reading.
Error Source::error_at(std::size_t at, std::string message, Errc code) const {
  const std::string_view before = text_.substr(0, at);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 on the first line
  const std::size_t column = 1 + utf8::length(before.substr(line_begin));
  return {.code = code,
          .message = "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
                     std::move(message),
          .line = static_cast<std::uint32_t>(line)};
}

std::string Source::here() const {
  if (is_at_end()) return "the end";
  if (peek() == '\n' || peek() == '\r') return "the end of the line";
  return "'" + std::string(rest().substr(0, utf8::decode(rest()).length)) + "'";
}

Status Source::check(std::size_t max_bytes) const {
  if (text_.size() > max_bytes) {
    return Unexpected(Error{Errc::limit_exceeded,
                            "the grammar has more than " + std::to_string(max_bytes) + " bytes"});
  }
  const std::size_t valid = utf8::valid_prefix(text_);
  if (valid != text_.size()) return Unexpected(error_at(valid, "the grammar is no valid UTF-8"));
  return {};
}

}  // namespace tenon::grammar
