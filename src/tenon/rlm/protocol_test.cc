#include "tenon/rlm/protocol.h"

#include <chrono>

#include <gmock/gmock.h>

namespace tenon::rlm {
namespace {

using Final = RootAnswer::Final;
using testing::HasSubstr;
using testing::Not;

struct ProtocolRow {
  std::string name;
  std::string text;
  std::vector<std::string> cells;
  Final final = Final::none;
  std::string value{};
  bool is_cut = false;
  bool is_cell_cut = false;
};

const ProtocolRow kProtocolRows[] = {
    {"Nothing", "", {}},
    {"Prose", "I think about it.", {}},
    {"Cell", "```repl\nprint(1)\n```", {"print(1)"}},
    {"PythonIsACell", "```python\nx = 1\ny = 2\n```", {"x = 1\ny = 2"}},
    {"OtherBlocksAreNoCells", "```json\n{}\n```\n```\nx\n```", {}},
    {"SeveralCells", "a\n```repl\n1\n```\nb\n```repl\n2\n```\nc", {"1", "2"}},
    {"CellWithSpacesAround", "  ```repl  \r\nx\r\n  ```  ", {"x\r"}},
    {"CellBehindText", "I run this: ```repl\nx\n```", {"x"}},
    {"InlineCodeIsNoFence", "use ```x``` here\nFINAL(a)", {}, Final::text, "a"},
    {"EmptyCell", "```repl\n```", {""}},
    {"CellWithoutEnd", "```repl\nx = 1", {"x = 1"}},
    {"CellThatIsCut", "```repl\nx = 1", {}, Final::none, "", true, true},
    {"LongerFence", "````repl\n```\nx\n```\n````", {"```\nx\n```"}},
    {"FenceInAString",
     "```repl\np = \"\"\"Write:\n```python\nx\n```\nbye\"\"\"\nprint(p)\n```\nFINAL(a)",
     {"p = \"\"\"Write:\n```python\nx\n```\nbye\"\"\"\nprint(p)"},
     Final::text,
     "a"},
    {"FenceInASingleQuotedString", "```repl\np = r'''\n```\n'''\n```", {"p = r'''\n```\n'''"}},
    {"FenceBehindAString", "```repl\np = \"\"\"a\nb\"\"\"\n```\nb", {"p = \"\"\"a\nb\"\"\""}},
    {"FenceInAStringThatNeverEnds",
     "```repl\np = \"\"\"a\n```\nFINAL(a)",
     {"p = \"\"\"a"},
     Final::text,
     "a"},
    {"QuotesInAComment", "```repl\nx = 1  # \"\"\"\n```\nb \"\"\"", {"x = 1  # \"\"\""}},
    {"QuotesInAString",
     "```repl\nx = '\"\"\"' + \"\\\"'''\"\n```\n''' \"\"\"",
     {"x = '\"\"\"' + \"\\\"'''\""}},
    {"EscapedQuotesInAString",
     "```repl\nx = \"\"\"\\\"\"\"\n```\n\"\"\"\n```",
     {"x = \"\"\"\\\"\"\"\n```\n\"\"\""}},
    {"AStringThatIsNotClosedEndsWithItsLine",
     "```repl\nx = 'it\ny = \"\"\"\n```\n\"\"\"\n```",
     {"x = 'it\ny = \"\"\"\n```\n\"\"\""}},
    {"OtherBlocksHaveNoStrings", "```text\n\"\"\"\n```\n```repl\nx\n```\n\"\"\"", {"x"}},
    {"CellInAList",
     "1. First:\n\n   ```repl\n   for i in a:\n     print(i)\n\n   x = 1\n   ```\n2. Then",
     {"for i in a:\n  print(i)\n\nx = 1"}},
    {"CellInAListWithAString",
     "- ```repl\n  p = \"\"\"a\n b\n    c\"\"\"\n  x = p\n  ```",
     {"p = \"\"\"a\nb\n  c\"\"\"\nx = p"}},
    {"CellWithTabs", "\t```repl\n\tif x:\n\t\ty()\n\t```", {"if x:\n\ty()"}},
    {"CellThatIsIndentedInPart", "  ```repl\n  if x:\n y()\n  ```", {" if x:\ny()"}},
    {"FinalText", "FINAL(42)", {}, Final::text, "42"},
    {"FinalBehindText", "So:\n\n  FINAL( the answer )\n", {}, Final::text, "the answer"},
    {"FinalOfSeveralLines",
     "FINAL(f(x) = (a+b)\nsecond line)",
     {},
     Final::text,
     "f(x) = (a+b)\nsecond line"},
    {"FinalInProse", "I will write FINAL(wrong) later.", {}},
    {"FinalThatIsSpokenOf", "FINAL(wrong) is what I would write.", {}},
    {"FinalInACell", "```repl\nprint(\"FINAL(wrong)\")\n```", {"print(\"FINAL(wrong)\")"}},
    {"FinalInAnotherBlock", "```\nFINAL(wrong)\n```", {}},
    {"FinalEndsAtItsOwnParenthesis", "FINAL(right)\nThat is it (I hope)", {}, Final::text, "right"},
    {"FinalWithAStrayParenthesis", "FINAL(a) and b)", {}, Final::text, "a) and b"},
    {"FinalThatIsNotClosed", "FINAL(42", {}, Final::text, "42"},
    {"FinalThatIsCut", "FINAL(42 and", {}, Final::none, "", true},
    {"FinalWithABlock", "FINAL(see:\n```\nx(\n```\n)", {}, Final::text, "see:\n```\nx(\n```"},
    {"FinalBeforeACell", "FINAL(a)\n```repl\nx\n```", {"x"}, Final::text, "a"},
    {"FinalOpenBeforeACell", "FINAL(a (b\n```repl\nf()\n```", {"f()"}, Final::text, "a (b"},
    {"FinalDoesNotReachBehindACell", "FINAL(a\n```repl\nf(1)\n```\nb)", {"f(1)"}, Final::text, "a"},
    {"FirstFinalCounts", "FINAL(a)\nFINAL(b)", {}, Final::text, "a"},
    {"EmptyFinal", "FINAL()", {}, Final::text, ""},
    {"FinalVariable", "FINAL_VAR(x)", {}, Final::variable, "x"},
    {"FinalVariableInQuotes", "FINAL_VAR(\"x\")", {}, Final::variable, "x"},
    {"FinalVariableBehindACell", "```repl\nx=1\n```\nFINAL_VAR(x)", {"x=1"}, Final::variable, "x"},
    {"FinalVariableWithoutEnd", "FINAL_VAR(x", {}},
};

class ReadAnswer : public testing::TestWithParam<ProtocolRow> {};

TEST_P(ReadAnswer, AsTheRuleSays) {
  const ProtocolRow& row = GetParam();
  const RootAnswer answer = read_answer(row.text, row.is_cut);
  EXPECT_EQ(answer.cells, row.cells);
  EXPECT_EQ(answer.final, row.final);
  EXPECT_EQ(answer.value, row.value);
  EXPECT_EQ(answer.is_cell_cut, row.is_cell_cut);
}

INSTANTIATE_TEST_SUITE_P(Rows, ReadAnswer, testing::ValuesIn(kProtocolRows),
                         [](const auto& row) { return row.param.name; });

// Every prefix of every answer is read, and hostile ones quickly.
TEST(ReadAnswerOf, AnythingAtAll) {
  for (const ProtocolRow& row : kProtocolRows) {
    for (std::size_t size = 0; size <= row.text.size(); ++size) {
      static_cast<void>(read_answer(std::string_view(row.text).substr(0, size), size % 2 == 0));
    }
  }
  std::string hostile;
  for (int i = 0; i < 100'000; ++i) hostile += "FINAL(\n";
  EXPECT_EQ(read_answer(hostile, true).final, Final::none);
  hostile.assign(1'000'000, '(');
  EXPECT_EQ(read_answer("FINAL" + hostile, true).final, Final::none);
}

// Models do not write so many cells; such an output is an attempt to keep the machine busy.
TEST(ReadAnswerOf, MoreCellsThanAreRun) {
  std::string many;
  for (std::size_t i = 0; i < RootAnswer::kMaxCells + 2; ++i) many += "```repl\nf()\n```\n";
  const RootAnswer answer = read_answer(many + "FINAL(a)", false);
  EXPECT_EQ(answer.cells.size(), RootAnswer::kMaxCells);
  EXPECT_EQ(answer.cells_left, 2U);
  EXPECT_EQ(answer.final, Final::none);
  EXPECT_THAT(cells_left_text(answer), HasSubstr("the first 50 blocks"));
  EXPECT_EQ(cells_left_text({}), "");
}

TEST(ReadAnswerOf, FinalsBetweenCellsInNoTime) {
  std::string hostile;
  for (int i = 0; i < 60'000; ++i) hostile += "FINAL(a\n```py\n```\n";
  hostile += std::string(60'000, ')') + " x\n";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(read_answer(hostile, true).final, Final::none);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

// The end of a string is searched for once, and not for each fence in it.
TEST(ReadAnswerOf, FencesInAStringInNoTime) {
  std::string hostile = "```repl\nx = \"\"\"\n";
  for (int i = 0; i < 200'000; ++i) hostile += "```\n";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(read_answer(hostile + "\"\"\"\n```", false).cells.size(), 1U);
  std::string several;
  for (int i = 0; i < 50'000; ++i) several += "```repl\nx = '''\n```\n'''\n```\n";
  EXPECT_EQ(read_answer(several + "```py\n\"\"\"\n```", false).cells.size(), RootAnswer::kMaxCells);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

TEST(CutText, TellsWhatIsMissing) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcd", 3), "abc... + [1 chars...]");
  EXPECT_EQ(cut_text("äöü", 3), "äöü");
  EXPECT_EQ(cut_text("äöüä", 3), "äöü... + [1 chars...]");
}

TEST(CellText, HasOutputErrorsAndWhatIsMissing) {
  CellResult result{.out = "1\n", .err = "w", .error = "ValueError: boom"};
  EXPECT_EQ(cell_text(result, 1, 1), "REPL output:\n1\nstderr: w\nValueError: boom");
  result = {.out = "zz", .out_cut = 7};
  EXPECT_EQ(cell_text(result, 2, 3), "REPL output of block 2 of 3:\nzz... + [7 chars...]");
  EXPECT_EQ(cell_text({}, 1, 1), "REPL output:\n(no output)");
}

TEST(TaskText, TellsOfTheContextAndNeverShowsIt) {
  EXPECT_THAT(
      task_text({.question = "why?", .context = {"secret"}}),
      AllOf(HasSubstr("why?"), HasSubstr("a str of 6 characters"), Not(HasSubstr("secret"))));
  EXPECT_THAT(task_text({.question = "why?", .context = {"ab", "c"}}),
              AllOf(HasSubstr("a list of 2 strs"), HasSubstr("are 2, 1.")));
  EXPECT_THAT(task_text({.question = "why?"}), HasSubstr("no context"));
}

TEST(SystemText, TellsWhatCellsMayUse) {
  EXPECT_THAT(system_text({}), HasSubstr("- Python's standard library. There are no other "
                                         "packages, no files, and no network\n"));
  EXPECT_THAT(system_text({.imports = {"numpy"}}), HasSubstr("standard library and numpy. There"));
  EXPECT_THAT(
      system_text({.imports = {"numpy", "pandas", "x"}, .folder_bytes = std::uint64_t{64} << 20}),
      HasSubstr("- Python's standard library, numpy, pandas and x. There are no other packages, no "
                "files but those that you write into the current folder, which may have 64 MiB, "
                "and no network\n"));
}

// Small models repeat the last line of a prompt as their answer.
TEST(TurnText, IsAnInstruction) {
  EXPECT_EQ(turn_text(2, 20),
            "Turn 2 of 20: write a block of code, or give your final answer if you have seen it.");
  EXPECT_EQ(turn_text(20, 20), "Turn 20 of 20, the last one: give your final answer now.");
}

}  // namespace
}  // namespace tenon::rlm
