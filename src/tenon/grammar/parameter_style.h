#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json_frames.h"
#include "tenon/grammar/rules.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// How an object is written one member after the other, by the names that xgrammar has for it:
///
///     qwen_xml    <parameter=city>Oslo</parameter><parameter=days>3</parameter>
///     glm_xml     <arg_key>city</arg_key><arg_value>Oslo</arg_value>
struct ParameterStyle {
  /// What a member's head tells of its value beside the name.
  enum class Told : std::uint8_t {
    nothing,
    is_string,  ///< string="true" or "false".
    type,       ///< type="number", of JSON's types.
    sort,       ///< type="raw", "json", "dict" or "list"; members of the last two nest.
  };
  std::string_view name;
  std::string_view open;   ///< Before the name.
  std::string_view named;  ///< Behind it, and behind what else the head tells.
  std::string_view value;  ///< Before the value, with white space in between; "": nothing.
  std::string_view close;
  Told told = Told::nothing;
};

/// Null: there is no such style.
[[nodiscard]] const ParameterStyle* find_parameter_style(std::string_view name);
/// The names, as a sentence has them.
[[nodiscard]] std::string parameter_style_names();

/// Adds the objects of a JSON Schema and returns their node. Strings are written as they are, up to
/// what closes the member, other values as JSON. Members come in the schema's order (with
/// PropertyOrder::any in any), those that it does not declare after them, where
/// `additionalProperties` lets them, with names of letters, digits and `_`. Strings that are
/// written as they are hold none of `excludes`; those within JSON are not looked at. Fails with the
/// place in the schema (`/properties/a: ...`): with `invalid` where it is none, with `unsupported`
/// where it says more of an object, or of a string, than can be kept.
[[nodiscard]] Expected<NodeId> add_parameters(Rules& rules, const json::Value& schema,
                                              const ParameterStyle& style,
                                              const JsonOptions& options,
                                              const std::vector<std::string>& excludes);

}  // namespace tenon::grammar
