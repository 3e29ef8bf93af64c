#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tenon/format/grammar_styled_values.h"
#include "tenon/json/value.h"

/// Parameters that are written one by one, each between the format's markers. A value is text,
/// JSON, or again such elements.
namespace tenon::format {

class ParameterGrammar : protected StyledValueGrammar {
 public:
  using StyledValueGrammar::StyledValueGrammar;

 protected:
  NodeId parameters();
  NodeId parameters_of(const json::Value& reference, int depth);
  NodeId others_of(const json::Value& schema, int depth, std::uint32_t least);
  NodeId elements_of(const json::Value& schema, int depth);
  NodeId parameter(NodeId key, const std::optional<std::string>& name, const json::Value& schema,
                   int depth);
  NodeId parameter(NodeId key, const std::optional<std::string>& name, const json::Value& schema,
                   Types types, int depth, bool is_one_type = false);
  NodeId other_value(const json::Value& reference, Types type, int depth);
  NodeId raw_value(const json::Value& reference, int depth, bool may_be_empty);
  NodeId in_notation(const json::Value& reference, int depth);
  NodeId element(const json::Value& schema, int depth, bool may_be_empty);
  NodeId any_elements();
  NodeId any_element(NodeId key);

  std::optional<grammar::RuleId> any_elements_;
};

}  // namespace tenon::format
