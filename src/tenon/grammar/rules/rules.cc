#include "tenon/grammar/rules/rules.h"

#include <cassert>

namespace tenon::grammar {

NodeId Rules::add(Node node) {
  has_forms_ = has_forms_ || std::holds_alternative<node::Forms>(node);
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Rules::sequence(std::vector<NodeId> parts) {
  return parts.size() == 1 ? parts[0] : add(node::Sequence{std::move(parts)});
}

NodeId Rules::choice(std::vector<NodeId> parts) {
  return parts.size() == 1 ? parts[0] : add(node::Choice{std::move(parts)});
}

NodeId Rules::repeat(NodeId part, std::uint32_t min, std::uint32_t max) {
  return min == 1 && max == 1 ? part : add(node::Repeat{part, min, max});
}

RuleId Rules::declare(std::string name) {
  rules_.push_back({std::move(name), std::nullopt});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Rules::define(RuleId rule, NodeId body) {
  assert(!rules_[rule].body);
  rules_[rule].body = body;
}

std::optional<Rules> Rules::with_one_form(NodeId node::Forms::* part) const {
  if (!has_forms_) return std::nullopt;
  Rules result = *this;
  for (Node& node : result.nodes_) {
    // A sequence of one part, in place, so that all numbers of nodes stay valid.
    if (const auto* forms = std::get_if<node::Forms>(&node)) node = node::Sequence{{forms->*part}};
  }
  result.has_forms_ = false;
  return result;
}

}  // namespace tenon::grammar
