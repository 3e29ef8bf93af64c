#include "tenon/grammar/json/json_frames.h"

#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/base/sanitizers_for_test.h"
#include "tenon/grammar/json/shapes.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/value.h"

namespace tenon::grammar {
namespace {

using vocab::Token;
using vocab::TokenId;

std::shared_ptr<VocabIndex> json_frames_small_index() {
  static const auto kIndex = [] {
    std::vector<Token> tokens(256);
    for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
    for (const char* text :
         {"{\"",  "\":", "\",",    "\"}",  "},",    "]}",  "],",   ", \"", ": \"",        "abc",
          "ab",   "12",  "1.",     "null", "true}", "\\n", "\\\"", "é",    " ",           "  ",
          "\n  ", "a\"", "\\/b\"", "a\":", "-1",    "0,",  "[]",   "{}",   "\xC3\xA9\xC3"}) {
      tokens.push_back({text});
    }
    tokens.push_back({"<|end|>", Token::Kind::control});
    const TokenId end = static_cast<TokenId>(tokens.size()) - 1;
    return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {end}));
  }();
  return kIndex;
}

Expected<std::shared_ptr<Grammar>> json_frames_grammar_of(std::string_view schema_text,
                                                          const JsonOptions& options,
                                                          bool is_known = false) {
  const auto value = json::parse(schema_text);
  if (!value) return Unexpected(value.error());
  auto schema = schema::Schema::compile(*value, {.assert_format = true});
  if (!schema) return Unexpected(schema.error());
  auto machine = std::make_unique<Machine>();
  const auto root = add_json(*machine, *schema, options);
  if (!root) return Unexpected(root.error());
  if (is_known) {
    machine = std::make_unique<Machine>();
    const FrameId known = add_known_json(*machine, *schema, options);
    return Grammar::make(std::move(machine), known, json_frames_small_index());
  }
  return Grammar::make(std::move(machine), *root, json_frames_small_index());
}

struct JsonFramesRow {
  const char* name;
  const char* schema;
  std::vector<const char*> accepted;
  std::vector<const char*> refused;
};

const std::vector<JsonFramesRow>& json_frames_rows() {
  static const std::vector<JsonFramesRow> kRows = {
      {"Anything",
       "{}",
       {"null", "[1, {\"a\": [true]}]", "\"\\u001f\\n\"", "-1.5e-7"},
       {"", "nul", "01"}},
      {"Nullable", R"({"type": ["string", "null"]})", {"null", "\"\""}, {"1", "[]"}},
      {"Strings",
       R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"é\\n\"", "\"\\\"\\\"\\\"\"", "\"\\u0041b\"", "\"\\u00e9\\u00E9\"",
        "\"\\ud83d\\uDE00b\""},
       {"\"a\"", "\"abcd\"", "\"a\nb\"", "\"ab", "\"\\u0000a\"", "\"\\u0041\"",
        "\"\\ud83d\\ude00\"", "\"\\ud83db\"", "\"\\ude00b\""}},
      {"EscapesOfAPattern",
       R"({"type": "string", "pattern": "^[\\u{1F600}-\\u{1F610}é]{2}$"})",
       {R"("\ud83d\ude00\uD83D\uDE10")", R"("é\u00e9")"},
       {R"("\ud83d\ude00")", R"("\ud83d\ude11é")", R"("\u0041é")"}},
      {"EscapesOfAnEnum",
       R"({"enum": ["café", "x"]})",
       {R"("caf\u00e9")", R"("caf\u00E9")"},
       {R"("caf\u00ea")", R"("\u0078")"}},
      {"EscapesOfNames",
       R"({"type": "object", "properties": {"café": {"const": 1}, "zoë": {"const": 2}},
           "additionalProperties": false})",
       {R"({"caf\u00e9": 1, "zoë": 2})", R"({"zo\u00EB": 2, "café": 1})"},
       {R"({"caf\u00e9": 2})", R"({"caf\u00e9": 1, "café": 1})", R"({"caf\u00eb": 1})"}},
      {"Pattern", R"({"pattern": "^a+$"})", {"\"aaa\"", "1", "{}"}, {"\"ab\"", "\"\""}},
      {"PatternAnywhere", R"({"type": "string", "pattern": "b"})", {"\"abc\""}, {"\"ac\""}},
      {"Enum",
       R"({"enum": ["a", 1, null, {"x": [1]}]})",
       {"\"a\"", "1", "1.0", "null", "{\"x\": [1]}"},
       {"\"b\"", "2", "{}", "{\"x\": []}"}},
      {"EnumOfAFormat",
       R"({"format": "date-time", "enum": ["a", "", "2020-02-30T00:00:00Z", "2020-01-01T00:00:60Z",
           "2020-02-28T01:02:03Z", 1]})",
       {"\"2020-02-28T01:02:03Z\"", "1"},
       {"\"a\"", "\"\"", "\"2020-02-30T00:00:00Z\"", "\"2020-01-01T00:00:60Z\""}},
      {"EnumOfTimes",
       R"({"format": "time", "enum": ["1", "23:59:60Z", "12:00:60Z"]})",
       {"\"23:59:60Z\""},
       {"\"1\"", "\"12:00:60Z\""}},
      {"Object",
       R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
           "required": ["a"], "additionalProperties": false})",
       {"{\"a\": 1}", "{\"b\": \"\", \"a\": -3}", "{\"a\": 1, \"b\": \"x\"}"},
       {"{}", "{\"b\": \"\"}", "{\"a\": \"1\"}", "{\"a\": 1, \"c\": 2}", "{\"a\": 1, \"a\": 2}",
        "{\"a\": 1,}", "{\"a\":1}"}},
      {"OtherProperties",
       R"({"type": "object", "properties": {"ab": {"type": "integer"}},
           "patternProperties": {"^x": {"type": "boolean"}}, "additionalProperties": {"type": "null"}})",
       {"{}", "{\"ab\": 1, \"x\": true, \"abc\": null, \"a\": null}"},
       {"{\"ab\": null}", "{\"x\": 1}", "{\"y\": 1}"}},
      {"PropertyNames",
       R"({"type": "object", "propertyNames": {"pattern": "^a"}, "required": ["a"]})",
       {"{\"a\": 1, \"ab\": 2}"},
       {"{\"ab\": 2}", "{\"a\": 1, \"b\": 2}"}},
      {"CountsOfProperties",
       R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
       {"{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
       {"{}", "{\"a\": 1, \"b\": 2, \"c\": 3}"}},
      {"NoRoomBesideRequired",
       R"({"type": "object", "required": ["a"], "maxProperties": 1, "properties": {"a": {}, "b": {}}})",
       {"{\"a\": 1}"},
       {"{\"b\": 1}"}},
      {"Array",
       R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true, false]"},
       {"[]", "[1]", "[true, true, true]", "[true,]"}},
      {"PrefixItems",
       R"({"prefixItems": [{"type": "integer"}, {"const": "x"}], "items": false})",
       {"[]", "[1]", "[1, \"x\"]", "7"},
       {"[1, \"y\"]", "[1, \"x\", 2]"}},
      {"AllOf",
       R"({"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 5}}},
                              {"type": "object", "required": ["a"]}]})",
       {"{\"a\": 4}", "{\"a\": \"x\", \"b\": 1}"},
       {"{\"a\": 6}", "{}", "4"}},
      {"AnyOf",
       R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
       {"12", "\"a\""},
       {"\"ab\"", "null"}},
      {"OneOf",
       R"({"oneOf": [{"multipleOf": 3, "type": "integer"}, {"multipleOf": 5, "type": "integer"}]})",
       {"3", "10", "25"},
       {"15", "7", "0"}},
      {"OneOfObjects",
       R"({"oneOf": [{"properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k", "v"]},
                     {"properties": {"k": {"const": "b"}, "w": {"type": "string"}}, "required": ["k", "w"]}],
           "type": "object"})",
       {"{\"k\": \"a\", \"v\": 1}", "{\"w\": \"\", \"k\": \"b\"}",
        "{\"v\": 1, \"k\": \"a\", \"w\": 2}"},
       {"{\"k\": \"a\", \"w\": \"\"}", "{\"k\": \"c\", \"v\": 1}"}},
      {"OneOfObjectsByPatterns",
       R"({"type": "object", "oneOf": [
           {"type": "object", "properties": {"k": {"type": "string", "pattern": "^a\\.x$"}, "v": {"type": "integer"}}, "required": ["k"]},
           {"type": "object", "properties": {"k": {"type": "string", "pattern": "^(b|c)$"}, "v": {"type": "string"}}, "required": ["k"]}]})",
       {R"({"k": "a.x", "v": 1})", R"({"v": "", "k": "c"})"},
       {R"({"k": "a.x", "v": ""})", R"({"k": "b", "v": 1})", R"({"k": "aax"})", R"({"k": "b|c"})"}},
      {"OneOfByPatternsThatShareAWord",
       R"({"oneOf": [{"type": "string", "pattern": "^(?:a|b)$"}, {"type": "string", "pattern": "^b$"},
                     {"type": "string", "pattern": "^c|b$"}, {"type": ["string", "null"], "pattern": "^d$"}]})",
       {"\"a\"", "\"ce\"", "\"d\"", "null"},
       {"\"b\"", "\"e\""}},
      {"Not", R"({"not": {"type": ["string", "object"]}})", {"1", "[]"}, {"\"\"", "{}"}},
      {"NotEnum",
       R"({"type": "string", "not": {"enum": ["a", "ab"]}})",
       {"\"b\"", "\"abc\"", "\"\""},
       {"\"a\"", "\"ab\""}},
      {"NotRequired",
       R"({"type": "object", "not": {"required": ["a"]}})",
       {"{}", "{\"b\": 1}"},
       {"{\"a\": 1}", "{\"b\": 1, \"a\": 1}"}},
      {"IfThenElse",
       R"({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["a"]},
           "else": {"required": ["b"]}, "type": "object"})",
       {"{\"k\": 1, \"a\": 2}", "{\"k\": 2, \"b\": 2}", "{\"b\": 1}"},
       {"{\"k\": 1, \"b\": 2}", "{\"k\": 2, \"a\": 1}", "{}"}},
      {"Dependent",
       R"({"type": "object", "dependentRequired": {"a": ["b"]},
                        "dependentSchemas": {"c": {"maxProperties": 1}}})",
       {"{}", "{\"a\": 1, \"b\": 2}", "{\"b\": 1}", "{\"c\": 1}"},
       {"{\"a\": 1}", "{\"c\": 1, \"d\": 2}"}},
      {"Recursion",
       R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "required": ["v"],
          "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/t"}}, "additionalProperties": false}}})",
       {"{\"v\": 1}", "{\"v\": 1, \"next\": {\"next\": {\"v\": 3}, \"v\": 2}}"},
       {"{\"next\": {\"v\": 1}}", "{\"v\": 1, \"next\": 1}"}},
      {"ForbiddenByUnsatisfiable",
       R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}, "b": false}})",
       {"{}", "{\"c\": 1}"},
       {"{\"a\": \"\"}", "{\"b\": 1}"}},
      {"RequiredAreTooMany",
       R"({"anyOf": [{"type": "object", "required": ["a", "b"], "maxProperties": 1}, {"type": "null"}]})",
       {"null"},
       {"{", "{\"a\": 1, \"b\": 2}"}},
      {"NamesOfAList",
       R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 2})",
       {"{\"b\": 1, \"a\": 2}"},
       {"{\"a\": 1}", "{\"a\": 1, \"a\": 2}", "{\"c\""}},
      {"ANameTwiceIsOneProperty",
       R"({"type": "object", "minProperties": 2})",
       {"{\"a\": 1, \"b\": 2}"},
       {"{\"a\": 1, \"a\": 2}"}},
      {"Contains",
       R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3, "maxItems": 4})",
       {"[1, 1]", "[2, 1, 1.0]", "[1, 2, 1, 1]"},
       {"[1]", "[2, 2, 2", "[1, 1, 1, 1]", "[2, 1, 2, 2"}},
      {"ContainsAmongPrefixItems",
       R"({"prefixItems": [{"const": 1}, {"const": 2}], "contains": {"const": 2}, "items": false, "type": "array"})",
       {"[1, 2]"},
       {"[1]", "[]"}},
      {"NotAllItems",
       R"({"type": "array", "maxItems": 2, "not": {"items": {"type": "integer"}}})",
       {"[\"\"]", "[1, null]"},
       {"[]", "[1]", "[1, 1"}},
      {"NotContains",
       R"({"type": "array", "not": {"contains": {"type": "null"}}})",
       {"[]", "[1, 2]"},
       {"[null]", "[1, null]"}},
      {"NotPatternProperties",
       R"({"type": "object", "not": {"patternProperties": {"^x": {"type": "integer"}}}, "maxProperties": 1})",
       {"{\"xa\": null}"},
       {"{}", "{\"xa\": 1}", "{\"a\""}},
      {"NotAdditionalProperties",
       R"({"type": "object", "properties": {"a": {}}, "not": {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}})",
       {"{\"b\": null}", "{\"a\": 1, \"c\": 1, \"b\": \"\"}"},
       {"{}", "{\"a\": null}", "{\"b\": 1}"}},
      {"NotPropertyNames",
       R"({"type": "object", "not": {"propertyNames": {"maxLength": 1}}})",
       {"{\"ab\": 1}", "{\"a\": 1, \"bc\": 1}"},
       {"{}", "{\"a\": 1}"}},
      {"NotAValue",
       R"({"type": ["object", "array"], "not": {"enum": [{"a": 1}, [1], "x"]}})",
       {"{}", "{\"a\": 2}", "{\"a\": 1, \"b\": 1}", "[]", "[2]", "[1, 1]"},
       {"{\"a\": 1}", "[1]", "[1.0]"}},
      {"UniqueNumbers",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "number"}})",
       {"[]", "[1, 10, 100]", "[1, 1.5]"},
       {"[1, 1]", "[1, 2, 1.0]", "[10, 1e1]"}},
      {"UniqueStrings",
       R"({"type": "array", "uniqueItems": true})",
       {"[\"a\", \"ab\", 1, [1], {}]", "[[], [[]]]"},
       {"[\"a\", \"b\", \"\\u0061\"", "[{\"a\": 1, \"b\": 2}, {\"b\": 2, \"a\": 1}"}},
      {"ItemsThatDifferAreArraysOfTheSame",
       R"({"type": "array", "uniqueItems": true, "items": {"$ref": "#"}})",
       {"[]", "[[]]", "[[], [[]]]", "[[[]], []]"},
       {"[[], []]", "[[[]], [[]]]", "[1]"}},
      {"ItemsThatDifferAreArraysOfEachOther",
       R"({"type": "array", "items": {"type": "array", "uniqueItems": true, "items": {"$ref": "#"}}})",
       {"[]", "[[], []]", "[[[], [[]]]]"},
       {"[[[], []]]", "[1]"}},
      {"UniqueOfFew",
       R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", 1, true]}})",
       {"[true, \"a\", 1]", "[\"a\"]"},
       {"[1, 1.0]", "[1, \"a\", true,"}},
      {"UniqueAfterOthers",
       R"({"type": "array", "uniqueItems": true, "prefixItems": [{"type": "integer"}], "items": {"enum": [1, 2]}})",
       {"[3, 1, 2]", "[1, 2]"},
       {"[1, 1]", "[2, 1, 2]"}},
      {"Escapes",
       R"({"type": "object", "properties": {"a\"\n": {"type": "null"}}, "additionalProperties": false})",
       {"{\"a\\\"\\n\": null}"},
       {"{\"a\": null}"}},
      {"Date",
       R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\""},
       {"\"2023-02-29\"", "\"x\""}},
      {"NotAFormatThatNeedsACheck",
       R"({"type": "string", "not": {"format": "time"}})",
       {"\"12:00:60Z\"", "\"x\""},
       {"\"12:00:00Z\""}},
      {"NotAConstOfSuchAFormat",
       R"({"not": {"allOf": [{"const": "12:00:60Z"}, {"format": "time"}]}})",
       {"\"12:00:60Z\"", "1"},
       {}},
      {"NoneOfAListOfSuchAFormat",
       R"({"type": "string", "not": {"enum": ["12:00:00Z", "12:00:60Z"], "format": "time"}})",
       {"\"12:00:60Z\"", "\"x\""},
       {"\"12:00:00Z\""}},
      {"ExcludedTwiceIsExcludedOnce",
       R"({"type": "array", "uniqueItems": true,
           "items": {"type": "integer", "minimum": 0, "maximum": 2, "not": {"enum": [1, 1.0]}}})",
       {"[0, 2]"},
       {"[1]", "[0, 0]"}},
      {"TheLastOfEqualNamesCounts",
       R"({"type": "object", "not": {"additionalProperties": {"type": "integer"}}})",
       {"{\"x\": \"s\"}", "{\"x\": 1, \"y\": \"s\"}"},
       {"{\"x\": \"s\", \"x\": 1}"}},
  };
  return kRows;
}

// A taken number is not begun if more symbols lead out of the schema or to the same number, however
// many are taken and however it is written.
TEST(Json, ANumberThatIsTakenIsNoBeginningWhereNothingFollowsIt) {
  const struct {
    const char* name;
    const char* items;
    bool plain_integers;
    int first;         // of the numbers in front, of which `last` comes after the others
    const char* last;  // and then these:
    const char* refused;
    const char* accepted;
  } rows[] = {
      {"AtAMaximum", R"({"type": "integer", "maximum": 9})", true, -350, "7", "7", "8]"},
      {"AtAMinimum", R"({"type": "integer", "minimum": -9})", true, 50, "-7", "-7", "-8]"},
      {"BelowAnExclusiveMaximum", R"({"type": "integer", "exclusiveMaximum": 7.5})", true, -350,
       "7", "7", "6]"},
      {"OfOneSign", R"({"type": "integer", "minimum": 0})", true, 50, "7", "7]", "700]"},
      {"OfTheOtherSign", R"({"type": "integer", "maximum": -6})", true, -390, "-7", "-7]", "-700]"},
      {"Zero", R"({"type": "integer"})", true, 100, "0", "0", "7]"},
      {"MinusZero", R"({"type": "integer"})", true, 100, "0", "-0", "-7]"},
      {"IntegersWithAPoint", R"({"type": "integer"})", false, 100, "7", "7.", "700]"},
      {"IntegersBetweenBounds", R"({"type": "integer", "minimum": 0, "maximum": 449})", false, 100,
       "45", "45", "47]"},
      {"MultiplesOfThree", R"({"type": "integer", "multipleOf": 3, "minimum": 0})", false, 600, "6",
       "6.", "6003]"},
      {"Exponents", R"({"type": "number"})", true, 100, "7", "7e000", "7e001]"},
      {"AsAnExponent", R"({"type": "number"})", true, 100, "7", "1.37e002", "1.37e003]"},
      {"Fractions", R"({"type": "number", "multipleOf": 0.5})", false, 100, "7", "7.0", "7.5]"},
      {"TwoKinds", R"({"anyOf": [{"type": "integer", "minimum": 99}, {"const": 7}]})", false, 100,
       "7", "7.", "700]"},
      {"BesideStrings", R"({"type": ["integer", "string"]})", false, 100, "7", "7.", "\"7\"]"},
      {"OfAList", R"({"anyOf": [{"type": "integer", "minimum": 50}, {"enum": [7, 7.5, "7"]}]})",
       false, 100, "7", "7.0", "7.5]"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto grammar = json_frames_grammar_of(
        R"({"type": "array", "uniqueItems": true, "items": )" + std::string(row.items) + "}",
        {.plain_integers = row.plain_integers});
    ASSERT_TRUE(grammar);
    const auto schema = schema::Schema::compile(*json::parse(row.items));
    for (const int count : {40, 300}) {
      std::string text = "[";
      for (int i = row.first; i < row.first + count; ++i) {
        const auto valid = (*schema)->is_valid(json::Value(i));
        if (valid && *valid) text += std::to_string(i) + ", ";
      }
      Matcher matcher(*grammar);
      ASSERT_TRUE(matcher.accept_bytes(text + row.last + ", "));
      EXPECT_FALSE(matcher.accept_bytes(row.refused));
      EXPECT_TRUE(matcher.accept_bytes(row.accepted));
    }
  }
}

TEST(Json, AcceptsWhatTheSchemaSays) {
  for (const JsonFramesRow& row : json_frames_rows()) {
    for (const bool is_known : {false, true}) {
      const auto grammar = json_frames_grammar_of(row.schema, {}, is_known);
      ASSERT_TRUE(grammar) << row.name << ": " << grammar.error().message;
      const auto is_accepted = [&](std::string_view text) {
        Matcher matcher(*grammar);
        return matcher.accept_bytes(text) && matcher.is_accepting();
      };
      for (const char* text : row.accepted)
        EXPECT_TRUE(is_accepted(text)) << row.name << ": " << text;
      for (const char* text : row.refused)
        EXPECT_FALSE(is_accepted(text)) << row.name << ": " << text;
    }
  }
}

TEST(Json, WhitespaceHasAMaximumUnlessBoundsAreLifted) {
  for (const bool is_bounded : {true, false}) {
    const auto grammar =
        json_frames_grammar_of(R"({"type": "array"})", {.whitespace = JsonOptions::Whitespace::any,
                                                        .max_whitespace = 3,
                                                        .is_bounded = is_bounded});
    ASSERT_TRUE(grammar);
    EXPECT_TRUE(Matcher(*grammar).accept_bytes("[   1 ,  2]"));
    EXPECT_EQ(Matcher(*grammar).accept_bytes("[" + std::string(500, '\n') + "1]"), !is_bounded);
  }
}

// The mask has exactly what can be accepted, it is never empty, and what it leads to is valid.
TEST(Json, MasksLeadToInstances) {
  const auto index = json_frames_small_index();
  for (const JsonFramesRow& row : json_frames_rows()) {
    const auto grammar =
        json_frames_grammar_of(row.schema, {.whitespace = JsonOptions::Whitespace::any});
    ASSERT_TRUE(grammar) << row.name << ": " << grammar.error().message;
    const auto schema = schema::Schema::compile(*json::parse(row.schema), {.assert_format = true});
    std::mt19937 random(11 + proof_seed());
    for (int walk = 0; walk < (is_long_test() ? 12 : 3); ++walk) {
      Matcher matcher(*grammar);
      std::string text;
      std::vector<std::uint32_t> mask(mask_words(index->vocab().size()));
      for (int step = 0; step < 60 && !matcher.is_finished(); ++step) {
        ASSERT_TRUE(matcher.fill_mask(mask)) << row.name;
        std::vector<TokenId> allowed;
        for (TokenId id = 0; std::cmp_less(id, index->vocab().size()); ++id) {
          const auto bit = static_cast<std::uint32_t>(id);
          const bool in_mask = (mask[bit / 32] >> bit % 32 & 1U) != 0;
          Matcher fork = matcher;
          ASSERT_EQ(fork.accept(id), in_mask)
              << row.name << " after " << text << ": " << index->vocab().bytes(id);
          if (in_mask) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << row.name << " after " << text;
        const TokenId token = allowed[random() % allowed.size()];
        ASSERT_TRUE(matcher.accept(token));
        if (!matcher.is_finished()) text += index->vocab().bytes(token);
      }
      if (!matcher.is_finished()) continue;
      const auto instance = json::parse(text);
      ASSERT_TRUE(instance) << row.name << ": " << text;
      const auto valid = (*schema)->is_valid(*instance);
      EXPECT_TRUE(valid && *valid) << row.name << ": " << text;
    }
  }
}

TEST(Json, MasksAreExactAlongEveryText) {
  const vocab::Vocab& vocab = json_frames_small_index()->vocab();
  std::vector<std::uint32_t> mask(mask_words(vocab.size()));
  for (const JsonFramesRow& row : json_frames_rows()) {
    const auto grammar = json_frames_grammar_of(row.schema, {});
    ASSERT_TRUE(grammar) << row.name << ": " << grammar.error().message;
    for (const std::string_view text : row.accepted) {
      Matcher matcher(*grammar);
      for (std::size_t at = 0;; ++at) {
        ASSERT_TRUE(matcher.fill_mask(mask));
        for (TokenId id = 0; std::cmp_less(id, vocab.size()); ++id) {
          const auto bit = static_cast<std::uint32_t>(id);
          Matcher fork = matcher;
          ASSERT_EQ(fork.accept(id), (mask[bit / 32] >> bit % 32 & 1U) != 0)
              << row.name << " after " << text.substr(0, at) << ": " << vocab.bytes(id);
        }
        if (at == text.size()) break;
        ASSERT_TRUE(matcher.accept_bytes(text.substr(at, 1)));
      }
    }
  }
}

TEST(Json, UnsatisfiableSchemasAreRefused) {
  for (
      const char* schema :
      {"false",
       R"({"type": "string", "enum": [1]})",
       R"({"allOf": [{"type": "string"}, {"type": "null"}]})",
       R"({"type": "object", "required": ["a"], "properties": {"a": false}})",
       R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "required": ["t"], "properties": {"t": {"$ref": "#/$defs/t"}}}}})",
       R"({"type": "array", "minItems": 2, "prefixItems": [{}, false]})",
       R"({"minimum": 3, "maximum": 2, "type": "number"})",
       R"({"type": "object", "minProperties": 3, "maxProperties": 2})",
       R"({"type": "object", "required": ["a", "b"], "maxProperties": 1})",
       R"({"type": "array", "maxItems": 1, "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]})",
       R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 3})",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}, "minItems": 3})",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 4})",
       R"({"type": "array", "contains": {"const": 1}, "items": {"const": 2}})",
       R"({"type": "array", "contains": {"const": 1}, "minContains": 3, "maxItems": 2})",
       R"({"type": "array", "contains": {"type": "integer"}, "minContains": 3, "maxContains": 1})",
       R"({"type": "array", "uniqueItems": true, "items": {"enum": [1, 1.0]}, "minItems": 2})",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "pattern": "^[ab]$"}, "minItems": 3})",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "array", "items": {"const": 1}, "maxItems": 1}, "minItems": 3})",
       R"({"type": "array", "uniqueItems": true, "minItems": 2, "items":
           {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false}})",
       R"({"type": "array", "uniqueItems": true, "minItems": 2, "prefixItems": [{"const": 1}, {"enum": [1, 1.0]}]})",
       R"({"type": "array", "uniqueItems": true, "contains": {"enum": [1, 2]}, "minContains": 3})",
       R"({"type": "object", "patternProperties": {"^[ab]$": {}}, "additionalProperties": false, "minProperties": 3})",
       R"({"type": "integer", "minimum": 1, "maximum": 2, "not": {"enum": [1, 2]}})",
       R"({"type": "integer", "not": {"multipleOf": 1}})",
       R"({"type": "integer", "minimum": 1.2, "maximum": 1.8})",
       R"({"not": {}})"}) {
    const auto grammar = json_frames_grammar_of(schema, {});
    ASSERT_FALSE(grammar) << schema;
    EXPECT_EQ(grammar.error().code, Errc::unsatisfiable) << schema;
  }
}

struct PrefixesRow {
  const char* name;
  const char* schema;
  std::vector<const char*> legal;
  std::vector<const char*> refused;
};

void judge(const std::vector<PrefixesRow>& rows) {
  for (const PrefixesRow& row : rows) {
    SCOPED_TRACE(row.name);
    const auto grammar =
        json_frames_grammar_of(row.schema, {.whitespace = JsonOptions::Whitespace::spaced});
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const char* text : row.legal) EXPECT_TRUE(Matcher(*grammar).accept_bytes(text)) << text;
    for (const char* text : row.refused) EXPECT_FALSE(Matcher(*grammar).accept_bytes(text)) << text;
  }
}

// A value is not begun if it can only become one from which an item must differ.
TEST(Json, ItemsThatMustDifferBeginOnlyWhatIsLeft) {
  judge({
      {"OfAPattern",
       R"({"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type": "string", "pattern": "^[ab]{2}$"}})",
       {R"(["aa", "ba", "ab)", R"(["aa", "ab", "b)", R"(["aa", "ab", "ba", "bb"])"},
       {R"(["aa", "ab", "a)", R"(["aa", "ab", "ba", "bb",)"}},
      {"OneBeginsAnother",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "pattern": "^(a|ab)$"}})",
       {R"(["a", "ab"])", R"(["ab", "a")"},
       {R"(["a", "a")", R"(["ab", "ab)", R"(["ab", "a", )"}},
      {"OfALength",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 1}})",
       {R"(["", "a", "b"])"},
       {R"(["a", "a)"}},
      {"Integers",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "integer"}})",
       {"[0, 10, 1]", "[1, 10, 100"},
       {"[0, 0", "[0, -0", "[1, 1.0"}},
      {"Words",
       R"({"type": "array", "uniqueItems": true, "items": {"type": ["null", "string"]}})",
       {R"([null, "null"])"},
       {"[null, n"}},
      {"Objects",
       R"({"type": "array", "uniqueItems": true, "items":
           {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": false}})",
       {R"([{"a": true}, {}, {"a": false}])", R"([{}, {"a)"},
       {R"([{}, {})", R"([{"a": true}, {"a": t)", R"([{"a": true}, {"a": false}, {"a)",
        R"([{"a": true}, {}, {"a": false}, )"}},
      {"ObjectsOfTwoMembers",
       R"({"type": "array", "uniqueItems": true, "items":
           {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
            "required": ["a", "b"], "additionalProperties": false}})",
       {R"([{"a": "x", "b": true}, {"a": "x", "b": f)"},
       {R"([{"a": "x", "b": true}, {"a": "x", "b": t)",
        R"([{"a": "x", "b": true}, {"a": "x", "b": false}, {"a": "x")"}},
      {"ObjectsOfTwoKinds",
       R"({"type": "array", "uniqueItems": true, "items": {"anyOf": [
           {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false},
           {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"], "additionalProperties": false}]}})",
       {R"([{"a": true}, {"b": 1}, {"a": false}])", R"([{"b": 1}, {"a": true}, {"a": f)"},
       {R"([{"a": true}, {"b": 1}, {"b)", R"([{"b": 1}, {"a": true}, {"a": t)",
        R"([{"b": 1}, {"a": true}, {"a": false}, )"}},
      {"ObjectsAndOtherValues",
       R"({"type": "array", "uniqueItems": true, "items": {"anyOf": [{"enum": [1, "x"]}, {"type": "object",
           "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}]}})",
       {R"([{"a": true}, 1, {"a": false}, "x"])", R"(["x", {"a": true}, 1, {"a": f)"},
       {R"([{"a": true}, "x", {"a": false}, "x)", R"([{"a": true}, "x", {"a": t)",
        R"([1, {"a": true}, "x", {"a": false}, )"}},
      {"ObjectsThatLaterItemsNeed",
       R"({"type": "array", "uniqueItems": true, "minItems": 2, "prefixItems": [
           {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false},
           {"const": {"a": true}}]})",
       {R"([{"a": false}, {"a": true}])"},
       {R"([{"a": t)"}},
      {"ObjectsWithOtherNames",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "object", "properties": {"a": {"type": "boolean"}},
           "additionalProperties": {"const": 1}, "maxProperties": 1}})",
       {R"([{"a": true}, {"x": 1}, {}, {"a": false}, {"y": 1}])"},
       {R"([{"x": 1}, {"x": 1)", R"([{"a": true}, {"a": t)", R"([{}, {})",
        R"([{"a": true}, {"a": false}, {"a")"}},
      {"Arrays",
       R"({"type": "array", "uniqueItems": true, "items":
           {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}})",
       {"[[], [1], [1, 1], [2]]"},
       {"[[1], [1]", "[[1], [1, 1], [1, 2], [1", "[[], []"}},
      {"WhatOthersNeedIsLeft",
       R"({"type": "array", "uniqueItems": true, "minItems": 2, "prefixItems": [{"enum": [1, 2]}, {"const": 1}]})",
       {"[2, 1"},
       {"[1"}},
      {"OfAPatternAndALength",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 20}})",
       {R"(["a", "a)", R"(["aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaa")"},
       {R"(["a", "a")", R"(["aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaa)",
        R"(["aaaaaaaaaaaaaaaaaaaa", "b", "aaaaaaaaaaaaaaaaaaaa)"}},
      {"ATextThatAnotherItemNeeds",
       R"({"type": "array", "uniqueItems": true, "minItems": 2,
           "prefixItems": [{"type": "string", "maxLength": 20}, {"enum": ["a", "b"]}], "items": {"const": "a"}})",
       {R"(["a", "b)", R"(["b", "a")"},
       {R"(["a", "a)", R"(["b", "b)"}},
      {"ContainsWhatAllAre",
       R"({"type": "array", "uniqueItems": true, "contains": {}, "maxItems": 3})",
       {"[3, 4, 5]"},
       {"[]", "[3, 3,", "[3, 4, 3]", "[3, 4, 5,"}},
      {"ContainsTwoOfMany",
       R"({"type": "array", "uniqueItems": true, "items": {"enum": [1, 2, 3, "a"]},
           "contains": {"type": "integer"}, "minContains": 2})",
       {R"([1, "a", 2, 3])", R"([1, 2, 3, "a"])"},
       {R"([1, "a"])", "[1]"}},
      {"NamesOfPatternsThatOverlap",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "object", "additionalProperties": false,
           "patternProperties": {"^k": {"enum": ["a", "b"]}, "n$": {"enum": ["b", "c"]}}}})",
       {R"([{"kn": "b", "k1": "a"}, {"kn": "b"}, {}])", R"([{}, {"xn": "c"}])"},
       {R"([{"kn": "a)", R"([{"kn": "b"}, {"kn": "b"},)", R"([{}, {},)"}},
      {"NamesThatCountOnce",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "object", "additionalProperties": false,
           "patternProperties": {"^[ab]$": {"const": 1}, "b": {}}, "minProperties": 1, "maxProperties": 1}})",
       {R"([{"a": 1}, {"b": 1}, {"bb": 1}, {"xb")"},
       {R"([{"a": 1}, {"a")", R"([{"a": 1}, {"b": 1}, {"b": 1)"}},
      {"FewNamesAndARoomForTwo",
       R"({"type": "array", "uniqueItems": true, "items": {"type": "object", "additionalProperties": false,
           "patternProperties": {"^[ab]$": {"const": 1}}, "minProperties": 1, "maxProperties": 2}})",
       {R"([{"a": 1}, {"b": 1}, {"a": 1, "b": 1}])"},
       {R"([{"a": 1}, {"b": 1}, {"a": 1, "b": 1},)", R"([{"a": 1}, {"a": 1, "b": 1}, {"a)"}},
      {"NoObjectIsLeftBehindAnotherItem",
       R"({"type": "array", "uniqueItems": true, "prefixItems": [{"const": 1}], "items": {"type": "object",
           "properties": {"b": {"enum": [0, 1]}}, "additionalProperties": false, "minProperties": 1}})",
       {R"([1, {"b": 0}, {"b": 1}])"},
       {R"([1, {"b": 0}, {"b": 1},)"}},
      {"ExcludedAltogether",
       R"({"type": "array", "items": {"enum": [[1], [2]]}, "not": {"const": [[1], [2]]}, "maxItems": 2})",
       {"[[1], [1]]", "[[2], [2]]", "[[1]]"},
       {"[[1], [2"}},
  });
}

// A value is begun only if it can fit a branch of each union, however many combinations there are.
TEST(Json, ProductsOfUnionsBeginOnlyWhatIsLeft) {
  judge({
      {"Multiples",  // -204 is the only one
       R"({"type": "number", "allOf": [
           {"anyOf": [{"multipleOf": 33}, {"multipleOf": 12}, {"multipleOf": 4}, {"multipleOf": 16}, {"multipleOf": 77}]},
           {"anyOf": [{"allOf": [{"not": {"multipleOf": 6}}, {"not": {"multipleOf": 7}}]},
                      {"multipleOf": 25}, {"multipleOf": 42}, {"multipleOf": 51}]},
           {"anyOf": [{"allOf": [{"not": {"multipleOf": 3}}, {"not": {"multipleOf": 2}}]},
                      {"multipleOf": 101}, {"multipleOf": 102}, {"multipleOf": 103}]},
           {"exclusiveMinimum": -300}, {"exclusiveMaximum": 0}]})",
       {"-204", "-204.0"},
       {"1", "-1", "-21", "-203"}},
      {"RequiredNames",
       R"({"type": "object", "properties": {"a": {"const": 1}}, "maxProperties": 4, "allOf": [
           {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]},
           {"anyOf": [{"required": ["d"]}, {"required": ["e"]}, {"required": ["f"]}]},
           {"anyOf": [{"required": ["g"]}, {"required": ["h"]}, {"required": ["i"]}]},
           {"anyOf": [{"required": ["j"]}, {"required": ["k"]}, {"required": ["l"]}]}]})",
       {R"({"a": 1, "f": 2, "i": 3, "k": 4})", R"({"l": 0, "h": 0, "e": 0, "b)"},
       {"{}", R"({"a": 1})", R"({"a": 1, "b)", R"({"l": 0, "h": 0, "e": 0, "i)"}},
      {"OneItemForTwo",
       R"({"type": "array", "maxItems": 2, "allOf": [{"contains": {"const": 1}}, {"contains": {"enum": [2, 3]}}]})",
       {"[1, 3]", "[2, 1]"},
       {"[]", "[4", "[1]", "[1, 1", "[3, 2"}},
      {"NamesThatDependOnEachOther",
       R"({"type": "object", "additionalProperties": false, "properties": {"a": {}, "b": {}, "c": {}},
           "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
           "dependencies": {"a": {"not": {"required": ["b"]}}, "c": ["a"]}})",
       {R"({"a": 1, "c": 2})", R"({"c": 1, "a": 2})", R"({"b": 1})"},
       {"{}", R"({"a": 1, "b)", R"({"b": 1, "c)", R"({"c": 1})", R"({"c": 1, "b)"}},
      {"ValuesThatDependOnNames",
       R"({"type": "object", "additionalProperties": false,
           "properties": {"type": {"enum": ["number", "text", "none"]}, "least": {"type": "integer"}, "size": {}},
           "dependencies": {"least": {"properties": {"type": {"const": "number"}}},
                            "size": {"properties": {"type": {"enum": ["text", "none"]}}}}})",
       {R"({"type": "number", "least": 1})", R"({"size": 1, "type": "none"})",
        R"({"type": "text"})", R"({"least": 1, "size": 2})"},
       {R"({"type": "text", "l)", R"({"least": 1, "type": "t)", R"({"type": "number", "s)",
        R"({"least": 1, "size": 2, "t)"}},
      {"BranchesWithNamesOfTheirOwn",
       R"({"type": "object", "oneOf": [
           {"properties": {"kind": {"const": "circle"}, "r": {"type": "integer"}}, "required": ["kind", "r"]},
           {"properties": {"kind": {"const": "square"}, "side": {"type": "integer"}}, "required": ["kind", "side"]}]})",
       {R"({"kind": "circle", "side": "x", "r": 1})", R"({"r": "x", "kind": "square", "side": 2})"},
       {R"({"r": "x", "kind": "c)", R"({"kind": "circle", "side": "x"})",
        R"({"side": "x", "r": "x)"}},
      {"ItemsThatAreThere",
       R"({"type": "array", "maxItems": 2, "items": {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, "allOf": [
           {"anyOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}, {"contains": {"const": 3}}, {"maxItems": 0}]},
           {"anyOf": [{"contains": {"const": 4}}, {"contains": {"const": 5}}, {"contains": {"const": 6}}, {"maxItems": 0}]},
           {"anyOf": [{"contains": {"const": 1}}, {"contains": {"const": 5}}, {"contains": {"const": 8}}, {"maxItems": 0}]},
           {"anyOf": [{"maxItems": 1}, {"prefixItems": [{"const": 4}]}, {"prefixItems": [{"const": 5}]}, {"minItems": 1}]}]})",
       {"[]", "[1, 4]", "[1, 6]", "[5, 3]", "[2, 5"},
       {"[9", "[7", "[1, 1", "[4, 2", "[1]"}},
  });
}

// Each item excludes one more text from a list: that is not compared text by text.
TEST(Json, UnionsHaveNoShapeThatAnotherCovers) {
  struct Row {
    const char* name;
    const char* schema;
    std::size_t numbers;
    std::size_t objects;
  };
  const Row rows[] = {
      {"StepsOfSteps",
       R"({"type": "number", "not": {"allOf": [{"multipleOf": 0.01, "maximum": 5},
           {"multipleOf": 0.5, "maximum": 7}, {"multipleOf": 2, "maximum": 9}]}})",
       2, 0},
      {"OneOf",
       R"({"oneOf": [{"type": "number", "multipleOf": 0.01, "maximum": 15},
           {"type": "number", "multipleOf": 0.02, "maximum": 7}, {"pattern": "a"}]})",
       2, 1},
      {"Objects",
       R"({"type": "object", "anyOf": [{"required": ["a", "b"]}, {"required": ["b"]},
           {"required": ["b", "c"]}, {"required": ["a"], "minProperties": 3}]})",
       0, 2},
  };
  for (const Row& row : rows) {
    const auto schema = schema::Schema::compile(*json::parse(row.schema), {});
    ASSERT_TRUE(schema) << row.name;
    Shapes shapes(*schema, {.max_steps = 1'000'000, .max_bytes = 1U << 20U}, {});
    const Term term = shapes.terms().node((*schema)->root());
    EXPECT_EQ(shapes.numbers.of(term).size(), row.numbers) << row.name;
    EXPECT_EQ(shapes.objects.of(term).size(), row.objects) << row.name;
  }
}

// Each branch is left with a few shapes, however many others must fail.
TEST(Json, BranchesOfPatternsDoNotMultiply) {
  for (const int count : {6, 8, 11}) {
    std::string branches;
    for (int i = 0; i < count; ++i) {
      branches += (i == 0 ? "" : ",") + std::string(R"({"type": "object", "minProperties": )") +
                  std::to_string(2 + i % 4) + R"(, "patternProperties": {"^in_)" +
                  (i % 3 == 0 ? "" : std::to_string(i)) +
                  R"(": {"type": "integer"}, "_id$": {"type": "integer"}}})";
    }
    const auto schema =
        schema::Schema::compile(*json::parse(R"({"oneOf": [)" + branches + "]}"), {});
    ASSERT_TRUE(schema);
    Shapes shapes(*schema, {.max_steps = 4'000'000, .max_bytes = 8U << 20U}, {});
    const auto& found = shapes.objects.of(shapes.terms().node((*schema)->root()));
    EXPECT_FALSE(found.empty());
    EXPECT_LE(found.size(), static_cast<std::size_t>(6 * count)) << count;
  }
}

TEST(Json, ManyItemsOfAListMayDiffer) {
  std::string schema = R"({"type": "array", "uniqueItems": true, "items": {"enum": [)";
  std::string text = "[";
  for (int i = 0; i < 300; ++i) {
    const std::string word = "\"v" + std::to_string(i) + "\"";
    schema += (i > 0 ? ", " : "") + word;
    if (i < 200) text += (i > 0 ? ", " : "") + word;
  }
  const auto grammar = json_frames_grammar_of(schema + "]}}", {});
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  EXPECT_TRUE(matcher.accept_bytes(text)) << (matcher.error() ? matcher.error()->message : "");
  EXPECT_FALSE(matcher.accept_bytes(", \"v199"));
  EXPECT_TRUE(matcher.accept_bytes(", \"v200\"]"));
}

// With several patterns and a bound, trying values one by one took 50 ms for each of these places.
TEST(Json, ItemsOfManyNamesAreNotTriedOneByOne) {
  constexpr int kGrammars = 20;
  const std::clock_t begun = std::clock();
  for (int i = 0; i < kGrammars; ++i) {
    const std::string schema = R"({"type": "array", "uniqueItems": true, "items": {"type": "object",
        "patternProperties": {"\\d": {"type": "boolean"}, "[A-Z]": {"type": "boolean"}},
        "maxProperties": )" + std::to_string(3 + i) +
                               "}}";
    const auto grammar = json_frames_grammar_of(schema, {});
    ASSERT_TRUE(grammar) << grammar.error().message;
    EXPECT_TRUE(Matcher(*grammar).accept_bytes(R"([{"A1": true}, {"A1": false}, {"x)"));
    EXPECT_FALSE(Matcher(*grammar).accept_bytes(R"([{"A1": true}, {"A1": true}})"));
  }
  EXPECT_LT(std::clock() - begun, with_sanitizers(1) * CLOCKS_PER_SEC);
}

// A name or an item that no rule for the value evaluates is not begun.
TEST(Json, OnlyWhatIsEvaluatedIsBegun) {
  struct Prefixes {
    const char* name;
    const char* schema;
    std::vector<const char*> legal;
    std::vector<const char*> refused;
  };
  const Prefixes rows[] = {
      {"Properties",
       R"({"type": "object", "properties": {"up": {"type": "integer"}}, "unevaluatedProperties": false})",
       {R"({"up": 1})", "{}"},
       {R"({"d)", R"({"up": 1,)"}},
      {"OfAType",
       R"({"type": "object", "unevaluatedProperties": {"type": "integer"}})",
       {R"({"n": 7})"},
       {R"({"n": ")"}},
      {"AllOf",
       R"({"type": "object", "allOf": [{"properties": {"a": {}}}, {"patternProperties": {"^b": {}}}],
           "unevaluatedProperties": false})",
       {R"({"a": 1, "bc": 2})"},
       {R"({"c)", R"({"ab)"}},
      {"Reference",
       R"({"$ref": "#/$defs/base", "properties": {"b": {}}, "unevaluatedProperties": false,
           "$defs": {"base": {"type": "object", "properties": {"a": {}}}}})",
       {R"({"a": 1, "b": 2})"},
       {R"({"c)"}},
      {"OneOfByAConst",
       R"({"type": "object", "properties": {"k": {"enum": ["x", "y"]}}, "required": ["k"],
           "oneOf": [{"properties": {"k": {"const": "x"}, "a": {}}},
                     {"properties": {"k": {"const": "y"}, "b": {}}}], "unevaluatedProperties": false})",
       {R"({"k": "x", "a": 1})", R"({"b": 1, "k": "y"})"},
       {R"({"k": "y", "a)", R"({"b": 1, "k": "x)", R"({"a": 1, "b)", R"({"c)"}},
      {"AnyOfThatBothHold",
       R"({"type": "object", "anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]},
           {"properties": {"b": {"type": "null"}}, "required": ["b"]}], "unevaluatedProperties": false})",
       {R"({"a": null, "b": null})", R"({"b": null})", R"({"b": null, "a": null})"},
       {R"({"c)", R"({"a": 1)", R"({"a": null, "b": 1)", "{}"}},
      {"AnyOfMany",
       R"({"type": "object", "unevaluatedProperties": false, "anyOf": [{"properties": {"a": {"const": 1}}},
           {"properties": {"b": {"const": 1}}}, {"properties": {"c": {"const": 1}}},
           {"properties": {"d": {"const": 1}}}, {"properties": {"e": {"const": 1}}},
           {"properties": {"f": {"const": 1}}}]})",
       {R"({"a": 1, "c": 1, "f": 1})"},
       {R"({"g)"}},
      {"Condition",
       R"({"type": "object", "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
           "then": {"properties": {"a": {}}}, "else": {"properties": {"b": {}}},
           "unevaluatedProperties": false})",
       {R"({"k": 1, "a": 2})", R"({"a": 2, "k": 1})", R"({"b": 2})", "{}"},
       {R"({"k": 2)", R"({"b": 2, "a)", R"({"c)", R"({"a": 2})"}},
      {"ConditionAlone",
       R"({"type": "object", "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
           "unevaluatedProperties": false})",
       {R"({"a": 1})", "{}"},
       {R"({"a": 2)", R"({"b)"}},
      {"Dependents",
       R"({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false,
           "dependentSchemas": {"a": {"properties": {"b": {}}}}})",
       {R"({"a": 1, "b": 2})", R"({"b": 2, "a": 1})"},
       {R"({"b": 2})", R"({"c)"}},
      {"NotEvaluatesNothing",
       R"({"type": "object", "not": {"not": {"properties": {"a": {}}}}, "unevaluatedProperties": false})",
       {"{}"},
       {R"({")"}},
      {"Within",
       R"({"type": "object", "properties": {"a": {"type": "object", "anyOf": [{"properties": {"b": {}}}],
           "unevaluatedProperties": false}}, "unevaluatedProperties": false})",
       {R"({"a": {"b": 1}})"},
       {R"({"a": {"a)", R"({"b)"}},
      {"Items",
       R"({"type": "array", "prefixItems": [{}], "allOf": [{"prefixItems": [{}, {"type": "null"}]}],
           "unevaluatedItems": false})",
       {"[1, null]", "[]"},
       {"[1, null,", "[1, 2"}},
      {"ItemsThatAreContained",
       R"({"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}})",
       {R"([null, "a", null])"},
       {"[1", "[null]"}},
      {"NoItems", R"({"type": "array", "unevaluatedItems": false})", {"[]"}, {"[1"}},
  };
  for (const Prefixes& row : rows) {
    SCOPED_TRACE(row.name);
    const auto grammar = json_frames_grammar_of(row.schema, {});
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const char* text : row.legal) EXPECT_TRUE(Matcher(*grammar).accept_bytes(text)) << text;
    for (const char* text : row.refused) EXPECT_FALSE(Matcher(*grammar).accept_bytes(text)) << text;
  }
}

TEST(Json, NoNameComesTwiceWhereTheyAreCounted) {
  const char* const schema =
      R"({"type": "object", "minProperties": 2, "properties": {"a": {}}, "patternProperties":
      {"^x": {"type": ["object", "string"]}, "^[yz]$": {}}, "propertyNames": {"maxLength": 2}})";
  const auto grammar = json_frames_grammar_of(schema, {.whitespace = JsonOptions::Whitespace::any});
  ASSERT_TRUE(grammar) << grammar.error().message;
  for (const char* text : {R"({"a": 1, "b": 2, "c": 3})",
                           R"({"x1": {"b": [":", {}]}, "b": 1 , "x2": "]:\\\"", "x3": ""})",
                           R"({"b": 1, "a": 2, "bb": 2})", R"({"y": 1, "z": 2, "x": "y"})"}) {
    Matcher matcher(*grammar);
    EXPECT_TRUE(matcher.accept_bytes(text) && matcher.is_accepting()) << text;
  }
  for (const char* text :
       {R"({"a": 1, "a")", R"({"b": 1, "b")", R"({"b": 1, "a": 2, "b")", R"({"b": 1, "\u0062")",
        R"({"x1": {"b": [":", {}]} , "x1)", R"({"x2": "]:\\\"", "c": 1, "x2)", R"({"y": 1, "y")"}) {
    EXPECT_FALSE(Matcher(*grammar).accept_bytes(text)) << text;
  }
}

TEST(Json, UnsatisfiableNamesThePlace) {
  struct Unsatisfiable {
    const char* schema;
    const char* place;  // "": the whole
  };
  const Unsatisfiable rows[] = {
      {"false", ""},
      {R"({"allOf": [{"type": "string"}, {"type": "null"}]})", ""},
      {R"({"type": "object", "required": ["b", "a"], "properties":
           {"a": {"type": "integer", "minimum": 3, "maximum": 2}, "b": {}, "c": false}})",
       "/properties/a"},
      {R"({"type": "object", "required": ["a"], "additionalProperties": false})",
       "/additionalProperties"},
      {R"({"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "minItems": 2,
           "prefixItems": [{}], "items": {"enum": []}}}})",
       "/$defs/x/items"},
      {R"({"type": "array", "minItems": 1, "prefixItems": [false, false]})", "/prefixItems/0"},
      {R"({"anyOf": [{"allOf": [true, false]}]})", "/anyOf/0/allOf/1"},
      {R"({"anyOf": [false, {"not": {}}]})", ""},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "/properties/a"},
      {R"({"type": ["object", "string"], "minLength": 2, "maxLength": 1, "properties":
           {"a": false}, "required": ["a"]})",
       ""},
  };
  for (const Unsatisfiable& row : rows) {
    const auto grammar = json_frames_grammar_of(row.schema, {});
    ASSERT_FALSE(grammar) << row.schema;
    const std::string place = row.place;
    EXPECT_EQ(grammar.error().message,
              "no value fits the schema" + (place.empty() ? "" : ", since none fits " + place))
        << row.schema;
  }
}

TEST(Json, DeclaredOrder) {
  const JsonOptions ordered{.property_order = JsonOptions::PropertyOrder::schema};
  const auto grammar = json_frames_grammar_of(
      R"({"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}, "required": ["b", "a"],
          "additionalProperties": false})",
      ordered);
  ASSERT_TRUE(grammar);
  Matcher matcher(*grammar);
  EXPECT_EQ(matcher.forced_bytes(100), "{\"b\": 1");  // 1.0 is 1 too
  EXPECT_FALSE(matcher.accept_bytes("{\"a\""));
  EXPECT_TRUE(matcher.accept_bytes("{\"b\": 1, \"a\": 2}"));
}

bool json_frames_is_accepted(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.is_accepting();
}

// The output of json.dumps(value, indent=2).
TEST(Json, Pretty) {
  const auto grammar =
      json_frames_grammar_of("{}", {.whitespace = JsonOptions::Whitespace::pretty});
  ASSERT_TRUE(grammar) << grammar.error().message;
  const char* const accepted[] = {
      "[]",
      "{}",
      "[\n  1,\n  []\n]",
      "{\n  \"a\": {\n    \"b\": [\n      true\n    ],\n    \"c\": {}\n  },\n  \"d\": 1\n}",
  };
  const char* const refused[] = {
      "[ ]",
      "[\n]",
      "{\n}",
      "[1]",
      "[\n  1 ,\n  2\n]",
      "[\n 1\n]",
      "[\n  1\n ]",
      "{\n  \"a\":1\n}",
      "[\n  [\n  1\n  ]\n]",
  };
  for (const char* text : accepted) EXPECT_TRUE(json_frames_is_accepted(*grammar, text)) << text;
  for (const char* text : refused) EXPECT_FALSE(json_frames_is_accepted(*grammar, text)) << text;
  const auto unique = json_frames_grammar_of(
      R"({"type": "array", "uniqueItems": true, "items": {"type": "number"}})",
      {.whitespace = JsonOptions::Whitespace::pretty});
  ASSERT_TRUE(unique) << unique.error().message;
  EXPECT_TRUE(json_frames_is_accepted(*unique, "[\n  1,\n  11\n]"));
  EXPECT_FALSE(json_frames_is_accepted(*unique, "[\n  1,\n  1\n]"));
}

TEST(Json, LenientListsWhatIsLeftToValidate) {
  const auto value = json::parse(
      R"({"properties": {"a": {"type": "number", "minimum": 5, "maximum": 1e999, "multipleOf": 1e-999},
                         "b": {"not": {"exclusiveMinimum": -1e999}}}})");
  const auto schema = schema::Schema::compile(*value);
  ASSERT_TRUE(schema);
  Machine strict;
  const auto refused = add_json(strict, *schema, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::limit_exceeded);
  Machine machine;
  std::vector<Relaxed> relaxed;
  ASSERT_TRUE(add_json(machine, *schema, {.lenient = true}, &relaxed));
  std::vector<std::string> paths;
  paths.reserve(relaxed.size());
  for (const Relaxed& one : relaxed) paths.push_back(one.schema_path + "/" + one.keyword);
  EXPECT_EQ(paths, (std::vector<std::string>{"/properties/a/maximum", "/properties/a/multipleOf",
                                             "/properties/b/not/exclusiveMinimum"}));
}

TEST(JsonFrames, IntegersMayHaveToBePlain) {
  constexpr std::string_view kSchema = R"({"properties": {"a": {"type": "integer", "minimum": 2},
      "b": {"type": "number"}, "c": {"enum": [5, "x"]}, "d": {"enum": [5, 2.5]}}})";
  constexpr std::string_view kEither[] = {R"({"a": 3})",  R"({"b": 3.0})", R"({"b": 3.5})",
                                          R"({"c": 5})",  R"({"c": "x"})", R"({"d": 5.0})",
                                          R"({"d": 2.5})"};
  constexpr std::string_view kNotPlain[] = {R"({"a": 3.0})", R"({"c": 5.0})"};
  for (const bool is_plain : {true, false}) {
    const auto grammar = json_frames_grammar_of(kSchema, {.plain_integers = is_plain});
    ASSERT_TRUE(grammar);
    const auto reads = [&](std::string_view text) {
      Matcher matcher(*grammar);
      return matcher.accept_bytes(text) && matcher.is_accepting();
    };
    for (const std::string_view text : kEither) EXPECT_TRUE(reads(text)) << text;
    for (const std::string_view text : kNotPlain) EXPECT_EQ(reads(text), !is_plain) << text;
  }
}

TEST(JsonFrames, NamesMayHaveToBeDeclared) {
  // `accepted` with the option and without it, `refused` only with it.
  const JsonFramesRow kRows[] = {
      {"Properties",
       R"({"type": "object", "properties": {"a": {}}})",
       {"{}", R"({"a": 1})"},
       {R"({"b": 1})", R"({"a": 1, "b": 1})"}},
      {"NoProperties", R"({"type": "object"})", {"{}", R"({"b": 1})"}, {}},
      {"EmptyProperties", R"({"type": "object", "properties": {}})", {"{}"}, {R"({"b": 1})"}},
      {"AdditionalProperties",
       R"({"properties": {"a": {}}, "additionalProperties": true})",
       {R"({"b": 1})"},
       {}},
      {"AdditionalPropertiesOfAKind",
       R"({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})",
       {R"({"b": 1})"},
       {}},
      {"UnevaluatedProperties",
       R"({"properties": {"a": {}}, "unevaluatedProperties": true})",
       {R"({"b": 1})"},
       {}},
      {"PatternProperties",
       R"({"properties": {"a": {}}, "patternProperties": {"^x": {}}})",
       {R"({"a": 1, "x1": 1})"},
       {R"({"b": 1})"}},
      {"RequiredIsDeclared",
       R"({"type": "object", "properties": {"a": {}}, "required": ["b"]})",
       {R"({"a": 1, "b": 1})"},
       {R"({"b": 1, "c": 1})"}},
      {"NeedsMore",
       R"({"type": "object", "properties": {"a": {}}, "minProperties": 2})",
       {R"({"a": 1, "b": 1})"},
       {}},
      {"EnoughAreDeclared",
       R"({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1})",
       {R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 1})"},
       {R"({"c": 1})", R"({"a": 1, "c": 1})"}},
      {"TooFewOfTheDeclaredHaveValues",
       R"({"type": "object", "properties": {"a": {}, "b": false}, "minProperties": 2})",
       {R"({"a": 1, "c": 1})"},
       {}},
      {"DeclaredElsewhere",
       R"({"allOf": [{"type": "object", "properties": {"a": {}}}, {"properties": {"b": {}}}]})",
       {R"({"a": 1, "b": 1})"},
       {R"({"c": 1})"}},
      {"DeclaredBehindAReference",
       R"({"properties": {"a": {}}, "$ref": "#/$defs/d", "$defs": {"d": {"properties": {"b": {}}}}})",
       {R"({"a": 1, "b": 1})"},
       {R"({"c": 1})"}},
      {"Within",
       R"({"properties": {"a": {"items": {"properties": {"b": {}}}}}})",
       {R"({"a": [{"b": 1}]})"},
       {R"({"a": [{"c": 1}]})"}},
      {"OneOf",
       R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
           {"type": "object", "properties": {"b": {}}, "required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1})"},
       {R"({"a": 1, "c": 1})"}},
      {"NoValueElse",
       R"({"items": {"type": "object", "properties": {"a": {"const": 1}}}, "uniqueItems": true,
           "type": "array", "minItems": 3})",
       {R"([{}, {"a": 1}, {"b": 1}])"},
       {}},
  };
  for (const JsonFramesRow& row : kRows) {
    SCOPED_TRACE(row.name);
    for (const bool is_declared : {true, false}) {
      const auto grammar = json_frames_grammar_of(row.schema, {.declared_only = is_declared});
      ASSERT_TRUE(grammar) << grammar.error().message;
      const auto reads = [&](std::string_view text) {
        Matcher matcher(*grammar);
        return matcher.accept_bytes(text) && matcher.is_accepting();
      };
      for (const char* text : row.accepted) EXPECT_TRUE(reads(text)) << text;
      for (const char* text : row.refused) EXPECT_EQ(reads(text), !is_declared) << text;
    }
  }
}

}  // namespace
}  // namespace tenon::grammar
