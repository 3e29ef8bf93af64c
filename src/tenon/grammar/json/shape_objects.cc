// Shapes of objects. rules_of() makes them from a node, meet() joins the lists
// of rules of two shapes, and a negation has one alternative for each rule that an object can
// break: a missing name, a property that does not fit, a count, a name that does not fit.
//
// The frame that reads an object asks this file what its names are. named() returns the declared
// names with the term of each value: the intersection of all rules for this name (member).
// others() groups all other names by the patterns that they match, as languages; k patterns can
// make 2^k groups, so more than a limit becomes a check. `apart` and `less` split a language by
// the names that a condition requires, and remove declared names.
//
// What a node evaluates is known only after its alternatives, so add_unevaluated runs last. Lists
// of names are written in the schema's order.

#include <algorithm>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_parts.h"

namespace tenon::grammar {

using regex::Expr;
using regex::ExprSet;
using schema::Counts;
using schema::NodeId;
using schema::Type;

std::vector<ObjectShape> Shapes::rules_of(NodeId id, bool negated, ObjectShape*) {
  const schema::Node& node = terms_.schema().node(id);
  std::vector<ObjectShape> result;
  if (!node.types.contains(Type::object)) {
    return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  }
  // The meaning of `dependents`: the name is missing, or the whole object fits.
  const auto with = [](const std::string& name, Term term) {
    ObjectShape shape;
    shape.extra[name] = term;
    if (term != Terms::kNothing) shape.required = {name};
    return shape;
  };
  const auto without = [&](const std::string& name) { return with(name, Terms::kNothing); };
  if (negated) {
    const bool has_rules = node.objects != nullptr || !node.dependents.empty();
    if (node.values) return no_values_of<ObjectShape>(id, has_rules);
    for (const schema::DependentNode& dependent : node.dependents) {
      const auto& inner = alternatives<ObjectShape>(terms_.node(dependent.node), true);
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
    const auto some = [&](Expr names, Term violated) {
      if (violated != Terms::kNothing) result.push_back({.some = {{names, violated}}});
    };
    std::vector<Expr> listed;
    listed.reserve(rules.properties.size() + rules.pattern_properties.size());
    for (const schema::Property& property : rules.properties) {
      listed.push_back(exprs_->literal(property.name));
    }
    for (const schema::PatternProperty& pattern : rules.pattern_properties) {
      listed.push_back(pattern_language(pattern.pattern.text));
      some(listed.back(), terms_.negation(terms_.node(pattern.node)));
    }
    if (rules.additional) {
      some(exprs_->complement(exprs_->any_of(listed)),
           terms_.negation(terms_.node(*rules.additional)));
    }
    if (rules.names) {
      const Term names = terms_.node(*rules.names);
      some(exprs_->complement(string_language(names)), Terms::kAnything);
      if (strings_need_check(names) || string_shape(names).is_superset) {
        result.push_back({.count = {.least = 1}, .needs_check = true});
      }
    }
    if (rules.unevaluated) result.push_back({.count = {.least = 1}, .needs_check = true});
    return result;
  }

  if (node.values) {
    result = values_of<ObjectShape>(id);
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
      shape.needs_check = strings_need_check(shape.names.back());
    }
    shape.count = rules.count;
  }
  const auto split = [&](const std::string& name, const std::vector<ObjectShape>& present) {
    if (result.size() * (present.size() + 1) > limits_.max_alternatives) {
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
    const auto& inner = alternatives<ObjectShape>(terms_.node(dependent.node), false);
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

void Shapes::forget_evaluated(ObjectShape& shape) {
  shape.evaluating.clear();
  shape.evaluates_more = false;
}

// What is evaluated inside the node is known here; see the same function for arrays.
void Shapes::add_unevaluated(NodeId id, std::vector<ObjectShape>& shapes) {
  const schema::Node& node = terms_.schema().node(id);
  for (ObjectShape& shape : shapes) {
    shape.evaluates_more |= terms_.evaluates_more(id);
    if (!node.objects || !node.objects->unevaluated) continue;
    const bool is_known = !std::exchange(shape.evaluates_more, false);
    if (node.values) continue;  // these were validated against the whole node
    shape.needs_check |= !is_known;
    std::vector<NodeId> by = is_known ? shape.evaluating : terms_.in_place(id);
    spend(by.size());
    std::erase_if(by, [&](NodeId one) { return terms_.schema().node(one).objects == nullptr; });
    const bool all_are_evaluated = std::ranges::any_of(by, [&](NodeId one) {
      const schema::ObjectRules& rules = *terms_.schema().node(one).objects;
      return rules.additional || (rules.unevaluated && one != id);
    });
    if (all_are_evaluated) continue;
    std::ranges::sort(by);
    merge_sorted(shape.unevaluated,
                 {{.value = terms_.node(*node.objects->unevaluated), .by = std::move(by)}});
  }
}

ObjectShape Shapes::superset_of(const std::vector<const json::Value*>& values, ObjectShape*) {
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

std::vector<ObjectShape> Shapes::value_of(const json::Value& value, bool negated, ObjectShape*) {
  const json::Object* object = value.if_object();
  if (object == nullptr) return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  if (negated && limits_.excludes_values) return {{.excluded = {&value}}};
  spend(object->size());
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

std::optional<ObjectShape> Shapes::meet(const ObjectShape& a, const ObjectShape& b) {
  const auto count = both(a.count, b.count);
  if (!count) return std::nullopt;
  const auto size_of = [](const ObjectShape& shape) {
    return shape.rules.size() + shape.extra.size() + shape.required.size() + shape.names.size() +
           shape.excluded.size() + shape.unevaluated.size();
  };
  spend(1 + size_of(a) + size_of(b));
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
  if (result.some.size() > limits_.max_counted) {
    result.some.resize(limits_.max_counted);
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

// The conditions of `node`'s rules on the value of `name`.
Term Shapes::member(const schema::Node& node, std::string_view name) {
  const schema::ObjectRules& rules = *node.objects;
  constexpr std::size_t kBytesPerStep = 16;
  spend(1 + rules.pattern_properties.size() * (1 + name.size() / kBytesPerStep));
  std::vector<Term> all;
  if (const schema::Property* property = rules.find(name))
    all.push_back(terms_.node(property->node));
  for (const schema::PatternProperty& pattern : rules.pattern_properties) {
    const Expected<bool> matches = pattern.pattern.regex->contains_match(name);
    if (!matches) fail(matches.error());
    if (matches && *matches) all.push_back(terms_.node(pattern.node));
  }
  if (all.empty() && rules.additional) all.push_back(terms_.node(*rules.additional));
  return terms_.all_of(std::move(all));
}

// Whether the node has a rule for `name`, apart from rules for all names.
bool Shapes::evaluates(NodeId id, std::string_view name) {
  const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
  constexpr std::size_t kBytesPerStep = 16;
  spend(1 + rules.pattern_properties.size() * (1 + name.size() / kBytesPerStep));
  return rules.find(name) != nullptr ||
         std::ranges::any_of(rules.pattern_properties, [&](const schema::PatternProperty& one) {
           const Expected<bool> matches = one.pattern.regex->contains_match(name);
           if (!matches) fail(matches.error());
           return matches && *matches;
         });
}

Expr Shapes::name_language(const ObjectShape& shape) {
  std::vector<Expr> all{any_text_};
  for (const Term names : shape.names) all.push_back(string_language(names));
  return exprs_->all_of(all);
}

// The only names that a schema allows, if they are few.
std::vector<std::string> Shapes::all_names(const ObjectShape& shape) {
  for (const Term names : shape.names) {
    const StringShape& strings = string_shape(names);
    if (strings.values) return *strings.values;
  }
  return {};
}

std::vector<std::pair<std::string, Term>> Shapes::named(const ObjectShape& shape) {
  std::vector<std::string> names;  // in the order of the schema
  std::map<std::string, std::vector<Term>, std::less<>> terms;
  const auto add = [&](const std::string& name) -> std::vector<Term>& {
    const auto [place, is_new] = terms.try_emplace(name);
    if (is_new) names.push_back(name);
    return place->second;
  };
  std::vector<NodeId> wider;  // rules that concern names they do not list
  for (const NodeId id : shape.rules) {
    const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
    const bool is_wider = rules.additional || !rules.pattern_properties.empty();
    if (is_wider) wider.push_back(id);
    for (const schema::Property& property : rules.properties) {
      std::vector<Term>& all = add(property.name);
      if (!is_wider) all.push_back(terms_.node(property.node));
    }
  }
  for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
    for (const NodeId id : rest.by) {
      for (const auto& property : terms_.schema().node(id).objects->properties) add(property.name);
    }
  }
  for (const auto& [name, term] : shape.extra) add(name).push_back(term);
  for (const std::string& name : shape.required) add(name);
  for (const std::string& name : all_names(shape)) add(name);
  const Expr allowed = shape.names.empty() ? ExprSet::kAnything : name_language(shape);
  std::vector<std::pair<std::string, Term>> result;
  constexpr std::uint64_t kStepsPerName = 4;  // because they are copied and sorted
  if (!spend(kStepsPerName * names.size())) return result;
  for (std::string& name : names) {
    std::vector<Term>& all = terms.find(name)->second;
    for (const NodeId id : wider) all.push_back(member(terms_.schema().node(id), name));
    for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
      if (std::ranges::none_of(rest.by, [&](NodeId id) { return evaluates(id, name); })) {
        all.push_back(rest.value);
      }
    }
    Term term = terms_.all_of(std::move(all));
    if (!holds(allowed, name)) term = Terms::kNothing;
    result.emplace_back(std::move(name), term);
  }
  return result;
}

// Properties are declared, and objects of the shape need no names other than `named`.
bool Shapes::is_complete(const ObjectShape& shape,
                         std::span<const std::pair<std::string, Term>> named) {
  const auto rules_of = [&](NodeId id) -> const schema::ObjectRules& {
    return *terms_.schema().node(id).objects;
  };
  const auto has_enough = [&] {
    if (shape.count.least <= shape.required.size()) return true;
    const auto writable =
        std::ranges::count_if(named, [&](const auto& name) { return is_satisfiable(name.second); });
    return shape.count.least <= static_cast<std::uint64_t>(writable);
  };
  return shape.some.empty() && shape.excluded.empty() &&
         std::ranges::any_of(shape.rules, [&](NodeId id) { return rules_of(id).has_properties; }) &&
         std::ranges::none_of(shape.rules,
                              [&](NodeId id) { return rules_of(id).unevaluated.has_value(); }) &&
         has_enough();
}

std::vector<Shapes::OtherNames> Shapes::others(const ObjectShape& shape, bool& needs_check) {
  std::vector<std::string> patterns;
  const auto add_patterns = [&](const std::vector<NodeId>& ids) {
    for (const NodeId id : ids) {
      const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
      for (const auto& pattern : rules.pattern_properties) patterns.push_back(pattern.pattern.text);
    }
  };
  add_patterns(shape.rules);
  for (const ObjectShape::Unevaluated& rest : shape.unevaluated) add_patterns(rest.by);
  std::sort(patterns.begin(), patterns.end());
  patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  const std::vector<std::pair<std::string, Term>> said = named(shape);
  std::vector<std::string> known;
  known.reserve(said.size());
  for (const auto& [name, term] : said) known.push_back(name);
  const Expr allowed = name_language(shape);
  if (patterns.size() > limits_.max_patterns) {
    needs_check = true;
    return apart({allowed, {}, Terms::kAnything}, known, shape.some);
  }

  const bool leaves_out_unsaid = names_declared_only_ && is_complete(shape, said);
  std::vector<OtherNames> result;
  for (std::uint32_t matched = 0; matched < 1U << patterns.size(); ++matched) {
    const auto matches = [&](const std::string& pattern) {
      const auto index = std::ranges::lower_bound(patterns, pattern) - patterns.begin();
      return (matched >> index & 1U) != 0;
    };
    std::vector<Term> all;
    for (const NodeId id : shape.rules) {
      const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
      bool any = false;
      for (const auto& pattern : rules.pattern_properties) {
        if (!matches(pattern.pattern.text)) continue;
        any = true;
        all.push_back(terms_.node(pattern.node));
      }
      if (!any && rules.additional) all.push_back(terms_.node(*rules.additional));
    }
    for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
      const bool is_evaluated = std::ranges::any_of(rest.by, [&](NodeId id) {
        return std::ranges::any_of(
            terms_.schema().node(id).objects->pattern_properties,
            [&](const auto& pattern) { return matches(pattern.pattern.text); });
      });
      if (!is_evaluated) all.push_back(rest.value);
    }
    if (all.empty() && leaves_out_unsaid) continue;
    const Term value = terms_.all_of(std::move(all));
    if (error_) break;
    if (!is_satisfiable(value)) continue;
    std::vector<Expr> languages{allowed};
    for (const std::string& pattern : patterns) {
      const Expr language = pattern_language(pattern);
      languages.push_back(matches(pattern) ? language : exprs_->complement(language));
    }
    for (OtherNames& names : apart({exprs_->all_of(languages), {}, value}, known, shape.some)) {
      result.push_back(std::move(names));
    }
  }
  return result;
}

// Splits names by the languages of `some` that contain them.
std::vector<Shapes::OtherNames> Shapes::apart(const OtherNames& names,
                                              const std::vector<std::string>& known,
                                              std::span<const ObjectShape::Some> some) {
  std::vector<OtherNames> result;
  for (std::uint32_t within = 0; within < 1U << some.size(); ++within) {
    std::vector<Expr> languages{names.names};
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Expr language = some[i].names;
      languages.push_back((within >> i & 1U) != 0 ? language : exprs_->complement(language));
    }
    for (OtherNames& one : less({exprs_->all_of(languages), {}, names.value, within}, known)) {
      result.push_back(std::move(one));
    }
  }
  return result;
}

// `names` without the declared ones; nothing if no name is left. They are removed from the language
// only where necessary, because that makes an automaton of all of them.
std::vector<Shapes::OtherNames> Shapes::less(OtherNames names,
                                             const std::vector<std::string>& known) {
  if (!spend(1 + known.size()) || !is_live(names.names)) return {};
  const StringShape shape{.language = names.names};
  if (std::ranges::all_of(known, [&](const auto& name) {
        return !holds(names.names, name) || goes_on(shape, name);
      })) {
    names.but = known;
    return {std::move(names)};
  }
  names.names = exprs_->both(names.names,
                             exprs_->complement(language_of(std::span<const std::string>(known))));
  if (!is_live(names.names)) return {};
  return {std::move(names)};
}

std::optional<Shapes::OtherNames> Shapes::without(const OtherNames& names,
                                                  const std::vector<std::string>& used) {
  std::vector<std::string> all = names.but;
  all.insert(all.end(), used.begin(), used.end());
  std::vector<OtherNames> left = less({names.names, {}, names.value, names.some}, all);
  return left.empty() ? std::nullopt : std::optional(std::move(left.front()));
}

std::optional<std::vector<std::string>> Shapes::few_names(const OtherNames& names,
                                                          std::size_t most) {
  if (names.names == any_text_) return std::nullopt;
  const auto [known, is_new] = few_names_.try_emplace({names.names, names.but, most});
  if (is_new) known->second = compute_few_names(names, most);
  return known->second;
}

std::optional<std::vector<std::string>> Shapes::compute_few_names(const OtherNames& names,
                                                                  std::size_t most) {
  Sampling sampling{.fuel = 2000, .known = {}};
  Samples found;
  const StringShape language{.language = exprs_->both(any_text_, names.names)};
  if (!sample(sampling, language, most + names.but.size(), found)) return std::nullopt;
  std::vector<std::string> result;
  for (const json::Value& name : found.values) {
    if (std::ranges::find(names.but, *name.if_string()) == names.but.end()) {
      result.push_back(*name.if_string());
    }
  }
  return result.size() <= most ? std::optional(std::move(result)) : std::nullopt;
}

bool Shapes::is_satisfiable(const ObjectShape& shape) {
  if (!shape.excluded.empty() && !has_value_but_excluded(shape)) return false;
  if (shape.count.least > shape.count.most || shape.required.size() > shape.count.most)
    return false;
  std::uint64_t possible = 0;
  std::vector<bool> found(shape.some.size());
  std::vector<bool> found_in_required(shape.some.size());
  for (const auto& [name, term] : named(shape)) {
    const bool is_required = std::ranges::binary_search(shape.required, name);
    const bool fits = is_satisfiable(term);
    if (fits) ++possible;
    if (!fits && is_required) return false;
    for (std::size_t i = 0; i < shape.some.size() && fits; ++i) {
      const ObjectShape::Some& some = shape.some[i];
      if (!holds(some.names, name) || !is_satisfiable(terms_.all_of({term, some.value}))) continue;
      found[i] = true;
      if (is_required) found_in_required[i] = true;
    }
  }
  if (possible >= shape.count.least && shape.some.empty()) return true;
  bool needs_check = false;
  const std::vector<OtherNames> all_others = others(shape, needs_check);
  for (std::size_t i = 0; i < shape.some.size(); ++i) {
    for (const OtherNames& names : all_others) {
      const bool is_within = (names.some >> i & 1U) != 0;
      if (is_within && is_satisfiable(terms_.all_of({names.value, shape.some[i].value}))) {
        found[i] = true;
      }
    }
    if (!found[i]) return false;
    if (!found_in_required[i] && shape.required.size() + 1 > shape.count.most) return false;
  }
  constexpr std::uint64_t kMany = 1000;
  for (const OtherNames& names : all_others) {
    if (possible >= shape.count.least) break;
    const std::uint64_t wanted = shape.count.least - possible;
    const auto few = wanted > kMany ? std::nullopt : few_names(names, wanted);
    if (!few) return true;
    possible += few->size();
  }
  return possible >= shape.count.least;
}

}  // namespace tenon::grammar
