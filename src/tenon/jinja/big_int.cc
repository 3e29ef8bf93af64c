#include "tenon/jinja/big_int.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

/// Sign and magnitude, in limbs of 32 bits with the least significant first. Products and
/// remainders of limbs are computed in 64 bits. Each operation is the written method of school,
/// quadratic at worst: callers bound the number of bits (operators.cc) and charge for the work
/// (budget.h).
///
/// A magnitude has no zeros at its top, which trim() ensures, and zero is not negative. So two
/// numbers are equal if their limbs are, and the number of limbs orders magnitudes of different
/// size.
namespace tenon::jinja {
namespace {

using Limbs = std::vector<std::uint32_t>;

int compare_magnitude(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

Limbs add_magnitude(const Limbs& a, const Limbs& b) {
  Limbs sum;
  sum.reserve(std::max(a.size(), b.size()) + 1);
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    carry += (i < a.size() ? a[i] : 0ULL) + (i < b.size() ? b[i] : 0ULL);
    sum.push_back(static_cast<std::uint32_t>(carry));
    carry >>= 32;
  }
  if (carry != 0) sum.push_back(static_cast<std::uint32_t>(carry));
  return sum;
}

// a - b, where a >= b.
Limbs subtract_magnitude(const Limbs& a, const Limbs& b) {
  Limbs difference;
  difference.reserve(a.size());
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t limb = static_cast<std::int64_t>(a[i]) - (i < b.size() ? b[i] : 0) - borrow;
    borrow = limb < 0;
    if (borrow != 0) limb += std::int64_t{1} << 32;
    difference.push_back(static_cast<std::uint32_t>(limb));
  }
  return difference;
}

// Divides in place and returns the remainder. The cost is linear.
std::uint32_t divide_small(Limbs& limbs, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (std::size_t i = limbs.size(); i-- > 0;) {
    rest = rest << 32 | limbs[i];
    limbs[i] = static_cast<std::uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  return static_cast<std::uint32_t>(rest);
}

// limbs * factor + addend, in place.
void multiply_add(Limbs& limbs, std::uint32_t factor, std::uint32_t addend) {
  std::uint64_t carry = addend;
  for (std::uint32_t& limb : limbs) {
    carry += static_cast<std::uint64_t>(limb) * factor;
    limb = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) limbs.push_back(static_cast<std::uint32_t>(carry));
}

// Knuth, The Art of Computer Programming, volume 2, algorithm D. Both operands are shifted so that
// the divisor's top bit is set; then the quotient of the top limbs is a guess for the next limb
// that is too large by two at most.
void divide_magnitude(const Limbs& a, const Limbs& b, Limbs& quotient, Limbs& remainder) {
  if (compare_magnitude(a, b) < 0) {
    quotient.clear();
    remainder = a;
    return;
  }
  if (b.size() == 1) {
    quotient = a;
    const std::uint32_t rest = divide_small(quotient, b[0]);
    remainder.clear();
    if (rest != 0) remainder.push_back(rest);
    return;
  }
  const int shift = std::countl_zero(b.back());
  // `from` shifted left by less than a limb, with `extra` (0 or 1) limbs for what goes over the
  // top.
  const auto shifted = [shift](const Limbs& from, std::size_t extra) {
    Limbs to(from.size() + extra, 0);
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      carry |= static_cast<std::uint64_t>(from[i]) << shift;
      to[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (extra != 0) to[from.size()] = static_cast<std::uint32_t>(carry);
    return to;
  };
  Limbs u = shifted(a, 1);
  const Limbs v = shifted(b, 0);
  const std::size_t n = v.size();
  quotient.assign(u.size() - n, 0);
  for (std::size_t j = u.size() - n; j-- > 0;) {
    // Step D3: a guess from the top two limbs, corrected with the third. Afterwards it is too large
    // by one at most, and rarely.
    const std::uint64_t top = static_cast<std::uint64_t>(u[j + n]) << 32 | u[j + n - 1];
    std::uint64_t guess = top / v[n - 1];
    std::uint64_t rest = top % v[n - 1];
    while (guess >> 32 != 0 || guess * v[n - 2] > (rest << 32 | u[j + n - 2])) {
      --guess;
      rest += v[n - 1];
      if (rest >> 32 != 0) break;
    }
    // Step D4: u -= guess * v, at limb j.
    std::int64_t borrow = 0;
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < n; ++i) {
      carry += guess * v[i];
      const std::int64_t limb = static_cast<std::int64_t>(u[i + j]) - borrow -
                                static_cast<std::int64_t>(static_cast<std::uint32_t>(carry));
      u[i + j] = static_cast<std::uint32_t>(limb);
      borrow = limb < 0;
      carry >>= 32;
    }
    const std::int64_t limb =
        static_cast<std::int64_t>(u[j + n]) - borrow - static_cast<std::int64_t>(carry);
    u[j + n] = static_cast<std::uint32_t>(limb);
    // Step D6: the guess was one too large, so the difference is negative and v is added back.
    if (limb < 0) {
      --guess;
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        sum += static_cast<std::uint64_t>(u[i + j]) + v[i];
        u[i + j] = static_cast<std::uint32_t>(sum);
        sum >>= 32;
      }
      u[j + n] += static_cast<std::uint32_t>(sum);
    }
    quotient[j] = static_cast<std::uint32_t>(guess);
  }
  // Step D8: the remainder is shifted back.
  remainder.assign(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    remainder[i] = u[i] >> shift;
    if (shift != 0)
      remainder[i] |= static_cast<std::uint32_t>(std::uint64_t{u[i + 1]} << (32 - shift));
  }
}

}  // namespace

BigInt::BigInt(std::int64_t value) : negative_(value < 0) {
  // The smallest value has no negative in 64 bits, so the sign is changed without one.
  auto magnitude =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) limbs_.push_back(static_cast<std::uint32_t>(magnitude));
}

BigInt::BigInt(bool negative, std::vector<std::uint32_t> limbs)
    : negative_(negative), limbs_(std::move(limbs)) {
  trim();
}

void BigInt::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
}

BigInt BigInt::from_digits(std::string_view digits, unsigned base) {
  BigInt value;
  while (!digits.empty()) {
    // As many digits as fit in one limb are read first, so that the long multiplication is done
    // once for nine decimal digits and not for each.
    std::uint32_t chunk = 0;
    std::uint32_t scale = 1;
    for (; !digits.empty() && scale <= ~0U / base; digits.remove_prefix(1)) {
      const char c = digits[0];
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      chunk = chunk * base + static_cast<std::uint32_t>(digit);
      scale *= base;
    }
    multiply_add(value.limbs_, scale, chunk);
  }
  value.trim();
  return value;
}

BigInt BigInt::from_decimal(std::string_view digits) {
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  BigInt value = from_digits(digits, 10);
  value.negative_ = negative;
  value.trim();
  return value;
}

BigInt BigInt::from_double(double value) {
  int exponent = 0;
  // value = mantissa * 2^shift, exactly: a double has 53 bits.
  const double fraction = std::frexp(std::trunc(std::fabs(value)), &exponent);
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  const int shift = exponent - 53;
  BigInt result(shift < 0 ? mantissa >> -shift : mantissa);
  if (shift > 0) {
    multiply_add(result.limbs_, 1U << (shift % 32), 0);
    result.limbs_.insert(result.limbs_.begin(), static_cast<std::size_t>(shift / 32), 0);
  }
  result.negative_ = value < 0;
  result.trim();
  return result;
}

std::size_t BigInt::bits() const {
  return limbs_.empty()
             ? 0
             : limbs_.size() * 32 - static_cast<unsigned>(std::countl_zero(limbs_.back()));
}

std::optional<std::int64_t> BigInt::to_int64() const {
  if (limbs_.size() > 2) return std::nullopt;
  std::uint64_t magnitude = 0;
  for (std::size_t i = limbs_.size(); i-- > 0;) magnitude = magnitude << 32 | limbs_[i];
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (magnitude > kMax + (negative_ ? 1 : 0)) return std::nullopt;  // -2^63 fits, 2^63 does not
  return static_cast<std::int64_t>(negative_ ? ~magnitude + 1 : magnitude);
}

double BigInt::to_double() const {
  // The top 64 bits, with a sticky last bit, are rounded once on conversion: to nearest, ties to
  // even.
  const std::size_t size = bits();
  if (size > 1024) return negative_ ? -HUGE_VAL : HUGE_VAL;
  std::uint64_t top = 0;
  std::size_t shift = size > 64 ? size - 64 : 0;
  for (std::size_t bit = size; bit-- > shift;)
    top = top << 1 | (limbs_[bit / 32] >> (bit % 32) & 1);
  for (std::size_t bit = 0; bit < shift; ++bit) {
    if ((limbs_[bit / 32] >> (bit % 32) & 1) != 0) {
      top |= 1;
      break;
    }
  }
  const double value = std::ldexp(static_cast<double>(top), static_cast<int>(shift));
  return negative_ ? -value : value;
}

std::string BigInt::to_string(unsigned base) const {
  // Divides by the largest power of the base below 10^9, which gives several digits at a time.
  // Digits come last first; the last part has no leading zeros.
  if (limbs_.empty()) return "0";
  std::uint32_t chunk = base;
  int digits = 1;
  while (static_cast<std::uint64_t>(chunk) * base < 1'000'000'000) {
    chunk *= base;
    ++digits;
  }
  std::string text;
  Limbs rest = limbs_;
  while (!rest.empty()) {
    std::uint32_t part = divide_small(rest, chunk);
    for (int i = 0; i < digits && (part != 0 || !rest.empty()); ++i) {
      text += "0123456789abcdefghijklmnopqrstuvwxyz"[part % base];
      part /= base;
    }
  }
  if (negative_) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

int BigInt::compare(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return a.negative_ ? -1 : 1;
  const int magnitude = compare_magnitude(a.limbs_, b.limbs_);
  return a.negative_ ? -magnitude : magnitude;
}

BigInt BigInt::operator-() const {
  return {!negative_, limbs_};
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  if (a.negative_ == b.negative_) return {a.negative_, add_magnitude(a.limbs_, b.limbs_)};
  if (compare_magnitude(a.limbs_, b.limbs_) >= 0) {
    return {a.negative_, subtract_magnitude(a.limbs_, b.limbs_)};
  }
  return {b.negative_, subtract_magnitude(b.limbs_, a.limbs_)};
}

BigInt operator-(const BigInt& a, const BigInt& b) {
  return a + -b;
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  Limbs product(a.limbs_.size() + b.limbs_.size(), 0);
  for (std::size_t i = 0; i < a.limbs_.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.limbs_.size(); ++j) {
      carry += static_cast<std::uint64_t>(a.limbs_[i]) * b.limbs_[j] + product[i + j];
      product[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    product[i + b.limbs_.size()] = static_cast<std::uint32_t>(carry);
  }
  return {a.negative_ != b.negative_, std::move(product)};
}

double BigInt::ratio(const BigInt& a, const BigInt& b) {
  if (a.bits() <= 53 && b.bits() <= 53) return a.to_double() / b.to_double();
  // The dividend is scaled until the quotient has at least 66 bits; a remainder makes the last bit
  // sticky.
  Limbs scaled = a.limbs_;
  int shift = 0;
  if (const std::size_t wanted = b.bits() / 32 + 4; !scaled.empty() && scaled.size() < wanted) {
    shift = static_cast<int>(wanted - scaled.size()) * 32;
    scaled.insert(scaled.begin(), wanted - scaled.size(), 0);
  }
  Limbs quotient;
  Limbs remainder;
  divide_magnitude(scaled, b.limbs_, quotient, remainder);
  if (!quotient.empty() && !remainder.empty()) quotient[0] |= 1;
  const BigInt whole(a.negative_ != b.negative_, std::move(quotient));
  // Only the top 64 bits are converted first: the whole quotient may be out of range where the
  // ratio is not.
  const auto excess = static_cast<int>(whole.bits()) - 1000;
  if (excess <= 0) return std::ldexp(whole.to_double(), -shift);
  Limbs top(whole.limbs_.begin() + excess / 32, whole.limbs_.end());
  if (!top.empty()) top[0] |= 1;
  return std::ldexp(BigInt(whole.negative_, std::move(top)).to_double(), excess / 32 * 32 - shift);
}

void BigInt::divide(const BigInt& a, const BigInt& b, BigInt& quotient, BigInt& remainder) {
  Limbs q;
  Limbs r;
  divide_magnitude(a.limbs_, b.limbs_, q, r);
  quotient = BigInt(a.negative_ != b.negative_, std::move(q));
  remainder = BigInt(a.negative_, std::move(r));
  if (!remainder.is_zero() && remainder.negative_ != b.negative_) {
    quotient = quotient - BigInt(1);
    remainder = remainder + b;
  }
}

}  // namespace tenon::jinja
