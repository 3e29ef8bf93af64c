#include "tenon/prompt/schema_loss.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/prompt/chat_template.h"
#include "tenon/vocab/gguf.h"

namespace tenon::prompt {
namespace {

/// Declares a tool with types; of inner properties it writes only names and types.
constexpr std::string_view kLosesTypes =
    "{%- macro kind(s) -%}{%- if s.type == 'object' and s.properties -%}{ "
    "{%- for k, v in s.properties.items() -%}{{ k }}: {{ kind(v) }} {%- endfor -%} }"
    "{%- elif s.type == 'array' and s['items'] -%}{{ kind(s['items']) }}[]"
    "{%- elif s.type == 'string' and s.enum -%}{{ s.enum | map('tojson') | join(' | ') }}"
    "{%- elif s.type in ('string', 'number', 'integer', 'boolean') -%}{{ s.type }}"
    "{%- else -%}any{%- endif -%}{%- endmacro -%}"
    "{%- for t in tools or [] -%}{%- set f = t.function -%}// {{ f.description }}\n{{ f.name }}("
    "{%- for k, v in f.parameters.properties.items() -%}"
    "{% if v.description %}/* {{ v.description }} */{% endif %}{{ k }}: {{ kind(v) }};{%- endfor "
    "-%}"
    "){%- endfor -%}{%- for m in messages -%}{{ m.role }}: {{ m.content }}\n{%- endfor -%}";

/// Reads some names as keywords, wherever they stand.
constexpr std::string_view kLosesKeywords =
    "{%- macro fields(p) -%}{%- for k, v in p | dictsort -%}{%- if k not in ['description', "
    "'type', "
    "'properties', 'required'] -%}{{ k }}:{type:{{ v.type | upper }}"
    "{%- if v.description %},description:{{ v.description }}{% endif -%}"
    "{%- if v.properties %},properties:{ {{- fields(v.properties) -}} }{% endif -%}}"
    "{%- endif -%}{%- endfor -%}{%- endmacro -%}"
    "{%- for t in tools or [] -%}{{ t.function.name }}{ {{- t.function.description -}} }"
    "{ {{- fields(t.function.parameters.properties) -}} }{%- endfor -%}"
    "{%- for m in messages -%}{{ m.role }}: {{ m.content }}\n{%- endfor -%}";

/// Writes only the names of parameters.
constexpr std::string_view kLosesAllButNames =
    "{%- for t in tools or [] -%}{{ t.function.name }}({{ t.function.parameters.properties | "
    "join(', ') "
    "}}): {{ t.function.description }}{%- endfor -%}"
    "{%- for m in messages -%}{{ m.role }}: {{ m.content }}\n{%- endfor -%}";

/// Fails at a list without `items`.
constexpr std::string_view kNeedsItems =
    "{%- for t in tools or [] -%}{{ t.function.name }}:"
    "{%- for k, v in t.function.parameters.properties.items() -%}{{ k }}="
    "{{ v['items'] | tojson if v.type == 'array' else v | tojson }}, {{ v.description }};"
    "{%- endfor -%}{%- endfor -%}"
    "{%- for m in messages -%}{{ m.role }}: {{ m.content }}\n{%- endfor -%}";

constexpr std::string_view kLosesNothing =
    "{% if tools %}{{ tools | tojson }}{% endif %}{%- for m in messages -%}{{ m.content }}{%- "
    "endfor -%}";

struct LossRow {
  const char* name;
  std::string_view source;
  std::string_view properties;
  std::string_view declaration;  // what stands before the message
  std::string_view definitions = "{}";
};

class LeftOut : public testing::TestWithParam<LossRow> {};

TEST_P(LeftOut, StandsInDescriptions) {
  const LossRow& row = GetParam();
  const auto compiled = ChatTemplate::compile(row.source, {.generic_fallback = false});
  ASSERT_TRUE(compiled) << compiled.error().message;
  json::Object parameters{{"type", "object"}, {"properties", *json::parse(row.properties)}};
  if (row.definitions != "{}") parameters.set("$defs", *json::parse(row.definitions));
  const json::Value tool =
      json::Object{{"type", "function"},
                   {"function", json::Object{{"name", "f"},
                                             {"description", "Does it"},
                                             {"parameters", std::move(parameters)}}}};
  const auto prompt = (*compiled)->render_context(
      json::Object{{"messages", *json::parse(R"([{"role": "user", "content": "q"}])")},
                   {"tools", json::Array{tool}}},
      {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(
      prompt->text.substr(0, prompt->text.find(row.source == kLosesNothing ? "q" : "user: q")),
      row.declaration);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, LeftOut,
    testing::Values(
        LossRow{
            "WhatIsWrittenStays", kLosesTypes,
            R"({"a": {"type": "string", "enum": ["x"]}, "b": {"type": "array", "items": {"type": "integer"}}})",
            "// Does it\nf(a: \"x\";b: integer[];)"},
        LossRow{
            "DescriptionsInside", kLosesTypes,
            R"({"guest": {"type": "object", "description": "who", "properties": {"given": {"type": "string", "description": "as on the passport"}}}})",
            "// Does it\nf(/* who (JSON Schema: {\"type\": \"object\", \"properties\": {\"given\": "
            "{\"type\": \"string\", \"description\": \"as on the passport\"}}}) */guest: {given: "
            "string};)"},
        LossRow{
            "Unions", kLosesTypes,
            R"({"size": {"anyOf": [{"type": "string"}, {"type": "number"}]}, "n": {"type": "integer"}})",
            "// Does it\nf(/* JSON Schema: {\"anyOf\": [{\"type\": \"string\"}, {\"type\": "
            "\"number\"}]} */size: any;n: integer;)"},
        LossRow{
            "EnumsOfNumbersAndOfNoType", kLosesTypes,
            R"({"a": {"type": "integer", "enum": [1, 2]}, "b": {"enum": ["x"]}, "c": {"const": 3}})",
            "// Does it\nf(/* JSON Schema: {\"type\": \"integer\", \"enum\": [1, 2]} */a: "
            "integer;/* JSON Schema: {\"enum\": [\"x\"]} */b: any;/* JSON Schema: {\"const\": 3} "
            "*/c: any;)"},
        LossRow{"NumbersAsTheyAreWritten", kLosesTypes,
                R"({"a": {"type": "number", "enum": [1.50, 1e3]}})",
                "// Does it\nf(/* JSON Schema: {\"type\": \"number\", \"enum\": [1.50, 1e3]} */a: "
                "number;)"},
        LossRow{
            "ReferencesWithWhatTheyReferTo", kLosesTypes, R"({"a": {"$ref": "#/$defs/t"}})",
            "// Does it\nf(/* JSON Schema: {\"$ref\": \"#/$defs/t\", \"$defs\": {\"t\": {\"type\": "
            "\"string\"}}} */a: any;)",
            R"({"t": {"type": "string"}})"},
        LossRow{
            "ReferencesToNamesWithEscapes", kLosesTypes,
            R"({"a": {"$ref": "#/$defs/x~1y%20z"}, "b": {"$ref": "#/$defs/u~0/items"}})",
            "// Does it\nf(/* JSON Schema: {\"$ref\": \"#/$defs/x~1y%20z\", \"$defs\": {\"x/y z\": "
            "{\"type\": \"string\"}}} */a: any;/* JSON Schema: {\"$ref\": \"#/$defs/u~0/items\", "
            "\"$defs\": {\"u~\": {\"items\": {}}}} */b: any;)",
            R"({"x/y z": {"type": "string"}, "u~": {"items": {}}})"},
        LossRow{
            "MembersThatHaveNoNames", kLosesTypes,
            R"({"a": {"type": "object", "properties": {}, "additionalProperties": {"type": "object", "properties": {"price": {"type": "number"}}}}, "b": {"type": "object", "properties": {"c": {"type": "string"}}, "additionalProperties": false}})",
            "// Does it\nf(/* JSON Schema: {\"type\": \"object\", \"properties\": {}, "
            "\"additionalProperties\": {\"type\": \"object\", \"properties\": {\"price\": "
            "{\"type\": "
            "\"number\"}}}} */a: any;b: {c: string};)"},
        LossRow{
            "MembersByPatternAndTuples", kLosesTypes,
            R"({"a": {"type": "object", "properties": {"c": {"type": "string"}}, "patternProperties": {"^x": {"type": "number"}}}, "b": {"type": "array", "items": {"type": "string"}, "prefixItems": [{"type": "number"}]}})",
            "// Does it\nf(/* JSON Schema: {\"type\": \"object\", \"properties\": {\"c\": "
            "{\"type\": \"string\"}}, \"patternProperties\": {\"^x\": {\"type\": \"number\"}}} "
            "*/a: "
            "{c: string};/* JSON Schema: {\"type\": \"array\", \"items\": {\"type\": \"string\"}, "
            "\"prefixItems\": [{\"type\": \"number\"}]} */b: string[];)"},
        LossRow{
            "BoundsOfNumbersAndTexts", kLosesTypes,
            R"({"a": {"type": "integer", "minimum": 1, "maximum": 9}, "b": {"type": "string", "pattern": "^x"}})",
            "// Does it\nf(/* JSON Schema: {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 9} "
            "*/a: integer;/* JSON Schema: {\"type\": \"string\", \"pattern\": \"^x\"} */b: "
            "string;)"},
        LossRow{
            "BoundsOfListsAndInThem", kLosesTypes,
            R"({"a": {"type": "array", "minItems": 1, "items": {"type": "number", "multipleOf": 5}}})",
            "// Does it\nf(/* JSON Schema: {\"type\": \"array\", \"minItems\": 1, \"items\": "
            "{\"type\": \"number\", \"multipleOf\": 5}} */a: number[];)"},
        LossRow{
            "ParametersCalledLikeKeywords", kLosesKeywords,
            R"({"description": {"type": "string", "description": "shown"}, "price": {"type": "number"}})",
            "f{Does it (JSON Schema: {\"properties\": {\"description\": {\"type\": \"string\", "
            "\"description\": \"shown\"}}})}{price:{type:NUMBER}}"},
        LossRow{"PropertiesInsideCalledLikeKeywords", kLosesKeywords,
                R"({"a": {"type": "object", "properties": {"type": {"type": "string"}}}})",
                "f{Does it}{a:{type:OBJECT,description:JSON Schema: {\"type\": \"object\", "
                "\"properties\": {\"type\": {\"type\": \"string\"}}},properties:{}}}"},
        LossRow{"DescriptionsThatTheTemplateDoesNotWrite", kLosesAllButNames,
                R"({"a": {"type": "string", "description": "what"}, "b": {"type": "string"}})",
                "f(a, b): Does it (JSON Schema: {\"properties\": {\"a\": {\"type\": \"string\", "
                "\"description\": \"what\"}}})"},
        LossRow{
            "WhatTheTemplateFailsAt", kNeedsItems,
            R"({"a": {"type": "array", "description": "words"}, "b": {"type": "array", "items": {"type": "string"}}})",
            "f:a={\"type\": \"string\", \"description\": \"words (JSON Schema: {\\\"type\\\": "
            "\\\"array\\\"})\"}, words (JSON Schema: {\"type\": \"array\"});b={\"type\": "
            "\"string\"}, ;"},
        LossRow{
            "SchemasAsJsonStay", kLosesNothing,
            R"({"description": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/t"}]}})",
            R"([{"type": "function", "function": {"name": "f", "description": "Does it", "parameters": {"type": "object", "properties": {"description": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/t"}]}}, "$defs": {"t": {"type": "string"}}}}}])",
            R"({"t": {"type": "string"}})"}),
    [](const auto& info) { return std::string(info.param.name); });

// If a thousand properties refer to one large definition, it is not written a thousand times.
TEST(SchemaLoss, DefinitionsAreRepeatedWithinBounds) {
  const auto compiled = ChatTemplate::compile(kLosesTypes, {.generic_fallback = false});
  ASSERT_TRUE(compiled) << compiled.error().message;
  json::Object properties;
  for (int i = 0; i < 1000; ++i) {
    properties.set("p" + std::to_string(i), json::Object{{"$ref", "#/$defs/t"}});
  }
  const json::Object large{{"type", "string"}, {"description", std::string(100'000, 'd')}};
  json::Object parameters{{"type", "object"},
                          {"properties", std::move(properties)},
                          {"$defs", json::Object{{"t", large}}}};
  json::Object function{
      {"name", "f"}, {"description", "Does it"}, {"parameters", std::move(parameters)}};
  const json::Value tool = json::Object{{"type", "function"}, {"function", std::move(function)}};
  const auto prompt = (*compiled)->render_context(
      json::Object{{"messages", *json::parse(R"([{"role": "user", "content": "q"}])")},
                   {"tools", json::Array{tool}}},
      {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_LT(prompt->text.size(), 1'000'000U);
  EXPECT_NE(prompt->text.find("Does it (JSON Schema: {\"$defs\""), std::string::npos)
      << prompt->text.substr(0, 200);
}

// In jinja2 `schema['items'] is defined` is true for every dict, because dicts have that method.
TEST(SchemaLoss, TheBundledModelTakesListsWithoutItems) {
  const auto file = vocab::GgufFile::open(TENON_SOURCE_DIR "/models/tenon-tiny.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const auto source = file->string("tokenizer.chat_template");
  ASSERT_TRUE(source);
  const auto compiled = ChatTemplate::compile(*source);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const json::Value tool = *json::parse(
      R"({"type": "function", "function": {"name": "f", "description": "Does it", "parameters":
          {"type": "object", "properties": {"a": {"type": "array", "description": "words"},
           "b": {"type": "array", "items": {"type": "string"}}}}}})");
  const auto prompt = (*compiled)->render_context(
      json::Object{{"messages", *json::parse(R"([{"role": "user", "content": "q"}])")},
                   {"tools", json::Array{tool}}},
      {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_NE(prompt->text.find("#f: Does it\n a?: array words\n b?: string[]\n"), std::string::npos)
      << prompt->text;
}

}  // namespace
}  // namespace tenon::prompt
