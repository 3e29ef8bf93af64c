#include "tenon/grammar/front/lark.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"

namespace tenon::grammar {
namespace {

constexpr Syntax kLarkSyntax = Syntax::lark;

// The verdicts are llguidance's (1.9.1), except for the rows that begin with "Here".
TEST(Lark, Reads) {
  const ReadRow rows[] = {
      {"Literals", R"(start: "a" "b")", {"ab"}, {"a", "a b"}},
      {"Nothing", "start:", {""}, {"a"}},
      {"EmptyAlternative", R"(start: | "a")", {"", "a"}, {"aa"}},
      {"IgnoresCase", R"(start: "a"i "B")", {"aB", "AB"}, {"Ab"}},
      {"Escapes", R"(start: "\n\x41\u00e4\"\\")", {"\nA\u00E4\"\\"}, {"A"}},
      {"Range", R"(start: "a".."c")", {"a", "b", "c"}, {"d", ""}},
      {"Alternatives", "start: a | b\na: \"x\"\nb: \"y\"\n  | \"z\"\n", {"x", "y", "z"}, {"xy"}},
      {"Group", R"(start: ("a" | "b")~3)", {"aba"}, {"ab"}},
      {"Optional", R"(start: ["a" | "b"] "c")", {"c", "ac", "bc"}, {"abc"}},
      {"Star", R"(start: "ab"*)", {"", "abab"}, {"aba"}},
      {"Plus", R"(start: "a"+)", {"a", "aa"}, {""}},
      {"Maybe", R"(start: "a"? "b")", {"b", "ab"}, {"aab"}},
      {"Times", R"(start: "a" ~ 2)", {"aa"}, {"a"}},
      {"FromTo", R"(start: "a"~2..3)", {"aa", "aaa"}, {"a", "aaaa"}},
      {"Braces", R"(start: "a"{2,3})", {"aa", "aaa"}, {"a", "aaaa"}},
      {"BracesTo", R"(start: "a"{,3})", {"", "aaa"}, {"aaaa"}},
      {"BracesExactly", R"(start: "a"{2})", {"aa"}, {"a", "aaa"}},
      {"BracesFrom", R"(start: "a"{2,})", {"aa", "aaa"}, {"a"}},
      {"Modifiers", "?start: a _b\n!a: \"x\"\n_b: \"y\"", {"xy"}, {"x"}},
      {"NamesWithDashes", "start: a-b\na-b: \"1\"", {"1"}, {""}},
      {"Alias", "start: \"a\" -> foo\n | \"b\"", {"a", "b"}, {"afoo"}},
      {"Comments", "start: a\n\n// c\n# d\na: \"x\" // e\n", {"x"}, {""}},
      {"Options", "%llguidance {\"no_forcing\": true}\nstart: \"a\"", {"a"}, {""}},
      {"Recursion", R"-(start: "(" start ")" | "b")-", {"b", "((b))"}, {"(b"}},
      {"LeftRecursion", R"(start: start "a" | "b")", {"b", "baa"}, {"a", ""}},
      {"Regex", R"(start: /a+b?/)", {"a", "aab"}, {"b"}},
      {"RegexWithSlash", R"(start: /a\/b/)", {"a/b"}, {"ab"}},
      {"RegexIgnoresCase", R"(start: /ab/i)", {"AB", "ab"}, {"b"}},
      {"RegexFlagWithin", R"(start: /(?i)ab/)", {"AB"}, {"b"}},
      {"DotIsNoNewLine", "start: /./", {"a", "\u00E4"}, {"\n"}},
      {"DotWithFlag", "start: /./s", {"a", "\n"}, {""}},
      {"ClassesAreUnicode", R"(start: /\d\w\s/)", {"1a ", "\u0663\u00E4\u2003"}, {"a1 "}},
      {"Properties", R"(start: /\p{L}+/)", {"a\u00E4"}, {"1"}},
      {"HexInRegex", R"(start: /[^\x00-\x1f]+/)", {"abc"}, {"\n"}},
      {"Anchors", "start: /^a$/", {"a"}, {"aa"}},
      {"HereLooks", R"(start: /a(?!x)[a-z]/)", {"ab"}, {"ax"}},
      {"Terminal", "start: A \"x\"\nA: \"a\" B?\nB: /b/", {"ax", "abx"}, {"bx"}},
      {"Both", "start: A\nA: /[a-z]+/ & ~/.*x.*/", {"ab"}, {"axb", "1"}},
      {"Not", "start: A\nA: ~/a/", {"", "ab", "b"}, {"a"}},
      {"NotBindsToOneThing", "start: A\nA: ~\"a\" \"b\"", {"cb", "b"}, {"ab"}},
      {"NotBeforeStar", "start: A\nA: ~\"a\"*", {"aa", "b", ""}, {}},
      {"NotAGroup", "start: A\nA: ~(\"a\" | \"b\") & /[a-z]/", {"c"}, {"a", "b"}},
      {"BothBindsBeforeOr", "start: A\nA: \"a\" | \"b\" & \"c\"", {"a"}, {"b", "c"}},
      {"BothOfSequences", "start: A\nA: \"a\" \"b\" & /.b/", {"ab"}, {"b", "cb"}},
      {"Ignore", "start: \"a\" \"b\"\n%ignore / +/", {"ab", "a b", "a  b"}, {"ab "}},
      {"IgnoreBeforeMore", "start: \"a\" b*\nb: \"b\"\n%ignore \" \"", {"ab b"}, {"ba"}},
      {"HereIgnoreComesFirst", "start: \"a\"\n%ignore \" \"", {"a", " a"}, {}},
      {"IgnoreNotInTerminals",
       "start: A \"c\"\nA: \"a\" \"b\"\n%ignore \" \"",
       {"ab c"},
       {"a b c"}},
      {"IgnoreNotInLazyTerminals",
       "start: A \"c\"\nA: \"a\" B\nB[lazy]: /b+/\n%ignore \" \"",
       {"ab c"},
       {"a bc"}},
      {"IgnoreBeforeLazyRules", "start: \"a\" b\nb[lazy]: /b+/\n%ignore \" \"", {"a b"}, {"abb"}},
      {"Lazy", "start: a\na[lazy]: /.*b/", {"ab", "aab"}, {"bb", "a"}},
      {"LazyAndMore", "start: a \"c\"\na[lazy]: /.*b/", {"abc"}, {"aabbc", "bbc"}},
      {"Stop", "start: a \"c\"\na[stop=\"b\"]: /.*/", {"abc", "bc"}, {"ac", "aabbc"}},
      {"StopAtRegex", "start: a\na[stop=/b+/]: /.*/", {"ab"}, {"abb"}},
      {"StopAtTerminal", "start: a \"x\"\na[stop=B]: /[a-z]*/\nB: \"b\"", {"abx"}, {"x"}},
      {"Suffix", "start: a \"c\"\na[suffix=\"b\"]: /.*/", {"abc", "bc"}, {"ac", "aabbc"}},
      {"AttributesWithoutMeaning",
       "start: a \"c\"\na[capture, temperature=0.5]: /a*/",
       {"aac"},
       {"b"}},
      {"MaxTokens",
       "start: \"n=\" a \"!\"\na[max_tokens=3]: /[0-9]*/",
       {"n=!", "n=123!"},
       {"n=1234!", "n=x!"}},
      {"SubstringChunks",
       "start: A\nA: %regex {\"substring_chunks\": [\"abc\", \"de\", \"fg\"]}",
       {"", "abc", "defg", "abcdefg"},
       {"ab", "cde"}},
      {"SubstringWords",
       "start: \"[\" %regex {\"substring_words\": \"foo bar.. baz\"} \"]\"",
       {"[]", "[foo bar]", "[bar.. baz]", "[ ]"},
       {"[fo]", "[bar.]", "[foo baz]"}},
      {"SubstringChars",
       "start: %regex {\"substring_chars\": \"aba\"}",
       {"a", "ba", "aba"},
       {"aa"}},
      {"HereEverySplit", "start: NAME NAME\nNAME: /[a-z]+/", {"ab"}, {"a", "a b"}},
      {"Json", R"(start: %json {"type": "integer"} "x")", {"12x", "-3x"}, {"1.5x", "12"}},
      {"JsonObject",
       "start: %json {\n  \"type\": \"object\", \"properties\": {\"}\": {\"type\": \"integer\"}},\n"
       "  \"required\": [\"}\"], \"additionalProperties\": false\n}\n",
       {R"({"}":1})", R"({ "}" : 1 })"},
       {"{}"}},
      {"JsonCompact",
       R"(start: %json {"enum": [[1, 2]], "x-guidance": {"whitespace_flexible": false}})",
       {"[1,2]"},
       {"[1, 2]"}},
      {"JsonSpaced",
       R"(start: %json {"enum": [[1, 2]], "x-guidance": {"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}})",
       {"[1, 2]"},
       {"[1,2]"}},
      {"JsonWithEscapes",
       R"(start: %json {"const": "é", "x-guidance": {"json_allow_general_unicode_escapes": true}})",
       {"\"é\"", R"("\u00e9")"},
       {"\"e\"", R"("\u00e8")"}},
      {"Import", "%import common.INT\nstart: INT", {"12"}, {"-1"}},
      {"ImportAs", "%import common.INT -> NUM\nstart: NUM", {"12"}, {"a"}},
      {"ImportList", "%import common (INT, WS)\nstart: INT INT\n%ignore WS", {"12 3"}, {"a"}},
      {"TokenByNumber", "start: <[97]> \"b\"", {"ab"}, {"b"}},
      {"TokenByRange", "start: <[97-98,100]>", {"a", "b", "d"}, {"c"}},
      {"AnotherToken", "start: <[^97]>", {"b", "<|call|>"}, {"a"}},
      {"AnyToken", "start: <[*]>", {"a", "<|call|>"}, {"", "ab"}},
      {"TokenByName", "start: <|call|> \"a\"", {"<|call|>a"}, {"a"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kLarkSyntax);
}

// A lazy text ends where it can, whatever else could be read there; the verdicts are those of
// llguidance 1.9.1.
TEST(Lark, LazyTextsEndForGood) {
  const std::string calls =
      "start: call* tail\ncall: head /[0-9]/ \"</do>\"\ntail: ANY\nANY: /(.|\\n)*/\n";
  const std::vector<std::string> yes = {"", "a", "go <do>1</do> so", "<do>1</do><do>2</do>", "<d"};
  const std::vector<std::string> no = {"<do>x</do>", "<do>", "a <do>1</do> <do>x</do>", "<do>1"};
  const ReadRow rows[] = {
      {"Lazy", calls + "head[lazy]: ANY \"<do>\"", yes, no},
      {"Suffix", calls + "head[suffix=\"<do>\"]: ANY", yes, no},
      {"Stop", calls + "head[stop=\"<do>\"]: ANY", yes, no},
      {"SuffixOfATerminal", calls + "head[suffix=DO]: ANY\nDO: \"<do>\"", yes, no},
      {"RegexOfTheWhole", calls + "head[lazy]: /(.|\\n)*<do>/", yes, no},
      {"OneOfSeveral",
       "start: (a | b)* end\na: a_head /[0-9]/ \";\"\nb: b_head /[a-z]/ \";\"\n"
       "a_head[lazy]: ANY \"<a>\"\nb_head[lazy]: ANY \"<b>\"\nend: ANY\nANY: /(.|\\n)*/",
       {"", "x<a>1;<b>z;", "<b>z;<a>1;y"},
       {"<a>z;", "<b>1;", "<a>1;<b>1;", "<b>z<a>1;"}},
      {"TheSameHeadTwice",
       "start: (a | b)* end\na: a_head \"=a>\" /[0-9]/\nb: b_head \"=b>\" /[a-z]/\n"
       "a_head[lazy]: ANY \"<f\"\nb_head[lazy]: ANY \"<f\"\nend: ANY\nANY: /(.|\\n)*/",
       {"", "x<f=a>1y", "<f=b>z<f=a>1"},
       {"<f=c>1", "<f=a>z", "<f"}},
      {"NotWhereItCannotBegin",
       "start: \"(\" ANY \")\" head /[0-9]/\nhead[lazy]: /[^;]*;/\nANY: /[^)]*/",
       {"(a;b)c;1", "(;);1"},
       {"(a)1", "(a)b;c;1"}},
      {"InARuleThatStandsElsewhereToo",
       "start: text \"|\" (call | text)\ncall: head /[0-9]/\nhead[lazy]: /[^;|]*;/\n"
       "text: /[^|]*/",
       {"a;b|c", "a;b|c;1", "|"},
       {"a|c;d", "a|c;1;"}},
      {"OneThatCanBeEmptyIs", "start: \"<\" r \">\"\nr[lazy]: /[a-z]*/", {"<>"}, {"<a>"}},
      {"WithIgnored",
       "start: call* tail\ncall: head /[0-9]/\nhead[lazy]: /[a-z]*;/\ntail: /[a-z;]*/\n"
       "%ignore / /",
       {"ab;1", "ab; 1 c;2 d", "ab"},
       {"ab;c", ";"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kLarkSyntax);
}

// Verdicts are those of llguidance 1.9.1.
TEST(Lark, RulesWithAParameter) {
  const std::string permutation =
      "start: perm::0x0\nperm::_: \"\" %if is_ones([0:3])\n  | \"a\" perm::set_bit(0) %if "
      "bit_clear(0)\n  | \"b\" perm::set_bit(1) %if bit_clear(1)\n  | \"c\" perm::set_bit(2) %if "
      "bit_clear(2)\n";
  const ReadRow rows[] = {
      {"Permutation", permutation, {"abc", "bca", "cab"}, {"", "ab", "aab", "abcc"}},
      {"EachAtLeastOnce",
       "start: p::0\np::_: \"\" %if is_ones([0:2]) | \"a\" p::set_bit(0) | \"b\" p::bit_or(2)",
       {"ab", "bba"},
       {"", "a", "bb"}},
      {"CountsThatNeverEnd",
       "start: a::0 \"X\"\na::_: \"a\" a::incr(_) %if lt(_, 3)\n   | b::_\nb::_: \"b\" "
       "b::incr([0:8]) %if lt(_, 4) | \"\"",
       {"X", "aaX", "abbX", "bbbbX"},
       {"aaaaX", "aabbbX"}},
      {"OneToTwoOfThree",
       "start: p::0\np::_: \"\" %if bit_count_ge(_, 1)\n  | \"a\" p::set_bit(0) %if "
       "and(bit_clear(0), bit_count_lt(_, 2))\n  | \"b\" p::set_bit(1) %if and(bit_clear(1), "
       "not(bit_count_ge(_, 2)))\n  | \"c\" p::set_bit(2) %if and(not(bit_set(2)), "
       "bit_count_le(_, 1))",
       {"a", "ba", "cb"},
       {"", "aa", "abc"}},
      {"DownFromAValue",
       "start: n::3\nn::_: \"x\" n::decr([0:4]) %if gt(_, 0) | \".\" %if or(eq(_, 0), not(true()))",
       {"xxx."},
       {".", "xx.", "xxxx."}},
      {"InGroupsAndSequences",
       "start: p::4 \"!\"\np::_: (\"l\" %if le(_, 4) | \"g\" %if gt(_, 4)) (\"n\" p::clear_bit(2) "
       "%if "
       "ne(_, 0) | \"\")",
       {"l!", "lnl!"},
       {"g!", "lnlnl!"}},
  };
  for (const ReadRow& row : rows) expect_read(row, kLarkSyntax);
}

TEST(Lark, CommonTerminals) {
  struct Row {
    const char* name;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const Row rows[] = {
      {"DIGIT", {"1"}, {"12", "a"}},
      {"HEXDIGIT", {"1", "f", "F"}, {"g"}},
      {"INT", {"12"}, {"", "-1"}},
      {"SIGNED_INT", {"12", "+1", "-1"}, {"1.0"}},
      {"DECIMAL", {"1.", "1.5", ".5"}, {"1", "."}},
      {"FLOAT", {"1e5", "1.5", "1.5E-3", ".5e+2"}, {"1", "e5"}},
      {"SIGNED_FLOAT", {"-1e5", "1.5"}, {"1"}},
      {"NUMBER", {"1", "1.", ".5", "1e5", "1.5e-3"}, {"-1", "."}},
      {"SIGNED_NUMBER", {"+1", "-.5", "1"}, {"--1"}},
      {"ESCAPED_STRING", {R"("a")", R"("a\"b")", "\"a\nb\"", R"("\\")"}, {R"("\")", "\"a"}},
      {"LCASE_LETTER", {"a"}, {"A"}},
      {"UCASE_LETTER", {"A"}, {"a"}},
      {"LETTER", {"a", "Z"}, {"1"}},
      {"WORD", {"abC"}, {"", "a1"}},
      {"CNAME", {"_a1", "x"}, {"1a"}},
      {"WS_INLINE", {" \t"}, {"\n", ""}},
      {"WS", {" \t\n\f\r"}, {"\v", ""}},
      {"CR", {"\r"}, {"\n"}},
      {"LF", {"\n"}, {"\r"}},
      {"NEWLINE", {"\n", "\r\n\n"}, {"\r"}},
      {"SH_COMMENT", {"# a", "#"}, {"#\n"}},
      {"CPP_COMMENT", {"// a"}, {"/ a"}},
      {"C_COMMENT", {"/* a */", "/* a * b **/", "/**/"}, {"/* a */ */", "/*/"}},
      {"SQL_COMMENT", {"-- a"}, {"- a"}},
  };
  for (const Row& row : rows) {
    expect_read(
        {row.name, "start: X\n%import common." + std::string(row.name) + " -> X", row.yes, row.no},
        kLarkSyntax);
  }
}

TEST(Lark, Refuses) {
  constexpr auto kInvalid = Errc::invalid;
  constexpr auto kUnsupported = Errc::unsupported;
  const RefusedRow rows[] = {
      {"NoStart", "foo: \"a\"", kInvalid,
       "the grammar has no rule 'start', with which texts begin"},
      {"Undefined", "start: \"x\"\n  | other", kInvalid,
       "line 2, column 5: 'other' is not defined; add `other: ...`, or import it"},
      {"DefinedTwice", "start: \"a\"\nstart: \"b\"", kInvalid,
       "line 2, column 1: 'start' is defined twice; join the two with |"},
      {"NoRule", "\"a\"", kInvalid,
       "line 1, column 1: a rule begins with its name and ':', a statement with %, here is '\"'"},
      {"NoColon", "start = \"a\"", kInvalid,
       "line 1, column 7: after the name of a rule comes ':', here is '='"},
      {"StringWithoutEnd", "start: \"x", kInvalid,
       "line 1, column 8: this '\"' is not closed on its line"},
      {"TerminalOfItself", "start: A\nA: A \"x\" | \"y\"", kInvalid,
       "line 1, column 8: the terminal 'A' contains itself, or a rule that does; write its name in "
       "small "
       "letters"},
      {"TerminalOfItselfThroughARule", "start: a\na: \"x\" B\nB: a", kInvalid,
       "line 2, column 8: the terminal 'B' contains itself, or a rule that does; write its name in "
       "small "
       "letters"},
      {"OpenGroup", "start: (\"a\"", kInvalid, "line 1, column 8: this '(' is not closed"},
      {"OpenOptional", "start: [\"a\"", kInvalid, "line 1, column 8: this '[' is not closed"},
      {"ClosedGroup", "start: \"a\")", kInvalid, "line 1, column 11: this ')' closes nothing"},
      {"CrossedGroups", "start: (\"a\"]", kInvalid, "line 1, column 12: this ']' closes nothing"},
      {"OpenString", "start: \"a\nx: \"b\"", kInvalid,
       "line 1, column 8: this '\"' is not closed on its line"},
      {"Escape", R"(start: "\q")", kInvalid,
       "line 1, column 9: no such escape; there are \\n \\t \\r \\b \\f \\\\ \\\" \\xFF \\uFFFF "
       "and "
       "\\U0010FFFF"},
      {"OpenRegex", "start: /a", kInvalid,
       "line 1, column 8: this '/' is not closed on its line; a slash in a regex is written \\/"},
      {"BadRegex", "start: /[/", kInvalid,
       "line 1, column 8: pattern: a class is not closed at byte 1"},
      {"BackReference", R"(start: /(a)\1/)", kUnsupported,
       "line 1, column 8: pattern: a back reference at byte 4"},
      {"RegexFlag", "start: /a/x", kUnsupported,
       "line 1, column 8: the flag 'x' is not supported; there are i, s and u"},
      {"RangeUpsideDown", R"(start: "b".."a")", kInvalid,
       "line 1, column 8: a range goes from one character to one that is not before it"},
      {"RangeOfTexts", R"(start: "ab".."c")", kInvalid,
       "line 1, column 8: a range goes from one character to one that is not before it"},
      {"TimesUpsideDown", R"(start: "a"~3..2)", kInvalid,
       "line 1, column 11: the second number is less than the first"},
      {"NothingToRepeat", "start: *", kInvalid, "line 1, column 8: here is nothing to repeat"},
      {"Braces", R"(start: "a"{x})", kInvalid,
       "line 1, column 11: a repetition is written {2}, {2,}, {2,5} or {,5}"},
      {"NothingToNegate", "start: A\nA: ~", kInvalid,
       "line 2, column 5: here is nothing for ~ to negate"},
      {"BothInARule", "start: \"a\" & \"b\"", kInvalid,
       "line 1, column 12: & is for terminals; write the name of this rule in capitals"},
      {"BothOfRecursion", "start: A\nA: ~b\nb: \"(\" b \")\" | \"x\"", kInvalid,
       "line 1, column 8: the terminal 'A' contains itself, or a rule that does; write its name in "
       "small "
       "letters"},
      {"Priority", "start: A\nA.5: \"x\"", kUnsupported,
       "line 2, column 2: priorities are not supported; a text is read in every way"},
      {"Attribute", "start: a\na[max_lines=3]: /.*/", kUnsupported,
       "line 2, column 3: the attribute 'max_lines' is not supported; there are lazy, stop=, "
       "suffix=, max_tokens=, capture and temperature="},
      {"MaxTokensOfRecursion", "start: a\na[max_tokens=3]: \"(\" a \")\" | \"x\"", kUnsupported,
       "what max_tokens limits must be regular and small: no rule that contains itself, no special "
       "token, no JSON schema"},
      {"EmptyStop", "start: a\na[stop=\"\"]: /.*/", kUnsupported,
       "line 2, column 3: an empty 'stop' is not supported; name what ends the text"},
      {"ParameterOfNothing", "start: a::0\na: \"x\"", kInvalid,
       "line 1, column 8: 'a' has no parameter; write no :: there"},
      {"NoParameter", "start: a\na::_: \"x\" %if true", kInvalid,
       "line 1, column 8: 'a' has a parameter; write `a::0`"},
      {"ParameterOutsideOfARule", "start: a::_\na::_: \"x\"", kInvalid,
       "line 1, column 12: this rule has no parameter; write `::_` behind its name"},
      {"UnknownValue", "start: a::twice(1)\na::_: \"x\"", kInvalid,
       "line 1, column 16: this rule has no parameter; write `::_` behind its name"},
      {"UnknownCondition", "start: a::0\na::_: \"x\" %if odd(_)", kInvalid,
       "line 2, column 15: no such condition; there are true, bit_clear, bit_set, is_ones, "
       "is_zeros, "
       "eq, ne, lt, le, gt, ge, the same behind bit_count_, and, or and not"},
      {"NoBits", "start: a::0\na::_: \"x\" %if eq([3:3], 0)", kInvalid,
       "line 2, column 18: bits are written _ or [2:5], the greater number last"},
      {"LargeBit", "start: a::0\na::_: \"x\" %if bit_set(64)", kInvalid,
       "line 2, column 23: this number is above 63"},
      {"ParameterInATerminal", "start: A\nA: b::0\nb::_: \"x\"", kInvalid,
       "line 2, column 4: a rule with a parameter cannot be part of a terminal"},
      {"ConditionInATerminal", "start: A\nA: \"b\" %if true", kInvalid,
       "line 2, column 8: %if cannot be part of a terminal; use a rule"},
      {"TooManyValues", "start: a::0\na::_: \"x\" a::incr(_) | \"y\"", Errc::limit_exceeded,
       "line 2, column 11: the rules with a parameter have more than 30000 values, or are too long "
       "for so many"},
      {"Declare", "start: A\n%declare A", kUnsupported,
       "line 2, column 1: %declare is not supported; there are %ignore, %import common.X and, in "
       "rules, %json"},
      {"Nested", "start: %lark {start: \"a\"}", kUnsupported,
       "line 1, column 8: %lark is not supported within a rule; there are %json and %regex"},
      {"Regex", "start: %regex {\"type\": \"number\"}", kUnsupported,
       "line 1, column 8: %regex is supported with one member, substring_chunks (a list of "
       "strings), substring_words or substring_chars (a string)"},
      {"OtherGuidance", "start: %json {\"x-guidance\": {\"whitespace_pattern\": \" \"}}",
       kUnsupported,
       "line 1, column 14: of x-guidance 'whitespace_pattern' is not supported; there are "
       "whitespace_flexible, item_separator, key_separator, json_allow_general_unicode_escapes, "
       "lenient and coerce_one_of"},
      {"OtherLibrary", "%import python.NAME\nstart: NAME", kUnsupported,
       "line 1, column 9: only `common` can be imported from"},
      {"OtherGrammar", "start: @other", kUnsupported,
       "line 1, column 8: other grammars cannot be referred to"},
      {"JsonInATerminal", "start: A\nA: %json {}", kInvalid,
       "line 2, column 4: %json cannot be part of a terminal; use a rule"},
      {"NoJson", "start: %json {\"a\": 1, }", kInvalid,
       "line 1, column 14: the schema is no JSON: line 1, column 10: expected a key in double "
       "quotes, found '}'"},
      {"TokenInATerminal", "start: A\nA: <|call|>", kInvalid,
       "line 2, column 4: a special token cannot be part of a terminal; use a rule"},
      {"UnknownToken", "start: <nope>", kInvalid, "the vocabulary has no token \"<nope>\""},
      {"TokenNumbers", "start: <[x]>", kInvalid,
       "line 1, column 8: numbers of tokens are written <[12]>, <[1-5,7]>, <[^12]> or <[*]>"},
  };
  for (const RefusedRow& row : rows) expect_refused(row, kLarkSyntax);
}

}  // namespace
}  // namespace tenon::grammar
