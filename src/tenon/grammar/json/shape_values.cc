// Values of terms, found by trying: whether a term has a value beside the excluded ones, and
// whether items that must differ can all have one.
//
// some() returns up to so many different values of a term. Strings are found breadth first
// in the automaton of their language, numbers by number_scanner.h, arrays and objects from values
// of their parts, for growing depths, so that small values come first. Results are kept, because
// the same question comes again with one more exclusion.
//
// For items that must differ, a value may be taken only if the later required items still find one
// each. That is a matching of items and values (can_choose), enlarged item by item along augmenting
// paths; spoilers() returns the values without which it fails. Items whose term is boundless
// (strings of any length, most objects) are left out, because they always find a value
// (is_boundless).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/grammar/json/shapes.h"
#include "tenon/schema/values.h"

namespace tenon::grammar {

using json::Value;
using schema::Counts;

namespace {

// The first `most` values.
ShapeValues::Samples first_of(const ShapeValues::Samples& samples, std::size_t most) {
  if (samples.values.size() <= most) return samples;
  return {{samples.values.begin(), samples.values.begin() + static_cast<std::ptrdiff_t>(most)},
          false};
}

// Numbers for values; equal values have the same number. The values belong to others and must not
// move.
class Numbered {
 public:
  Numbered() = default;
  explicit Numbered(const std::vector<const Value*>& values) {
    for (const Value* value : values) add(*value);
  }
  std::size_t add(const Value& value) {
    const std::uint64_t hash = schema::hash_of(value);
    if (const auto known = find(value, hash)) return *known;
    by_hash_.emplace(hash, values_.size());
    values_.push_back(&value);
    return values_.size() - 1;
  }
  [[nodiscard]] std::optional<std::size_t> find(const Value& value) const {
    return find(value, schema::hash_of(value));
  }
  [[nodiscard]] const Value& operator[](std::size_t number) const { return *values_[number]; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  [[nodiscard]] std::optional<std::size_t> find(const Value& value, std::uint64_t hash) const {
    const auto [from, to] = by_hash_.equal_range(hash);
    const auto known =
        std::find_if(from, to, [&](const auto& entry) { return *values_[entry.second] == value; });
    return known == to ? std::nullopt : std::optional(known->second);
  }

  std::vector<const Value*> values_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
};

constexpr std::size_t kValuesPerStep = 4;  // values, most of which differ early
constexpr std::uint64_t kStepsPerTriedNumber = 30;

bool is_one_of(const std::vector<Value>& values, const Value& value) {
  return std::ranges::find(values, value) != values.end();
}

}  // namespace

/// One question, and what it has found so far.
struct ShapeValues::Search {
  struct Known {
    std::size_t most = 0;  // how many values were asked for
    Samples samples;
  };
  Fuel fuel;
  std::map<std::pair<Term, int>, Known> known;  // by depth
};

/// Different values, at most so many.
class ShapeValues::Found {
 public:
  Found(ShapeWork& work, std::size_t most) : work_(work), most_(most) {}

  void add(Value value) {
    work_.spend(1);
    if (is_full()) {
      is_all = false;
      return;
    }
    const std::uint64_t hash = schema::hash_of(value);
    const auto [from, to] = places_.equal_range(hash);
    const auto is_it = [&](const auto& place) { return values_[place.second] == value; };
    if (std::any_of(from, to, is_it)) return;
    places_.emplace(hash, values_.size());
    values_.push_back(std::move(value));
  }
  void add(std::vector<Value> values) {
    for (Value& value : values) add(std::move(value));
  }
  [[nodiscard]] bool is_full() const { return values_.size() >= most_; }
  /// The values, if they need it only those that fit the term.
  [[nodiscard]] Samples take(Term term) {
    if (needs_check) std::erase_if(values_, [&](const Value& v) { return !work_.fits(term, v); });
    return {std::move(values_), is_all};
  }

  bool is_all = true;
  bool needs_check = false;

 private:
  ShapeWork& work_;
  std::size_t most_;
  std::vector<Value> values_;
  std::unordered_multimap<std::uint64_t, std::size_t> places_;  // by hash, in values_
};

ShapeValues::ShapeValues(Shapes& shapes)
    : shapes_(shapes), work_(shapes.work), terms_(shapes.terms()) {}

// Deeper values are tried only if there are too few shallow ones.
ShapeValues::Samples ShapeValues::some(Term term, std::size_t most) {
  constexpr int kMaxDepth = 6;
  constexpr std::size_t kFuel = 20'000;
  constexpr std::size_t kFuelForOne = 50;
  const bool is_within = std::exchange(is_searching_, true);
  Samples found;
  for (int depth = 1; depth <= kMaxDepth; ++depth) {
    Search search{.fuel = {kFuel + most * kFuelForOne}, .known = {}};
    found = {};
    found.is_all = sample(search, term, most, depth, found);
    if (found.is_all || found.values.size() >= most || search.fuel.left == 0) break;
  }
  is_searching_ = is_within;
  return found;
}

// Adds values up to `wanted`. False: there may be more.
bool ShapeValues::sample(Search& search, Term term, std::size_t wanted, int depth, Samples& into) {
  if (depth == 0 || !work_.spend(1)) return false;
  const auto key = std::pair(term, depth);
  if (const auto known = search.known.find(key);
      known != search.known.end() &&
      (known->second.samples.is_all || known->second.most >= wanted)) {
    into = first_of(known->second.samples, wanted);
    work_.spend(into.values.size());
    return into.is_all;
  }
  // Items that must differ ask for one more value each time.
  const std::size_t most = std::bit_ceil(wanted);
  Found found(work_, most);
  found.needs_check = shapes_.strings.needs_check(term);
  const Constants words = shapes_.constants.of(term);
  if (words[0]) found.add(nullptr);
  if (words[1]) found.add(false);
  if (words[2]) found.add(true);
  std::vector<Value> texts;
  const bool has_all =
      shapes_.strings.find_some(shapes_.strings.text(term), most, search.fuel, texts);
  found.add(std::move(texts));
  found.is_all = found.is_all && has_all;
  if (!add_numbers(term, most, found)) return false;
  add_shapes(search, shapes_.arrays.alternatives(term), most, depth, found);
  add_shapes(search, shapes_.objects.alternatives(term), most, depth, found);
  Samples all = found.take(term);
  into = first_of(all, wanted);
  search.known.insert_or_assign(key, Search::Known{most, std::move(all)});
  return into.is_all;
}

// False: there is an error.
bool ShapeValues::add_numbers(Term term, std::size_t most, Found& found) {
  const auto& shapes = shapes_.numbers.alternatives(term);
  found.is_all = found.is_all && shapes.has_value();
  if (!shapes) return true;
  for (const NumberShape& shape : *shapes) {
    found.needs_check |= shape.needs_check;
    if (!work_.spend(1)) return false;
    SomeNumbers some = some_numbers(shape.set, most);
    work_.spend(kStepsPerTriedNumber * some.tried * (1 + shape.set.excluded.size()));
    for (std::string& number : some.numbers) found.add(json::Number{std::move(number)});
    found.is_all = found.is_all && some.is_all;
  }
  return true;
}

template <class Shape>
void ShapeValues::add_shapes(Search& search, const std::optional<std::vector<Shape>>& shapes,
                             std::size_t most, int depth, Found& found) {
  found.is_all = found.is_all && shapes.has_value();
  if (!shapes) return;
  for (const Shape& shape : *shapes) {
    if (found.is_full()) {
      found.is_all = false;
      return;
    }
    found.needs_check |= shape.needs_check;
    Samples more;
    const bool has_all = sample(search, shape, most, depth, more);
    found.add(std::move(more.values));
    found.is_all = found.is_all && has_all;
  }
}

bool ShapeValues::sample(Search& search, const ArrayShape& shape, std::size_t most, int depth,
                         Samples& into) {
  const std::uint64_t most_items = shapes_.satisfiable.most_items(shape);
  bool is_all = true;
  json::Array items;
  std::vector<std::uint64_t> fitting(shape.contained.size());
  constexpr std::size_t kMostItems = 200;
  const Numbered excluded(shape.excluded);
  work_.spend(shape.excluded.size());
  const std::function<void()> go_on = [&] {
    const bool has_steps = work_.spend(1 + items.size() / kValuesPerStep);
    if (!is_all || items.size() > kMostItems || !has_steps || !search.fuel.burn()) {
      is_all = false;
      return;
    }
    bool may_end = items.size() >= shape.length.least && items.size() <= shape.length.most;
    for (std::size_t i = 0; i < fitting.size(); ++i) {
      const Counts& counts = shape.contained[i].counts;
      may_end = may_end && fitting[i] >= counts.least && fitting[i] <= counts.most;
    }
    if (may_end && !excluded.find(items)) {
      if (into.values.size() >= most) {
        is_all = false;
        return;
      }
      into.values.emplace_back(items);
      work_.spend(items.size());
    }
    const std::uint64_t at = items.size();
    if (at >= most_items) return;
    const Term item = at < shape.prefix.size() ? shape.prefix[at] : shape.items;
    const std::vector<std::uint64_t> before = fitting;
    // Each set of conditions that the item fits, bit i for contained[i], so that the counts are
    // known.
    for (std::uint32_t fits = 0; fits < 1U << shape.contained.size(); ++fits) {
      std::vector<Term> all{item};
      bool is_possible = true;
      fitting = before;
      for (std::size_t i = 0; i < fitting.size(); ++i) {
        const bool one = (fits >> i & 1U) != 0;
        if (one && at < shape.contained[i].from) is_possible = false;
        if (at < shape.contained[i].from) continue;
        const Term term = shape.contained[i].term;
        all.push_back(one ? term : terms_.negation(term));
        if (one) ++fitting[i];
      }
      if (!is_possible || !shapes_.satisfiable.can_end(shape, most_items, at + 1, fitting))
        continue;
      Samples found;
      const std::size_t wanted = most + shape.excluded.size() + (shape.unique ? items.size() : 0);
      const bool all_found =
          sample(search, terms_.all_of(std::move(all)), wanted, depth - 1, found);
      for (Value& value : found.values) {
        if (!work_.spend(1 + items.size() / kValuesPerStep)) is_all = false;
        if (!is_all) break;
        if (shape.unique && is_one_of(items, value)) continue;
        items.push_back(std::move(value));
        go_on();
        items.pop_back();
        if (!is_all) break;
      }
      is_all = is_all && all_found;
      if (into.values.size() >= most && !is_all) break;
    }
    fitting = before;
  };
  go_on();
  return is_all;
}

bool ShapeValues::sample(Search& search, const ObjectShape& shape, std::size_t most, int depth,
                         Samples& into) {
  struct Entry {
    std::string name;
    std::vector<Value> values;
    bool is_required = false;
  };
  bool is_all = true;
  std::vector<Entry> entries;
  const std::size_t apart = most + shape.excluded.size();
  const auto add = [&](std::string name, Term term, bool is_required) {
    Samples found;
    is_all = sample(search, term, apart, depth - 1, found) && is_all;
    if (found.values.empty() && !is_required) return;
    entries.push_back({std::move(name), std::move(found.values), is_required});
  };
  const bool has_room = shape.required.size() < shape.count.most;
  for (auto& [name, term] : shapes_.names.named(shape)) {
    const bool is_required = std::ranges::binary_search(shape.required, name);
    if (is_required || has_room) add(std::move(name), term, is_required);
  }
  bool needs_check = false;
  for (const OtherNames& other :
       has_room ? shapes_.names.others(shape, needs_check) : std::vector<OtherNames>{}) {
    std::vector<Value> names;
    const StringShape language{.language = work_.exprs().both(work_.any_text(), other.names)};
    const std::size_t wanted =
        apart + other.but.size() + std::min<std::uint64_t>(shape.count.least, apart);
    is_all = shapes_.strings.find_some(language, wanted, search.fuel, names) && is_all;
    for (const Value& name : names) {
      if (std::ranges::find(other.but, *name.if_string()) == other.but.end()) {
        add(*name.if_string(), other.value, false);
      }
    }
  }
  constexpr std::size_t kMostNames = 500;
  if (needs_check || entries.size() > kMostNames) is_all = false;
  if (entries.size() > kMostNames) return false;
  std::size_t required_left = shape.required.size();
  bool is_stopped = false;
  json::Object members;
  const Numbered excluded(shape.excluded);
  work_.spend(shape.excluded.size());
  // Entry by entry, each with every value or left out. Members that can no longer reach the counts
  // end the way.
  const std::function<void(std::size_t)> go_on = [&](std::size_t at) {
    if (is_stopped || !work_.spend(1) || !search.fuel.burn()) {
      is_stopped = true;
      return;
    }
    if (members.size() + required_left > shape.count.most ||
        members.size() + (entries.size() - at) < shape.count.least) {
      return;
    }
    if (at == entries.size()) {
      const bool has_some = std::ranges::all_of(shape.some, [&](const ObjectShape::Some& some) {
        return std::ranges::any_of(members.members(), [&](const json::Member& member) {
          return shapes_.strings.holds(some.names, member.key) &&
                 shapes_.work.fits(some.value, member.value);
        });
      });
      if (!has_some || excluded.find(members)) return;
      if (into.values.size() >= most) {
        is_stopped = true;
      } else {
        work_.spend(members.size());
        into.values.emplace_back(members);
      }
      return;
    }
    const Entry& entry = entries[at];
    if (!entry.is_required) go_on(at + 1);
    if (members.size() >= shape.count.most) return;
    if (entry.is_required) --required_left;
    for (const Value& value : entry.values) {
      members[entry.name] = value;
      go_on(at + 1);
      members.erase(entry.name);
      if (is_stopped) break;
    }
    if (entry.is_required) ++required_left;
  };
  go_on(0);
  return is_all && !is_stopped;
}

// What is known of the shape, or a place for it. Null: enough shapes are known.
template <class Shape>
ShapeValues::KnownShape<Shape>* ShapeValues::known(const Shape& shape) {
  constexpr std::size_t kMostShapes = 32;
  auto& all = kept(shape);
  auto place = std::ranges::find(all, shape, &KnownShape<Shape>::shape);
  if (place == all.end() && all.size() >= kMostShapes) return nullptr;
  if (place == all.end())
    place = all.insert(place, {.shape = shape, .samples = {}, .has_many = {}});
  return &*place;
}

// Values of the shape, which are kept: if more and more values are excluded from a shape, the same
// values are asked for again and again. Results that depend on an assumption are not kept.
template <class Shape>
const ShapeValues::Samples& ShapeValues::of_shape(const Shape& shape, std::size_t most) {
  constexpr int kDepth = 6;
  constexpr std::size_t kFuel = 20'000;
  if (const auto* const has = known(shape);
      has != nullptr && (has->samples.is_all || has->asked >= most)) {
    return has->samples;
  }
  const Assumptions::Watch assumed(shapes_.assumptions);
  is_searching_ = true;
  Samples found;
  for (int depth = 2; depth <= kDepth; ++depth) {
    Search search{.fuel = {kFuel}, .known = {}};
    found = {};
    found.is_all = sample(search, shape, most, depth, found);
    if (found.is_all || found.values.size() >= most) break;
  }
  is_searching_ = false;
  auto* const place = known(shape);  // asked again, because the search may have added shapes
  if (assumed.has_some() || work_.error() || place == nullptr) return unkept_ = std::move(found);
  place->asked = most;
  return place->samples = std::move(found);
}

// During the search for values, excluded ones are skipped when they come up.
template <class Shape>
bool ShapeValues::has_any_but_excluded(const Shape& shape) {
  if (is_searching_) {
    shapes_.assumptions.has_guessed = true;
    return true;
  }
  Shape all = shape;
  all.excluded.clear();
  constexpr std::size_t kFew = StringShapes::kMany / 4;
  if (shape.excluded.size() < kFew) {
    auto* const place = known(all);
    if (place != nullptr && !place->has_many) place->has_many = has_many(all);
    if (place != nullptr && *place->has_many) return true;
  }
  if (has_more_names(shape, shape.excluded.size())) return true;
  const Numbered excluded(shape.excluded);
  const Samples& found = of_shape(all, std::bit_ceil(shape.excluded.size() + 1));
  if (!work_.spend(1 + shape.excluded.size())) return true;
  const auto is_left = [&](const Value& value) {
    work_.spend(1);
    return !excluded.find(value);
  };
  return std::ranges::any_of(found.values, is_left) || !found.is_all;
}
template bool ShapeValues::has_any_but_excluded(const ArrayShape& shape);
template bool ShapeValues::has_any_but_excluded(const ObjectShape& shape);

// Whether some item or member has hundreds of values, so that the shape has as many if it has any.
// This needs no examples, which are dear where a pattern is beside it.
bool ShapeValues::has_many(const ArrayShape& shape) {
  constexpr std::size_t kFewItems = 64;  // from which the item may have to differ
  if (shape.needs_check || !shape.contained.empty() || shape.length.most == 0 ||
      shape.length.least > kFewItems) {
    return false;
  }
  return shapes_.strings.has_many(shape.prefix.empty() ? shape.items : shape.prefix[0]);
}
bool ShapeValues::has_many(const ObjectShape& shape) {
  if (shape.needs_check || !shape.some.empty()) return false;
  const bool has_room = shape.required.size() < shape.count.most;
  return std::ranges::any_of(shapes_.names.named(shape), [&](const auto& member) {
    const auto& [name, term] = member;
    return (has_room || std::ranges::binary_search(shape.required, name)) &&
           shapes_.strings.has_many(term);
  });
}

// Whether one of more than `than` names can be added to the smallest object, if there is one, which
// makes as many different objects. Such objects are not looked for one by one: with several
// patterns and conditions on some member, 20,000 tries find none (50 ms).
bool ShapeValues::has_more_names(const ObjectShape& shape, std::size_t than) {
  constexpr std::size_t kMost = 256;
  const std::size_t needed = shape.required.size() + shape.some.size();
  if (than > kMost || needed >= shape.count.most || shape.count.least > kMost) return false;
  const std::size_t most = than + needed + static_cast<std::size_t>(shape.count.least);
  bool needs_check = false;
  const std::vector<OtherNames> all_others = shapes_.names.others(shape, needs_check);
  return !needs_check && !shape.needs_check &&
         std::ranges::any_of(all_others, [&](const OtherNames& other) {
           return other.some == 0 && !shapes_.names.few(other, most);
         });
}

bool ShapeValues::is_boundless(Term term, bool with_numbers) {
  // False while the question is open, because the array's items may be arrays of the same kind.
  const auto [known, is_new] = boundless_.emplace(std::pair(term, with_numbers), false);
  if (!is_new) return known->second;
  const auto judge = [&] {
    if (shapes_.constants.of(term).any() || shapes_.strings.needs_check(term)) return false;
    const StringShape& strings = shapes_.strings.text(term);
    const bool is_open_text = !strings.values && strings.language == work_.any_text() &&
                              strings.length.most == Counts::kUnbounded;
    if (!is_open_text && shapes_.is_satisfiable(strings)) return false;
    // Not through TermShapes::of(), which needs to know whether shapes have values.
    const auto& some_numbers = shapes_.numbers.alternatives(term);
    const auto& some_arrays = shapes_.arrays.alternatives(term);
    const auto& some_objects = shapes_.objects.alternatives(term);
    if (!some_numbers || !some_arrays || !some_objects) return false;
    // A number may be one after which no digit can follow.
    const auto is_number = [&](const NumberShape& shape) { return shapes_.is_satisfiable(shape); };
    if (with_numbers && std::ranges::any_of(*some_numbers, is_number)) return false;
    const bool are_open_arrays = std::ranges::all_of(*some_arrays, [&](const ArrayShape& shape) {
      return !shape.needs_check && !shape.unique && shape.excluded.empty() &&
             shape.contained.empty() && shape.length.most == Counts::kUnbounded &&
             shapes_.is_satisfiable(shape.items);
    });
    return are_open_arrays && std::ranges::all_of(*some_objects, [&](const ObjectShape& shape) {
             if (shape.needs_check || !shape.some.empty() || !shape.excluded.empty() ||
                 shape.count.most != Counts::kUnbounded) {
               return false;
             }
             // Each of many names may be there or not, so there are more objects than items.
             constexpr std::size_t kMany = 64;
             bool needs_check = false;
             return std::ranges::any_of(shapes_.names.others(shape, needs_check),
                                        [&](const OtherNames& other) {
                                          return !needs_check && !shapes_.names.few(other, kMany);
                                        });
           });
  };
  return known->second = judge();
}

// Not through TermShapes::of(), which needs to know whether shapes have values.
std::optional<std::uint64_t> ShapeValues::finite_size(Term term) {
  const StringShape& strings = shapes_.strings.shape(term);
  if (!strings.values) return std::nullopt;
  std::uint64_t size = shapes_.constants.of(term).count() + strings.values->size();
  const auto& numbers = shapes_.numbers.alternatives(term);
  if (!numbers) return std::nullopt;
  for (const NumberShape& shape : *numbers) {
    const std::optional<std::uint64_t> count = most_values(shape.set);
    if (!count) return std::nullopt;
    size += *count;
  }
  const auto has_none = [&](auto& shapes) {
    const auto& found = shapes.alternatives(term);
    return found && found->empty();
  };
  if (!has_none(shapes_.arrays) || !has_none(shapes_.objects)) return std::nullopt;
  return size;
}

// ---- Items that differ --------------------------------------------------------------------------

const ShapeValues::Samples& ShapeValues::of_items(Term term, std::size_t most) {
  const auto known = of_items_.find({term, most});
  if (known != of_items_.end()) return known->second;
  const Assumptions::Watch assumed(shapes_.assumptions);
  Samples found = some(term, most);
  if (!assumed.has_some()) {
    return of_items_.emplace(std::pair(term, most), std::move(found)).first->second;
  }
  // A value that is left out while its term is open may exist.
  static const Samples kUnknown{};
  shapes_.assumptions.has_guessed = true;
  return kUnknown;
}

// The required items from `from` on that have fewer values than there are items: only these may
// find no value.
std::vector<const std::vector<Value>*> ShapeValues::scarce_items(const ArrayShape& shape,
                                                                 std::uint64_t from) {
  constexpr std::uint64_t kMostItems = 64;  // more items are not counted
  std::vector<const std::vector<Value>*> scarce;
  if (shape.length.least > kMostItems) return scarce;
  const auto count = static_cast<std::size_t>(shape.length.least);
  for (std::uint64_t i = from; i < shape.length.least; ++i) {
    const Term item = i < shape.prefix.size() ? shape.prefix[i] : shape.items;
    if (is_boundless(item)) continue;
    const Samples& values = of_items(item, count);
    if (values.is_all && values.values.size() < count) scarce.push_back(&values.values);
  }
  return scarce;
}

namespace {

// Whether each list can give a different value that is not taken: a matching that is enlarged list
// by list.
bool can_choose(const std::vector<std::vector<std::size_t>>& lists,
                const std::vector<bool>& is_taken, std::uint64_t& steps) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> chosen_by(is_taken.size(), kNone);
  std::vector<bool> tried;
  // An augmenting path: takes a free value, or one whose list finds another.
  const std::function<bool(std::size_t)> find = [&](std::size_t list) {
    for (const std::size_t value : lists[list]) {
      ++steps;
      if (tried[value]) continue;
      tried[value] = true;
      if (chosen_by[value] != kNone && !find(chosen_by[value])) continue;
      chosen_by[value] = list;
      return true;
    }
    return false;
  };
  for (std::size_t list = 0; list < lists.size(); ++list) {
    tried = is_taken;
    if (!find(list)) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Value>> ShapeValues::spoilers(const ArrayShape& shape,
                                                        std::uint64_t count,
                                                        std::span<const Value* const> taken) {
  std::vector<Value> result;
  const auto scarce = scarce_items(shape, count + 1);
  if (scarce.empty()) return result;
  Numbered values;
  std::vector<std::vector<std::size_t>> lists(scarce.size());
  std::uint64_t steps = taken.size();
  for (std::size_t i = 0; i < scarce.size(); ++i) {
    for (const Value& value : *scarce[i]) lists[i].push_back(values.add(value));
    steps += lists[i].size();
  }
  std::vector<bool> is_taken(values.size());
  for (const Value* value : taken) {
    if (const auto number = values.find(*value)) is_taken[*number] = true;
  }
  if (!can_choose(lists, is_taken, steps)) return std::nullopt;
  for (std::size_t number = 0; number < values.size(); ++number) {
    if (!work_.spend(std::exchange(steps, 0))) return result;
    if (is_taken[number]) continue;
    is_taken[number] = true;
    if (!can_choose(lists, is_taken, steps)) result.push_back(values[number]);
    is_taken[number] = false;
  }
  return result;
}

}  // namespace tenon::grammar
