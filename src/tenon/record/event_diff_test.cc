#include "tenon/record/event_diff.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::record {
namespace {

std::vector<std::string> lines_of(std::string_view events) {
  const json::Value array = *json::parse(events);
  return event_lines(*array.if_array());
}

TEST(EventLines, JoinTextsHoweverTheyWereCut) {
  const std::vector<std::string> whole = {"content \"a\\n\"",  "content \"b\"",
                                          "call 0 of \"get\"", "arguments of call 0 \"{}\"",
                                          "end of call 0",     "finish tool_calls, masked"};
  EXPECT_EQ(lines_of(R"([{"event":"content","text":"a\nb"},
      {"event":"call_begin","index":0,"call_id":"x","name":"get"},
      {"event":"call_arguments","index":0,"text":"{}"},{"event":"call_end","index":0},
      {"finish":"tool_calls","guarantee":"masked"}])"),
            whole);
  EXPECT_EQ(lines_of(R"([{"event":"content","text":"a","at":3},{"event":"content","text":"\nb"},
      {"event":"call_begin","index":0,"call_id":"y","name":"get"},
      {"event":"call_arguments","index":0,"text":"{"},
      {"event":"call_arguments","index":0,"text":"}"},{"event":"call_end","index":0},
      {"finish":"tool_calls","guarantee":"masked"}])"),
            whole);
}

TEST(EventLines, KeepChoicesApart) {
  EXPECT_EQ(lines_of(R"([{"event":"content","text":"a"},{"event":"content","choice":1,"text":"b"},
      {"event":"content","text":"c"},{"finish":"error","guarantee":"unenforced","error":"gone"},
      {"event":"call_end","choice":1,"index":0,"incomplete":true},
      {"event":"diagnostic","choice":1,"code":"unclosed_call","message":"m"}])"),
            (std::vector<std::string>{"content \"ac\"", "finish error, unenforced: gone",
                                      "choice 1: content \"b\"", "choice 1: end of call 0, cut",
                                      "choice 1: diagnostic unclosed_call: m"}));
}

struct DifferenceRow {
  std::string_view name;
  std::vector<std::string> was;
  std::vector<std::string> is;
  std::string_view out;
};

const DifferenceRow kDifferenceRows[] = {
    {"Equal", {"a", "b"}, {"a", "b"}, ""},
    {"Changed", {"a", "b", "c"}, {"a", "x", "c"}, "  a\n- b\n+ x\n  c\n"},
    {"Longer", {"a"}, {"a", "a"}, "  a\n+ a\n"},
    {"Shorter", {"a", "a"}, {"a"}, "  a\n- a\n"},
    {"Empty", {}, {"a"}, "+ a\n"},
    {"TwoPlaces",
     {"1", "2", "3", "4", "5", "6", "7", "8", "9", "end"},
     {"2", "3", "4", "5", "6", "7", "8", "9", "new", "end"},
     "- 1\n  2\n  3\n  4\n...\n  7\n  8\n  9\n+ new\n  end\n"},
    {"FarFromTheEnds",
     {"1", "2", "3", "4", "5", "6", "7", "8", "9"},
     {"1", "2", "3", "4", "x", "6", "7", "8", "9"},
     "...\n  2\n  3\n  4\n- 5\n+ x\n  6\n  7\n  8\n...\n"},
};

class Differences : public testing::TestWithParam<DifferenceRow> {};

TEST_P(Differences, AreShown) {
  EXPECT_EQ(difference(GetParam().was, GetParam().is), GetParam().out);
}

INSTANTIATE_TEST_SUITE_P(Rows, Differences, testing::ValuesIn(kDifferenceRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Difference, OfVeryManyLinesIsOneBlock) {
  std::vector<std::string> was;
  std::vector<std::string> is;
  for (int i = 0; i < 5000; ++i) {
    was.push_back("a" + std::to_string(i));
    is.push_back("b" + std::to_string(i));
  }
  const std::string out = difference(was, is);
  EXPECT_LT(out.find("- a4999\n"), out.find("+ b0\n"));
}

}  // namespace
}  // namespace tenon::record
