// Schemas that are large, deep or made to explode: each must get a correct answer. No test here
// takes long; a slow one fails by the time limit of the tests.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using vocab::Token;
using vocab::TokenId;

// The bytes, some tokens of two and more, an end token.
const std::shared_ptr<VocabIndex>& bounds_small_index() {
  static const auto index = [] {
    std::vector<Token> tokens(256);
    for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
    for (const char* text :
         {"{\"", "\":", "\",", "\"}", ", \"", "\"},", "\"},{\"", "ab", "12", "p1", "aaaaaaaa"}) {
      tokens.push_back({text});
    }
    tokens.push_back({"<|end|>", Token::Kind::control});
    const TokenId end = static_cast<TokenId>(tokens.size()) - 1;
    return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {end}));
  }();
  return index;
}

Expected<std::shared_ptr<Grammar>> bounds_grammar_of(const json::Value& source,
                                                     const MachineLimits& limits = {}) {
  auto schema = schema::Schema::compile(source, {.assert_format = true});
  if (!schema) return Unexpected(schema.error());
  return Grammar::make(
      [schema = *schema](Machine& machine) { return add_json(machine, schema, {}); },
      bounds_small_index(), {.machine = limits});
}

// Masks are made for the first bytes: each byte must be in the mask before it.
bool bounds_is_accepted(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  const std::size_t looked = is_long_test() ? 1000 : 200;
  Matcher matcher(grammar);
  std::vector<std::uint32_t> mask(mask_words(bounds_small_index()->vocab().size()));
  for (const char c : text.substr(0, looked)) {
    const auto byte = static_cast<std::uint8_t>(c);
    const Status filled = matcher.fill_mask(mask);
    EXPECT_TRUE(filled) << filled.error().message;
    if (!filled || (mask[byte / 32] >> byte % 32 & 1U) == 0) return false;
    EXPECT_TRUE(matcher.accept(static_cast<TokenId>(byte)));
  }
  const std::string_view rest = text.substr(std::min(text.size(), looked));
  return (rest.empty() || matcher.accept_bytes(rest)) && matcher.is_accepting();
}

std::string bounds_repeated(std::string_view text, std::size_t count) {
  std::string made;
  for (std::size_t i = 0; i < count; ++i) made += text;
  return made;
}

std::string in_quotes(std::string_view text) {
  return '"' + std::string(text) + '"';
}

json::Value parsed(std::string_view text) {
  const auto value = json::parse(text, {.max_depth = 2000});
  EXPECT_TRUE(value) << value.error().message;
  return value ? *value : json::Value();
}

json::Value enum_of(std::size_t count, const std::function<json::Value(std::size_t)>& value) {
  json::Array values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(value(i));
  return json::Object{{"enum", std::move(values)}};
}

// Properties p0, p1, ..., none of which is required.
json::Value optional_properties(std::size_t count) {
  json::Object properties;
  for (std::size_t i = 0; i < count; ++i) {
    properties["p" + std::to_string(i)] = json::Object{{"type", "integer"}};
  }
  return json::Object{
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

// A chain of definitions, each of which `refers` to the next one.
json::Value chain(const std::function<json::Value(const json::Value& next)>& refers) {
  constexpr int kLength = 2000;
  json::Object definitions;
  for (int i = 0; i < kLength; ++i) {
    const std::string next = "#/$defs/d" + std::to_string(i + 1);
    definitions["d" + std::to_string(i)] = refers(json::Object{{"$ref", next}});
  }
  definitions["d" + std::to_string(kLength)] = json::Object{{"type", "string"}};
  return json::Object{{"$ref", "#/$defs/d0"}, {"$defs", std::move(definitions)}};
}

struct BoundsRow {
  const char* name;
  std::function<json::Value()> schema;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

// {"a": 0}, {"a": 1} ...
std::string numbered_objects(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? R"({"a": )" : R"(, {"a": )") + std::to_string(i) + "}";
  }
  return text;
}

const std::vector<BoundsRow>& bounds_rows() {
  static const std::vector<BoundsRow> rows = {
      {"EnumOf100000Strings",
       [] { return enum_of(100'000, [](std::size_t i) { return "value" + std::to_string(i); }); },
       {in_quotes("value0"), in_quotes("value99999"), in_quotes("value51")},
       {in_quotes("value100000"), in_quotes("value"), "7"}},
      {"EnumOf100000Numbers",
       [] { return enum_of(100'000, [](std::size_t i) { return 3 * i; }); },
       {"0", "299997", "99"},
       {"1", "300000", "-3"}},
      {"Optional5000Properties",
       [] { return optional_properties(5000); },
       {"{}", R"({"p4999": 1, "p0": 2, "p1234": 3})"},
       {R"({"p5000": 1})", R"({"p1": 1, "p1": 1})"}},
      {"MaxLengthOfAMillion",
       [] { return parsed(R"({"type": "string", "maxLength": 1000000})"); },
       {in_quotes(bounds_repeated("a", 60'000))},
       {}},
      {"MinLengthOfAMillion",
       [] { return parsed(R"({"type": "string", "minLength": 1000000})"); },
       {},
       {in_quotes(bounds_repeated("a", 60'000))}},
      {"MaxItemsOfAMillion",
       [] {
         return parsed(
             R"({"type": "array", "items": {"const": 1}, "minItems": 999, "maxItems": 1000000})");
       },
       {"[1" + bounds_repeated(", 1", 998) + "]"},
       {"[1" + bounds_repeated(", 1", 997) + "]"}},
      {"WordsOfAPattern",
       [] { return parsed(R"({"type": "string", "pattern": "^(?:\\S+\\s+){0,99}\\S+$"})"); },
       {in_quotes(bounds_repeated("ab ", 99) + "ab"), in_quotes("ab")},
       {in_quotes(bounds_repeated("ab ", 100) + "ab"), in_quotes("ab ")}},
      {"CountedWithinCounted",
       [] { return parsed(R"({"type": "string", "pattern": "^(?:(?:a{1,50}b){1,50}c){1,50}$"})"); },
       {in_quotes("aabc"), in_quotes(bounds_repeated("abc", 50))},
       {in_quotes(bounds_repeated("abc", 51)), in_quotes(bounds_repeated("a", 51) + "bc")}},
      {"CountsThatMultiply",
       [] {
         return parsed(
             R"({"type": "string", "pattern": "^((((a{1,999}){1,999}){1,999}){1,999})b$"})");
       },
       {in_quotes("ab"), in_quotes(bounds_repeated("a", 3000) + "b")},
       {in_quotes("b"), in_quotes("aba")}},
      {"ManyPatternsOfNames",
       [] {
         json::Object patterns;
         for (int i = 0; i < 60; ++i) {
           patterns[bounds_repeated(".", static_cast<std::size_t>(i)) + "a"] =
               json::Object{{"type", "integer"}};
         }
         return json::Object{{"type", "object"}, {"patternProperties", std::move(patterns)}};
       },
       {R"({"xxa": 1, "b": "", "aaaa": 7})"},
       {R"({"xxa": ""})"}},
      {"AllOfMany",
       [] {
         json::Array parts;
         for (int i = 0; i < 300; ++i) {
           parts.push_back(json::Object{{"required", json::Array{"p" + std::to_string(i)}}});
         }
         return json::Object{
             {"type", "object"}, {"maxProperties", 300}, {"allOf", std::move(parts)}};
       },
       {},
       {"{}", R"({"p0": 1})"}},
      {"CycleThroughProperties",
       [] {
         return parsed(
             R"({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "additionalProperties": false})");
       },
       {bounds_repeated(R"({"a": )", 300) + "{}" + bounds_repeated("}", 300)},
       {R"({"a": {"c": 1}})"}},
      {"CycleThroughItemsAndNot",
       [] { return parsed(R"({"type": "array", "items": {"not": {"not": {"$ref": "#"}}}})"); },
       {bounds_repeated("[", 200) + bounds_repeated("]", 200), "[[], [[]]]"},
       {"[1]", "[[], [[2]]]"}},
      {"Parentheses",
       [] {
         return json::Object{
             {"pattern", bounds_repeated("(", 60'000) + "a" + bounds_repeated(")", 60'000)}};
       },
       {in_quotes("bab"), "1"},
       {in_quotes("b")}},
      {"UniqueItems",
       [] {
         return parsed(R"({"type": "array", "uniqueItems": true, "items": {"type": "integer"}})");
       },
       {"[1, 2, 3]"},
       {"[1, 2, 1.0]"}},
      {"ManyUniqueItems",
       [] {
         return parsed(R"({"type": "array", "uniqueItems": true, "items": {"type": "object",
             "properties": {"a": {"type": "integer"}}, "additionalProperties": false}})");
       },
       {"[" + numbered_objects(300) + "]"},
       {"[" + numbered_objects(100) + R"(, {"a": 7}])",
        "[" + numbered_objects(300) + R"(, {"a": 7}])"}},
  };
  return rows;
}

void judge(const std::vector<BoundsRow>& rows) {
  for (const BoundsRow& row : rows) {
    const auto grammar = bounds_grammar_of(row.schema());
    EXPECT_TRUE(grammar) << row.name << ": " << grammar.error().message;
    if (!grammar) continue;
    for (const std::string& text : row.accepted) {
      EXPECT_TRUE(bounds_is_accepted(*grammar, text)) << row.name << ": " << text.substr(0, 300);
    }
    for (const std::string& text : row.refused) {
      EXPECT_FALSE(bounds_is_accepted(*grammar, text)) << row.name << ": " << text.substr(0, 300);
    }
  }
}

TEST(BoundsProof, LargeSchemasAreAnsweredRightly) {
  judge(bounds_rows());
  if (!is_long_test()) return;  // the rest takes ten seconds with sanitizers
  const std::string below = in_quotes(bounds_repeated("a", 999'999));
  const std::string million = in_quotes(bounds_repeated("a", 1'000'000));
  const std::string above = in_quotes(bounds_repeated("a", 1'000'001));
  judge({{"Most",
          [] { return parsed(R"({"type": "string", "maxLength": 1000000})"); },
          {million},
          {above}},
         {"Least",
          [] { return parsed(R"({"type": "string", "minLength": 1000000})"); },
          {million, above},
          {below}}});
}

/// That no value may be a multiple of any of these steps, of 300 digits each.
json::Value long_steps_that_must_not_apply() {
  json::Array all;
  for (int i = 0; i < 300; ++i) {
    std::string digits = std::string(299, '7') + "1";
    digits[static_cast<std::size_t>(i)] = '3';
    all.push_back(
        json::Object{{"not", json::Object{{"multipleOf", json::Number{std::move(digits)}}}}});
  }
  return json::Object{{"type", "integer"}, {"multipleOf", 3}, {"allOf", std::move(all)}};
}

/// Alternatives that all refer to one long list.
json::Value branches_of_one_list(const std::function<json::Value(std::int64_t)>& branch) {
  json::Array list;
  for (int i = 0; i < 50'000; ++i) list.push_back("a" + std::to_string(i));
  json::Array branches;
  for (std::int64_t i = 0; i < 100; ++i) branches.push_back(branch(i));
  return json::Object{{"$defs", json::Object{{"list", json::Object{{"enum", std::move(list)}}}}},
                      {"oneOf", std::move(branches)}};
}

// A schema beyond all limits is refused with a message.
TEST(BoundsProof, WhatIsPastAllBoundsIsRefused) {
  const std::pair<const char*, json::Value> refusals[] = {
      {"exponents of a million", parsed(R"({"exclusiveMinimum": 1e-1000000})")},
      {"20000 branches that may overlap",
       json::Object{{"oneOf", json::Array(20'000, json::Object{{"minimum", 1}})}}},
      {"60000 open parentheses", json::Object{{"pattern", bounds_repeated("(", 60'000)}}},
      {"a cycle of references alone",
       parsed(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#"}}})")},
      {"a chain of references", chain([](const json::Value& next) { return next; })},
      {"a chain of allOf", chain([](const json::Value& next) {
         return json::Object{{"allOf", json::Array{next, json::Object{{"maxLength", 5}}}}};
       })},
      {"a chain of anyOf", chain([](const json::Value& next) {
         return json::Object{{"anyOf", json::Array{next, json::Object{{"const", 1}}}}};
       })},
      {"a chain of oneOf", chain([](const json::Value& next) {
         return json::Object{{"oneOf", json::Array{next, json::Object{{"const", 1}}}}};
       })},
      {"a chain of not",
       chain([](const json::Value& next) { return json::Object{{"not", next}}; })},
      {"a chain of if", chain([](const json::Value& next) {
         return json::Object{{"if", next}, {"then", json::Object{{"maxLength", 5}}}};
       })},
      {"a chain of required properties", chain([](const json::Value& next) {
         return json::Object{{"type", "object"},
                             {"required", json::Array{"a"}},
                             {"properties", json::Object{{"a", next}}}};
       })},
      {"a chain of items", chain([](const json::Value& next) {
         return json::Object{{"type", "array"}, {"minItems", 1}, {"items", next}};
       })},
      {"a chain of contained items", chain([](const json::Value& next) {
         return json::Object{{"type", "array"}, {"contains", next}};
       })},
      {"a chain of dependentSchemas", chain([](const json::Value& next) {
         return json::Object{{"type", "object"}, {"dependentSchemas", json::Object{{"a", next}}}};
       })},
      // These took from ten seconds to hours.
      {"long steps that must not apply", long_steps_that_must_not_apply()},
      {"branches that share a list", branches_of_one_list([](std::int64_t i) {
         return json::Object{{"$ref", "#/$defs/list"}, {"maxLength", i + 1}};
       })},
  };
  for (const auto& [name, schema] : refusals) {
    const auto grammar = bounds_grammar_of(schema);
    ASSERT_FALSE(grammar) << name;
    EXPECT_FALSE(grammar.error().message.empty()) << name;
    EXPECT_NE(grammar.error().code, Errc::unsatisfiable) << name;
  }
}

// Its branches are compared until that has taken long; then a check of the value stands for them.
TEST(BoundsProof, BranchesWhoseMembersShareAListAreAnsweredSoon) {
  const auto grammar = bounds_grammar_of(branches_of_one_list([](std::int64_t i) {
    const json::Value list = json::Object{{"$ref", "#/$defs/list"}};
    return json::Object{{"type", "object"},
                        {"properties", json::Object{{"a", list}, {"b", list}}},
                        {"required", json::Array{"a", "b"}},
                        {"maxProperties", i + 2}};
  }));
  ASSERT_TRUE(grammar) << grammar.error().message;
  // All branches hold for few members, and the last one alone for 101.
  const auto text_of = [](int members) {
    std::string text = R"({"a": "a7", "b": "a49999")";
    for (int i = 2; i < members; ++i) text += ", \"c" + std::to_string(i) + "\": null";
    return text + "}";
  };
  EXPECT_TRUE(bounds_is_accepted(*grammar, text_of(101)));
  for (const int members : {2, 3, 100, 102}) {
    EXPECT_FALSE(bounds_is_accepted(*grammar, text_of(members))) << members;
  }
  EXPECT_FALSE(bounds_is_accepted(*grammar, R"({"a": "a7", "b": "a50000"})"));
}

/// An object whose members all have one value each, other than the object with these values.
json::Value object_that_must_differ(int members, bool are_required) {
  json::Object properties;
  json::Object excluded;
  json::Array required;
  for (int i = 0; i < members; ++i) {
    const std::string name = "a" + std::to_string(i);
    properties[name] = json::Object{{"const", i}};
    excluded[name] = i;
    if (are_required) required.push_back(name);
  }
  return json::Object{{"type", "object"},
                      {"properties", std::move(properties)},
                      {"required", std::move(required)},
                      {"additionalProperties", false},
                      {"not", json::Object{{"const", std::move(excluded)}}}};
}

json::Value array_that_must_differ(int items, bool are_required) {
  json::Array prefix;
  json::Array excluded;
  for (int i = 0; i < items; ++i) {
    prefix.push_back(json::Object{{"const", i}});
    excluded.emplace_back(i);
  }
  return json::Object{{"type", "array"},
                      {"prefixItems", std::move(prefix)},
                      {"minItems", are_required ? items : 0},
                      {"items", false},
                      {"not", json::Object{{"const", std::move(excluded)}}}};
}

// As many decisions in a row as there are members or items must not overflow the stack.
TEST(BoundsProof, ManyMembersAndItemsCanDiffer) {
  for (const auto& that_must_differ : {object_that_must_differ, array_that_must_differ}) {
    for (const int size : {3, 300, 20'000}) {
      for (const bool are_required : {false, true}) {
        const auto grammar = bounds_grammar_of(that_must_differ(size, are_required));
        Status filled;
        std::vector<std::uint32_t> mask(mask_words(bounds_small_index()->vocab().size()));
        if (grammar) filled = Matcher(*grammar).fill_mask(mask);
        const std::optional<Error> error = !grammar  ? std::optional(grammar.error())
                                           : !filled ? std::optional(filled.error())
                                                     : std::nullopt;
        EXPECT_TRUE(error || !are_required) << size;
        if (!error) continue;
        EXPECT_TRUE(size > 3 || error->code == Errc::unsatisfiable) << size << error->message;
        EXPECT_TRUE(error->code == Errc::limit_exceeded || error->code == Errc::unsatisfiable)
            << size << ": " << error->message;
      }
    }
  }
}

// Every token that ends an item is another item, and for each of them it is asked whether one more
// value is left. One such question took 270,000 steps where examples of a format were looked for.
TEST(BoundsProof, MasksOfItemsThatMustDifferTakeFewSteps) {
  struct Row {
    const char* name;
    const char* items;
    const char* text;
  };
  const Row rows[] = {
      {"AFormatBesideText", R"({"type": "object", "additionalProperties": false, "properties":
            {"name": {"type": "string"}, "email": {"type": "string", "format": "email"}}})",
       R"([{"name": "a b", "email": "a@b.de"}, {"name": "c", "email": "c@b.de"}, {"name": "d"}])"},
      {"AFormatAlone", R"({"type": "object", "additionalProperties": false, "required": ["email"],
            "properties": {"email": {"type": "string", "format": "email"}}})",
       R"([{"email": "a@b.de"}, {"email": "b@b.de"}])"},
      {"TextInAnArray", R"({"type": "array", "items": {"type": "string"}, "maxItems": 2})",
       R"([["a"], ["b", "a"], []])"},
      {"APatternThatMayMatchAnywhere", R"({"type": "string", "pattern": "[a-z]{2}"})",
       R"(["ab", "1cd", "ef"])"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    auto schema = json::Object{{"type", "array"}, {"uniqueItems", true}};
    schema["items"] = parsed(row.items);
    const auto grammar = bounds_grammar_of(std::move(schema), {.max_mask_steps = 400'000});
    ASSERT_TRUE(grammar) << grammar.error().message;
    EXPECT_TRUE(bounds_is_accepted(*grammar, row.text));
  }
}

// Nine branches of a oneOf overlap where no "kind" is given, so what each of them excludes of the
// others is looked at for every property of their options. A schema of schemastore (Angular's) has
// this form, and took 2.7 million steps for one mask.
TEST(BoundsProof, MasksOfBranchesThatOverlapTakeFewSteps) {
  constexpr int kBranches = 9;
  constexpr int kProperties = 60;
  json::Array branches;
  for (int i = 0; i < kBranches; ++i) {
    json::Object properties;
    for (int j = 0; j < kProperties; ++j) {
      properties["p" + std::to_string(i % 3) + std::to_string(j)] =
          json::Object{{"type", j % 2 == 0 ? "string" : "boolean"}};
    }
    const json::Object options{
        {"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    branches.push_back(json::Object{
        {"type", "object"},
        {"properties", json::Object{{"kind", json::Object{{"const", "k" + std::to_string(i)}}},
                                    {"options", options},
                                    {"others", json::Object{{"type", "object"},
                                                            {"additionalProperties", options}}}}}});
  }
  const json::Object schema{{"type", "object"},
                            {"additionalProperties", json::Object{{"oneOf", std::move(branches)}}}};
  const auto grammar = bounds_grammar_of(schema, {.max_mask_steps = 500'000});
  ASSERT_TRUE(grammar) << grammar.error().message;
  const std::string_view text = R"({"a": {"kind": "k4", "options": {"p10": "x", "p11": true}}})";
  EXPECT_TRUE(bounds_is_accepted(*grammar, text));
  EXPECT_FALSE(bounds_is_accepted(*grammar, R"({"a": {"kind": "k4", "options": {"p20": "x"}}})"));
}

// One more address is looked for before the comma: more than 2,000 steps of expressions.
TEST(BoundsProof, StepsOfExpressionsCountForAMask) {
  const json::Value schema = parsed(R"({"type": "array", "uniqueItems": true, "items":
      {"type": "object", "additionalProperties": false, "required": ["a"],
       "properties": {"a": {"type": "string", "format": "email"}}}})");
  const std::string_view text = R"([{"a": "a@b.de"}, {"a": "b@b.de"}])";
  for (const bool is_enough : {false, true}) {
    const auto grammar =
        bounds_grammar_of(schema, {.max_mask_steps = is_enough ? 1'000'000U : 2'000U});
    ASSERT_TRUE(grammar) << grammar.error().message;
    std::vector<std::uint32_t> mask(mask_words(bounds_small_index()->vocab().size()));
    Matcher matcher(*grammar);
    Status filled;
    for (std::size_t i = 0; i < text.size() && filled; ++i) {
      filled = matcher.fill_mask(mask);
      ASSERT_TRUE(!filled || matcher.accept_bytes(text.substr(i, 1)));
    }
    EXPECT_EQ(filled.has_value(), is_enough);
    EXPECT_TRUE(filled || filled.error().code == Errc::limit_exceeded);
    EXPECT_TRUE(Matcher(*grammar).accept_bytes(text)) << "the next text is not hurt";
  }
}

// A limit is reported as one, and never as `unsatisfiable`.
TEST(BoundsProof, PatternsThatAskForMuchAreRefusedByALimit) {
  for (const std::string_view pattern :
       {"(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)(?=.*h)(?=.*i)(?=.*j)(?=.*k)(?=.*l).*",
        "(?=.{0,30}0)(?=.{0,30}1)(?=.{0,30}2)(?=.{0,30}3)(?=.{0,30}4)(?=.{0,30}5)(?=.{0,30}6)"
        "(?=.{0,30}7)(?=.{0,30}8)(?=.{0,30}9).+"}) {
    const auto rules = read_rules(pattern, Syntax::regex);
    ASSERT_TRUE(rules) << rules.error().message;
    const auto grammar = Grammar::make(
        [&](Machine& machine) { return add_rules(machine, *rules, bounds_small_index()->vocab()); },
        bounds_small_index());
    const auto of_schema = bounds_grammar_of(
        json::Object{{"type", "string"}, {"pattern", "^" + std::string(pattern) + "$"}});
    for (const auto& made : {grammar, of_schema}) {
      Status filled;
      std::vector<std::uint32_t> mask(mask_words(bounds_small_index()->vocab().size()));
      if (made) filled = Matcher(*made).fill_mask(mask);
      const Errc code = !made    ? made.error().code
                        : filled ? Errc::limit_exceeded
                                 : filled.error().code;
      EXPECT_EQ(code, Errc::limit_exceeded) << pattern;
    }
  }
}

}  // namespace
}  // namespace tenon::grammar
