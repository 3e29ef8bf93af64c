#include "tenon/regex/splitter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/regex/code_points.h"

// Compiles a pattern to a small program, and runs it with backtracking. A choice that has failed at
// one place of the text is not tried there again (as in RE2's BitState): a bit per choice and place
// remembers it. So an attempt takes at most the program's length in steps for each byte that it
// looks at. Backtracking is needed because, unlike Regex, the order of choices matters here; atomic
// groups and looks run as small programs of their own.
namespace tenon::regex {
namespace {

constexpr std::uint64_t kMaxSteps = 2'000'000;  // of a compilation
constexpr std::uint64_t kMaxBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kMaxStepsPerByte = 200;  // of a search

// The test for a character is fast for ASCII.
class CharacterSet {
 public:
  explicit CharacterSet(CodePointSet set) : set_(std::move(set)) {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = set_.contains(c);
  }
  bool contains(char32_t c) const { return c < 128 ? ascii_[c] : set_.contains(c); }

 private:
  std::array<bool, 128> ascii_;
  CodePointSet set_;
};

enum class Op : std::uint8_t {
  match,   // the end of the program, or of a part that stands alone
  set,     // one character of `set`
  run,     // `min` to `max` characters of `set`, the most first
  split,   // goes on at `first`, then at `second`; `split` is its number
  jump,    // goes on at `first`
  begin,   // of the text
  end,     // of the text
  behind,  // a character of `set` stands before (is_negative: does not)
  ahead,   // what follows, up to `match`, fits (is_negative: does not); goes on at `first`
  atomic,  // what follows, up to `match`, once; goes on at `first`
};

// Fields that an operation does not name are not used by it.
struct Instruction {
  Op op = Op::match;
  bool is_negative = false;
  std::uint32_t set = 0;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

}  // namespace

struct Splitter::Program {
  std::vector<Instruction> code;
  std::vector<CharacterSet> sets;
  std::uint32_t splits = 0;
  Limits limits;
};

namespace {

class Compiler {
 public:
  Compiler(const Syntax& syntax, std::vector<Instruction>& code, Budget& budget)
      : syntax_(syntax), code_(code), budget_(budget) {}

  Status compile() {
    write(syntax_.root);
    add({.op = Op::match});
    if (budget_.is_spent()) return Unexpected(budget_.error());
    if (is_unsupported_) {
      return Unexpected(
          Error{Errc::unsupported, "pattern: a look behind of more than one character"});
    }
    return {};
  }
  std::uint32_t splits() const { return splits_; }

 private:
  using Address = std::uint32_t;

  // A caller that adds many instructions must check the budget.
  Address add(Instruction instruction) {
    (void)budget_.take_bytes(sizeof(Instruction));
    code_.push_back(instruction);
    return static_cast<Address>(code_.size() - 1);
  }
  Address here() const { return static_cast<Address>(code_.size()); }

  // Both ways lead to the next instruction until they are set.
  Address add_split() {
    const Address at = add({.op = Op::split, .min = splits_++});
    code_[at].first = code_[at].second = at + 1;
    return at;
  }
  void leave_to(Address split, bool is_lazy, Address target) {
    (is_lazy ? code_[split].first : code_[split].second) = target;
  }

  void write(NodeId id) {
    const Node& node = syntax_.nodes[id];
    if (!budget_.step()) return;
    switch (node.kind) {
      case Node::Kind::set:
        add({.op = Op::set, .set = node.set});
        return;
      case Node::Kind::sequence:
        for (const NodeId part : node.parts) write(part);
        return;
      case Node::Kind::choice:
        return write_choice(node);
      case Node::Kind::repeat:
        return write_repeat(node);
      case Node::Kind::begin:
        add({.op = Op::begin});
        return;
      case Node::Kind::end:
        add({.op = Op::end});
        return;
      case Node::Kind::atomic:
        return write_alone(node, Op::atomic);
      case Node::Kind::look:
        if (!node.is_behind) return write_alone(node, Op::ahead);
        const Node& part = syntax_.nodes[node.parts.front()];
        is_unsupported_ |= part.kind != Node::Kind::set;
        add({.op = Op::behind, .is_negative = node.is_negative, .set = part.set});
        return;
    }
  }

  // a|b|c: split to a or on; a, jump to the end; split to b or on; b, jump to the end; c.
  void write_choice(const Node& node) {
    std::vector<Address> jumps;
    for (std::size_t i = 0; i + 1 < node.parts.size() && !budget_.is_spent(); ++i) {
      const Address split = add_split();
      write(node.parts[i]);
      jumps.push_back(add({.op = Op::jump}));
      code_[split].second = here();
    }
    write(node.parts.back());
    for (const Address jump : jumps) code_[jump].first = here();
  }

  // x{2,4} is x x, and then two splits before further copies; x* is a split, x and a jump back. A
  // greedy split tries the copy first, a lazy one what comes after. A run of one set, which most
  // patterns of tokenizers are made of, is one instruction.
  void write_repeat(const Node& node) {
    const NodeId part = node.parts.front();
    if (syntax_.nodes[part].kind == Node::Kind::set && !node.is_lazy) {
      add({.op = Op::run, .set = syntax_.nodes[part].set, .min = node.min, .max = node.max});
      return;
    }
    for (std::uint32_t i = 0; i < node.min; ++i) {
      const Address before = here();
      write(part);
      // A part that writes nothing need not be written a million times.
      if (here() == before) break;
    }
    if (node.max == Syntax::kUnbounded) {
      const Address split = add_split();
      write(part);
      add({.op = Op::jump, .first = split});
      leave_to(split, node.is_lazy, here());
      return;
    }
    std::vector<Address> splits;
    for (std::uint32_t i = node.min; i < node.max && !budget_.is_spent(); ++i) {
      splits.push_back(add_split());
      write(part);
    }
    for (const Address split : splits) leave_to(split, node.is_lazy, here());
  }

  void write_alone(const Node& node, Op op) {
    const Address at = add({.op = op, .is_negative = node.is_negative});
    write(node.parts.front());
    add({.op = Op::match});
    code_[at].first = here();
  }

  const Syntax& syntax_;
  std::vector<Instruction>& code_;
  Budget& budget_;
  std::uint32_t splits_ = 0;
  bool is_unsupported_ = false;
};

// The search in one text, from its beginning to its end.
class Search {
 public:
  Search(std::span<const Instruction> code, std::span<const CharacterSet> sets,
         std::uint32_t splits, std::string_view text, Budget& budget)
      : code_(code), sets_(sets), splits_(splits), text_(text), budget_(budget) {}

  // The end of the match that begins at `start`.
  std::optional<std::size_t> match_at(std::size_t start) {
    start_ = start;
    const std::optional<std::size_t> end = run(0, start);
    // The bits count places from `start`, so they say nothing about the next start.
    forget(0);
    return end;
  }

  // The place behind one character, or behind one byte that is no part of a character.
  std::size_t after(std::size_t at) const {
    return at + std::max<std::size_t>(1, utf8::decode(text_.substr(at)).length);
  }

 private:
  // A choice that is still to be tried: from `at` on, and then one character less, down to `least`.
  struct Choice {
    std::uint32_t address;
    std::size_t at;
    std::size_t least;
  };

  struct Character {
    char32_t code_point;
    std::size_t length;
  };
  // Bytes that are no UTF-8 are read as U+FFFD, one by one, so any text can be split.
  Character character_at(std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {byte, 1};
    const utf8::Decoded decoded = utf8::decode(text_.substr(at));
    if (decoded.length == 0) return {0xFFFD, 1};
    return {decoded.code_point, decoded.length};
  }
  // The beginning of the character that ends at `at`.
  std::size_t before(std::size_t at) const {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text_[begin]) & 0xC0) == 0x80) --begin;
    return begin + character_at(begin).length == at ? begin : at - 1;
  }

  // The end of the first way from `address` to a match; nothing if there is no way. Ways that were
  // not tried are dropped.
  std::optional<std::size_t> run(std::uint32_t address, std::size_t at) {
    // Looks and atomic groups call run() within a run: choices and marks below these belong to the
    // outer one.
    const std::size_t choices = choices_.size();
    const std::size_t visits = visits_.size();
    while (budget_.step()) {
      const bool goes_on = step(address, at);
      if (goes_on && code_[address].op == Op::match) {
        choices_.resize(choices);
        forget(visits);
        return at;
      }
      if (goes_on) continue;
      if (choices_.size() == choices) break;
      take_choice(address, at);
    }
    return std::nullopt;
  }

  // Executes one instruction; false if the text does not fit. Stays at `match`.
  bool step(std::uint32_t& address, std::size_t& at) {
    const Instruction& instruction = code_[address];
    switch (instruction.op) {
      case Op::match:
        return true;
      case Op::set: {
        if (at == text_.size()) return false;
        const Character character = character_at(at);
        if (!sets_[instruction.set].contains(character.code_point)) return false;
        at += character.length;
        break;
      }
      case Op::run:
        if (!step_run(instruction, address + 1, at)) return false;
        break;
      case Op::split:
        // `min` is the number of the split.
        if (!visit(instruction.min, at)) return false;
        choices_.push_back({instruction.second, at, at});
        address = instruction.first;
        return true;
      case Op::jump:
        address = instruction.first;
        return true;
      case Op::begin:
        if (at != 0) return false;
        break;
      case Op::end:
        if (at != text_.size()) return false;
        break;
      case Op::behind: {
        const bool is_there =
            at > 0 && sets_[instruction.set].contains(character_at(before(at)).code_point);
        if (is_there == instruction.is_negative) return false;
        break;
      }
      case Op::ahead:
      case Op::atomic: {
        const std::optional<std::size_t> end = run(address + 1, at);
        if (end.has_value() == instruction.is_negative) return false;
        if (instruction.op == Op::atomic) at = end.value_or(at);
        address = instruction.first;
        return true;
      }
    }
    ++address;
    return true;
  }

  // Takes all characters that it can. Giving them back one by one is a single Choice with a range
  // of places, so a run of a million spaces needs no memory for each.
  bool step_run(const Instruction& run, std::uint32_t next, std::size_t& at) {
    const CharacterSet& set = sets_[run.set];
    std::size_t least = at;
    std::uint32_t count = 0;
    for (; count < run.max && at < text_.size() && budget_.step(); ++count) {
      const Character character = character_at(at);
      if (!set.contains(character.code_point)) break;
      at += character.length;
      if (count < run.min) least = at;
    }
    if (count < run.min) return false;
    if (at > least) choices_.push_back({next, before(at), least});
    return true;
  }

  // Goes back to the latest choice, and takes it off the list with its last place.
  void take_choice(std::uint32_t& address, std::size_t& at) {
    Choice& choice = choices_.back();
    address = choice.address;
    at = choice.at;
    if (choice.at == choice.least) {
      choices_.pop_back();
    } else {
      choice.at = before(choice.at);
    }
  }

  // Marks `split` as tried at this place; false if it was tried before.
  bool visit(std::uint32_t split, std::size_t at) {
    const std::size_t bit = (at - start_) * splits_ + split;
    if (bit / 64 >= visited_.size()) {
      const std::size_t size = std::max<std::size_t>(bit / 64 + 1, 2 * visited_.size());
      if (!budget_.take_bytes((size - visited_.size()) * 8)) return false;
      visited_.resize(size);
    }
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    if ((visited_[bit / 64] & mask) != 0) return false;
    visited_[bit / 64] |= mask;
    visits_.push_back(bit);
    return true;
  }
  // Clears bit by bit: the bits that are set are few, and the vector may be as long as the text.
  void forget(std::size_t visits) {
    for (std::size_t i = visits; i < visits_.size(); ++i) {
      visited_[visits_[i] / 64] &= ~(std::uint64_t{1} << (visits_[i] % 64));
    }
    visits_.resize(visits);
  }

  std::span<const Instruction> code_;
  std::span<const CharacterSet> sets_;
  std::uint32_t splits_;
  std::string_view text_;
  Budget& budget_;
  std::size_t start_ = 0;
  std::vector<Choice> choices_;
  std::vector<std::uint64_t> visited_;  // bit (place - start_) * splits_ + split
  std::vector<std::size_t> visits_;     // its bits that are set
};

}  // namespace

Splitter::Splitter(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Splitter::~Splitter() = default;

Expected<std::shared_ptr<const Splitter>> Splitter::compile(std::string_view pattern,
                                                            Dialect dialect, const Limits& limits) {
  Limits compile_limits = limits;
  compile_limits.max_steps = std::min(limits.max_steps, kMaxSteps);
  compile_limits.max_bytes = std::min(limits.max_bytes, kMaxBytes);
  Budget budget("pattern", compile_limits);
  Expected<Syntax> syntax = parse(pattern, dialect, budget);
  if (!syntax) return Unexpected(syntax.error());

  auto program = std::make_unique<Program>();
  Compiler compiler(*syntax, program->code, budget);
  if (Status status = compiler.compile(); !status) return Unexpected(status.error());
  program->splits = compiler.splits();
  for (CodePointSet& set : syntax->sets) program->sets.emplace_back(std::move(set));
  program->limits = {.max_steps = limits.max_steps, .max_bytes = limits.max_bytes};
  return std::shared_ptr<const Splitter>(new Splitter(std::move(program)));
}

Status Splitter::find_all(std::string_view utf8, std::vector<Piece>& pieces) const {
  Limits limits = program_->limits;
  limits.max_steps =
      std::min(limits.max_steps, kMaxStepsPerByte * (std::uint64_t{utf8.size()} + 1000));
  // One budget for the whole text: no pattern can make the cost grow with the square of its length.
  Budget budget("splitting a text", limits);
  Search search(program_->code, program_->sets, program_->splits, utf8, budget);
  for (std::size_t at = 0; at < utf8.size();) {
    const std::optional<std::size_t> end = search.match_at(at);
    if (budget.is_spent()) return Unexpected(budget.error());
    if (end && *end > at) {
      pieces.push_back({at, *end});
      at = *end;
    } else {
      at = search.after(at);
    }
  }
  return {};
}

}  // namespace tenon::regex
