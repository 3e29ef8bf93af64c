#include "tenon/grammar/json/json_frames.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/grammar/json/number_scanner.h"
#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shapes.h"
#include "tenon/grammar/machine/frames.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/json/value.h"
#include "tenon/schema/values.h"

namespace tenon::grammar {
// The frames that read the JSON values of a schema (docs/masks.md, "From values to a machine"). A
// schema is a set of terms (terms.h), and Shapes says which shapes of each type a term has.
// RootFrame owns Context, which all frames share: it makes one frame for each term, string or name
// when it is first read, so a recursive schema costs only what the text visits.
//
// ValueFrame enters the frames of all shapes of its term. ArrayFrame and ObjectFrame are state
// machines whose phase stands in Cell::local (see their enum Phase). What an array or object must
// remember beyond that (names seen, items taken) is a list of states in the frame; the cell has the
// state's number, and equal states have equal numbers, so that masks are shared.
//
// Some decisions need the text itself: an item that must differ from earlier ones, a name that only
// a pattern knows. There the cell asks (Machine::ask), and answer() reads the member or item back
// from the text.
//
// Before a frame goes on it checks that the value can still come to an end (may_finish, can_differ,
// has_some), so no state leads to a dead end; where that cannot be known, CheckFrame compares the
// finished value with its term.

namespace {

using regex::ByteSet;
using regex::Expr;

constexpr ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.insert(static_cast<std::uint8_t>(byte));
  return set;
}

// A step of the machine takes so many times as long.
constexpr std::uint64_t kShapeStepsPerStep = 3;
constexpr std::size_t kComparedPerStep = 8;  // when small things are compared in a row

// The part of a term's values that a frame reads.
enum class Part : std::uint8_t { all, scalars, containers };  // scalars without numbers

/// Names that an object must have, and must not have.
struct PresentNames {
  std::vector<std::string> required;
  std::vector<std::string> forbidden;
};
/// Objects of a shape that have the names of one of the cases.
struct ObjectKind {
  ObjectShape shape;  // a single case is a part of it
  std::vector<PresentNames> cases;
};

class ObjectFrame;
class CheckFrame;
using Objects = std::vector<const json::Value*>;

// The state that all frames of one schema share.
class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(Machine& machine, std::shared_ptr<const schema::Schema> schema,
          const JsonOptions& options);

  [[nodiscard]] FrameId value(Term term, Part part = Part::all);
  [[nodiscard]] FrameId string(Term term);
  /// Reads a name, after its opening quote.
  [[nodiscard]] FrameId name(const OtherNames& names);
  [[nodiscard]] std::vector<FrameId> choices(Term term, Part part);
  /// The term of all values equal to `value`, which need not live on.
  [[nodiscard]] Term term_of(const json::Value& value);

  /// A list of objects; equal lists have equal numbers.
  using ObjectsId = std::uint32_t;
  static constexpr ObjectsId kNoObjects = 0;
  [[nodiscard]] ObjectsId id_of(const Objects& objects);
  [[nodiscard]] const Objects& objects(ObjectsId id) const { return *objects_[id]; }
  /// Whether the frames that read the objects of the term can leave these out, so that items that
  /// must differ need no frames of their own.
  [[nodiscard]] bool can_leave_out(Term term, ObjectsId objects);
  /// Enters the arrays and objects of the term, without these objects.
  void enter_container(Term term, ObjectsId but, CellId parent);
  [[nodiscard]] bool has_object(Term term, ObjectsId but);

  /// A list of numbers; each entry refers to the one before it.
  using Numbers = std::uint32_t;
  static constexpr Numbers kNoNumbers = 0;
  [[nodiscard]] Numbers with(Numbers numbers, const json::Value& number);
  [[nodiscard]] std::vector<const json::Value*> values_of(Numbers numbers) const;
  /// Enters a number of the term that is not in the list `but`.
  void enter_number(Term term, Numbers but, CellId parent);
  [[nodiscard]] bool has_number(Term term, Numbers but);

  /// The memory that grows with the texts that are read.
  [[nodiscard]] std::size_t memory_bytes() const;

  Machine& machine;
  JsonOptions options;
  Shapes shapes;
  FrameId gap = 0;  // for all places of whitespace except those after ',' and ':'
  FrameId after_comma = 0;
  FrameId after_colon = 0;
  // If lines are indented: a new line before the first item, and one before the closing bracket.
  std::optional<FrameId> line_of_item;
  FrameId line_of_end = 0;
  /// The number of open arrays and objects in `cell`.
  [[nodiscard]] std::uint64_t depth(CellId cell) const;
  /// Parses a part of the text as a whole value. Counts as work.
  [[nodiscard]] std::optional<json::Value> parsed(std::string_view text);

 private:
  // The reader for the numbers of a set, before any numbers are excluded.
  struct NumberReader {
    std::shared_ptr<NumberScanner> scanner;
    FrameId lexeme = 0;
  };
  // The numbers of one of the shapes of a term.
  struct NumbersOfTerm {
    NumberReader reader;
    bool needs_check = false;
    NumberScanner::Less of_term = NumberScanner::kWhole;
    IntMap less;                               // list of numbers -> the numbers that remain
    std::map<Scanner::State, FrameId> checks;  // if a check is needed, by start state
  };
  // The frames that read the arrays and objects of a term.
  struct Container {
    FrameId frame;
    ObjectFrame* object;  // that reads it, or null
    CheckFrame* check;    // that enters the other, or null
  };
  struct LastNumber {
    Numbers before = kNoNumbers;
    json::Value value;
  };

  [[nodiscard]] StringOptions string_options();
  NumberReader reader_of(NumberSet set);
  std::vector<NumbersOfTerm>& numbers_of(Term term);
  const std::vector<Container>& containers_of(Term term);
  std::vector<std::vector<ObjectKind>> by_frame(const std::vector<ObjectShape>& all);
  std::vector<ObjectKind> kinds_of(const std::vector<ObjectShape>& all);
  void add_case(std::vector<PresentNames>& cases, PresentNames names);
  using NameOrder = std::map<std::string, std::size_t>;
  bool extend(NameOrder& order, const std::vector<std::pair<std::string, Term>>& names) const;
  Scanner::State start_of(NumbersOfTerm& numbers, Numbers but);

  std::map<NumberSet, NumberReader> number_readers_;  // by set, without exclusions
  std::map<Term, std::vector<NumbersOfTerm>> numbers_of_terms_;
  std::vector<LastNumber> numbers_{1};  // the first list is empty
  std::map<std::pair<Numbers, std::string>, Numbers> numbers_ids_;
  FrameId quote_ = 0;
  std::map<Term, std::vector<Container>> containers_of_terms_;
  std::map<Objects, ObjectsId> objects_ids_{{{}, kNoObjects}};
  std::vector<const Objects*> objects_{&objects_ids_.begin()->first};  // keys of objects_ids_
  std::size_t bytes_of_objects_ = 0;
  std::set<FrameId> containers_;  // arrays and objects; each open one has one cell on the stack
  std::map<std::pair<Term, Part>, FrameId> values_;
  std::map<std::pair<Expr, std::vector<std::string>>, FrameId> names_;
  // By hash; the nodes keep their addresses.
  std::unordered_multimap<std::uint64_t, json::Value> kept_;
};

// At most `max` characters of whitespace. The state is the number of characters read.
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
  Ways ways(State state, std::uint32_t /*longest*/, bool /*may_guess*/) override {
    const regex::Fingerprint key =
        regex::fingerprint_of("whitespace " + std::to_string(max_ - state));
    const Way way{.key = key, .state = state, .instead = {}};
    return {.inside = way, .whole = way, .exact = key};
  }

 private:
  State max_;
};

// A new line, and two spaces for each enclosing array and object except `less` of them. Local: how
// many spaces are left, and above that whether the new line is still to come.
class LineFrame final : public Frame {
 public:
  LineFrame(Context& context, std::uint64_t less) : context_(context), less_(less) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, 2 * (context_.depth(parent) - less_) | kNewLine, parent);
  }
  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    return set_of((cell.local & kNewLine) != 0 ? "\n" : " ");
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t) override {
    const std::uint64_t left =
        (cell.local & kNewLine) != 0 ? cell.local & ~kNewLine : cell.local - 1;
    if (left == 0) {
      machine.resume(cell.parent);
    } else {
      machine.wait(cell.frame, left, cell.parent);
    }
  }
  [[nodiscard]] std::uint32_t left(Machine&, const Cell& cell) override {
    return static_cast<std::uint32_t>(cell.local & ~kNewLine) +
           ((cell.local & kNewLine) != 0 ? 1 : 0);
  }

 private:
  static constexpr std::uint64_t kNewLine = std::uint64_t{1} << 63U;

  Context& context_;
  std::uint64_t less_;
};

// A value of a term. Its choices are found when a value is first read here.
class ValueFrame final : public Frame {
 public:
  ValueFrame(Context& context, Term term, Part part)
      : context_(context), term_(term), part_(part) {}

  void enter(Machine& machine, FrameId, CellId parent) override {
    expand();
    for (const FrameId choice : choices_) machine.enter(choice, parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    expand();
    std::uint32_t fewest = Machine::kFar;
    for (const FrameId choice : choices_) fewest = std::min(fewest, machine.least(choice));
    return fewest;
  }

 private:
  void expand() {
    if (is_expanded_) return;
    choices_ = context_.choices(term_, part_);
    is_expanded_ = true;
  }

  Context& context_;  // owns the map that leads here; the root frame owns it
  Term term_;
  Part part_;
  bool is_expanded_ = false;
  std::vector<FrameId> choices_;
};

class ArrayFrame final : public Frame {
 public:
  // Without a largest length, items are counted only as far as the count can still matter
  // (last_count_): beyond the prefix, the least length, and the lengths of excluded arrays. So an
  // array of any length has a bounded number of states.
  ArrayFrame(Context& context, const ArrayShape& shape)
      : context_(context), shape_(shape), most_(context.shapes.satisfiable.most_items(shape)) {
    if (most_ == schema::Counts::kUnbounded) {
      last_count_ = std::max<std::uint64_t>(shape_.prefix.size() + 1, shape_.length.least);
      for (const json::Value* value : shape_.excluded) {
        last_count_ = std::max<std::uint64_t>(last_count_, value->if_array()->size() + 1);
      }
      for (const auto& contained : shape_.contained) {
        last_count_ = std::max(last_count_, contained.from);
      }
    }
    (void)intern({.taken = &*taken_.emplace().first,
                  .fitting = std::vector<std::uint64_t>(shape_.contained.size()),
                  .like = shape_.excluded});
    seen_.emplace_back();
    for (std::size_t i = 0; i <= shape_.prefix.size() && shape_.unique; ++i) {
      takes_ = takes_ || !context_.shapes.values.is_boundless_but_for_numbers(item_term(i));
    }
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
        if (may_end(at)) machine.wait(cell.frame, pack({Phase::close, 0, at.memory}), cell.parent);
        if (may_go_on(at)) item(machine, cell, at);
        break;
      case Phase::after:
        gap(machine, cell, context_.gap, {Phase::next, at.count, at.memory});
        break;
      case Phase::after_to_check:
        machine.ask(cell.frame, pack({Phase::check, at.count, at.memory}), cell.parent);
        break;
      case Phase::next:
        if (context_.line_of_item) {
          if (may_go_on(at)) machine.wait(cell.frame, cell.local, cell.parent);
          if (may_end(at)) gap(machine, cell, context_.line_of_end, {Phase::close, 0, at.memory});
        } else if (may_end(at) || may_go_on(at)) {
          machine.wait(cell.frame, cell.local, cell.parent);
        }
        break;
      case Phase::close:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::item:
        item(machine, cell, at);
        break;
      default:
        break;
    }
  }

  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    return unpack(cell.local).phase == Phase::open ? set_of("[") : set_of("],");
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::open) {
      if (!context_.line_of_item) {
        return gap(machine, cell, context_.gap, {Phase::first, 0, at.memory});
      }
      if (may_end(at)) machine.wait(cell.frame, pack({Phase::close, 0, at.memory}), cell.parent);
      if (may_go_on(at)) gap(machine, cell, *context_.line_of_item, {Phase::item, 0, at.memory});
    } else if (byte == ']') {
      if (at.phase == Phase::close) return machine.resume(cell.parent);
      if (may_end(at) && !context_.line_of_item) machine.resume(cell.parent);
    } else if (at.phase != Phase::close && may_go_on(at)) {
      if (shape_.unique) {
        machine.ask(cell.frame, pack({Phase::comma, at.count, at.memory}), cell.parent);
      } else {
        gap(machine, cell, context_.after_comma, {Phase::item, at.count, at.memory});
      }
    }
  }

  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::begin) {
      Memory memory = memories_[0];
      memory.before = memory.begin = text.size() + 1;
      machine.wait(cell.frame, pack({Phase::open, 0, intern(memory)}), cell.parent);
      return;
    }
    if (at.phase == Phase::check) {
      if (!is_new(memories_[at.memory], text)) return;
      gap(machine, cell, context_.gap, {Phase::next, at.count, at.memory});
    } else if (const auto memory = with_item(at, text)) {
      const Local next{Phase::item, at.count, *memory};
      if (may_go_on(next)) gap(machine, cell, context_.after_comma, next);
    }
  }

  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    return 1 + least_from(machine, 0, shape_.length.least);
  }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::begin:
      case Phase::open:
        return 1 + least_from(machine, 0, shape_.length.least);
      case Phase::item:
        return least_from(machine, at.count, std::max(at.count + 1, shape_.length.least));
      case Phase::close:
        return 1;
      default:
        return least_from(machine, at.count, shape_.length.least);
    }
  }

  [[nodiscard]] std::size_t memory_bytes() const override {
    constexpr std::size_t kSeenBytes = 150;
    return bytes_of_memories_ + seen_.size() * kSeenBytes;
  }

 private:
  enum class Phase : std::uint8_t {
    begin,  // asks where it is
    open,   // waits for '['
    first,  // an item or the end
    close,  // waits for ']'
    item,   // an item
    after,  // an item has been read
    next,   // waits for ',' or ']'
    // If items must differ, and the item just read is not known to:
    after_to_check,
    check,  // asks whether the item differs
    comma,  // asks where the next item begins
  };
  struct Local {
    Phase phase = Phase::begin;
    std::uint64_t count = 0;  // of items, as far as it matters
    std::uint32_t memory = 0;
  };
  struct Memory {
    // If items must differ: where the next item begins and where the one before it began, the
    // earlier ones, and the values that are taken: numbers, and others of a finite set. The last
    // item is kept only in the text, because a mask tries many items that never come.
    std::size_t before = 0;
    std::size_t begin = 0;
    std::uint32_t seen = 0;
    bool all_taken = true;  // all values except numbers are in `taken`
    Context::Numbers numbers = Context::kNoNumbers;
    const std::vector<Term>* taken = nullptr;  // in taken_
    std::vector<std::uint64_t> fitting;        // how many items fit each of shape_.contained
    // The arrays of shape_.excluded that begin with the items so far.
    std::vector<const json::Value*> like;
    auto operator<=>(const Memory&) const = default;
  };
  // A list of items, each of which refers to the one before it. `jump` refers to an earlier one, so
  // that any item is reached in a logarithmic number of steps (Myers, An applicative random-access
  // stack, 1983).
  struct Seen {
    std::uint32_t before = 0;
    std::uint32_t jump = 0;
    std::uint32_t depth = 0;
    json::Value value;
  };
  struct Choice {
    Term term;
    std::vector<std::uint64_t> fitting;
    std::vector<const json::Value*> like;
    Context::ObjectsId but = Context::kNoObjects;  // and the item is not one of these
  };
  // A term, and objects of it that are left out.
  struct Rest {
    Term term;
    Context::ObjectsId but = Context::kNoObjects;
  };
  // The result of next_rest().
  struct Next {
    std::uint64_t count;
    Context::Numbers numbers;
    const std::vector<Term>* taken;
    Rest rest;
  };

  [[nodiscard]] std::uint64_t pack(const Local& at) const {
    return std::uint64_t{at.memory} << 40U | std::min(at.count, last_count_) << 4U |
           static_cast<std::uint64_t>(at.phase);
  }
  static Local unpack(std::uint64_t local) {
    return {static_cast<Phase>(local & 15U), local >> 4U & 0xFFFFFFFFFU,
            static_cast<std::uint32_t>(local >> 40U)};
  }
  // A cell has 64 bits of local state, so what an array remembers of its items is a number here.
  // Equal memories have equal numbers, which lets stacks that differ in nothing else become one.
  std::uint32_t intern(const Memory& memory) {
    const auto [place, is_new] =
        memory_ids_.try_emplace(memory, static_cast<std::uint32_t>(memories_.size()));
    if (is_new) {
      memories_.push_back(memory);
      constexpr std::size_t kNodeBytes = 64;
      bytes_of_memories_ +=
          kNodeBytes + 2 * (sizeof(Memory) + memory.fitting.size() * sizeof(std::uint64_t) +
                            memory.like.size() * sizeof(json::Value*));
    }
    return place->second;
  }

  // Including the closing bracket: items [from, to), each with a comma except the first of all.
  [[nodiscard]] std::uint32_t least_from(Machine& machine, std::uint64_t from,
                                         std::uint64_t to) const {
    std::uint64_t sum = 1;
    for (; from < to && sum < Machine::kFar; ++from) {
      const std::uint64_t one = machine.least(context_.value(item_term(from))) + (from > 0 ? 1 : 0);
      // From there on all items have the same term.
      const bool is_rest = from >= shape_.prefix.size();
      sum += one * std::min<std::uint64_t>(is_rest ? to - from : 1, Machine::kFar);
      if (is_rest) break;
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, Machine::kFar));
  }

  // ---- What has been read ----------------------------------------------------------------------

  // The item before the next one, if there is one.
  [[nodiscard]] std::optional<json::Value> last_item(const Memory& memory, std::string_view text) {
    return context_.parsed(text.substr(memory.before, memory.begin - memory.before - 1));
  }

  // Whether the item at the end of `text` differs from all others.
  [[nodiscard]] bool is_new(const Memory& memory, std::string_view text) {
    const auto value = context_.parsed(text.substr(memory.begin));
    if (!value) return false;
    if (memory.begin > memory.before) {
      const auto last = last_item(memory, text);
      if (!last || *last == *value) return false;
    }
    const auto [from, to] = seen_by_hash_.equal_range(schema::hash_of(*value));
    return std::none_of(from, to, [&](const auto& entry) {
      const std::uint32_t wanted = entry.second;
      if (seen_[wanted].value != *value) return false;
      std::uint32_t at = memory.seen;
      const std::uint32_t depth = seen_[wanted].depth;
      while (seen_[at].depth > depth) {
        const std::uint32_t jump = seen_[at].jump;
        at = seen_[jump].depth >= depth ? jump : seen_[at].before;
      }
      return at == wanted;
    });
  }

  // The memory after the comma at the end of `text`.
  std::optional<std::uint32_t> with_item(const Local& at, std::string_view text) {
    Memory memory = memories_[at.memory];
    const std::string_view item = text.substr(memory.begin, text.size() - 1 - memory.begin);
    if (takes_ || is_number(item)) {
      const auto value = context_.parsed(item);
      if (!value) return std::nullopt;
      take(memory, *value);
    }
    if (memory.begin > memory.before) {
      const auto last = last_item(memory, text);
      if (!last) return std::nullopt;
      memory.seen = with(memory.seen, *last);
    }
    memory.before = std::exchange(memory.begin, text.size());
    return intern(memory);
  }

  // Decides by an item's text, perhaps with whitespace around it.
  static bool is_number(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \n\r\t");
    return first != std::string_view::npos &&
           std::string_view("-0123456789").find(text[first]) != std::string_view::npos;
  }
  // Remembers a value that must not come again. Numbers go into a trie, other values into a sorted
  // list of terms, up to kMostTaken. A text with very many continuations needs no place, because
  // excluding it never leaves nothing.
  void take(Memory& memory, const json::Value& value) {
    if (value.if_number() != nullptr) {
      memory.numbers = context_.with(memory.numbers, value);
    } else if (!takes_) {
      return;
    } else if (value.if_string() != nullptr && is_spare(*value.if_string())) {
      memory.all_taken = false;
    } else if (memory.taken->size() < kMostTaken) {
      memory.taken = with_taken(*memory.taken, context_.term_of(value));
    } else {
      memory.all_taken = false;
    }
  }
  // So many values begin with any text of an item that items cannot run out. So it is enough to
  // check afterwards that the item does not come twice.
  bool is_spare(const std::string& text) {
    for (std::size_t i = 0; i <= shape_.prefix.size(); ++i) {
      if (!context_.shapes.strings.has_many_longer(item_term(i), text)) return false;
    }
    return true;
  }
  const std::vector<Term>* with_taken(std::vector<Term> taken, Term term) {
    taken.insert(std::ranges::upper_bound(taken, term), term);
    const auto [place, is_new] = taken_.insert(std::move(taken));
    constexpr std::size_t kNodeBytes = 64;
    if (is_new) bytes_of_memories_ += kNodeBytes + place->size() * sizeof(Term);
    return &*place;
  }

  // Lists of values that share their beginnings. Each entry has a jump to an earlier one, so that a
  // value is found in logarithmic time (a skip list that is only appended to, Myers 1983).
  std::uint32_t with(std::uint32_t seen, const json::Value& value) {
    const std::uint64_t hash = schema::hash_of(value);
    const auto [from, to] = seen_by_hash_.equal_range(hash);
    const auto known = std::find_if(from, to, [&](const auto& entry) {
      return seen_[entry.second].before == seen && seen_[entry.second].value == value;
    });
    if (known != to) return known->second;
    const auto id = static_cast<std::uint32_t>(seen_.size());
    const std::uint32_t jump = seen_[seen].jump;
    const std::uint32_t far = seen_[jump].jump;
    const bool is_even =
        seen_[seen].depth - seen_[jump].depth == seen_[jump].depth - seen_[far].depth;
    seen_.push_back({seen, is_even ? far : seen, seen_[seen].depth + 1, value});
    seen_by_hash_.emplace(hash, id);
    return id;
  }

  // ---- What may come ---------------------------------------------------------------------------

  [[nodiscard]] Term item_term(std::uint64_t index) const {
    return index < shape_.prefix.size() ? shape_.prefix[index] : shape_.items;
  }
  // What the item may be without the values that are taken (except numbers) and those that must be
  // left to other items. Nothing: no item can come. Objects are left out by the frames that read
  // them where that is possible, because a term without them has frames of its own.
  [[nodiscard]] std::optional<Rest> next_rest(std::uint64_t count, const Memory& memory) {
    const Term item = item_term(count);
    const std::vector<Term>* const taken = memory.taken;
    if (!shape_.unique || (taken->empty() && count >= shape_.length.least)) return Rest{item};
    const bool is_last = count + 1 >= shape_.length.least;  // of the required ones
    const Context::Numbers numbers = is_last ? Context::kNoNumbers : memory.numbers;
    if (last_next_ && last_next_->count == count && last_next_->numbers == numbers &&
        last_next_->taken == taken) {
      return last_next_->rest;
    }
    Terms& terms = context_.shapes.terms();
    std::vector<const json::Value*> values = context_.values_of(numbers);
    for (const Term term : *taken) values.push_back(&terms.value_of(term));
    const auto spoilers = context_.shapes.values.spoilers(shape_, count, values);
    if (!spoilers) return std::nullopt;
    std::vector<Term> all{item};
    Objects objects;
    for (const Term term : *taken) {
      const json::Value& value = terms.value_of(term);
      if (value.if_object() != nullptr && shape_.contained.empty() && memory.like.empty()) {
        objects.push_back(&value);
      } else {
        all.push_back(terms.negation(term));
      }
    }
    for (const json::Value& value : *spoilers) {
      all.push_back(terms.negation(context_.term_of(value)));
    }
    Rest rest{terms.all_of(all), context_.id_of(objects)};
    if (!context_.can_leave_out(rest.term, rest.but)) {
      for (const json::Value* value : objects) {
        all.push_back(terms.negation(context_.term_of(*value)));
      }
      rest = {terms.all_of(std::move(all))};
    }
    last_next_ = Next{count, numbers, taken, rest};
    return rest;
  }
  // Whether the term has a value that is not taken.
  [[nodiscard]] bool has_some(const Choice& choice, const Memory& memory) {
    Shapes& shapes = context_.shapes;
    const Term term = choice.term;
    if (memory.numbers == Context::kNoNumbers && choice.but == Context::kNoObjects) {
      return shapes.is_satisfiable(term);
    }
    return context_.has_number(term, memory.numbers) || shapes.constants.of(term).any() ||
           shapes.is_satisfiable(shapes.strings.text(term)) || !shapes.arrays.of(term).empty() ||
           context_.has_object(term, choice.but);
  }
  [[nodiscard]] std::vector<Choice> choices(const Local& at) {
    const Memory memory = memories_[at.memory];  // a copy, because memories_ may grow
    return choices(at.count, memory);
  }
  // The choices for an item: which of `contained` it fits, as far as that still matters, and which
  // excluded arrays continue with it. `is_one_enough`: only the first one that is found.
  [[nodiscard]] std::vector<Choice> choices(std::uint64_t count, const Memory& memory,
                                            bool is_one_enough = false) {
    std::vector<Choice> result;
    if (count >= most_ || !context_.shapes.spend(1 + memory.taken->size() + memory.like.size())) {
      return result;
    }
    const std::optional<Rest> next = next_rest(count, memory);
    if (!next) return result;
    std::vector<Choice> all{{next->term, memory.fitting, {}, next->but}};
    Terms& terms = context_.shapes.terms();
    for (std::size_t i = 0; i < shape_.contained.size(); ++i) {
      const ArrayShape::Contained& contained = shape_.contained[i];
      const bool is_settled = contained.counts.most == schema::Counts::kUnbounded &&
                              all[0].fitting[i] >= contained.counts.least;
      if (count < contained.from || is_settled) continue;
      const std::size_t size = all.size();
      for (std::size_t j = 0; j < size; ++j) {
        Choice fits{terms.all_of({all[j].term, contained.term}), all[j].fitting, {}};
        ++fits.fitting[i];
        all[j].term = terms.all_of({all[j].term, terms.negation(contained.term)});
        all.push_back(std::move(fits));
      }
    }
    if (!memory.like.empty()) all = by_excluded(all, count, memory);
    const bool is_plain = all.size() == 1 && next->term == item_term(count) &&
                          next->but == Context::kNoObjects && memory.like.empty() &&
                          memory.numbers == Context::kNoNumbers;
    // Those that differ from all excluded arrays come last, and need no further decision.
    if (is_one_enough) std::ranges::reverse(all);
    for (Choice& choice : all) {
      if (is_one_enough && !result.empty()) break;
      const bool is_possible = is_plain || (has_some(choice, memory) &&
                                            context_.shapes.satisfiable.can_end(
                                                shape_, most_, count + 1, choice.fitting) &&
                                            can_differ(count + 1, memory, choice));
      if (is_possible) result.push_back(std::move(choice));
    }
    return result;
  }
  // Splits each choice into one that differs from the next items of the excluded arrays that
  // memory.like lists, and one for each of these items.
  [[nodiscard]] std::vector<Choice> by_excluded(const std::vector<Choice>& choices,
                                                std::uint64_t count, const Memory& memory) {
    std::vector<std::pair<Term, std::vector<const json::Value*>>> groups;
    for (const json::Value* value : memory.like) {
      const json::Array& items = *value->if_array();
      if (items.size() <= count) continue;
      const Term item = context_.term_of(items[count]);
      const auto is_it = [&](const auto& group) { return group.first == item; };
      auto group = std::ranges::find_if(groups, is_it);
      if (group == groups.end()) group = groups.insert(groups.end(), {item, {}});
      group->second.push_back(value);
    }
    Terms& terms = context_.shapes.terms();
    std::vector<Choice> result;
    for (const Choice& choice : choices) {
      std::vector<Term> others{choice.term};
      for (const auto& [item, like] : groups) {
        others.push_back(terms.negation(item));
        result.push_back({terms.all_of({choice.term, item}), choice.fitting, like});
      }
      result.push_back({terms.all_of(std::move(others)), choice.fitting, {}});
    }
    return result;
  }
  // Whether, after the choice, the array can end as one that is not excluded.
  [[nodiscard]] bool can_differ(std::uint64_t count, const Memory& before, const Choice& choice) {
    if (choice.like.empty()) return true;
    Memory memory = before;
    memory.fitting = choice.fitting;
    memory.like = choice.like;
    if (shape_.unique) take(memory, (*choice.like[0]->if_array())[count - 1]);
    if (may_end(count, memory)) return true;
    constexpr std::size_t kMostInARow = 500;  // because choices() asks this for the next item
    if (decisions_ == kMostInARow) {
      context_.machine.fail({Errc::limit_exceeded,
                             "schema: more than " + std::to_string(kMostInARow) +
                                 " items in a row leave no choice but to equal an array that is "
                                 "excluded"});
      return false;
    }
    ++decisions_;
    const bool has_choice = !choices(count, memory, true).empty();
    --decisions_;
    return has_choice;
  }
  [[nodiscard]] bool may_end(const Local& at) const {
    return may_end(at.count, memories_[at.memory]);
  }
  // Whether the array may end after `count` items: conditions on their number are met, and it is
  // none of the excluded arrays.
  [[nodiscard]] bool may_end(std::uint64_t count, const Memory& memory) const {
    for (std::size_t i = 0; i < memory.fitting.size(); ++i) {
      const schema::Counts& counts = shape_.contained[i].counts;
      if (memory.fitting[i] < counts.least || memory.fitting[i] > counts.most) return false;
    }
    const auto is_it = [&](const json::Value* value) { return value->if_array()->size() == count; };
    context_.shapes.spend(memory.like.size() / kComparedPerStep);
    return count >= shape_.length.least && std::ranges::none_of(memory.like, is_it);
  }
  [[nodiscard]] bool may_go_on(const Local& at) { return !choices(at).empty(); }

  void gap(Machine& machine, const Cell& cell, FrameId gap, const Local& then) const {
    machine.enter(gap, machine.push(cell.frame, pack(then), cell.parent));
  }
  // Enters the item in every way that it may count for `contains`. Items that must differ are
  // entered by type, because numbers, scalars and containers know in different ways whether they
  // have come before.
  void item(Machine& machine, const Cell& cell, const Local& at) {
    const auto enter = [&](Term term, Part part, Phase then, std::uint32_t memory) {
      machine.enter(context_.value(term, part),
                    machine.push(cell.frame, pack({then, at.count + 1, memory}), cell.parent));
    };
    for (const Choice& choice : choices(at)) {
      Memory memory = memories_[at.memory];
      memory.fitting = choice.fitting;
      memory.like = choice.like;
      const std::uint32_t id = intern(memory);
      if (!shape_.unique) {
        enter(choice.term, Part::all, Phase::after, id);
        continue;
      }
      context_.enter_number(
          choice.term, memory.numbers,
          machine.push(cell.frame, pack({Phase::after, at.count + 1, id}), cell.parent));
      const bool all_known = takes_ && memory.all_taken;
      const Phase then = all_known ? Phase::after : Phase::after_to_check;
      enter(choice.term, Part::scalars, then, id);
      if (choice.but == Context::kNoObjects) {
        enter(choice.term, Part::containers, then, id);
      } else {
        context_.enter_container(
            choice.term, choice.but,
            machine.push(cell.frame, pack({then, at.count + 1, id}), cell.parent));
      }
    }
  }

  Context& context_;
  ArrayShape shape_;
  std::uint64_t most_;
  // Items must differ, and a value in progress that is not a number could be left with nothing to
  // continue with. So taken values are removed from the next item's term, up to a limit. Taken
  // numbers are handled by the number scanner.
  bool takes_ = false;
  static constexpr std::size_t kMostTaken = 256;
  std::optional<Next> last_next_;  // once many are taken, the same next one is asked for repeatedly
  std::uint64_t last_count_ = 0xFFFFFFFFF;  // from here on all counts are equivalent
  std::vector<Memory> memories_;            // the first is that of arrays without memory
  std::map<Memory, std::uint32_t> memory_ids_;
  std::size_t bytes_of_memories_ = 0;
  std::size_t decisions_ = 0;          // of can_differ() under way
  std::set<std::vector<Term>> taken_;  // sorted; many memories share one
  std::vector<Seen> seen_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen_by_hash_;
};

class ObjectFrame final : public Frame {
 public:
  // Names are sorted by how they are written, so that the names still possible after some bytes are
  // a range of that list (places_). Undeclared names that are few become declared ones, which are
  // cheaper to follow than an automaton.
  // The object is of one of the kinds, which Context::by_frame() has put together.
  ObjectFrame(Context& context, std::vector<ObjectKind> kinds, bool& needs_check)
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
    for (std::uint32_t i = 0; i < names_.size(); ++i) {
      spellings_.push_back({names_[i].spelled, i});
      if (context_.options.unicode_escapes != UnicodeEscapes::any) continue;
      for (std::string& text : escaped_spellings(names_[i])) {
        spellings_.push_back({std::move(text), i});
      }
    }
    std::ranges::sort(spellings_, {}, &Spelling::text);
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

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, pack({Phase::open, 0, 0}), parent);
  }
  /// Whether enter_without() can leave the object out: it has none of the names that are not known.
  [[nodiscard]] bool can_leave_out(const json::Value& object) const {
    return others_.empty() || has_only_known_names(object);
  }
  /// The same as enter() for all objects but these; enters nothing if no object is left.
  void enter_without(Machine& machine, FrameId self, CellId parent, Context::ObjectsId objects) {
    if (const auto state = without(objects)) {
      machine.wait(self, pack({Phase::open, *state, 0}), parent);
    }
  }
  [[nodiscard]] bool has_any_without(Context::ObjectsId objects) {
    return without(objects).has_value();
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
        for_each_way(states_[at.state], at.more, [&](Term term, State state) {
          then(machine, cell, context_.value(term), {Phase::after, intern(std::move(state)), 0});
          return false;
        });
        break;
      case Phase::value_other:
        for_each_some(others_[at.more].term, others_[at.more].some,
                      [&](Term term, std::uint32_t some) {
                        State state = after_other(states_[at.state], some);
                        if (may_finish(state)) {
                          then(machine, cell, context_.value(term),
                               {Phase::after, intern(std::move(state)), kOther});
                        }
                      });
        break;
      case Phase::after:
        then(machine, cell, context_.gap, {Phase::next, at.state, at.more});
        break;
      case Phase::next:
        if (context_.line_of_item) {
          if (may_add(at.state)) machine.wait(cell.frame, cell.local, cell.parent);
          if (may_close(at.state)) {
            then(machine, cell, context_.line_of_end, {Phase::close, at.state, 0});
          }
        } else if (may_close(at.state) || may_add(at.state)) {
          machine.wait(cell.frame, cell.local, cell.parent);
        }
        break;
      case Phase::close:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::open:
      case Phase::key_or_close:
      case Phase::name:
      case Phase::note:
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
      case Phase::close:
        return set_of("}");
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
        begin(machine, cell, at.state);
        break;
      case Phase::close:
        machine.resume(cell.parent);
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
        if (byte == '}' && may_close(at.state) && !context_.line_of_item) {
          machine.resume(cell.parent);
        }
        if (byte != ',' || !may_add(at.state)) break;
        if (at.more == kOther && tracks_others_) {
          machine.ask(cell.frame, pack({Phase::note, at.state, 0}), cell.parent);
        } else {
          then(machine, cell, context_.after_comma, {Phase::key, at.state, 0});
        }
        break;
      default:
        break;
    }
  }

  // Handles the member before the comma at the end of `text`, whose name is not among those that
  // the frame knows and must not come again.
  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    State state = states_[unpack(cell.local).state];
    context_.shapes.spend(used_.size());
    const auto name = context_.parsed(name_before(text));
    if (!name || name->if_string() == nullptr) return;
    std::vector<std::string> used = used_[state.used];
    if (used.size() < kMaxUsed) used.push_back(*name->if_string());
    std::ranges::sort(used);
    const auto known = std::ranges::find(used_, used);
    state.used = static_cast<std::uint32_t>(known - used_.begin());
    if (known == used_.end()) used_.push_back(std::move(used));
    const std::uint32_t id = intern(std::move(state));
    if (may_add(id)) then(machine, cell, context_.after_comma, {Phase::key, id, 0});
  }

  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    return 1 + least_after(machine, states_[0]);
  }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    const State state = states_[at.state];  // a copy, because states_ may grow
    const auto with_name = [&](std::uint32_t name, std::size_t read) {
      std::uint32_t fewest = Machine::kFar;
      for_each_term(state, name, [&](Term term, const State& part) {
        const std::uint32_t least =
            least_of(machine, name, term, read) + least_after(machine, after_name(part, name, 0));
        fewest = std::min(fewest, least);
      });
      return fewest;
    };
    const auto with_other = [&] {
      return machine.least(context_.value(others_[at.more].term)) + least_after(machine, state);
    };
    switch (at.phase) {
      case Phase::open:
        return 1 + least_after(machine, state);
      case Phase::close:
        return 1;
      case Phase::name: {
        const Place place = places_[at.more];
        constexpr std::uint32_t kMaxNames = 64;
        std::uint32_t fewest = Machine::kFar;
        for (std::uint32_t i = place.from; i < std::min(place.to, place.from + kMaxNames); ++i) {
          const auto& [text, name] = spellings_[i];
          if (!is_free(state, name)) continue;
          const auto rest = static_cast<std::uint32_t>(text.size() - place.depth);
          fewest = std::min(fewest, rest + with_name(name, names_[name].spelled.size()));
        }
        return fewest;
      }
      case Phase::colon:
        return with_name(at.more, names_[at.more].spelled.size());
      case Phase::value:
        return with_name(at.more, names_[at.more].spelled.size()) - 1;
      case Phase::after_other:
      case Phase::colon_other:
        return 1 + with_other();
      case Phase::value_other:
        return with_other();
      default:
        return least_after(machine, state);
    }
  }

  [[nodiscard]] std::size_t memory_bytes() const override {
    constexpr std::size_t kNodeBytes = 96;  // of the maps, without the memory of the keys
    const std::size_t seen_bytes = states_[0].seen.size() * sizeof(std::uint64_t);
    const std::size_t open_bytes = 2 * cases_.size() * sizeof(OpenCase);
    return states_.size() * (sizeof(State) + 2 * seen_bytes + open_bytes + kNodeBytes) +
           bytes_of_likes_ + without_.memory_bytes() +
           places_.size() * (sizeof(Place) + kNodeBytes);
  }

 private:
  enum class Phase : std::uint8_t {
    open,          // waits for '{'
    first,         // a key or the end
    key_or_close,  // waits for '"' or '}'
    key,           // waits for '"'
    name,          // inside a declared name; `more` is the place
    after_other,   // another name has been read; `more` is its kind
    colon,         // waits for ':'; `more` is the name
    colon_other,
    value,  // the value of a name
    value_other,
    after,  // a value has been read
    next,   // waits for ',' or '}'
    note,   // asks for the name of the member that was just read
    close,  // waits for '}'
  };
  struct Local {
    Phase phase = Phase::open;
    std::uint32_t state = 0;
    std::uint32_t more = 0;
  };
  static constexpr std::uint32_t kOther = 1;  // `more` after a value with an undeclared name
  static constexpr std::size_t kMaxUsed = 256;
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
    std::string name;
    std::uint32_t order;
    std::uint32_t some;  // bit i: a value may be the one that some_[i] requires
  };
  struct Other {
    OtherNames names;
    Term term;
    std::uint32_t some;
  };
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
  // One way to write a name, without the opening quote.
  struct Spelling {
    std::string text;
    std::uint32_t name;
  };
  // A place in a declared name: spellings [from, to) begin with the same `depth` bytes.
  struct Place {
    std::uint32_t from, to, depth;
    auto operator<=>(const Place&) const = default;
  };

  // With \u for characters beyond ASCII, as json.dumps writes it, in lower and upper case.
  static std::vector<std::string> escaped_spellings(const Name& name) {
    std::string small = json::dumps(json::Value(name.name), {.ensure_ascii = true}).substr(1);
    if (small == name.spelled) return {};
    std::string large = small;
    for (std::size_t at = 0; at + 1 < large.size(); ++at) {
      if (large[at] != '\\') continue;
      if (large[++at] != 'u') continue;
      for (std::size_t end = at + 5; ++at < end;) {
        if (large[at] >= 'a') large[at] = static_cast<char>(large[at] - 'a' + 'A');
      }
      --at;
    }
    if (large == small) return {small};
    return {small, large};
  }

  // The bytes for the rest of a name of which `read` bytes have been read, its colon and its value.
  [[nodiscard]] std::uint32_t least_of(Machine& machine, std::uint32_t name, Term term,
                                       std::size_t read) {
    return static_cast<std::uint32_t>(names_[name].spelled.size() - read) + 1 +
           machine.least(context_.value(term));
  }
  // The bytes for the missing required members, with quotes and commas, and the closing bracket.
  [[nodiscard]] std::uint32_t least_after(Machine& machine, const State& state) {
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

  static bool is_single(const std::vector<ObjectKind>& kinds) {
    return kinds.size() == 1 && kinds[0].cases.size() == 1;
  }
  // Adds the names that the shapes do not list themselves, and returns all names, or none if there
  // is a single case.
  std::vector<std::string> add_names(std::vector<ObjectKind>& kinds) {
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
  [[nodiscard]] Case case_of(const TermByName& terms, const PresentNames& present) {
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
  [[nodiscard]] std::optional<std::uint32_t> find_name(std::string_view name) const {
    const auto name_of = [&](std::uint32_t id) -> std::string_view { return names_[id].name; };
    const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
    if (found == by_name_.end() || names_[*found].name != name) return std::nullopt;
    return *found;
  }
  static bool has(const std::vector<std::uint64_t>& bits, std::uint32_t name) {
    return (bits[name / 64] >> name % 64 & 1U) != 0;
  }

  [[nodiscard]] bool is_ordered() const {
    return context_.options.property_order == JsonOptions::PropertyOrder::schema;
  }
  [[nodiscard]] bool has_seen(const State& state, std::uint32_t name) const {
    return has(state.seen, name);
  }
  [[nodiscard]] bool may_close(std::uint32_t id) const {
    const State& state = states_[id];
    return may_close(state) && !is_excluded(state.like, seen_count(state));
  }
  [[nodiscard]] bool may_close(const State& state) const {
    const auto is_complete = [](const OpenCase& open) { return open.missing == 0; };
    return state.count >= count_.least && is_met(state) &&
           std::ranges::any_of(state.open, is_complete);
  }
  static std::size_t seen_count(const State& state) {
    std::size_t count = 0;
    for (const std::uint64_t word : state.seen)
      count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }
  // Whether one of the objects that have all members so far has no other members.
  [[nodiscard]] bool is_excluded(std::uint32_t like, std::size_t members) const {
    context_.shapes.spend(likes_[like].size() / kComparedPerStep);
    return std::ranges::any_of(likes_[like], [&](const json::Value* value) {
      return value->if_object()->size() == members;
    });
  }
  std::uint32_t intern(const Like& like) {
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
  [[nodiscard]] bool has_only_known_names(const json::Value& object) const {
    const json::Object& members = *object.if_object();
    context_.shapes.spend(members.size());
    return std::ranges::all_of(
        members, [&](const json::Member& member) { return find_name(member.key).has_value(); });
  }
  // The state before the first member if these objects are left out as well; nothing if no object
  // is left. The frame reads no objects with names that it does not know.
  [[nodiscard]] std::optional<std::uint32_t> without(Context::ObjectsId objects) {
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
  [[nodiscard]] bool is_met(const State& state) const {
    return state.some == (1U << some_.size()) - 1;
  }
  // Calls use() with each way to read the value of a name after which the object can still end, and
  // the state after it. The value is one that some_ requires, or differs from the values of the
  // excluded objects there, or is one of these. Stops when use() returns true, and returns true.
  template <class Use>
  bool for_each_way(const State from, std::uint32_t name, const Use& use) {
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
  [[nodiscard]] std::vector<std::pair<Term, std::uint32_t>> by_value(std::uint32_t like,
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
  // An object so far, with so many members. Names are decided in their order, from `at` on: a name
  // that is passed over counts as seen.
  struct Undecided {
    State state;
    std::size_t at = 0;
    std::size_t members = 0;
  };
  // Whether an object with so many members can end as one that is not among the excluded ones that
  // it equals so far. There may be as many decisions in a row as the schema has names, so this does
  // not call itself.
  [[nodiscard]] bool can_differ(const State& state, std::size_t members) {
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
  [[nodiscard]] bool differs(const Undecided& one, std::vector<Undecided>& open) {
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
  void for_each_term(const State& from, std::uint32_t name, const Use& use) {
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
  void for_each_value(const State& from, std::uint32_t name, const Use& use) {
    for_each_term(from, name, [&](Term of_name, const State& part) {
      for_each_some(of_name, names_[name].some,
                    [&](Term term, std::uint32_t some) { use(term, some, part); });
    });
  }
  // Tries the values that `some_` still requires, and one that meets none of them.
  template <class Use>
  void for_each_some(Term of_name, std::uint32_t possible, const Use& use) {
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
  [[nodiscard]] std::uint32_t fitting(Term term, std::uint32_t within) {
    for (std::size_t i = 0; i < some_.size(); ++i) {
      const Term both = context_.shapes.terms().all_of({term, some_[i].value});
      if (!context_.shapes.is_satisfiable(both)) within &= ~(1U << i);
    }
    return within;
  }
  // Whether the members that may still come can meet all of `some_` and reach the required number.
  // In any order each name that has not been seen is free, and there are enough of them.
  [[nodiscard]] bool may_finish(const State& state) const {
    return (is_met(state) && !is_ordered()) || can_reach(state);
  }
  // The same where names may count as seen that have been passed over.
  [[nodiscard]] bool can_reach(const State& state) const {
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
  [[nodiscard]] bool has_room(const State& state, const OpenCase& open) const {
    return state.count + open.missing < count_.most;
  }
  // Whether the case can still hold once the name has come.
  [[nodiscard]] bool allows(const State& state, const OpenCase& open, std::uint32_t name) const {
    const Case& one = cases_[open.at];
    if (has(one.forbidden, name)) return false;
    if (!has(one.required, name) && !has_room(state, open)) return false;
    if (!is_ordered()) return true;
    // A required name that is passed over could not come any more.
    const auto next_required = std::ranges::lower_bound(one.orders, state.next_order);
    return next_required == one.orders.end() || names_[name].order <= *next_required;
  }
  [[nodiscard]] bool is_free(const State& state, std::uint32_t name) const {
    if (has_seen(state, name)) return false;
    if (is_ordered() && names_[name].order < state.next_order) return false;
    return std::ranges::any_of(state.open,
                               [&](const OpenCase& open) { return allows(state, open, name); });
  }
  // Whether the names seen alone do not decide if the object can end.
  [[nodiscard]] bool must_look_ahead(const State& state) const {
    return !is_met(state) || (is_ordered() && state.count < count_.least) || state.like != 0;
  }
  [[nodiscard]] bool may_add_name(const State& state, std::uint32_t name) {
    if (!is_free(state, name)) return false;
    if (!must_look_ahead(state)) return true;
    if (state.like != 0) {
      return for_each_way(state, name, [](Term, const State&) { return true; });
    }
    return has_way(names_[name].some,
                   [&](std::uint32_t some) { return may_finish(after_name(state, name, some)); });
  }
  [[nodiscard]] bool may_add_other(const State& state, const Other& other) const {
    if (!must_look_ahead(state)) return true;
    return has_way(other.some,
                   [&](std::uint32_t some) { return may_finish(after_other(state, some)); });
  }
  template <class Test>
  static bool has_way(std::uint32_t possible, const Test& test) {
    for (std::uint32_t some = 0; some <= possible; ++some) {
      if ((some & possible) == some && test(some)) return true;
    }
    return false;
  }
  // Whether some name of the range may still come. The seen names are bits, so 64 names are asked
  // at once; only order, or conditions on later members, need a look at each name.
  [[nodiscard]] bool may_add_name_in(const State& state, std::uint32_t from, std::uint32_t to) {
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
  [[nodiscard]] bool may_add_spelling_in(const State& state, const Place& place) {
    if (spellings_.size() == names_.size()) return may_add_name_in(state, place.from, place.to);
    const auto spellings = std::span(spellings_).subspan(place.from, place.to - place.from);
    return std::ranges::any_of(
        spellings, [&](const Spelling& spelling) { return may_add_name(state, spelling.name); });
  }
  [[nodiscard]] bool may_add_others(const State& state) const {
    return !others_.empty() && std::ranges::any_of(state.open, [&](const OpenCase& open) {
      return allows_other(state, open);
    });
  }
  [[nodiscard]] bool allows_other(const State& state, const OpenCase& open) const {
    return has_room(state, open) && (!is_ordered() || open.missing == 0);
  }
  [[nodiscard]] bool may_add(std::uint32_t id) {
    const State state = states_[id];  // a copy, because states_ may grow
    const auto may_add_it = [&](const Other& other) { return may_add_other(state, other); };
    return (may_add_others(state) && std::ranges::any_of(others_, may_add_it)) ||
           may_add_name_in(state, 0, static_cast<std::uint32_t>(names_.size()));
  }

  // Which cases are open also depends on the values that have been read.
  [[nodiscard]] std::vector<std::uint64_t> key_of(const State& state) const {
    std::vector<std::uint64_t> key = state.seen;
    if (cases_.size() > 1) {
      for (const OpenCase& open : state.open) key.push_back(open.at);
    }
    key.push_back(state.count);
    key.push_back(std::uint64_t{state.some} << 32U | state.next_order);
    key.push_back(std::uint64_t{state.used} << 32U | state.like);
    return key;
  }
  std::uint32_t intern(State state) {
    state.count = std::min(state.count, counts_matter_);
    const auto [place, is_new] =
        state_ids_.try_emplace(key_of(state), static_cast<std::uint32_t>(states_.size()));
    if (is_new) states_.push_back(std::move(state));
    return place->second;
  }
  [[nodiscard]] State after_name(State state, std::uint32_t name, std::uint32_t some) const {
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
  [[nodiscard]] State after_other(State state, std::uint32_t some) const {
    std::erase_if(state.open, [&](const OpenCase& open) { return !allows_other(state, open); });
    state.some |= some;
    state.like = 0;
    ++state.count;
    if (is_ordered()) state.next_order = static_cast<std::uint32_t>(names_.size());
    return state;
  }

  void then(Machine& machine, const Cell& cell, FrameId frame, const Local& local) const {
    machine.enter(frame, machine.push(cell.frame, pack(local), cell.parent));
  }

  void begin(Machine& machine, const Cell& cell, std::uint32_t state) {
    if (!context_.line_of_item) {
      return then(machine, cell, context_.gap, {Phase::first, state, 0});
    }
    if (may_close(state)) {
      machine.wait(cell.frame, pack({Phase::close, state, 0}), cell.parent);
    }
    if (may_add(state)) then(machine, cell, *context_.line_of_item, {Phase::key, state, 0});
  }

  // Behind the opening quote two ways go on side by side: declared names as places in the sorted
  // list, and each group of other names as an automaton that has no declared names.
  void begin_key(Machine& machine, const Cell& cell, std::uint32_t state) {
    wait_in_name(machine, cell, state, {0, static_cast<std::uint32_t>(spellings_.size()), 0});
    if (!may_add_others(states_[state])) return;
    for (std::uint32_t i = 0; i < others_.size(); ++i) {
      if (!may_add_other(states_[state], others_[i])) continue;
      const auto names =
          context_.shapes.names.without(others_[i].names, used_[states_[state].used]);
      if (!names) continue;
      then(machine, cell, context_.name(*names), {Phase::after_other, state, i});
    }
  }

  // The name, in quotes, of the member before the comma at the end of `text`.
  static std::string_view name_before(std::string_view text) {
    const auto opening = [&](std::size_t closing) {
      for (std::size_t at = closing; at-- > 0;) {
        if (text[at] != '"') continue;
        std::size_t backslashes = 0;
        while (backslashes < at && text[at - backslashes - 1] == '\\') ++backslashes;
        if (backslashes % 2 == 0) return at;
      }
      return std::size_t{0};
    };
    std::size_t depth = 0;
    for (std::size_t at = text.size() - 1; at-- > 0;) {
      switch (text[at]) {
        case '"':
          at = opening(at);
          break;
        case ']':
        case '}':
          ++depth;
          break;
        case '[':
        case '{':
          --depth;
          break;
        case ':': {
          if (depth > 0) break;
          const std::size_t closing = text.rfind('"', at);
          const std::size_t from = opening(closing);
          return text.substr(from, closing + 1 - from);
        }
        default:
          break;
      }
    }
    return {};
  }

  // The bytes that may come next in some name of the place.
  [[nodiscard]] ByteSet bytes_in(const Place& place) const {
    const auto byte_of = [&](const Spelling& spelling) {
      return static_cast<std::uint8_t>(spelling.text[place.depth]);
    };
    ByteSet set;
    const auto end = spellings_.begin() + place.to;
    for (auto spelling = spellings_.begin() + place.from; spelling != end;) {
      const std::uint8_t byte = byte_of(*spelling);
      set.insert(byte);
      spelling = std::ranges::upper_bound(spelling, end, byte, {}, byte_of);
    }
    return set;
  }

  void wait_in_name(Machine& machine, const Cell& cell, std::uint32_t state, const Place& place) {
    if (!may_add_spelling_in(states_[state], place)) return;
    const auto [id, is_new] =
        place_ids_.try_emplace(place, static_cast<std::uint32_t>(places_.size()));
    if (is_new) places_.push_back(place);
    machine.wait(cell.frame, pack({Phase::name, state, id->second}), cell.parent);
  }

  // One byte narrows the range of names by two binary searches.
  void read_name(Machine& machine, const Cell& cell, const Local& at, std::uint8_t byte) {
    const Place place = places_[at.more];
    // Each spelling ends with the closing quote, which is not escaped, so none is a prefix of
    // another.
    const auto byte_at = [&](const Spelling& spelling) {
      return static_cast<std::uint8_t>(spelling.text[place.depth]);
    };
    const auto begin = spellings_.begin();
    const auto range =
        std::ranges::equal_range(begin + place.from, begin + place.to, byte, {}, byte_at);
    if (range.empty()) return;
    const auto from = static_cast<std::uint32_t>(range.begin() - begin);
    const auto to = static_cast<std::uint32_t>(range.end() - begin);
    if (to - from == 1 && spellings_[from].text.size() == place.depth + 1) {
      const std::uint32_t name = spellings_[from].name;
      if (may_add_name(states_[at.state], name)) {
        then(machine, cell, context_.gap, {Phase::colon, at.state, name});
      }
      return;
    }
    wait_in_name(machine, cell, at.state, {from, to, place.depth + 1});
  }

  Context& context_;
  schema::Counts count_;
  std::vector<ObjectShape::Some> some_;
  std::vector<Name> names_;          // by spelling
  std::vector<Spelling> spellings_;  // by text; the spellings of names_ alone are in the same order
  std::vector<Other> others_;
  std::vector<Case> cases_;                 // one of these holds
  std::vector<std::uint32_t> by_order_;     // names_ in the order of the schema
  std::vector<std::uint32_t> by_name_;      // and by name
  std::vector<Like> likes_;                 // the first is empty
  std::map<Like, std::uint32_t> like_ids_;  // without the first
  static constexpr std::uint32_t kNoState = 0xFFFFFFF;
  IntMap without_;  // objects that are left out -> state, or kNoState
  std::size_t bytes_of_likes_ = 0;
  std::vector<std::vector<std::string>> used_;  // the first is empty
  bool tracks_others_ = false;                  // undeclared names are remembered
  std::uint64_t counts_matter_ = 0;
  std::vector<State> states_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> state_ids_;
  std::vector<Place> places_;
  std::map<Place, std::uint32_t> place_ids_;
};

// Compares a finished value with its term. Local: where the value begins, or the objects that are
// left out, and the question.
class CheckFrame final : public Frame {
 public:
  /// `object`: the frame `value`, if it reads objects.
  CheckFrame(Context& context, Term term, FrameId value, ObjectFrame* object = nullptr)
      : context_(context), term_(term), value_(value), object_(object) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.ask(self, kBegin, parent);
  }
  /// The same without these objects.
  void enter_without(Machine& machine, FrameId self, CellId parent, Context::ObjectsId objects) {
    if (!object_->has_any_without(objects)) return;
    machine.ask(self, std::uint64_t{objects} << 2U | kBegin, parent);
  }
  void resume(Machine& machine, const Cell& cell) override {
    machine.ask(cell.frame, cell.local | kEnd, cell.parent);
  }
  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    if ((cell.local & kBegin) != 0) {
      const CellId value = machine.push(cell.frame, std::uint64_t{text.size()} << 2U, cell.parent);
      if (cell.local == kBegin) return machine.enter(value_, value);
      const auto objects = static_cast<Context::ObjectsId>(cell.local >> 2U);
      return object_->enter_without(machine, value_, value, objects);
    }
    const auto value = context_.parsed(text.substr(cell.local >> 2U));
    if (value && context_.shapes.work.fits(term_, *value)) machine.resume(cell.parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override { return machine.least(value_); }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    return (cell.local & kBegin) != 0 ? machine.least(value_) : 0;
  }

 private:
  static constexpr std::uint64_t kBegin = 1;
  static constexpr std::uint64_t kEnd = 2;

  Context& context_;
  Term term_;
  FrameId value_;
  ObjectFrame* object_;
};

// The frame of the whole value. It owns the Context that its frames share.
class RootFrame final : public Frame {
 public:
  RootFrame(std::shared_ptr<Context> context, FrameId value)
      : context_(std::move(context)), value_(value) {}
  void enter(Machine& machine, FrameId, CellId parent) override { machine.enter(value_, parent); }
  [[nodiscard]] std::uint32_t least(Machine& machine) override { return machine.least(value_); }
  [[nodiscard]] std::size_t memory_bytes() const override { return context_->memory_bytes(); }

 private:
  std::shared_ptr<Context> context_;
  FrameId value_;
};

// White space is decided here once, as frames that the values enter between their parts: nothing, a
// space, any white space, or a line with an indentation that depends on the depth of the stack.
Context::Context(Machine& to, std::shared_ptr<const schema::Schema> schema, const JsonOptions& how)
    : machine(to),
      options(how),
      shapes(std::move(schema),
             to.new_exprs({.max_steps = 4'000'000, .max_bytes = std::uint64_t{8} << 20}),
             {.excludes_values = true}) {
  shapes.work.on_error([this](const Error& error) { machine.fail(error); });
  shapes.work.on_steps([this](std::uint64_t steps) {
    machine.add_work(steps / kShapeStepsPerStep);
    return !machine.error();
  });
  quote_ = machine.add(make_literal("\""));
  switch (options.whitespace) {
    case JsonOptions::Whitespace::any:
      gap = machine.add(make_lexeme(std::make_shared<GapScanner>(options.max_whitespace)));
      after_comma = after_colon = gap;
      break;
    case JsonOptions::Whitespace::pretty:
      machine.keep_stacks_apart();  // depth() counts the cells of one stack
      gap = machine.add(make_literal(""));
      after_colon = machine.add(make_literal(" "));
      line_of_item = after_comma = machine.add(std::make_unique<LineFrame>(*this, 0));
      line_of_end = machine.add(std::make_unique<LineFrame>(*this, 1));
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

// Every open array or object has one cell on the stack, the one to which it returns after the item
// or member.
std::uint64_t Context::depth(CellId cell) const {
  std::uint64_t depth = 0;
  for (; cell != 0; cell = machine.cell(cell).parent) {
    if (containers_.contains(machine.cell(cell).frame)) ++depth;
  }
  return depth;
}

std::optional<json::Value> Context::parsed(std::string_view text) {
  if (!shapes.spend(1 + text.size() / kComparedPerStep)) return std::nullopt;
  auto value = json::parse(text);
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

FrameId Context::value(Term term, Part part) {
  const auto [place, is_new] = values_.try_emplace({term, part}, 0);
  if (is_new) place->second = machine.add(std::make_unique<ValueFrame>(*this, term, part));
  return place->second;
}

FrameId Context::string(Term term) {
  const StringShape& shape = shapes.strings.text(term);
  StringOptions how = string_options();
  how.least = shape.length.least;
  how.most = shape.length.most;
  how.excluded = shape.excluded;
  how.values = shape.values;
  return machine.add(
      make_sequence({quote_, machine.add(make_lexeme(make_string_scanner(
                                 shapes.work.shared_exprs(), shape.language, std::move(how))))}));
}

StringOptions Context::string_options() {
  return {.escapes = options.unicode_escapes,
          .any_character = shapes.work.any_character(),
          .on_error = [this](const Error& error) { machine.fail(error); }};
}

// The opening quote has been read, since it comes before the choice between declared names and
// others.
FrameId Context::name(const OtherNames& names) {
  const auto [place, is_new] = names_.try_emplace({names.names, names.but}, 0);
  if (is_new) {
    StringOptions how = string_options();
    how.excluded = names.but;
    place->second = machine.add(
        make_lexeme(make_string_scanner(shapes.work.shared_exprs(), names.names, std::move(how))));
  }
  return place->second;
}

// Terms refer to values by address, so an equal value is kept once, for as long as the frames live.
Term Context::term_of(const json::Value& value) {
  const std::uint64_t hash = schema::hash_of(value);
  const auto [from, to] = kept_.equal_range(hash);
  auto place = std::find_if(from, to, [&](const auto& kept) { return kept.second == value; });
  if (place == to) place = kept_.emplace(hash, value);
  return shapes.terms().value(place->second);
}

Context::NumberReader Context::reader_of(NumberSet set) {
  const auto [place, is_new] = number_readers_.try_emplace(std::move(set));
  if (is_new) {
    place->second.scanner = make_number_scanner(place->first);
    place->second.lexeme = machine.add(make_lexeme(place->second.scanner, Scanner::kDead));
  }
  return place->second;
}

// Terms that differ only in excluded numbers share one scanner: it starts in a state that has the
// exclusions, so items that must differ need no scanner each.
std::vector<Context::NumbersOfTerm>& Context::numbers_of(Term term) {
  const auto [place, is_new] = numbers_of_terms_.try_emplace(term);
  if (!is_new) return place->second;
  for (const NumberShape& shape : shapes.numbers.of(term)) {
    NumberSet set = shape.set;
    const std::vector<std::string> excluded = std::exchange(set.excluded, {});
    NumbersOfTerm& numbers = place->second.emplace_back();
    numbers.reader = reader_of(std::move(set));
    numbers.needs_check = shape.needs_check;
    for (const std::string& number : excluded) {
      numbers.of_term = numbers.reader.scanner->without(numbers.of_term, number);
    }
    numbers.less.insert(kNoNumbers, numbers.of_term);
  }
  return place->second;
}

// Starts from the nearest earlier list whose remainder is known, and removes the numbers after it.
Scanner::State Context::start_of(NumbersOfTerm& numbers, Numbers but) {
  std::vector<Numbers> unknown;
  for (; numbers.less.find(but) == IntMap::kNone; but = numbers_[but].before) {
    unknown.push_back(but);
  }
  NumberScanner& scanner = *numbers.reader.scanner;
  NumberScanner::Less less = numbers.less.find(but);
  shapes.spend(unknown.size());
  for (; !unknown.empty(); unknown.pop_back()) {
    less = scanner.without(less, numbers_[unknown.back()].value.if_number()->text);
    numbers.less.insert(unknown.back(), less);
  }
  return scanner.start_of(less);
}

Context::Numbers Context::with(Numbers numbers, const json::Value& number) {
  const auto [place, is_new] = numbers_ids_.try_emplace({numbers, number.if_number()->text},
                                                        static_cast<Numbers>(numbers_.size()));
  if (is_new) numbers_.push_back({numbers, number});
  return place->second;
}

std::vector<const json::Value*> Context::values_of(Numbers numbers) const {
  std::vector<const json::Value*> values;
  for (; numbers != kNoNumbers; numbers = numbers_[numbers].before) {
    values.push_back(&numbers_[numbers].value);
  }
  return values;
}

// A number of the term without the numbers in `but`. The frame of a check is kept by start state,
// because it would be made anew for each item.
void Context::enter_number(Term term, Numbers but, CellId parent) {
  for (NumbersOfTerm& numbers : numbers_of(term)) {
    const Scanner::State start = start_of(numbers, but);
    if (start == Scanner::kDead) continue;
    if (!numbers.needs_check) {
      machine.wait(numbers.reader.lexeme, start, parent);
      continue;
    }
    const auto [place, is_new] = numbers.checks.try_emplace(start, 0);
    if (is_new) {
      const FrameId number = machine.add(make_lexeme(numbers.reader.scanner, start));
      place->second = machine.add(std::make_unique<CheckFrame>(*this, term, number));
    }
    machine.enter(place->second, parent);
  }
}

bool Context::has_number(Term term, Numbers but) {
  return std::ranges::any_of(numbers_of(term), [&](NumbersOfTerm& numbers) {
    return start_of(numbers, but) != Scanner::kDead;
  });
}

std::size_t Context::memory_bytes() const {
  constexpr std::size_t kTermBytes = 100;
  constexpr std::size_t kNumberBytes = 200;  // of a list, without its text
  std::size_t bytes = shapes.work.shared_exprs()->bytes_used() +
                      shapes.terms().size() * kTermBytes + shapes.strings.bytes_of_words() +
                      numbers_.size() * kNumberBytes + bytes_of_objects_;
  for (const auto& [set, reader] : number_readers_) bytes += reader.scanner->memory_bytes();
  for (const auto& [term, all] : numbers_of_terms_) {
    for (const NumbersOfTerm& numbers : all) bytes += numbers.less.memory_bytes();
  }
  return bytes;
}

// One frame for each way to write a value of the term. A frame whose shape has more values than the
// term gets a check behind it.
std::vector<FrameId> Context::choices(Term term, Part part) {
  std::vector<FrameId> choices;
  const auto add = [&](FrameId frame, bool needs_check) {
    choices.push_back(needs_check ? machine.add(std::make_unique<CheckFrame>(*this, term, frame))
                                  : frame);
  };
  const auto wants = [part](Part one) { return part == Part::all || part == one; };
  if (wants(Part::scalars)) {
    const Constants constants = shapes.constants.of(term);
    constexpr std::array<const char*, 3> kWords{"null", "false", "true"};
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      if (constants[i]) add(machine.add(make_literal(kWords[i])), false);
    }
    if (shapes.is_satisfiable(shapes.strings.text(term))) {
      add(string(term), shapes.strings.needs_check(term));
    }
  }
  if (part == Part::all) {
    for (NumbersOfTerm& numbers : numbers_of(term)) {
      const Scanner::State start = start_of(numbers, kNoNumbers);
      add(machine.add(make_lexeme(numbers.reader.scanner, start)), numbers.needs_check);
    }
  }
  if (wants(Part::containers)) {
    for (const Container& container : containers_of(term)) choices.push_back(container.frame);
  }
  return choices;
}

// Adds the names behind those that are there. False: they have another order.
bool Context::extend(NameOrder& order,
                     const std::vector<std::pair<std::string, Term>>& names) const {
  const bool is_ordered = options.property_order == JsonOptions::PropertyOrder::schema;
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
void Context::add_case(std::vector<PresentNames>& cases, PresentNames names) {
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
std::vector<ObjectKind> Context::kinds_of(const std::vector<ObjectShape>& all) {
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
      add_case(result[same->at].cases, std::move(names));
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

// Kinds of objects that one frame can read: they say the same of all names that no rule lists, and
// their names come in the same order. A frame for each would read the names, and values on which
// they agree, as often as there are shapes.
std::vector<std::vector<ObjectKind>> Context::by_frame(const std::vector<ObjectShape>& all) {
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
  for (ObjectKind& kind : kinds_of(all)) {
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
             extend(group.order, names);
    };
    const auto group = std::ranges::find_if(groups, is_like_it);
    if (group == groups.end()) {
      groups.push_back({std::move(rest), only_declared, {}, result.size()});
      (void)extend(groups.back().order, names);
      result.push_back({std::move(kind)});
    } else {
      result[group->at].push_back(std::move(kind));
    }
  }
  return result;
}

const std::vector<Context::Container>& Context::containers_of(Term term) {
  const auto [place, is_new] = containers_of_terms_.try_emplace(term);
  std::vector<Container>& made = place->second;
  if (!is_new) return made;
  const auto add = [&](FrameId frame, ObjectFrame* object, bool needs_check) {
    containers_.insert(frame);
    if (!needs_check) return made.push_back({frame, object, nullptr});
    auto check = std::make_unique<CheckFrame>(*this, term, frame, object);
    CheckFrame* const checks = check.get();
    made.push_back({machine.add(std::move(check)), object, checks});
  };
  for (const ArrayShape& shape : shapes.arrays.of(term)) {
    add(machine.add(std::make_unique<ArrayFrame>(*this, shape)), nullptr, shape.needs_check);
  }
  for (std::vector<ObjectKind>& kinds : by_frame(shapes.objects.of(term))) {
    bool needs_check = kinds[0].shape.needs_check;
    auto frame = std::make_unique<ObjectFrame>(*this, std::move(kinds), needs_check);
    ObjectFrame* const object = frame.get();
    add(machine.add(std::move(frame)), object, needs_check);
  }
  return made;
}

Context::ObjectsId Context::id_of(const Objects& objects) {
  const auto [place, is_new] =
      objects_ids_.try_emplace(objects, static_cast<ObjectsId>(objects_.size()));
  if (is_new) {
    objects_.push_back(&place->first);
    constexpr std::size_t kNodeBytes = 96;
    bytes_of_objects_ += kNodeBytes + objects.size() * sizeof(Objects::value_type);
  }
  return place->second;
}

bool Context::can_leave_out(Term term, ObjectsId objects) {
  if (objects == kNoObjects) return true;
  return std::ranges::all_of(containers_of(term), [&](const Container& container) {
    return container.object == nullptr ||
           std::ranges::all_of(this->objects(objects), [&](const json::Value* one) {
             return container.object->can_leave_out(*one);
           });
  });
}

// Arrays are entered as they are: `but` has objects only.
void Context::enter_container(Term term, ObjectsId but, CellId parent) {
  for (const Container& container : containers_of(term)) {
    if (container.object == nullptr) {
      machine.enter(container.frame, parent);
    } else if (container.check != nullptr) {
      container.check->enter_without(machine, container.frame, parent, but);
    } else {
      container.object->enter_without(machine, container.frame, parent, but);
    }
  }
}

bool Context::has_object(Term term, ObjectsId but) {
  if (but == kNoObjects) return !shapes.objects.of(term).empty();
  return std::ranges::any_of(containers_of(term), [&](const Container& container) {
    return container.object != nullptr && container.object->has_any_without(but);
  });
}

}  // namespace

Expected<FrameId> add_json(Machine& machine, std::shared_ptr<const schema::Schema> schema,
                           const JsonOptions& options, std::vector<Relaxed>* relaxed) {
  const schema::NodeId root = schema->root();
  const auto context = std::make_shared<Context>(machine, schema, options);
  if (options.plain_integers) context->shapes.number_rules.spell_integers();
  if (options.declared_only) context->shapes.names.declared_only();
  if (options.lenient) {
    std::vector<Relaxed> left_out = context->shapes.relax();
    if (relaxed != nullptr) std::ranges::move(left_out, std::back_inserter(*relaxed));
  } else {
    context->shapes.check();
  }
  const Term term = context->shapes.terms().node(root);
  const bool satisfiable = context->shapes.is_satisfiable(term);
  if (context->shapes.error()) return Unexpected(*context->shapes.error());
  // Without undeclared names nothing fits, so they are allowed after all.
  if (!satisfiable && options.declared_only) {
    JsonOptions any_names = options;
    any_names.declared_only = false;
    return add_json(machine, std::move(schema), any_names);
  }
  if (!satisfiable) return Unexpected(context->shapes.satisfiable.error());
  return machine.add(std::make_unique<RootFrame>(context, context->value(term)));
}

}  // namespace tenon::grammar
