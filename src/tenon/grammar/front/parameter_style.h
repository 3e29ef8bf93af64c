#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// The ways in which an object is written one member after the other, with xgrammar's names:
///
///     qwen_xml    <parameter=city>Oslo</parameter><parameter=days>3</parameter>
///     glm_xml     <arg_key>city</arg_key><arg_value>Oslo</arg_value>
struct ParameterStyle {
  /// What the head of a member says about its value, in addition to the name.
  enum class Told : std::uint8_t {
    nothing,
    is_string,  ///< string="true" or "false".
    type,       ///< type="number" and so on, with JSON's types.
    sort,       ///< type="raw", "json", "dict" or "list"; members of the last two are nested.
  };
  std::string_view name;
  std::string_view open;   ///< Before the name.
  std::string_view named;  ///< After the name, and after whatever else the head says.
  std::string_view value;  ///< Before the value, with white space in between; "": nothing.
  std::string_view close;
  Told told = Told::nothing;
};

/// Null: there is no such style.
[[nodiscard]] const ParameterStyle* find_parameter_style(std::string_view name);
/// The names, listed as in a sentence.
[[nodiscard]] std::string parameter_style_names();

/// The value of a keyword such as `minLength`, if it is a number that a grammar can count to.
[[nodiscard]] std::optional<std::uint32_t> count_of(const json::Value& schema,
                                                    std::string_view keyword);

/// Adds the objects of a JSON Schema and returns their node. Strings are written as they are, up to
/// what closes the member; other values as JSON. Members come in the schema's order (with
/// PropertyOrder::any in any order); undeclared ones come after them if `additionalProperties`
/// allows them, with names of letters, digits and `_`. Strings that are written as they are contain
/// none of `excludes`; strings within JSON are not checked. Fails with the place in the schema
/// (`/properties/a: ...`): with `invalid` if it is not a schema, with `unsupported` if it requires
/// more of an object or a string than can be enforced.
[[nodiscard]] Expected<NodeId> add_parameters(Rules& rules, const json::Value& schema,
                                              const ParameterStyle& style,
                                              const JsonOptions& options,
                                              const std::vector<std::string>& excludes);

}  // namespace tenon::grammar
