#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "tenon/jinja/filters.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/operators.h"

/// Filters of numbers.
namespace tenon::jinja {
namespace {

double real_of_number(const Value& value) {
  return value.is(Tag::real) ? value.real : big_of(value).to_double();
}

// round(x) without digits: an int, and ties go to the even one (nearbyint's default mode).
Value round_to_int(Runtime& rt, const Value& value) {
  if (value.is_int()) return negate(rt, value, true);
  if (!std::isfinite(value.real))
    rt.fail("OverflowError", "cannot convert float infinity to integer");
  return make_big(rt.arena(), BigInt::from_double(std::nearbyint(value.real)), value.is_data());
}

// Rounds to a multiple of a power of ten; ties go to the even multiple.
Value round_int(Runtime& rt, const Value& number, std::int64_t precision) {
  const BigInt value = big_of(number);
  const std::size_t most = value.bits() / 3 + 1;  // then 10 ** most is more than twice the value
  const std::size_t zeros =
      precision < -static_cast<std::int64_t>(most) ? most : static_cast<std::size_t>(-precision);
  // The unit is read as digits, nine of which fit in a limb.
  rt.charge_decimals(value.limbs().size() + zeros / 9);
  const BigInt unit = BigInt::from_digits("1" + std::string(zeros, '0'), 10);
  BigInt quotient;
  BigInt rest;
  BigInt::divide(value, unit, quotient, rest);
  const int order = BigInt::compare(rest + rest, unit);
  if (order > 0 || (order == 0 && quotient.is_odd())) quotient = quotient + BigInt(1);
  return make_big(rt.arena(), quotient * unit, number.is_data());
}

}  // namespace

namespace filters {

Value abs(Runtime& rt, const FilterInput& in) {
  if (!in.value.is_number()) {
    rt.type_error("bad operand type for abs(): '" + std::string(type_name(in.value)) + "'");
  }
  if (in.value.is(Tag::real)) return make_real(std::fabs(in.value.real), in.value.is_data());
  // A positive number becomes an int by the plus sign: abs(True) is 1.
  return negate(rt, in.value, !big_of(in.value).is_negative());
}

Value float_(Runtime& rt, const FilterInput& in) {
  const Value otherwise = or_default(in[0], make_real(0));
  if (in.value.is(Tag::undefined)) rt.fail_undefined(in.value);
  if (in.value.is(Tag::real)) return in.value;
  if (in.value.is_int()) {
    const double value = big_of(in.value).to_double();
    if (std::isinf(value)) rt.fail("OverflowError", "int too large to convert to float");
    return make_real(value, in.value.is_data());
  }
  // What float() does not take (None, a list) has the default.
  if (!in.value.is_string()) return otherwise;
  const std::optional<double> value = float_of_text(rt.text_of(in.value).bytes);
  return value ? make_real(*value, in.value.is_data()) : otherwise;
}

// jinja2 tries int(value, base) first, then int(float(value)), so that "42.23" is 42; only then the
// default counts. An infinite float fails, and the text "inf" does not.
Value int_(Runtime& rt, const FilterInput& in) {
  const Value otherwise = or_default(in[0], make_int(0));
  if (in.value.is(Tag::undefined)) rt.fail_undefined(in.value);
  if (in.value.is_int()) return negate(rt, in.value, true);
  double real = 0;
  if (in.value.is_string()) {
    const std::int64_t base = in[1].is(Tag::missing) ? 10 : index_of(rt, in[1]);
    if (base == 0 || (base >= 2 && base <= 36)) {
      const std::string_view text = rt.text_of(in.value).bytes;
      // plain_digits() and the conversion, which reads no more than kMaxIntegerDigits.
      rt.charge(text.size() * 4);
      rt.charge_decimals(std::min(text.size(), kMaxIntegerDigits) / 9);
      if (const auto value = int_of_text(text, static_cast<unsigned>(base))) {
        return make_big(rt.arena(), *value, in.value.is_data());
      }
    }
    const std::optional<double> value = float_of_text(rt.text_of(in.value).bytes);
    if (!value) return otherwise;
    real = *value;
  } else if (in.value.is(Tag::real)) {
    real = in.value.real;
    if (std::isinf(real)) rt.fail("OverflowError", "cannot convert float infinity to integer");
  } else {
    return otherwise;
  }
  if (!std::isfinite(real)) return otherwise;
  return make_big(rt.arena(), BigInt::from_double(real), in.value.is_data());
}

Value round(Runtime& rt, const FilterInput& in) {
  std::string_view method = "common";
  if (!in[1].is(Tag::missing)) method = in[1].is_string() ? rt.text_of(in[1]).bytes : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    rt.fail("FilterArgumentError", "method must be common, ceil or floor");
  }
  if (in.value.is(Tag::undefined) && method != "common") rt.fail_undefined(in.value);
  if (!in.value.is_number()) {
    rt.type_error("type " + std::string(type_name(in.value)) + " doesn't define __round__ method");
  }
  const bool is_data = in.value.is_data();
  if (method == "common" && in[0].is(Tag::none)) return round_to_int(rt, in.value);
  const std::int64_t precision = in[0].is(Tag::missing) ? 0 : index_of(rt, in[0]);
  // jinja2: ceil(value * 10 ** precision) / 10 ** precision.
  if (method != "common") {
    const double value = real_of_number(in.value);
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = value * scale;
    if (!std::isfinite(scaled)) rt.fail("OverflowError", "the number is out of range");
    const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
    // Python's whole part is an int, which has no minus zero.
    return make_real((whole + 0.0) / scale, is_data);
  }
  if (in.value.is_int()) {
    if (precision >= 0) return negate(rt, in.value, true);
    return round_int(rt, in.value, precision);
  }
  const double value = in.value.real;
  // The least double is about 5e-324, the greatest about 1.8e308: beyond these nothing or all is
  // cut.
  if (!std::isfinite(value) || precision > 323) return in.value;
  if (precision < -308) return make_real(std::copysign(0.0, value), is_data);
  // As CPython does: the decimal text is rounded correctly, and read back.
  if (precision >= 0) {
    return make_real(parse_double(format_double(value, 'f', static_cast<int>(precision), false)),
                     is_data);
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  double whole = std::nearbyint(value / scale);
  return make_real(whole * scale, is_data);
}

Value filesizeformat(Runtime& rt, const FilterInput& in) {
  const Value& binary = in[0];
  double bytes = 0;
  if (in.value.is(Tag::undefined)) rt.fail_undefined(in.value);
  if (in.value.is_number()) {
    bytes = real_of_number(in.value);
  } else if (in.value.is_string()) {
    const auto parsed = float_of_text(rt.text_of(in.value).bytes);
    if (!parsed) rt.value_error("could not convert string to float: " + rt.described(in.value));
    bytes = *parsed;
  } else {
    rt.type_error("float() argument must be a string or a real number, not '" +
                  std::string(type_name(in.value)) + "'");
  }
  const bool is_binary = flag(rt, binary);
  const double base = is_binary ? 1024 : 1000;
  std::string out;
  if (bytes == 1) {
    out = "1 Byte";
  } else if (bytes < base) {
    out = BigInt::from_double(bytes).to_string() + " Bytes";
  } else {
    // The first unit that is larger than the size decides, as in jinja2.
    static constexpr const char* kPrefixes = "kMGTPEZY";
    double unit = base * base;
    int i = 0;
    for (; i < 7 && bytes >= unit; ++i) unit *= base;
    out = format_double(base * bytes / unit, 'f', 1, false) + " ";
    out += is_binary && i == 0 ? 'K' : kPrefixes[i];
    out += is_binary ? "iB" : "B";
  }
  return rt.string_copy(out, in.value.is_data());
}

}  // namespace filters

}  // namespace tenon::jinja
