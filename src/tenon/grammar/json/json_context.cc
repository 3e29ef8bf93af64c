#include "tenon/grammar/json/json_context.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "tenon/grammar/json/check_frame.h"
#include "tenon/grammar/json/object_frame.h"
#include "tenon/grammar/machine/frames.h"
#include "tenon/schema/values.h"

// One frame is made for each term, string or name when it is first read. What follows is, in order:
//  - white space, which is decided once for all values, as frames that they enter between their
//    parts;
//  - values: which frames read a term;
//  - numbers, whose scanner is shared by all terms that differ only in excluded numbers;
//  - arrays and objects.
// Lists of numbers and of objects that must not come again are numbers here, so that a frame's
// local state has room for them.

namespace tenon::grammar {
namespace {

using regex::ByteSet;

// A step of the machine takes as long as so many steps of the shapes.
constexpr std::uint64_t kShapeStepsPerStep = 3;

// At most `max` characters of whitespace. The state is the number of characters read.
class GapScanner final : public Scanner {
 public:
  explicit GapScanner(State max) : max_(max) {}
  // Whitespace without an end is one state, from which spaces lead back to it.
  static constexpr State kEndless = ~State{0};

  State start() override { return 0; }
  State step(State state, std::uint8_t byte) override {
    const bool is_space = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
    if (is_space && max_ == kEndless) return state;
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
  LineFrame(JsonContext& context, std::uint64_t less) : context_(context), less_(less) {}

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

  JsonContext& context_;
  std::uint64_t less_;
};

// A value of a term. Its choices are found when a value is first read here.
class ValueFrame final : public Frame {
 public:
  ValueFrame(JsonContext& context, Term term, Part part)
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

  JsonContext& context_;  // owns the map that leads here; the root frame owns it
  Term term_;
  Part part_;
  bool is_expanded_ = false;
  std::vector<FrameId> choices_;
};

}  // namespace

// White space is decided here once, as frames that the values enter between their parts: nothing, a
// space, any white space, or a line with an indentation that depends on the depth of the stack.
JsonContext::JsonContext(Machine& to, std::shared_ptr<const schema::Schema> schema,
                         const JsonOptions& how)
    : machine(to),
      options(how),
      shapes(std::move(schema),
             to.limits_of_exprs({.max_steps = 4'000'000, .max_bytes = std::uint64_t{8} << 20}),
             {.excludes_values = true}) {
  shapes.work.on_error([this](const Error& error) { machine.fail(error); });
  shapes.work.on_steps([this](std::uint64_t steps) {
    machine.add_work(steps / kShapeStepsPerStep);
    return !machine.error();
  });
  quote_ = machine.add(make_literal("\""));
  switch (options.whitespace) {
    case JsonOptions::Whitespace::any:
      gap = machine.add(make_lexeme(std::make_shared<GapScanner>(
          options.is_bounded ? options.max_whitespace : GapScanner::kEndless)));
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
std::uint64_t JsonContext::depth(CellId cell) const {
  std::uint64_t depth = 0;
  for (; cell != 0; cell = machine.cell(cell).parent) {
    if (containers_.contains(machine.cell(cell).frame)) ++depth;
  }
  return depth;
}

std::optional<json::Value> JsonContext::parsed(std::string_view text) {
  if (!shapes.spend(1 + text.size() / kComparedPerStep)) return std::nullopt;
  auto value = json::parse(text);
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

FrameId JsonContext::value(Term term, Part part) {
  const auto [place, is_new] = values_.try_emplace({term, part}, 0);
  if (is_new) place->second = machine.add(std::make_unique<ValueFrame>(*this, term, part));
  return place->second;
}

FrameId JsonContext::string(Term term) {
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

StringOptions JsonContext::string_options() {
  return {.escapes = options.unicode_escapes,
          .any_character = shapes.work.any_character(),
          .on_error = [this](const Error& error) { machine.fail(error); }};
}

// The opening quote has been read, since it comes before the choice between declared names and
// others.
FrameId JsonContext::name(const OtherNames& names) {
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
Term JsonContext::term_of(const json::Value& value) {
  const std::uint64_t hash = schema::hash_of(value);
  const auto [from, to] = kept_.equal_range(hash);
  auto place = std::find_if(from, to, [&](const auto& kept) { return kept.second == value; });
  if (place == to) place = kept_.emplace(hash, value);
  return shapes.terms().value(place->second);
}

JsonContext::NumberReader JsonContext::reader_of(NumberSet set) {
  set.is_bounded = options.is_bounded;
  const auto [place, is_new] = number_readers_.try_emplace(std::move(set));
  if (is_new) {
    place->second.scanner = make_number_scanner(place->first);
    place->second.lexeme = machine.add(make_lexeme(place->second.scanner, Scanner::kDead));
  }
  return place->second;
}

// Terms that differ only in excluded numbers share one scanner: it starts in a state that has the
// exclusions, so items that must differ need no scanner each.
std::vector<JsonContext::NumbersOfTerm>& JsonContext::numbers_of(Term term) {
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
Scanner::State JsonContext::start_of(NumbersOfTerm& numbers, Numbers but) {
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

JsonContext::Numbers JsonContext::with(Numbers numbers, const json::Value& number) {
  const auto [place, is_new] = numbers_ids_.try_emplace({numbers, number.if_number()->text},
                                                        static_cast<Numbers>(numbers_.size()));
  if (is_new) numbers_.push_back({numbers, number});
  return place->second;
}

std::vector<const json::Value*> JsonContext::values_of(Numbers numbers) const {
  std::vector<const json::Value*> values;
  for (; numbers != kNoNumbers; numbers = numbers_[numbers].before) {
    values.push_back(&numbers_[numbers].value);
  }
  return values;
}

// A number of the term without the numbers in `but`. The frame of a check is kept by start state,
// because it would be made anew for each item.
void JsonContext::enter_number(Term term, Numbers but, CellId parent) {
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

bool JsonContext::has_number(Term term, Numbers but) {
  return std::ranges::any_of(numbers_of(term), [&](NumbersOfTerm& numbers) {
    return start_of(numbers, but) != Scanner::kDead;
  });
}

std::size_t JsonContext::memory_bytes() const {
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
std::vector<FrameId> JsonContext::choices(Term term, Part part) {
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

const std::vector<JsonContext::Container>& JsonContext::containers_of(Term term) {
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
    add(machine.add(make_array_frame(*this, shape)), nullptr, shape.needs_check);
  }
  const bool is_ordered = options.property_order == JsonOptions::PropertyOrder::schema;
  for (std::vector<ObjectKind>& kinds :
       kinds_by_frame(shapes, shapes.objects.of(term), is_ordered)) {
    bool needs_check = kinds[0].shape.needs_check;
    auto frame = make_object_frame(*this, std::move(kinds), needs_check);
    ObjectFrame* const object = frame.get();
    add(machine.add(std::move(frame)), object, needs_check);
  }
  return made;
}

JsonContext::ObjectsId JsonContext::id_of(const Objects& objects) {
  const auto [place, is_new] =
      objects_ids_.try_emplace(objects, static_cast<ObjectsId>(objects_.size()));
  if (is_new) {
    objects_.push_back(&place->first);
    constexpr std::size_t kNodeBytes = 96;
    bytes_of_objects_ += kNodeBytes + objects.size() * sizeof(Objects::value_type);
  }
  return place->second;
}

bool JsonContext::can_leave_out(Term term, ObjectsId objects) {
  if (objects == kNoObjects) return true;
  return std::ranges::all_of(containers_of(term), [&](const Container& container) {
    return container.object == nullptr ||
           std::ranges::all_of(this->objects(objects), [&](const json::Value* one) {
             return container.object->can_leave_out(*one);
           });
  });
}

// Arrays are entered as they are: `but` has objects only.
void JsonContext::enter_container(Term term, ObjectsId but, CellId parent) {
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

bool JsonContext::has_object(Term term, ObjectsId but) {
  if (but == kNoObjects) return !shapes.objects.of(term).empty();
  return std::ranges::any_of(containers_of(term), [&](const Container& container) {
    return container.object != nullptr && container.object->has_any_without(but);
  });
}

}  // namespace tenon::grammar
