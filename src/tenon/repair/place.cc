#include "tenon/repair/place.h"

#include <algorithm>
#include <utility>

// A schema node with allOf, anyOf or oneOf says several things about one value. A "way" is a list
// of nodes that must all be met: allOf adds its parts to the list, anyOf and oneOf make a copy of
// the list for each of their parts. {"anyOf": [A, B], "allOf": [C]} has the ways {node, C, A} and
// {node, C, B}. That oneOf allows exactly one part does not matter here: a value that has been
// repaired is validated by the whole schema (fits).

namespace tenon::repair {
namespace {

using schema::Node;
using schema::NodeId;
using schema::Schema;
using schema::Types;

// Real schemas have a handful of ways, and references a few levels deep.
constexpr std::size_t kMaxWays = 16;
constexpr std::size_t kMaxNodes = 64;
constexpr unsigned kMaxDepth = 32;

class Expansion {
 public:
  explicit Expansion(const Schema& schema) : schema_(schema) {}

  // Adds a node and its parts to every way; false: there are too many.
  bool add(NodeId id, std::vector<Nodes>& ways, unsigned depth = 0) {
    // References may be recursive, and a node that is in a way already is still visited: only these
    // two limits end that.
    if (depth > kMaxDepth || ++visits_ > kMaxNodes * kMaxWays) return false;
    for (Nodes& way : ways) {
      if (std::ranges::find(way, id) == way.end()) way.push_back(id);
      if (way.size() > kMaxNodes) return false;
    }
    const Node& node = schema_.node(id);
    for (const NodeId part : node.all_of) {
      if (!add(part, ways, depth + 1)) return false;
    }
    return split(node.any_of, ways, depth) && split(node.one_of, ways, depth);
  }

 private:
  bool split(const std::vector<NodeId>& parts, std::vector<Nodes>& ways, unsigned depth) {
    if (parts.empty()) return true;
    std::vector<Nodes> all;
    for (const NodeId part : parts) {
      std::vector<Nodes> with = ways;
      if (!add(part, with, depth + 1)) return false;
      std::ranges::move(with, std::back_inserter(all));
      if (all.size() > kMaxWays) return false;
    }
    ways = std::move(all);
    return true;
  }

  const Schema& schema_;
  std::size_t visits_ = 0;
};

// The types of a node, less those that none of its `enum` or `const` values has.
Types types_of(const Node& node) {
  if (node.values == nullptr) return node.types;
  Types of_values;
  for (const json::Value& value : node.values->values()) {
    of_values = of_values | Types(schema::type_of(value));
  }
  return node.types & of_values;
}

}  // namespace

std::optional<std::vector<Nodes>> ways_of(const Schema& schema, const Nodes& nodes) {
  std::vector<Nodes> ways(1);
  Expansion expansion(schema);
  for (const NodeId node : nodes) {
    if (!expansion.add(node, ways)) return std::nullopt;
  }
  return ways;
}

Types types_of(const Schema& schema, const Nodes& way) {
  Types types = Types::all();
  for (const NodeId node : way) types = types & types_of(schema.node(node));
  return types;
}

// As JSON Schema's applicators say (2020-12, 10.3.2): `properties` and all `patternProperties` that
// match apply, and `additionalProperties` only if none of them does.
Nodes member_of(const Schema& schema, const Nodes& way, std::string_view key) {
  Nodes nodes;
  for (const NodeId id : way) {
    const schema::ObjectRules* rules = schema.node(id).objects.get();
    if (rules == nullptr) continue;
    const schema::Property* property = rules->find(key);
    bool is_named = property != nullptr;
    if (is_named) nodes.push_back(property->node);
    for (const schema::PatternProperty& pattern : rules->pattern_properties) {
      // A pattern over its limits counts as one that does not match.
      if (!pattern.pattern.regex->contains_match(key).value_or(false)) continue;
      is_named = true;
      nodes.push_back(pattern.node);
    }
    if (!is_named && rules->additional) nodes.push_back(*rules->additional);
  }
  return nodes;
}

Nodes item_of(const Schema& schema, const Nodes& way, std::size_t index) {
  Nodes nodes;
  for (const NodeId id : way) {
    const schema::ArrayRules* rules = schema.node(id).arrays.get();
    if (rules == nullptr) continue;
    if (index < rules->prefix.size()) {
      nodes.push_back(rules->prefix[index]);
    } else if (rules->items) {
      nodes.push_back(*rules->items);
    }
  }
  return nodes;
}

Place place_of(const Schema& schema, std::vector<Nodes> choices) {
  Place place;
  Types types;
  for (const Nodes& nodes : choices) {
    const auto ways = ways_of(schema, nodes);
    // One way that says nothing about the value makes the place open: the value may be anything.
    if (nodes.empty() || !ways) return place;
    for (const Nodes& way : *ways) types = types | types_of(schema, way);
  }
  if (choices.empty()) return place;
  std::ranges::sort(choices);
  const auto twice = std::ranges::unique(choices);
  choices.erase(twice.begin(), twice.end());
  return {std::move(choices), types, false};
}

bool fits(const Schema& schema, const Nodes& nodes, const json::Value& value) {
  const schema::ValidateOptions brief{.max_violations = 1,  // it runs on the engine's thread
                                      .limits = {.max_steps = 1'000'000, .max_depth = 1000}};
  return std::ranges::all_of(
      nodes, [&](NodeId node) { return schema.is_valid(node, value, brief).value_or(false); });
}

bool fits(const Schema& schema, const Place& place, const json::Value& value) {
  return std::ranges::any_of(place.choices,
                             [&](const Nodes& nodes) { return fits(schema, nodes, value); });
}

}  // namespace tenon::repair
