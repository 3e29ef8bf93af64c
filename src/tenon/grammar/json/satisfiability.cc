// Whether terms and shapes have a value. The answer for a term is the least fixpoint: a term that
// is being asked for counts as unsatisfiable, and a negative answer that depends on that is kept
// only when nothing above it is open (Assumptions). A shape has a value if each of its parts can
// have one, and if enough of them are left: items that must differ, items of which so many must fit
// (can_end), names of which so many must be there.

#include <algorithm>
#include <set>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shapes.h"

namespace tenon::grammar {

using schema::Counts;
using schema::NodeId;
using schema::Type;

Satisfiability::Satisfiability(Shapes& shapes)
    : shapes_(shapes), work_(shapes.work), terms_(shapes.terms()) {}

bool Satisfiability::of(const StringShape& shape) {
  return shapes_.strings.is_satisfiable(shape);
}
bool Satisfiability::of(const NumberShape& shape) {
  return shapes_.number_rules.is_possible(shape);
}

bool Satisfiability::of(Term term) {
  if (term == Terms::kAnything) return true;
  if (term == Terms::kNothing) return false;
  const ShapeWork::Level level(work_);
  if (!level || !work_.spend(1)) return true;
  if (const auto known = known_.find(term); known != known_.end()) return known->second;
  // The question is asked within itself, as for a list whose items are such lists.
  if (const auto above = in_question_.find(term); above != in_question_.end()) {
    shapes_.assumptions.assume(above->second);
    return false;
  }
  const std::size_t depth = in_question_.size();
  in_question_.emplace(term, depth);
  Assumptions& assumptions = shapes_.assumptions;
  Assumptions::Watch assumed(assumptions);
  const bool guessed_before = std::exchange(assumptions.has_guessed, false);
  const bool result = compute(term);
  const bool is_guess = result && assumptions.has_guessed;
  assumptions.has_guessed = is_guess || guessed_before;
  in_question_.erase(term);
  // A yes that rests on something that was not checked is given, but not kept.
  if (is_guess) {
    assumed.forget();
  } else if (result || !assumed.is_below(depth)) {
    known_.emplace(term, result);
    assumed.forget();
  }
  return result;
}

bool Satisfiability::compute(Term term) {
  if (shapes_.constants.of(term).any()) return true;
  if (of(shapes_.strings.text(term))) return true;
  // Not through TermShapes::of(), because results under an assumption must not be kept.
  const auto has_some = [&](auto& shapes) {
    const auto& found = shapes.alternatives(term);
    return !found || std::ranges::any_of(*found, [&](const auto& shape) { return of(shape); });
  };
  return has_some(shapes_.numbers) || has_some(shapes_.arrays) || has_some(shapes_.objects);
}

bool Satisfiability::of(const ArrayShape& shape) {
  // How many values the items have matters only where more than one must come, or some must fit.
  const bool is_easy = shape.length.least <= 1 && shape.contained.empty();
  const std::uint64_t most = is_easy ? most_by_terms(shape) : most_items(shape);
  if (!can_end(shape, most, 0, std::vector<std::uint64_t>(shape.contained.size()))) return false;
  if (shape.unique && shape.length.least > 1 && !shapes_.values.is_searching()) {
    // As if the items had come before all of them.
    ArrayShape after = shape;
    after.prefix.insert(after.prefix.begin(), Terms::kAnything);
    ++after.length.least;
    if (!shapes_.values.spoilers(after, 0, {})) return false;
  }
  return shape.excluded.empty() || shapes_.values.has_any_but_excluded(shape);
}

// An item that no value fits ends the array before it.
std::uint64_t Satisfiability::most_by_terms(const ArrayShape& shape) {
  std::uint64_t most = shape.length.most;
  for (std::size_t i = 0; i < shape.prefix.size() && i < most && !work_.error(); ++i) {
    if (!of(shape.prefix[i])) most = i;
  }
  return most <= shape.prefix.size() || of(shape.items) ? most : shape.prefix.size();
}

std::uint64_t Satisfiability::most_items(const ArrayShape& shape) {
  std::uint64_t most = most_by_terms(shape);
  if (most <= shape.prefix.size()) return most;
  if (shape.unique && shape.prefix.empty()) {
    constexpr std::uint64_t kFew = 64;
    if (const auto size = shapes_.values.finite_size(shape.items)) {
      most = std::min(most, *size);
    } else if (!shapes_.values.is_searching() && !shapes_.values.is_boundless(shape.items)) {
      // Enough to know that `minItems` items can differ; that there are few values in all is found
      // only if they are no more than this.
      const std::uint64_t wanted = std::clamp<std::uint64_t>(shape.length.least + 1, kFew, 1000);
      const ShapeValues::Samples& values =
          shapes_.values.of_items(shape.items, static_cast<std::size_t>(wanted));
      if (values.is_all) most = std::min<std::uint64_t>(most, values.values.size());
    }
  }
  return most;
}

bool Satisfiability::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                             std::span<const std::uint64_t> fitting) {
  if (shape.length.least > most || count > most) return false;
  if (shape.unique && !has_enough_values(shape, most, count, fitting)) return false;
  for (std::size_t i = 0; i < shape.contained.size(); ++i) {
    if (!can_end(shape, most, count, shape.contained[i], fitting[i])) return false;
  }
  return shape.contained.size() < 2 || can_fit_all(shape, most, count, fitting);
}

// Which of `contained` the item at `index` can fit together, one bit for each of them.
std::vector<std::uint32_t> Satisfiability::fits_of_item(const ArrayShape& shape,
                                                        std::uint64_t index) {
  const Term item = index < shape.prefix.size() ? shape.prefix[index] : shape.items;
  std::vector<std::uint32_t> result;
  for (std::uint32_t fits = 0; fits < 1U << shape.contained.size(); ++fits) {
    std::vector<Term> parts{item};
    bool counts = true;
    for (std::size_t i = 0; i < shape.contained.size(); ++i) {
      const bool is_fitting = (fits >> i & 1U) != 0;
      const Term term = shape.contained[i].term;
      if (index >= shape.contained[i].from) {
        parts.push_back(is_fitting ? term : terms_.negation(term));
      } else if (is_fitting) {
        counts = false;
      }
    }
    if (counts && of(terms_.all_of(std::move(parts)))) result.push_back(fits);
  }
  return result;
}

// Whether the items that may still come can fit all of `contained` in the right numbers. Goes on
// item by item with all numbers that are possible; what would take many steps is taken for
// possible.
bool Satisfiability::can_fit_all(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                                 std::span<const std::uint64_t> fitting) {
  constexpr std::size_t kMostSteps = 2000;
  using Numbers = std::vector<std::uint64_t>;  // as far as they matter
  const auto add = [&](Numbers& numbers, std::uint32_t fits) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Counts& counts = shape.contained[i].counts;
      numbers[i] += fits >> i & 1U;
      if (numbers[i] > counts.most) return false;
      if (counts.most == Counts::kUnbounded) numbers[i] = std::min(numbers[i], counts.least);
    }
    return true;
  };
  const auto are_right = [&](const Numbers& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < shape.contained[i].counts.least) return false;
    }
    return true;
  };
  std::uint64_t uniform = shape.prefix.size();  // from here on all items have the same terms
  for (const auto& contained : shape.contained) uniform = std::max(uniform, contained.from);
  Numbers so_far(fitting.begin(), fitting.end());
  if (!add(so_far, 0)) return false;
  std::set<Numbers> possible{std::move(so_far)};
  std::vector<std::uint32_t> ways;
  for (std::size_t steps = 0;; ++count) {
    const bool is_right = std::ranges::any_of(possible, are_right);
    if (is_right && count >= shape.length.least) return true;
    if (count >= most || possible.empty()) return false;
    if (ways.empty() || count <= uniform) ways = fits_of_item(shape, count);
    std::set<Numbers> next;
    for (const Numbers& numbers : possible) {
      for (const std::uint32_t fits : ways) {
        Numbers after = numbers;
        if (add(after, fits)) next.insert(std::move(after));
      }
    }
    if (count >= uniform && next == possible) return is_right && shape.length.least <= most;
    const std::size_t tried = 1 + possible.size() * ways.size();
    steps += tried;
    if (steps > kMostSteps || !work_.spend(tried)) return true;
    possible = std::move(next);
  }
}

// Whether there are enough values for items that must differ, some of which are contained and some
// not. Decided only if there is a single kind of each.
bool Satisfiability::has_enough_values(const ArrayShape& shape, std::uint64_t most,
                                       std::uint64_t count,
                                       std::span<const std::uint64_t> fitting) {
  if (shapes_.values.is_searching() || shape.contained.size() != 1 || !shape.prefix.empty())
    return true;
  const ArrayShape::Contained& contained = shape.contained.front();
  if (contained.from > 0) return true;
  constexpr std::uint64_t kFew = 64;
  constexpr std::uint64_t kMany = 1000;
  const std::uint64_t wanted =
      std::clamp(std::max(shape.length.least, contained.counts.least) + 1, kFew, kMany);
  const auto size_of = [&](Term other) {
    const ShapeValues::Samples& values = shapes_.values.of_items(
        terms_.all_of({shape.items, other}), static_cast<std::size_t>(wanted));
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
bool Satisfiability::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
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
  // Item by item only as far as the terms differ (uniform): what follows is arithmetic.
  for (;; ++count) {
    if (count >= shape.length.least && possible >= least_hits) return true;
    if (count >= most || !work_.spend(1)) return false;
    const Term item = count < shape.prefix.size() ? shape.prefix[count] : shape.items;
    if (count < contained.from) {
      if (!of(item)) return false;
      continue;
    }
    const bool may_fit = of(terms_.all_of({item, contained.term}));
    const bool may_not_fit = of(terms_.all_of({item, terms_.negation(contained.term)}));
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

bool Satisfiability::of(const ObjectShape& shape) {
  if (!shape.excluded.empty() && !shapes_.values.has_any_but_excluded(shape)) return false;
  if (shape.count.least > shape.count.most || shape.required.size() > shape.count.most)
    return false;
  std::uint64_t possible = 0;
  std::vector<bool> found(shape.some.size());
  std::vector<bool> found_in_required(shape.some.size());
  for (const auto& [name, term] : shapes_.names.named(shape)) {
    const bool is_required = std::ranges::binary_search(shape.required, name);
    const bool fits = of(term);
    if (fits) ++possible;
    if (!fits && is_required) return false;
    for (std::size_t i = 0; i < shape.some.size() && fits; ++i) {
      const ObjectShape::Some& some = shape.some[i];
      if (!shapes_.strings.holds(some.names, name) || !of(terms_.all_of({term, some.value})))
        continue;
      found[i] = true;
      if (is_required) found_in_required[i] = true;
    }
  }
  if (possible >= shape.count.least && shape.some.empty()) return true;
  bool needs_check = false;
  const std::vector<OtherNames> all_others = shapes_.names.others(shape, needs_check);
  for (std::size_t i = 0; i < shape.some.size(); ++i) {
    for (const OtherNames& names : all_others) {
      const bool is_within = (names.some >> i & 1U) != 0;
      if (is_within && of(terms_.all_of({names.value, shape.some[i].value}))) {
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
    const auto few = wanted > kMany ? std::nullopt : shapes_.names.few(names, wanted);
    if (!few) return true;
    possible += few->size();
  }
  return possible >= shape.count.least;
}

bool Satisfiability::by_required(const ObjectShape& shape) {
  const bool are_enough =
      shape.some.empty() && shape.excluded.empty() && shape.count.least <= shape.required.size();
  if (!are_enough) return of(shape);
  return shape.required.size() <= shape.count.most &&
         std::ranges::all_of(shape.required, [&](const std::string& name) {
           return of(shapes_.names.term_of(shape, name));
         });
}

Error Satisfiability::error() {
  const schema::Schema& schema = terms_.schema();
  std::set<NodeId> seen;
  std::optional<NodeId> at = schema.root();
  std::string place;
  while (at && seen.insert(*at).second) {
    place = schema.node(*at).location;
    at = blamed_within(schema.node(*at));
  }
  std::string message = "no value fits the schema";
  if (!place.empty()) message += ", since none fits " + place;
  return {Errc::unsatisfiable, std::move(message)};
}

// A node that every value of `node`, or a part of it, must fit and that no value fits.
std::optional<NodeId> Satisfiability::blamed_within(const schema::Node& node) {
  std::vector<NodeId> needed = node.all_of;
  if (node.any_of.size() == 1) needed.push_back(node.any_of[0]);
  if (node.one_of.size() == 1) needed.push_back(node.one_of[0]);
  if (const auto& rules = node.arrays; rules && node.types == schema::Types(Type::array)) {
    for (std::size_t i = 0; i < rules->prefix.size() && i < rules->length.least; ++i) {
      needed.push_back(rules->prefix[i]);
    }
    if (rules->items && rules->prefix.size() < rules->length.least) needed.push_back(*rules->items);
  }
  if (const auto& rules = node.objects; rules && node.types == schema::Types(Type::object)) {
    for (const std::string& name : rules->required) {
      if (const schema::Property* const property = rules->find(name)) {
        needed.push_back(property->node);
      } else if (rules->additional && rules->pattern_properties.empty()) {
        needed.push_back(*rules->additional);
      }
    }
  }
  const auto found = std::ranges::find_if(needed, [&](NodeId id) { return !of(terms_.node(id)); });
  return found == needed.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tenon::grammar
