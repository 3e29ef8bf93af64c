// Shapes of arrays. What a node demands is one shape. What breaks it is a list of shapes, one for
// each rule and each way to break it: arrays that break several rules fit several shapes, which is
// allowed. Where a shape cannot say how a rule is broken (two items that are equal, items that are
// not evaluated), it allows more and asks for a check of the finished value.

#include <algorithm>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shape_rules.h"

namespace tenon::grammar {

using schema::Counts;
using schema::NodeId;
using schema::Type;

namespace {

// Adds the items that a node's rules evaluate.
void add_evaluated(const schema::ArrayRules& rules, bool all, Terms& terms, ArrayShape& shape) {
  shape.evaluated = std::max(shape.evaluated, all ? Counts::kUnbounded : rules.prefix.size());
  if (rules.contains && rules.contains_evaluates) {
    merge_sorted(shape.evaluating, {terms.node(*rules.contains)});
  }
}

}  // namespace

std::vector<ArrayShape> ArrayShapes::rules_of(NodeId id, bool negated) {
  const schema::Node& node = work_.node(id);
  std::vector<ArrayShape> result;
  if (!node.types.contains(Type::array)) {
    // A shape without rules has all arrays.
    return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  }
  if (node.values && negated) return no_values_of(*this, work_, id, node.arrays != nullptr);
  if (node.values) {
    result = values_of(*this, work_, id);
    for (ArrayShape& shape : result) shape.evaluates_more = node.arrays != nullptr;
    return result;
  }
  if (!node.arrays) return std::vector<ArrayShape>(negated ? 0 : 1);
  const schema::ArrayRules& rules = *node.arrays;
  const auto counts_items = [&] { return rules.contains && rules.contained != Counts{}; };
  if (!negated) {
    ArrayShape shape{.length = rules.length};
    for (const NodeId item : rules.prefix) shape.prefix.push_back(terms_.node(item));
    if (rules.items) shape.items = terms_.node(*rules.items);
    if (counts_items()) {
      shape.contained.push_back({.term = terms_.node(*rules.contains), .counts = rules.contained});
    }
    shape.unique = rules.unique;
    add_evaluated(rules, rules.items.has_value(), terms_, shape);
    return {std::move(shape)};
  }
  for (const Counts& counts : outside(rules.length)) result.push_back({.length = counts});
  // Item i is there and wrong, whatever stands before it.
  for (std::size_t i = 0; i < rules.prefix.size(); ++i) {
    ArrayShape shape{.length = {.least = i + 1}};
    shape.prefix.assign(i, Terms::kAnything);
    shape.prefix.push_back(terms_.negation(terms_.node(rules.prefix[i])));
    result.push_back(std::move(shape));
  }
  // At least one of the items behind the prefix is wrong: it does not matter which.
  if (rules.items) {
    const Term violated = terms_.negation(terms_.node(*rules.items));
    result.push_back(
        {.contained = {{.term = violated, .from = rules.prefix.size(), .counts = {.least = 1}}}});
  }
  if (counts_items()) {
    const Term term = terms_.node(*rules.contains);
    for (const Counts& counts : outside(rules.contained)) {
      result.push_back({.contained = {{.term = term, .counts = counts}}});
    }
  }
  if (rules.unevaluated) result.push_back({.needs_check = true});
  if (rules.unique) result.push_back({.length = {.least = 2}, .needs_check = true});
  return result;
}

void ArrayShapes::forget_evaluated(ArrayShape& shape) {
  shape.evaluated = 0;
  shape.evaluating.clear();
  shape.evaluates_more = false;
}

// At this point it is known what is evaluated inside the node. If it is known only roughly,
// everything that may be evaluated counts as evaluated, and a check decides.
void ArrayShapes::add_unevaluated(NodeId id, std::vector<ArrayShape>& shapes) {
  const schema::Node& node = work_.node(id);
  for (ArrayShape& shape : shapes) {
    shape.evaluates_more |= terms_.evaluates_more(id);
    if (!node.arrays || !node.arrays->unevaluated) continue;
    if (shape.evaluates_more && !node.values) {
      shape.needs_check = true;
      const std::vector<NodeId> all = terms_.in_place(id);
      work_.spend(all.size());
      for (const NodeId one : all) {
        const auto& rules = work_.node(one).arrays;
        if (!rules) continue;
        const bool evaluates_all = rules->items || (rules->unevaluated && one != id);
        add_evaluated(*rules, evaluates_all, terms_, shape);
      }
    }
    // An item that is not evaluated by its place may still be evaluated because it fits `contains`.
    if (!node.values && shape.evaluated != Counts::kUnbounded) {
      std::vector<Term> fitting = shape.evaluating;
      fitting.push_back(terms_.node(*node.arrays->unevaluated));
      const Term rest = terms_.any_of(std::move(fitting));
      const auto first = static_cast<std::size_t>(shape.evaluated);
      if (shape.prefix.size() < first) shape.prefix.resize(first, shape.items);
      for (std::size_t i = first; i < shape.prefix.size(); ++i) {
        shape.prefix[i] = terms_.all_of({shape.prefix[i], rest});
      }
      shape.items = terms_.all_of({shape.items, rest});
    }
    shape.evaluated = Counts::kUnbounded;
    shape.evaluates_more = false;
  }
}

// Looks at each place by itself, so it also has mixtures of the values; the check takes them out.
ArrayShape ArrayShapes::superset_of(const std::vector<const json::Value*>& values) {
  ArrayShape shape{.length = {.least = Counts::kUnbounded, .most = 0}, .needs_check = true};
  std::vector<std::vector<Term>> items;
  for (const json::Value* value : values) {
    const json::Array& array = *value->if_array();
    shape.length.least = std::min<std::uint64_t>(shape.length.least, array.size());
    shape.length.most = std::max<std::uint64_t>(shape.length.most, array.size());
    items.resize(shape.length.most);
    for (std::size_t i = 0; i < array.size(); ++i) items[i].push_back(terms_.value(array[i]));
  }
  for (std::vector<Term>& item : items) shape.prefix.push_back(terms_.any_of(std::move(item)));
  return shape;
}

std::vector<ArrayShape> ArrayShapes::value_of(const json::Value& value, bool negated) {
  const json::Array* array = value.if_array();
  if (array == nullptr) return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  std::vector<ArrayShape> result;
  if (!negated) {
    ArrayShape shape{.length = {array->size(), array->size()}};
    for (const json::Value& item : *array) shape.prefix.push_back(terms_.value(item));
    result.push_back(std::move(shape));
    return result;
  }
  if (work_.limits().excludes_values) return {{.excluded = {&value}}};
  for (const Counts& counts : outside({array->size(), array->size()})) {
    result.push_back({.length = counts});
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    ArrayShape shape{.length = {.least = i + 1}};
    shape.prefix.assign(i, Terms::kAnything);
    shape.prefix.push_back(terms_.negation(terms_.value((*array)[i])));
    result.push_back(std::move(shape));
  }
  return result;
}

bool ArrayShapes::covers(const ArrayShape& a, const ArrayShape& b) {
  if (a.needs_check || !grammar::covers(a.length, b.length) || (a.unique && !b.unique) ||
      !are_among(a.excluded, b.excluded) || a.evaluated != b.evaluated ||
      a.evaluating != b.evaluating || a.evaluates_more != b.evaluates_more) {
    return false;
  }
  const auto is_in_b = [&](const ArrayShape::Contained& contained) {
    return std::ranges::find(b.contained, contained) != b.contained.end();
  };
  const bool are_same_items = a.prefix == b.prefix && a.items == b.items;
  const bool are_any_items = a.prefix.empty() && a.items == Terms::kAnything;
  return (are_same_items || are_any_items) && std::ranges::all_of(a.contained, is_in_b);
}

std::optional<ArrayShape> ArrayShapes::meet(const ArrayShape& a, const ArrayShape& b) {
  const auto length = both(a.length, b.length);
  if (!length) return std::nullopt;
  work_.spend(1 + a.prefix.size() + b.prefix.size() + a.excluded.size() + b.excluded.size());
  ArrayShape result{.length = *length,
                    .contained = a.contained,
                    .unique = a.unique || b.unique,
                    .needs_check = a.needs_check || b.needs_check,
                    .evaluated = std::max(a.evaluated, b.evaluated),
                    .evaluating = a.evaluating,
                    .evaluates_more = a.evaluates_more || b.evaluates_more};
  merge_sorted(result.evaluating, b.evaluating);
  for (const ArrayShape::Contained& contained : b.contained) {
    if (std::ranges::find(result.contained, contained) == result.contained.end()) {
      result.contained.push_back(contained);
    }
  }
  // Each count multiplies the states in which an array can be.
  if (result.contained.size() > work_.limits().max_counted) {
    result.contained.resize(work_.limits().max_counted);
    result.needs_check = true;
  }
  merge_sorted(result.excluded, a.excluded);
  merge_sorted(result.excluded, b.excluded);
  // Behind the shorter prefix, the `items` of that shape apply to the places of the longer one.
  const std::size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  for (std::size_t i = 0; i < prefix; ++i) {
    result.prefix.push_back(terms_.all_of({i < a.prefix.size() ? a.prefix[i] : a.items,
                                           i < b.prefix.size() ? b.prefix[i] : b.items}));
  }
  result.items = terms_.all_of({a.items, b.items});
  return result;
}

}  // namespace tenon::grammar
