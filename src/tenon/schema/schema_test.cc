#include "tenon/schema/schema.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/json/value.h"

namespace tenon::schema {
namespace {

json::Value schema_parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
  return value ? *value : json::Value();
}

std::shared_ptr<const Schema> compiled(const json::Value& schema,
                                       const CompileOptions& options = {}) {
  auto result = Schema::compile(schema, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : nullptr;
}

// What is refused ---------------------------------------------------------------------------------

struct Refusal {
  std::string_view name;
  std::string_view schema;
  Errc code;
  std::string_view message;
};

const Refusal kRefusals[] = {
    {"RootIsASchema", "5", Errc::invalid, "(root): must be a schema, an object or a boolean"},
    {"ChildIsASchema", R"({"properties": {"a/b": 5}})", Errc::invalid,
     "/properties/a~1b: must be a schema, an object or a boolean"},
    {"TypeIsKnown", R"({"type": "text"})", Errc::invalid, "/type: 'text' is not a type"},
    {"TypeIsNotEmpty", R"({"type": []})", Errc::invalid, "/type: must name a type"},
    {"EnumIsAList", R"({"enum": "a"})", Errc::invalid, "/enum: must be a list"},
    {"MinimumIsANumber", R"({"items": {"minimum": "5"}})", Errc::invalid,
     "/items/minimum: must be a number"},
    {"MultipleOfIsAboveZero", R"({"multipleOf": 0})", Errc::invalid,
     "/multipleOf: must be a number above zero"},
    {"CountIsNotNegative", R"({"minLength": -1})", Errc::invalid,
     "/minLength: must be an integer from 0 on"},
    {"CountIsAnInteger", R"({"maxItems": 1.5})", Errc::invalid,
     "/maxItems: must be an integer from 0 on"},
    {"FlagIsABoolean", R"({"uniqueItems": 1})", Errc::invalid,
     "/uniqueItems: must be true or false"},
    {"RequiredIsAList", R"({"properties": {"a": {"required": true}}})", Errc::invalid,
     "/properties/a/required: must be a list of names"},
    {"RequiredNamesAreStrings", R"({"required": [1]})", Errc::invalid,
     "/required: must be a list of strings"},
    {"PropertiesIsAnObject", R"({"properties": []})", Errc::invalid,
     "/properties: must be an object"},
    {"AllOfIsAList", R"({"allOf": {}})", Errc::invalid, "/allOf: must be a list"},
    {"AnyOfIsNotEmpty", R"({"anyOf": []})", Errc::invalid, "/anyOf: must not be empty"},
    {"IdIsAString", R"({"$id": 5})", Errc::invalid, "/$id: must be a string"},
    {"RefIsAString", R"({"$ref": 5})", Errc::invalid, "/$ref: must be a string"},
    {"RefLeadsSomewhere", R"({"$ref": "#/$defs/a"})", Errc::invalid,
     "/$ref: '#/$defs/a' leads nowhere"},
    {"AnchorLeadsSomewhere", R"({"$ref": "#a"})", Errc::invalid, "/$ref: '#a' leads nowhere"},
    {"RefIsAnAddress", R"({"$ref": "#/%zz"})", Errc::invalid, "/$ref: '#/%zz' is not an address"},
    {"NothingIsFetched", R"({"items": {"$ref": "http://example.com/a"}})", Errc::unsupported,
     "/items/$ref: 'http://example.com/a' is neither in the schema nor among the documents given "
     "with it, and nothing is fetched"},
    {"DialectIsKnown", R"({"$schema": "http://json-schema.org/draft-03/schema#"})",
     Errc::unsupported,
     "/$schema: the dialect 'http://json-schema.org/draft-03/schema#' is neither a draft from 4 to "
     "2020-12 nor among the documents"},
    {"CycleOfOne", R"({"$ref": "#"})", Errc::invalid,
     "(root): refers to itself without going down into the instance"},
    {"CycleByChoices", R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]},
                                     "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"})",
     Errc::invalid, "/$defs/a: refers to itself without going down into the instance"},
};

class SchemaRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(SchemaRefusal, NamesThePlace) {
  const Refusal& row = GetParam();
  const auto result = Schema::compile(schema_parsed(row.schema));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, row.code);
  EXPECT_EQ(result.error().message, row.message);
}

INSTANTIATE_TEST_SUITE_P(Rules, SchemaRefusal, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Schema, RefusesAPatternThatIsNone) {
  const auto result = Schema::compile(schema_parsed(R"({"patternProperties": {"(": {}}})"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::invalid);
  EXPECT_TRUE(result.error().message.starts_with("/patternProperties: '('"))
      << result.error().message;
}

TEST(Schema, LooksOnlyAtWhatIsReached) {
  EXPECT_TRUE(Schema::compile(schema_parsed(R"({"$defs": {"a": {"$ref": "http://example.com/a"},
                                                   "b": {"type": "text"}}})")));
}

// The canonical form: one for each concept, however it is written ---------------------------------

struct Pair {
  std::string_view name;
  std::string_view written;
  std::string_view same;
};

constexpr std::string_view kDraft4 = R"({"$schema": "http://json-schema.org/draft-04/schema#", )";

// Prints the rules of a node, without the parts that only violations need.
std::string summary(const Schema& schema, NodeId id, int depth = 0) {
  if (depth > 4) return "...";
  const Node& node = schema.node(id);
  const auto child = [&](NodeId next) { return summary(schema, next, depth + 1); };
  std::string out = "{";
  for (int type = 0; type < 7; ++type)
    out += node.types.contains(static_cast<Type>(type)) ? '1' : '0';
  if (node.values) out += " values " + json::to_string(node.values->values());
  const auto bound = [&](std::string_view name, const std::optional<Bound>& limit) {
    if (limit)
      out.append(" ").append(name).append(limit->value.text).append(limit->exclusive ? "!" : "");
  };
  const auto counts = [&](std::string_view name, const Counts& range) {
    if (range != Counts()) {
      out.append(" ").append(name).append(std::to_string(range.least)).append("-");
      if (range.most != Counts::kUnbounded) out.append(std::to_string(range.most));
    }
  };
  if (node.numbers) {
    bound("minimum ", node.numbers->minimum);
    bound("maximum ", node.numbers->maximum);
  }
  if (node.strings) counts("length ", node.strings->length);
  if (node.arrays) {
    out += " prefix";
    for (const NodeId next : node.arrays->prefix) out += child(next);
    if (node.arrays->items) out += " items" + child(*node.arrays->items);
  }
  if (node.objects) {
    for (const Property& property : node.objects->properties) {
      out += " " + property.name + child(property.node);
    }
    for (const std::string& name : node.objects->required) out += " required " + name;
    for (const DependentNames& rule : node.objects->dependent_names) {
      for (const std::string& name : rule.required) out += " " + rule.name + " requires " + name;
    }
  }
  for (const DependentNode& rule : node.dependents) out += " if " + rule.name + child(rule.node);
  for (const NodeId next : node.all_of) out += " and" + child(next);
  return out + "}";
}

const Pair kPairs[] = {
    {"ConstIsAnEnum", R"({"const": 1})", R"({"enum": [1]})"},
    {"ConstNarrowsEnum", R"({"const": 1.0, "enum": [1, 2]})", R"({"enum": [1]})"},
    {"EnumValuesIsEnum", R"({"enum_values": ["a", "b"]})", R"({"enum": ["a", "b"]})"},
    {"NumberIsIntegerOrFraction", R"({"type": ["number", "integer"]})", R"({"type": "number"})"},
    {"NullableIsNull", R"({"type": "string", "nullable": true})",
     R"({"type": ["string", "null"]})"},
    {"NullableAloneSaysNothing", R"({"nullable": true})", "true"},
    {"FlagMakesABoundExclusive", R"({"minimum": 1, "exclusiveMinimum": true})",
     R"({"exclusiveMinimum": 1})"},
    {"FlagFalseDoesNot", R"({"maximum": 1, "exclusiveMaximum": false})", R"({"maximum": 1})"},
    {"TighterMinimumWins", R"({"minimum": 1, "exclusiveMinimum": 2})",
     R"({"exclusiveMinimum": 2})"},
    {"EqualMaximaAreExclusive", R"({"maximum": 1, "exclusiveMaximum": 1.0})",
     R"({"exclusiveMaximum": 1.0})"},
    {"LooserExclusiveLoses", R"({"maximum": 1, "exclusiveMaximum": 2})", R"({"maximum": 1})"},
    {"ListOfItemsIsPrefix", R"({"items": [true], "additionalItems": {"type": "null"}})",
     R"({"prefixItems": [true], "items": {"type": "null"}})"},
    {"DependenciesAreTwo", R"({"dependencies": {"a": ["b"], "c": {"type": "null"}}})",
     R"({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "null"}}})"},
    {"RefIsAllOf", R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}})",
     R"({"allOf": [{"type": "null"}]})"},
    {"DefinitionsAreDefs", R"({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}})",
     R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}})"},
    {"CountsMayHaveAFraction", R"({"minLength": 2.0})", R"({"minLength": 2})"},
};

class SchemaForm : public ::testing::TestWithParam<Pair> {};

TEST_P(SchemaForm, IsTheSame) {
  const auto written = compiled(schema_parsed(GetParam().written));
  const auto same = compiled(schema_parsed(GetParam().same));
  ASSERT_TRUE(written && same);
  EXPECT_EQ(summary(*written, written->root()), summary(*same, same->root()));
}

INSTANTIATE_TEST_SUITE_P(Concepts, SchemaForm, ::testing::ValuesIn(kPairs),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Schema, EarlierDraftsDoNotKnowLaterWords) {
  const auto schema = compiled(schema_parsed(std::string(kDraft4) + R"("const": 1, "if": false,
    "$ref": "#/definitions/a", "type": "null", "definitions": {"a": {"propertyNames": false}}})"));
  ASSERT_TRUE(schema);
  EXPECT_EQ(summary(*schema, schema->root()), "{1111111 and{1111111}}");
}

TEST(Schema, KeepsTheOrderOfProperties) {
  std::string text = R"({"properties": {)";
  for (int i = 40; i > 0; --i)
    text += "\"p" + std::to_string(i) + "\": true" + (i > 1 ? "," : "}}");
  const auto schema = compiled(schema_parsed(text));
  ASSERT_TRUE(schema);
  const ObjectRules& rules = *schema->node(schema->root()).objects;
  for (std::size_t i = 0; i < rules.properties.size(); ++i) {
    const std::string name = "p" + std::to_string(40 - i);
    EXPECT_EQ(rules.properties[i].name, name);
    EXPECT_EQ(rules.find(name), &rules.properties[i]);
  }
  EXPECT_EQ(rules.find("p0"), nullptr);
  EXPECT_EQ(rules.find("p41"), nullptr);
}

TEST(Schema, ReadsDocumentsOnlyAsFarAsReferredTo) {
  const json::Value documents = schema_parsed(R"({
    "http://a/used.json": {"$id": "http://b/other.json", "type": "null", "$defs": {"x": false}},
    "http://a/unused.json": {"type": "no type"}, "http://a/no_schema.json": 5})");
  const CompileOptions options{.documents = documents.if_object()};
  const auto schema = compiled(schema_parsed(R"({"allOf": [{"$ref": "http://a/used.json"},
    {"$ref": "http://b/other.json"}, {"$ref": "http://b/other.json#/$defs/x"}]})"),
                               options);
  ASSERT_TRUE(schema);
  const Node& root = schema->node(schema->root());
  const auto target = [&](std::size_t i) { return schema->node(root.all_of[i]).all_of.at(0); };
  EXPECT_EQ(target(0), target(1));  // one document by two addresses
  EXPECT_EQ(schema->node(target(2)).location, "http://a/used.json#/$defs/x");
  const auto refused =
      Schema::compile(schema_parsed(R"({"$ref": "http://a/unused.json"})"), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "http://a/unused.json#/type: 'no type' is not a type");
}

TEST(Schema, KnowsTheMetaSchemas) {
  for (const std::string_view address :
       {"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema"}) {
    const auto schema = compiled(json::Object{{"$ref", address}});
    ASSERT_TRUE(schema) << address;
    EXPECT_TRUE(*schema->is_valid(schema_parsed(R"({"properties": {"a": {"minLength": 5}}})")))
        << address;
    EXPECT_FALSE(*schema->is_valid(schema_parsed(R"({"properties": {"a": {"minLength": -5}}})")))
        << address;
  }
}

TEST(Schema, ReadsAPlaceOnceForEachDynamicScope) {
  const auto schema = compiled(schema_parsed(R"({"$id": "http://a/main", "anyOf": [
      {"$ref": "numbers"}, {"$ref": "strings"}], "$defs": {
      "list": {"$id": "list", "items": {"$dynamicRef": "#item"}, "$defs": {"item": {"$dynamicAnchor": "item"}}},
      "numbers": {"$id": "numbers", "$ref": "list", "$defs": {"item": {"$dynamicAnchor": "item", "type": "number"}}},
      "strings": {"$id": "strings", "$ref": "list", "$defs": {"item": {"$dynamicAnchor": "item", "type": "string"}}}
    }})"));
  ASSERT_TRUE(schema);
  int lists = 0;
  for (NodeId id = 0; id < schema->size(); ++id)
    lists += schema->node(id).location == "/$defs/list" ? 1 : 0;
  EXPECT_EQ(lists, 2);
  EXPECT_TRUE(*schema->is_valid(schema_parsed("[1, 2]")));
  EXPECT_TRUE(*schema->is_valid(schema_parsed(R"(["a", "b"])")));
  EXPECT_FALSE(*schema->is_valid(schema_parsed(R"([1, "b"])")));
}

// Bounds ------------------------------------------------------------------------------------------

json::Value nested_not(int levels) {
  json::Value schema = true;
  for (int i = 0; i < levels; ++i) {
    json::Object around;  // an initializer list would copy the schema
    around.set("not", std::move(schema));
    schema = std::move(around);
  }
  return schema;
}

TEST(Schema, DeepSchemasNeedNoStack) {
  const json::Value schema = nested_not(3000);
  const auto deep = compiled(schema);
  ASSERT_TRUE(deep);
  EXPECT_EQ(deep->size(), 3001U);
  const auto verdict = deep->is_valid(json::Value(1));
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Errc::limit_exceeded);
  EXPECT_EQ(verdict.error().message, "validation: more than 1000 levels of nesting");
}

TEST(Schema, LocationsCountAsBytes) {
  const json::Value schema = nested_not(3000);
  const auto result = Schema::compile(schema, {.limits = {.max_bytes = 1 << 20}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::limit_exceeded);
}

TEST(Schema, ScopesWithoutEndAreStopped) {
  // Each of n resources refers to all others and adds an anchor, so every order of them is a scope
  // of its own.
  json::Object defs;
  constexpr int kResources = 24;
  for (int i = 0; i < kResources; ++i) {
    const std::string name = "r" + std::to_string(i);
    json::Object properties;
    for (int j = 0; j < kResources; ++j) {
      const std::string other = "r" + std::to_string(j);
      properties[other] = json::Object{{"$ref", "http://a/" + other}};
    }
    defs[name] = json::Object{
        {"$id", "http://a/" + name}, {"$dynamicAnchor", name}, {"properties", properties}};
  }
  const auto result = Schema::compile(json::Object{{"$ref", "http://a/r0"}, {"$defs", defs}},
                                      {.limits = {.max_steps = 100'000, .max_bytes = 1 << 26}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::limit_exceeded);
}

TEST(Schema, HundredThousandValuesAreFoundByHash) {
  json::Array values;
  for (int i = 0; i < 100'000; ++i) values.emplace_back("value " + std::to_string(i));
  const auto schema = compiled(json::Object{{"items", json::Object{{"enum", values}}}});
  ASSERT_TRUE(schema);
  EXPECT_TRUE(*schema->is_valid(values));
  EXPECT_FALSE(*schema->is_valid(json::Array{"value 100000"}));
}

TEST(Schema, CancelledWorkEnds) {
  const auto past = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  json::Array list;
  for (int i = 0; i < 3000; ++i) list.emplace_back(json::Object());
  const auto schema = json::Object{{"allOf", list}};
  const auto result = Schema::compile(schema, {.limits = {.deadline = past}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "schema: not done in time");
}

TEST(Draft, HasAName) {
  for (int i = 0; i < 5; ++i) {
    const auto draft = static_cast<Draft>(i);
    EXPECT_EQ(find_draft(draft_name(draft)), draft);
  }
  EXPECT_EQ(find_draft("draft3"), std::nullopt);
}

}  // namespace
}  // namespace tenon::schema
