#include "tenon/grammar/json/object_kinds.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/json/shape_parts.h"

// Which shapes of a term's objects one frame can read.
//
// A schema such as oneOf of twelve objects has a shape for each alternative, and most of their
// names and values are the same. kinds_of() first puts those together that differ only in the names
// that must or must not be there: they become cases of one kind. kinds_by_frame() then puts kinds
// into one list whose values differ, as long as their names come in one order. ObjectMembers
// follows all cases of such a list side by side.

namespace tenon::grammar {
namespace {

using NameOrder = std::map<std::string, std::size_t>;

// Adds the names behind those that are there. False: they have another order.
bool extend(NameOrder& order, const std::vector<std::pair<std::string, Term>>& names,
            bool is_ordered) {
  NameOrder all = order;
  std::size_t least = 0;
  for (const auto& [name, term] : names) {
    const std::size_t place = all.try_emplace(name, all.size()).first->second;
    if (is_ordered && place < least) return false;
    least = place + 1;
  }
  order = std::move(all);
  return true;
}

// Leaves out cases that another one covers.
void add_case(Shapes& shapes, std::vector<PresentNames>& cases, PresentNames names) {
  const auto covers = [](const PresentNames& a, const PresentNames& b) {
    return are_among(a.required, b.required) && are_among(a.forbidden, b.forbidden);
  };
  shapes.spend(1 + cases.size() / kComparedPerStep);
  if (std::ranges::any_of(cases, [&](const auto& one) { return covers(one, names); })) return;
  std::erase_if(cases, [&](const auto& one) { return covers(names, one); });
  cases.push_back(std::move(names));
}

// Shapes that differ only in the names that must or must not be there are one kind. Shapes for
// which it is looked ahead which members can still come stay as they are.
std::vector<ObjectKind> kinds_of(Shapes& shapes, const std::vector<ObjectShape>& all) {
  struct Place {
    ObjectShape rest;
    std::size_t at;  // in the result
  };
  std::vector<ObjectKind> result;
  std::vector<Place> places;
  for (const ObjectShape& shape : all) {
    const bool looks_ahead = shape.count.least > 0 || !shape.some.empty();
    if (all.size() < 2 || looks_ahead) {
      result.push_back({shape, {{shape.required, {}}}});
      continue;
    }
    ObjectShape rest = shape;
    PresentNames names{std::exchange(rest.required, {}), {}};
    rest.evaluating.clear();
    rest.evaluates_more = false;
    std::erase_if(rest.extra, [&](const auto& extra) {
      if (extra.second == Terms::kNothing) names.forbidden.push_back(extra.first);
      return extra.second == Terms::kNothing || extra.second == Terms::kAnything;
    });
    shapes.spend(1 + places.size());
    const auto same = std::ranges::find(places, rest, &Place::rest);
    if (same == places.end()) {
      places.push_back({rest, result.size()});
      result.push_back({std::move(rest), {std::move(names)}});
    } else {
      add_case(shapes, result[same->at].cases, std::move(names));
    }
  }
  for (ObjectKind& kind : result) {
    if (kind.cases.size() > 1) continue;
    kind.shape.required = kind.cases[0].required;
    for (const std::string& name : kind.cases[0].forbidden)
      kind.shape.extra[name] = Terms::kNothing;
  }
  return result;
}

}  // namespace

std::vector<std::vector<ObjectKind>> kinds_by_frame(Shapes& shapes,
                                                    const std::vector<ObjectShape>& all,
                                                    bool is_ordered) {
  struct Group {
    ObjectShape rest;  // what is the same for all its kinds
    bool only_declared;
    NameOrder order;
    std::size_t at;  // in the result
  };
  std::vector<std::vector<ObjectKind>> result;
  if (all.size() == 1) {
    result.push_back({{all[0], {{all[0].required, {}}}}});
    return result;
  }
  std::vector<Group> groups;
  for (ObjectKind& kind : kinds_of(shapes, all)) {
    const ObjectShape& shape = kind.shape;
    if (shape.count.least > 0 || !shape.some.empty()) {
      result.push_back({std::move(kind)});
      continue;
    }
    ObjectShape rest{.unevaluated = shape.unevaluated,
                     .names = shape.names,
                     .excluded = shape.excluded,
                     .count = shape.count,
                     .needs_check = shape.needs_check};
    std::ranges::copy_if(shape.rules, std::back_inserter(rest.rules), [&](schema::NodeId id) {
      const schema::ObjectRules& rules = *shapes.work.node(id).objects;
      return rules.additional || rules.unevaluated || !rules.pattern_properties.empty();
    });
    const bool only_declared = shapes.names.are_all_declared(shape);
    const auto names = shapes.names.named(shape);
    shapes.spend(1 + groups.size() + names.size());
    const auto is_like_it = [&](Group& group) {
      return group.only_declared == only_declared && group.rest == rest &&
             extend(group.order, names, is_ordered);
    };
    const auto group = std::ranges::find_if(groups, is_like_it);
    if (group == groups.end()) {
      groups.push_back({std::move(rest), only_declared, {}, result.size()});
      (void)extend(groups.back().order, names, is_ordered);
      result.push_back({std::move(kind)});
    } else {
      result[group->at].push_back(std::move(kind));
    }
  }
  return result;
}

}  // namespace tenon::grammar
