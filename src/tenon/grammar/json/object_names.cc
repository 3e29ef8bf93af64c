// The names of objects. named() returns the declared names with the term of each value: the
// intersection of all rules for this name (member). others() groups all other names by the patterns
// that they match, as languages; k patterns can make 2^k groups, so more than a limit becomes a
// check. `apart` and `less` split a language by the names that a condition requires, and remove
// declared names. Lists of names are written in the schema's order.

#include <algorithm>
#include <unordered_map>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shapes.h"

namespace tenon::grammar {

using regex::Expr;
using regex::ExprSet;
using schema::NodeId;

ObjectNames::ObjectNames(Shapes& shapes)
    : shapes_(shapes), work_(shapes.work), terms_(shapes.terms()), strings_(shapes.strings) {}

// The conditions of `node`'s rules on the value of `name`.
Term ObjectNames::member(const schema::Node& node, std::string_view name) {
  const schema::ObjectRules& rules = *node.objects;
  constexpr std::size_t kBytesPerStep = 16;
  work_.spend(1 + rules.pattern_properties.size() * (1 + name.size() / kBytesPerStep));
  std::vector<Term> all;
  if (const schema::Property* property = rules.find(name))
    all.push_back(terms_.node(property->node));
  for (const schema::PatternProperty& pattern : rules.pattern_properties) {
    const Expected<bool> matches = pattern.pattern.regex->contains_match(name);
    if (!matches) work_.fail(matches.error());
    if (matches && *matches) all.push_back(terms_.node(pattern.node));
  }
  if (all.empty() && rules.additional) all.push_back(terms_.node(*rules.additional));
  return terms_.all_of(std::move(all));
}

// Whether the node has a rule for `name`, apart from rules for all names.
bool ObjectNames::evaluates(NodeId id, std::string_view name) {
  const schema::ObjectRules& rules = *work_.node(id).objects;
  constexpr std::size_t kBytesPerStep = 16;
  work_.spend(1 + rules.pattern_properties.size() * (1 + name.size() / kBytesPerStep));
  return rules.find(name) != nullptr ||
         std::ranges::any_of(rules.pattern_properties, [&](const schema::PatternProperty& one) {
           const Expected<bool> matches = one.pattern.regex->contains_match(name);
           if (!matches) work_.fail(matches.error());
           return matches && *matches;
         });
}

// What propertyNames allows.
Expr ObjectNames::language(const ObjectShape& shape) {
  std::vector<Expr> all{work_.any_text()};
  for (const Term names : shape.names) all.push_back(strings_.shape_language(names));
  return work_.exprs().all_of(all);
}

// The only names that a schema allows, if they are few.
std::vector<std::string> ObjectNames::all_of(const ObjectShape& shape) {
  for (const Term names : shape.names) {
    const StringShape& strings = strings_.shape(names);
    if (strings.values) return *strings.values;
  }
  return {};
}

// A name that nothing can come with is listed too, with a term that no value fits: it is a declared
// name all the same, and must not come as one of the others.
std::vector<std::pair<std::string, Term>> ObjectNames::named(const ObjectShape& shape) {
  struct Declared {
    std::string_view name;
    std::vector<Term> terms;
  };
  std::vector<Declared> declared;  // in the order of the schema
  std::unordered_map<std::string_view, std::size_t> places;
  const auto add = [&](std::string_view name) -> std::vector<Term>& {
    const auto [place, is_new] = places.try_emplace(name, declared.size());
    if (is_new) declared.push_back({name, {}});
    return declared[place->second].terms;
  };
  std::vector<NodeId> wider;  // rules that concern names they do not list
  for (const NodeId id : shape.rules) {
    const schema::ObjectRules& rules = *work_.node(id).objects;
    const bool is_wider = rules.additional || !rules.pattern_properties.empty();
    if (is_wider) wider.push_back(id);
    for (const schema::Property& property : rules.properties) {
      std::vector<Term>& all = add(property.name);
      // Wider rules are asked for each name below, together with their properties (member).
      if (!is_wider) all.push_back(terms_.node(property.node));
    }
  }
  for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
    for (const NodeId id : rest.by) {
      for (const auto& property : work_.node(id).objects->properties) add(property.name);
    }
  }
  for (const auto& [name, term] : shape.extra) add(name).push_back(term);
  for (const std::string& name : shape.required) add(name);
  const std::vector<std::string> only = all_of(shape);
  for (const std::string& name : only) add(name);
  const Expr allowed = shape.names.empty() ? ExprSet::kAnything : language(shape);
  std::vector<std::pair<std::string, Term>> result;
  constexpr std::uint64_t kStepsPerName = 4;  // because they are copied and sorted
  if (!work_.spend(kStepsPerName * declared.size())) return result;
  result.reserve(declared.size());
  for (auto& [name, all] : declared) {
    for (const NodeId id : wider) all.push_back(member(work_.node(id), name));
    for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
      if (std::ranges::none_of(rest.by, [&](NodeId id) { return evaluates(id, name); })) {
        all.push_back(rest.value);
      }
    }
    Term term = terms_.all_of(std::move(all));
    if (!strings_.holds(allowed, name)) term = Terms::kNothing;
    result.emplace_back(name, term);
  }
  return result;
}

// The same for one name.
Term ObjectNames::term_of(const ObjectShape& shape, const std::string& name) {
  std::vector<Term> all;
  for (const NodeId id : shape.rules) all.push_back(member(work_.node(id), name));
  for (const ObjectShape::Unevaluated& rest : shape.unevaluated) {
    if (std::ranges::none_of(rest.by, [&](NodeId id) { return evaluates(id, name); })) {
      all.push_back(rest.value);
    }
  }
  if (const auto extra = shape.extra.find(name); extra != shape.extra.end()) {
    all.push_back(extra->second);
  }
  const bool is_allowed = shape.names.empty() || strings_.holds(language(shape), name);
  return is_allowed ? terms_.all_of(std::move(all)) : Terms::kNothing;
}

// Properties are declared, and objects of the shape need no names other than `named`.
bool ObjectNames::is_complete(const ObjectShape& shape,
                              std::span<const std::pair<std::string, Term>> named) {
  const auto rules_of = [&](NodeId id) -> const schema::ObjectRules& {
    return *work_.node(id).objects;
  };
  const auto has_enough = [&] {
    if (shape.count.least <= shape.required.size()) return true;
    const auto writable = std::ranges::count_if(
        named, [&](const auto& name) { return shapes_.is_satisfiable(name.second); });
    return shape.count.least <= static_cast<std::uint64_t>(writable);
  };
  return shape.some.empty() && shape.excluded.empty() &&
         std::ranges::any_of(shape.rules, [&](NodeId id) { return rules_of(id).has_properties; }) &&
         std::ranges::none_of(shape.rules,
                              [&](NodeId id) { return rules_of(id).unevaluated.has_value(); }) &&
         has_enough();
}

std::vector<OtherNames> ObjectNames::others(const ObjectShape& shape, bool& needs_check) {
  std::vector<std::string> patterns;
  const auto add_patterns = [&](const std::vector<NodeId>& ids) {
    for (const NodeId id : ids) {
      const schema::ObjectRules& rules = *work_.node(id).objects;
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
  const Expr allowed = language(shape);
  if (patterns.size() > work_.limits().max_patterns) {
    needs_check = true;
    return apart({allowed, {}, Terms::kAnything}, known, shape.some);
  }

  const bool leaves_out_unsaid = declared_only_ && is_complete(shape, said);
  std::vector<OtherNames> result;
  // Each set of patterns is a group: the names that match exactly these. Bit i of `matched` is
  // pattern i.
  for (std::uint32_t matched = 0; matched < 1U << patterns.size(); ++matched) {
    const auto matches = [&](const std::string& pattern) {
      const auto index = std::ranges::lower_bound(patterns, pattern) - patterns.begin();
      return (matched >> index & 1U) != 0;
    };
    std::vector<Term> all;
    for (const NodeId id : shape.rules) {
      const schema::ObjectRules& rules = *work_.node(id).objects;
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
            work_.node(id).objects->pattern_properties,
            [&](const auto& pattern) { return matches(pattern.pattern.text); });
      });
      if (!is_evaluated) all.push_back(rest.value);
    }
    // No rule says anything of these names (declared_only).
    if (all.empty() && leaves_out_unsaid) continue;
    const Term value = terms_.all_of(std::move(all));
    if (work_.error()) break;
    if (!shapes_.is_satisfiable(value)) continue;
    std::vector<Expr> languages{allowed};
    for (const std::string& pattern : patterns) {
      const Expr language = strings_.pattern_language(pattern);
      languages.push_back(matches(pattern) ? language : work_.exprs().complement(language));
    }
    for (OtherNames& names :
         apart({work_.exprs().all_of(languages), {}, value}, known, shape.some)) {
      result.push_back(std::move(names));
    }
  }
  return result;
}

// Splits names by the languages of `some` that contain them.
std::vector<OtherNames> ObjectNames::apart(const OtherNames& names,
                                           const std::vector<std::string>& known,
                                           std::span<const ObjectShape::Some> some) {
  std::vector<OtherNames> result;
  for (std::uint32_t within = 0; within < 1U << some.size(); ++within) {
    std::vector<Expr> languages{names.names};
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Expr language = some[i].names;
      languages.push_back((within >> i & 1U) != 0 ? language : work_.exprs().complement(language));
    }
    for (OtherNames& one :
         less({work_.exprs().all_of(languages), {}, names.value, within}, known)) {
      result.push_back(std::move(one));
    }
  }
  return result;
}

// `names` without the declared ones; nothing if no name is left. They are removed from the language
// only where necessary, because that makes an automaton of all of them.
std::vector<OtherNames> ObjectNames::less(OtherNames names, const std::vector<std::string>& known) {
  if (!work_.spend(1 + known.size()) || !strings_.is_live(names.names)) return {};
  const StringShape shape{.language = names.names};
  if (std::ranges::all_of(known, [&](const auto& name) {
        return !strings_.holds(names.names, name) || strings_.goes_on(shape, name);
      })) {
    // The language may keep the declared names: each is the beginning of a longer name
    // (StringShapes::goes_on), so a scanner that only refuses them at their end has no dead end.
    names.but = known;
    return {std::move(names)};
  }
  names.names = work_.exprs().both(
      names.names,
      work_.exprs().complement(strings_.language_of(std::span<const std::string>(known))));
  if (!strings_.is_live(names.names)) return {};
  return {std::move(names)};
}

std::optional<OtherNames> ObjectNames::without(const OtherNames& names,
                                               const std::vector<std::string>& used) {
  std::vector<std::string> all = names.but;
  all.insert(all.end(), used.begin(), used.end());
  std::vector<OtherNames> left = less({names.names, {}, names.value, names.some}, all);
  return left.empty() ? std::nullopt : std::optional(std::move(left.front()));
}

std::optional<std::vector<std::string>> ObjectNames::few(const OtherNames& names,
                                                         std::size_t most) {
  if (names.names == work_.any_text()) return std::nullopt;
  const auto [known, is_new] = few_.try_emplace({names.names, names.but, most});
  if (is_new) known->second = compute_few(names, most);
  return known->second;
}

std::optional<std::vector<std::string>> ObjectNames::compute_few(const OtherNames& names,
                                                                 std::size_t most) {
  Fuel fuel{.left = 2000};
  std::vector<json::Value> found;
  const StringShape language{.language = work_.exprs().both(work_.any_text(), names.names)};
  if (strings_.is_surely_endless(language.language)) return std::nullopt;
  if (!strings_.find_some(language, most + names.but.size(), fuel, found)) return std::nullopt;
  std::vector<std::string> result;
  for (const json::Value& name : found) {
    if (std::ranges::find(names.but, *name.if_string()) == names.but.end()) {
      result.push_back(*name.if_string());
    }
  }
  return result.size() <= most ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace tenon::grammar
