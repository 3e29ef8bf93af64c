#include <charconv>
#include <cmath>
#include <limits>

#include "tenon/json/decimal.h"
#include "tenon/json/number_text.h"
#include "tenon/json/scan.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

// Reads "+12" or "-0003". An exponent of more than 18 digits, which does not fit, is kept as text
// (huge) beside the greatest one.
void read_exponent(std::string_view text, Decimal& number) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  while (text.starts_with('0')) text.remove_prefix(1);
  if (text.size() > 18) {
    number.huge = text;
    number.exponent = negative ? -Decimal::kMostExponent : Decimal::kMostExponent;
    return;
  }
  std::int64_t value = 0;
  for (const char digit : text) value = value * 10 + (digit - '0');
  number.exponent = negative ? -value : value;
}

// Compares two positive numbers.
std::strong_ordering compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.huge != b.huge) {
    // 1 is beyond all ordinary exponents, -1 below them all, and 0 is ordinary.
    const auto level = [](const Decimal& number) {
      return number.huge.empty() ? 0 : number.exponent > 0 ? 1 : -1;
    };
    if (level(a) != level(b)) return level(a) <=> level(b);
    // Without leading zeros the longer of two texts of digits is the larger number. Where both are
    // negative, the larger is the smaller value.
    const bool longer =
        a.huge.size() != b.huge.size() ? a.huge.size() > b.huge.size() : a.huge > b.huge;
    return longer == (level(a) > 0) ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  // The place of the first digit: 12.5 and 99 both have 2 digits before the point. Only for equal
  // places are digits compared.
  const auto order_a = a.exponent + static_cast<std::int64_t>(a.size());
  const auto order_b = b.exponent + static_cast<std::int64_t>(b.size());
  if (order_a != order_b) return order_a <=> order_b;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a.digit(i) != b.digit(i)) return a.digit(i) <=> b.digit(i);
  }
  return a.size() <=> b.size();
}

}  // namespace

Decimal decimal_of(std::string_view text) {
  Decimal number;
  number.negative = text.starts_with('-');
  if (number.negative) text.remove_prefix(1);
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    read_exponent(text.substr(e + 1), number);
    text = text.substr(0, e);
  }
  const std::size_t point = text.find('.');
  number.whole = text.substr(0, point);
  if (point != std::string_view::npos) number.fraction = text.substr(point + 1);

  number.last = number.whole.size() + number.fraction.size();
  const auto is_zero_at = [&number](std::size_t i) {
    return (i < number.whole.size() ? number.whole[i] : number.fraction[i - number.whole.size()]) ==
           '0';
  };
  // Zeros at both ends: 0.0500 has the digit 5 with the exponent -2.
  while (number.first < number.last && is_zero_at(number.first)) ++number.first;
  while (number.last > number.first && is_zero_at(number.last - 1)) --number.last;
  number.exponent +=
      static_cast<std::int64_t>(number.whole.size()) - static_cast<std::int64_t>(number.last);
  return number;
}

std::strong_ordering compare(const Decimal& a, const Decimal& b) {
  const int sign_a = a.is_zero() ? 0 : a.negative ? -1 : 1;
  const int sign_b = b.is_zero() ? 0 : b.negative ? -1 : 1;
  if (sign_a != sign_b || sign_a == 0) return sign_a <=> sign_b;
  return sign_a > 0 ? compare_magnitudes(a, b) : compare_magnitudes(b, a);
}

std::optional<std::int64_t> Number::to_int64() const {
  const Decimal number = decimal_of(text);
  if (number.is_zero()) return 0;
  constexpr std::int64_t kMostDigits = 19;  // 2^63 has 19
  if (number.exponent < 0 || number.exponent > kMostDigits ||
      static_cast<std::int64_t>(number.size()) + number.exponent > kMostDigits) {
    return std::nullopt;
  }
  // The value is made negative because -2^63 has no positive counterpart. 19 digits may exceed
  // 2^63, but not 2^64, so it is built without a sign first.
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < number.size(); ++i) {
    value = value * 10 + static_cast<std::uint64_t>(number.digit(i) - '0');
  }
  for (std::int64_t i = 0; i < number.exponent; ++i) value *= 10;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (value > kMost || (value == kMost && !number.negative)) return std::nullopt;
  return static_cast<std::int64_t>(number.negative ? 0 - value : value);
}

double Number::to_double() const {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ec != std::errc::result_out_of_range) return value;

  const Decimal number = decimal_of(text);
  // from_chars does not say whether a number is too large or too near to zero.
  const bool is_large = number.exponent + static_cast<std::int64_t>(number.size()) > 0;
  value = is_large ? std::numeric_limits<double>::infinity() : 0.0;
  return number.negative ? -value : value;
}

bool Number::is_integer() const {
  return decimal_of(text).is_integer();
}

bool Number::equals(const Number& other) const {
  return text == other.text || compare(decimal_of(text), decimal_of(other.text)) == 0;
}

namespace detail {

void append_python_float(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("NaN");
    return;
  }
  if (std::signbit(value)) out.push_back('-');
  if (std::isinf(value)) {
    out.append("Infinity");
    return;
  }
  // to_chars gives "d.ddde[+-]xx" with the shortest digits; Python has the same digits in another
  // layout.
  char buffer[32];
  char* const buffer_end = buffer + sizeof buffer;
  const char* const end =
      std::to_chars(buffer, buffer_end, std::fabs(value), std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(buffer + e + 2, end, exponent);
  if (text[e + 1] == '-') exponent = -exponent;
  std::string digits(1, text[0]);
  if (e > 2) digits.append(text.substr(2, e - 2));

  // Python's repr changes to an exponent here: 1e-05 and 1e+16, but 0.0001 and 1000000000000000.0.
  if (exponent < -4 || exponent >= 16) {
    out.push_back(digits[0]);
    if (digits.size() > 1) out.append(".").append(digits, 1);
    out.append(text.substr(e));  // to_chars and Python both write the sign and at least two digits
    return;
  }
  if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
    return;
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  out.append(digits, 0, whole).append(".").append(digits, whole);
}

void append_python_number(std::string& out, const Number& number) {
  if (number.text.find_first_of(".eE") != std::string::npos) {
    append_python_float(out, number.to_double());
  } else {
    out.append(number.text == "-0" ? "0" : number.text);
  }
}

}  // namespace detail
}  // namespace tenon::json
