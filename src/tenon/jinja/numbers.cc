#include "tenon/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "tenon/jinja/unicode.h"

// Text to numbers and back with Python's results: repr() writes the fewest digits that read back as
// the same double, int() and float() take digits of any script and underscores between digits, and
// integers have any size. A long integer exists only where 64 bits do not suffice: make_big() sees
// to that.
namespace tenon::jinja {
namespace {

// The text without space at its ends, with digits of any script as ASCII and without the
// underscores between digits. Nothing if an underscore stands anywhere else.
std::optional<std::string> plain_digits(std::string_view text, bool keep_space = false) {
  std::string plain;
  std::size_t at = 0;
  while (!keep_space && at < text.size()) {
    std::size_t next = at;
    if (!unicode::is_space(unicode::next(text, next))) break;
    at = next;
  }
  while (!keep_space && text.size() > at) {
    std::size_t previous = text.size();
    if (!unicode::is_space(unicode::previous(text, previous))) break;
    text = text.substr(0, previous);
  }
  while (at < text.size()) {
    const char32_t point = unicode::next(text, at);
    if (point < 0x80) {
      plain += static_cast<char>(point);
    } else if (unicode::is(point, unicode::kDecimal)) {
      plain += static_cast<char>('0' + unicode::record(point).decimal);
    } else {
      plain += '?';  // stands for any character that no number has
    }
  }
  std::string digits;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != '_') {
      digits += plain[i];
      continue;
    }
    const auto is_alnum = [](char c) {
      return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    };
    if (i == 0 || i + 1 == plain.size() || !is_alnum(plain[i - 1]) || !is_alnum(plain[i + 1])) {
      return std::nullopt;
    }
  }
  return digits;
}

}  // namespace

double parse_double(std::string_view text) {
  // from_chars() takes no plus sign.
  const bool is_negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  static_cast<void>(end);
  if (error == std::errc::result_out_of_range) {
    // The number is too large or too small. The exponent's sign says which; without an exponent it
    // is too large unless it begins with zeros.
    const std::size_t exponent = text.find_first_of("eE");
    const bool is_small = (exponent != std::string_view::npos && exponent + 1 < text.size() &&
                           text[exponent + 1] == '-') ||
                          text.substr(0, 2) == "0.";
    value = is_small ? 0.0 : HUGE_VAL;
  }
  return is_negative ? -value : value;
}

// Python's float(): [sign] digits with an optional point and exponent, inf, infinity or nan.
std::optional<double> float_of_text(std::string_view text) {
  const std::optional<std::string> digits = plain_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool is_negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  std::string lower(rest);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (lower == "inf" || lower == "infinity") return is_negative ? -HUGE_VAL : HUGE_VAL;
  if (lower == "nan") return std::nan("");
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t begin = at;
    while (at < rest.size() && rest[at] >= '0' && rest[at] <= '9') ++at;
    return at - begin;
  };
  std::size_t count = skip_digits();
  if (at < rest.size() && rest[at] == '.') {
    ++at;
    count += skip_digits();
  }
  if (count == 0) return std::nullopt;
  if (at < rest.size() && (rest[at] | 0x20) == 'e') {
    ++at;
    if (at < rest.size() && (rest[at] == '+' || rest[at] == '-')) ++at;
    if (skip_digits() == 0) return std::nullopt;
  }
  if (at != rest.size()) return std::nullopt;
  std::string number(rest[0] == '.' ? "0" : "");
  number += rest;
  const std::size_t plus = number.find("e+");
  if (plus != std::string::npos) number.erase(plus + 1, 1);
  const std::size_t capital = number.find("E+");
  if (capital != std::string::npos) number.erase(capital + 1, 1);
  const double value = parse_double(number);
  return is_negative ? -value : value;
}

// Python's int(text, base). A prefix counts for its own base and for base 0, which takes the base
// from the prefix. Base 0 refuses leading zeros ("012"), which were octal in old versions of
// Python.
std::optional<BigInt> int_of_text(std::string_view text, unsigned base) {
  const std::optional<std::string> digits = plain_digits(text);
  if (!digits || digits->empty() || digits->size() > kMaxIntegerDigits) return std::nullopt;
  std::string_view rest = *digits;
  const bool is_negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  if (rest.size() > 1 && rest[0] == '0') {
    const char kind = static_cast<char>(rest[1] | 0x20);
    const unsigned of_prefix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (of_prefix != 0 && (base == of_prefix || base == 0)) {
      base = of_prefix;
      rest.remove_prefix(2);
    } else if (base == 0 && rest.find_first_not_of('0') != std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  if (rest.empty()) return std::nullopt;
  for (const char c : rest) {
    const unsigned digit = c >= '0' && c <= '9' ? static_cast<unsigned>(c - '0')
                           : (c | 0x20) >= 'a' && (c | 0x20) <= 'z'
                               ? static_cast<unsigned>((c | 0x20) - 'a' + 10)
                               : 99U;
    if (digit >= base) return std::nullopt;
  }
  const BigInt value = BigInt::from_digits(rest, base);
  return is_negative ? -value : value;
}

std::string repr_of_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  // Without a precision, to_chars() gives the shortest text that reads back as the same number:
  // "1.2345e+02".
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  static_cast<void>(error);
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  std::string out;
  if (text[0] == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_text = text.data() + e + 1;
  if (*exponent_text == '+') ++exponent_text;
  std::from_chars(exponent_text, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  const int point = exponent + 1;  // digits before the decimal point
  const int count = static_cast<int>(digits.size());
  // Python's repr writes an exponent below 1e-4 and from 1e16 on.
  if (point > 16 || point <= -4) {
    out += digits[0];
    if (count > 1) out.append(".").append(digits, 1);
    out += exponent < 0 ? "e-" : "e+";
    const int magnitude = std::abs(exponent);
    if (magnitude < 10) out += '0';  // at least two digits
    return out += std::to_string(magnitude);
  }
  if (point <= 0) {
    out += "0.";
    return out.append(static_cast<std::size_t>(-point), '0') += digits;
  }
  if (point >= count) {
    out += digits;
    return out.append(static_cast<std::size_t>(point - count), '0') += ".0";
  }
  out.append(digits, 0, static_cast<std::size_t>(point)) += '.';
  return out.append(digits, static_cast<std::size_t>(point));
}

std::string format_double(double value, char kind, int precision, bool alternate) {
  const bool is_upper = kind >= 'A' && kind <= 'Z';
  const char lower = static_cast<char>(kind | 0x20);
  std::string out;
  if (std::isnan(value) || std::isinf(value)) {
    out = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  } else {
    // "%.*f", or "%#.*f", which keeps the point and zeros at the end.
    char format[8] = {'%',
                      alternate ? '#' : '.',
                      alternate ? '.' : '*',
                      alternate ? '*' : lower,
                      alternate ? lower : '\0',
                      '\0'};
    // The first call measures: 1e308 has 309 digits before the point.
    const int size = std::snprintf(nullptr, 0, format, precision, value);
    out.resize(static_cast<std::size_t>(size) + 1);
    std::snprintf(out.data(), out.size(), format, precision, value);
    out.pop_back();
  }
  if (is_upper) {
    for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  }
  return out;
}

Value make_big(Arena& arena, const BigInt& value, bool is_data) {
  if (const std::optional<std::int64_t> small = value.to_int64()) return make_int(*small, is_data);
  auto* limbs = arena.array<std::uint32_t>(value.limbs().size());
  std::copy(value.limbs().begin(), value.limbs().end(), limbs);
  Value result;
  result.tag = Tag::big_integer;
  result.flags = is_data ? kData : 0;
  result.big = arena.make<BigDigits>(value.is_negative(),
                                     static_cast<std::uint32_t>(value.limbs().size()), limbs);
  return result;
}

BigInt big_of(const Value& value) {
  if (value.is(Tag::big_integer)) {
    return {value.big->is_negative, {value.big->limbs, value.big->limbs + value.big->count}};
  }
  return BigInt(value.is(Tag::boolean) ? (value.boolean ? 1 : 0) : value.integer);
}

}  // namespace tenon::jinja
