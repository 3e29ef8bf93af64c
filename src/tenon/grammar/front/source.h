#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"

namespace tenon::grammar {

/// A grammar's text while it is read: a place in it, and errors that name places.
class Source {
 public:
  /// `text` outlives this.
  explicit Source(std::string_view text) : text_(text) {}

  [[nodiscard]] bool is_at_end() const { return at_ == text_.size(); }
  /// The byte `ahead` of the place; NUL behind the end.
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] std::size_t at() const { return at_; }
  void move_to(std::size_t at) { at_ = at; }
  void skip(std::size_t bytes = 1) { at_ = std::min(at_ + bytes, text_.size()); }
  /// Skips `text` if it is here.
  [[nodiscard]] bool take(std::string_view text);
  /// The bytes from here on as long as `is_wanted` says so.
  template <class F>
  std::string_view take_while(F is_wanted) {
    const std::size_t begin = at_;
    while (!is_at_end() && is_wanted(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// One character; none at the end. The text is valid UTF-8.
  [[nodiscard]] std::optional<char32_t> take_character();
  /// The value of `digits` hexadecimal digits; none where there are fewer.
  [[nodiscard]] std::optional<std::uint32_t> take_hex(int digits);
  /// A decimal number; the greatest one where it does not fit, none where there is no digit.
  [[nodiscard]] std::optional<std::uint32_t> take_number();

  /// "line 3, column 7: " and `message`, with Errc::invalid. Columns count characters from 1.
  [[nodiscard]] Error error(std::string message) const { return error_at(at_, std::move(message)); }
  [[nodiscard]] Error error_at(std::size_t at, std::string message,
                               Errc code = Errc::invalid) const;
  /// What is here, for a message: "'x'", or "the end".
  [[nodiscard]] std::string here() const;
  /// Fails if the text is no UTF-8 or has more than `max_bytes`.
  [[nodiscard]] Status check(std::size_t max_bytes) const;

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace tenon::grammar
