#include "tenon/schema/numbers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::schema {
namespace {

// The remainder of a number, which is read digit by digit, divided by a divisor of any length. Both
// are little-endian in base 10^9; the remainder has one more place.
class Remainder {
 public:
  explicit Remainder(const json::Decimal& divisor) {
    std::uint32_t limb = 0;
    std::uint32_t scale = 1;
    for (std::size_t i = divisor.size(); i-- > 0;) {
      limb += static_cast<std::uint32_t>(divisor.digit(i) - '0') * scale;
      scale *= 10;
      if (scale == kBase) {
        divisor_.push_back(limb);
        limb = 0;
        scale = 1;
      }
    }
    divisor_.push_back(limb);
    // The remainder times ten, plus a digit, may have one place more than the divisor before it is
    // subtracted.
    divisor_.push_back(0);
    rest_.resize(divisor_.size());
  }

  void push_digit(std::uint32_t digit) {
    std::uint64_t carry = digit;
    for (std::uint32_t& limb : rest_) {
      carry += std::uint64_t{limb} * 10;
      limb = static_cast<std::uint32_t>(carry % kBase);
      carry /= kBase;
    }
    // The remainder was below the divisor, so this runs at most nine times.
    while (!std::lexicographical_compare(rest_.rbegin(), rest_.rend(), divisor_.rbegin(),
                                         divisor_.rend())) {
      subtract();
    }
  }

  [[nodiscard]] bool is_zero() const {
    return std::ranges::all_of(rest_, [](std::uint32_t limb) { return limb == 0; });
  }
  [[nodiscard]] std::size_t size() const { return rest_.size(); }

 private:
  static constexpr std::uint32_t kBase = 1'000'000'000;

  void subtract() {
    std::uint32_t borrow = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const std::uint32_t part = divisor_[i] + borrow;
      borrow = rest_[i] < part ? 1 : 0;
      rest_[i] += borrow * kBase - part;
    }
  }

  std::vector<std::uint32_t> divisor_;
  std::vector<std::uint32_t> rest_;
};

}  // namespace

// With value = a * 10^e and divisor = b * 10^f: is a * 10^(e-f) a multiple of b? If e < f it is
// not, because a does not end in a zero.
bool is_multiple_of(const json::Decimal& value, const json::Decimal& divisor, Budget& budget) {
  if (value.is_zero()) return true;
  if (value.exponent < divisor.exponent) return false;
  // b has fewer than 4 factors 2 per digit, and fewer factors 5, so more zeros change nothing.
  const auto zeros = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(value.exponent) - static_cast<std::uint64_t>(divisor.exponent),
      std::uint64_t{divisor.size()} * 4);
  Remainder rest(divisor);
  for (std::uint64_t i = 0; i < value.size() + zeros; ++i) {
    if (!budget.step(rest.size())) return false;
    rest.push_digit(i < value.size() ? static_cast<std::uint32_t>(value.digit(i) - '0') : 0);
  }
  return rest.is_zero();
}

}  // namespace tenon::schema
