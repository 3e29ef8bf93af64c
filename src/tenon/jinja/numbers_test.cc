#include "tenon/jinja/numbers.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tenon::jinja {
namespace {

__extension__ using Wide = __int128;  // the oracle

TEST(BigInt, AgreesWithMachineIntegers) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto a = static_cast<std::int64_t>(random()) >> (random() % 62);
    const auto b = static_cast<std::int64_t>(random()) >> (random() % 62);
    const Wide wide_a = a;
    const Wide wide_b = b;
    const auto text = [](Wide value) {
      if (value == 0) return std::string("0");
      std::string digits;
      for (Wide rest = value < 0 ? -value : value; rest != 0; rest /= 10) {
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
      }
      return (value < 0 ? "-" : "") + digits;
    };
    EXPECT_EQ((BigInt(a) + BigInt(b)).to_string(), text(wide_a + wide_b));
    EXPECT_EQ((BigInt(a) - BigInt(b)).to_string(), text(wide_a - wide_b));
    EXPECT_EQ((BigInt(a) * BigInt(b)).to_string(), text(wide_a * wide_b));
    EXPECT_EQ(BigInt(a).to_int64(), a);
    EXPECT_EQ(BigInt(a).to_double(), static_cast<double>(a));
  }
}

TEST(BigInt, QuotientTimesDivisorPlusRestIsTheDividend) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    const auto number = [&](std::size_t most) {
      std::vector<std::uint32_t> limbs(random() % most + 1);
      // Long division goes wrong most easily with limbs of all ones and all zeros.
      for (std::uint32_t& limb : limbs)
        limb = random() % 3 == 0   ? ~0U
               : random() % 3 == 0 ? 0
                                   : static_cast<std::uint32_t>(random());
      return BigInt(random() % 2 == 0, std::move(limbs));
    };
    const BigInt a = number(8);
    const BigInt b = number(4);
    if (b.is_zero()) continue;
    BigInt quotient;
    BigInt rest;
    BigInt::divide(a, b, quotient, rest);
    EXPECT_EQ(BigInt::compare(quotient * b + rest, a), 0);
    EXPECT_TRUE(rest.is_zero() || rest.is_negative() == b.is_negative());
    EXPECT_LT(BigInt::compare(rest.is_negative() ? -rest : rest, b.is_negative() ? -b : b), 0);
    EXPECT_EQ(BigInt::compare(BigInt::from_decimal(a.to_string()), a), 0);
  }
}

TEST(Numbers, FloatsAsPythonWritesThem) {
  const struct {
    double value;
    const char* text;
  } rows[] = {{0.0, "0.0"},
              {-0.0, "-0.0"},
              {1e15, "1000000000000000.0"},
              {1e16, "1e+16"},
              {1e-4, "0.0001"},
              {1e-5, "1e-05"},
              {123456789.123456789, "123456789.12345679"},
              {5e-324, "5e-324"},
              {1.7976931348623157e308, "1.7976931348623157e+308"},
              {HUGE_VAL, "inf"},
              {-HUGE_VAL, "-inf"},
              {1.5, "1.5"},
              {100, "100.0"}};
  for (const auto& row : rows) EXPECT_EQ(repr_of_double(row.value), row.text);
}

TEST(Numbers, TextsThatAreNumbers) {
  EXPECT_EQ(float_of_text(" 1_0.5e1 "), 105.0);
  EXPECT_EQ(float_of_text(".5"), 0.5);
  EXPECT_EQ(float_of_text("-Infinity"), -HUGE_VAL);
  EXPECT_EQ(float_of_text("1e400"), HUGE_VAL);
  EXPECT_EQ(int_of_text("٣", 10)->to_int64(), 3);
  EXPECT_EQ(int_of_text("0x1f", 16)->to_int64(), 31);
  for (const char* text : {"", "_1", "1_", "1__0", "e5", "1e", "abc", "--1"}) {
    EXPECT_FALSE(float_of_text(text)) << text;
    EXPECT_FALSE(int_of_text(text, 10)) << text;
  }
}

}  // namespace
}  // namespace tenon::jinja
