#include "tenon/grammar/rules/right_recursion.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/print/print.h"

namespace tenon::grammar {
namespace {

struct RecursionRow {
  const char* name;
  std::string_view source;
  std::string_view printed;  // empty: it is left as it is
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

const RecursionRow kRecursions[] = {
    {"Star", R"x(root ::= "" | [a-c] root)x", "root ::= [a-c]*\n", {"", "a", "abc"}, {"d", "abd"}},
    {"UpToAnEnd",
     R"x(root ::= "." | [a-c] root)x",
     "root ::= [a-c]* \".\"\n",
     {".", "ab."},
     {"", "ab"}},
    {"Plus", R"x(root ::= [0-9] | [0-9] root)x", "root ::= [0-9] [0-9]*\n", {"0", "12"}, {"", "a"}},
    {"AnEndThatIsOptional",
     R"x(root ::= [0-9] root?)x",
     "root ::= [0-9] [0-9]*\n",
     {"0", "12"},
     {"", "a"}},
    {"WhitespaceOfOldGrammars",
     "root ::= \"a\" ws \"b\"\nws ::= ([ \\t\\n] ws)?",
     "root ::= \"a\" ws \"b\"\nws ::= [\\t\\n ]*\n",
     {"ab", "a \n b"},
     {"a", "a c b"}},
    {"Several",
     R"x(root ::= "\"" | [^"\\] root | "\\" [nt"] root)x",
     "root ::= ([^\"\\\\] | \"\\\\\" [\"nt])* \"\\\"\"\n",
     {"\"", "a\\n\\\"b\""},
     {"a", "\\x\""}},
    {"InTurn",
     "root ::= \"a\" other | \"\"\nother ::= \"b\" root",
     "root ::= \"ab\"*\n",
     {"", "ab", "abab"},
     {"a", "ba", "aba"}},
    {"AListOfWhatNests",
     "root ::= \"[\" list \"]\"\nlist ::= root | root \",\" list | [a-c]",
     "root ::= \"[\" list \"]\"\nlist ::= [a-c] | root (\",\" root)* (\"\" | \",\" [a-c])\n",
     {"[a]", "[[a]]", "[[a],[b],a]", "[[[a],[b]],c]"},
     {"[]", "[a,a]", "[[a],]"}},
    {"AListOfSeveralKinds",
     "root ::= [a-c] | [a-c] \",\" root | \"(\" root \")\" | \"(\" root \")\" \",\" root",
     "root ::= ([a-c] | \"(\" root \")\") (\",\" ([a-c] | \"(\" root \")\"))*\n",
     {"a", "(a)", "a,(b,(c)),a"},
     {"", "a,", "(a", "a(b)", "()"}},
    {"AListOfSeveralKindsWithAnEnd",
     "root ::= [a-c] \";\" root | \"(\" root \")\" \";\" root | [a-c] | \"(\" root \")\" | \".\"",
     "root ::= \".\" | ([a-c] | \"(\" root \")\") (\";\" ([a-c] | \"(\" root \")\"))* \";.\"?\n",
     {".", "a", "a;.", "(a;(.));b"},
     {"", ".;a", "a;", "(.;a)"}},
    {"TextBesideWhatNests",
     "root ::= \"<\" tail\ntail ::= \">\" | [a-c] tail | root tail",
     "root ::= \"<\" tail\ntail ::= [a-c]* (root [a-c]*)* \">\"\n",
     {"<>", "<a<b>c<<>>>", "<<>a>"},
     {"<", "<<>", "<d>"}},
    {"ARepetitionOfBoth",
     R"x(root ::= "<" ([a-c] | root)* ">")x",
     "root ::= \"<\" [a-c]* (root [a-c]*)* \">\"\n",
     {"<>", "<a<b>c<<>>>", "<<>a>"},
     {"<", "<<>", "<d>"}},
    {"BeginsWithItselfToo", R"x(root ::= "a" | root "+" root)x", "", {"a", "a+a+a"}, {"", "a+"}},
    {"NestsOnBothSides",
     R"x(root ::= "" | "(" root ")" root)x",
     "root ::= (\"(\" root \")\")*\n",
     {"", "()(())"},
     {"(", ")("}},
    {"NeverEnds",
     "root ::= \"x\" loop | \"y\"\nloop ::= \"a\" loop",
     "root ::= \"y\"\n",
     {"y"},
     {"x", "xa"}},
    {"Nothing", R"x(root ::= "(" root ")" | "a")x", "", {"a", "((a))"}, {"(", "(a"}},
};

TEST(RightRecursion, BecomesRepetition) {
  for (const RecursionRow& row : kRecursions) {
    SCOPED_TRACE(row.name);
    const auto rules = read_rules(row.source, Syntax::gbnf);
    ASSERT_TRUE(rules);
    const auto repeated = without_right_recursion(*rules);
    EXPECT_EQ(repeated.has_value(), !row.printed.empty());
    if (repeated) {
      const auto printed = print_gbnf(*repeated);
      ASSERT_TRUE(printed) << printed.error().message;
      EXPECT_EQ(printed->text, row.printed);
    }
    expect_read({row.name, std::string(row.source), row.yes, row.no}, Syntax::gbnf);
  }
}

// Deep or wide grammars need no stack and no long time.
TEST(RightRecursion, HoldsItsLimits) {
  std::string nested = "root ::= ";
  for (int i = 0; i < 2000; ++i) nested += "(\"a\" | ";
  nested += "\"b\" root";
  for (int i = 0; i < 2000; ++i) nested += ")";
  std::string in_turn;
  for (int i = 0; i < 3000; ++i) {
    const std::string here = i == 0 ? "root" : "r" + std::to_string(i);
    const std::string next = i == 2999 ? "root" : "r" + std::to_string(i + 1);
    in_turn += here + " ::= \"a\" " + next + " | \"b\" " + next + " | \"c\"\n";
  }
  std::string many = "root ::= ";
  for (int i = 0; i < 3000; ++i) many += "\"a\" root | ";
  many += "\"b\"";
  for (const std::string& source : {nested, in_turn, many}) {
    const auto grammar = grammar_for_test(source, Syntax::gbnf);
    ASSERT_TRUE(grammar) << grammar.error().message;
    EXPECT_FALSE(reads(*grammar, ""));
  }
}

}  // namespace
}  // namespace tenon::grammar
