#include "tenon/grammar/front/gbnf.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"

namespace tenon::grammar {
namespace {

constexpr Syntax kGbnfSyntax = Syntax::gbnf;

TEST(Gbnf, Reads) {
  const ReadRow rows[] = {
      {"Literal", R"(root ::= "a b")", {"a b"}, {"", "a", "a b "}},
      {"EmptyLiteral", R"(root ::= "")", {""}, {"a"}},
      {"EmptyRule", "root ::= a \"b\"\na ::= ", {"b"}, {"", "bb"}},
      {"Alternatives", R"(root ::= "a" | "b" "c" | )", {"a", "bc", ""}, {"b", "ac"}},
      {"Group", R"(root ::= ("a" | "b") "c")", {"ac", "bc"}, {"c", "a", "abc"}},
      {"Star", R"(root ::= "ab"*)", {"", "ab", "abab"}, {"a", "aba"}},
      {"Plus", R"(root ::= [ab]+)", {"a", "bab"}, {"", "c"}},
      {"Maybe", R"(root ::= "a"? "b")", {"ab", "b"}, {"aab", "a"}},
      {"Times", R"(root ::= "a"{2})", {"aa"}, {"a", "aaa"}},
      {"AtLeast", R"(root ::= "a"{2,})", {"aa", "aaaaa"}, {"a"}},
      {"AtMost", R"(root ::= "a"{,2})", {"", "a", "aa"}, {"aaa"}},
      {"Between", R"(root ::= "a"{1, 2} "b")", {"ab", "aab"}, {"b", "aaab"}},
      {"None", R"(root ::= "a"{0} "b")", {"b"}, {"ab"}},
      {"ARepetitionIsRepeated", R"(root ::= "a"{2}*)", {"", "aa", "aaaa"}, {"a", "aaa"}},
      {"AMillionTimes", R"(root ::= ("a" | "b"){2,1000000})", {"ab", "aaab"}, {"a"}},
      {"Class", R"(root ::= [a-cx])", {"a", "b", "c", "x"}, {"d", "ab", "-"}},
      {"ClassWithDash", R"(root ::= [a-])", {"a", "-"}, {"b"}},
      {"ClassWithEscapes", R"(root ::= [\]\[\\\n\x41])", {"]", "[", "\\", "\n", "A"}, {"x", "n"}},
      {"ClassOfCharacters",
       "root ::= [\u00E4-\u00FC\u4E2D]",
       {"\u00E4", "\u00F6", "\u4E2D"},
       {"a", "\u4E2E", "\xC3"}},
      {"NegatedClass",
       R"(root ::= [^"\\]*)",
       {"", "ab \n", "\u00E4\U0001F600"},
       {"\"", "a\\", "\xFF"}},
      {"AnyCharacter", "root ::= .", {"a", "\n", "\U0001F600"}, {"", "ab", "\x80"}},
      {"Escapes",
       R"(root ::= "\x41\u00e4\U0001F600\t\r\n\\\"")",
       {"A\u00E4\U0001F600\t\r\n\\\""},
       {"A"}},
      {"EscapesAreCharacters", R"(root ::= "\xFF")", {"\u00FF"}, {"\xFF"}},
      {"Comments", "# one\nroot ::= # two\n  \"a\" # three \"b\"\n# four", {"a"}, {"ab", ""}},
      {"NewLinesInGroups", "root ::= (\n \"a\"\n | \"b\"\n)\n", {"a", "b"}, {""}},
      {"NewLineAfterBar", "root ::= \"a\" |\n \"b\"", {"a", "b"}, {""}},
      {"NewLineBeforeBar", "root ::= \"a\"\n | \"b\"\nx ::= \"c\"", {"a", "b"}, {"c"}},
      {"CarriageReturns", "root ::= a\r\na ::= \"x\"\r\n", {"x"}, {""}},
      {"Names", "root ::= a-1 b_2\na-1 ::= \"x\"\nb_2 ::= \"y\"", {"xy"}, {"x"}},
      {"RootMayComeLast", "a ::= \"x\"\nroot ::= a a", {"xx"}, {"x"}},
      {"Nesting", "root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", "())"}},
      {"LeftRecursion",
       "root ::= root \"+\" n | n\nn ::= [0-9]+",
       {"1", "1+22+3"},
       {"", "1+", "+1"}},
      {"IndirectLeftRecursion",
       "root ::= a \"x\" | \"r\"\na ::= b \"y\" | \"a\"\nb ::= root \"z\" | \"b\"",
       {"r", "ax", "byx", "rzyx", "axzyx"},
       {"a", "x", "rzy"}},
      {"LeftRecursionBehindNothing",
       "root ::= s root \"x\" | \"y\"\ns ::= \" \"*",
       {"y", "yx", "  yxx", " yx"},
       {"x", " y", " y x"}},
      {"AmbiguousOperators",
       R"-(root ::= root "+" root | root "*" root | "(" root ")" | [0-9])-",
       {"1", "1+2*3+4*5+6*7+8*9+1*2+3*4+5*6+7*8+9*1+2*3+4*5", "(1+(2*3))*4"},
       {"1+", "1+*2", "(1"}},
      {"TokenByName", R"(root ::= "a" <|call|> "b")", {"a<|call|>b"}, {"ab", "a<|done|>b"}},
      {"TokenThatIsText", R"(root ::= <think> [a-z]*)", {"<think>ab"}, {"think>ab"}},
      {"TokenByNumber", R"(root ::= <[97]> <[263]>)", {"a<|call|>"}, {"ab", "a"}},
      {"AnotherToken",
       R"(root ::= !<|call|>* <|call|>)",
       {"<|call|>", "xy<|done|><|call|>"},
       {"xy", "<|call|><|call|>"}},
      {"TokenInsteadOfItsText", R"(root ::= <|end|> "x")", {"<|end|>x"}, {"x"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kGbnfSyntax);
}

// What xgrammar reads and prints beyond GBNF; the verdicts are those of its release 0.2.9.
TEST(Gbnf, ReadsXgrammarsEbnf) {
  using namespace std::string_literals;
  const ReadRow rows[] = {
      {"Nul", R"(root ::= "<" [^\0-\x1f>]+ ">")", {"<ab>"}, {"<a\nb>", "<>"}},
      {"NulInText", R"(root ::= "a\0b")", {"a\0b"s}, {"a0b"}},
      {"Escapes", R"(root ::= "\a\b\e\f\v\?\/")", {"\a\b\x1B\f\v?/"}, {"ab"}},
      {"EscapesInClasses",
       R"(root ::= [\.\*\+\(\)\{\}\|\$\^\-])",
       {".", "$", "-", "|"},
       {"\\", "a"}},
      {"WithoutEnd", R"(root ::= (("x"{2, -1})))", {"xx", "xxxx"}, {"x", ""}},
      {"LookAhead",
       "root ::= ((word \".\"))\nword ::= (([a-z] word) | ([a-z])) (=(\".\"))",
       {"sea."},
       {".", "sea"}},
      {"NameWithDots",
       "root ::= a.b a.b.c a.\na.b ::= \"1\"\na.b.c ::= \"2\"\na ::= \"3\"",
       {"123x"},
       {"12", "1233x"}},
      {"Options",
       "root ::= a b c\na[lazy] ::= [a-z]+\nb[max_chars=2, capture=\"x]y\"] ::= [0-9]*\n"
       "c [max_tokens=2, temperature=0.5] ::= [A-Z]*",
       {"x", "x12", "x12AB", "xAB"},
       {"xy", "x123", "x1ABC"}},
      {"MaxTokensBesideALoopOfRulesAndText",
       "root ::= a ([0-9] | \"(\" root \")\")*\na[max_tokens=2] ::= [a-z]*",
       {"ab1(c)2", "", "1(2(x))3"},
       {"abc", "ab(cde)"}},
      {"MaxCharsWhereItCannotEnd",
       "root ::= a\na[max_chars=1] ::= \"ab\" \"c\"?",
       {"ab"},
       {"abc", "a"}},
      {"Token", "root ::= \"a\" Token(98, 99) \"d\"", {"abd", "acd"}, {"aad", "ad"}},
      {"ExcludeToken", "root ::= \"k\" ExcludeToken(51) \"v\"", {"k4v"}, {"k3v", "kv"}},
      {"Regex", R"(root ::= "id " Regex("[0-9]{3}"))", {"id 123"}, {"id 12"}},
      {"RegexEscapes", R"(root ::= Regex("\\d+\\.\\d"))", {"12.3"}, {"12x3"}},
      {"RegexDot", R"(root ::= Regex("a."))", {"ab", "a\n"}, {"a"}},
      {"RegexFlags", R"(root ::= Regex("a.", flags="i"))", {"Ab", "ab"}, {"a\n"}},
      {"RegexOfPython", R"(root ::= Regex("(?i)(?P<n>ab)+"))", {"aB", "abAB"}, {"a"}},
      {"RegexInJson", R"(root ::= Regex("\\S+", json_string=true))", {"ab"}, {"a\"", "a\\"}},
      {"Substring",
       R"(root ::= Substring("abc", "de", "fg"))",
       {"", "abc", "de", "abcde", "defg", "abcdefg"},
       {"ab", "cde", "abcfg"}},
      {"SubstringOfEqualChunks",
       R"(root ::= Substring("a", "b", "a", "b", "", "c"))",
       {"", "ba", "abab", "babc", "bc"},
       {"aa", "abb", "ca"}},
      {"TagDispatch",
       "root ::= TagDispatch((\"<n>\", num), (\"<w>\", word))\nnum ::= [0-9]+ \"</n>\"\n"
       "word ::= [a-z]+ \"</w>\"",
       {"", "see <n>12</n> ok", "<w>a</w><n>1</n>", "a <n"},
       {"see <n>x</n>", "<n>12"}},
      {"TagDispatchOnce",
       "root ::= TagDispatch((\"<n>\", num), loop_after_dispatch=false, excludes=(\"x\",)) \"!\"\n"
       "num ::= [0-9]",
       {"!", "ab!", "ab<n>1!"},
       {"ax!", "<n>1 !"}},
      {"TagDispatchAsItWasPrinted",
       "root ::= TagDispatch(\n  (\"<n>\", num),\n  stop_eos=false,\n  stop_str=(\"END\"),\n"
       "  loop_after_dispatch=true\n)\nnum ::= [0-9]",
       {"END", "a<n>1bEND"},
       {"", "a<n>1", "END END"}},
      {"TokenTagDispatch",
       "root ::= TokenTagDispatch((60, num), excludes=(33,))\nnum ::= [0-9]",
       {"", "ab<1cd<2", "<1"},
       {"a!", "<x", "<"}},
      {"ARuleOfTheNameOfAMacro", "root ::= Token(\"a\")\nToken ::= \"t\"", {"ta"}, {"a"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kGbnfSyntax);
}

TEST(Gbnf, Refuses) {
  constexpr auto kInvalid = Errc::invalid;
  const RefusedRow rows[] = {
      {"NoRoot", "a ::= \"x\"", kInvalid, "the grammar has no rule 'root', with which texts begin"},
      {"Nothing", " # only this", kInvalid,
       "the grammar has no rule 'root', with which texts begin"},
      {"Undefined", "root ::= \"x\"\n  other | b\nb ::= more", kInvalid,
       "line 2, column 3: rule 'other' is not defined; add `other ::= ...`"},
      {"DefinedTwice", "root ::= \"x\"\nroot ::= \"y\"", kInvalid,
       "line 2, column 1: rule 'root' is defined twice; join the two with |"},
      {"NoName", "::= \"x\"", kInvalid,
       "line 1, column 1: a rule must begin with its name and ::=, here is ':'"},
      {"OtherAssignment", "root := \"x\"", kInvalid,
       "line 1, column 1: a rule must begin with its name and ::=, here is 'r'"},
      {"OpenLiteral", "root ::= \"\u00E4\" \"x", kInvalid,
       "line 1, column 14: this '\"' is not closed"},
      {"OpenClass", "root ::= [x", kInvalid, "line 1, column 10: this '[' is not closed"},
      {"OpenGroup", "root ::= (\"x\"\na ::= \"y\"", kInvalid,
       "line 2, column 3: nothing in a rule begins with ':'; texts are written in \"...\", sets of "
       "characters in [...]"},
      {"OpenGroupAtTheEnd", "root ::= (\"x\"", kInvalid,
       "line 1, column 10: this '(' is not closed"},
      {"ClosedGroup", "root ::= \"x\")", kInvalid, "line 1, column 13: this ')' closes no '('"},
      {"EmptyClass", "root ::= []", kInvalid,
       "line 1, column 10: [] is no character at all; name some, or write \"\""},
      {"RangeUpsideDown", "root ::= [z-a]", kInvalid,
       "line 1, column 11: this range ends before it begins; turn it round"},
      {"Escape", R"(root ::= "\q")", kInvalid,
       "line 1, column 11: no such escape; there are \\n \\r \\t \\0 \\\\ \\\" \\[ \\] \\xFF "
       "\\uFFFF "
       "and \\U0010FFFF"},
      {"EscapeAtTheEnd", "root ::= \"\\", kInvalid,
       "line 1, column 11: no such escape; there are \\n \\r \\t \\0 \\\\ \\\" \\[ \\] \\xFF "
       "\\uFFFF "
       "and "
       "\\U0010FFFF"},
      {"ClassAtTheEnd", "root ::= [a-", kInvalid, "line 1, column 10: this '[' is not closed"},
      {"ShortEscape", R"(root ::= "\x4")", kInvalid,
       "line 1, column 11: this escape is no character: \\x has 2 hexadecimal digits, \\u has 4, "
       "\\U has 8 and reaches U+10FFFF, without surrogates"},
      {"Surrogate", R"(root ::= "\ud83d")", kInvalid,
       "line 1, column 11: this escape is no character: \\x has 2 hexadecimal digits, \\u has 4, "
       "\\U has 8 and reaches U+10FFFF, without surrogates"},
      {"NothingToRepeat", "root ::= \"x\" | *", kInvalid,
       "line 1, column 16: here is nothing to repeat; write it before the '*'"},
      {"Repetition", "root ::= \"x\"{,}", kInvalid,
       "line 1, column 13: a repetition is written {2}, {2,}, {2,5} or {,5}"},
      {"RepetitionUpsideDown", "root ::= \"x\"{3,2}", kInvalid,
       "line 1, column 13: the second number is less than the first"},
      {"OpenToken", "root ::= <think", kInvalid, "line 1, column 10: this '<' is not closed"},
      {"TokenNumber", "root ::= <[x]>", kInvalid,
       "line 1, column 12: a token's number is written <[12]>"},
      {"NegatedNothing", "root ::= !\"x\"", kInvalid,
       "line 1, column 11: after ! comes a token, as in !<[12]> or !<think>"},
      {"UnknownToken", "root ::= <nope>", kInvalid, "the vocabulary has no token \"<nope>\""},
      {"UnknownTokenNumber", "root ::= <[999]>", kInvalid,
       "the vocabulary of 265 tokens has no token 999"},
      {"NotUtf8", "root ::= \"\xFF\"", kInvalid,
       "line 1, column 11: the grammar is no valid UTF-8"},
      {"UnknownOption", "root ::= a\na[greedy] ::= \"x\"", Errc::unsupported,
       "line 2, column 3: a rule has no option 'greedy'; there are lazy, max_tokens=, max_chars=, "
       "capture and temperature="},
      {"OptionOfARuleThatIsNotRegular", "root[max_tokens=3] ::= \"(\" root \")\" | \"\"",
       Errc::unsupported,
       "what max_tokens limits must be regular and small: no rule that contains itself, no special "
       "token, no JSON schema"},
      {"UnknownArgument", "root ::= Token(1, a=2)", Errc::unsupported,
       "line 1, column 21: the macro has no such argument 'a'"},
      {"NoPair", "root ::= TagDispatch(\"a\")", kInvalid,
       "line 1, column 22: here must be a trigger and the name of a rule in '(...)'"},
      {"UndefinedRuleOfATag", "root ::= TagDispatch((\"a\", b))", kInvalid,
       "line 1, column 28: rule 'b' is not defined; add `b ::= ...`"},
      {"NoPattern", "root ::= Regex()", kInvalid, "line 1, column 10: Regex has one pattern"},
      {"BadPattern", "root ::= Regex(\"(\")", kInvalid,
       "line 1, column 10: pattern: a group is not closed at byte 1"},
      {"OpenMacro", "root ::= Token(1", kInvalid,
       "line 1, column 17: here must be ',' or ')', and is the end"},
      {"NoSentence", "root ::= \"x\" root", Errc::unsatisfiable, "nothing at all fits the grammar"},
  };
  for (const RefusedRow& row : rows) expect_refused(row, kGbnfSyntax);
}

std::string gbnf_repeated(std::string_view text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

// Correct, or refused at once because of a limit.
TEST(Gbnf, LargeGrammars) {
  struct Row {
    const char* name;
    std::string source;
    std::optional<std::string> yes;  // nothing: refused, at the latest when it is read
    std::string no;
  };
  constexpr std::size_t kMany = 60'000;
  constexpr int kRules = 10'000;
  std::string doubling = "root ::= r40\nr0 ::= \"a\" | \"b\" root\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string before = " r" + std::to_string(i - 1);
    doubling +=
        "r" + std::to_string(i) + " ::=" + before + " |" + before + " \"x\"" + before + "\n";
  }
  std::string chain = "root ::= r0\nr" + std::to_string(kRules) + " ::= \"x\"";
  std::string cycle = chain + " | root \"y\"";
  std::string values = "root ::= \"v\"";
  for (int i = 0; i < kRules; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    const std::string rule = "\nr" + std::to_string(i) + " ::= \"(\" " + next + " \")\" | " + next;
    chain += rule;
    cycle += rule;
    values += " | \"v" + std::to_string(i) + "\"";
  }
  const Row rows[] = {
      {"Parentheses", "root ::= " + gbnf_repeated("(", kMany) + "\"a\"" + gbnf_repeated(")", kMany),
       "a", "b"},
      {"NestedOptions", "root ::= " + gbnf_repeated("(\"a\" ", kMany) + gbnf_repeated(")?", kMany),
       "aaaa", "ab"},
      {"NestedRepetitions",
       "root ::= " + gbnf_repeated("(\"a\" ", 1000) + gbnf_repeated(")*", 1000),
       gbnf_repeated("a", 50), "b"},
      {"Alternatives", values, "v9999", "v10000"},
      {"ChainOfRules", chain, "x", "y"},
      {"CycleOfRules", cycle, {}, ""},
      {"ReferencesThatDouble", doubling, "axbaxa", "axxa"},
      {"LeftRecursionBehindMuchThatCanBeEmpty",
       "root ::= root \"x\" |" + gbnf_repeated(" a", kMany) + "\na ::= \"\" | \"(\" a \")\"", "x",
       "x("},
      {"LeftRecursionsThatEndAlike",
       "root ::= \"b\" | (root" + gbnf_repeated(" | root", kRules) + ") (\"y\" |" +
           gbnf_repeated(" a", kRules) + " root)\na ::= \"x\" | \"(\" a \")\"",
       "b", "x"},
  };
  for (const Row& row : rows) {
    const auto grammar = grammar_for_test(row.source, kGbnfSyntax);
    if (row.yes) {
      ASSERT_TRUE(grammar) << row.name << ": " << grammar.error().message;
      EXPECT_TRUE(reads(*grammar, *row.yes)) << row.name;
      EXPECT_FALSE(reads(*grammar, row.no)) << row.name;
      continue;
    }
    std::optional<Error> error;
    if (grammar) {
      Matcher matcher(*grammar);
      EXPECT_FALSE(matcher.accept_bytes(row.no)) << row.name;
      error = matcher.error();
    } else {
      error = grammar.error();
    }
    ASSERT_TRUE(error) << row.name;
    EXPECT_EQ(error->code, Errc::limit_exceeded) << row.name << ": " << error->message;
  }
}

// Every `a` may belong to any of `rules` rules, so each place of a text has as many ways to read
// it.
std::string ambiguous(int rules) {
  std::string root = "root ::= ";
  std::string bodies;
  for (int i = 0; i < rules; ++i) {
    const std::string name = "r" + std::to_string(i);
    root += (i > 0 ? " | " : "") + name;
    bodies += "\n" + name + R"( ::= "a" )" + name + R"( "b" | "c")";
  }
  return root + bodies;
}

// No step takes long by itself here, but there are too many of them.
TEST(Gbnf, AMaskHasALimitOfItsOwn) {
  const auto grammar = grammar_for_test(ambiguous(1000), kGbnfSyntax, {.max_mask_steps = 5'000});
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  std::vector<std::uint32_t> mask(mask_words(index_for_test()->vocab().size()));
  const Status filled = matcher.fill_mask(mask);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, Errc::limit_exceeded);
  EXPECT_NE(filled.error().message.find("steps for one mask"), std::string::npos);
}

// Reads `as` one by one, with a mask before each, up to the first that fails.
struct Read {
  std::size_t bytes = 0;
  std::optional<Error> error;
};
Read read_as(Matcher& matcher, std::size_t most) {
  std::vector<std::uint32_t> mask(mask_words(index_for_test()->vocab().size()));
  Read read;
  for (; read.bytes < most; ++read.bytes) {
    const Status filled = matcher.fill_mask(mask);
    if (!filled || !matcher.accept_bytes("a")) {
      read.error = filled ? matcher.error() : filled.error();
      break;
    }
  }
  return read;
}

// Every `a` may be one that two more must follow. The ways to read it share what they have in
// common, so that a text of any length costs little.
TEST(Gbnf, WaysThatShareTheirRestCostLittle) {
  const auto grammar = grammar_for_test(R"(root ::= "a" root | "a" root root | "b")", kGbnfSyntax,
                                        {.max_state_cells = 100'000});
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_TRUE(reads(*grammar, "aaabb"));
  Matcher matcher(*grammar);
  const Read read = read_as(matcher, 3000);
  EXPECT_FALSE(read.error) << read.error->message;
  EXPECT_EQ(read.bytes, 3000U);
}

TEST(Gbnf, WaysToReadHaveALimitForAllPlacesTogether) {
  const auto grammar = grammar_for_test(ambiguous(20), kGbnfSyntax, {.max_state_cells = 10'000});
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_TRUE(reads(*grammar, "aacbb"));
  Matcher matcher(*grammar);
  const Read read = read_as(matcher, 1000);
  EXPECT_GT(read.bytes, 20U);
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Errc::limit_exceeded);
  EXPECT_NE(read.error->message.find("stacks in all states"), std::string::npos)
      << read.error->message;
}

TEST(Gbnf, ATextHasALimitOfItsOwn) {
  const auto grammar = grammar_for_test(ambiguous(20), kGbnfSyntax,
                                        {.max_text_steps = 20'000, .steps_per_byte = 10});
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  const Read read = read_as(matcher, 1000);
  EXPECT_GT(read.bytes, 20U);
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Errc::limit_exceeded);
  EXPECT_NE(read.error->message.find("steps for one text"), std::string::npos)
      << read.error->message;
  Matcher fork = matcher;
  EXPECT_FALSE(fork.accept_bytes("a")) << "forks have what is left";
  Matcher other(*grammar);
  EXPECT_TRUE(other.accept_bytes("aac")) << "the next text is not hurt";
}

}  // namespace
}  // namespace tenon::grammar
