#include "tenon/grammar/json/number_scanner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::grammar {
namespace {

using Bound = NumberSet::Bound;

// Where `text` is refused: its length if it is accepted, -1 if only its end is missing.
int refused_at(Scanner& scanner, std::string_view text) {
  Scanner::State state = scanner.start();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (state == Scanner::kDead) return static_cast<int>(i) - 1;
    state = scanner.step(state, static_cast<std::uint8_t>(text[i]));
    if (state == Scanner::kDead) return static_cast<int>(i);
  }
  return scanner.is_accepting(state) ? static_cast<int>(text.size()) : -1;
}

TEST(NumberScanner, Spellings) {
  struct Row {
    const char* name;
    NumberSet set;
    std::string_view text;
    int refused_at;
  };
  const NumberSet any;
  const NumberSet integer{.multiples = {"1"}};
  const NumberSet spelled{.multiples = {"1"}, .integers_are_spelled = true};
  const NumberSet one_to_ten{.minimum = Bound{"1"}, .maximum = Bound{"10"}, .multiples = {"1"}};
  const NumberSet thousand{.minimum = Bound{"1000"}, .maximum = Bound{"1500"}};
  const NumberSet above_zero{.minimum = Bound{"0", true}};
  const NumberSet below_zero{.maximum = Bound{"-3.5", true}};
  const NumberSet cents{.minimum = Bound{"0"}, .maximum = Bound{"1"}, .multiples = {"0.01"}};
  const NumberSet sevens{.minimum = Bound{"100"}, .maximum = Bound{"104"}, .multiples = {"7"}};
  const NumberSet from_320{.minimum = Bound{"320"}};
  const NumberSet one{.minimum = Bound{"1"}, .maximum = Bound{"1"}};
  const NumberSet not_three{.multiples = {"1"}, .excluded = {"3"}};
  const NumberSet values{.values = {{"7", "1200", "-0.5", "7.0"}}};
  const NumberSet long_value{.values = {{"1", "1.500", "0.00025"}}};
  const NumberSet fine{.multiples = {"1e-300"}};
  const NumberSet finest{.multiples = {"1e-39"}};
  const NumberSet large{.minimum = Bound{"1"}, .maximum = Bound{"3e40"}, .multiples = {"1e40"}};
  const NumberSet huge{.multiples = {"1e300"}};
  const NumberSet large_cents{.minimum = Bound{"1e32"}, .multiples = {"0.01"}};
  const NumberSet long_bound{.minimum = Bound{"1e25"}, .multiples = {"1"}};
  const std::string ones(190, '1');
  const NumberSet unbounded{.is_bounded = false};
  const NumberSet unbounded_integer{.multiples = {"1"}, .is_bounded = false};
  const std::string longest = ones + '.' + ones + '1';
  const std::string longer = ones + '1';
  const NumberSet tiny{.minimum = Bound{"0", true}, .maximum = Bound{"2e-20"}};
  const Row rows[] = {
      {"Zero", any, "0", 1},
      {"NegativeZero", any, "-0", 2},
      {"LeadingZero", any, "01", 1},
      {"Plus", any, "+1", 0},
      {"Fraction", any, "12.50", 5},
      {"PointAlone", any, "1.", -1},
      {"NoWholePart", any, ".5", 0},
      {"Exponent", any, "1.5e-07", 7},
      {"ExponentOfTwoDigits", any, "12e1", 2},
      {"ExponentOfZero", any, "0e1", 1},
      {"LongExponent", any, "1e1000", 5},
      {"Integer", integer, "-12345678901234567890", 21},
      {"DigitsHaveAnEnd", integer, "1234567890123456789012", 21},
      {"FractionsHaveAnEnd", any, "0.123456789012345678", 19},
      {"AsADoubleIsWritten", any, "0.00012345678901234567", 22},
      {"ZerosHaveAnEnd", any, "0.00000000000000000000000000", 25},
      {"ZerosOfIntegersHaveAnEnd", integer, "12.000000000000000000", 20},
      {"MantissasHaveAnEnd", any, "1.123456789012345678e5", 19},
      {"ABoundAsksForMoreDigits", long_bound, "99999999999999999999999999", 26},
      {"AndForSomeMoreAtMost", long_bound, "99999999999999999999999999999", 28},
      {"SmallBoundsAskForMorePlaces", tiny, "0.00000000000000000001", 22},
      {"StepsAskForMorePlaces", finest, "1.25", 4},
      {"WithoutBoundsTheyEndLater", unbounded, longest, 381},
      {"AndSoDoIntegers", unbounded_integer, longer, 190},
      {"IntegerWithPoint", integer, "12.0", 4},
      {"IntegerWithFraction", integer, "12.5", 3},
      {"IntegerWithExponent", integer, "1e5", 1},
      {"SpelledInteger", spelled, "12.0", 2},
      {"InBounds", one_to_ten, "10", 2},
      {"InBoundsWithPoint", one_to_ten, "7.0", 3},
      {"BoundsEndDigits", one_to_ten, "11", 1},
      {"BoundsRefuseZero", one_to_ten, "0", 0},
      {"BoundsRefuseSigns", one_to_ten, "-", 0},
      {"BoundsEndLongNumbers", one_to_ten, "100", 2},
      {"ThousandBySuccession", thousand, "1234.5", 6},
      {"ThousandNotTwo", thousand, "2", 0},
      {"ThousandNot16", thousand, "16", 1},
      {"ThousandByExponent", thousand, "1.2e3", 5},
      {"ThousandNotByOtherExponent", thousand, "1.2e4", 4},
      {"MinimumIsReachedWithMoreDigits", from_320, "1024", 4},
      {"TooShort", thousand, "12", -1},
      {"AboveZeroMayBeginWithIt", above_zero, "0.001", 5},
      {"AboveZeroIsNotZero", above_zero, "0", -1},
      {"AboveZeroIsNotNegative", above_zero, "-", 0},
      {"BelowNegative", below_zero, "-3.51", 5},
      {"NotBelowNegative", below_zero, "-3.50", -1},
      {"BelowNegativeByExponent", below_zero, "-3.4e1", 6},
      {"BelowNegativeIsNotPositive", below_zero, "1", 0},
      {"Cents", cents, "0.57", 4},
      {"CentsWithZeros", cents, "0.570", 5},
      {"NotCents", cents, "0.571", 4},
      {"NoMultipleInBounds", sevens, "1", -1},
      {"AConstant", one, "1.000", 5},
      {"AConstantAndNoOther", one, "1.0001", 5},
      {"Excluded", not_three, "3", -1},
      {"OneOfValues", values, "1200", 4},
      {"OneOfValuesByExponent", values, "1.20e3", 6},
      {"NegativeValue", values, "-0.50", 5},
      {"ValuesHaveNoZerosWithoutEnd", values, "-0.5000", 5},
      {"NorWithAnExponent", values, "7.000e0", 4},
      {"AsTheSchemaSpellsIt", long_value, "1.500", 5},
      {"SmallValue", long_value, "0.00025", 7},
      {"SmallValueByExponent", long_value, "2.5e-4", 6},
      {"NoValueBeginsSo", values, "13", 1},
      {"NoValueHasSoManyDigits", values, "12000", 4},
      {"ValueIsNotWholeYet", values, "12", -1},
      {"FineStep", fine, "0.5", 3},
      {"FineStepHasAnEnd", finest, "0.0000000000000000000000000000000000000005", 41},
      {"LargeStep", large, "5", 0},
      {"LargeStepBegins", large, "2000", -1},
      {"HugeStepBegins", huge, "123", -1},
      {"HugeStepHasAnEnd", huge, "1234", 3},
      {"HugeStepOfZero", huge, "0", 1},
      {"HundredthsAboveALargeBound", large_cents, "100000000000000000000000000000000.01", 36},
      {"ExcludedIsAPrefix", not_three, "31", 2},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(refused_at(*make_number_scanner(row.set), row.text), row.refused_at) << row.name;
  }
}

TEST(NumberScanner, AnEmptySetHasNoStart) {
  struct Row {
    const char* name;
    NumberSet set;
  };
  const Row rows[] = {
      {"BoundsCross", {.minimum = Bound{"2"}, .maximum = Bound{"1"}}},
      {"OpenPoint", {.minimum = Bound{"1", true}, .maximum = Bound{"1"}}},
      {"NoIntegerBetween", {.minimum = Bound{"0.2"}, .maximum = Bound{"0.8"}, .multiples = {"1"}}},
      {"NoCommonMultiple",
       {.minimum = Bound{"1"}, .maximum = Bound{"11"}, .multiples = {"3", "4"}}},
      {"AllIntegersExcluded",
       {.minimum = Bound{"1"},
        .maximum = Bound{"2"},
        .multiples = {"1"},
        .excluded = {"1", "2.0"}}},
      {"OnlyNumberExcluded", {.minimum = Bound{"1"}, .maximum = Bound{"1"}, .excluded = {"1"}}},
      {"IntegersButNoMultiplesOfOne", {.multiples = {"4"}, .no_multiples = {"2"}}},
      {"NoValues", {.values = {{}}}},
      {"NoValueInBounds", {.maximum = Bound{"2"}, .values = {{"3", "4e0"}}}},
      {"FineBoundsHoldNoInteger",
       {.minimum = Bound{"0.00000000000000000000000000001"},
        .maximum = Bound{"0.99999999999999999999999999999"},
        .multiples = {"1"}}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(make_number_scanner(row.set)->start(), Scanner::kDead) << row.name;
  }
}

// The header's promise: a prefix is live exactly if some short number that begins with it is in the
// set, for sets whose members are short.
TEST(NumberScanner, PrefixesAreLiveWhereANumberFollows) {
  std::vector<std::string> numbers{"-0", "-0.0"};
  for (int tenths = -2500; tenths <= 2500; ++tenths) {
    const int size = tenths < 0 ? -tenths : tenths;
    const std::string sign = tenths < 0 ? "-" : "";
    numbers.push_back(sign + std::to_string(size / 10) + "." + std::to_string(size % 10));
    if (size % 10 == 0) numbers.push_back(sign + std::to_string(size / 10));
  }
  const std::vector<NumberSet> sets{
      {.minimum = Bound{"17"}, .maximum = Bound{"123"}, .multiples = {"1"}},
      {.minimum = Bound{"-45"}, .maximum = Bound{"12"}, .multiples = {"5"}},
      {.minimum = Bound{"-7.5", true}, .maximum = Bound{"201"}, .multiples = {"0.5"}},
      {.minimum = Bound{"99"}, .maximum = Bound{"101"}, .multiples = {"0.1"}},
      {.minimum = Bound{"-200"}, .maximum = Bound{"-111"}, .multiples = {"7"}},
      {.minimum = Bound{"0"}, .maximum = Bound{"240"}, .multiples = {"6", "10"}},
      {.minimum = Bound{"2"},
       .maximum = Bound{"7"},
       .multiples = {"1"},
       .excluded = {"3", "5", "6"}},
      {.minimum = Bound{"-20"},
       .maximum = Bound{"30"},
       .multiples = {"1"},
       .no_multiples = {"2", "3"}},
      {.multiples = {"0.1"}, .values = {{"12.5", "3", "-201", "122", "0"}}},
  };
  for (const NumberSet& set : sets) {
    const auto scanner = make_number_scanner(set);
    std::vector<std::string> prefixes;  // of members
    for (const std::string& number : numbers) {
      if (!set.contains(number)) continue;
      for (std::size_t i = 1; i <= number.size(); ++i) prefixes.push_back(number.substr(0, i));
    }
    std::sort(prefixes.begin(), prefixes.end());
    for (const std::string& number : numbers) {
      for (std::size_t i = 1; i <= number.size(); ++i) {
        const std::string prefix = number.substr(0, i);
        const int at = refused_at(*scanner, prefix);
        const bool is_live = at == -1 || at == static_cast<int>(prefix.size());
        ASSERT_EQ(is_live, std::ranges::binary_search(prefixes, prefix)) << prefix;
      }
    }
  }
}

// Equivalent prefixes share a state, which must accept what each of them would accept.
TEST(NumberScanner, SharedStatesAcceptWhatTheSetContains) {
  const std::vector<NumberSet> sets{
      {},
      {.multiples = {"1"}},
      {.minimum = Bound{"0"}},
      {.minimum = Bound{"0", true}, .maximum = Bound{"1"}},
      {.minimum = Bound{"-12.5"}, .maximum = Bound{"123.25", true}},
      {.minimum = Bound{"17"}, .maximum = Bound{"1024"}, .multiples = {"1"}},
      {.minimum = Bound{"-7"}, .multiples = {"1"}, .excluded = {"3", "30", "33", "4.0"}},
      {.minimum = Bound{"0.05"}, .maximum = Bound{"0.5"}, .excluded = {"0.25"}},
      {.maximum = Bound{"1e3"}, .excluded = {"12.5", "125", "1.25e-1"}},
      {.no_multiples = {"1"}},
      {.no_multiples = {"0.25"}},
      {.minimum = Bound{"0.05"}, .maximum = Bound{"500", true}, .no_multiples = {"0.25", "0.7"}},
      {.minimum = Bound{"-3"}, .no_multiples = {"12.5"}, .excluded = {"0.249", "7", "3e2"}},
      {.maximum = Bound{"40"}, .no_multiples = {"30", "0.003"}},
  };
  std::vector<std::string> numbers;
  for (const std::string sign : {"", "-"}) {
    for (int whole = 0; whole < 1300; whole += whole < 130 ? 1 : 47) {
      for (const std::string rest : {"", ".0", ".25", ".5", ".500", ".249", ".05", ".050001"}) {
        const std::string decimals = sign + std::to_string(whole) + rest;
        numbers.push_back(decimals);
        if (whole == 0 || whole > 9) continue;
        for (const std::string e : {"e0", "e-1", "e-2", "e1", "e+2", "e3"}) {
          numbers.push_back(decimals + e);
        }
      }
    }
  }
  for (const NumberSet& set : sets) {
    const auto scanner = make_number_scanner(set);
    for (const std::string& number : numbers) {
      if (!set.multiples.empty() && number.find('e') != std::string::npos) continue;
      const bool is_accepted = refused_at(*scanner, number) == static_cast<int>(number.size());
      ASSERT_EQ(is_accepted, set.contains(number)) << number;
    }
  }
}

constexpr std::string_view kSymbolsOfNumbers = "0123456789.eE+-";

// Whether the scanner accepts some text, with up to `more` further symbols, whose number is not in
// `taken`.
bool leads_beside(Scanner& scanner, Scanner::State state, const std::string& text, int more,
                  const NumberSet& taken) {
  if (scanner.is_accepting(state) && taken.contains(text)) return true;
  if (more == 0) return false;
  return std::ranges::any_of(std::string_view("0123456789.e-"), [&](char symbol) {
    const Scanner::State next = scanner.step(state, static_cast<std::uint8_t>(symbol));
    return next != Scanner::kDead && leads_beside(scanner, next, text + symbol, more - 1, taken);
  });
}

// A scanner with exclusions reads exactly what the scanner of all numbers reads without the
// excluded ones, and refuses prefixes that lead only to those: all texts of a few symbols are
// tried.
void expect_reads_the_rest(Scanner& all, Scanner::State of_all, Scanner& rest,
                           Scanner::State of_rest, const std::string& text, int depth,
                           const NumberSet& taken) {
  constexpr int kMore = 4;  // symbols that lead to another number, if one is left
  const bool is_live = leads_beside(all, of_all, text, kMore, taken);
  ASSERT_EQ(of_rest != Scanner::kDead, is_live) << text;
  if (!is_live) return;
  ASSERT_EQ(rest.is_accepting(of_rest), all.is_accepting(of_all) && taken.contains(text)) << text;
  if (depth == 0) return;
  for (const char symbol : kSymbolsOfNumbers) {
    const auto byte = static_cast<std::uint8_t>(symbol);
    const Scanner::State next = all.step(of_all, byte);
    if (next == Scanner::kDead) {
      ASSERT_EQ(rest.step(of_rest, byte), Scanner::kDead) << text << symbol;
      continue;
    }
    expect_reads_the_rest(all, next, rest, rest.step(of_rest, byte), text + symbol, depth - 1,
                          taken);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(NumberScanner, ReadsExactlyTheRestOfASet) {
  struct Row {
    const char* name;
    NumberSet set;
    std::vector<std::string> taken;
    int depth = 3;  // of the prefixes that are tried
  };
  const auto up_to = [](int last, const std::string& suffix = "") {
    std::vector<std::string> numbers;
    for (int i = 0; i <= last; ++i) numbers.push_back(std::to_string(i) + suffix);
    return numbers;
  };
  const NumberSet integers{.multiples = {"1"}};
  const Row rows[] = {
      {"Integers", integers, up_to(20)},
      {"SomeInteger", integers, {"13"}},
      {"NegativeIntegers", integers, {"-1", "-10", "-13.0", "0", "-0", "130"}},
      {"SpelledIntegers", {.multiples = {"1"}, .integers_are_spelled = true}, {"7", "0", "-3"}},
      {"FewIntegers",
       {.minimum = Bound{"0"}, .maximum = Bound{"20"}, .multiples = {"1"}},
       {"1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "3"}},
      {"FewerIntegers",
       {.minimum = Bound{"-1"}, .maximum = Bound{"3"}, .multiples = {"1"}},
       {"-1", "3", "2", "1"}},
      {"AllBelowABound",
       {.maximum = Bound{"3"}, .multiples = {"1"}},
       {"3", "2", "1", "0", "-1", "-2"}},
      {"AnOpenBound", {.maximum = Bound{"7.5", true}, .multiples = {"1"}}, {"7", "6", "-7"}},
      {"Sevens", {.minimum = Bound{"0"}, .multiples = {"7"}}, {"0", "7", "14", "70", "77", "21"}},
      {"Quarters",
       {.minimum = Bound{"0"}, .maximum = Bound{"3"}, .multiples = {"0.25"}},
       {"0.25", "0.5", "0.75", "1", "1.0", "2.50"}},
      {"OddIntegers",
       {.minimum = Bound{"0"}, .maximum = Bound{"30"}, .multiples = {"1"}, .no_multiples = {"2"}},
       {"1", "11", "13", "15", "17", "19", "3", "5"}},
      {"Numbers", {}, {"1", "1.5", "1.05", "0.1", "7", "-7", "0", "20", "1.3e1"}},
      {"PowersOfTen", {}, {"1", "10", "100", "1e3", "1e4", "1e5", "1e6", "1e7", "1e8", "1e9"}, 4},
      {"SmallPowersOfTen", {}, {"0.1", "0.01", "1e-3", "1e-40", "2e-300"}},
      {"ManyExponents", {}, up_to(120, "e0")},
      {"UpToAPoint", {.minimum = Bound{"0"}, .maximum = Bound{"2"}}, {"2", "0", "1", "0.5"}},
      {"DownToAPoint", {.minimum = Bound{"-2"}, .maximum = Bound{"0"}}, {"-2", "0", "-1", "-0.5"}},
      {"APointOfOneExponent", {.maximum = Bound{"-20"}}, {"-20", "-30", "-2e2"}},
      {"NoIntegers", {.no_multiples = {"1"}}, {"0.5", "1.5", "15e-1", "-0.25"}},
      {"AList", {.values = {{"7", "1200", "-0.5", "0.2", "1.25"}}}, {"1.2e3", "1.25", "-0.5"}},
      {"TwoOfAList", {.values = {{"1", "10", "100", "12"}}}, {"10", "1"}},
      {"OneOfAList", {.values = {{"1500"}}}, {"15"}},
      {"OthersThanTheSetHas", {.minimum = Bound{"5"}, .multiples = {"1"}}, {"3", "5.5", "6", "-6"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto scanner = make_number_scanner(row.set);
    NumberScanner::Less less = NumberScanner::kWhole;
    for (const std::string& number : row.taken) less = scanner->without(less, number);
    NumberScanner::Less reversed = NumberScanner::kWhole;
    for (auto number = row.taken.rbegin(); number != row.taken.rend(); ++number) {
      reversed = scanner->without(scanner->without(reversed, *number), *number);
    }
    EXPECT_EQ(less, reversed);
    NumberSet rest = row.set;
    rest.excluded = row.taken;
    expect_reads_the_rest(*scanner, scanner->start(), *scanner, scanner->start_of(less), "",
                          row.depth, rest);
    const auto of_rest = make_number_scanner(rest);
    expect_reads_the_rest(*scanner, scanner->start(), *of_rest, of_rest->start(), "", 2, rest);
  }
}

// However many are excluded, one more costs only the states on the way to it.
TEST(NumberScanner, OneNumberLessCostsTheSameHoweverManyAreTaken) {
  for (const NumberSet& set : {NumberSet{.multiples = {"1"}}, NumberSet{}}) {
    const auto scanner = make_number_scanner(set);
    NumberScanner::Less less = NumberScanner::kWhole;
    const auto take = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        less = scanner->without(less, std::to_string(i));
        Scanner::State state = scanner->start_of(less);
        for (const char digit : std::to_string(i + 1)) {
          state = scanner->step(state, static_cast<std::uint8_t>(digit));
        }
        ASSERT_TRUE(scanner->is_accepting(state));
      }
    };
    take(1000, 1100);
    const std::size_t before = scanner->memory_bytes();
    take(1100, 3000);
    EXPECT_LT(scanner->memory_bytes() - before, std::size_t{1900} * 8 * 1024);
  }
}

// What is left of a prefix is its remainder by the steps, so a thousand prefixes have few states.
TEST(NumberScanner, PrefixesShareStatesWhereMultiplesAreForbidden) {
  const std::vector<NumberSet> sets{
      {.no_multiples = {"1"}},
      {.minimum = Bound{"7.5", true}, .no_multiples = {"0.25", "0.01"}},
      {.multiples = {"0.25"}, .no_multiples = {"0.5"}},
  };
  for (const NumberSet& set : sets) {
    const auto scanner = make_number_scanner(set);
    for (const std::string first : {"", "5", "1", "9.0", "123."}) {
      std::set<Scanner::State> states;
      for (int number = 100; number < 1000; ++number) {
        Scanner::State state = scanner->start();
        for (const char symbol : first + std::to_string(number)) {
          if (state != Scanner::kDead) {
            state = scanner->step(state, static_cast<std::uint8_t>(symbol));
          }
        }
        states.insert(state);
      }
      EXPECT_LT(states.size(), 110) << first;
    }
  }
}

TEST(NumberScanner, SomeNumbersAreSoonFoundBesideMultiples) {
  for (const std::string step : {"1", "0.02", "0.0025", "1e-9", "3e5"}) {
    const SomeNumbers found = some_numbers({.minimum = Bound{"1"}, .no_multiples = {step}}, 64);
    EXPECT_EQ(found.numbers.size(), 64) << step;
    EXPECT_LT(found.tried, 200) << step;
  }
}

TEST(NumberScanner, StepsThatFollowFromOthersAreLeftOut) {
  struct Row {
    std::vector<std::string> steps;
    std::vector<std::string> left;
  };
  const Row rows[] = {
      {{}, {}},
      {{"0.01", "0.0025", "0.02"}, {"0.0025"}},
      {{"2", "3", "6"}, {"2", "3"}},
      {{"0.50", "5e-1"}, {"0.50"}},
      {{"0.3", "7", "65536"}, {"0.3", "7", "65536"}},
  };
  for (const Row& row : rows) {
    NumberSet set{.no_multiples = row.steps};
    drop_implied_steps(set);
    EXPECT_EQ(set.no_multiples, row.left);
  }
}

TEST(NumberScanner, NumbersWithMorePlacesThanAreWrittenAreRefused) {
  EXPECT_TRUE(check_places("1.7976931348623157e308"));
  EXPECT_TRUE(check_places("1e-300"));
  EXPECT_FALSE(check_places("1e400"));
  EXPECT_FALSE(check_places("0." + std::string(5000, '1')));
  EXPECT_FALSE(check_places("1" + std::string(300, '0') + "." + std::string(300, '1')));
  NumberSet primes{.multiples = {"1e300", "7e-300"}};
  EXPECT_TRUE(check_steps(primes));
  for (int i = 3; i < 5000; i += 2) primes.multiples.push_back(std::to_string(i));
  EXPECT_FALSE(check_steps(primes));
}

}  // namespace
}  // namespace tenon::grammar
