#include "tenon/grammar/json_frames.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/grammar/frames.h"
#include "tenon/grammar/shape.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

namespace {

using regex::ByteSet;
using regex::Expr;

constexpr ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.insert(static_cast<std::uint8_t>(byte));
  return set;
}

// What all frames of one schema share.
class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(Machine& machine, std::shared_ptr<const schema::Schema> schema,
          const JsonOptions& options);

  [[nodiscard]] FrameId value(Term term);
  [[nodiscard]] FrameId string(Term term);
  /// A name, after its opening quote.
  [[nodiscard]] FrameId name(const Shapes::OtherNames& names);
  [[nodiscard]] std::vector<FrameId> choices(Term term);
  /// What is equal to `value`, which may be gone afterwards.
  [[nodiscard]] Term term_of(const json::Value& value);
  /// Of what grows with the texts that are read.
  [[nodiscard]] std::size_t memory_bytes() const {
    constexpr std::size_t kTermBytes = 100;
    return shapes.shared_exprs()->bytes_used() + shapes.term_count() * kTermBytes;
  }

  Machine& machine;
  JsonOptions options;
  Shapes shapes;
  FrameId gap = 0;  // wherever whitespace may be but after ',' and ':'
  FrameId after_comma = 0;
  FrameId after_colon = 0;

 private:
  [[nodiscard]] StringOptions string_options();

  FrameId quote_ = 0;
  std::map<Term, FrameId> values_;
  std::map<std::pair<Expr, std::vector<std::string>>, FrameId> names_;
  std::map<std::string, json::Value, std::less<>> kept_;  // by their text; nodes of a map stay put
};

// A value that, once whole, is held against its term. Local: where it begins, and what is asked.
class CheckFrame final : public Frame {
 public:
  CheckFrame(Context& context, Term term, FrameId value)
      : context_(context), term_(term), value_(value) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.ask(self, kBegin, parent);
  }
  void resume(Machine& machine, const Cell& cell) override {
    machine.ask(cell.frame, cell.local | kEnd, cell.parent);
  }
  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    if (cell.local == kBegin) {
      machine.enter(value_,
                    machine.push(cell.frame, std::uint64_t{text.size()} << 2U, cell.parent));
      return;
    }
    const auto value = json::parse(text.substr(cell.local >> 2U));
    if (value && context_.shapes.fits(term_, *value)) machine.resume(cell.parent);
  }

 private:
  static constexpr std::uint64_t kBegin = 1;
  static constexpr std::uint64_t kEnd = 2;

  Context& context_;
  Term term_;
  FrameId value_;
};

// At most `max` characters of whitespace. The state is how many have been read.
class GapScanner final : public Scanner {
 public:
  explicit GapScanner(State max) : max_(max) {}

  State start() override { return 0; }
  State step(State state, std::uint8_t byte) override {
    const bool is_space = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
    return is_space && state < max_ ? state + 1 : kDead;
  }
  bool is_accepting(State) const override { return true; }
  bool is_final(State state) const override { return state == max_; }
  std::optional<vocab::ByteClasses> classes(State) override { return std::nullopt; }
  Border border(State) const override { return Border::alphabet; }
  ByteSet alphabet() const override { return set_of(" \n\t\r"); }
  Keys keys(State state, std::uint32_t /*longest*/) override {
    const regex::Fingerprint key =
        regex::fingerprint_of("whitespace " + std::to_string(max_ - state));
    return {key, key};
  }

 private:
  State max_;
};

// A value of a term: its choices, found when a value is first read here.
class ValueFrame final : public Frame {
 public:
  ValueFrame(Context& context, Term term) : context_(context), term_(term) {}

  void enter(Machine& machine, FrameId, CellId parent) override {
    if (!is_expanded_) {
      choices_ = context_.choices(term_);
      is_expanded_ = true;
    }
    for (const FrameId choice : choices_) machine.enter(choice, parent);
  }

 private:
  Context& context_;  // owns the map that leads here, and is owned by the root frame
  Term term_;
  bool is_expanded_ = false;
  std::vector<FrameId> choices_;
};

class ArrayFrame final : public Frame {
 public:
  ArrayFrame(Context& context, const ArrayShape& shape)
      : context_(context), shape_(shape), most_(shape.length.most) {
    // An item that nothing fits ends the array before it.
    for (std::size_t i = 0; i < shape_.prefix.size() && i < most_; ++i) {
      if (!context_.shapes.is_satisfiable(shape_.prefix[i])) most_ = i;
    }
    if (most_ > shape_.prefix.size() && !context_.shapes.is_satisfiable(shape_.items)) {
      most_ = shape_.prefix.size();
    }
    if (most_ == schema::Counts::kUnbounded) {
      last_count_ = std::max<std::uint64_t>(shape_.prefix.size(), shape_.length.least);
    }
    histories_.emplace_back();
  }

  void enter(Machine& machine, FrameId self, CellId parent) override {
    if (shape_.unique) {
      machine.ask(self, pack({Phase::begin, 0, 0}), parent);
    } else {
      machine.wait(self, pack({Phase::open, 0, 0}), parent);
    }
  }

  void resume(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::first:
        if (may_end(at)) machine.wait(cell.frame, pack({Phase::close, 0, at.history}), cell.parent);
        if (may_go_on(at)) item(machine, cell, at);
        break;
      case Phase::after:
        if (shape_.unique) {
          machine.ask(cell.frame, pack({Phase::is_new, at.count, at.history}), cell.parent);
        } else {
          gap(machine, cell, context_.gap, {Phase::next, at.count, at.history});
        }
        break;
      case Phase::next:
        if (may_end(at) || may_go_on(at)) machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::item:
        item(machine, cell, at);
        break;
      case Phase::begin:
      case Phase::open:
      case Phase::close:
      case Phase::is_new:
        break;
    }
  }

  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    return unpack(cell.local).phase == Phase::open ? set_of("[") : set_of("],");
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::open) {
      if (byte == '[') gap(machine, cell, context_.gap, {Phase::first, 0, at.history});
    } else if (byte == ']') {
      if (may_end(at)) machine.resume(cell.parent);
    } else if (byte == ',' && at.phase == Phase::next && may_go_on(at)) {
      gap(machine, cell, context_.after_comma, {Phase::item, at.count, at.history});
    }
  }

  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::begin) {
      machine.wait(cell.frame, pack({Phase::open, 0, intern({text.size(), {}})}), cell.parent);
      return;
    }
    History history = histories_[at.history];
    const auto so_far = json::parse(std::string(text.substr(history.begin)) + ']');
    if (!so_far) return;
    const json::Array& items = *so_far->if_array();
    if (std::find(items.begin(), items.end() - 1, items.back()) != items.end() - 1) return;
    if (context_.shapes.finite_size(item_term(at.count))) {
      history.taken.push_back(context_.term_of(items.back()));
    }
    gap(machine, cell, context_.gap, {Phase::next, at.count, intern(std::move(history))});
  }

  [[nodiscard]] std::size_t memory_bytes() const override {
    constexpr std::size_t kHistoryBytes = 200;
    return histories_.size() * kHistoryBytes;
  }

 private:
  enum class Phase : std::uint8_t {
    begin,   // asks where it is
    open,    // waits for '['
    first,   // an item or the end
    close,   // waits for ']'
    after,   // an item has been read
    is_new,  // asks whether it is the first of its kind
    next,    // waits for ',' or ']'
    item,    // an item
  };
  struct Local {
    Phase phase = Phase::begin;
    std::uint64_t count = 0;  // of items, as far as it matters
    std::uint32_t history = 0;
  };
  // Where items must differ: where the array begins, and what of finite sets of items is taken.
  struct History {
    std::size_t begin = 0;
    std::vector<Term> taken;
    auto operator<=>(const History&) const = default;
  };

  [[nodiscard]] std::uint64_t pack(const Local& at) const {
    return std::uint64_t{at.history} << 40U | std::min(at.count, last_count_) << 4U |
           static_cast<std::uint64_t>(at.phase);
  }
  static Local unpack(std::uint64_t local) {
    return {static_cast<Phase>(local & 15U), local >> 4U & 0xFFFFFFFFFU,
            static_cast<std::uint32_t>(local >> 40U)};
  }
  std::uint32_t intern(History history) {
    const auto [place, is_new] =
        history_ids_.try_emplace(std::move(history), static_cast<std::uint32_t>(histories_.size()));
    if (is_new) histories_.push_back(place->first);
    return place->second;
  }

  [[nodiscard]] Term item_term(std::uint64_t index) const {
    return index < shape_.prefix.size() ? shape_.prefix[index] : shape_.items;
  }
  // What may come next: the item less what is taken.
  [[nodiscard]] Term next_term(const Local& at) {
    const std::vector<Term>& taken = histories_[at.history].taken;
    if (taken.empty()) return item_term(at.count);
    std::vector<Term> all{item_term(at.count)};
    for (const Term term : taken) all.push_back(context_.shapes.terms().negation(term));
    return context_.shapes.terms().all_of(std::move(all));
  }
  [[nodiscard]] bool may_end(const Local& at) const { return at.count >= shape_.length.least; }
  [[nodiscard]] bool may_go_on(const Local& at) {
    return at.count < most_ &&
           (histories_[at.history].taken.empty() || context_.shapes.is_satisfiable(next_term(at)));
  }

  void gap(Machine& machine, const Cell& cell, FrameId gap, const Local& then) const {
    machine.enter(gap, machine.push(cell.frame, pack(then), cell.parent));
  }
  void item(Machine& machine, const Cell& cell, const Local& at) {
    machine.enter(
        context_.value(next_term(at)),
        machine.push(cell.frame, pack({Phase::after, at.count + 1, at.history}), cell.parent));
  }

  Context& context_;
  ArrayShape shape_;
  std::uint64_t most_;
  std::uint64_t last_count_ = 0xFFFFFFFFF;  // from here on all counts are alike
  std::vector<History> histories_;          // the first: of arrays whose items may be equal
  std::map<History, std::uint32_t> history_ids_;
};

class ObjectFrame final : public Frame {
 public:
  ObjectFrame(Context& context, const ObjectShape& shape, bool& needs_check)
      : context_(context), count_(shape.count) {
    std::uint32_t order = 0;
    for (const auto& [name, term] : context_.shapes.named(shape)) {
      if (!context_.shapes.is_satisfiable(term)) continue;
      // Without its opening quote.
      std::string spelled = json::to_string(json::Value(name)).substr(1);
      names_.push_back(
          {std::move(spelled), term, order++, std::ranges::binary_search(shape.required, name)});
    }
    std::ranges::sort(names_, {}, &Name::spelled);
    for (const Name& name : names_) required_count_ += name.is_required ? 1 : 0;
    for (const Shapes::OtherNames& other : context_.shapes.others(shape, needs_check)) {
      others_.push_back({context_.name(other), other.value});
    }
    // How many there are matters up to the least, and always if there is a most.
    counts_matter_ = count_.most != schema::Counts::kUnbounded ? count_.most : count_.least;
    states_.push_back({});
    states_[0].seen.resize((names_.size() + 63) / 64);
    state_ids_.emplace(key_of(states_[0]), 0);
  }

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, pack({Phase::open, 0, 0}), parent);
  }

  void resume(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::first:
        if (may_close(at.state) || may_add(at.state)) {
          machine.wait(cell.frame, pack({Phase::key_or_close, at.state, 0}), cell.parent);
        }
        break;
      case Phase::key:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::after_other:
        then(machine, cell, context_.gap, {Phase::colon_other, at.state, at.more});
        break;
      case Phase::colon:
      case Phase::colon_other:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::value:
        then(machine, cell, context_.value(names_[at.more].term),
             {Phase::after, with_name(at.state, at.more), 0});
        break;
      case Phase::value_other:
        then(machine, cell, context_.value(others_[at.more].term),
             {Phase::after, with_other(at.state), 0});
        break;
      case Phase::after:
        then(machine, cell, context_.gap, {Phase::next, at.state, 0});
        break;
      case Phase::next:
        if (may_close(at.state) || may_add(at.state)) {
          machine.wait(cell.frame, cell.local, cell.parent);
        }
        break;
      case Phase::open:
      case Phase::key_or_close:
      case Phase::name:
        break;
    }
  }

  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::open:
        return set_of("{");
      case Phase::key_or_close:
        return set_of("\"}");
      case Phase::key:
        return set_of("\"");
      case Phase::colon:
      case Phase::colon_other:
        return set_of(":");
      case Phase::next:
        return set_of(",}");
      case Phase::name:
        return bytes_in(places_[at.more]);
      default:
        return ByteSet::all();
    }
  }

  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::open:
        if (byte == '{') then(machine, cell, context_.gap, {Phase::first, at.state, 0});
        break;
      case Phase::key_or_close:
        if (byte == '}' && may_close(at.state)) machine.resume(cell.parent);
        [[fallthrough]];
      case Phase::key:
        if (byte == '"') begin_key(machine, cell, at.state);
        break;
      case Phase::name:
        read_name(machine, cell, at, byte);
        break;
      case Phase::colon:
        if (byte == ':')
          then(machine, cell, context_.after_colon, {Phase::value, at.state, at.more});
        break;
      case Phase::colon_other:
        if (byte == ':') {
          then(machine, cell, context_.after_colon, {Phase::value_other, at.state, at.more});
        }
        break;
      case Phase::next:
        if (byte == '}' && may_close(at.state)) machine.resume(cell.parent);
        if (byte == ',' && may_add(at.state)) {
          then(machine, cell, context_.after_comma, {Phase::key, at.state, 0});
        }
        break;
      default:
        break;
    }
  }

  [[nodiscard]] std::size_t memory_bytes() const override {
    constexpr std::size_t kNodeBytes = 96;  // of the maps, beside what the keys point to
    const std::size_t seen_bytes = states_[0].seen.size() * sizeof(std::uint64_t);
    return states_.size() * (sizeof(State) + 2 * seen_bytes + kNodeBytes) +
           places_.size() * (sizeof(Place) + kNodeBytes);
  }

 private:
  enum class Phase : std::uint8_t {
    open,          // waits for '{'
    first,         // a key or the end
    key_or_close,  // waits for '"' or '}'
    key,           // waits for '"'
    name,          // in a known name; more: the place
    after_other,   // another name has been read; more: of which kind
    colon,         // waits for ':'; more: the name
    colon_other,
    value,  // the value of a name
    value_other,
    after,  // a value has been read
    next,   // waits for ',' or '}'
  };
  struct Local {
    Phase phase = Phase::open;
    std::uint32_t state = 0;
    std::uint32_t more = 0;
  };
  static std::uint64_t pack(const Local& local) {
    return std::uint64_t{local.more} << 32U | std::uint64_t{local.state} << 4U |
           static_cast<std::uint64_t>(local.phase);
  }
  static Local unpack(std::uint64_t local) {
    return {static_cast<Phase>(local & 15U), static_cast<std::uint32_t>(local >> 4U) & 0xFFFFFFFU,
            static_cast<std::uint32_t>(local >> 32U)};
  }

  struct Name {
    std::string spelled;
    Term term;
    std::uint32_t order;
    bool is_required;
  };
  struct Other {
    FrameId name;
    Term term;
  };
  // Which names have been seen, and how many properties there are as far as it matters.
  struct State {
    std::vector<std::uint64_t> seen;
    std::uint64_t count = 0;
    std::uint64_t required = 0;    // of those seen
    std::uint32_t next_order = 0;  // where the order matters
  };
  // A place in a known name: names [from, to) begin with the same `depth` bytes.
  struct Place {
    std::uint32_t from, to, depth;
    auto operator<=>(const Place&) const = default;
  };

  [[nodiscard]] bool is_ordered() const {
    return context_.options.property_order == JsonOptions::PropertyOrder::schema;
  }
  [[nodiscard]] bool has_seen(const State& state, std::uint32_t name) const {
    return (state.seen[name / 64] >> name % 64 & 1U) != 0;
  }
  [[nodiscard]] bool may_close(std::uint32_t id) const {
    const State& state = states_[id];
    return state.required == required_count_ && state.count >= count_.least;
  }
  // Whether one more fits beside the required names that are still missing.
  [[nodiscard]] bool has_room(const State& state) const {
    return state.count + (required_count_ - state.required) < count_.most;
  }
  [[nodiscard]] bool may_add_name(const State& state, std::uint32_t name) const {
    if (has_seen(state, name) || !(names_[name].is_required || has_room(state))) return false;
    if (!is_ordered()) return true;
    if (names_[name].order < state.next_order) return false;
    // A required name that is passed over could not come any more.
    return std::ranges::none_of(names_, [&](const Name& other) {
      return other.is_required && other.order >= state.next_order &&
             other.order < names_[name].order;
    });
  }
  [[nodiscard]] bool may_add_name_in(const State& state, std::uint32_t from,
                                     std::uint32_t to) const {
    for (std::uint32_t name = from; name < to; ++name) {
      if (may_add_name(state, name)) return true;
    }
    return false;
  }
  [[nodiscard]] bool may_add_other(const State& state) const {
    return !others_.empty() && has_room(state) &&
           (!is_ordered() || state.required == required_count_);
  }
  [[nodiscard]] bool may_add(std::uint32_t id) const {
    const State& state = states_[id];
    return may_add_other(state) ||
           may_add_name_in(state, 0, static_cast<std::uint32_t>(names_.size()));
  }

  static std::vector<std::uint64_t> key_of(const State& state) {
    std::vector<std::uint64_t> key = state.seen;
    key.push_back(state.count);
    key.push_back(state.next_order);
    return key;
  }
  std::uint32_t intern(State state) {
    state.count = std::min(state.count, counts_matter_);
    const auto [place, is_new] =
        state_ids_.try_emplace(key_of(state), static_cast<std::uint32_t>(states_.size()));
    if (is_new) states_.push_back(std::move(state));
    return place->second;
  }
  std::uint32_t with_name(std::uint32_t id, std::uint32_t name) {
    State state = states_[id];
    state.seen[name / 64] |= std::uint64_t{1} << name % 64;
    ++state.count;
    if (names_[name].is_required) ++state.required;
    if (is_ordered()) state.next_order = names_[name].order + 1;
    return intern(std::move(state));
  }
  std::uint32_t with_other(std::uint32_t id) {
    State state = states_[id];
    ++state.count;
    if (is_ordered()) state.next_order = static_cast<std::uint32_t>(names_.size());
    return intern(std::move(state));
  }

  void then(Machine& machine, const Cell& cell, FrameId frame, const Local& local) const {
    machine.enter(frame, machine.push(cell.frame, pack(local), cell.parent));
  }

  void begin_key(Machine& machine, const Cell& cell, std::uint32_t state) {
    wait_in_name(machine, cell, state, {0, static_cast<std::uint32_t>(names_.size()), 0});
    if (!may_add_other(states_[state])) return;
    for (std::uint32_t i = 0; i < others_.size(); ++i) {
      then(machine, cell, others_[i].name, {Phase::after_other, state, i});
    }
  }

  // What comes next in some name of the place.
  [[nodiscard]] ByteSet bytes_in(const Place& place) const {
    const auto byte_of = [&](const Name& name) {
      return static_cast<std::uint8_t>(name.spelled[place.depth]);
    };
    ByteSet set;
    const auto end = names_.begin() + place.to;
    for (auto name = names_.begin() + place.from; name != end;) {
      const std::uint8_t byte = byte_of(*name);
      set.insert(byte);
      name = std::ranges::upper_bound(name, end, byte, {}, byte_of);
    }
    return set;
  }

  void wait_in_name(Machine& machine, const Cell& cell, std::uint32_t state, const Place& place) {
    if (!may_add_name_in(states_[state], place.from, place.to)) return;
    const auto [id, is_new] =
        place_ids_.try_emplace(place, static_cast<std::uint32_t>(places_.size()));
    if (is_new) places_.push_back(place);
    machine.wait(cell.frame, pack({Phase::name, state, id->second}), cell.parent);
  }

  void read_name(Machine& machine, const Cell& cell, const Local& at, std::uint8_t byte) {
    const Place place = places_[at.more];
    // The closing quote is the last byte and an unescaped one, so no name begins another.
    const auto byte_at = [&](const Name& name) {
      return static_cast<std::uint8_t>(name.spelled[place.depth]);
    };
    const auto range = std::ranges::equal_range(names_.begin() + place.from,
                                                names_.begin() + place.to, byte, {}, byte_at);
    if (range.empty()) return;
    const auto from = static_cast<std::uint32_t>(range.begin() - names_.begin());
    const auto to = static_cast<std::uint32_t>(range.end() - names_.begin());
    if (to - from == 1 && names_[from].spelled.size() == place.depth + 1) {
      if (may_add_name(states_[at.state], from)) {
        then(machine, cell, context_.gap, {Phase::colon, at.state, from});
      }
      return;
    }
    wait_in_name(machine, cell, at.state, {from, to, place.depth + 1});
  }

  Context& context_;
  schema::Counts count_;
  std::vector<Name> names_;  // by spelling
  std::vector<Other> others_;
  std::uint64_t required_count_ = 0;
  std::uint64_t counts_matter_ = 0;
  std::vector<State> states_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> state_ids_;
  std::vector<Place> places_;
  std::map<Place, std::uint32_t> place_ids_;
};

// The whole: keeps what its frames share.
class RootFrame final : public Frame {
 public:
  RootFrame(std::shared_ptr<Context> context, FrameId value)
      : context_(std::move(context)), value_(value) {}
  void enter(Machine& machine, FrameId, CellId parent) override { machine.enter(value_, parent); }
  [[nodiscard]] std::size_t memory_bytes() const override { return context_->memory_bytes(); }

 private:
  std::shared_ptr<Context> context_;
  FrameId value_;
};

Context::Context(Machine& to, std::shared_ptr<const schema::Schema> schema, const JsonOptions& how)
    : machine(to),
      options(how),
      shapes(std::move(schema),
             std::make_shared<regex::ExprSet>(
                 Limits{.max_steps = 50'000'000, .max_bytes = std::uint64_t{64} << 20}),
             {}) {
  shapes.on_error([this](const Error& error) { machine.fail(error); });
  quote_ = machine.add(make_literal("\""));
  switch (options.whitespace) {
    case JsonOptions::Whitespace::any:
      gap = machine.add(make_lexeme(std::make_shared<GapScanner>(options.max_whitespace)));
      after_comma = after_colon = gap;
      break;
    case JsonOptions::Whitespace::compact:
      gap = after_comma = after_colon = machine.add(make_literal(""));
      break;
    case JsonOptions::Whitespace::spaced:
      gap = machine.add(make_literal(""));
      after_comma = after_colon = machine.add(make_literal(" "));
      break;
  }
}

FrameId Context::value(Term term) {
  const auto [place, is_new] = values_.try_emplace(term, 0);
  if (is_new) place->second = machine.add(std::make_unique<ValueFrame>(*this, term));
  return place->second;
}

FrameId Context::string(Term term) {
  const StringShape& shape = shapes.text(term);
  StringOptions how = string_options();
  how.least = shape.length.least;
  how.most = shape.length.most;
  how.excluded = shape.excluded;
  how.values = shape.values;
  return machine.add(
      make_sequence({quote_, machine.add(make_lexeme(make_string_scanner(
                                 shapes.shared_exprs(), shape.language, std::move(how))))}));
}

StringOptions Context::string_options() {
  return {.escapes = options.unicode_escapes,
          .any_character = shapes.any_character(),
          .on_error = [this](const Error& error) { machine.fail(error); }};
}

FrameId Context::name(const Shapes::OtherNames& names) {
  const auto [place, is_new] = names_.try_emplace({names.names, names.but}, 0);
  if (is_new) {
    StringOptions how = string_options();
    how.excluded = names.but;
    place->second = machine.add(
        make_lexeme(make_string_scanner(shapes.shared_exprs(), names.names, std::move(how))));
  }
  return place->second;
}

Term Context::term_of(const json::Value& value) {
  const auto [place, is_new] = kept_.try_emplace(json::to_string(value), value);
  return shapes.terms().value(place->second);
}

std::vector<FrameId> Context::choices(Term term) {
  std::vector<FrameId> choices;
  const auto add = [&](FrameId frame, bool needs_check) {
    choices.push_back(needs_check ? machine.add(std::make_unique<CheckFrame>(*this, term, frame))
                                  : frame);
  };
  const Constants constants = shapes.constants(term);
  constexpr std::array<const char*, 3> kWords{"null", "false", "true"};
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (constants[i]) add(machine.add(make_literal(kWords[i])), false);
  }
  if (shapes.is_satisfiable(shapes.text(term))) {
    add(string(term), shapes.strings_need_check(term));
  }
  for (const NumberShape& shape : shapes.numbers(term)) {
    add(machine.add(make_lexeme(make_number_scanner(shape.set))), shape.needs_check);
  }
  for (const ArrayShape& shape : shapes.arrays(term)) {
    add(machine.add(std::make_unique<ArrayFrame>(*this, shape)), shape.needs_check);
  }
  for (const ObjectShape& shape : shapes.objects(term)) {
    bool needs_check = shape.needs_check;
    auto frame = std::make_unique<ObjectFrame>(*this, shape, needs_check);
    add(machine.add(std::move(frame)), needs_check);
  }
  return choices;
}

}  // namespace

Expected<FrameId> add_json(Machine& machine, std::shared_ptr<const schema::Schema> schema,
                           const JsonOptions& options) {
  const schema::NodeId root = schema->root();
  const auto context = std::make_shared<Context>(machine, std::move(schema), options);
  const Term term = context->shapes.terms().node(root);
  const bool satisfiable = context->shapes.is_satisfiable(term);
  if (context->shapes.error()) return Unexpected(*context->shapes.error());
  if (!satisfiable) {
    return Unexpected(Error{Errc::unsatisfiable, "no value fits the schema"});
  }
  return machine.add(std::make_unique<RootFrame>(context, context->value(term)));
}

}  // namespace tenon::grammar
