#include "tenon/json/value.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/json/decimal.h"

namespace tenon::json {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Value>);
static_assert(std::is_nothrow_move_assignable_v<Value>);
static_assert(!std::is_constructible_v<Value, char>);
static_assert(!std::is_constructible_v<Value, void*>);  // pointers do not turn into true

// Numbers -----------------------------------------------------------------------------------------

struct ValueNumberRow {
  std::string_view text;
  std::optional<std::int64_t> integer;  // what to_int64 gives
  bool is_integer;
  double value;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

const ValueNumberRow kValueNumbers[] = {
    {"0", 0, true, 0.0},
    {"-0", 0, true, -0.0},
    {"0.000", 0, true, 0.0},
    {"0e999999999999999999999", 0, true, 0.0},
    {"1", 1, true, 1.0},
    {"-1", -1, true, -1.0},
    {"1.0", 1, true, 1.0},
    {"1e0", 1, true, 1.0},
    {"10e-1", 1, true, 1.0},
    {"0.001e3", 1, true, 1.0},
    {"100000e-5", 1, true, 1.0},
    {"1.5", std::nullopt, false, 1.5},
    {"15e-1", std::nullopt, false, 1.5},
    {"1.5e1", 15, true, 15.0},
    {"1e3", 1000, true, 1000.0},
    {"9223372036854775807", kMost, true, 9223372036854775807.0},
    {"9223372036854775807.000", kMost, true, 9223372036854775807.0},
    {"9223372036854775808", std::nullopt, true, 9223372036854775808.0},
    {"-9223372036854775808", kLeast, true, -9223372036854775808.0},
    {"-9223372036854775809", std::nullopt, true, -9223372036854775808.0},
    {"-922337203685477580.8e1", kLeast, true, -9223372036854775808.0},
    {"9999999999999999999", std::nullopt, true, 1e19},
    {"1e18", 1000000000000000000, true, 1e18},
    {"1e19", std::nullopt, true, 1e19},
    {"0.1e19", 1000000000000000000, true, 1e18},
    {"123456789012345678901234567890", std::nullopt, true, 123456789012345678901234567890.0},
    {"0.1", std::nullopt, false, 0.1},
    {"1e-400", std::nullopt, false, 0.0},
    {"-1e-400", std::nullopt, false, -0.0},
    {"1e400", std::nullopt, true, kInfinity},
    {"-1e400", std::nullopt, true, -kInfinity},
    {"1e999999999999999999999999", std::nullopt, true, kInfinity},
    {"1e-999999999999999999999999", std::nullopt, false, 0.0},
    {"5e-324", std::nullopt, false, 5e-324},
    {"1.7976931348623157e308", std::nullopt, true, 1.7976931348623157e308},
};

TEST(Number, TurnsIntoMachineNumbers) {
  for (const ValueNumberRow& row : kValueNumbers) {
    const Number number{std::string(row.text)};
    EXPECT_EQ(number.to_int64(), row.integer) << row.text;
    EXPECT_EQ(number.is_integer(), row.is_integer) << row.text;
    EXPECT_EQ(number.to_double(), row.value) << row.text;
    EXPECT_EQ(std::signbit(number.to_double()), std::signbit(row.value)) << row.text;
  }
}

// The rows of one list are equal to each other and to no row of another list.
const std::vector<std::vector<std::string>> kEqualNumbers = {
    {"0", "-0", "0.0", "-0.000", "0e5", "0e999999999999999999999"},
    {"1", "1.0", "1e0", "10e-1", "0.01E+2", "100e-0002"},
    {"-1", "-1.00", "-10e-1"},
    {"1.5", "15e-1", "0.15e1", "1.500"},
    {"123456789012345678901234567890", "12345678901234567890123456789e1"},
    {"123456789012345678901234567891"},
    {"0.1", "1e-1"},
    {"0.1000000000000000055511151231257827021181583404541015625"},
    {"1e400", "10e399", "0.1e401"},
    {"1e401"},
    {"1e999999999", "10e999999998"},
    {"1e99999999999999999999", "1.0e+0099999999999999999999"},
    {"1e99999999999999999998"},
    {"1e-99999999999999999999"},
};

TEST(Number, IsEqualByValue) {
  for (std::size_t a = 0; a < kEqualNumbers.size(); ++a) {
    for (std::size_t b = 0; b < kEqualNumbers.size(); ++b) {
      for (const std::string& left : kEqualNumbers[a]) {
        for (const std::string& right : kEqualNumbers[b]) {
          EXPECT_EQ(Value(Number{left}) == Value(Number{right}), a == b) << left << ' ' << right;
          EXPECT_EQ(Number{left} == Number{right}, left == right);
        }
      }
    }
  }
}

// In rising order.
const std::vector<std::string> kOrderedNumbers = {
    "-1e99999999999999999999",
    "-1e99999999999999999998",
    "-1e400",
    "-9007199254740993",
    "-9007199254740992.5",
    "-1.50000001",
    "-1.5",
    "-1e-400",
    "-1e-99999999999999999999",
    "0",
    "1e-99999999999999999999",
    "1e-99999999999999999998",
    "1e-400",
    "0.1",
    "0.1000000000000000055511151231257827021181583404541015625",
    "0.11",
    "1",
    "1.0000000000000000000000001",
    "2",
    "10",
    "123456789012345678901234567890",
    "123456789012345678901234567891",
    "1e400",
    "9e400",
    "10e400",
    "1e999999999999999999",
    "1e99999999999999999998",
    "1e99999999999999999999",
};

TEST(Decimal, IsComparedExactly) {
  for (std::size_t a = 0; a < kOrderedNumbers.size(); ++a) {
    for (std::size_t b = 0; b < kOrderedNumbers.size(); ++b) {
      EXPECT_EQ(compare(decimal_of(kOrderedNumbers[a]), decimal_of(kOrderedNumbers[b])), a <=> b)
          << kOrderedNumbers[a] << ' ' << kOrderedNumbers[b];
    }
  }
}

TEST(Value, SpellsMachineNumbers) {
  EXPECT_EQ(to_string(Value(std::int8_t{-5})), "-5");
  EXPECT_EQ(to_string(Value(std::uint32_t{5})), "5");
  EXPECT_EQ(to_string(Value(kLeast)), "-9223372036854775808");
  EXPECT_EQ(to_string(Value(std::numeric_limits<std::uint64_t>::max())), "18446744073709551615");
  EXPECT_EQ(to_string(Value(7LL)), "7");
  EXPECT_EQ(to_string(Value(1.0)), "1.0");
  EXPECT_EQ(to_string(Value(-0.0)), "-0.0");
  EXPECT_EQ(to_string(Value(0.1)), "0.1");
  EXPECT_EQ(to_string(Value(1e300)), "1e+300");
  EXPECT_EQ(to_string(Value(kInfinity)), "null");
  EXPECT_EQ(to_string(Value(std::nan(""))), "null");
  EXPECT_EQ(to_string(Value(true)), "true");
}

// Objects -----------------------------------------------------------------------------------------

TEST(Object, KeepsOrderAndFirstPlaces) {
  Object object{{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_EQ(to_string(object), R"({"b":3,"a":2})");
  EXPECT_FALSE(object.set("b", 4));
  EXPECT_TRUE(object.set("c", 5));
  object["d"] = 6;
  object["a"] = 7;
  EXPECT_TRUE(object["e"].is_null());
  EXPECT_TRUE(object.erase("b"));
  EXPECT_FALSE(object.erase("b"));
  EXPECT_EQ(to_string(object), R"({"a":7,"c":5,"d":6,"e":null})");
  EXPECT_TRUE(object.contains("a"));
  EXPECT_FALSE(object.contains("b"));
  object.clear();
  EXPECT_TRUE(object.empty());
  EXPECT_EQ(object.find("a"), nullptr);
}

// The same steps on an Object and on a plain list, around the size where hashing begins.
TEST(Object, BehavesAsAListAtEverySize) {
  std::vector<std::pair<std::string, int>> list;
  Object object;
  const auto expect_same = [&] {
    ASSERT_EQ(object.size(), list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      ASSERT_EQ(object.members()[i].key, list[i].first);
      ASSERT_EQ(*object.find(list[i].first), Value(list[i].second));
    }
    ASSERT_EQ(object.find("missing"), nullptr);
  };
  for (int i = 0; i < 100; ++i) {
    const std::string key = "k" + std::to_string(i * 7919 % 100);
    object.set(key, i);
    list.emplace_back(key, i);
    expect_same();
  }
  const Object copy = object;
  for (int i = 0; i < 100; i += 1) {
    const std::size_t at = static_cast<std::size_t>(i) * 31 % list.size();
    EXPECT_TRUE(object.erase(list[at].first));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    expect_same();
  }
  EXPECT_TRUE(object.empty());
  EXPECT_EQ(copy.size(), 100u);
  EXPECT_EQ(*copy.find("k0"), Value(0));
}

TEST(Object, IsEqualInAnyOrder) {
  EXPECT_EQ((Object{{"a", 1}, {"b", 2}}), (Object{{"b", 2.0}, {"a", 1}}));
  EXPECT_FALSE((Object{{"a", 1}}) == (Object{{"a", 2}}));
  EXPECT_FALSE((Object{{"a", 1}}) == (Object{{"b", 1}}));
  EXPECT_FALSE((Object{{"a", 1}}) == (Object{{"a", 1}, {"b", 1}}));
}

// Values ------------------------------------------------------------------------------------------

TEST(Value, KnowsItsKind) {
  const std::vector<std::pair<Value, std::string_view>> rows = {
      {nullptr, "null"},
      {Value(), "null"},
      {false, "boolean"},
      {1, "number"},
      {1.5, "number"},
      {"text", "string"},
      {Array{}, "array"},
      {Object{}, "object"},
      {std::string("text"), "string"},
      {std::string_view("text"), "string"}};
  for (const auto& [value, name] : rows) {
    EXPECT_EQ(kind_name(value.kind()), name);
    EXPECT_EQ(value.is_null(), name == "null");
    EXPECT_EQ(value.if_bool() != nullptr, name == "boolean");
    EXPECT_EQ(value.if_number() != nullptr, name == "number");
    EXPECT_EQ(value.if_string() != nullptr, name == "string");
    EXPECT_EQ(value.if_array() != nullptr, name == "array");
    EXPECT_EQ(value.if_object() != nullptr, name == "object");
    EXPECT_EQ(value.find("key"), nullptr);
  }
}

TEST(Value, IsEqualToItselfAndNoOther) {
  const std::vector<std::string> texts = {"null",
                                          "false",
                                          "true",
                                          "0",
                                          "1",
                                          "\"\"",
                                          "\"0\"",
                                          "[]",
                                          "[[]]",
                                          "[0]",
                                          "[0,1]",
                                          "[1,0]",
                                          "{}",
                                          R"({"a":0})",
                                          R"({"a":[]})",
                                          R"({"b":0})",
                                          R"({"a":0,"b":0})",
                                          R"([{"a":[1,{"b":2}]}])",
                                          R"([{"a":[1,{"b":3}]}])"};
  for (const std::string& left : texts) {
    for (const std::string& right : texts) {
      EXPECT_EQ(parse(left).value() == parse(right).value(), left == right) << left << right;
    }
  }
}

TEST(Value, MayBeGivenAPartOfItself) {
  Value value = parse(R"({"a":[1,[2,[3]]]})").value();
  value = std::move(*value.find("a"));
  EXPECT_EQ(to_string(value), "[1,[2,[3]]]");
  value = (*value.if_array())[1];
  EXPECT_EQ(to_string(value), "[2,[3]]");
  Value& self = value;
  value = self;
  EXPECT_EQ(to_string(value), "[2,[3]]");
}

// Trees whose links the destructor reverses: the open child is first, last, in the middle, or
// alone.
Value deep(std::size_t depth, std::size_t before, std::size_t after, bool objects) {
  Value value = 0;
  for (std::size_t i = 0; i < depth; ++i) {
    const auto filler = [i](std::size_t n) {
      return n % 3 == 0 ? Value(n) : n % 3 == 1 ? Value(Array{Value(Array{1, 2}), i}) : Value("x");
    };
    if (objects && i % 2 == 0) {
      Object object;
      for (std::size_t n = 0; n < before; ++n) object.set("b" + std::to_string(n), filler(n));
      object.set("child", std::move(value));
      for (std::size_t n = 0; n < after; ++n) object.set("a" + std::to_string(n), filler(n));
      value = std::move(object);
    } else {
      Array array;
      for (std::size_t n = 0; n < before; ++n) array.push_back(filler(n));
      array.push_back(std::move(value));
      for (std::size_t n = 0; n < after; ++n) array.push_back(filler(n));
      value = std::move(array);
    }
  }
  return value;
}

TEST(Value, OfAnyDepthIsCopiedComparedWrittenAndDestroyed) {
  for (const bool objects : {false, true}) {
    for (const auto& [before, after] : {std::pair{0, 0}, {1, 0}, {0, 1}, {1, 2}}) {
      Value value =
          deep(30'000, static_cast<std::size_t>(before), static_cast<std::size_t>(after), objects);
      const Value copy = value;
      EXPECT_TRUE(copy == value);
      EXPECT_EQ(to_string(copy), to_string(value));
      EXPECT_EQ(dumps(copy, {.sort_keys = true}), dumps(value, {.sort_keys = true}));
      value = nullptr;
      EXPECT_FALSE(copy == value);
    }
  }
}

TEST(Value, CopiesAreIndependent) {
  Value value = deep(4, 1, 1, true);
  const std::string before = to_string(value);
  Value copy = value;
  copy.if_array()->push_back("more");
  EXPECT_EQ(to_string(value), before);
  EXPECT_FALSE(copy == value);
  const Value moved = std::move(copy);
  EXPECT_EQ(moved.if_array()->back(), Value("more"));
}

// Pointers ----------------------------------------------------------------------------------------

struct PointerRow {
  std::string_view pointer;
  std::string_view text;  // "" if there is no such value
};

// The document and the first rows are those of RFC 6901, section 5.
TEST(Pointer, FindsWhatRfc6901Says) {
  const auto document = parse(
      R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,)"
      R"("~1":9,"deep":{"a":[[{"b":10}]]},"12":11})");
  ASSERT_TRUE(document);
  const std::string whole = to_string(*document);
  const PointerRow rows[] = {
      {"", whole},
      {"/foo", R"(["bar","baz"])"},
      {"/foo/0", R"("bar")"},
      {"/", "0"},
      {"/a~1b", "1"},
      {"/c%d", "2"},
      {"/e^f", "3"},
      {"/g|h", "4"},
      {"/i\\j", "5"},
      {"/k\"l", "6"},
      {"/ ", "7"},
      {"/m~0n", "8"},
      {"/~01", "9"},
      {"/deep/a/0/0/b", "10"},
      {"/12", "11"},
      {"foo", ""},
      {"/nothing", ""},
      {"/foo/2", ""},
      {"/foo/-", ""},
      {"/foo/00", ""},
      {"/foo/+1", ""},
      {"/foo/-1", ""},
      {"/foo/1x", ""},
      {"/foo/", ""},
      {"/foo/99999999999999999999999", ""},
      {"/foo/0/0", ""},
      {"//", ""},
  };
  for (const PointerRow& row : rows) {
    const Value* const value = at_pointer(*document, row.pointer);
    EXPECT_EQ(value == nullptr ? "" : to_string(*value), row.text) << row.pointer;
  }
}

}  // namespace
}  // namespace tenon::json
