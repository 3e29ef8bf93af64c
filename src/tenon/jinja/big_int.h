#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::jinja {

/// An integer of any size, for values that do not fit in 64 bits: sign and magnitude, with the
/// methods of written arithmetic. Callers bound the size (see bits()), so that no operation takes
/// more than some microseconds.
class BigInt {
 public:
  BigInt() = default;
  explicit BigInt(std::int64_t value);
  BigInt(bool negative, std::vector<std::uint32_t> limbs);

  /// Reads decimal digits with an optional sign; `digits` must hold nothing else.
  [[nodiscard]] static BigInt from_decimal(std::string_view digits);
  /// Reads digits of `base` (2 to 36), which must all be valid.
  [[nodiscard]] static BigInt from_digits(std::string_view digits, unsigned base);
  /// The integer part of a finite double.
  [[nodiscard]] static BigInt from_double(double value);

  [[nodiscard]] bool is_negative() const { return negative_; }
  [[nodiscard]] bool is_zero() const { return limbs_.empty(); }
  [[nodiscard]] bool is_odd() const { return !limbs_.empty() && (limbs_[0] & 1) != 0; }
  [[nodiscard]] const std::vector<std::uint32_t>& limbs() const { return limbs_; }
  [[nodiscard]] std::size_t bits() const;
  [[nodiscard]] std::optional<std::int64_t> to_int64() const;
  /// The nearest double; infinite if out of range.
  [[nodiscard]] double to_double() const;
  [[nodiscard]] std::string to_string(unsigned base = 10) const;

  [[nodiscard]] static int compare(const BigInt& a, const BigInt& b);
  [[nodiscard]] BigInt operator-() const;
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b);
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  /// Quotient rounded towards minus infinity and the remainder with the divisor's sign, as Python
  /// has them. `b` is not zero.
  static void divide(const BigInt& a, const BigInt& b, BigInt& quotient, BigInt& remainder);
  /// The double nearest to a / b; infinite if out of range. `b` is not zero.
  [[nodiscard]] static double ratio(const BigInt& a, const BigInt& b);

 private:
  void trim();

  bool negative_ = false;
  std::vector<std::uint32_t> limbs_;  // least significant first, no leading zeros
};

}  // namespace tenon::jinja
