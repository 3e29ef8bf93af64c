// Sets of nodes are found like reachable vertices, but with counts: each node knows how many of its
// parts are missing, and joins the set when that is 0 (settled_nodes). Each edge is looked at once,
// so it takes linear time, also where rules contain themselves, and no recursion. A choice waits
// for one part and a sequence for all; what begins with nothing missing is a literal, for example.

#include "tenon/grammar/print/outline.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {

std::vector<NodeId> parts_of(const Rules& rules, NodeId id) {
  const Node& node = rules.node(id);
  if (const auto* sequence = std::get_if<node::Sequence>(&node)) return sequence->parts;
  if (const auto* choice = std::get_if<node::Choice>(&node)) return choice->parts;
  if (const auto* repeat = std::get_if<node::Repeat>(&node)) return {repeat->part};
  if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) return {lexeme->part};
  if (const auto* both = std::get_if<node::Both>(&node)) return both->parts;
  if (const auto* complement = std::get_if<node::Complement>(&node)) return {complement->part};
  if (const auto* rule = std::get_if<node::Rule>(&node)) {
    const auto body = rules.rule(rule->rule).body;
    return body ? std::vector{*body} : std::vector<NodeId>{};
  }
  return {};
}

std::vector<bool> settled_nodes(const Rules& rules,
                                const std::function<std::size_t(NodeId, std::size_t)>& needed) {
  std::vector<bool> is_settled(rules.node_count());
  std::vector<std::vector<NodeId>> users(rules.node_count());
  std::vector<std::size_t> missing(rules.node_count());
  std::vector<NodeId> todo;
  const auto settle = [&](NodeId id) {
    is_settled[id] = true;
    todo.push_back(id);
  };
  for (NodeId id = 0; id < rules.node_count(); ++id) {
    const std::vector<NodeId> parts = parts_of(rules, id);
    for (const NodeId part : parts) users[part].push_back(id);
    missing[id] = needed(id, parts.size());
    if (missing[id] == 0) settle(id);
  }
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    for (const NodeId user : users[id]) {
      if (missing[user] == 0 || missing[user] == kNever) continue;
      if (--missing[user] == 0) settle(user);
    }
  }
  return is_settled;
}

namespace {

// A choice needs one of its parts, a repetition that may be empty none, every other node all parts.
std::vector<bool> nodes_with_texts(const Rules& rules, bool must_be_empty) {
  return settled_nodes(rules, [&](NodeId id, std::size_t parts) -> std::size_t {
    const Node& node = rules.node(id);
    if (const auto* literal = std::get_if<node::Literal>(&node)) {
      return must_be_empty && !literal->bytes.empty() ? kNever : 0;
    }
    if (const auto* characters = std::get_if<node::Characters>(&node)) {
      return must_be_empty || characters->set.is_empty() ? kNever : 0;
    }
    if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
      if (repeat->max < repeat->min) return kNever;
      return repeat->min == 0 ? 0 : 1;
    }
    if (const auto* token = std::get_if<node::Token>(&node)) {
      const bool has_any = token->is_negated || !token->names.empty() || !token->ids.empty();
      return must_be_empty || !has_any ? kNever : 0;
    }
    if (std::holds_alternative<node::Choice>(node) || std::holds_alternative<node::Rule>(node)) {
      return parts == 0 ? kNever : 1;
    }
    // A leaf of any other kind (a pattern, JSON) has texts; whether the empty one is among
    // them is not looked into. A sequence without parts is the empty text.
    if (parts == 0 && !std::holds_alternative<node::Sequence>(node)) {
      return must_be_empty ? kNever : 0;
    }
    return parts;
  });
}

}  // namespace

std::vector<bool> productive_nodes(const Rules& rules) {
  return nodes_with_texts(rules, false);
}
std::vector<bool> nullable_nodes(const Rules& rules) {
  return nodes_with_texts(rules, true);
}

std::vector<std::uint32_t> use_counts(const Rules& rules, const std::vector<bool>& is_productive) {
  std::vector<std::uint32_t> counts(rules.node_count());
  if (!is_productive[rules.root()]) return counts;
  std::vector<NodeId> todo{rules.root()};
  counts[rules.root()] = 1;
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    for (const NodeId part : parts_of(rules, id)) {
      if (is_productive[part] && counts[part]++ == 0) todo.push_back(part);
    }
  }
  return counts;
}

// "get weather!" becomes "get-weather" with the filler "-"; a second one "get-weather-2", an empty
// one "rule", "2nd" becomes "r2nd".
std::string Names::make(std::string_view wish) {
  std::string name;
  for (const char c : wish) {
    const char spelled = spelling_(c);
    if (spelled != 0) {
      name += spelled;
    } else if (!name.empty() && name.back() != filler_) {
      name += filler_;
    }
  }
  while (!name.empty() && name.back() == filler_) name.pop_back();
  const bool begins_well = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  if (!begins_well) name.insert(0, name.empty() ? "rule" : "r");
  // What was put in front has the case of the language too: terminals of Lark are in capitals.
  for (char& c : name) {
    if (spelling_(c) != 0) c = spelling_(c);
  }
  // The last number of a name is kept, so that many equal wishes do not try all numbers each time.
  std::string unique = name;
  for (std::size_t& last = last_[name]; !taken_.insert(unique).second;) {
    last = std::max<std::size_t>(last, 1) + 1;
    unique = name + filler_ + std::to_string(last);
  }
  return unique;
}

namespace {

std::string quantifier(std::uint32_t min, std::uint32_t max) {
  if (max == node::kUnbounded) {
    return min == 0 ? "*" : min == 1 ? "+" : "{" + std::to_string(min) + ",}";
  }
  if (min == 0 && max == 1) return "?";
  if (min == max) return min == 1 ? "" : "{" + std::to_string(min) + "}";
  return "{" + std::to_string(min) + "," + std::to_string(max) + "}";
}

}  // namespace

std::string with_quantifier(std::string text, std::uint32_t min, std::uint32_t max) {
  const std::string times = quantifier(min, max);
  // Behind a repetition another sign may mean something else (x*? is lazy in a regex), so the first
  // one gets parentheses.
  const bool is_repeated = std::string_view("*+?}").find(text.back()) != std::string_view::npos;
  return (is_repeated && !times.empty() ? "(" + std::move(text) + ")" : std::move(text)) + times;
}

}  // namespace tenon::grammar
