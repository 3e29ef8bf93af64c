#include "tenon/schema/numbers.h"

#include <string>

#include <gtest/gtest.h>

#include "tenon/base/budget.h"
#include "tenon/json/decimal.h"

namespace tenon::schema {
namespace {

struct NumbersRow {
  std::string value;
  std::string divisor;
  bool is_multiple;
};

const NumbersRow kNumbersRows[] = {
    {"0", "7", true},
    {"-0.0", "0.1", true},
    {"21", "7", true},
    {"-21", "7", true},
    {"22", "7", false},
    {"1.5", "0.5", true},
    {"1", "2", false},
    {"3", "2", false},
    {"10", "4", false},
    {"100", "4", true},
    {"0.0075", "0.0001", true},
    {"0.00751", "0.0001", false},
    {"19.99", "0.01", true},
    {"1e308", "0.01", true},
    {"1e308", "0.5", true},
    {"1e308", "123456789", false},
    {"1e999999999999", "8", true},
    {"1e999999999999", "3", false},
    {"1e-999999999999", "1", false},
    {"1", "1e-999999999999", true},
    {"1e17", "1024", true},
    {"123456789012345678901234567890", "10", true},
    {"123456789012345678901234567890", "123456789012345678901234567890", true},
    {"123456789012345678901234567891", "123456789012345678901234567890", false},
    {"246913578024691357802469135780", "12345678901234567890123456789", true},
    {"1000000000000000000000000000000", "1000000000000000000000000000007", false},
    {"121932631137021795226185032733622923332237463801111263526900",
     "123456789012345678901234567890", true},
    {"121932631137021795226185032733622923332237463801111263526901",
     "123456789012345678901234567890", false},
};

TEST(IsMultipleOf, IsExact) {
  for (const NumbersRow& row : kNumbersRows) {
    Budget budget("test", {});
    EXPECT_EQ(is_multiple_of(json::decimal_of(row.value), json::decimal_of(row.divisor), budget),
              row.is_multiple)
        << row.value << " " << row.divisor;
  }
}

TEST(IsMultipleOf, AgreesWithIntegers) {
  for (int value = 0; value <= 300; ++value) {
    for (int divisor = 1; divisor <= 60; ++divisor) {
      Budget budget("test", {});
      EXPECT_EQ(is_multiple_of(json::decimal_of(std::to_string(value)),
                               json::decimal_of(std::to_string(divisor)), budget),
                value % divisor == 0)
          << value << " " << divisor;
    }
  }
}

TEST(IsMultipleOf, StopsWithItsBudget) {
  Budget budget("test", {.max_steps = 1000});
  const std::string value(100'000, '7');
  const std::string divisor(50'000, '3');
  EXPECT_FALSE(is_multiple_of(json::decimal_of(value), json::decimal_of(divisor), budget));
  EXPECT_TRUE(budget.is_spent());
}

}  // namespace
}  // namespace tenon::schema
