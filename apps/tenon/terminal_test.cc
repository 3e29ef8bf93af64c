#include "terminal.h"

#include <string_view>

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

struct Case {
  std::string_view name;
  std::string_view text;
  std::string_view printed;
};

using namespace std::string_view_literals;

const Case kCases[] = {
    {"Text", "Gr\u00fc\u00dfe, \u4f60\u597d \U0001f600",
     "Gr\u00fc\u00dfe, \u4f60\u597d \U0001f600"},
    {"LinesAndTabs", "a\n\tb\n", "a\n\tb\n"},
    {"EscapeSequence", "\x1b[2J\x1b]0;title\x07", R"(\u001b[2J\u001b]0;title\u0007)"},
    {"CarriageReturn", "good\rbad", R"(good\u000dbad)"},
    {"Backspace", "a\bb", R"(a\u0008b)"},
    {"Nul", "a\0b"sv, R"(a\u0000b)"},
    {"Delete", "a\x7f", R"(a\u007f)"},
    {"C1", "\u0080\u009b31m\u009f\u00a0", "\\u0080\\u009b31m\\u009f\u00a0"},
    {"C1AsABareByte",
     "\x9b"
     "31m",
     R"(\x9b31m)"},
    {"CutCharacter", "a\xe4\xb8", R"(a\xe4\xb8)"},
    {"Overrides", "\u202a\u202b\u202c\u202d\u202e", R"(\u202a\u202b\u202c\u202d\u202e)"},
    {"Isolates", "\u2066\u2067\u2068\u2069", R"(\u2066\u2067\u2068\u2069)"},
    {"LineSeparators", "\u2028\u2029", R"(\u2028\u2029)"},
    {"MarksOfDirectionStay", "\u200e\u200f\u05d0", "\u200e\u200f\u05d0"},
    {"Nothing", "", ""},
};

TEST(Terminal, ObeysNothingThatAModelWrites) {
  for (const Case& test : kCases) EXPECT_EQ(printable(test.text), test.printed) << test.name;
}

TEST(Terminal, ALineOfTheLogStaysOne) {
  EXPECT_EQ(printable("a\nb\tc", /*keeps_lines=*/false), "a\\u000ab\tc");
}

}  // namespace
}  // namespace tenon::app
