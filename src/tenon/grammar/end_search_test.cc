#include "tenon/grammar/machine/end_search.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using vocab::TokenId;

std::shared_ptr<Grammar> end_search_grammar_of(std::string_view schema,
                                               const JsonOptions& options) {
  const auto compiled = schema::Schema::compile(*json::parse(schema), {});
  EXPECT_TRUE(compiled) << compiled.error().message;
  return *Grammar::make([schema = *compiled,
                         options](Machine& machine) { return add_json(machine, schema, options); },
                        index_for_test());
}

std::string text_of(const std::vector<TokenId>& tokens) {
  const auto index = index_for_test();
  std::string text;
  for (const TokenId token : tokens) text += index->vocab().bytes(token);
  return text;
}

// The end that is written after `text`, checked against the grammar.
std::string end_of(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  EXPECT_TRUE(matcher.accept_bytes(text)) << text;
  const auto tokens = matcher.tokens_to_end();
  EXPECT_TRUE(tokens) << text << ": " << tokens.error().message;
  if (!tokens) return "none";
  EXPECT_EQ(matcher.bytes_to_end() == 0, tokens->empty()) << text;
  for (const TokenId token : *tokens) EXPECT_TRUE(matcher.accept(token)) << text << " " << token;
  EXPECT_TRUE(matcher.is_accepting()) << text << text_of(*tokens);
  return text_of(*tokens);
}

struct EndSearchRow {
  std::string_view name;
  std::string_view schema;
  std::string_view text;   // of the schema, in its order
  std::string_view whole;  // the shortest whole text
};

const EndSearchRow kEndSearchRows[] = {
    {"String", R"({"type": "string"})", R"("a\"\u0001é")", R"("")"},
    {"StringOfALength", R"({"type": "string", "minLength": 3})", R"("abcd")", R"("aaa")"},
    {"StringOfAGreatLength", R"({"type": "string", "minLength": 9, "maxLength": 70})",
     R"("\u0001\n0123456789é0123456789")", R"("aaaaaaaaa")"},
    {"PatternOfALength", R"({"type": "string", "pattern": "^[ab]*c[ab]*$", "minLength": 9})",
     R"("aaaaabbbbbcba")", R"("aaaaaaaac")"},
    {"Pattern", R"({"type": "string", "pattern": "^[0-9]{4}-[01][0-9]$"})", R"("2024-12")",
     R"("0000-00")"},
    {"Enum", R"({"enum": ["celsius", "kelvin", "F"]})", R"("celsius")", R"("F")"},
    {"Number", R"({"type": "number"})", "-12.53", "0"},
    {"NumberOfARange", R"({"type": "integer", "minimum": 117, "maximum": 9999})", "1234", "117"},
    {"Null", R"({"type": "null"})", "null", "null"},
    {"Anything", "{}", R"({"a": [1, {"b": null}, "x"]})", "0"},
    {"NestedRequired",
     R"({"type": "object", "properties": {"a": {"type": "object", "properties":
        {"b": {"type": "string"}, "n": {"type": "integer"}}, "required": ["b", "n"]},
        "c": {"type": "boolean"}}, "required": ["a", "c"], "additionalProperties": false})",
     R"({"a": {"b": "x", "n": 12}, "c": false})", R"({"a": {"b": "", "n": 0}, "c": true})"},
    {"OptionalOnesAreLeftOut",
     R"({"type": "object", "properties": {"o1": {"type": "integer"}, "o2": {"type": "integer"},
        "r": {"type": "integer"}, "o3": {"type": "integer"}}, "required": ["r"]})",
     R"({"o1": 1, "o2": 2, "r": 3, "o3": 4, "more": [1]})", R"({"r": 0})"},
    {"ItemsThatMustBe", R"({"type": "array", "minItems": 3, "items": {"enum": ["wind", "rain"]}})",
     R"(["wind", "rain", "rain", "wind"])", R"(["rain", "rain", "rain"])"},
    {"ItemsThatDiffer",
     R"({"type": "array", "minItems": 2, "uniqueItems": true, "items": {"enum": [1, 2, 30]}})",
     "[30, 2]", "[1, 2]"},
    {"AnyValuesThatDiffer",
     R"({"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}})",
     "[3, 2]", "[0, 1]"},
    {"Recursive",
     R"({"type": "object", "properties": {"v": {"type": "string"}, "next": {"$ref": "#"}},
        "required": ["v"], "additionalProperties": false})",
     R"({"v": "a", "next": {"v": "b", "next": {"v": ""}}})", R"({"v": ""})"},
    {"TheShorterOfTwo",
     R"({"anyOf": [{"type": "object", "properties": {"long": {"type": "string"},
        "longer": {"type": "string"}}, "required": ["long", "longer"]},
        {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}]})",
     R"({"long": "a", "longer": "b"})", R"({"s": ""})"},
};

// With both orders of members.
TEST(EndSearch, EndsEveryBeginningOfATextAndAsShortAsItGoes) {
  for (const auto order : {JsonOptions::PropertyOrder::schema, JsonOptions::PropertyOrder::any}) {
    for (const EndSearchRow& row : kEndSearchRows) {
      SCOPED_TRACE(row.name);
      const auto grammar = end_search_grammar_of(row.schema, {.property_order = order});
      EXPECT_EQ(end_of(grammar, "").size(), row.whole.size()) << end_of(grammar, "");
      for (std::size_t size = 0; size <= row.text.size(); ++size) {
        end_of(grammar, row.text.substr(0, size));
      }
    }
  }
}

// The beginning of the end, until it is as near as is asked, and not a byte more.
TEST(EndSearch, EndsOnlyAsMuchAsIsAskedFor) {
  for (const EndSearchRow& row : kEndSearchRows) {
    const auto grammar = end_search_grammar_of(row.schema, {});
    for (std::size_t size = 0; size <= row.text.size(); ++size) {
      const std::string_view text = row.text.substr(0, size);
      const std::string end = end_of(grammar, text);
      Matcher matcher(grammar);
      ASSERT_TRUE(matcher.accept_bytes(text));
      const std::size_t left = matcher.bytes_to_end();
      for (std::size_t below = 1; below <= left + 1; ++below) {
        const auto tokens = matcher.tokens_towards_end(below);
        ASSERT_TRUE(tokens) << row.name << " " << text;
        const std::string part = text_of(*tokens);
        EXPECT_EQ(part, end.substr(0, part.size())) << row.name << " " << text << " " << below;
        Matcher there = matcher;
        for (std::size_t read = 0; read < part.size(); ++read) {
          EXPECT_GE(there.bytes_to_end(), below) << row.name << " " << text << " " << read;
          ASSERT_TRUE(there.accept_bytes({&part[read], 1})) << row.name << " " << text;
        }
        EXPECT_LT(there.bytes_to_end(), below) << row.name << " " << text << " " << part;
      }
    }
  }
}

TEST(EndSearch, LeavesOutTwentyOptionalMembersInAnyOrder) {
  std::string properties;
  for (int i = 0; i < 20; ++i)
    properties += "\"o" + std::to_string(i) + "\": {\"type\": \"null\"}, ";
  std::string required;
  for (int i = 0; i < 20; ++i) {
    properties += "\"r" + std::to_string(i) + "\": {\"type\": \"string\"}" + (i < 19 ? ", " : "");
    required += "\"r" + std::to_string(i) + "\"" + (i < 19 ? ", " : "");
  }
  const auto grammar = end_search_grammar_of(R"({"type": "object", "properties": {)" + properties +
                                                 R"(}, "required": [)" + required + "]}",
                                             {.property_order = JsonOptions::PropertyOrder::any});
  const std::string end = end_of(grammar, R"({"r7": "some text, o3)");
  EXPECT_EQ(end.find("\"o"), std::string::npos) << end;
  EXPECT_EQ(end.size(), 1 + 9 * (6 + 4) + 10 * (7 + 4) + 1) << end;
}

struct RulesRow {
  std::string_view name;
  std::string_view lark;
  std::string_view text;
  std::string_view end;
};

const RulesRow kRulesRows[] = {
    {"NowIsAnEnd", R"(start: "a"*)", "aa", ""},
    {"TokensAsWholes", R"(start: "x" <|call|> "ab" <|done|>)", "x", "<|call|>ab<|done|>"},
    {"TheShorterAlternative", R"(start: "a" ("bbbbbb" | "c" "d"))", "a", "cd"},
    {"AFewOfMany", R"(start: ("ab"){3,7} ".")", "ab", "abab."},
    {"Nested", R"x(start: "(" (start | "1") ")")x", "((", "1))"},
};

TEST(EndSearch, EndsTextsOfGrammars) {
  for (const RulesRow& row : kRulesRows) {
    SCOPED_TRACE(row.name);
    const auto grammar = grammar_for_test(row.lark, Syntax::lark);
    ASSERT_TRUE(grammar) << grammar.error().message;
    EXPECT_EQ(end_of(*grammar, row.text), row.end);
  }
}

// A way that is short in bytes may be long in tokens, also with names that have the same prefix.
TEST(EndSearch, FindsAnotherEndWhereTheFirstHasTooManyTokens) {
  const auto grammar = grammar_for_test(
      R"(start: "<" ("cccc" | "cc" "abab" | "ddddd" | "d" "ababab" | "ababababab") ">")",
      Syntax::lark);
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  const auto first = matcher.tokens_to_end();
  ASSERT_TRUE(first);
  EXPECT_EQ(text_of(*first), "<cccc>");
  std::size_t fewest = first->size();
  for (std::size_t most = first->size(); most-- > 0;) {
    const auto other = matcher.tokens_to_end(most);
    if (!other) break;
    EXPECT_LE(other->size(), most);
    fewest = other->size();
    Matcher again(*grammar);
    for (const TokenId token : *other) EXPECT_TRUE(again.accept(token)) << text_of(*other);
    EXPECT_TRUE(again.is_accepting()) << text_of(*other);
  }
  EXPECT_EQ(fewest, 5U);  // three tokens between the two
}

// Other ways take what the first one has left, so a call costs no more than it is allowed.
TEST(EndSearch, SharesItsStepsAmongAllSearches) {
  const auto grammar = grammar_for_test(
      R"(start: "<" ("cccc" | "cc" "abab" | "ddddd" | "d" "ababab" | "ababababab") ">")",
      Syntax::lark);
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  EXPECT_TRUE(matcher.tokens_to_end(/*most=*/6, /*max_steps=*/100));
  EXPECT_TRUE(matcher.tokens_to_end(/*most=*/5, /*max_steps=*/5000));
  const auto tokens = matcher.tokens_to_end(/*most=*/5, /*max_steps=*/100);
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, Errc::limit_exceeded);
}

// The needs of the lexeme's end are known from afar: a few steps for each byte.
TEST(EndSearch, GoesThroughALongLexemeAtOnce) {
  const std::pair<std::shared_ptr<Grammar>, std::size_t> rows[] = {
      {end_search_grammar_of(R"({"type": "string", "minLength": 2000, "maxLength": 3000})", {}),
       2002},
      {end_search_grammar_of(R"({"type": "string", "pattern": "^(ab|é){700}[0-9]{700}$"})", {}),
       2102},
      {*grammar_for_test(R"(start: /[^<]{2000,3000}<end>/)", Syntax::lark), 2005}};
  for (const auto& [grammar, size] : rows) {
    SCOPED_TRACE(size);
    Matcher matcher(grammar);
    const auto tokens = matcher.tokens_to_end(/*most=*/9999, /*max_steps=*/10'000);
    ASSERT_TRUE(tokens) << tokens.error().message;
    EXPECT_EQ(text_of(*tokens).size(), size);
  }
}

// A part that is made later counts with its length before it is made. Otherwise all ways to write
// the white space before it would be tried first.
TEST(EndSearch, KnowsHowLongIsWhatIsMadeLater) {
  Rules rules;
  const NodeId space = rules.add(node::Pattern{"[ \\t\\n]{0,40}"});
  const NodeId later = rules.add(node::Later{"\"", []() -> Expected<std::shared_ptr<const Rules>> {
                                               auto rest = std::make_shared<Rules>();
                                               rest->set_root(rest->literal(std::string(90, 'x')));
                                               return rest;
                                             }});
  const NodeId colon = rules.literal(":");
  rules.set_root(rules.sequence({space, colon, space, colon, space, colon, space, later}));
  const auto grammar = grammar_for_test(rules);
  ASSERT_TRUE(grammar);
  Matcher matcher(*grammar);
  EXPECT_EQ(matcher.bytes_to_end(), 94U);
  const auto tokens = matcher.tokens_to_end(/*most=*/200, /*max_steps=*/1000);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(text_of(*tokens), ":::\"" + std::string(90, 'x'));
}

TEST(EndSearch, GivesUpAfterSoManySteps) {
  const auto grammar = end_search_grammar_of(R"({"type": "string", "minLength": 2000})", {});
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept_bytes("\"ab"));
  const auto tokens = matcher.tokens_to_end(/*most=*/9999, /*max_steps=*/1000);
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, Errc::limit_exceeded);
  EXPECT_TRUE(matcher.accept_bytes("c"));
}

}  // namespace
}  // namespace tenon::grammar
