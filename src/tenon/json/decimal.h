#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon::json {

/// The value of a number's text as (-1)^negative * digits * 10^exponent. The digits have no zeros
/// at either end, so two numbers are equal exactly if these parts are equal; zero has no digits. It
/// is a view of the text, which must outlive it.
///
///     const Decimal price = decimal_of("12.50");   // digits 125, exponent -1
///     if (compare(price, decimal_of("1e1")) > 0) ...
struct Decimal {
  /// Exponents are capped at this value and never computed with beyond it; 10^18 leaves room to add
  /// the length of any text.
  static constexpr std::int64_t kMostExponent = 1'000'000'000'000'000'000;

  bool negative = false;
  std::string_view whole;  ///< The text before '.', then the text after it.
  std::string_view fraction;
  std::size_t first = 0;  ///< Digits are [first, last) of whole + fraction.
  std::size_t last = 0;
  std::int64_t exponent = 0;  ///< The exponent of the last digit, at most +-kMostExponent.
  std::string_view huge;      ///< The exponent's digits, if the exponent was capped.

  [[nodiscard]] std::size_t size() const { return last - first; }
  [[nodiscard]] bool is_zero() const { return first == last; }
  [[nodiscard]] bool is_integer() const { return is_zero() || exponent >= 0; }
  /// The i-th of the size() digits, as a character.
  [[nodiscard]] char digit(std::size_t i) const {
    i += first;
    return i < whole.size() ? whole[i] : fraction[i - whole.size()];
  }
};

/// `text` must be a number by RFC 8259.
[[nodiscard]] Decimal decimal_of(std::string_view text);

/// Compares exactly, without arithmetic in the numbers' size. Only exponents of more than 18 digits
/// are compared by their text.
[[nodiscard]] std::strong_ordering compare(const Decimal& a, const Decimal& b);

}  // namespace tenon::json
