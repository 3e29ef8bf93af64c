// Printed grammars are read back by our own front ends here, and by the engines for which they are
// made in tests/peers/printers.py.
#include "tenon/grammar/print/print.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using Printer = Expected<Printed> (*)(const Rules&);
using Whitespace = JsonOptions::Whitespace;

Expected<Rules> schema_rules(std::string_view source, Whitespace whitespace) {
  const auto value = json::parse(source);
  if (!value) return Unexpected(value.error());
  auto schema = schema::Schema::compile(*value, {.assert_format = true});
  if (!schema) return Unexpected(schema.error());
  return rules_of(*std::move(schema),
                  {.property_order = JsonOptions::PropertyOrder::schema, .whitespace = whitespace});
}

struct PrintSchemaRow {
  const char* name;
  const char* schema;
  std::vector<const char*> accepted;
  std::vector<const char*> refused;
  std::vector<const char*> relaxed = {};  // "path keyword"
  Whitespace whitespace = Whitespace::compact;
};

const PrintSchemaRow kPrintSchemas[] = {
    {"Constants", R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"", "nul", "0"}},
    {"Anything",
     "{}",
     {"null", "-0.5e-7", R"("a\n\u001fé\"")", "[]", "[1,[]]", "{}", R"({"a":{"b":[]},"c":1})"},
     {"", "01", "1.", R"("a)", "[1,]", R"({"a"})", R"({a:1})"}},
    {"EnumByValue",
     R"({"enum": ["a\"b", 1, 2.50, null, {"x": [1], "y": "z"}]})",
     {R"("a\"b")", "1", "1.0", "2.5", "2.500", "null", R"({"x":[1],"y":"z"})"},
     {R"("a")", "2", "1.01", "2.05", R"({"y":"z","x":[1]})"}},
    {"RequiredInOrder",
     R"({"properties": {"b": {"type": "integer"}, "a": {"type": "null"}}, "required": ["a", "b"],
         "additionalProperties": false, "type": "object"})",
     {R"({"b":1,"a":null})"},
     {R"({"a":null,"b":1})", R"({"b":1})", "{}", R"({"b":1,"a":null,"c":1})"}},
    {"OptionalInOrder",
     R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
         "additionalProperties": false, "type": "object"})",
     {"{}", R"({"a":1})", R"({"b":2})", R"({"c":3})", R"({"a":1,"c":3})", R"({"a":1,"b":2,"c":3})"},
     {R"({"b":2,"a":1})", R"({"a":1,})", R"({,"a":1})", R"({"a":1,"a":1})"}},
    {"RequiredBehindOptional",
     R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
         "required": ["b"], "additionalProperties": false, "type": "object"})",
     {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
     {"{}", R"({"a":1})", R"({"c":3})", R"({"a":1,"c":3})"}},
    {"OthersComeLast",
     R"({"properties": {"ab": {"const": 1}}, "additionalProperties": {"type": "null"},
         "type": "object"})",
     {"{}", R"({"ab":1})", R"({"x":null,"y":null})", R"({"ab":1,"abc":null,"a":null,"":null})"},
     {R"({"ab":null})", R"({"x":null,"ab":1})", R"({"x":1})"}},
    {"PatternProperties",
     R"({"patternProperties": {"^x-": {"const": 1}}, "additionalProperties": false,
         "type": "object"})",
     {"{}", R"({"x-":1})", R"({"x-a":1,"x-b":1})"},
     {R"({"x":1})", R"({"x-a":2})"}},
    {"PropertiesAreCounted",
     R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "type": "object",
         "minProperties": 2, "maxProperties": 2, "additionalProperties": false})",
     {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
     {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
    {"OtherPropertiesAreCounted",
     R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}, "type": "object",
         "minProperties": 1, "maxProperties": 3})",
     {R"({"a":1})", R"({"x":2})", R"({"a":1,"x":2,"y":2})", R"({"x":2,"y":2,"z":2})"},
     {"{}", R"({"a":1,"x":2,"y":2,"z":2})", R"({"x":2,"y":2,"z":2,"w":2})"}},
    {"Arrays",
     R"({"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 3})",
     {"[1]", "[1,1]", "[1,1,1]"},
     {"[]", "[1,1,1,1]", "[1,]", "[2]"}},
    {"Tuples",
     R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}],
         "items": {"const": 4}, "minItems": 1, "maxItems": 5})",
     {"[1]", "[1,2]", "[1,2,3]", "[1,2,3,4]", "[1,2,3,4,4]"},
     {"[]", "[2]", "[1,3]", "[1,2,3,4,4,4]"}},
    {"TupleThatEnds",
     R"({"type": "array", "prefixItems": [{"const": 1}, false], "items": {"const": 4}})",
     {"[]", "[1]"},
     {"[1,2]", "[1,4]"}},
    {"Integers",
     R"({"type": "integer"})",
     {"0", "-0", "-12", "1.0", "9007199254740993"},
     {"1.5", "+1", "", "-", "01", "1."}},
    {"ListedIntegersAsDraft4HasThem",
     R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": ["integer", "null"],
         "enum": [1, 2.0, 1e2, null]})",
     {"1", "2", "100", "null"},
     {"1.0", "2.0", "1e2", "3"}},
    {"IntegersAsDraft4HasThem",
     R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"})",
     {"0", "-12"},
     {"1.0", "1.5"}},
    {"IntegerRange",
     R"({"type": "integer", "minimum": -7, "exclusiveMaximum": 130})",
     {"-7", "-6", "-0", "0", "7", "129", "99", "10", "129.00"},
     {"-8", "-10", "130", "1000", "129.5"}},
    {"DecimalRange",
     R"({"type": "number", "exclusiveMinimum": 0, "maximum": 2.5})",
     {"0.0001", "2.5", "2.50", "1", "2", "2.4999", "2.5e0", "1e-07", "2.6e-1", "9e-999"},
     {"0", "0.00", "-0", "-1", "2.51", "3", "2.6e0", "1e1", "10"}},
    {"NegativeRange",
     R"({"type": "number", "minimum": -1.5, "maximum": -0.25})",
     {"-1.5", "-1", "-0.25", "-0.3", "-1.5e0", "-2.5e-1", "-9.9e-01"},
     {"-1.51", "-0.2", "0", "1", "-2e-1", "-1e+1"}},
    {"Multiples",
     R"({"type": "integer", "multipleOf": 6, "minimum": 10, "maximum": 100})",
     {"12", "18", "96"},
     {"6", "10", "11", "102", "14"}},
    {"DecimalMultiples",
     R"({"type": "number", "multipleOf": 0.25})",
     {"0", "1", "-1.25", "3.5", "10.7500"},
     {"0.1", "1.26", "0.751", "1.125"}},
    {"Fractions",
     R"({"type": "number", "not": {"type": "integer"}})",
     {"1.5", "-0.1"},
     {"1", "2.0"}},
    {"StringLengths",
     R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", R"("é\n")", R"("a\"b")", R"("\u0001\u001F\/")", R"("日本語")"},
     {R"("a")", R"("abcd")", R"("a\n\nb")", R"("\u0041b")"}},
    {"PatternIsPartOfTheText",
     R"({"type": "string", "pattern": "b+"})",
     {R"("b")", R"("abc")", R"("\nb")"},
     {R"("")", R"("ac")"}},
    {"PatternWithEscapes",
     R"({"type": "string", "pattern": "^\"\\\\[\\n/]$"})",
     {R"("\"\\\n")", R"("\"\\/")", R"("\"\\\/")", R"("\"\\\u000A")"},
     {R"("\"\\x")", R"("\\\\\n")"}},
    {"PatternAndLength",
     R"({"type": "string", "pattern": "^[a-c]*$", "minLength": 2, "maxLength": 4})",
     {R"("ab")", R"("abca")"},
     {R"("a")", R"("abcab")", R"("abd")"}},
    {"PatternOfCharacters",
     R"({"type": "string", "pattern": "^[^\u0400-\u04FF]\\p{Lu}$"})",
     {R"("aÉ")", R"("😀A")"},
     {R"("жA")", R"("aé")", R"("A")"}},
    {"Format", R"({"type": "string", "format": "date"})", {R"("2024-02-29")"}, {R"("2024-2-29")"}},
    {"NotAString",
     R"({"type": "string", "not": {"enum": ["a", "ab"]}})",
     {R"("")", R"("b")", R"("abc")", R"("aa")"},
     {R"("a")", R"("ab")"}},
    {"OneOfObjects",
     R"({"oneOf": [{"properties": {"k": {"const": "a"}, "n": {"type": "null"}}, "required": ["k"]},
                   {"properties": {"k": {"const": "b"}, "m": {"type": "null"}}, "required": ["k"]}],
         "type": "object", "additionalProperties": true})",
     {R"({"k":"a","n":null})", R"({"k":"b","m":null})", R"({"k":"b","n":1})"},
     {R"({"k":"c"})", R"({"k":"a","n":1})"}},
    {"AllOf",
     R"({"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 5}}}],
         "type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}},
         "additionalProperties": false})",
     {R"({"a":3})", R"({"a":5})"},
     {R"({"a":2})", R"({"a":6})", R"({"a":"x"})"}},
    {"Recursion",
     R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "additionalProperties": false,
         "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}}}}})",
     {"{}", R"({"left":{"right":{}},"right":{}})"},
     {"null", R"({"left":null})", R"({"right":{},"left":{}})"}},
    {"ConditionsAreAlternatives",
     R"({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {}},
         "additionalProperties": false, "dependentRequired": {"a": ["b"]}})",
     {"{}", R"({"b":1})", R"({"a":true,"b":1})"},
     {R"({"a":true})"}},
    {"Contains",
     R"({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}})",
     {"[5]", "[1,7,2]", "[1,1,6]"},
     {"[]", "[1]", "[1,2]", R"([5,"a"])"}},
    {"UniqueItemsAreRelaxed",
     R"({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true})",
     {"[]", "[1,2]", "[1,1]"},
     {"[3]"},
     {"/uniqueItems uniqueItems"}},
    {"LengthsPastTheLimitAreRelaxed",
     R"({"type": "string", "maxLength": 1000000})",
     {R"("")", R"("abc")"},
     {"1"},
     {"/maxLength maxLength"}},
    {"AutomataPastTheLimitAreRelaxed",
     R"({"type": "string", "pattern": "^(a|b)*a(a|b){9}$", "minLength": 3})",
     {R"("abc")"},
     {R"("ab")", "1"},
     {"/pattern pattern", "/minLength minLength"}},
    {"Spaced",
     R"({"type": "object", "properties": {"a": {"items": {"const": 1}, "type": "array"},
         "b": {"const": [1, {"c": 2}]}}, "additionalProperties": false})",
     {"{}", R"({"a": []})", R"({"a": [1, 1], "b": [1, {"c": 2}]})"},
     {R"({"a":[]})", R"({ "a": []})", R"({"a": [1,1]})", R"({"b": [1, {"c":2}]})"},
     {},
     Whitespace::spaced},
    {"AnyWhitespace",
     R"({"type": "object", "properties": {"a": {"items": {"const": 1}, "type": "array"}},
         "additionalProperties": false})",
     {"{}", "{ }", "{\n\t\"a\" : [ ] }", R"({"a":[1 , 1]})"},
     {" {}", "{} ", "{                      }", R"({"a":[ 1 , ]})"},
     {},
     Whitespace::any},
};

std::vector<std::string> names_of(const std::vector<Relaxed>& relaxed) {
  std::vector<std::string> names;
  for (const Relaxed& one : relaxed) names.push_back(one.schema_path + ' ' + one.keyword);
  return names;
}

void expect_verdicts(const PrintSchemaRow& row, const Rules& rules, const char* how) {
  const auto grammar = grammar_for_test(rules);
  ASSERT_TRUE(grammar) << row.name << ' ' << how << ": " << grammar.error().message;
  for (const char* text : row.accepted) {
    EXPECT_TRUE(reads(*grammar, text)) << row.name << ' ' << how << ": " << text;
  }
  for (const char* text : row.refused) {
    EXPECT_FALSE(reads(*grammar, text)) << row.name << ' ' << how << ": " << text;
  }
}

TEST(Print, SchemasInPlainNodes) {
  for (const PrintSchemaRow& row : kPrintSchemas) {
    const auto rules = schema_rules(row.schema, row.whitespace);
    ASSERT_TRUE(rules) << row.name << ": " << rules.error().message;
    for (const bool with_lexemes : {false, true}) {
      const auto lowered = lower(*rules, {.with_lexemes = with_lexemes});
      ASSERT_TRUE(lowered) << row.name << ": " << lowered.error().message;
      expect_verdicts(row, lowered->rules, with_lexemes ? "with lexemes" : "without lexemes");
      EXPECT_EQ(names_of(lowered->relaxed),
                (std::vector<std::string>{row.relaxed.begin(), row.relaxed.end()}))
          << row.name;
    }
  }
}

struct Dialect {
  const char* name;
  Printer print;
  Syntax syntax;
};
constexpr Dialect kDialects[] = {{"GBNF", print_gbnf, Syntax::gbnf},
                                 {"EBNF", print_ebnf, Syntax::gbnf},
                                 {"Lark", print_lark, Syntax::lark}};

TEST(Print, SchemasAreReadBack) {
  for (const PrintSchemaRow& row : kPrintSchemas) {
    for (const Dialect& dialect : kDialects) {
      const auto printed = dialect.print(*schema_rules(row.schema, row.whitespace));
      ASSERT_TRUE(printed) << row.name << ": " << printed.error().message;
      const auto rules = read_rules(printed->text, dialect.syntax);
      ASSERT_TRUE(rules) << row.name << ": " << rules.error().message << '\n' << printed->text;
      expect_verdicts(row, *rules, dialect.name);
    }
  }
}

struct GrammarRow {
  const char* name;
  Syntax syntax;
  const char* source;
  const char* gbnf;  // or the error
  const char* ebnf;
  const char* lark;
};

const GrammarRow kGrammars[] = {
    {"Characters", Syntax::gbnf, R"g(root ::= [a-c\]^-] [^"\\\n] "\x07\"")g",
     R"g(root ::= [\x2D\x5D\x5Ea-c] [^\n"\\] "\x07\""
)g",
     R"g(root ::= [\]\^a-c-] [^\n"\\] "\u0007\""
)g",
     R"g(start: ROOT
ROOT: /[\x2D\x5D\x5Ea-c]/ /[^\x0A"\x5C]/ "\u0007\""
)g"},
    {"RulesKeepTheirNames", Syntax::gbnf, R"g(root ::= a-B a-B
a-B ::= "(" a-B* ")")g",
     R"g(root ::= a-B a-B
a-B ::= "(" a-B* ")"
)g",
     R"g(root ::= a-B a-B
a-B ::= "(" a-B* ")"
)g",
     R"g(start: a_b a_b
a_b: "(" a_b* ")"
)g"},
    {"WhatReadsNothingIsLeftOut", Syntax::gbnf, R"g(root ::= "a" | loop
loop ::= "b" loop)g",
     "root ::= \"a\"\n", "root ::= \"a\"\n", "start: \"a\"\n"},
    {"WhatIsLeftOfAChoiceHoldsTogether", Syntax::gbnf,
     R"g(root ::= ([ab] [cd] | loop)* (("a" | "b") | loop) "c"
loop ::= "q" loop)g",
     "root ::= ([ab] [cd])* (\"a\" | \"b\") \"c\"\n",
     "root ::= ([ab] [cd])* (\"a\" | \"b\") \"c\"\n",
     "start: TEXT* TEXT_2 \"c\"\nTEXT: /[ab]/ /[cd]/\nTEXT_2: \"a\" | \"b\"\n"},
    {"ADigitBehindAnEscape", Syntax::gbnf, R"g(root ::= [^\x07\x5Bc] "\x07a")g",
     "root ::= [^\\x07\\x5Bc] \"\\x07a\"\n", "root ::= [^\\u0007\\u005Bc] \"\\u0007a\"\n", nullptr},
    {"AnyToken", Syntax::lark, R"g(start: "a" <[*]>)g", "GBNF cannot say that any token may come",
     "EBNF cannot say that any token may come", "start: \"a\" <[*]>\n"},
    {"ATokenThatNoVocabularyHas", Syntax::gbnf, "root ::= <[4294967295]>",
     "root ::= <[4294967295]>\n", "root ::= Token(4294967295)\n", "start: <[4294967295]>\n"},
    {"Tokens", Syntax::gbnf, "root ::= <[5]> !<[7]>", "root ::= <[5]> !<[7]>\n",
     "root ::= Token(5) ExcludeToken(7)\n", "start: <[5]> <[^7]>\n"},
    {"TokensByName", Syntax::gbnf, "root ::= <|end|>", "root ::= <|end|>\n",
     "EBNF has tokens by number only: give the id of '<|end|>'", "start: <|end|>\n"},
    {"RuleThatBeginsWithItself", Syntax::gbnf, R"g(root ::= root "a" | "b")g",
     "the rule 'root' begins with itself, which llama.cpp refuses: write it as a repetition",
     "root ::= root \"a\" | \"b\"\n", "start: start \"a\" | \"b\"\n"},
    {"RuleThatBeginsWithItselfBehindNothing", Syntax::gbnf, R"g(root ::= "x"? tail
tail ::= [a]* root | "b")g",
     "the rule 'tail' begins with itself, which llama.cpp refuses: write it as a repetition",
     "root ::= \"x\"? tail\ntail ::= \"a\"* root | \"b\"\n", nullptr},
    {"Intersections", Syntax::lark, "start: A\nA: B & ~(\"b\")\nB: /[a-c]/", "root ::= [ac]\n",
     "root ::= [ac]\n", "start: TEXT\nTEXT: /[ac]/\n"},
    {"NothingFits", Syntax::gbnf, R"g(root ::= "a" root)g", "no text fits the grammar",
     "no text fits the grammar", "no text fits the grammar"},
};

TEST(Print, Grammars) {
  for (const GrammarRow& row : kGrammars) {
    const auto rules = read_rules(row.source, row.syntax);
    ASSERT_TRUE(rules) << row.name << ": " << rules.error().message;
    const char* const wanted[] = {row.gbnf, row.ebnf, row.lark};
    for (std::size_t i = 0; i < std::size(kDialects); ++i) {
      if (wanted[i] == nullptr) continue;
      const auto printed = kDialects[i].print(*rules);
      EXPECT_EQ(printed ? printed->text : printed.error().message, wanted[i])
          << row.name << " as " << kDialects[i].name;
    }
  }
}

TEST(Print, RulesThatDoubleArePrintedOnce) {
  std::string source = "start: A40\nA0: /a|b/\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string less = "A" + std::to_string(i - 1);
    source += "A" + std::to_string(i) + ": " + less + " | " + less + "\n";
  }
  const auto rules = read_rules(source, Syntax::lark);
  ASSERT_TRUE(rules) << rules.error().message;
  for (const Dialect& dialect : kDialects) {
    const auto printed = dialect.print(*rules);
    ASSERT_TRUE(printed) << dialect.name << ": " << printed.error().message;
    EXPECT_LT(printed->text.size(), 100U) << dialect.name;
  }
}

// Large or exploding schemas get an answer, which says what is left out.
TEST(Print, HostileSchemasAreBounded) {
  std::string properties;
  std::string numbers;
  for (int i = 0; i < 300; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    properties +=
        comma + "\"a-rather-long-name-" + std::to_string(i) + "\": {\"type\": \"integer\"}";
    numbers += comma + std::to_string(i);
  }
  std::string nested = "true";
  for (int i = 0; i < 8; ++i) {
    nested = R"({"oneOf": [{"type": "object", "properties": {"a": )" + nested +
             R"(}}, {"type": "object", "properties": {"b": )" + nested + "}}]}";
  }
  struct Row {
    std::string schema;
    bool is_exact;
  };
  const Row rows[] = {
      {"{\"properties\": {" + properties + "}, \"additionalProperties\": false}", true},
      {"{\"properties\": {" + properties + "}}", false},
      {"{\"properties\": {" + properties + "}, \"minProperties\": 20}", false},
      {"{\"enum\": [" + numbers + "]}", true},
      {R"({"type": "array", "minItems": 1000000, "maxItems": 1000000})", false},
      {R"({"type": "string", "pattern": "^[a-z]{1,90000}$"})", true},
      {R"({"type": "string", "pattern": "^(a|b)*a(a|b){9}$", "maxLength": 1000000})", false},
      {R"({"type": "number", "multipleOf": 1e-30, "minimum": 0.00000000001})", false},
      {nested, true},
  };
  constexpr std::size_t kMostBytes = 4'000'000;
  for (const Row& row : rows) {
    const auto rules = schema_rules(row.schema, Whitespace::compact);
    ASSERT_TRUE(rules) << row.schema.substr(0, 100);
    for (const Dialect& dialect : kDialects) {
      const auto printed = dialect.print(*rules);
      ASSERT_TRUE(printed) << row.schema.substr(0, 100) << ": " << printed.error().message;
      EXPECT_EQ(printed->relaxed.empty(), row.is_exact) << row.schema.substr(0, 100);
      EXPECT_LT(printed->text.size(), kMostBytes) << row.schema.substr(0, 100);
    }
  }
}

}  // namespace
}  // namespace tenon::grammar
