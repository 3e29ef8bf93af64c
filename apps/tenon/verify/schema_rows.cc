#include "verify/schema_rows.h"

#include <array>

namespace tenon::app::verify {
namespace {

constexpr std::array kRows = {
    // types
    SchemaRow{"type_string", R"({"type":"string"})", R"("seven")", "7"},
    SchemaRow{"type_integer", R"({"type":"integer"})", "7", R"("seven")"},
    SchemaRow{"type_integer_no_fraction", R"({"type":"integer"})", "3", "3.5"},
    SchemaRow{"type_number", R"({"type":"number"})", "1.5", R"("many")"},
    SchemaRow{"type_boolean", R"({"type":"boolean"})", "true", R"("yes")"},
    SchemaRow{"type_null", R"({"type":"null"})", "null", R"("none")"},
    SchemaRow{"type_array", R"({"type":"array"})", "[1,2]", R"({"a":1})"},
    SchemaRow{"type_object", R"({"type":"object"})", R"({"a":1})", "[1,2]"},
    SchemaRow{"type_list", R"({"type":["string","null"]})", "null", "[5]"},
    // fixed values
    SchemaRow{"enum", R"({"enum":["red","green","blue"]})", R"("green")", R"("purple")"},
    SchemaRow{"enum_of_numbers", R"({"enum":[1,2,4,8]})", "4", "3"},
    SchemaRow{"enum_of_kinds", R"({"enum":[null,"auto",1]})", R"("auto")", R"("manual")"},
    SchemaRow{"enum_with_escapes", R"({"enum":["a\"b","c\\d","e\nf"]})", R"("c\\d")", R"("cd")"},
    SchemaRow{"const", R"({"const":"fixed"})", R"("fixed")", R"("free")"},
    SchemaRow{"const_object", R"({"const":{"a":[1,2]}})", R"({"a":[1,2]})", R"({"a":[1,3]})"},
    // texts
    SchemaRow{"minLength", R"({"type":"string","minLength":8})", R"("lighthouse")", R"("sea")"},
    SchemaRow{"maxLength", R"({"type":"string","maxLength":3})", R"("sea")", R"("lighthouse")"},
    SchemaRow{"maxLength_in_characters", R"({"type":"string","maxLength":2})", R"("日本")",
              R"("日本語")"},
    SchemaRow{"pattern", R"({"type":"string","pattern":"^[A-Z]{3}-[0-9]{4}$"})", R"("ABC-1234")",
              R"("abc-12")"},
    SchemaRow{"pattern_anywhere", R"({"type":"string","pattern":"b+c"})", R"("xabbcx")",
              R"("xax")"},
    SchemaRow{"pattern_classes", R"({"type":"string","pattern":"^\\d{3}\\s\\w+$"})",
              R"("123 main")", R"("main 123")"},
    SchemaRow{"pattern_alternatives", R"({"type":"string","pattern":"^(cat|dog)s?$"})", R"("dogs")",
              R"("birds")"},
    SchemaRow{"pattern_unicode", R"({"type":"string","pattern":"^\\p{Lu}\\p{Ll}+$"})", R"("Oslo")",
              R"("oslo")"},
    SchemaRow{"pattern_lookahead", R"({"type":"string","pattern":"^(?!foo)[a-z]+$"})", R"("bar")",
              R"("foobar")"},
    SchemaRow{"format_date",
              R"({"type":"string","format":"date"})",
              R"("2026-11-30")",
              R"("yesterday")",
              {},
              true},
    SchemaRow{"format_time",
              R"({"type":"string","format":"time"})",
              R"("18:30:00Z")",
              R"("half past six")",
              {},
              true},
    SchemaRow{"format_date_time",
              R"({"type":"string","format":"date-time"})",
              R"("2026-11-30T18:30:00Z")",
              R"("now")",
              {},
              true},
    SchemaRow{"format_email",
              R"({"type":"string","format":"email"})",
              R"("ann@example.org")",
              R"("ann")",
              {},
              true},
    SchemaRow{"format_uuid",
              R"({"type":"string","format":"uuid"})",
              R"("123e4567-e89b-12d3-a456-426614174000")",
              R"("12345")",
              {},
              true},
    SchemaRow{"format_ipv4",
              R"({"type":"string","format":"ipv4"})",
              R"("192.0.2.1")",
              R"("300.1.2")",
              {},
              true},
    // numbers
    SchemaRow{"minimum", R"({"type":"integer","minimum":10})", "12", "3"},
    SchemaRow{"maximum", R"({"type":"integer","maximum":5})", "4", "9"},
    SchemaRow{"minimum_of_fractions", R"({"type":"number","minimum":0.5})", "0.75", "0.25"},
    SchemaRow{"exclusiveMinimum", R"({"type":"integer","exclusiveMinimum":0})", "1", "0"},
    SchemaRow{"exclusiveMaximum", R"({"type":"integer","exclusiveMaximum":10})", "9", "10"},
    SchemaRow{"minimum_and_maximum", R"({"type":"integer","minimum":-20,"maximum":-10})", "-15",
              "15"},
    SchemaRow{"multipleOf", R"({"type":"integer","multipleOf":5})", "15", "7"},
    SchemaRow{"multipleOf_fraction", R"({"type":"number","multipleOf":0.25})", "1.25", "1.3"},
    // lists
    SchemaRow{"items", R"({"type":"array","items":{"type":"integer"}})", "[1,2]", R"(["a","b"])"},
    SchemaRow{
        "prefixItems",
        R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"minItems":2,"items":false})",
        R"(["a",1])", R"([1,"a"])"},
    SchemaRow{"minItems", R"({"type":"array","items":{"type":"integer"},"minItems":3})", "[1,2,3]",
              "[1]"},
    SchemaRow{"maxItems", R"({"type":"array","items":{"type":"integer"},"maxItems":2})", "[1,2]",
              "[1,2,3,4]"},
    SchemaRow{
        "uniqueItems",
        R"({"type":"array","items":{"enum":["a","b","c"]},"minItems":2,"maxItems":3,"uniqueItems":true})",
        R"(["a","b"])", R"(["a","a"])"},
    SchemaRow{"contains",
              R"({"type":"array","items":{"type":"integer"},"maxItems":3,"contains":{"const":7}})",
              "[1,7]", "[1,2]"},
    SchemaRow{
        "maxContains",
        R"({"type":"array","items":{"enum":[1,2]},"maxItems":4,"contains":{"const":1},"maxContains":1})",
        "[1,2]", "[1,1]"},
    // objects
    SchemaRow{
        "required",
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]})",
        R"({"a":1,"b":2})", R"({"a":1})"},
    SchemaRow{
        "optional_property",
        R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false})",
        R"({})", R"({"a":"one"})"},
    SchemaRow{
        "additionalProperties_false",
        R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})",
        R"({"a":1})", R"({"a":1,"extra":2})"},
    SchemaRow{"additionalProperties_schema",
              R"({"type":"object","additionalProperties":{"type":"integer"}})", R"({"x":1})",
              R"({"x":"one"})"},
    SchemaRow{"empty_object", R"({"type":"object","properties":{},"additionalProperties":false})",
              "{}", R"({"a":1})"},
    SchemaRow{
        "patternProperties",
        R"({"type":"object","patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":false})",
        R"({"n_a":1})", R"({"n_a":"one"})"},
    SchemaRow{
        "propertyNames",
        R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"integer"}})",
        R"({"abc":1})", R"({"ABC":1})"},
    SchemaRow{
        "minProperties",
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"additionalProperties":false,"minProperties":2})",
        R"({"a":1,"b":2})", R"({"a":1})"},
    SchemaRow{
        "maxProperties",
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"additionalProperties":false,"maxProperties":1})",
        R"({"a":1})", R"({"a":1,"b":2})"},
    SchemaRow{
        "dependentRequired",
        R"({"type":"object","properties":{"card":{"type":"string"},"code":{"type":"string"}},"dependentRequired":{"card":["code"]},"additionalProperties":false})",
        R"({"card":"1234","code":"99"})", R"({"card":"1234"})"},
    SchemaRow{
        "property_names_with_blanks",
        R"({"type":"object","properties":{"first name":{"type":"string"},"größe":{"type":"integer"}},"required":["first name","größe"],"additionalProperties":false})",
        R"({"first name":"Ann","größe":3})", R"({"first_name":"Ann","groesse":3})"},
    SchemaRow{
        "nested_objects",
        R"({"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"boolean"}},"required":["c"]}}},"required":["b"]}},"required":["a"]})",
        R"({"a":{"b":[{"c":true}]}})", R"({"a":{"b":[{"c":"yes"}]}})"},
    // combinations
    SchemaRow{"anyOf", R"({"anyOf":[{"type":"integer"},{"type":"string","minLength":3}]})",
              R"("abc")", R"("a")"},
    SchemaRow{"anyOf_null", R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "null",
              R"("none")"},
    SchemaRow{"oneOf", R"({"oneOf":[{"type":"integer"},{"type":"boolean"}]})", "true", R"("x")"},
    SchemaRow{"oneOf_not_both",
              R"({"oneOf":[{"type":"integer","maximum":10},{"type":"integer","minimum":5}]})", "3",
              "7"},
    SchemaRow{"allOf", R"({"allOf":[{"type":"integer","minimum":5},{"maximum":10}]})", "7", "12"},
    SchemaRow{"not", R"({"type":"string","not":{"enum":["bad"]}})", R"("good")", R"("bad")"},
    SchemaRow{
        "if_then_else",
        R"({"type":"object","properties":{"kind":{"enum":["circle","square"]},"size":{"type":"integer"}},"required":["kind","size"],"additionalProperties":false,"if":{"properties":{"kind":{"const":"circle"}}},"then":{"properties":{"size":{"maximum":5}}},"else":{"properties":{"size":{"minimum":10}}}})",
        R"({"kind":"circle","size":4})", R"({"kind":"circle","size":40})"},
    SchemaRow{
        "union_by_kind",
        R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"],"additionalProperties":false},{"type":"object","properties":{"kind":{"const":"dog"},"tricks":{"type":"integer"}},"required":["kind","tricks"],"additionalProperties":false}]})",
        R"({"kind":"dog","tricks":2})", R"({"kind":"dog","lives":9})"},
    // references
    SchemaRow{"ref", R"({"$ref":"#/$defs/colour"})", R"("red")", R"("purple")",
              R"({"colour":{"enum":["red","green"]}})"},
    SchemaRow{
        "ref_to_itself", R"({"$ref":"#/$defs/tree"})",
        R"({"name":"a","children":[{"name":"b","children":[]}]})",
        R"({"name":"a","children":[{"name":7,"children":[]}]})",
        R"({"tree":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["name","children"],"additionalProperties":false}})"},
    SchemaRow{
        "unevaluatedProperties",
        R"({"type":"object","allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]}],"unevaluatedProperties":false})",
        R"({"a":1})", R"({"a":1,"b":2})"},
};

}  // namespace

std::span<const SchemaRow> schema_rows() {
  return kRows;
}

}  // namespace tenon::app::verify
