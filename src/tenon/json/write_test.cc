#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/json/test_rows.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

struct WriteNumberRow {
  std::string_view text;
  std::string_view python;
};

// Right column: json.dumps(json.loads(left)) of Python 3.11.
const WriteNumberRow kWriteNumbers[] = {
    {"0", "0"},
    {"-0", "0"},
    {"1", "1"},
    {"-1", "-1"},
    {"123456789012345678901234567890", "123456789012345678901234567890"},
    {"0.0", "0.0"},
    {"-0.0", "-0.0"},
    {"1.0", "1.0"},
    {"1.50", "1.5"},
    {"1e0", "1.0"},
    {"1E0", "1.0"},
    {"1e5", "100000.0"},
    {"1e15", "1000000000000000.0"},
    {"1e16", "1e+16"},
    {"1e+16", "1e+16"},
    {"1e22", "1e+22"},
    {"1e23", "1e+23"},
    {"123456789012345680", "123456789012345680"},
    {"123456789012345680.0", "1.2345678901234568e+17"},
    {"1234567890123456.7", "1234567890123456.8"},
    {"12345678901234567.8", "1.2345678901234568e+16"},
    {"0.1", "0.1"},
    {"0.2e0", "0.2"},
    {"0.30000000000000004", "0.30000000000000004"},
    {"1e-4", "0.0001"},
    {"1e-5", "1e-05"},
    {"0.0001", "0.0001"},
    {"0.00001", "1e-05"},
    {"0.000123", "0.000123"},
    {"1.5e-7", "1.5e-07"},
    {"5e-324", "5e-324"},
    {"2e-324", "0.0"},
    {"4.9406564584124654e-324", "5e-324"},
    {"2.2250738585072014e-308", "2.2250738585072014e-308"},
    {"2.2250738585072011e-308", "2.225073858507201e-308"},
    {"1.7976931348623157e308", "1.7976931348623157e+308"},
    {"1.7976931348623159e308", "Infinity"},
    {"1E400", "Infinity"},
    {"-1e400", "-Infinity"},
    {"1e-400", "0.0"},
    {"-1e-400", "-0.0"},
    {"9007199254740993.0", "9007199254740992.0"},
    {"9007199254740992.0", "9007199254740992.0"},
    {"3.141592653589793238462643", "3.141592653589793"},
    {"100000000000000000000.0", "1e+20"},
    {"1e21", "1e+21"},
    {"9.5367431640625e-07", "9.5367431640625e-07"},
    {"1e100", "1e+100"},
    {"6.02214076e23", "6.02214076e+23"},
    {"-273.15", "-273.15"},
    {"2.5e-3", "0.0025"},
    {"99999999999999990.0", "9.999999999999998e+16"},
    {"0.1e1", "1.0"},
    {"12e3", "12000.0"},
    {"1e999999999999999999999", "Infinity"},
};

TEST(Dumps, WritesNumbersAsPythonDoes) {
  for (const WriteNumberRow& row : kWriteNumbers) {
    EXPECT_EQ(dumps(Number{std::string(row.text)}), row.python) << row.text;
    EXPECT_EQ(to_string(Number{std::string(row.text)}), row.text);
  }
}

constexpr std::string_view kDocument =
    R"({"b": [1, 2.50, {"x": null, "\u00e9\n": "\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"}, [], {}],)"
    R"( "a": "\"\\", "B": true, "\ud83d\ude00": 1, "\uffff": 2, "": false})";

struct DumpsRow {
  std::string_view name;
  DumpsOptions options;
  std::string_view text;
};

// The output of Python 3.11 for the document with these arguments.
const DumpsRow kDumps[] = {
    {"Default",
     {},
     R"({"b": [1, 2.5, {"x": null, "\u00e9\n": "\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"}, [], {}])"
     R"(, "a": "\"\\", "B": true, "\ud83d\ude00": 1, "\uffff": 2, "": false})"},
    {"NotEnsureAscii",
     {.ensure_ascii = false},
     "{\"b\": [1, 2.5, {\"x\": null, \"\u00e9\\n\": \"\u20ac\U0001F600\x7f/<>&\\u0000\u2028\"}, "
     "[], {}], \"a\": \"\\\"\\\\\", \"B\": true, \"\U0001F600\": 1, \"\uffff\": 2, \"\": false}"},
    {"Indent",
     {.indent = 2},
     R"({
  "b": [
    1,
    2.5,
    {
      "x": null,
      "\u00e9\n": "\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"
    },
    [],
    {}
  ],
  "a": "\"\\",
  "B": true,
  "\ud83d\ude00": 1,
  "\uffff": 2,
  "": false
})"},
    {"IndentZero",
     {.indent = 0},
     R"({
"b": [
1,
2.5,
{
"x": null,
"\u00e9\n": "\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"
},
[],
{}
],
"a": "\"\\",
"B": true,
"\ud83d\ude00": 1,
"\uffff": 2,
"": false
})"},
    {"SortKeysByCodePoint",
     {.sort_keys = true},
     R"({"": false, "B": true, "a": "\"\\", "b": [1, 2.5, {"x": null, "\u00e9\n": )"
     R"("\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"}, [], {}], "\uffff": 2, "\ud83d\ude00": 1})"},
    {"Separators",
     {.item_separator = ",", .key_separator = ":"},
     R"({"b":[1,2.5,{"x":null,"\u00e9\n":"\u20ac\ud83d\ude00\u007f/<>&\u0000\u2028"},[],{}])"
     R"(,"a":"\"\\","B":true,"\ud83d\ude00":1,"\uffff":2,"":false})"},
    {"SeparatorsAndIndent",
     {.indent = 1, .item_separator = " ; ", .key_separator = " = "},
     "{\n \"b\" = [\n  1 ; \n  2.5 ; \n  {\n   \"x\" = null ; \n   \"\\u00e9\\n\" = "
     "\"\\u20ac\\ud83d\\ude00\\u007f/<>&\\u0000\\u2028\"\n  } ; \n  [] ; \n  {}\n ] ; \n "
     "\"a\" = \"\\\"\\\\\" ; \n \"B\" = true ; \n \"\\ud83d\\ude00\" = 1 ; \n \"\\uffff\" = 2 ; "
     "\n \"\" = false\n}"},
};

TEST(Dumps, WritesWhatPythonWritesWithTheSameArguments) {
  const auto value = parse(kDocument);
  ASSERT_TRUE(value);
  for (const DumpsRow& row : kDumps) {
    EXPECT_EQ(dumps(*value, row.options), row.text) << row.name;
  }
}

TEST(Dumps, IsReadBackAlike) {
  for (const TextRow& row : kValidTexts) {
    const auto value = parse(row.text);
    ASSERT_TRUE(value);
    for (const DumpsRow& style : kDumps) {
      if (style.name == "SeparatorsAndIndent") continue;
      const std::string text = dumps(*value, style.options);
      if (text.find("Infinity") != std::string::npos)
        continue;  // Python writes it, but it is not
                   // JSON
      const auto again = parse(text);
      ASSERT_TRUE(again) << text;
      EXPECT_EQ(dumps(*again, style.options), text);
    }
  }
}

TEST(Write, EscapesWhatMustBeAndNothingElse) {
  EXPECT_EQ(quoted("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(quoted("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(quoted(std::string_view("\0\x01\x1f\x7f", 4)), "\"\\u0000\\u0001\\u001f\x7f\"");
  EXPECT_EQ(quoted("\u00e9\u20ac\U0001F600\u2028"), "\"\u00e9\u20ac\U0001F600\u2028\"");
  EXPECT_EQ(quoted("a\xFFz\xE2\x82"), "\"a\uFFFDz\uFFFD\"");
  EXPECT_EQ(dumps("a\xFFz"), R"("a\ufffdz")");

  std::string out = "[";
  append_quoted(out, "x");
  append_escaped(out, "\"y\n");
  EXPECT_EQ(out, R"(["x"\"y\n)");
}

TEST(Write, IsCompact) {
  const Value value =
      Object{{"a", Array{1, -2, true, nullptr, "s", 0.5}}, {"b", Object{}}, {"c", Array{}}};
  EXPECT_EQ(to_string(value), R"({"a":[1,-2,true,null,"s",0.5],"b":{},"c":[]})");
  std::string out = "x";
  append(out, value);
  EXPECT_EQ(out, "x" + to_string(value));
}

TEST(Dumps, MayKeepNumbersAsTheyAreWritten) {
  const auto value = parse("[1.50, 1e5, 33.463723646860009955, -0]");
  ASSERT_TRUE(value);
  EXPECT_EQ(dumps(*value, {.keep_numbers = true}), "[1.50, 1e5, 33.463723646860009955, -0]");
  EXPECT_EQ(dumps(*value), "[1.5, 100000.0, 33.46372364686001, 0]");
}

}  // namespace
}  // namespace tenon::json
