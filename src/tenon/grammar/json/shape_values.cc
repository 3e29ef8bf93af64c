// Values of terms, found by trying: whether a term has a value beside the excluded ones, and
// whether items that must differ can all have one.
//
// some_values() returns up to so many different values of a term. Strings are found breadth first
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

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_parts.h"
#include "tenon/schema/values.h"

namespace tenon::grammar {

using json::Value;
using regex::Expr;
using schema::Counts;

namespace {

// The first `most` values.
Shapes::Samples first_of(const Shapes::Samples& samples, std::size_t most) {
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

// Deeper values are tried only if there are too few shallow ones.
Shapes::Samples Shapes::some_values(Term term, std::size_t most) {
  constexpr int kMaxDepth = 6;
  constexpr std::size_t kFuel = 20'000;
  constexpr std::size_t kFuelForOne = 50;
  const bool is_within = std::exchange(is_sampling_, true);
  Samples found;
  for (int depth = 1; depth <= kMaxDepth; ++depth) {
    Sampling sampling{.fuel = kFuel + most * kFuelForOne, .known = {}};
    found = {};
    found.is_all = sample(sampling, term, most, depth, found);
    if (found.is_all || found.values.size() >= most || sampling.fuel == 0) break;
  }
  is_sampling_ = is_within;
  return found;
}

// Adds values up to `wanted`. False: there may be more.
bool Shapes::sample(Sampling& sampling, Term term, std::size_t wanted, int depth, Samples& into) {
  if (depth == 0 || !spend(1)) return false;
  const auto key = std::pair(term, depth);
  if (const auto known = sampling.known.find(key);
      known != sampling.known.end() &&
      (known->second.samples.is_all || known->second.most >= wanted)) {
    into = first_of(known->second.samples, wanted);
    spend(into.values.size());
    return into.is_all;
  }
  // Items that must differ ask for one more value each time.
  const std::size_t most = std::bit_ceil(wanted);
  bool needs_check = strings_need_check(term);
  bool is_all = true;
  Samples found;
  std::unordered_multimap<std::uint64_t, std::size_t> places;  // by hash, in found.values
  const auto add = [&](Value value) {
    spend(1);
    if (found.values.size() >= most) {
      is_all = false;
      return;
    }
    const std::uint64_t hash = schema::hash_of(value);
    const auto [from, to] = places.equal_range(hash);
    const auto is_it = [&](const auto& place) { return found.values[place.second] == value; };
    if (std::any_of(from, to, is_it)) return;
    places.emplace(hash, found.values.size());
    found.values.push_back(std::move(value));
  };
  const Constants words = constants(term);
  if (words[0]) add(nullptr);
  if (words[1]) add(false);
  if (words[2]) add(true);
  Samples more;
  const auto take = [&](bool all) {
    for (Value& value : more.values) add(std::move(value));
    is_all = is_all && all;
    more = {};
  };
  take(sample(sampling, text(term), most, more));
  if (const Alternatives<NumberShape>& numbers = alternatives<NumberShape>(term, false)) {
    for (const NumberShape& shape : *numbers) {
      needs_check |= shape.needs_check;
      if (!spend(1)) return false;
      SomeNumbers some = some_numbers(shape.set, most);
      spend(kStepsPerTriedNumber * some.tried * (1 + shape.set.excluded.size()));
      for (std::string& number : some.numbers) add(json::Number{std::move(number)});
      is_all = is_all && some.is_all;
    }
  } else {
    is_all = false;
  }
  const auto take_shapes = [&]<class Shape>(Shape*) {
    const Alternatives<Shape> shapes = alternatives<Shape>(term, false);
    is_all = is_all && shapes.has_value();
    if (!shapes) return;
    for (const Shape& shape : *shapes) {
      if (found.values.size() >= most) {
        is_all = false;
        return;
      }
      needs_check |= shape.needs_check;
      take(sample(sampling, shape, most, depth, more));
    }
  };
  take_shapes(static_cast<ArrayShape*>(nullptr));
  take_shapes(static_cast<ObjectShape*>(nullptr));
  if (needs_check)
    std::erase_if(found.values, [&](const Value& value) { return !fits(term, value); });
  found.is_all = is_all;
  into = first_of(found, wanted);
  sampling.known.insert_or_assign(key, Sampling::Known{most, std::move(found)});
  return into.is_all;
}

// Shortest first. Only as many prefixes are kept as are needed, because each of them leads to a
// text.
bool Shapes::sample(Sampling& sampling, const StringShape& shape, std::size_t most, Samples& into) {
  if (shape.values) {
    for (const std::string& text : *shape.values) {
      if (into.values.size() >= most) return false;
      into.values.emplace_back(text);
    }
    return true;
  }
  struct Begun {
    std::string text;
    regex::Dfa::State state;
    std::uint64_t characters;
  };
  Automaton& of = automaton(shape.language);
  const std::size_t width = most + shape.excluded.size() + 1;
  constexpr std::uint64_t kStepsPerBeginning = 40;  // 255 bytes are tried
  std::vector<Begun> begun{{"", regex::Dfa::kStart, 0}};
  bool is_all = true;
  while (!begun.empty()) {
    std::vector<Begun> next;
    for (const Begun& from : begun) {
      if (!spend(kStepsPerBeginning)) return false;
      if (of.dfa.is_accepting(from.state) && from.characters >= shape.length.least &&
          from.characters <= shape.length.most &&
          !std::ranges::binary_search(shape.excluded, from.text)) {
        if (into.values.size() >= most) return false;
        into.values.emplace_back(from.text);
      }
      for (unsigned byte = 1; byte < 256; ++byte) {
        const bool is_new = (byte & 0xC0U) != 0x80U;
        const std::uint64_t characters = from.characters + (is_new ? 1 : 0);
        if (characters > shape.length.most) continue;
        const auto state = of.dfa.step(from.state, static_cast<std::uint8_t>(byte));
        const Expected<bool> live = of.lengths.is_live(
            state, shape.length.least > characters ? shape.length.least - characters : 0,
            shape.length.most == Counts::kUnbounded ? Counts::kUnbounded
                                                    : shape.length.most - characters);
        if (!live) return false;
        if (!*live) continue;
        if (next.size() >= width) {
          is_all = false;
          break;
        }
        next.push_back({from.text + static_cast<char>(byte), state, characters});
      }
      if (!sampling.burn()) return false;
    }
    begun = std::move(next);
  }
  fail_by_limit();
  return is_all && !error_;
}

bool Shapes::has_many_longer(Term term, std::string_view text) {
  const StringShape& shape = this->text(term);
  if (shape.values) return !std::ranges::binary_search(*shape.values, text);
  if (!holds(shape, text)) return true;
  if (strings_need_check(term)) return false;
  const auto is_first = [](char byte) {
    return (static_cast<std::uint8_t>(byte) & 0xC0U) != 0x80U;
  };
  const auto read = static_cast<std::uint64_t>(std::ranges::count_if(text, is_first));
  const std::uint64_t least = shape.length.least > read ? shape.length.least - read : 0;
  // Short strings are enough.
  constexpr std::uint64_t kLonger = 12;
  const bool is_open = shape.length.most == Counts::kUnbounded;
  const std::uint64_t room = is_open ? Counts::kUnbounded : shape.length.most - read;
  const std::uint64_t most = std::min(room, std::max(least, kLonger));
  Automaton& of = automaton(shape.language);
  const regex::Dfa::State state = of.after(text);
  const auto key = std::tuple(shape.language, state, least, most);
  if (const auto known = many_texts_.find(key); known != many_texts_.end()) return known->second;
  const bool result = has_many_texts(of, state, least, most);
  return many_texts_.emplace(key, result).first->second;
}

// Breadth first: each prefix that has not been expanded leads to a text of its own.
bool Shapes::has_many_texts(Automaton& of, std::uint32_t from, std::uint64_t least,
                            std::uint64_t most) {
  constexpr std::size_t kMany = 1024;
  constexpr std::size_t kMostTried = 200;  // prefixes, with 255 bytes each
  constexpr std::uint64_t kStepsPerTried = 40;
  struct Begun {
    regex::Dfa::State state;
    std::uint64_t read;
  };
  std::vector<Begun> begun{{from, 0}};
  for (std::size_t tried = 0; tried < begun.size(); ++tried) {
    if (begun.size() - tried >= kMany) return true;
    if (tried == kMostTried || !spend(kStepsPerTried)) return false;
    const Begun at = begun[tried];
    for (unsigned byte = 1; byte < 256; ++byte) {
      const std::uint64_t read = at.read + ((byte & 0xC0U) != 0x80U ? 1 : 0);
      if (read > most) continue;
      const auto state = of.dfa.step(at.state, static_cast<std::uint8_t>(byte));
      const Expected<bool> live =
          of.lengths.is_live(state, least > read ? least - read : 0,
                             most == Counts::kUnbounded ? Counts::kUnbounded : most - read);
      if (!live) return false;
      if (*live) begun.push_back({state, read});
    }
  }
  return false;
}

bool Shapes::sample(Sampling& sampling, const ArrayShape& shape, std::size_t most, int depth,
                    Samples& into) {
  const std::uint64_t most_items = this->most_items(shape);
  bool is_all = true;
  json::Array items;
  std::vector<std::uint64_t> fitting(shape.contained.size());
  constexpr std::size_t kMostItems = 200;
  const Numbered excluded(shape.excluded);
  spend(shape.excluded.size());
  const std::function<void()> go_on = [&] {
    const bool has_steps = spend(1 + items.size() / kValuesPerStep);
    if (!is_all || items.size() > kMostItems || !has_steps || !sampling.burn()) {
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
      spend(items.size());
    }
    const std::uint64_t at = items.size();
    if (at >= most_items) return;
    const Term item = at < shape.prefix.size() ? shape.prefix[at] : shape.items;
    const std::vector<std::uint64_t> before = fitting;
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
      if (!is_possible || !can_end(shape, most_items, at + 1, fitting)) continue;
      Samples found;
      const std::size_t wanted = most + shape.excluded.size() + (shape.unique ? items.size() : 0);
      const bool all_found =
          sample(sampling, terms_.all_of(std::move(all)), wanted, depth - 1, found);
      for (Value& value : found.values) {
        if (!spend(1 + items.size() / kValuesPerStep)) is_all = false;
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

bool Shapes::sample(Sampling& sampling, const ObjectShape& shape, std::size_t most, int depth,
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
    is_all = sample(sampling, term, apart, depth - 1, found) && is_all;
    if (found.values.empty() && !is_required) return;
    entries.push_back({std::move(name), std::move(found.values), is_required});
  };
  const bool has_room = shape.required.size() < shape.count.most;
  for (auto& [name, term] : named(shape)) {
    const bool is_required = std::ranges::binary_search(shape.required, name);
    if (is_required || has_room) add(std::move(name), term, is_required);
  }
  bool needs_check = false;
  for (const OtherNames& other :
       has_room ? others(shape, needs_check) : std::vector<OtherNames>{}) {
    Samples names;
    const StringShape language{.language = exprs_->both(any_text_, other.names)};
    const std::size_t wanted =
        apart + other.but.size() + std::min<std::uint64_t>(shape.count.least, apart);
    is_all = sample(sampling, language, wanted, names) && is_all;
    for (const Value& name : names.values) {
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
  spend(shape.excluded.size());
  const std::function<void(std::size_t)> go_on = [&](std::size_t at) {
    if (is_stopped || !spend(1) || !sampling.burn()) {
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
          return holds(some.names, member.key) && fits(some.value, member.value);
        });
      });
      if (!has_some || excluded.find(members)) return;
      if (into.values.size() >= most) {
        is_stopped = true;
      } else {
        spend(members.size());
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

std::vector<std::pair<ArrayShape, Shapes::Samples>>& Shapes::values_of_shapes(ArrayShape*) {
  return arrays_of_shapes_;
}
std::vector<std::pair<ObjectShape, Shapes::Samples>>& Shapes::values_of_shapes(ObjectShape*) {
  return objects_of_shapes_;
}

// Values of the shape, which are kept: if more and more values are excluded from a shape, the same
// values are asked for again and again. Results that depend on an assumption are not kept.
template <class Shape>
const Shapes::Samples& Shapes::values_of_shape(const Shape& shape, std::size_t most) {
  constexpr int kDepth = 6;
  constexpr std::size_t kFuel = 20'000;
  constexpr std::size_t kMostShapes = 32;
  auto& known = values_of_shapes(static_cast<Shape*>(nullptr));
  auto place = std::ranges::find(known, shape, &std::pair<Shape, Samples>::first);
  if (place != known.end() && (place->second.is_all || place->second.values.size() >= most)) {
    return place->second;
  }
  const std::size_t before = std::exchange(lowest_assumed_, kNothingAssumed);
  is_sampling_ = true;
  Samples found;
  for (int depth = 2; depth <= kDepth; ++depth) {
    Sampling sampling{.fuel = kFuel, .known = {}};
    found = {};
    found.is_all = sample(sampling, shape, most, depth, found);
    if (found.is_all || found.values.size() >= most) break;
  }
  is_sampling_ = false;
  const bool is_assumed = lowest_assumed_ != kNothingAssumed;
  lowest_assumed_ = std::min(lowest_assumed_, before);
  place = std::ranges::find(known, shape, &std::pair<Shape, Samples>::first);
  if (is_assumed || error_ || (place == known.end() && known.size() >= kMostShapes)) {
    return unkept_samples_ = std::move(found);
  }
  if (place == known.end()) place = known.emplace(place, shape, Samples{});
  return place->second = std::move(found);
}

// During the search for values, excluded ones are skipped when they come up.
template <class Shape>
bool Shapes::has_value_but_excluded(const Shape& shape) {
  if (is_sampling_) {
    has_guessed_ = true;
    return true;
  }
  if (has_more_names(shape, shape.excluded.size())) return true;
  Shape all = shape;
  all.excluded.clear();
  const Numbered excluded(shape.excluded);
  const Samples& found = values_of_shape(all, std::bit_ceil(shape.excluded.size() + 1));
  if (!spend(1 + shape.excluded.size())) return true;
  const auto is_left = [&](const Value& value) {
    spend(1);
    return !excluded.find(value);
  };
  return std::ranges::any_of(found.values, is_left) || !found.is_all;
}
template bool Shapes::has_value_but_excluded(const ArrayShape& shape);
template bool Shapes::has_value_but_excluded(const ObjectShape& shape);

// Whether one of more than `than` names can be added to the smallest object, if there is one, which
// makes as many different objects. Such objects are not looked for one by one: with several
// patterns and conditions on some member, 20,000 tries find none (50 ms).
bool Shapes::has_more_names(const ObjectShape& shape, std::size_t than) {
  constexpr std::size_t kMost = 256;
  const std::size_t needed = shape.required.size() + shape.some.size();
  if (than > kMost || needed >= shape.count.most || shape.count.least > kMost) return false;
  const std::size_t most = than + needed + static_cast<std::size_t>(shape.count.least);
  bool needs_check = false;
  const std::vector<OtherNames> all_others = others(shape, needs_check);
  return !needs_check && !shape.needs_check &&
         std::ranges::any_of(all_others, [&](const OtherNames& other) {
           return other.some == 0 && !few_names(other, most);
         });
}

bool Shapes::is_boundless(Term term, bool with_numbers) {
  // False while the question is open, because the array's items may be arrays of the same kind.
  const auto [known, is_new] = boundless_.emplace(std::pair(term, with_numbers), false);
  if (!is_new) return known->second;
  const auto judge = [&] {
    if (constants(term).any() || strings_need_check(term)) return false;
    const StringShape& strings = text(term);
    const bool is_open_text = !strings.values && strings.language == any_text_ &&
                              strings.length.most == Counts::kUnbounded;
    if (!is_open_text && is_satisfiable(strings)) return false;
    // Not through settled(), because of compute_satisfiable().
    const Alternatives<NumberShape> some_numbers = alternatives<NumberShape>(term, false);
    const Alternatives<ArrayShape> some_arrays = alternatives<ArrayShape>(term, false);
    const Alternatives<ObjectShape> some_objects = alternatives<ObjectShape>(term, false);
    if (!some_numbers || !some_arrays || !some_objects) return false;
    // A number may be one after which no digit can follow.
    const auto is_number = [&](const NumberShape& shape) { return is_possible(shape); };
    if (with_numbers && std::ranges::any_of(*some_numbers, is_number)) return false;
    const bool are_open_arrays = std::ranges::all_of(*some_arrays, [&](const ArrayShape& shape) {
      return !shape.needs_check && !shape.unique && shape.excluded.empty() &&
             shape.contained.empty() && shape.length.most == Counts::kUnbounded &&
             is_satisfiable(shape.items);
    });
    return are_open_arrays && std::ranges::all_of(*some_objects, [&](const ObjectShape& shape) {
             if (shape.needs_check || !shape.some.empty() || !shape.excluded.empty() ||
                 shape.count.most != Counts::kUnbounded) {
               return false;
             }
             // Each of many names may be there or not, so there are more objects than items.
             constexpr std::size_t kMany = 64;
             bool needs_check = false;
             return std::ranges::any_of(others(shape, needs_check), [&](const OtherNames& other) {
               return !needs_check && !few_names(other, kMany);
             });
           });
  };
  return known->second = judge();
}

// ---- Items that differ --------------------------------------------------------------------------

const Shapes::Samples& Shapes::values_of_items(Term term, std::size_t most) {
  const auto known = values_of_items_.find({term, most});
  if (known != values_of_items_.end()) return known->second;
  const std::size_t before = std::exchange(lowest_assumed_, kNothingAssumed);
  Samples found = some_values(term, most);
  const bool assumed = lowest_assumed_ != kNothingAssumed;
  lowest_assumed_ = std::min(lowest_assumed_, before);
  if (!assumed) {
    return values_of_items_.emplace(std::pair(term, most), std::move(found)).first->second;
  }
  // A value that is left out while its term is open may exist.
  static const Samples kUnknown{};
  has_guessed_ = true;
  return kUnknown;
}

// The required items from `from` on that have fewer values than there are items: only these may
// find no value.
std::vector<const std::vector<Value>*> Shapes::scarce_items(const ArrayShape& shape,
                                                            std::uint64_t from) {
  constexpr std::uint64_t kMostItems = 64;  // more items are not counted
  std::vector<const std::vector<Value>*> scarce;
  if (shape.length.least > kMostItems) return scarce;
  const auto count = static_cast<std::size_t>(shape.length.least);
  for (std::uint64_t i = from; i < shape.length.least; ++i) {
    const Term item = i < shape.prefix.size() ? shape.prefix[i] : shape.items;
    if (is_boundless(item)) continue;
    const Samples& values = values_of_items(item, count);
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

std::optional<std::vector<Value>> Shapes::spoilers(const ArrayShape& shape, std::uint64_t count,
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
    if (!spend(std::exchange(steps, 0))) return result;
    if (is_taken[number]) continue;
    is_taken[number] = true;
    if (!can_choose(lists, is_taken, steps)) result.push_back(values[number]);
    is_taken[number] = false;
  }
  return result;
}

}  // namespace tenon::grammar
