#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/grammar_text_values.h"
#include "tenon/format/value_style.h"
#include "tenon/json/value.h"

/// Values in a ValueStyle: Python's notation, and that of `${members}`. Lists, objects and
/// references are written as the schema says; what it does not say is any value.
namespace tenon::format {

class StyledValueGrammar : protected TextValueGrammar {
 public:
  using TextValueGrammar::TextValueGrammar;

 protected:
  static constexpr int kMaxDepth = 50;

  NodeId keywords(bool is_behind_paren = false);
  NodeId keyword_value(const json::Value& schema);
  NodeId members_object();
  /// The properties of an object, with a separator between those that are there: in their order, or
  /// in any order if the options say so and the orders are few enough to write down.
  template <class F>
  NodeId members(const json::Object& properties, const std::vector<std::string_view>& required,
                 std::string_view separator, F member_of) {
    std::vector<NodeId> parts;
    std::vector<bool> must;
    for (const json::Member& property : properties) {
      parts.push_back(is_nothing(property.value) ? rules_.choice({}) : member_of(property));
      must.push_back(std::ranges::find(required, property.key) != required.end());
    }
    constexpr std::size_t kFew = 6;
    const bool any_order = options_.json.property_order == JsonOptions::PropertyOrder::any;
    return any_order && parts.size() <= kFew ? in_any_order(parts, must, separator)
                                             : in_order(parts, must, separator);
  }
  NodeId in_order(const std::vector<NodeId>& parts, const std::vector<bool>& must,
                  std::string_view separator);
  NodeId in_any_order(const std::vector<NodeId>& parts, const std::vector<bool>& must,
                      std::string_view separator);
  NodeId separated(NodeId item, std::string_view separator, std::uint32_t min, std::uint32_t max);
  NodeId value(const json::Value& reference, int depth);
  NodeId referred(const json::Value& schema, int depth);
  NodeId plain_value(const json::Value& schema, int depth);
  NodeId value_of_type(const json::Value& schema, Types type, int depth);
  NodeId items(const json::Value& schema, int depth);
  NodeId pairs(NodeId key, std::string_view colon, const json::Value& schema, int depth);
  NodeId any_key() { return style_.has_bare_keys ? name_node() : any_text(); }
  NodeId any_text();
  NodeId object(const json::Value& schema, int depth);
  NodeId written(const json::Value& value);
  NodeId written_key(const std::string& key);
  NodeId written_text(const std::string& text);
  NodeId quoted(const json::Value& schema);
  NodeId single_quoted(const json::Value& schema);
  static bool says_length_and_pattern_only(const json::Value& schema);
  NodeId any_value();
  NodeId any_object();

  ValueStyle style_;  // of values that are not written as JSON
  std::optional<grammar::RuleId> any_value_;
};

}  // namespace tenon::format
