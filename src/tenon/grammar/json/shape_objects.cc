// Shapes of objects. rules_of() makes them from a node, meet() joins the lists
// of rules of two shapes, and a negation has one alternative for each rule that an object can
// break: a missing name, a property that does not fit, a count, a name that does not fit.
//
// The frame that reads an object asks object_names.cc what its names are.
//
// What a node evaluates is known only after its alternatives, so add_unevaluated runs last.

#include <algorithm>
#include <map>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shape_rules.h"
#include "tenon/grammar/json/shapes.h"

namespace tenon::grammar {

using regex::Expr;
using regex::ExprSet;
using schema::Counts;
using schema::NodeId;
using schema::Type;

namespace {

// The meaning of `dependents`: the name is missing, or the whole object fits.
ObjectShape with(const std::string& name, Term term) {
  ObjectShape shape;
  shape.extra[name] = term;
  if (term != Terms::kNothing) shape.required = {name};
  return shape;
}
ObjectShape without(const std::string& name) {
  return with(name, Terms::kNothing);
}

}  // namespace

std::vector<ObjectShape> ObjectShapes::rules_of(NodeId id, bool negated) {
  const schema::Node& node = work_.node(id);
  std::vector<ObjectShape> result;
  if (!node.types.contains(Type::object)) {
    return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  }
  if (negated) return broken_rules_of(id);
  if (node.values) {
    result = values_of(*this, work_, id);
    for (ObjectShape& shape : result) {
      shape.evaluates_more = node.objects != nullptr || !node.dependents.empty();
    }
    return result;
  }
  result.emplace_back();
  if (node.objects) {
    const schema::ObjectRules& rules = *node.objects;
    ObjectShape& shape = result.back();
    if (rules.has_properties || !rules.pattern_properties.empty() || rules.additional ||
        rules.unevaluated) {
      shape.rules.push_back(id);
      if (terms_.is_asked(id)) shape.evaluating.push_back(id);
    }
    merge_sorted(shape.required, rules.required);
    if (rules.names) {
      shape.names.push_back(terms_.node(*rules.names));
      shape.needs_check = strings_.needs_check(shape.names.back());
    }
    shape.count = rules.count;
  }
  // Replaces each alternative by those without `name`, and those with it that fit one of `present`.
  const auto split = [&](const std::string& name, const std::vector<ObjectShape>& present) {
    if (result.size() * (present.size() + 1) > work_.limits().max_alternatives) {
      for (ObjectShape& shape : result) shape.needs_check = shape.evaluates_more = true;
      return;
    }
    std::vector<ObjectShape> next;
    for (const ObjectShape& shape : result) {
      if (auto met = meet(shape, without(name))) next.push_back(std::move(*met));
      for (const ObjectShape& other : present) {
        if (auto met = meet(shape, other)) next.push_back(std::move(*met));
      }
    }
    result = std::move(next);
  };
  if (node.objects) {
    for (const schema::DependentNames& names : node.objects->dependent_names) {
      ObjectShape present = with(names.name, Terms::kAnything);
      merge_sorted(present.required, names.required);
      split(names.name, {present});
    }
  }
  for (const schema::DependentNode& dependent : node.dependents) {
    const auto& inner = shapes_.alternatives(terms_.node(dependent.node), false);
    std::vector<ObjectShape> present;
    if (!inner) {
      for (ObjectShape& shape : result) shape.needs_check = shape.evaluates_more = true;
      continue;
    }
    for (const ObjectShape& shape : *inner) {
      if (auto met = meet(shape, with(dependent.name, Terms::kAnything))) {
        present.push_back(std::move(*met));
      }
    }
    split(dependent.name, present);
  }
  return result;
}

// One alternative for each rule that an object can break.
std::vector<ObjectShape> ObjectShapes::broken_rules_of(NodeId id) {
  const schema::Node& node = work_.node(id);
  std::vector<ObjectShape> result;
  const bool has_rules = node.objects != nullptr || !node.dependents.empty();
  if (node.values) return no_values_of(*this, work_, id, has_rules);
  for (const schema::DependentNode& dependent : node.dependents) {
    const auto& inner = shapes_.alternatives(terms_.node(dependent.node), true);
    if (!inner) return {{.needs_check = true}};
    for (const ObjectShape& shape : *inner) {
      if (auto met = meet(shape, with(dependent.name, Terms::kAnything))) {
        result.push_back(std::move(*met));
      }
    }
  }
  if (!node.objects) return result;
  const schema::ObjectRules& rules = *node.objects;
  for (const std::string& name : rules.required) result.push_back(without(name));
  for (const schema::Property& property : rules.properties) {
    const Term violated = terms_.negation(terms_.node(property.node));
    if (violated != Terms::kNothing) result.push_back(with(property.name, violated));
  }
  for (const Counts& counts : outside(rules.count)) result.push_back({.count = counts});
  for (const schema::DependentNames& names : rules.dependent_names) {
    for (const std::string& name : names.required) {
      if (auto met = meet(with(names.name, Terms::kAnything), without(name))) {
        result.push_back(std::move(*met));
      }
    }
  }
  // Some property whose name is in the language breaks the rule, whatever its name is.
  const auto some = [&](Expr names, Term violated) {
    if (violated != Terms::kNothing) result.push_back({.some = {{names, violated}}});
  };
  std::vector<Expr> listed;
  listed.reserve(rules.properties.size() + rules.pattern_properties.size());
  for (const schema::Property& property : rules.properties) {
    listed.push_back(work_.exprs().literal(property.name));
  }
  for (const schema::PatternProperty& pattern : rules.pattern_properties) {
    listed.push_back(strings_.pattern_language(pattern.pattern.text));
    some(listed.back(), terms_.negation(terms_.node(pattern.node)));
  }
  if (rules.additional) {
    some(work_.exprs().complement(work_.exprs().any_of(listed)),
         terms_.negation(terms_.node(*rules.additional)));
  }
  if (rules.names) {
    const Term names = terms_.node(*rules.names);
    some(work_.exprs().complement(strings_.shape_language(names)), Terms::kAnything);
    if (strings_.needs_check(names) || strings_.shape(names).is_superset) {
      result.push_back({.count = {.least = 1}, .needs_check = true});
    }
  }
  if (rules.unevaluated) result.push_back({.count = {.least = 1}, .needs_check = true});
  return result;
}

void ObjectShapes::forget_evaluated(ObjectShape& shape) {
  shape.evaluating.clear();
  shape.evaluates_more = false;
}

// What is evaluated inside the node is known here; see the same function for arrays.
void ObjectShapes::add_unevaluated(NodeId id, std::vector<ObjectShape>& shapes) {
  const schema::Node& node = work_.node(id);
  for (ObjectShape& shape : shapes) {
    shape.evaluates_more |= terms_.evaluates_more(id);
    if (!node.objects || !node.objects->unevaluated) continue;
    const bool is_known = !std::exchange(shape.evaluates_more, false);
    if (node.values) continue;  // these were validated against the whole node
    shape.needs_check |= !is_known;
    std::vector<NodeId> by = is_known ? shape.evaluating : terms_.in_place(id);
    work_.spend(by.size());
    std::erase_if(by, [&](NodeId one) { return work_.node(one).objects == nullptr; });
    const bool all_are_evaluated = std::ranges::any_of(by, [&](NodeId one) {
      const schema::ObjectRules& rules = *work_.node(one).objects;
      return rules.additional || (rules.unevaluated && one != id);
    });
    if (all_are_evaluated) continue;
    std::ranges::sort(by);
    merge_sorted(shape.unevaluated,
                 {{.value = terms_.node(*node.objects->unevaluated), .by = std::move(by)}});
  }
}

ObjectShape ObjectShapes::superset_of(const std::vector<const json::Value*>& values) {
  ObjectShape shape{.count = {.least = Counts::kUnbounded, .most = 0}, .needs_check = true};
  std::map<std::string, std::vector<Term>, std::less<>> members;
  for (const json::Value* value : values) {
    const json::Object& object = *value->if_object();
    shape.count.least = std::min<std::uint64_t>(shape.count.least, object.size());
    shape.count.most = std::max<std::uint64_t>(shape.count.most, object.size());
    for (const json::Member& member : object) {
      members[member.key].push_back(terms_.value(member.value));
    }
  }
  for (auto& [name, terms] : members) {
    if (terms.size() == values.size()) shape.required.push_back(name);
    shape.extra.emplace(name, terms_.any_of(std::move(terms)));
  }
  return shape;
}

std::vector<ObjectShape> ObjectShapes::value_of(const json::Value& value, bool negated) {
  const json::Object* object = value.if_object();
  if (object == nullptr) return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  if (negated && work_.limits().excludes_values) return {{.excluded = {&value}}};
  work_.spend(object->size());
  std::vector<ObjectShape> result;
  ObjectShape whole{.count = {object->size(), object->size()}};
  for (const json::Member& member : *object) {
    const Term equal = terms_.value(member.value);
    if (negated) {
      ObjectShape missing;
      missing.extra[member.key] = Terms::kNothing;
      result.push_back(std::move(missing));
      ObjectShape other{.required = {member.key}};
      other.extra[member.key] = terms_.negation(equal);
      result.push_back(std::move(other));
    } else {
      whole.extra[member.key] = equal;
      whole.required.push_back(member.key);
    }
  }
  std::ranges::sort(whole.required);
  if (!negated) return {std::move(whole)};
  for (const Counts& counts : outside(whole.count)) result.push_back({.count = counts});
  return result;
}

bool ObjectShapes::covers(const ObjectShape& a, const ObjectShape& b) {
  if (a.needs_check || !grammar::covers(a.count, b.count) || a.unevaluated != b.unevaluated ||
      a.evaluating != b.evaluating || a.evaluates_more != b.evaluates_more) {
    return false;
  }
  const auto is_in_b = [&](const ObjectShape::Some& some) {
    return std::ranges::find(b.some, some) != b.some.end();
  };
  const auto is_extra_in_b = [&](const auto& extra) {
    const auto found = b.extra.find(extra.first);
    return extra.second == Terms::kAnything ||
           (found != b.extra.end() && found->second == extra.second);
  };
  return are_among(a.rules, b.rules) && are_among(a.required, b.required) &&
         are_among(a.names, b.names) && are_among(a.excluded, b.excluded) &&
         std::ranges::all_of(a.some, is_in_b) && std::ranges::all_of(a.extra, is_extra_in_b);
}

namespace {

template <class T>
void keep_common(std::vector<T>& into, const std::vector<T>& other) {
  std::erase_if(into, [&](const T& one) { return std::ranges::find(other, one) == other.end(); });
}

// Makes `into` a shape that has the values of both, which have the same rules.
void join(ObjectShape& into, const ObjectShape& other) {
  keep_common(into.unevaluated, other.unevaluated);
  std::erase_if(into.extra, [&](const auto& extra) {
    const auto found = other.extra.find(extra.first);
    return found == other.extra.end() || found->second != extra.second;
  });
  keep_common(into.required, other.required);
  keep_common(into.names, other.names);
  keep_common(into.some, other.some);
  keep_common(into.excluded, other.excluded);
  into.count.least = std::min(into.count.least, other.count.least);
  into.count.most = std::max(into.count.most, other.count.most);
  keep_common(into.evaluating, other.evaluating);
  into.evaluates_more = true;
}

}  // namespace

// The ways in which the other branches of a `oneOf` fail are a product of their rules, and those
// with more than a few conditions on some member need a check. Each would be a reader of names.
void ObjectShapes::join_checked(std::vector<ObjectShape>& shapes) {
  constexpr std::size_t kFew = 16;
  const auto needs_check = [](const ObjectShape& shape) { return shape.needs_check; };
  if (static_cast<std::size_t>(std::ranges::count_if(shapes, needs_check)) <= kFew) return;
  std::vector<ObjectShape> kept;
  std::map<std::vector<NodeId>, std::size_t> places;  // in `kept`
  for (ObjectShape& shape : shapes) {
    if (shape.needs_check) {
      const auto [place, is_new] = places.try_emplace(shape.rules, kept.size());
      if (!is_new) {
        join(kept[place->second], shape);
        continue;
      }
    }
    kept.push_back(std::move(shape));
  }
  shapes = std::move(kept);
}

std::optional<ObjectShape> ObjectShapes::meet(const ObjectShape& a, const ObjectShape& b) {
  const auto count = both(a.count, b.count);
  if (!count) return std::nullopt;
  const auto size_of = [](const ObjectShape& shape) {
    return shape.rules.size() + shape.extra.size() + shape.required.size() + shape.names.size() +
           shape.excluded.size() + shape.unevaluated.size();
  };
  work_.spend(1 + size_of(a) + size_of(b));
  ObjectShape result = a;
  result.count = *count;
  merge_sorted(result.rules, b.rules);
  merge_sorted(result.evaluating, b.evaluating);
  merge_sorted(result.required, b.required);
  merge_sorted(result.names, b.names);
  merge_sorted(result.excluded, b.excluded);
  merge_sorted(result.unevaluated, b.unevaluated);
  result.needs_check |= b.needs_check;
  result.evaluates_more |= b.evaluates_more;
  for (const ObjectShape::Some& some : b.some) {
    if (std::ranges::find(result.some, some) == result.some.end()) result.some.push_back(some);
  }
  if (result.some.size() > work_.limits().max_counted) {
    result.some.resize(work_.limits().max_counted);
    result.needs_check = true;
  }
  for (const auto& [name, term] : b.extra) {
    const auto [place, is_new] = result.extra.try_emplace(name, term);
    if (!is_new) place->second = terms_.all_of({place->second, term});
  }
  for (const std::string& name : result.required) {
    const auto extra = result.extra.find(name);
    if (extra != result.extra.end() && extra->second == Terms::kNothing) return std::nullopt;
  }
  if (result.required.size() > result.count.most) return std::nullopt;
  return result;
}

}  // namespace tenon::grammar
