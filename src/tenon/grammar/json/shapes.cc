// Shapes of terms: what a boolean expression over a schema means for each type of value
// (docs/masks.md, "Types are taken apart first"). A term's shapes of one type are a list of
// alternatives, each a conjunction. They are computed from the term's parts: a union joins the
// lists, an intersection is the product of the lists with merged shapes, and a negation is computed
// by De Morgan's laws, where a negated node has one alternative for each rule that may be broken.
// shape_numbers.cc, shape_arrays.cc and shape_objects.cc make and merge the shapes of one type;
// this file has what is the same for all. Strings are languages, so shape_strings.cc needs no lists
// of alternatives.
//
// Products can explode, so their size is limited. Where a limit is reached the alternatives are
// replaced by one that allows more and has needs_check set: the finished value is then compared
// with its term (ShapeWork::fits).
//
// All questions count steps against one limit, after which every answer is quick and meaningless
// and error() is set.

#include "tenon/grammar/json/shapes.h"

#include <algorithm>
#include <type_traits>

#include "tenon/grammar/json/shape_parts.h"

namespace tenon::grammar {

using regex::ExprSet;
using schema::NodeId;

namespace {

void exclude(const json::Value& value, NumberShape& from) {
  if (value.if_number() != nullptr) from.set.excluded.push_back(value.if_number()->text);
}
void exclude(const json::Value& value, ArrayShape& from) {
  if (value.if_array() != nullptr) from.excluded.push_back(&value);
}
void exclude(const json::Value& value, ObjectShape& from) {
  if (value.if_object() != nullptr) from.excluded.push_back(&value);
}
std::vector<std::string>& excluded_of(NumberShape& shape) {
  return shape.set.excluded;
}
template <class Shape>
std::vector<const json::Value*>& excluded_of(Shape& shape) {
  return shape.excluded;
}

}  // namespace

template <class Rules>
const std::vector<typename Rules::Shape>& TermShapes<Rules>::of(Term term) {
  if (const auto known = possible_.find(term); known != possible_.end()) return known->second;
  const Alternatives& found = alternatives(term);
  std::vector<Shape> shapes;
  if (found) {
    std::vector<Shape> apart = uncovered(*found);
    Rules::join_checked(apart);
    for (Shape& shape : apart) {
      if (shapes_.is_satisfiable(shape)) shapes.push_back(std::move(shape));
    }
  } else {
    shapes.emplace_back().needs_check = true;
  }
  return possible_.emplace(term, std::move(shapes)).first->second;
}

template <class Rules>
const typename TermShapes<Rules>::Alternatives& TermShapes<Rules>::alternatives(Term term,
                                                                                bool negated) {
  const auto known = alternatives_.find({term, negated});
  if (known != alternatives_.end()) return known->second;
  Alternatives result = compute(term, negated);
  return alternatives_.emplace(Part(term, negated), std::move(result)).first->second;
}

template <class Rules>
typename TermShapes<Rules>::Alternatives TermShapes<Rules>::compute(Term term, bool negated) {
  const std::vector<Shape> everything(1);
  switch (shapes_.terms().kind(term)) {
    case Terms::Kind::nothing:
      return negated ? everything : std::vector<Shape>{};
    case Terms::Kind::anything:
      return negated ? std::vector<Shape>{} : everything;
    case Terms::Kind::node: {
      const ShapeWork::Level level(shapes_.work);
      if (!level) return std::nullopt;
      Alternatives meant = alternatives(shapes_.work.definition(term), negated);
      if (!meant) meant = checked(shapes_.terms().node_of(term), negated);
      if (!negated) rules_.add_unevaluated(shapes_.terms().node_of(term), *meant);
      return meant;
    }
    case Terms::Kind::rules:
      return rules_.rules_of(shapes_.terms().node_of(term), negated);
    case Terms::Kind::value:
      return rules_.value_of(shapes_.terms().value_of(term), negated);
    case Terms::Kind::negation: {
      Alternatives result = alternatives(shapes_.terms().parts_of(term)[0], !negated);
      if (result && !negated) {
        for (Shape& shape : *result) Rules::forget_evaluated(shape);
      }
      return result;
    }
    case Terms::Kind::all_of:
    case Terms::Kind::any_of:
      break;
  }
  const ShapeWork::Level level(shapes_.work);
  if (!level) return std::nullopt;
  const auto span = shapes_.terms().parts_of(term);
  std::vector<Part> parts;
  for (const Term part : span) parts.emplace_back(part, negated);
  if ((shapes_.terms().kind(term) == Terms::Kind::all_of) != negated) return conjunction(parts);
  return joined(parts);
}

template <class Rules>
typename TermShapes<Rules>::Alternatives TermShapes<Rules>::joined(const std::vector<Part>& parts) {
  std::vector<Shape> result;
  for (const auto& [part, sign] : parts) {
    const Alternatives& found = alternatives(part, sign);
    if (!found || !shapes_.spend(1 + found->size())) return std::nullopt;
    result.insert(result.end(), found->begin(), found->end());
    if (result.size() > shapes_.work.limits().max_union) rules_.unite(result);
    if (result.size() > shapes_.work.limits().max_union) return std::nullopt;
  }
  rules_.unite(result);
  return result;
}

// The replacement for a node with too many alternatives: its own rules, and a check.
template <class Rules>
typename TermShapes<Rules>::Alternatives TermShapes<Rules>::checked(NodeId id, bool negated) {
  Shape check;
  check.needs_check = true;
  if constexpr (!std::is_same_v<Shape, NumberShape>) check.evaluates_more = true;
  if (negated) return std::vector<Shape>{check};
  const Alternatives& own = alternatives(shapes_.terms().rules(id), false);
  std::vector<Shape> result;
  for (const Shape& shape : *own) {
    if (auto met = rules_.meet(shape, check)) result.push_back(std::move(*met));
  }
  return result;
}

// A product that is too large is made once more, the smallest factors first and tidied up in
// between: bounds leave little of what unions of multiples are alone.
template <class Rules>
typename TermShapes<Rules>::Alternatives TermShapes<Rules>::conjunction(
    const std::vector<Part>& parts) {
  std::vector<Part> order = parts;
  std::stable_partition(order.begin(), order.end(),
                        [&](const Part& part) { return !is_negative(part); });
  Shape but = without_values(order);
  bool is_large = false;
  Alternatives result = product(order, false, is_large);
  if (is_large) {
    const auto size_of = [&](const Part& part) {
      const Alternatives& found = alternatives(part.first, part.second);
      return found ? found->size() : ~std::size_t{0};
    };
    const auto end = std::find_if(order.begin(), order.end(),
                                  [&](const Part& part) { return is_negative(part); });
    std::ranges::stable_sort(order.begin(), end, {}, size_of);
    result = product(order, true, is_large);
  }
  if (!result || excluded_of(but).empty()) return result;
  std::vector<Shape> rest;
  for (const Shape& shape : *result) {
    if (auto met = rules_.meet(shape, but)) rest.push_back(std::move(*met));
  }
  return rest;
}

template <class Rules>
bool TermShapes<Rules>::is_negative(const Part& part) {
  return (shapes_.terms().kind(part.first) == Terms::Kind::negation) != part.second;
}

// The product of alternatives. If a negated part has nothing in common with an alternative, that
// alternative stays as it is. So `oneOf` with disjoint branches stays as small as `anyOf`.
// `is_large`: there would be too many, tidied up or not.
template <class Rules>
typename TermShapes<Rules>::Alternatives TermShapes<Rules>::product(const std::vector<Part>& order,
                                                                    bool is_tidied,
                                                                    bool& is_large) {
  const ShapeWork::Limits& limits = shapes_.work.limits();
  std::vector<Shape> result(1);
  std::size_t tests = 0;
  is_large = false;
  for (const auto& part : order) {
    if (!shapes_.spend(1 + result.size())) return std::nullopt;
    std::vector<Shape> next;
    const Alternatives* opposite = nullptr;
    if (is_negative(part)) {
      opposite = &alternatives(part.first, !part.second);
    }
    const Alternatives* found = nullptr;
    // A union with a single shape does not grow; products do.
    std::size_t most =
        std::max(is_tidied ? limits.max_tidied : limits.max_alternatives, result.size());
    for (const Shape& shape : result) {
      if (opposite != nullptr && *opposite) {
        if (tests > limits.max_tests || !shapes_.work.may_test()) return std::nullopt;
      }
      if (opposite != nullptr && *opposite &&
          std::ranges::none_of(**opposite, [&](const Shape& other) {
            const std::uint64_t before = shapes_.work.spent();
            const auto met = rules_.meet(shape, other);
            const bool is_possible = met && !is_surely_impossible(*met);
            tests += shapes_.work.count_test(shapes_.work.spent() - before);
            return is_possible;
          })) {
        next.push_back(shape);
        continue;
      }
      if (found == nullptr) found = &alternatives(part.first, part.second);
      if (!*found) return std::nullopt;
      most = std::max(most, (*found)->size());
      for (const Shape& other : **found) {
        if (auto met = rules_.meet(shape, other)) next.push_back(std::move(*met));
        if (next.size() <= most) continue;
        if (is_tidied) tidy(next);
        is_large = next.size() > most;
        if (is_large) return std::nullopt;
      }
    }
    if (is_tidied) tidy(next);
    result = std::move(next);
    if (result.empty()) break;
  }
  return result;
}

// Leaves out shapes that no value fits and those that another shape covers.
template <class Rules>
void TermShapes<Rules>::tidy(std::vector<Shape>& shapes) {
  rules_.list_few(shapes);
  rules_.unite(shapes);
  std::vector<Shape> kept;
  for (Shape& shape : uncovered(std::move(shapes))) {
    if (shapes_.work.may_test() && is_surely_impossible(shape)) continue;
    kept.push_back(std::move(shape));
  }
  shapes = std::move(kept);
}

// A union without the shapes that another one covers.
template <class Rules>
std::vector<typename Rules::Shape> TermShapes<Rules>::uncovered(std::vector<Shape> shapes) {
  std::vector<Shape> kept;
  for (Shape& shape : shapes) {
    if (!shapes_.spend(1 + kept.size())) break;
    const auto covers_it = [&](const Shape& other) { return Rules::covers(other, shape); };
    if (std::ranges::any_of(kept, covers_it)) continue;
    std::erase_if(kept, [&](const Shape& other) { return Rules::covers(shape, other); });
    kept.push_back(std::move(shape));
  }
  return kept;
}

// Removes all excluded values from `parts` at once, because items that must differ from earlier
// ones have many.
template <class Rules>
typename Rules::Shape TermShapes<Rules>::without_values(std::vector<Part>& parts) {
  Shape but;
  if constexpr (!std::is_same_v<Shape, NumberShape>) {
    if (!shapes_.work.limits().excludes_values) return but;
  }
  const auto is_no_value = [&](const Part& part) {
    const bool is_negation = shapes_.terms().kind(part.first) == Terms::Kind::negation;
    const Term term = is_negation ? shapes_.terms().parts_of(part.first)[0] : part.first;
    if (shapes_.terms().kind(term) != Terms::Kind::value || is_negation == part.second)
      return false;
    exclude(shapes_.terms().value_of(term), but);
    return true;
  };
  std::erase_if(parts, is_no_value);
  std::ranges::sort(excluded_of(but));
  return but;
}

// An answer that depends on an open term being unsatisfiable is not kept.
template <class Rules>
bool TermShapes<Rules>::is_surely_impossible(const Shape& shape) {
  const Assumptions::Watch assumed(shapes_.assumptions);
  return !shapes_.satisfiable.by_required(shape) && !assumed.has_some();
}

template class TermShapes<NumberShapes>;
template class TermShapes<ArrayShapes>;
template class TermShapes<ObjectShapes>;

// ---- All parts ----------------------------------------------------------------------------------

// `work` comes first, because the constructors of the others use it. They only keep references to
// each other, so their own order does not matter.
Shapes::Shapes(std::shared_ptr<const schema::Schema> schema, const Limits& exprs,
               const ShapeWork::Limits& limits)
    : work(std::move(schema), exprs, limits),
      constants(work),
      strings(work),
      number_rules(work),
      array_rules(work),
      object_rules(work, strings, objects),
      numbers(*this, number_rules),
      arrays(*this, array_rules),
      objects(*this, object_rules),
      names(*this),
      satisfiable(*this),
      values(*this) {}

void Shapes::check() {
  for (NodeId id = 0; id < terms().schema().size() && !error(); ++id) {
    if (work.node(id).numbers) number_rules.check_places(work.node(id));
  }
}

std::vector<Relaxed> Shapes::relax() {
  std::vector<Relaxed> relaxed;
  for (NodeId id = 0; id < terms().schema().size(); ++id) {
    const schema::Node& node = work.node(id);
    if (node.numbers) {
      for (const auto& [keyword, error] : NumberShapes::too_long(*node.numbers)) {
        relaxed.push_back({node.location, keyword, error.message});
      }
    }
    if (!node.strings || !node.strings->pattern) continue;
    if (const auto error = strings.relax(node.strings->pattern->text)) {
      relaxed.push_back({node.location, "pattern", error->message});
    }
  }
  number_rules.relax();
  return relaxed;
}

}  // namespace tenon::grammar
