#include "tenon/api/input_reader.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

struct InputReaderRow {
  const char* name;
  std::string_view arguments;
  std::string_view input;
};
const InputReaderRow kInputReaderRows[] = {
    {"Text", R"({"input": "a + b"})", "a + b"},
    {"Empty", R"({"input": ""})", ""},
    {"Compact", R"({"input":"x"})", "x"},
    {"Escapes", R"({"input": "say \"hi\"\n\t\\ \u00e4\ud83d\ude00 ä"})", "say \"hi\"\n\t\\ ä😀 ä"},
    {"OthersBefore", R"({"why": "input", "list": ["input", {"input": "no"}], "input": "x"})", "x"},
    {"OthersBehind", R"({"input": "x", "more": "y"})", "x"},
    {"CutInTheText", R"({"input": "ab)", "ab"},
    {"CutInAnEscape", R"({"input": "ab\u00e)", "ab"},
    {"CutBeforeIt", R"({"inp)", ""},
    {"NoSuchMember", R"({"query": "x"})", R"({"query": "x"})"},
    {"NoString", R"({"input": 5})", R"({"input": 5})"},
    {"NoObject", R"("x")", R"("x")"},
    {"NoJson", "x = 1", ""},
    {"Nothing", "", ""},
};

TEST(InputReader, tool_calling_EveryCutGivesTheSameInput) {
  for (const InputReaderRow& row : kInputReaderRows) {
    for (std::size_t i = 0; i <= row.arguments.size(); ++i) {
      for (std::size_t j = i; j <= row.arguments.size(); ++j) {
        InputReader reader;
        std::string input;
        reader.feed(row.arguments.substr(0, i), input);
        reader.feed(row.arguments.substr(i, j - i), input);
        reader.feed(row.arguments.substr(j), input);
        reader.finish(input);
        ASSERT_EQ(input, row.input) << row.name << " cut at " << i << " and " << j;
      }
    }
  }
}

TEST(InputReader, TextIsThereAtOnce) {
  InputReader reader;
  std::string input;
  reader.feed(R"({"input": "a)", input);
  EXPECT_EQ(input, "a");
  reader.feed("b\\", input);
  EXPECT_EQ(input, "ab");
  reader.feed("n", input);
  EXPECT_EQ(input, "ab\n");
}

}  // namespace
}  // namespace tenon::api
