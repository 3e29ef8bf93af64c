#include <charconv>
#include <cmath>
#include <limits>

#include "tenon/json/number_text.h"
#include "tenon/json/scan.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

// An exponent this large is never computed with; 10^18 leaves room to add any text's length.
constexpr std::int64_t kMostExponent = 1'000'000'000'000'000'000;

// A number as (-1)^negative * digits * 10^exponent, digits without zeros at either end. Two numbers
// are equal exactly if these parts are; zero has no digits.
struct Decimal {
  bool negative = false;
  std::string_view whole;  // of the text before '.', then the text after it
  std::string_view fraction;
  std::size_t first = 0;  // digits are [first, last) of whole + fraction
  std::size_t last = 0;
  std::int64_t exponent = 0;  // of digit last - 1; saturated at +-kMostExponent
  std::string_view huge;      // the exponent's text without leading zeros, if it is saturated

  [[nodiscard]] char digit(std::size_t i) const {
    return i < whole.size() ? whole[i] : fraction[i - whole.size()];
  }
  [[nodiscard]] std::size_t size() const { return last - first; }
  [[nodiscard]] bool is_zero() const { return first == last; }
};

void read_exponent(std::string_view text, Decimal& number) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  while (text.starts_with('0')) text.remove_prefix(1);
  if (text.size() > 18) {
    number.huge = text;
    number.exponent = negative ? -kMostExponent : kMostExponent;
    return;
  }
  std::int64_t value = 0;
  for (const char digit : text) value = value * 10 + (digit - '0');
  number.exponent = negative ? -value : value;
}

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
  while (number.first < number.last && number.digit(number.first) == '0') ++number.first;
  while (number.last > number.first && number.digit(number.last - 1) == '0') --number.last;
  number.exponent +=
      static_cast<std::int64_t>(number.whole.size()) - static_cast<std::int64_t>(number.last);
  return number;
}

bool equal(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) return a.is_zero() && b.is_zero();
  if (a.negative != b.negative || a.size() != b.size() || a.exponent != b.exponent ||
      a.huge != b.huge) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.digit(a.first + i) != b.digit(b.first + i)) return false;
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> Number::to_int64() const {
  const Decimal number = decimal_of(text);
  if (number.is_zero()) return 0;
  constexpr std::int64_t kMostDigits = 19;  // 2^63 has 19
  if (number.exponent < 0 || number.exponent > kMostDigits ||
      static_cast<std::int64_t>(number.size()) + number.exponent > kMostDigits) {
    return std::nullopt;
  }
  // Negative all along, since -2^63 has no positive counterpart. 19 digits may exceed 2^63, but not
  // 2^64, so the value is built without a sign first.
  std::uint64_t value = 0;
  for (std::size_t i = number.first; i < number.last; ++i) {
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
  const bool is_large = number.exponent + static_cast<std::int64_t>(number.size()) > 0;
  value = is_large ? std::numeric_limits<double>::infinity() : 0.0;
  return number.negative ? -value : value;
}

bool Number::is_integer() const {
  const Decimal number = decimal_of(text);
  return number.is_zero() || number.exponent >= 0;
}

bool Number::equals(const Number& other) const {
  return text == other.text || equal(decimal_of(text), decimal_of(other.text));
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
  // "d.ddde[+-]xx": the shortest digits; Python only lays them out differently.
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
