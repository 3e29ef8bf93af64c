#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::schema {

void PrintTo(const Violation& violation, std::ostream* os) {
  *os << violation.instance_path << " | " << violation.schema_path << " | " << violation.message;
}

namespace {

json::Value validate_parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
  return value ? *value : json::Value();
}

struct ValidateRow {
  std::string_view name;
  std::string_view schema;
  std::string_view instance;
  std::vector<Violation> violations;
};

const ValidateRow kValidateRows[] = {
    {"TypeIsNamed", R"({"type": "string"})", "5", {{"", "/type", "is 5, must be a string"}}},
    {"TypesAreListed",
     R"({"type": ["null", "integer", "object"]})",
     R"("a")",
     {{"", "/type", "is a string, must be an object, an integer or null"}}},
    {"IntegerMayHaveAZeroFraction", R"({"type": "integer"})", "1.0", {}},
    {"IntegerHasNoFraction",
     R"({"type": "integer"})",
     "1.5",
     {{"", "/type", "is 1.5, must be an integer"}}},
    {"IntegerIsSpelledInDraft4",
     R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"})",
     "1.0",
     {{"", "/type", "is 1.0, must be an integer"}}},
    {"NumberIsAlsoAFractionInDraft4",
     R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "number"})",
     "1.0",
     {}},
    {"FalseAllowsNothing",
     R"({"properties": {"a": false}})",
     R"({"a": 1})",
     {{"/a", "/properties/a", "is not allowed here"}}},
    {"EnumIsByValue",
     R"({"enum": [1, {"a": [1, 2], "b": null}]})",
     R"({"b": null, "a": [1.0, 2e0]})",
     {}},
    {"EnumTellsWhatItAllows",
     R"({"enum": ["a", "b", 3]})",
     R"("c")",
     {{"", "/enum", R"(is "c", must be "a", "b" or 3)"}}},
    {"ConstTellsWhatItIs", R"({"const": 5})", "6", {{"", "/const", "is 6, must be 5"}}},
    {"BooleansAreNotNumbers",
     R"({"enum": [0, false]})",
     "1",
     {{"", "/enum", "is 1, must be 0 or false"}}},
    {"MinimumIncludes", R"({"minimum": 1.1})", "1.10", {}},
    {"MinimumBelow",
     R"({"minimum": 1.1})",
     "1.09",
     {{"", "/minimum", "is 1.09, must be at least 1.1"}}},
    {"MinimumOfBigIntegers",
     R"({"minimum": 123456789012345678901234567890})",
     "123456789012345678901234567889",
     {{"", "/minimum",
       "is 123456789012345678901234567889, must be at least 123456789012345678901234567890"}}},
    {"ExclusiveMaximumExcludes",
     R"({"exclusiveMaximum": 3})",
     "3.0",
     {{"", "/exclusiveMaximum", "is 3.0, must be less than 3"}}},
    {"MultipleOfIsExact", R"({"multipleOf": 0.01})", "19.99", {}},
    {"MultipleOfHugeNumbers", R"({"multipleOf": 0.01})", "1e308", {}},
    {"MultipleOfTells",
     R"({"multipleOf": 2})",
     "7",
     {{"", "/multipleOf", "is 7, must be a multiple of 2"}}},
    {"LengthIsInCodePoints", R"({"maxLength": 2})", R"("\ud83d\udca9\ud83d\udca9")", {}},
    {"LengthTells",
     R"({"minLength": 2})",
     R"("a")",
     {{"", "/minLength", "has 1 character, must have at least 2"}}},
    {"PatternIsSearched", R"({"pattern": "b+"})", R"("abc")", {}},
    {"PatternTells",
     R"({"pattern": "^b"})",
     R"("abc")",
     {{"", "/pattern", R"(is "abc", must match the pattern ^b)"}}},
    {"FormatIsAnAnnotation", R"({"format": "ipv4"})", R"("x")", {}},
    {"RulesForOtherTypesSayNothing",
     R"({"minimum": 5, "minLength": 5, "minItems": 5})",
     R"({"a": 1})",
     {}},
    {"ItemsTellTheirIndex",
     R"({"prefixItems": [{"type": "string"}], "items": {"type": "null"}})",
     R"([1, null, 2])",
     {{"/0", "/prefixItems/0/type", "is 1, must be a string"},
      {"/2", "/items/type", "is 2, must be null"}}},
    {"ItemsAreCounted",
     R"({"maxItems": 1})",
     "[1, 2]",
     {{"", "/maxItems", "has 2 items, must have at most 1"}}},
    {"ContainsCounts",
     R"({"contains": {"type": "string"}})",
     "[1]",
     {{"", "/contains", "has 0 items for 'contains', must have at least 1"}}},
    {"MaxContainsCounts",
     R"({"contains": {"type": "string"}, "minContains": 0, "maxContains": 1})",
     R"(["a", "b"])",
     {{"", "/maxContains", "has 2 items for 'contains', must have at most 1"}}},
    {"UniqueItemsAreByValue",
     R"({"uniqueItems": true})",
     R"([null, "n", 1, {"a": 1, "b": [2]}, "1", {"b": [2.0], "a": 1.0}])",
     {{"", "/uniqueItems", "has equal items, 3 and 5"}}},
    {"UniqueItemsTellTypesApart",
     R"({"uniqueItems": true})",
     R"([0, false, "0", null, "n", "null", [0], [[0]], {}, []])",
     {}},
    {"RequiredTellsAll",
     R"({"required": ["a", "b", "c"]})",
     R"({"b": 1})",
     {{"", "/required", R"(has no member "a")"}, {"", "/required", R"(has no member "c")"}}},
    {"AdditionalIsWhatIsNotNamed",
     R"({"properties": {"a": true}, "patternProperties": {"^x-": true}, "additionalProperties": false})",
     R"({"a": 1, "x-b": 1, "c~/d": 1})",
     {{"/c~0~1d", "/additionalProperties", "is not allowed here"}}},
    {"PatternPropertiesJoinProperties",
     R"({"properties": {"ab": {"minimum": 1}}, "patternProperties": {"^a": {"maximum": 3}}})",
     R"({"ab": 5})",
     {{"/ab", "/patternProperties/^a/maximum", "is 5, must be at most 3"}}},
    {"NamesAreStrings",
     R"({"propertyNames": {"maxLength": 1}})",
     R"({"a": 1, "bc": 2})",
     {{"", "/propertyNames/maxLength",
       R"(has a member "bc", whose name has 2 characters, must have at most 1)"}}},
    {"MembersAreCounted",
     R"({"minProperties": 1})",
     "{}",
     {{"", "/minProperties", "has 0 members, must have at least 1"}}},
    {"DependentRequiredTellsWhy",
     R"({"dependentRequired": {"a": ["b"]}})",
     R"({"a": 1})",
     {{"", "/dependentRequired", R"(has no member "b", which "a" requires)"}}},
    {"DependenciesKeepTheirName",
     R"({"dependencies": {"a": ["b"], "c": {"maxProperties": 1}}})",
     R"({"a": 1, "c": 2})",
     {{"", "/dependencies", R"(has no member "b", which "a" requires)"},
      {"", "/dependencies/c/maxProperties", "has 2 members, must have at most 1"}}},
    {"RefTellsWhereTheRuleIsWritten",
     R"({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}})",
     "[1]",
     {{"/0", "/$defs/a/type", "is 1, must be a string"}}},
    {"AnyOfExplainsTheOnlyBranchOfTheType",
     R"({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]})",
     "{}",
     {{"", "/anyOf", "fits none of the 2 branches of anyOf"},
      {"", "/anyOf/0/required", R"(has no member "a")"}}},
    {"AnyOfDoesNotGuess",
     R"({"anyOf": [{"minimum": 5}, {"maximum": 3}]})",
     "4",
     {{"", "/anyOf", "fits none of the 2 branches of anyOf"}}},
    {"OneOfIsExactlyOne",
     R"({"oneOf": [{"minimum": 5}, {"type": "integer"}, {"maximum": 3}]})",
     "6",
     {{"", "/oneOf", "fits branches 0 and 1, must fit exactly one"}}},
    {"NotTells",
     R"({"not": {"type": "null"}})",
     "null",
     {{"", "/not", "fits the schema that it must not fit"}}},
    {"ThenFollowsIf",
     R"({"if": {"minimum": 5}, "then": {"multipleOf": 2}, "else": {"multipleOf": 3}})",
     "7",
     {{"", "/then/multipleOf", "is 7, must be a multiple of 2"}}},
    {"ElseFollowsToo",
     R"({"if": {"minimum": 5}, "then": {"multipleOf": 2}, "else": {"multipleOf": 3}})",
     "4",
     {{"", "/else/multipleOf", "is 4, must be a multiple of 3"}}},
    {"UnevaluatedSeesBranchesThatPass",
     R"({"anyOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": true}}],
         "unevaluatedProperties": false})",
     R"({"a": 1, "b": 2})",
     {{"/a", "/unevaluatedProperties", "is not allowed here"}}},
    {"UnevaluatedWaitsForTheOthers",
     R"({"properties": {"a": {"type": "null"}}, "unevaluatedProperties": false})",
     R"({"a": 1, "b": 2})",
     {{"/a", "/properties/a/type", "is 1, must be null"}}},
    {"UnevaluatedItemsFollowContains",
     R"({"contains": {"type": "string"}, "unevaluatedItems": false})",
     R"(["a", 1])",
     {{"/1", "/unevaluatedItems", "is not allowed here"}}},
    {"EverythingIsTold",
     R"({"properties": {"a": {"type": "string", "minimum": 5}, "b": {"items": {"type": "null"}}}})",
     R"({"a": 1, "b": [1, null, 2]})",
     {{"/a", "/properties/a/type", "is 1, must be a string"},
      {"/a", "/properties/a/minimum", "is 1, must be at least 5"},
      {"/b/0", "/properties/b/items/type", "is 1, must be null"},
      {"/b/2", "/properties/b/items/type", "is 2, must be null"}}},
    {"SharedRulesAreToldOnce",
     R"({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
         "$defs": {"a": {"properties": {"b": {"type": "null"}}}}})",
     R"({"b": 1})",
     {{"/b", "/$defs/a/properties/b/type", "is 1, must be null"}}},
    {"LongValuesAreCut",
     R"({"maxLength": 3, "pattern": "^a$"})",
     R"("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")",
     {{"", "/maxLength", "has 95 characters, must have at most 3"},
      {"", "/pattern",
       R"(is "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..., must match the pattern ^a$)"}}},
};

class Validation : public ::testing::TestWithParam<ValidateRow> {};

TEST_P(Validation, ListsViolations) {
  const ValidateRow& row = GetParam();
  const auto schema = Schema::compile(validate_parsed(row.schema));
  ASSERT_TRUE(schema) << schema.error().message;
  const json::Value instance = validate_parsed(row.instance);
  const auto violations = (*schema)->validate(instance);
  ASSERT_TRUE(violations) << violations.error().message;
  EXPECT_EQ(*violations, row.violations);
  const auto verdict = (*schema)->is_valid(instance);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(*verdict, row.violations.empty());
}

INSTANTIATE_TEST_SUITE_P(Rules, Validation, ::testing::ValuesIn(kValidateRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Validation, FormatIsAssertedWhereAsked) {
  const auto schema =
      Schema::compile(validate_parsed(R"({"items": {"format": "ipv4"}, "format": "color"})"),
                      {.assert_format = true});
  ASSERT_TRUE(schema);
  const auto violations = (*schema)->validate(validate_parsed(R"(["1.2.3.4", "x", 5])"));
  ASSERT_TRUE(violations);
  EXPECT_EQ(
      *violations,
      (std::vector<Violation>{{"/1", "/items/format", R"(is "x", must have the format ipv4)"}}));
}

TEST(Validation, ListsNoMoreThanAskedFor) {
  const auto schema = Schema::compile(validate_parsed(R"({"items": false})"));
  ASSERT_TRUE(schema);
  const json::Value instance = json::Array(50, json::Value(1));
  EXPECT_EQ((*schema)->validate(instance, {.max_violations = 7})->size(), 7U);
}

TEST(Validation, StopsWithItsBudget) {
  const auto schema = Schema::compile(validate_parsed(R"({"items": {"type": "integer"}})"));
  ASSERT_TRUE(schema);
  const json::Value instance = json::Array(5000, json::Value(1));
  EXPECT_TRUE(*(*schema)->is_valid(instance));
  const auto verdict = (*schema)->is_valid(instance, {.limits = {.max_steps = 1000}});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Errc::limit_exceeded);
  EXPECT_EQ(verdict.error().message, "validation: more than 1000 steps");
}

// Two ways at each of a hundred levels lead to the same rules: without memory this takes 2^100
// visits.
TEST(Validation, BranchesThatMeetAgainAreLinear) {
  const std::string_view schemas[] = {
      R"({"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["x"]},
                    {"properties": {"a": {"$ref": "#"}}, "required": ["y"]}, {"type": "null"}]})",
      R"({"oneOf": [{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["x"]},
                    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["y"]},
                    {"type": "null"}]})",
      R"({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}],
          "type": ["object", "null"]})"};
  json::Value instance;
  for (int i = 0; i < 100; ++i) instance = json::Object{{"y", 1}, {"a", instance}};
  for (const std::string_view text : schemas) {
    const auto schema = Schema::compile(validate_parsed(text));
    ASSERT_TRUE(schema);
    const auto verdict = (*schema)->is_valid(instance, {.limits = {.max_steps = 10'000}});
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(*verdict);
  }
}

// The same if unevaluated members must be known: forty levels with two ways each.
TEST(Validation, EvaluationThatMeetsAgainIsLinear) {
  for (const std::string_view keyword : {"anyOf", "allOf"}) {
    json::Object defs;
    for (int i = 0; i < 40; ++i) {
      const json::Object next{{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
      defs["d" + std::to_string(i)] = json::Object{{std::string(keyword), json::Array{next, next}}};
    }
    defs["d40"] = validate_parsed(R"({"properties": {"a": true}})");
    const auto schema = Schema::compile(
        json::Object{{"$ref", "#/$defs/d0"}, {"unevaluatedProperties", false}, {"$defs", defs}});
    ASSERT_TRUE(schema);
    const ValidateOptions options{.limits = {.max_steps = 10'000}};
    const auto violations = (*schema)->validate(validate_parsed(R"({"a": 1, "b": 2})"), options);
    ASSERT_TRUE(violations) << violations.error().message;
    EXPECT_EQ(*violations,
              (std::vector<Violation>{{"/b", "/unevaluatedProperties", "is not allowed here"}}));
    EXPECT_TRUE(*(*schema)->is_valid(validate_parsed(R"({"a": 1})"), options));
  }
}

TEST(Validation, DeepInstancesNeedBoundedStack) {
  const auto schema = Schema::compile(
      validate_parsed(R"({"allOf": [{"properties": {"a": {"anyOf": [{"$ref": "#"}]}}}]})"));
  ASSERT_TRUE(schema);
  json::Value instance;
  for (int i = 0; i < 100'000; ++i) {
    json::Object around;  // an initializer list would copy the instance
    around.set("a", std::move(instance));
    instance = std::move(around);
  }
  const auto verdict = (*schema)->is_valid(instance);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Errc::limit_exceeded);
}

TEST(Validation, HugeNumbersAreBounded) {
  const auto schema =
      Schema::compile(validate_parsed(R"({"multipleOf": 3, "minimum": 1e1000000})"));
  ASSERT_TRUE(schema);
  const json::Value instance = json::Number{"1" + std::string(1'000'000, '0')};
  const auto violations = (*schema)->validate(instance);
  ASSERT_TRUE(violations);
  ASSERT_EQ(violations->size(), 1U);
  EXPECT_EQ((*violations)[0].schema_path, "/multipleOf");
}

}  // namespace
}  // namespace tenon::schema
