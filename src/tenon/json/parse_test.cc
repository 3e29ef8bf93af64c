#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenon/base/long_for_test.h"
#include "tenon/json/test_rows.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

using Oracle = nlohmann::json;

std::string parse_row_name(const ::testing::TestParamInfo<TextRow>& row) {
  return std::string(row.param.name);
}

class ValidParse : public ::testing::TestWithParam<TextRow> {};
class InvalidParse : public ::testing::TestWithParam<TextRow> {};

// Nothing if the text holds a number outside the range of doubles. Such a text is JSON, but the
// oracle stops reading there.
std::optional<bool> oracle_accepts(std::string_view text) {
  try {
    return !Oracle::parse(text).is_discarded();
  } catch (const Oracle::out_of_range&) {
    return std::nullopt;
  } catch (const Oracle::exception&) {
    return false;
  }
}

TEST_P(ValidParse, SucceedsAndIsWrittenBackAlike) {
  const std::string_view text = GetParam().text;
  const auto value = parse(text);
  ASSERT_TRUE(value) << value.error().message;
  const std::string written = to_string(*value);
  const auto again = parse(written);
  ASSERT_TRUE(again) << written;
  EXPECT_EQ(*again, *value);
  EXPECT_EQ(to_string(*again), written);
  if (oracle_accepts(text)) {
    EXPECT_EQ(Oracle::parse(written), Oracle::parse(text));
  }
}

TEST_P(InvalidParse, Fails) {
  const auto value = parse(GetParam().text);
  ASSERT_FALSE(value) << to_string(*value);
  EXPECT_EQ(value.error().code, Errc::invalid);
  EXPECT_TRUE(value.error().message.starts_with("line ")) << value.error().message;
}

INSTANTIATE_TEST_SUITE_P(Rfc8259, ValidParse, ::testing::ValuesIn(kValidTexts), parse_row_name);
INSTANTIATE_TEST_SUITE_P(Rfc8259, InvalidParse, ::testing::ValuesIn(kInvalidTexts), parse_row_name);

// Each row is tried with every byte dropped, and with each of these bytes put before and in place
// of every byte: about 150 000 texts, some valid and some not. Quick: every fourth of them.
TEST(Parse, AgreesWithTheOracleAroundEveryRow) {
  constexpr std::string_view kBytes =
      " \n\t\v{}[],:\"\\/u0159+-.eEtfnlax\x01\x7f\x80\xA9\xC3\xE2\xED\xF0\xF4\xFF";
  std::size_t accepted = 0;
  Sample sample(4);
  const auto check = [&](const std::string& text) {
    if (!sample.takes_next()) return;
    // The oracle skips a byte order mark and takes a NUL for the end of the text.
    if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string::npos) return;
    const bool is_valid = parse(text).has_value();
    accepted += is_valid ? 1 : 0;
    ASSERT_EQ(is_valid, oracle_accepts(text).value_or(is_valid)) << ::testing::PrintToString(text);
  };
  std::vector<TextRow> rows(std::begin(kValidTexts), std::end(kValidTexts));
  rows.insert(rows.end(), std::begin(kInvalidTexts), std::end(kInvalidTexts));
  for (const TextRow& row : rows) {
    const std::string text(row.text);
    for (std::size_t at = 0; at <= text.size(); ++at) {
      check(text.substr(0, at) + text.substr(std::min(at + 1, text.size())));
      for (const char byte : kBytes) {
        check(text.substr(0, at) + byte + text.substr(at));
        check(text.substr(0, at) + byte + text.substr(std::min(at + 1, text.size())));
      }
    }
  }
  EXPECT_GT(accepted, is_long_test() ? 10000u : 2500u);
}

struct ErrorRow {
  std::string_view text;
  std::string_view message;
};

TEST(Parse, SaysWhereAndWhatWasExpected) {
  const ErrorRow rows[] = {
      {"", "line 1, column 1: expected a value, found the end of the text"},
      {"nul", "line 1, column 1: expected a value, found 'n'"},
      {"1 2", "line 1, column 3: expected the end of the text, found '2'"},
      {"[1,\n 2\n 3]", "line 3, column 2: expected ',' or ']' after an item, found '3'"},
      {"[1,]", "line 1, column 4: expected a value, found ']'"},
      {"{1:2}", "line 1, column 2: expected a key in double quotes or '}', found '1'"},
      {R"({"a":1,})", "line 1, column 8: expected a key in double quotes, found '}'"},
      {R"({"a" 1})", "line 1, column 6: expected ':' after a key, found '1'"},
      {R"({"a":1 "b":2})", "line 1, column 8: expected ',' or '}' after a member, found '\"'"},
      {"[-a]", "line 1, column 3: expected a digit after '-', found 'a'"},
      {"[1.]", "line 1, column 4: expected a digit after '.', found ']'"},
      {"[1e]", "line 1, column 4: expected a digit of the exponent, found ']'"},
      {"\"abc", "line 1, column 5: expected the string's closing '\"', found the end of the text"},
      {"\"a\nb\"",
       "line 1, column 3: expected control characters in strings to be escaped, found byte 0x0a"},
      {R"("\x")", "line 1, column 3: expected one of \"\\/bfnrtu after '\\', found 'x'"},
      {R"("\u12x4")", "line 1, column 6: expected four hexadecimal digits after '\\u', found 'x'"},
      {R"("a\ud800")",
       "line 1, column 3: expected a surrogate escape to be one of a pair, found '\\'"},
      {"\"\xC3\xA9\xFF\"", "line 1, column 3: expected valid UTF-8, found byte 0xff"},
      {"{\"\xC3\xA9\xF0\x9F\x98\x80\": \xE2\x82\xAC}",
       "line 1, column 8: expected a value, found '\xE2\x82\xAC'"},
  };
  for (const ErrorRow& row : rows) {
    const auto value = parse(row.text);
    ASSERT_FALSE(value) << row.text;
    const auto line = static_cast<std::uint32_t>(row.message[5] - '0');  // "line 3, ..."
    EXPECT_EQ(value.error(), (Error{Errc::invalid, std::string(row.message), "", line}));
  }
}

TEST(Parse, KeepsOrderNumbersAndTheLastOfTwoKeys) {
  const auto value = parse(R"({"z": 1.50, "a": 1E+2, "z": 100000000000000000000, "b": -0})");
  ASSERT_TRUE(value);
  EXPECT_EQ(to_string(*value), R"({"z":100000000000000000000,"a":1E+2,"b":-0})");
}

TEST(Parse, StopsAtItsLimits) {
  EXPECT_TRUE(parse("[[[]]]", {.max_depth = 3}));
  EXPECT_EQ(parse("[[[[]]]]", {.max_depth = 3}).error(),
            (Error{Errc::limit_exceeded, "line 1, column 4: nested more than 3 deep", "", 1}));
  EXPECT_EQ(parse(R"({"a":{"b":{"c":{}}}})", {.max_depth = 3}).error().code, Errc::limit_exceeded);
  EXPECT_TRUE(parse("1", {.max_depth = 0}));
  EXPECT_EQ(parse("[]", {.max_depth = 0}).error().code, Errc::limit_exceeded);

  EXPECT_TRUE(parse("[1,2]", {.max_values = 3}));
  EXPECT_EQ(parse("[1,2,3]", {.max_values = 3}).error(),
            (Error{Errc::limit_exceeded, "line 1, column 6: more than 3 values", "", 1}));

  EXPECT_TRUE(parse("[1,2]", {.max_bytes = 5}));
  EXPECT_EQ(parse("[1,2] ", {.max_bytes = 5}).error(),
            (Error{Errc::limit_exceeded, "JSON text larger than 5 bytes"}));
}

// The default depth refuses a text that a higher limit allows; neither way may recurse.
TEST(Parse, TakesAnyDepthItIsAllowed) {
  const std::size_t depth = 200'000;
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{R"({"a":)", "}"}}) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    const std::string cut = text;
    text += "0";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    EXPECT_EQ(parse(text).error().code, Errc::limit_exceeded);
    const auto value = parse(text, {.max_depth = depth});
    ASSERT_TRUE(value);
    EXPECT_EQ(to_string(*value), text);
    EXPECT_EQ(parse(cut, {.max_depth = depth}).error().code, Errc::invalid);
  }
}

TEST(Parse, TakesStringsOfEveryLengthWithEverySpecialByteAtEveryPlace) {
  for (std::size_t length = 1; length < 20; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(length, 'x');
        text[at] = static_cast<char>(byte);
        const bool is_fine = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        const auto value = parse('"' + text + '"');
        ASSERT_EQ(value.has_value(), is_fine) << byte;
        if (is_fine) {
          ASSERT_EQ(*value, Value(text));
        }
        if (byte < 0x80) {
          ASSERT_EQ(parse(json::quoted(text)), Value(text));
        }
      }
    }
  }
}

TEST(Parse, TakesTimeInProportionForKeysChosenToCollide) {
  // 100 000 members, then again in reverse: quadratic look-up would take minutes.
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"key" + std::to_string(i) + "\":1,";
  for (int i = 100'000; i > 0; --i) text += "\"key" + std::to_string(i - 1) + "\":2,";
  text.back() = '}';
  const auto value = parse(text);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->if_object()->size(), 100'000u);
  EXPECT_EQ(value->if_object()->members().front().key, "key0");
  EXPECT_EQ(*value->find("key99999"), Value(2));
}

}  // namespace
}  // namespace tenon::json
