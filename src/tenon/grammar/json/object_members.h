#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/json/object_kinds.h"
#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shapes.h"
#include "tenon/grammar/json/term.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// What the objects of some kinds remember of their members, and which members may come next.
class ObjectMembers {
 public:
  /// What has been read, as a number; equal states have equal numbers. kStart: before any member.
  using StateId = std::uint32_t;
  static constexpr StateId kStart = 0;
  /// A name that is known. Its number is its place in names().
  struct Name {
    std::string spelled;  ///< As JSON, without the opening quote.
    std::string name;
    std::uint32_t order;  ///< Its place in the schema.
    std::uint32_t some;   ///< Bit i: a value may be the one that some_[i] requires.
  };
  /// Names that only an automaton knows.
  struct Other {
    OtherNames names;
    Term term;  ///< What their values fit.
    std::uint32_t some;
  };
  /// A way to read a value, and the state behind it.
  struct Way {
    Term value;
    StateId after;
  };

  /// Names that are few become known ones, which are cheaper to follow than an automaton. Sets
  /// `needs_check` if the members allow more objects than the kinds have.
  ObjectMembers(JsonContext& context, std::vector<ObjectKind> kinds, bool& needs_check);

  /// Sorted by how they are written.
  [[nodiscard]] const std::vector<Name>& names() const { return names_; }
  [[nodiscard]] const std::vector<Other>& others() const { return others_; }

  [[nodiscard]] bool may_close(StateId id) const;
  [[nodiscard]] bool may_add(StateId id);
  [[nodiscard]] bool may_add_name(StateId id, std::uint32_t name);
  /// Whether some name of [from, to) may come.
  [[nodiscard]] bool may_add_name_in(StateId id, std::uint32_t from, std::uint32_t to);
  /// Whether the name may come, as far as its own case says: later members are not looked at.
  [[nodiscard]] bool is_free(StateId id, std::uint32_t name) const;
  /// The names of others()[other] that may come; nothing if no name may.
  [[nodiscard]] std::optional<OtherNames> other_names(StateId id, std::uint32_t other);
  /// The ways to read a value of the name after which the object can still end.
  [[nodiscard]] std::vector<Way> ways(StateId id, std::uint32_t name);
  /// The same for a name of others()[other].
  [[nodiscard]] std::vector<Way> ways_of_other(StateId id, std::uint32_t other);

  /// Whether names that are not known are remembered, because they must not come twice.
  [[nodiscard]] bool tracks_others() const { return tracks_others_; }
  /// The state in which this name, which is not known, has come.
  [[nodiscard]] StateId with_other_name(StateId id, const std::string& name);

  /// The state before the first member if these objects are left out; nothing if none is left.
  [[nodiscard]] std::optional<StateId> without(JsonContext::ObjectsId objects);
  [[nodiscard]] bool can_leave_out(const json::Value& object) const {
    return others_.empty() || has_only_known_names(object);
  }

  /// The least bytes for the missing required members and the closing bracket.
  [[nodiscard]] std::uint32_t least_after(Machine& machine, StateId id);
  /// The same with the rest of a name of which `read` bytes have come, its colon and its value.
  [[nodiscard]] std::uint32_t least_with(Machine& machine, StateId id, std::uint32_t name,
                                         std::size_t read);
  /// The memory that grows with the texts that are read.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using TermByName = std::map<std::string, Term, std::less<>>;
  // What one of the cases of a kind says of the names.
  struct Case {
    std::vector<Term> terms;               // of the values, by name
    std::vector<std::uint64_t> required;   // bit i: names_[i] is required
    std::vector<std::uint64_t> forbidden;  // bit i: names_[i] must not come
    std::vector<std::uint32_t> names;      // the required ones
    std::vector<std::uint32_t> orders;     // of the required ones, rising
  };
  // A case that can still hold.
  struct OpenCase {
    std::uint32_t at;       // in cases_
    std::uint32_t missing;  // so many required names have not been seen
  };
  // Which names have been seen, and the number of properties as far as it matters.
  struct State {
    std::vector<std::uint64_t> seen;
    std::vector<OpenCase> open;  // one of them at least
    std::uint64_t count = 0;
    std::uint32_t next_order = 0;  // if the order matters
    std::uint32_t some = 0;        // bit i: some_[i] has been met
    std::uint32_t used = 0;        // undeclared names: used_
    std::uint32_t like = 0;        // the excluded objects that have all members so far: likes_
  };
  using Like = Objects;
  // An object so far, with so many members. Names are decided in their order, from `at` on: a name
  // that is passed over counts as seen.
  struct Undecided {
    State state;
    std::size_t at = 0;
    std::size_t members = 0;
  };

  // ---- What the kinds say of names
  std::vector<std::string> add_names(std::vector<ObjectKind>& kinds);
  [[nodiscard]] Case case_of(const TermByName& terms, const PresentNames& present);
  [[nodiscard]] std::optional<std::uint32_t> find_name(std::string_view name) const;
  [[nodiscard]] std::uint32_t fitting(Term term, std::uint32_t within);
  [[nodiscard]] bool is_ordered() const;

  // ---- States
  [[nodiscard]] std::vector<std::uint64_t> key_of(const State& state) const;
  StateId intern(State state);
  [[nodiscard]] State after_name(State state, std::uint32_t name, std::uint32_t some) const;
  [[nodiscard]] State after_other(State state, std::uint32_t some) const;
  [[nodiscard]] bool has_seen(const State& state, std::uint32_t name) const;
  [[nodiscard]] static std::size_t seen_count(const State& state);

  // ---- Which members may come
  [[nodiscard]] bool may_close(const State& state) const;
  [[nodiscard]] bool is_met(const State& state) const;
  [[nodiscard]] bool may_finish(const State& state) const;
  [[nodiscard]] bool can_reach(const State& state) const;
  [[nodiscard]] bool has_room(const State& state, const OpenCase& open) const;
  [[nodiscard]] bool allows(const State& state, const OpenCase& open, std::uint32_t name) const;
  [[nodiscard]] bool allows_other(const State& state, const OpenCase& open) const;
  [[nodiscard]] bool is_free(const State& state, std::uint32_t name) const;
  [[nodiscard]] bool must_look_ahead(const State& state) const;
  [[nodiscard]] bool may_add_name(const State& state, std::uint32_t name);
  [[nodiscard]] bool may_add_name_in(const State& state, std::uint32_t from, std::uint32_t to);
  [[nodiscard]] bool may_add_other(const State& state, const Other& other) const;
  [[nodiscard]] bool may_add_others(const State& state) const;
  template <class Use>
  bool for_each_way(State from, std::uint32_t name, const Use& use);
  template <class Use>
  void for_each_term(const State& from, std::uint32_t name, const Use& use);
  template <class Use>
  void for_each_value(const State& from, std::uint32_t name, const Use& use);
  template <class Use>
  void for_each_some(Term of_name, std::uint32_t possible, const Use& use);

  // ---- Objects that are excluded
  std::uint32_t intern(const Like& like);
  [[nodiscard]] bool is_excluded(std::uint32_t like, std::size_t members) const;
  [[nodiscard]] bool has_only_known_names(const json::Value& object) const;
  [[nodiscard]] std::vector<std::pair<Term, std::uint32_t>> by_value(std::uint32_t like,
                                                                     std::uint32_t name);
  [[nodiscard]] bool can_differ(const State& state, std::size_t members);
  [[nodiscard]] bool differs(const Undecided& one, std::vector<Undecided>& open);

  // ---- The fewest bytes to an end
  [[nodiscard]] std::uint32_t least_of(Machine& machine, std::uint32_t name, Term term,
                                       std::size_t read);
  [[nodiscard]] std::uint32_t least_after(Machine& machine, const State& state);

  JsonContext& context_;
  schema::Counts count_;
  std::vector<ObjectShape::Some> some_;
  std::vector<Name> names_;  // by spelling
  std::vector<Other> others_;
  std::vector<Case> cases_;                 // one of these holds
  std::vector<std::uint32_t> by_order_;     // names_ in the order of the schema
  std::vector<std::uint32_t> by_name_;      // and by name
  std::vector<Like> likes_;                 // the first is empty
  std::map<Like, std::uint32_t> like_ids_;  // without the first
  IntMap without_;                          // objects that are left out -> state, or kNoState
  std::size_t bytes_of_likes_ = 0;
  std::vector<std::vector<std::string>> used_;  // the first is empty
  bool tracks_others_ = false;                  // undeclared names are remembered
  std::uint64_t counts_matter_ = 0;
  std::vector<State> states_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> state_ids_;
};

}  // namespace tenon::grammar
