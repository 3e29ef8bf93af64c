// Shapes of arrays.

#include <algorithm>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_parts.h"

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

std::vector<ArrayShape> Shapes::rules_of(NodeId id, bool negated, ArrayShape*) {
  const schema::Node& node = terms_.schema().node(id);
  std::vector<ArrayShape> result;
  if (!node.types.contains(Type::array)) {
    return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  }
  if (node.values && negated) return no_values_of<ArrayShape>(id, node.arrays != nullptr);
  if (node.values) {
    result = values_of<ArrayShape>(id);
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
  for (std::size_t i = 0; i < rules.prefix.size(); ++i) {
    ArrayShape shape{.length = {.least = i + 1}};
    shape.prefix.assign(i, Terms::kAnything);
    shape.prefix.push_back(terms_.negation(terms_.node(rules.prefix[i])));
    result.push_back(std::move(shape));
  }
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

void Shapes::forget_evaluated(ArrayShape& shape) {
  shape.evaluated = 0;
  shape.evaluating.clear();
  shape.evaluates_more = false;
}

// At this point it is known what is evaluated inside the node. If it is known only roughly,
// everything that may be evaluated counts as evaluated, and a check decides.
void Shapes::add_unevaluated(NodeId id, std::vector<ArrayShape>& shapes) {
  const schema::Node& node = terms_.schema().node(id);
  for (ArrayShape& shape : shapes) {
    shape.evaluates_more |= terms_.evaluates_more(id);
    if (!node.arrays || !node.arrays->unevaluated) continue;
    if (shape.evaluates_more && !node.values) {
      shape.needs_check = true;
      const std::vector<NodeId> all = terms_.in_place(id);
      spend(all.size());
      for (const NodeId one : all) {
        const auto& rules = terms_.schema().node(one).arrays;
        if (!rules) continue;
        const bool evaluates_all = rules->items || (rules->unevaluated && one != id);
        add_evaluated(*rules, evaluates_all, terms_, shape);
      }
    }
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

ArrayShape Shapes::superset_of(const std::vector<const json::Value*>& values, ArrayShape*) {
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

std::vector<ArrayShape> Shapes::value_of(const json::Value& value, bool negated, ArrayShape*) {
  const json::Array* array = value.if_array();
  if (array == nullptr) return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  std::vector<ArrayShape> result;
  if (!negated) {
    ArrayShape shape{.length = {array->size(), array->size()}};
    for (const json::Value& item : *array) shape.prefix.push_back(terms_.value(item));
    result.push_back(std::move(shape));
    return result;
  }
  if (limits_.excludes_values) return {{.excluded = {&value}}};
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

std::optional<ArrayShape> Shapes::meet(const ArrayShape& a, const ArrayShape& b) {
  const auto length = both(a.length, b.length);
  if (!length) return std::nullopt;
  spend(1 + a.prefix.size() + b.prefix.size() + a.excluded.size() + b.excluded.size());
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
  if (result.contained.size() > limits_.max_counted) {
    result.contained.resize(limits_.max_counted);
    result.needs_check = true;
  }
  merge_sorted(result.excluded, a.excluded);
  merge_sorted(result.excluded, b.excluded);
  const std::size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  for (std::size_t i = 0; i < prefix; ++i) {
    result.prefix.push_back(terms_.all_of({i < a.prefix.size() ? a.prefix[i] : a.items,
                                           i < b.prefix.size() ? b.prefix[i] : b.items}));
  }
  result.items = terms_.all_of({a.items, b.items});
  return result;
}

bool Shapes::is_satisfiable(const ArrayShape& shape) {
  if (!can_end(shape, most_items(shape), 0, std::vector<std::uint64_t>(shape.contained.size()))) {
    return false;
  }
  if (shape.unique && shape.length.least > 1 && !is_sampling_) {
    // As if the items had come before all of them.
    ArrayShape after = shape;
    after.prefix.insert(after.prefix.begin(), Terms::kAnything);
    ++after.length.least;
    if (!spoilers(after, 0, {})) return false;
  }
  return shape.excluded.empty() || has_value_but_excluded(shape);
}

// An item that no value fits ends the array before it.
std::uint64_t Shapes::most_items(const ArrayShape& shape) {
  std::uint64_t most = shape.length.most;
  for (std::size_t i = 0; i < shape.prefix.size() && i < most && !error_; ++i) {
    if (!is_satisfiable(shape.prefix[i])) most = i;
  }
  if (most <= shape.prefix.size()) return most;
  if (!is_satisfiable(shape.items)) return shape.prefix.size();
  if (shape.unique && shape.prefix.empty()) {
    constexpr std::uint64_t kFew = 64;
    if (const auto size = finite_size(shape.items)) {
      most = std::min(most, *size);
    } else if (!is_sampling_ && !is_boundless(shape.items)) {
      const std::uint64_t wanted = std::clamp<std::uint64_t>(shape.length.least + 1, kFew, 1000);
      const Samples& values = values_of_items(shape.items, static_cast<std::size_t>(wanted));
      if (values.is_all) most = std::min<std::uint64_t>(most, values.values.size());
    }
  }
  return most;
}

bool Shapes::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                     std::span<const std::uint64_t> fitting) {
  if (shape.length.least > most || count > most) return false;
  if (shape.unique && !has_enough_values(shape, most, count, fitting)) return false;
  for (std::size_t i = 0; i < shape.contained.size(); ++i) {
    if (!can_end(shape, most, count, shape.contained[i], fitting[i])) return false;
  }
  return true;
}

// Whether there are enough values for items that must differ, some of which are contained and some
// not. Decided only if there is a single kind of each.
bool Shapes::has_enough_values(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                               std::span<const std::uint64_t> fitting) {
  if (is_sampling_ || shape.contained.size() != 1 || !shape.prefix.empty()) return true;
  const ArrayShape::Contained& contained = shape.contained.front();
  if (contained.from > 0) return true;
  constexpr std::uint64_t kFew = 64;
  constexpr std::uint64_t kMany = 1000;
  const std::uint64_t wanted =
      std::clamp(std::max(shape.length.least, contained.counts.least) + 1, kFew, kMany);
  const auto size_of = [&](Term other) {
    const Samples& values =
        values_of_items(terms_.all_of({shape.items, other}), static_cast<std::size_t>(wanted));
    return values.is_all ? values.values.size() : Counts::kUnbounded;
  };
  // From there on they are not counted any more.
  const bool is_settled =
      contained.counts.most == Counts::kUnbounded && fitting[0] >= contained.counts.least;
  const std::uint64_t others = size_of(terms_.negation(contained.term));
  const std::uint64_t most_fitting = std::min(size_of(contained.term), contained.counts.most);
  const std::uint64_t least_fitting = std::max(fitting[0], contained.counts.least);
  const std::uint64_t not_fitting = is_settled ? 0 : count - std::min(fitting[0], count);
  if (least_fitting > most_fitting || not_fitting > others) return false;
  const bool is_open = others == Counts::kUnbounded || most_fitting == Counts::kUnbounded;
  return least_fitting + not_fitting <= most &&
         (is_open || others + most_fitting >= shape.length.least);
}

// Whether `more` items can follow so that the right number of them fits: items that must fit are
// forced hits, items that may fit are possible hits, and any number between is possible.
bool Shapes::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                     const ArrayShape::Contained& contained, std::uint64_t fitting) {
  if (contained.counts.least > contained.counts.most || fitting > contained.counts.most) {
    return false;
  }
  const std::uint64_t least_hits =
      contained.counts.least > fitting ? contained.counts.least - fitting : 0;
  const std::uint64_t most_hits = contained.counts.most == Counts::kUnbounded
                                      ? Counts::kUnbounded
                                      : contained.counts.most - fitting;
  if (count >= shape.length.least && least_hits == 0) return true;
  std::uint64_t forced = 0;
  std::uint64_t possible = 0;
  const std::uint64_t uniform = std::max<std::uint64_t>(shape.prefix.size(), contained.from);
  for (;; ++count) {
    if (count >= shape.length.least && possible >= least_hits) return true;
    if (count >= most || !spend(1)) return false;
    const Term item = count < shape.prefix.size() ? shape.prefix[count] : shape.items;
    if (count < contained.from) {
      if (!is_satisfiable(item)) return false;
      continue;
    }
    const bool may_fit = is_satisfiable(terms_.all_of({item, contained.term}));
    const bool may_not_fit = is_satisfiable(terms_.all_of({item, terms_.negation(contained.term)}));
    if (!may_fit && !may_not_fit) return false;
    if (!may_not_fit && ++forced > most_hits) return false;
    if (may_fit) ++possible;
    if (count < uniform) continue;
    // From here on all items have the same term.
    const std::uint64_t wanted = possible < least_hits ? least_hits - possible : 0;
    if (wanted > 0 && !may_fit) return false;
    const std::uint64_t missing =
        shape.length.least > count + 1 ? shape.length.least - count - 1 : 0;
    const std::uint64_t more = std::max(wanted, missing);
    if (more > most - count - 1) return false;
    return may_not_fit || more <= most_hits - forced;
  }
}

}  // namespace tenon::grammar
