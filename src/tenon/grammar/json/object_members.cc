#include "tenon/grammar/json/object_members.h"

#include <algorithm>
#include <bit>
#include <functional>

// All kinds of objects, and all cases of a kind, are followed side by side: a state says which
// names have come and which cases can still hold (State::open). A name may come if some open case
// allows it and the object can still come to an end behind it. Mostly the names seen decide that,
// as bits; must_look_ahead() says when they do not: a required value of one of several names
// (some_), an order, or objects that are excluded. An object is followed along the excluded ones
// that have all its members so far (State::like), and can_differ() searches for a way to leave
// them.

namespace tenon::grammar {
namespace {

constexpr std::size_t kMaxUsed = 256;
constexpr std::uint32_t kNoState = 0xFFFFFFF;

bool is_single(const std::vector<ObjectKind>& kinds) {
  return kinds.size() == 1 && kinds[0].cases.size() == 1;
}

bool has(const std::vector<std::uint64_t>& bits, std::uint32_t name) {
  return (bits[name / 64] >> name % 64 & 1U) != 0;
}

template <class Test>
bool has_way(std::uint32_t possible, const Test& test) {
  for (std::uint32_t some = 0; some <= possible; ++some) {
    if ((some & possible) == some && test(some)) return true;
  }
  return false;
}

}  // namespace

ObjectMembers::ObjectMembers(JsonContext& context, std::vector<ObjectKind> kinds, bool& needs_check)
    : context_(context), count_(kinds[0].shape.count), some_(kinds[0].shape.some) {
  const ObjectShape& shape = kinds[0].shape;
  std::vector<std::string> names = add_names(kinds);
  std::vector<TermByName> terms;  // by kind
  for (const ObjectKind& kind : kinds) {
    TermByName& by_name = terms.emplace_back();
    for (auto& [name, term] : context_.shapes.names.named(kind.shape)) {
      if (is_single(kinds)) names.push_back(name);
      by_name.emplace(std::move(name), term);
    }
  }
  std::uint32_t order = 0;
  for (const std::string& name : names) {
    const auto is_possible = [&](const TermByName& of) {
      return context_.shapes.is_satisfiable(of.find(name)->second);
    };
    if (std::ranges::none_of(terms, is_possible)) continue;
    // Without its opening quote.
    std::string spelled = json::to_string(json::Value(name)).substr(1);
    std::uint32_t within = 0;
    for (std::size_t i = 0; i < some_.size(); ++i) {
      if (context_.shapes.strings.holds(some_[i].names, name)) within |= 1U << i;
    }
    const Term term = terms[0].find(name)->second;
    names_.push_back({std::move(spelled), name, order++, fitting(term, within)});
  }
  std::ranges::sort(names_, {}, &Name::spelled);
  by_order_.resize(names_.size());
  for (std::uint32_t i = 0; i < names_.size(); ++i) by_order_[names_[i].order] = i;
  by_name_ = by_order_;
  std::ranges::sort(by_name_, {},
                    [&](std::uint32_t name) -> std::string_view { return names_[name].name; });
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (const PresentNames& present : kinds[i].cases) {
      cases_.push_back(case_of(terms[i], present));
    }
  }
  likes_.emplace_back();
  for (const OtherNames& other : context_.shapes.names.others(shape, needs_check)) {
    others_.push_back({other, other.value, fitting(other.value, other.some)});
  }
  used_.emplace_back();
  // An undeclared name that comes twice counts twice, and may undo what `some_` requires. In
  // other objects that does no harm, and checking for it would keep the masks of its value out of
  // the cache.
  tracks_others_ = !others_.empty() && (count_.least > 1 || !some_.empty());
  // The number of members matters up to the least, and always if there is a most.
  counts_matter_ = count_.most != schema::Counts::kUnbounded ? count_.most : count_.least;
  states_.push_back({});
  states_[0].seen.resize((names_.size() + 63) / 64);
  for (std::uint32_t i = 0; i < cases_.size(); ++i) {
    states_[0].open.push_back({i, static_cast<std::uint32_t>(cases_[i].names.size())});
  }
  states_[0].like = intern(shape.excluded);
  state_ids_.emplace(key_of(states_[0]), 0);
}

std::size_t ObjectMembers::seen_count(const State& state) {
  std::size_t count = 0;
  for (const std::uint64_t word : state.seen)
    count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

bool ObjectMembers::may_close(StateId id) const {
  const State& state = states_[id];
  return may_close(state) && !is_excluded(state.like, seen_count(state));
}

bool ObjectMembers::may_add_name(StateId id, std::uint32_t name) {
  return may_add_name(states_[id], name);
}

bool ObjectMembers::may_add_name_in(StateId id, std::uint32_t from, std::uint32_t to) {
  return may_add_name_in(states_[id], from, to);
}

bool ObjectMembers::is_free(StateId id, std::uint32_t name) const {
  return is_free(states_[id], name);
}

std::optional<OtherNames> ObjectMembers::other_names(StateId id, std::uint32_t other) {
  const State& state = states_[id];
  if (!may_add_others(state) || !may_add_other(state, others_[other])) return std::nullopt;
  return context_.shapes.names.without(others_[other].names, used_[state.used]);
}

std::vector<ObjectMembers::Way> ObjectMembers::ways(StateId id, std::uint32_t name) {
  std::vector<Way> ways;
  for_each_way(states_[id], name, [&](Term term, State state) {
    ways.push_back({term, intern(std::move(state))});
    return false;
  });
  return ways;
}

std::vector<ObjectMembers::Way> ObjectMembers::ways_of_other(StateId id, std::uint32_t other) {
  std::vector<Way> ways;
  for_each_some(others_[other].term, others_[other].some, [&](Term term, std::uint32_t some) {
    State state = after_other(states_[id], some);
    if (may_finish(state)) ways.push_back({term, intern(std::move(state))});
  });
  return ways;
}

ObjectMembers::StateId ObjectMembers::with_other_name(StateId id, const std::string& name) {
  State state = states_[id];
  context_.shapes.spend(used_.size());
  std::vector<std::string> used = used_[state.used];
  if (used.size() < kMaxUsed) used.push_back(name);
  std::ranges::sort(used);
  const auto known = std::ranges::find(used_, used);
  state.used = static_cast<std::uint32_t>(known - used_.begin());
  if (known == used_.end()) used_.push_back(std::move(used));
  return intern(std::move(state));
}

std::uint32_t ObjectMembers::least_after(Machine& machine, StateId id) {
  const State state = states_[id];  // a copy, because states_ may grow
  return least_after(machine, state);
}

std::uint32_t ObjectMembers::least_with(Machine& machine, StateId id, std::uint32_t name,
                                        std::size_t read) {
  std::uint32_t fewest = Machine::kFar;
  const State state = states_[id];  // a copy, because states_ may grow
  for_each_term(state, name, [&](Term term, const State& part) {
    const std::uint32_t least =
        least_of(machine, name, term, read) + least_after(machine, after_name(part, name, 0));
    fewest = std::min(fewest, least);
  });
  return fewest;
}

std::size_t ObjectMembers::memory_bytes() const {
  constexpr std::size_t kNodeBytes = 96;  // of the maps, without the memory of the keys
  const std::size_t seen_bytes = states_[0].seen.size() * sizeof(std::uint64_t);
  const std::size_t open_bytes = 2 * cases_.size() * sizeof(OpenCase);
  return states_.size() * (sizeof(State) + 2 * seen_bytes + open_bytes + kNodeBytes) +
         bytes_of_likes_ + without_.memory_bytes();
}

// Adds the names that the shapes do not list themselves, and returns all names, or none if there
// is a single case.
std::vector<std::string> ObjectMembers::add_names(std::vector<ObjectKind>& kinds) {
  ObjectNames& names = context_.shapes.names;
  std::vector<std::string> all;
  std::vector<std::set<std::string, std::less<>>> own(kinds.size());
  std::set<std::string, std::less<>> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) all.push_back(name);
  };
  const auto add_own = [&](std::size_t kind, const std::string& name) {
    own[kind].insert(name);
    add(name);
  };
  for (std::size_t i = 0; i < kinds.size() && !is_single(kinds); ++i) {
    for (const auto& [name, term] : names.named(kinds[i].shape)) add_own(i, name);
  }
  for (std::size_t i = 0; i < kinds.size() && !is_single(kinds); ++i) {
    for (const PresentNames& present : kinds[i].cases) {
      for (const std::string& name : present.required) add_own(i, name);
      for (const std::string& name : present.forbidden) add(name);
    }
  }
  for (const json::Value* value : kinds[0].shape.excluded) {
    for (const json::Member& member : *value->if_object()) add(member.key);
  }
  constexpr std::size_t kFewNames = 32;
  bool ignored = false;
  for (const OtherNames& other : names.others(kinds[0].shape, ignored)) {
    const auto few = names.few(other, kFewNames);
    if (!few) continue;
    for (const std::string& name : *few) add(name);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool only_own = !is_single(kinds) && names.are_all_declared(kinds[i].shape);
    for (const std::string& name : all) {
      const bool may_come = !only_own || own[i].contains(name);
      kinds[i].shape.extra.try_emplace(name, may_come ? Terms::kAnything : Terms::kNothing);
    }
  }
  if (is_single(kinds)) all.clear();
  return all;
}

ObjectMembers::Case ObjectMembers::case_of(const TermByName& terms, const PresentNames& present) {
  const std::size_t words = (names_.size() + 63) / 64;
  Case made{{}, std::vector<std::uint64_t>(words), std::vector<std::uint64_t>(words), {}, {}};
  const auto set = [](std::vector<std::uint64_t>& bits, std::uint32_t name) {
    bits[name / 64] |= std::uint64_t{1} << name % 64;
  };
  for (std::uint32_t i = 0; i < names_.size(); ++i) {
    made.terms.push_back(terms.find(names_[i].name)->second);
    if (!context_.shapes.is_satisfiable(made.terms.back())) set(made.forbidden, i);
  }
  for (const std::string& name : present.forbidden) {
    if (const auto unwanted = find_name(name)) set(made.forbidden, *unwanted);
  }
  for (const std::string& name : present.required) {
    const auto known = find_name(name);
    if (!known) continue;
    set(made.required, *known);
    made.names.push_back(*known);
    made.orders.push_back(names_[*known].order);
  }
  std::ranges::sort(made.orders);
  return made;
}

std::optional<std::uint32_t> ObjectMembers::find_name(std::string_view name) const {
  const auto name_of = [&](std::uint32_t id) -> std::string_view { return names_[id].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || names_[*found].name != name) return std::nullopt;
  return *found;
}

bool ObjectMembers::is_ordered() const {
  return context_.options.property_order == JsonOptions::PropertyOrder::schema;
}

bool ObjectMembers::has_seen(const State& state, std::uint32_t name) const {
  return has(state.seen, name);
}

bool ObjectMembers::may_close(const State& state) const {
  const auto is_complete = [](const OpenCase& open) { return open.missing == 0; };
  return state.count >= count_.least && is_met(state) &&
         std::ranges::any_of(state.open, is_complete);
}

// Whether one of the objects that have all members so far has no other members.
bool ObjectMembers::is_excluded(std::uint32_t like, std::size_t members) const {
  context_.shapes.spend(likes_[like].size() / kComparedPerStep);
  return std::ranges::any_of(likes_[like], [&](const json::Value* value) {
    return value->if_object()->size() == members;
  });
}

std::uint32_t ObjectMembers::intern(const Like& like) {
  if (like.empty()) return 0;
  context_.shapes.spend(1 + like.size() / kComparedPerStep);
  const auto [place, is_new] =
      like_ids_.try_emplace(like, static_cast<std::uint32_t>(likes_.size()));
  if (is_new) {
    likes_.push_back(like);
    constexpr std::size_t kNodeBytes = 96;
    bytes_of_likes_ += kNodeBytes + 2 * like.size() * sizeof(Like::value_type);
  }
  return place->second;
}

bool ObjectMembers::has_only_known_names(const json::Value& object) const {
  const json::Object& members = *object.if_object();
  context_.shapes.spend(members.size());
  return std::ranges::all_of(
      members, [&](const json::Member& member) { return find_name(member.key).has_value(); });
}

// The state before the first member if these objects are left out as well; nothing if no object
// is left. The frame reads no objects with names that it does not know.
std::optional<ObjectMembers::StateId> ObjectMembers::without(JsonContext::ObjectsId objects) {
  const std::uint32_t known = without_.find(objects);
  if (known != IntMap::kNone) return known == kNoState ? std::nullopt : std::optional(known);
  State state = states_[0];
  Like like = likes_[state.like];
  for (const json::Value* object : context_.objects(objects)) {
    if (has_only_known_names(*object)) like.push_back(object);
  }
  std::ranges::sort(like);
  const auto repeated = std::ranges::unique(like);
  like.erase(repeated.begin(), repeated.end());
  state.like = intern(like);
  const bool is_left = state.like == 0 || can_differ(state, 0);
  const std::uint32_t id = is_left ? intern(std::move(state)) : kNoState;
  without_.insert(objects, id);
  return is_left ? std::optional(id) : std::nullopt;
}

bool ObjectMembers::is_met(const State& state) const {
  return state.some == (1U << some_.size()) - 1;
}

// Calls use() with each way to read the value of a name after which the object can still end, and
// the state after it. The value is one that some_ requires, or differs from the values of the
// excluded objects there, or is one of these. Stops when use() returns true, and returns true.
template <class Use>
bool ObjectMembers::for_each_way(const State from, std::uint32_t name, const Use& use) {
  bool is_done = false;
  for_each_value(from, name, [&](Term term, std::uint32_t some, const State& part) {
    if (is_done) return;
    State state = after_name(part, name, some);
    if (!may_finish(state)) return;
    if (from.like == 0) {
      is_done = use(term, std::move(state));
      return;
    }
    const auto groups = by_value(from.like, name);
    Terms& terms = context_.shapes.terms();
    std::vector<Term> others{term};
    for (const auto& [value, like] : groups) others.push_back(terms.negation(value));
    const Term other = terms.all_of(std::move(others));
    state.like = 0;
    if (context_.shapes.is_satisfiable(other)) is_done = use(other, state);
    for (const auto& [value, like] : groups) {
      if (is_done) return;
      const Term equal = terms.all_of({term, value});
      if (!context_.shapes.is_satisfiable(equal)) continue;
      state.like = like;
      if (can_differ(state, seen_count(state))) is_done = use(equal, state);
    }
  });
  return is_done;
}

// The values that the excluded objects have there, each with the objects that have it.
std::vector<std::pair<Term, std::uint32_t>> ObjectMembers::by_value(std::uint32_t like,
                                                                    std::uint32_t name) {
  std::vector<std::pair<Term, Like>> groups;
  for (const json::Value* value : likes_[like]) {
    const json::Value* const member = value->if_object()->find(names_[name].name);
    if (member == nullptr) continue;
    const Term term = context_.term_of(*member);
    const auto is_it = [&](const auto& group) { return group.first == term; };
    auto group = std::ranges::find_if(groups, is_it);
    if (group == groups.end()) group = groups.insert(groups.end(), {term, {}});
    group->second.push_back(value);
  }
  std::vector<std::pair<Term, std::uint32_t>> result;
  for (const auto& [term, values] : groups) result.emplace_back(term, intern(values));
  return result;
}

// Whether an object with so many members can end as one that is not among the excluded ones that
// it equals so far. There may be as many decisions in a row as the schema has names, so this does
// not call itself.
bool ObjectMembers::can_differ(const State& state, std::size_t members) {
  constexpr std::size_t kMostOpen = 10'000;
  std::vector<Undecided> open{{state, 0, members}};
  while (!open.empty() && !context_.machine.error()) {
    const Undecided one = std::move(open.back());
    open.pop_back();
    if (differs(one, open)) return true;
    if (open.size() > kMostOpen) {
      context_.machine.fail({Errc::limit_exceeded,
                             "schema: too many ways to differ from an object that is excluded"});
    }
  }
  return false;
}

// True: it can differ whatever its next names are. Otherwise adds the ways to decide the next
// name to `open`.
bool ObjectMembers::differs(const Undecided& one, std::vector<Undecided>& open) {
  const State& state = one.state;
  if (!context_.shapes.spend(1 + (state.seen.size() + likes_[state.like].size()))) return false;
  if (state.like == 0) return can_reach(state);
  std::size_t at = one.at;
  while (at < by_order_.size() && has_seen(state, by_order_[at])) ++at;
  if (at == by_order_.size()) {
    if (may_close(state) && !is_excluded(state.like, one.members)) return true;
    return may_add_others(state) && std::ranges::any_of(others_, [&](const Other& other) {
             return has_way(other.some, [&](std::uint32_t some) {
               return can_reach(after_other(state, some));
             });
           });
  }
  const std::uint32_t name = by_order_[at];
  State passed = state;
  std::erase_if(passed.open,
                [&](const OpenCase& open) { return has(cases_[open.at].required, name); });
  if (!passed.open.empty()) {
    Like without;
    for (const json::Value* value : likes_[state.like]) {
      if (!value->if_object()->contains(names_[name].name)) without.push_back(value);
    }
    passed.like = intern(without);
    passed.seen[name / 64] |= std::uint64_t{1} << name % 64;
    open.push_back({std::move(passed), at + 1, one.members});
  }
  if (!is_free(state, name)) return false;
  bool differs = false;
  for_each_value(state, name, [&](Term term, std::uint32_t some, const State& part) {
    if (differs) return;
    State next = after_name(part, name, some);
    const auto groups = by_value(state.like, name);
    Terms& terms = context_.shapes.terms();
    std::vector<Term> others{term};
    for (const auto& [value, like] : groups) others.push_back(terms.negation(value));
    next.like = 0;
    differs = can_reach(next) && context_.shapes.is_satisfiable(terms.all_of(std::move(others)));
    for (const auto& [value, like] : groups) {
      if (differs) return;
      next.like = like;
      if (context_.shapes.is_satisfiable(terms.all_of({term, value}))) {
        open.push_back({next, at + 1, one.members + 1});
      }
    }
  });
  return differs;
}

// Calls use() with each term that a value of the name may fit, and the state in which only the
// cases are open that have this term.
template <class Use>
void ObjectMembers::for_each_term(const State& from, std::uint32_t name, const Use& use) {
  if (cases_.size() == 1) return use(cases_[0].terms[name], from);
  std::vector<Term> done;
  for (const OpenCase& open : from.open) {
    const Term term = cases_[open.at].terms[name];
    if (!allows(from, open, name) || std::ranges::find(done, term) != done.end()) continue;
    done.push_back(term);
    State part = from;
    std::erase_if(part.open,
                  [&](const OpenCase& one) { return cases_[one.at].terms[name] != term; });
    use(term, part);
  }
}

// The same, for each set of `some_` that the value meets.
template <class Use>
void ObjectMembers::for_each_value(const State& from, std::uint32_t name, const Use& use) {
  for_each_term(from, name, [&](Term of_name, const State& part) {
    for_each_some(of_name, names_[name].some,
                  [&](Term term, std::uint32_t some) { use(term, some, part); });
  });
}

// Tries the values that `some_` still requires, and one that meets none of them.
template <class Use>
void ObjectMembers::for_each_some(Term of_name, std::uint32_t possible, const Use& use) {
  for (std::uint32_t some = 0; some < 1U << some_.size(); ++some) {
    if ((some & possible) != some) continue;
    std::vector<Term> all{of_name};
    for (std::size_t i = 0; i < some_.size(); ++i) {
      if ((some >> i & 1U) != 0) all.push_back(some_[i].value);
    }
    const Term term = context_.shapes.terms().all_of(std::move(all));
    if (some == 0 || context_.shapes.is_satisfiable(term)) use(term, some);
  }
}

// The conditions among `within` that a value of the term can meet.
std::uint32_t ObjectMembers::fitting(Term term, std::uint32_t within) {
  for (std::size_t i = 0; i < some_.size(); ++i) {
    const Term both = context_.shapes.terms().all_of({term, some_[i].value});
    if (!context_.shapes.is_satisfiable(both)) within &= ~(1U << i);
  }
  return within;
}

// Whether the members that may still come can meet all of `some_` and reach the required number.
// In any order each name that has not been seen is free, and there are enough of them.
bool ObjectMembers::may_finish(const State& state) const {
  return (is_met(state) && !is_ordered()) || can_reach(state);
}

// The same where names may count as seen that have been passed over.
bool ObjectMembers::can_reach(const State& state) const {
  if (is_met(state) && state.count >= count_.least) return true;
  if (!context_.shapes.spend(1 + names_.size() / kComparedPerStep)) return false;
  std::uint32_t some = state.some;
  std::uint64_t most = state.count;
  for (std::uint32_t name = 0; name < names_.size(); ++name) {
    if (!is_free(state, name)) continue;
    some |= names_[name].some;
    ++most;
  }
  if (may_add_others(state)) {
    for (const Other& other : others_) some |= other.some;
    most = count_.most;
  }
  return some == (1U << some_.size()) - 1 && most >= count_.least;
}

// Whether one more member fits beside the required ones that are still missing.
bool ObjectMembers::has_room(const State& state, const OpenCase& open) const {
  return state.count + open.missing < count_.most;
}

// Whether the case can still hold once the name has come.
bool ObjectMembers::allows(const State& state, const OpenCase& open, std::uint32_t name) const {
  const Case& one = cases_[open.at];
  if (has(one.forbidden, name)) return false;
  if (!has(one.required, name) && !has_room(state, open)) return false;
  if (!is_ordered()) return true;
  // A required name that is passed over could not come any more.
  const auto next_required = std::ranges::lower_bound(one.orders, state.next_order);
  return next_required == one.orders.end() || names_[name].order <= *next_required;
}

bool ObjectMembers::is_free(const State& state, std::uint32_t name) const {
  if (has_seen(state, name)) return false;
  if (is_ordered() && names_[name].order < state.next_order) return false;
  return std::ranges::any_of(state.open,
                             [&](const OpenCase& open) { return allows(state, open, name); });
}

// Whether the names seen alone do not decide if the object can end.
bool ObjectMembers::must_look_ahead(const State& state) const {
  return !is_met(state) || (is_ordered() && state.count < count_.least) || state.like != 0;
}

bool ObjectMembers::may_add_name(const State& state, std::uint32_t name) {
  if (!is_free(state, name)) return false;
  if (!must_look_ahead(state)) return true;
  if (state.like != 0) {
    return for_each_way(state, name, [](Term, const State&) { return true; });
  }
  return has_way(names_[name].some,
                 [&](std::uint32_t some) { return may_finish(after_name(state, name, some)); });
}

bool ObjectMembers::may_add_other(const State& state, const Other& other) const {
  if (!must_look_ahead(state)) return true;
  return has_way(other.some,
                 [&](std::uint32_t some) { return may_finish(after_other(state, some)); });
}

// Whether some name of the range may still come. The seen names are bits, so 64 names are asked
// at once; only order, or conditions on later members, need a look at each name.
bool ObjectMembers::may_add_name_in(const State& state, std::uint32_t from, std::uint32_t to) {
  if (is_ordered() || must_look_ahead(state)) {
    for (std::uint32_t name = from; name < to; ++name) {
      if (may_add_name(state, name)) return true;
    }
    return false;
  }
  for (std::uint32_t word = from / 64; word * 64 < to; ++word) {
    std::uint64_t allowed = 0;
    for (const OpenCase& open : state.open) {
      const Case& one = cases_[open.at];
      allowed |=
          ~one.forbidden[word] & (has_room(state, open) ? ~std::uint64_t{0} : one.required[word]);
    }
    std::uint64_t free = ~state.seen[word] & allowed;
    if (word == from / 64) free &= ~std::uint64_t{0} << from % 64;
    if (to < (word + 1) * 64) free &= (std::uint64_t{1} << to % 64) - 1;
    if (free != 0) return true;
  }
  return false;
}

bool ObjectMembers::may_add_others(const State& state) const {
  return !others_.empty() && std::ranges::any_of(state.open, [&](const OpenCase& open) {
    return allows_other(state, open);
  });
}

bool ObjectMembers::allows_other(const State& state, const OpenCase& open) const {
  return has_room(state, open) && (!is_ordered() || open.missing == 0);
}

bool ObjectMembers::may_add(StateId id) {
  const State state = states_[id];  // a copy, because states_ may grow
  const auto may_add_it = [&](const Other& other) { return may_add_other(state, other); };
  return (may_add_others(state) && std::ranges::any_of(others_, may_add_it)) ||
         may_add_name_in(state, 0, static_cast<std::uint32_t>(names_.size()));
}

// Which cases are open also depends on the values that have been read.
std::vector<std::uint64_t> ObjectMembers::key_of(const State& state) const {
  std::vector<std::uint64_t> key = state.seen;
  if (cases_.size() > 1) {
    for (const OpenCase& open : state.open) key.push_back(open.at);
  }
  key.push_back(state.count);
  key.push_back(std::uint64_t{state.some} << 32U | state.next_order);
  key.push_back(std::uint64_t{state.used} << 32U | state.like);
  return key;
}

ObjectMembers::StateId ObjectMembers::intern(State state) {
  state.count = std::min(state.count, counts_matter_);
  const auto [place, is_new] =
      state_ids_.try_emplace(key_of(state), static_cast<std::uint32_t>(states_.size()));
  if (is_new) states_.push_back(std::move(state));
  return place->second;
}

ObjectMembers::State ObjectMembers::after_name(State state, std::uint32_t name,
                                               std::uint32_t some) const {
  std::erase_if(state.open, [&](const OpenCase& open) { return !allows(state, open, name); });
  for (OpenCase& open : state.open) {
    if (has(cases_[open.at].required, name)) --open.missing;
  }
  state.some |= some;
  state.seen[name / 64] |= std::uint64_t{1} << name % 64;
  ++state.count;
  if (is_ordered()) state.next_order = names_[name].order + 1;
  return state;
}

// A name that the excluded objects do not have: it differs from all of them.
ObjectMembers::State ObjectMembers::after_other(State state, std::uint32_t some) const {
  std::erase_if(state.open, [&](const OpenCase& open) { return !allows_other(state, open); });
  state.some |= some;
  state.like = 0;
  ++state.count;
  if (is_ordered()) state.next_order = static_cast<std::uint32_t>(names_.size());
  return state;
}

// The bytes for the rest of a name of which `read` bytes have been read, its colon and its value.
std::uint32_t ObjectMembers::least_of(Machine& machine, std::uint32_t name, Term term,
                                      std::size_t read) {
  return static_cast<std::uint32_t>(names_[name].spelled.size() - read) + 1 +
         machine.least(context_.value(term));
}

// The bytes for the missing required members, with quotes and commas, and the closing bracket.
std::uint32_t ObjectMembers::least_after(Machine& machine, const State& state) {
  std::uint32_t fewest = Machine::kFar;
  for (const OpenCase& open : state.open) {
    std::uint32_t sum = 1;
    for (const std::uint32_t name : cases_[open.at].names) {
      if (sum >= fewest) break;
      if (has_seen(state, name)) continue;
      sum += 2 + least_of(machine, name, cases_[open.at].terms[name], 0);
    }
    fewest = std::min(fewest, sum);
  }
  return fewest;
}

}  // namespace tenon::grammar
