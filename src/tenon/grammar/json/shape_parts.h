#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/grammar/json/shape_rules.h"
#include "tenon/grammar/json/shape_work.h"
#include "tenon/schema/schema.h"

/// Small functions that the sources of shapes share.
namespace tenon::grammar {

/// The intersection of two ranges; nothing if it is empty.
inline std::optional<schema::Counts> both(const schema::Counts& a, const schema::Counts& b) {
  const schema::Counts result{std::max(a.least, b.least), std::min(a.most, b.most)};
  return result.least <= result.most ? std::optional(result) : std::nullopt;
}

/// Whether all counts of `b` are in `a`.
inline bool covers(const schema::Counts& a, const schema::Counts& b) {
  return a.least <= b.least && b.most <= a.most;
}

/// Whether all of `some` are among `all`; both are in order.
template <class T>
bool are_among(const std::vector<T>& some, const std::vector<T>& all) {
  return std::ranges::includes(all, some);
}

/// The counts outside of `counts`.
inline std::vector<schema::Counts> outside(const schema::Counts& counts) {
  std::vector<schema::Counts> result;
  if (counts.least > 0) result.push_back({.least = 0, .most = counts.least - 1});
  if (counts.most != schema::Counts::kUnbounded) result.push_back({.least = counts.most + 1});
  return result;
}

/// Makes `into` the union, in order and without duplicates.
template <class T>
void merge_sorted(std::vector<T>& into, std::vector<T> from) {
  if (from.empty()) return;
  for (std::vector<T>* list : {&into, &from}) {
    if (!std::ranges::is_sorted(*list)) std::ranges::sort(*list);
  }
  std::vector<T> both;
  both.reserve(into.size() + from.size());
  std::ranges::set_union(into, from, std::back_inserter(both));
  both.erase(std::unique(both.begin(), both.end()), both.end());
  into = std::move(both);
}

/// The alternatives of a node with an enum, whose values are validated against the whole node. Many
/// values become one alternative with a check.
template <class Rules>
std::vector<typename Rules::Shape> values_of(Rules& rules, ShapeWork& work, schema::NodeId id) {
  using Shape = typename Rules::Shape;
  const schema::Node& node = work.node(id);
  std::vector<const json::Value*> fitting;
  for (const json::Value& value : node.values->values()) {
    if (rules.value_of(value, false).empty()) continue;
    if (work.is_valid(id, value)) fitting.push_back(&value);
  }
  if (fitting.size() > work.limits().max_alternatives) return {rules.superset_of(fitting)};
  std::vector<Shape> result;
  result.reserve(fitting.size());
  for (const json::Value* value : fitting) {
    result.push_back(std::move(rules.value_of(*value, false).front()));
  }
  return result;
}

/// The values that are not in the enum, or break other rules of the node.
template <class Rules>
std::vector<typename Rules::Shape> no_values_of(Rules& rules, ShapeWork& work, schema::NodeId id,
                                                bool has_rules) {
  using Shape = typename Rules::Shape;
  constexpr std::size_t kMaxProduct = 3;
  std::vector<Shape> result(1);
  std::size_t count = 0;
  for (const json::Value& value : work.node(id).values->values()) {
    if (rules.value_of(value, false).empty()) continue;
    if (work.limits().excludes_values) {
      if (work.is_valid(id, value)) result[0].excluded.push_back(&value);
      continue;
    }
    if (has_rules || ++count > kMaxProduct) {
      result.resize(1);
      result[0] = {};
      result[0].needs_check = true;
      return result;
    }
    std::vector<Shape> next;
    for (const Shape& shape : result) {
      for (const Shape& other : rules.value_of(value, true)) {
        if (auto met = rules.meet(shape, other)) next.push_back(std::move(*met));
      }
    }
    result = std::move(next);
  }
  if (work.limits().excludes_values) std::ranges::sort(result[0].excluded);
  return result;
}

}  // namespace tenon::grammar
