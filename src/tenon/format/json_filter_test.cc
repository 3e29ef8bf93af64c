#include "tenon/format/json_filter.h"

#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::format {
namespace {

using Status = JsonFilter::Status;

struct JsonFilterRow {
  std::string_view name;
  std::string_view text;
  std::string_view copy;    // after feed
  std::string_view closed;  // after close, where the value was not done
  Status status = Status::done;
  std::string_view rest = "";
  bool repaired = false;
};

void PrintTo(const JsonFilterRow& row, std::ostream* os) {
  *os << row.name;
}

const JsonFilterRow kJsonFilterRows[] = {
    {"ObjectIsCopiedByteForByte", R"({"a" : [1, -2.50e+3 ,true,null], "b":"\u00e9\n\""})",
     R"({"a" : [1, -2.50e+3 ,true,null], "b":"\u00e9\n\""})", ""},
    {"SpaceBeforeIsDropped", " \n{}", "{}", ""},
    {"RestIsLeft", "{} </tool_call>", "{}", "", Status::done, " </tool_call>"},
    {"NumberAtTheTopEndsWithText", "12,", "12", "12", Status::done, ","},
    {"RawLineBreakIsEscaped", "{\"a\": \"x\ny\tz\"}", R"({"a": "x\ny\tz"})", "", Status::done, "",
     true},
    {"ControlCharacterIsEscaped", "\"\x01\"", R"("\u0001")", "", Status::done, "", true},
    {"InvalidEscapeIsTheTwoCharacters", R"("\d\'")", R"("\\d\\'")", "", Status::done, "", true},
    {"InvalidUnicodeEscapeIsItsCharacters", R"("\u12g\uq")", R"("\\u12g\\uq")", "", Status::done,
     "", true},
    {"SurrogatePairStays", R"("\ud83d\uDE00")", R"("\ud83d\uDE00")", ""},
    {"LoneHighSurrogateIsReplaced", R"("\ud83dx\ud83d\n\ud83d\ud83d\ude00")",
     R"("\ufffdx\ufffd\n\ufffd\ud83d\ude00")", "", Status::done, "", true},
    {"LoneLowSurrogateIsReplaced", R"("\ude00")", R"("\ufffd")", "", Status::done, "", true},
    {"TrailingCommasGo", "{\"a\": [1, ], \"b\": 2 , }", "{\"a\": [1], \"b\": 2 }", "", Status::done,
     "", true},
    {"PythonWords", "[True, False, None]", "[true, false, null]", "", Status::done, "", true},
    {"StringsInApostrophes", R"({'a': 'it\'s "b"', "c": ['d', "e'f", 'g\n\x41\u00e9'], 'h' : {}})",
     R"({"a": "it's \"b\"", "c": ["d", "e'f", "g\n\u0041\u00e9"], "h" : {}})", "", Status::done, "",
     true},
    {"AnApostropheInThem", "{'a': 'it's so', 'b': ''}", R"({"a": "it's so", "b": ""})", "",
     Status::done, "", true},
    {"BracesTwice", R"({{"a": {{"b": 1}}, "c": [{{}}]}})", R"({"a": {"b": 1}, "c": [{}]})", "",
     Status::done, "", true},
    {"BracesTwiceWithoutTheOthers", R"({{"a": {"b": "1"}}, "c")", R"({"a": {"b": "1"}})", "",
     Status::done, R"(, "c")", true},
    {"OpenBracesTwice", R"({{"a": "b)", R"({"a": "b)", R"({"a": "b"})", Status::open, "", true},
    {"BracesThreeTimes", R"({{{"a": 1}}})", "{", "{}", Status::bad, R"({"a": 1}}})", true},
    {"CurlyQuotes", R"({“a”: “b, “c””, "d": [‘it’s “e”’]})",
     R"({"a": "b, “c”", "d": ["it’s “e”"]})", "", Status::done, "", true},
    {"OpenCurlyQuotes", R"({"a": “b)", R"({"a": "b)", R"({"a": "b"})", Status::open, "", true},
    {"AnotherSignThanACurlyQuote", R"({"a": …})", R"({"a": )", R"({"a": null})", Status::bad,
     "\xA6}"},
    {"AnApostropheAtTheTop", "'a'", "", "", Status::bad, "'a'"},
    {"AnOpenStringInApostrophes", "{'a': 'b'", R"({"a": "b)", R"({"a": "b"})", Status::open},
    {"OpenString", R"({"a": "b)", R"({"a": "b)", R"({"a": "b"})", Status::open},
    {"OpenEscapeIsHeld", R"({"a": "b\)", R"({"a": "b)", R"({"a": "b\\"})", Status::open},
    {"OpenUnicodeIsHeld", R"({"a": "b\u00)", R"({"a": "b)", R"({"a": "b\\u00"})", Status::open},
    {"OpenKey", R"({"a)", R"({"a)", R"({"a":null})", Status::open},
    {"OpenAfterKey", R"({"a" )", R"({"a" )", R"({"a" :null})", Status::open},
    {"OpenAfterColon", R"({"a":)", R"({"a":)", R"({"a":null})", Status::open},
    {"CommaIsHeld", R"({"a":1, )", R"({"a":1)", R"({"a":1})", Status::open},
    {"CommaIsHeldInArrays", "[[1,", "[[1", "[[1]]", Status::open},
    {"OpenWordIsHeld", R"({"a":tr)", R"({"a":)", R"({"a":true})", Status::open},
    {"OpenNumbers", "[1, -", "[1", "[1, -0]", Status::open},
    {"OpenFraction", "[1.", "[", "[1.0]", Status::open},
    {"OpenExponent", "[1e", "[", "[1e0]", Status::open},
    {"OpenNumberOfAnotherBase", "[1, 0x", "[1", "[1]", Status::open},
    {"ZerosBefore", "[007, -08.50, 0, 00]", "[7, -8.50, 0, 0]", "", Status::done, "", true},
    {"APlus", "{\"a\": +1}", R"({"a": 1})", "", Status::done, "", true},
    {"NoDigitBesideThePoint", "[.5, -.5, 5., 5.e2]", "[0.5, -0.5, 5.0, 5.0e2]", "", Status::done,
     "", true},
    {"OtherBases", "[0x1F, -0XfF, 0o17, 0b101, 0xFFFFFFFFFFFFFFFFFF]",
     "[31, -255, 15, 5, 4722366482869645213695]", "", Status::done, "", true},
    {"DigitsInGroups", "[1_000_000, 0x_FF, 1_0.5]", "[1000000, 255, 10.5]", "", Status::done, "",
     true},
    {"AWordBehindANumber", R"({"a": 12 pieces})", R"({"a": )", R"({"a": null})", Status::bad,
     "pieces}"},
    {"DigitsThatAreNoNumber", R"({"a": 1, "b": 12abc, "c": 3})", R"({"a": 1, "b": )",
     R"({"a": 1, "b": null})", Status::bad, R"(, "c": 3})"},
    {"ADateWithoutQuotes", R"({"a": 2024-01-02})", R"({"a": )", R"({"a": null})", Status::bad, "}"},
    {"AMarkerBehindANumberAtTheTop", "12</x>", "12", "", Status::done, "</x>"},
    {"TwoSigns", "[1, --2, 3]", "[1", "[1]", Status::bad, ", 3]"},
    {"ABracketIsMissing", "{\"a\": 3\n</x>", "{\"a\": 3\n", "{\"a\": 3\n}", Status::bad, "</x>"},
    {"GroupsThatAreNone", "[1, 2__3]", "[1", "[1]", Status::bad, "]"},
    {"AnExponentWithoutANumber", "[1, .e5, 2]", "[1", "[1]", Status::bad, ", 2]"},
    {"AnExponentThatBeginsWithALine", "[1, 1e_5]", "[1", "[1]", Status::bad, "]"},
    {"ALineBeforeTheExponent", "[1, 1_e5]", "[1", "[1]", Status::bad, "]"},
    {"ALineBeforeTheLetterOfABase", "[1, 0_b1]", "[1", "[1]", Status::bad, "]"},
    {"ALineBehindThePoint", "[1, 1._5]", "[1", "[1]", Status::bad, "]"},
    {"GroupsBehindPointAndExponent", "[1.2_5, 1e1_0]", "[1.25, 1e10]", "", Status::done, "", true},
    {"NumberAtTheTopIsRepaired", "042 ", "42", "", Status::done, " ", true},
    {"NothingBegun", " ", "", "", Status::open},
    {"BadAfterValue", R"({"a": 1 "b": 2})", R"({"a": 1 )", R"({"a": 1 })", Status::bad,
     R"("b": 2})"},
    {"BadKey", R"({a: 1})", "{", "{}", Status::bad, "a: 1}"},
    {"BadValue", R"({"a": })", R"({"a": )", R"({"a": null})", Status::bad, "}"},
    {"TwoCommas", "[1,,2]", "[1", "[1]", Status::bad, ",2]"},
    {"WrongBracket", "[1}", "[1", "[1]", Status::bad, "}"},
    {"WordCutShort", "[trust]", "[", "[]", Status::bad, "st]"},
    {"SecondWordCutShort", "[1, trust]", "[1", "[1]", Status::bad, "st]"},
    {"NoWord", R"({"a": foo(1)})", R"({"a": )", R"({"a": null})", Status::bad, "oo(1)}"},
};

const JsonFilterRow kKeywords[] = {
    {"None", "() x", "{}", "", Status::done, " x"},
    {"Values", "(a=1, b = 'x', c_2=[1, (2, 3)], d={'k': None, \"l\": True},)",
     R"({"a": 1, "b": "x", "c_2": [1, [2, 3]], "d": {"k": null, "l": true}})", "", Status::done},
    {"Quotes", R"((a='say "hi", don\'t', b="it's"))", R"({"a": "say \"hi\", don't", "b": "it's"})",
     ""},
    {"Escapes", R"((a="\x41\n\u00e9\a\d"))", R"({"a": "\u0041\n\u00e9\u0007\\d"})", ""},
    {"CodesInEscapes", R"((a="\U0001F600\033[1m\0\U0001"))", R"({"a": "😀\u001b[1m\u0000\\U0001"})",
     ""},
    {"NumbersOfPython", "(a=+3, b=1_000, c=0x1F, d=[.5, 08], e=5.)",
     R"({"a": 3, "b": 1000, "c": 31, "d": [0.5, 8], "e": 5.0})", ""},
    {"NoArithmetic", "(a=1, b=2*3)", R"({"a": 1, "b": )", R"({"a": 1, "b": null})", Status::bad,
     "*3)"},
    {"LettersBeforeAString", R"((a=r"C:\temp\"x", b=b'y', c=[u"z", Rb'\d'], d=f"w", e={r'k': 1}))",
     R"({"a": "C:\\temp\\\"x", "b": "y", "c": ["z", "\\d"], "d": "w", "e": {"k": 1}})", ""},
    {"LettersBeforeNoString", "(a=1, b=rx)", R"({"a": 1, "b": )", R"({"a": 1, "b": null})",
     Status::bad, "x)"},
    {"StringsBehindEachOther", "(a='x' \"y\"\n 'z', b=1)", R"({"a": "xyz", "b": 1})", ""},
    {"LineIsContinued", "(a='x\\\ny')", R"({"a": "xy"})", ""},
    {"Sets", "(a={'x', \"y\" , 1,}, b={1}, c={(1, 2), {'k': {'z'}}}, d={ }, e={'v'})",
     R"({"a": ["x", "y" , 1], "b": [1], "c": [[1, 2], {"k": ["z"]}], "d": { }, "e": ["v"]})", ""},
    {"KeysAreNoSet", "(a={ 'x' : {'y': ''}})", R"({"a": { "x" : {"y": ""}}})", ""},
    {"QuotesInsideWithoutEscapes", "(a='sed -n '1,5p' /f', b=\"x \"y\" z\", c=['it's'])",
     R"({"a": "sed -n '1,5p' /f", "b": "x \"y\" z", "c": ["it's"]})", ""},
    {"QuotesInsideAKey", "(a={'it's': 1})", R"({"a": {"it's": 1}})", ""},
    {"ThreeQuotes", "(a='''x 'y'\n''z''', b=\"\"\"\"\"\" )", R"({"a": "x 'y'\n''z", "b": "" })",
     ""},
    {"EmptyStrings", R"((a='', b=["" , '']))", R"({"a": "", "b": ["" , ""]})", ""},
    {"OpenSet", "(a={'x'", R"({"a": )", R"({"a": {"x":null}})", Status::open},
    {"OpenSecondOfASet", "(a={'x', 'y", R"({"a": ["x", "y)", R"({"a": ["x", "y"]})", Status::open},
    {"OpenBrace", "(a={ ", R"({"a": )", R"({"a": { }})", Status::open},
    {"ClosingQuote", "(a='x' ", R"({"a": "x)", R"({"a": "x" })", Status::open},
    {"ClosingQuotes", "(a='''x''", R"({"a": "x)", R"({"a": "x"})", Status::open},
    {"OpenKeyword", "(ab", "{", R"({"ab":null})", Status::open},
    {"OpenSecondKeyword", "(a=1, ab ", R"({"a": 1)", R"({"a": 1, "ab":null})", Status::open},
    {"NamesOfAllSorts", "(@type=1, $select=2, filter[x]=3, a/b=4, a:b =5)",
     R"({"@type": 1, "$select": 2, "filter[x]": 3, "a/b": 4, "a:b": 5})", ""},
    {"NoKeywords", "(a=1, b/=2)", R"({"a": 1)", R"({"a": 1})", Status::bad, "=2)"},
    {"PositionalBehindAKeyword", "(a=1, x)", R"({"a": 1)", R"({"a": 1})", Status::bad, ")"},
    {"NoLiteral", "(a=foo(1))", R"({"a": )", R"({"a": null})", Status::bad, "oo(1))"},
    {"KeysThatAreNumbers", "(a={1: 2, -3.5 : {True: None, False: 0}}, b={ 1 , 2})",
     R"({"a": {"1": 2, "-3.5": {"true": null, "false": 0}}, "b": [ 1 , 2]})", ""},
    {"OpenNumberBehindABrace", "(a={1", R"({"a": )", R"({"a": [1]})", Status::open},
    {"OpenWordBehindABrace", "(a={Tr", R"({"a": )", R"({"a": [true]})", Status::open},
    {"OpenKeyThatIsAWord", "(a={1: 2, Tr", R"({"a": {"1": 2)", R"({"a": {"1": 2}})", Status::open},
    {"OpenKeyThatIsANumber", "(a={1: 2, 3", R"({"a": {"1": 2, "3)", R"({"a": {"1": 2, "3":null}})",
     Status::open},
    {"OpenValue", "(a=", R"({"a": )", R"({"a": null})", Status::open},
    {"OpenList", "(a=['x', ", R"({"a": ["x")", R"({"a": ["x"]})", Status::open},
    {"Positional", "(1)", "{", "{}", Status::bad, ")"},
    {"NotACall", "x", "", "", Status::bad, "x"},
};

// Members, whose quote is <q>.
const JsonFilterRow kMembers[] = {
    {"None", "{} x", "{}", "", Status::done, " x"},
    {"Values", "{a:1,b:<q>x<q>,c:[<q>y<q>,null,{d:true}]}",
     R"({"a":1,"b":"x","c":["y",null,{"d":true}]})", ""},
    {"NothingIsAnEscape", "{a:<q>\"\\n\n},{<q>}", R"({"a":"\"\\n\n},{"})", ""},
    {"BeginningsOfTheQuote", "{a:<q><<q<<q>}", R"({"a":"<<q<"})", ""},
    {"JsonStrings", R"({"a":"x\n","b" : 2})", R"({"a":"x\n","b" : 2})", ""},
    {"QuotedKeys", "{<q>a:b<q>:1, c d:2}", R"({"a:b":1, "c")", R"({"a:b":1, "c":null})",
     Status::bad, "d:2}"},
    {"SpaceAround", "{ a : 1 ,\n b: <q>x<q> }", "{ \"a\": 1 ,\n \"b\": \"x\" }", ""},
    {"WordsWithoutQuotes", "{a:Paris, France,b:[no,trust me]}", R"({"a":"Paris", "France)",
     R"({"a":"Paris", "France":null})", Status::bad, ",b:[no,trust me]}"},
    {"WordsInAList", "{b:[no,trust me,<x]}", R"({"b":["no","trust me","<x"]})", "", Status::done,
     "", true},
    {"WordsThatBeginAsOthers", "{a:None of these,b:truth,c:null }",
     R"({"a":"None of these","b":"truth","c":null })", ""},
    {"WordsThatBeginAsNumbers", "{a:2024-01-02,b:[1,3 pieces,-x],c:-1.5e3 ,d:12}",
     R"({"a":"2024-01-02","b":[1,"3 pieces","-x"],"c":-1.5e3 ,"d":12})", ""},
    {"OpenNumber", "{a:1,b:-", R"({"a":1,"b":)", R"({"a":1,"b":-0})", Status::open},
    {"OpenDate", "{a:2024-0", R"({"a":)", R"({"a":"2024-0"})", Status::open},
    {"OpenWord", "{a:1,b:true", R"({"a":1,"b":)", R"({"a":1,"b":true})", Status::open},
    {"OpenKey", "{ab", R"({"ab)", R"({"ab":null})", Status::open},
    {"OpenString", "{a:<q>x<", R"({"a":"x)", R"({"a":"x<"})", Status::open},
    {"OpenQuote", "{a:[1,<q", R"({"a":[1)", R"({"a":[1]})", Status::open},
    {"OpenQuoteAfterColon", "{a:<q", R"({"a":)", R"({"a":null})", Status::open},
    {"OpenQuoteOfAKey", "{a:1,<q", R"({"a":1)", R"({"a":1})", Status::open},
    {"OpenWords", "{a:Par", R"({"a":"Par)", R"({"a":"Par"})", Status::open},
    {"NoKey", "{:1}", "{", "{}", Status::bad, ":1}"},
};

// The marker behind members is </e>, and their brackets are missing.
const JsonFilterRow kMembersWithoutBrackets[] = {
    {"BehindWords", "{a:Paris</e> x", R"({"a":"Paris"})", "", Status::done, " x"},
    {"BehindANumber", "{a:{b:[1, 2</e>x", R"({"a":{"b":[1, 2]}})", "", Status::done, "x"},
    {"BehindANumberAndSpace", "{a:1 </e>", R"({"a":1 })", "", Status::done, ""},
    {"BehindADate", "{a:2024-01-02</e>", R"({"a":"2024-01-02"})", "", Status::done, ""},
    {"BehindAWord", "{a:true</e>", R"({"a":true})", "", Status::done, ""},
    {"BehindAWordAndSpace", "{a:null </e>", R"({"a":null})", "", Status::done, ""},
    {"InPlaceOfAKey", "{</e>x", "{}", "", Status::done, "x"},
    {"InPlaceOfTheNextKey", "{a:1,</e>", R"({"a":1})", "", Status::done, ""},
    {"BeginningsOfTheMarker", "{a:x</</e>", R"({"a":"x</"})", "", Status::done, ""},
    {"NearTheMarker", "{a:x</f>,b:true<q>}", R"({"a":"x</f>","b":"true<q>"})", "", Status::done,
     ""},
    {"AnOpenMarker", "{a:x</", R"({"a":"x)", R"({"a":"x</"})", Status::open},
    {"InAString", "{a:<q></e><q>}", R"({"a":"</e>"})", "", Status::done, ""},
    {"NoKey", "{a:1,</f>", R"({"a":1)", R"({"a":1})", Status::bad, "f>"},
};

void check_every_cut(const JsonFilterRow& row, JsonFilter::Want want, bool checks_repaired,
                     std::string_view end = {}) {
  for (std::size_t cut = 0; cut <= row.text.size() + 1; ++cut) {
    SCOPED_TRACE(cut);
    JsonFilter filter;
    filter.restart(want, "<q>", end);
    std::string copy;
    std::size_t used = 0;
    const bool bytewise = cut > row.text.size();
    while (used < row.text.size()) {
      const std::size_t end = bytewise ? used + 1 : used < cut ? cut : row.text.size();
      const std::size_t n = filter.feed(row.text.substr(used, end - used), copy);
      used += n;
      if (used < end) break;
    }
    EXPECT_EQ(copy, row.copy);
    EXPECT_EQ(filter.status(), row.status);
    EXPECT_EQ(row.text.substr(used), row.rest);
    if (row.status == Status::done) {
      EXPECT_TRUE(!checks_repaired || filter.is_repaired() == row.repaired);
      EXPECT_TRUE(json::parse(copy)) << copy;
      continue;
    }
    filter.close(copy);
    EXPECT_EQ(copy, row.closed);
    EXPECT_TRUE(copy.empty() || json::parse(copy)) << copy;
  }
}

class JsonFilterRows : public ::testing::TestWithParam<JsonFilterRow> {};

TEST_P(JsonFilterRows, AreTheSameWhereverTheyAreCut) {
  check_every_cut(GetParam(), JsonFilter::Want::any, /*checks_repaired=*/true);
}

INSTANTIATE_TEST_SUITE_P(Table, JsonFilterRows, ::testing::ValuesIn(kJsonFilterRows),
                         [](const auto& test) { return std::string(test.param.name); });

class JsonFilterKeywords : public ::testing::TestWithParam<JsonFilterRow> {};

TEST_P(JsonFilterKeywords, AreTheSameWhereverTheyAreCut) {
  check_every_cut(GetParam(), JsonFilter::Want::keywords, /*checks_repaired=*/false);
}

INSTANTIATE_TEST_SUITE_P(Table, JsonFilterKeywords, ::testing::ValuesIn(kKeywords),
                         [](const auto& test) { return std::string(test.param.name); });

class JsonFilterMembers : public ::testing::TestWithParam<JsonFilterRow> {};

TEST_P(JsonFilterMembers, AreTheSameWhereverTheyAreCut) {
  check_every_cut(GetParam(), JsonFilter::Want::members, /*checks_repaired=*/false);
}

INSTANTIATE_TEST_SUITE_P(Table, JsonFilterMembers, ::testing::ValuesIn(kMembers),
                         [](const auto& test) { return std::string(test.param.name); });

class JsonFilterMembersWithoutBrackets : public ::testing::TestWithParam<JsonFilterRow> {};

TEST_P(JsonFilterMembersWithoutBrackets, AreTheSameWhereverTheyAreCut) {
  check_every_cut(GetParam(), JsonFilter::Want::members, /*checks_repaired=*/false, "</e>");
}

INSTANTIATE_TEST_SUITE_P(Table, JsonFilterMembersWithoutBrackets,
                         ::testing::ValuesIn(kMembersWithoutBrackets),
                         [](const auto& test) { return std::string(test.param.name); });

// A number is held, as it may turn out to be a date, but not without end.
TEST(JsonFilter, LongNumbersOfMembers) {
  const std::string digits(600, '7');
  const std::string spaces(600, ' ');
  struct Case {
    std::string text;
    std::string copy;
    std::string closed = "";
    Status status = Status::done;
    std::string rest = "";
  };
  const Case cases[] = {
      {"{a:" + digits + "}", "{\"a\":" + digits + "}"},
      {"{a:-" + digits + "." + digits + "e+" + digits + " ,b:[" + digits + "]}",
       "{\"a\":-" + digits + "." + digits + "e+" + digits + " ,\"b\":[" + digits + "]}"},
      {"{a:12" + spaces + ",b:1}", "{\"a\":12" + spaces + ",\"b\":1}"},
      {"{a:0." + digits + "}", "{\"a\":0." + digits + "}"},
      {"{a:00" + digits + "}", "{\"a\":\"00" + digits + "\"}"},
      {"{a:1-1" + digits + "}", "{\"a\":\"1-1" + digits + "\"}"},
      {"{a:" + digits + "-1}", "{\"a\":" + digits, "{\"a\":" + digits + "}", Status::bad, "-1}"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.text);
    check_every_cut({"", row.text, row.copy, row.closed, row.status, row.rest},
                    JsonFilter::Want::members, /*checks_repaired=*/false);
  }
}

TEST(JsonFilter, AQuoteOfMembersMayBeOneByte) {
  JsonFilter filter;
  filter.restart(JsonFilter::Want::members, "'");
  std::string copy;
  EXPECT_EQ(filter.feed("{a:'x\"',b:''}", copy), 13U);
  EXPECT_EQ(copy, R"({"a":"x\"","b":""})");
}

// Cut anywhere, what has been copied can be made JSON by appending.
TEST(JsonFilter, EveryBeginningCanBeClosed) {
  constexpr std::string_view kText =
      R"({"k\u00e9\ud83d\ude00y": [-0.5e-10, {"x": {}, "y": []}, "a\"b\\", true, null, 120], "z": false})";
  for (std::size_t size = 1; size <= kText.size(); ++size) {
    JsonFilter filter;
    std::string copy;
    ASSERT_EQ(filter.feed(kText.substr(0, size), copy), size);
    filter.close(copy);
    EXPECT_TRUE(json::parse(copy)) << kText.substr(0, size) << " -> " << copy;
  }
}

// Text that is cut off keeps what was held, so that what is there begins JSON.
TEST(JsonFilter, FinishKeepsWhatWasHeld) {
  const struct {
    JsonFilter::Want want;
    std::string_view text;
    std::string_view copy;
  } rows[] = {
      {JsonFilter::Want::any, R"({"a": 1, )", R"({"a": 1, )"},
      {JsonFilter::Want::any, R"(["\ud83d\u00)", R"(["\ud83d\u00)"},
      {JsonFilter::Want::any, "[fal", "[fal"},
      {JsonFilter::Want::any, "[1,,", "[1,"},
      {JsonFilter::Want::keywords, R"((a='\x4)", R"({"a": "\u004)"},
      {JsonFilter::Want::keywords, "(a=1, bc", R"({"a": 1, "bc)"},
      {JsonFilter::Want::keywords, "(a={1", R"({"a": [1)"},
      {JsonFilter::Want::keywords, "(a={1: 2, Tr", R"({"a": {"1": 2, "tr)"},
  };
  for (const auto& row : rows) {
    JsonFilter filter(row.want);
    std::string copy;
    filter.feed(row.text, copy);
    filter.finish(copy);
    EXPECT_EQ(copy, row.copy) << row.text;
  }
}

TEST(JsonFilter, DepthIsBounded) {
  const std::string deep(JsonFilter::kMaxDepth + 1, '[');
  JsonFilter filter;
  std::string copy;
  EXPECT_EQ(filter.feed(deep, copy), JsonFilter::kMaxDepth);
  EXPECT_EQ(filter.status(), Status::bad);
  filter.close(copy);
  EXPECT_EQ(copy,
            std::string(JsonFilter::kMaxDepth, '[') + std::string(JsonFilter::kMaxDepth, ']'));
}

TEST(JsonFilter, AnObjectMayBeAskedFor) {
  JsonFilter filter(JsonFilter::Want::object);
  std::string copy;
  EXPECT_EQ(filter.feed("[1]", copy), 0U);
  EXPECT_EQ(filter.status(), Status::bad);
}

}  // namespace
}  // namespace tenon::format
