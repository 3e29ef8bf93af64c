#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenon/schema/schema.h"

/// The keywords of JSON Schema: which draft has them, and where schemas stand below them. Not for
/// other layers.
namespace tenon::schema {

/// In the order of kKeywords.
enum class Keyword : std::uint8_t {
  anchor,
  defs,
  dynamic_anchor,
  dynamic_ref,
  id,
  recursive_anchor,
  recursive_ref,
  ref,
  schema,
  additional_items,
  additional_properties,
  all_of,
  any_of,
  const_value,
  contains,
  content_schema,
  definitions,
  dependencies,
  dependent_required,
  dependent_schemas,
  else_schema,
  enum_list,
  enum_values,
  exclusive_maximum,
  exclusive_minimum,
  format,
  draft4_id,
  if_schema,
  items,
  max_contains,
  max_items,
  max_length,
  max_properties,
  maximum,
  min_contains,
  min_items,
  min_length,
  min_properties,
  minimum,
  multiple_of,
  not_schema,
  nullable,
  one_of,
  pattern,
  pattern_properties,
  prefix_items,
  properties,
  property_names,
  required,
  then_schema,
  type,
  unevaluated_items,
  unevaluated_properties,
  unique_items,
};

/// The vocabularies that a meta-schema can leave out.
enum class Vocabulary : std::uint8_t { core, applicator, unevaluated, validation, format };

/// What the value of a keyword holds.
enum class Shape : std::uint8_t {
  data,         ///< No schemas.
  schema,       ///< One.
  list,         ///< A list of them.
  map,          ///< Schemas by name.
  list_or_one,  ///< `items`
  map_or_data,  ///< `dependencies`: schemas, or lists of names, by name.
};

struct KeywordRow {
  std::string_view name;
  Shape shape;
  Vocabulary vocabulary;
  Draft first = Draft::draft4;
  Draft last = Draft::draft2020_12;
};

inline constexpr auto kKeywords = [] {
  using enum Draft;
  using enum Shape;
  using V = Vocabulary;
  return std::to_array<KeywordRow>({
      {"$anchor", data, V::core, draft2019_09},
      {"$defs", map, V::core},  // also in drafts that have only `definitions`, because people write
                                // it
      {"$dynamicAnchor", data, V::core, draft2020_12},
      {"$dynamicRef", data, V::core, draft2020_12},
      {"$id", data, V::core, draft6},
      {"$recursiveAnchor", data, V::core, draft2019_09, draft2019_09},
      {"$recursiveRef", data, V::core, draft2019_09, draft2019_09},
      {"$ref", data, V::core},
      {"$schema", data, V::core},
      {"additionalItems", schema, V::applicator},
      {"additionalProperties", schema, V::applicator},
      {"allOf", list, V::applicator},
      {"anyOf", list, V::applicator},
      {"const", data, V::validation, draft6},
      {"contains", schema, V::applicator, draft6},
      {"contentSchema", schema, V::core, draft2019_09},
      {"definitions", map, V::core},
      {"dependencies", map_or_data, V::applicator},
      {"dependentRequired", data, V::validation, draft2019_09},
      {"dependentSchemas", map, V::applicator, draft2019_09},
      {"else", schema, V::applicator, draft7},
      {"enum", data, V::validation},
      {"enum_values", data, V::validation},
      {"exclusiveMaximum", data, V::validation},
      {"exclusiveMinimum", data, V::validation},
      {"format", data, V::format},
      {"id", data, V::core, draft4, draft4},
      {"if", schema, V::applicator, draft7},
      {"items", list_or_one, V::applicator},
      {"maxContains", data, V::validation, draft2019_09},
      {"maxItems", data, V::validation},
      {"maxLength", data, V::validation},
      {"maxProperties", data, V::validation},
      {"maximum", data, V::validation},
      {"minContains", data, V::validation, draft2019_09},
      {"minItems", data, V::validation},
      {"minLength", data, V::validation},
      {"minProperties", data, V::validation},
      {"minimum", data, V::validation},
      {"multipleOf", data, V::validation},
      {"not", schema, V::applicator},
      {"nullable", data, V::validation},
      {"oneOf", list, V::applicator},
      {"pattern", data, V::validation},
      {"patternProperties", map, V::applicator},
      {"prefixItems", list, V::applicator, draft2020_12},
      {"properties", map, V::applicator},
      {"propertyNames", schema, V::applicator, draft6},
      {"required", data, V::validation},
      {"then", schema, V::applicator, draft7},
      {"type", data, V::validation},
      {"unevaluatedItems", schema, V::unevaluated, draft2019_09},
      {"unevaluatedProperties", schema, V::unevaluated, draft2019_09},
      {"uniqueItems", data, V::validation},
  });
}();
static_assert(std::ranges::is_sorted(kKeywords, {}, &KeywordRow::name));
static_assert(kKeywords.size() == static_cast<std::size_t>(Keyword::unique_items) + 1);

[[nodiscard]] constexpr const KeywordRow& row_of(Keyword keyword) {
  return kKeywords[static_cast<std::size_t>(keyword)];
}

/// The rules by which a schema is read: those of a draft, without the vocabularies that its
/// meta-schema leaves out.
struct Dialect {
  Draft draft = Draft::draft2020_12;
  bool applies = true;      ///< Vocabularies: applicator,
  bool unevaluated = true;  ///< unevaluated,
  bool validates = true;    ///< validation,
  bool asserts_format = false;

  [[nodiscard]] constexpr bool knows(const KeywordRow& row) const {
    if (draft < row.first || draft > row.last) return false;
    switch (row.vocabulary) {
      case Vocabulary::applicator:
        return applies;
      case Vocabulary::unevaluated:
        return unevaluated;
      case Vocabulary::validation:
        return validates;
      case Vocabulary::core:
      case Vocabulary::format:
        return true;
    }
    return true;
  }
};

/// The keyword called `name` in `dialect`, or null.
[[nodiscard]] constexpr const KeywordRow* find_keyword(std::string_view name,
                                                       const Dialect& dialect) {
  const auto* const row = std::ranges::lower_bound(kKeywords, name, {}, &KeywordRow::name);
  if (row == kKeywords.end() || row->name != name || !dialect.knows(*row)) return nullptr;
  return row;
}

}  // namespace tenon::schema
