// Makes frames from a grammar that is data, in passes over its nodes:
//
// 1. Rules that end with themselves become repetitions (right_recursion.h). Then regular nodes
//    become lexemes, as large as possible: one automaton instead of many frames, whose token masks
//    are shared by all places where it is read. A sequence of several nodes that have many states
//    each is read one node at a time.
// 2. A text that must not contain certain stops, and is not regular, is split into parts. Each part
//    knows how much of a stop has come before it and how much comes after it, because a stop may
//    begin in one lexeme and end in another. See Y. Bar-Hillel, M. Perles, E. Shamir, On formal
//    properties of simple phrase structure grammars, 1961.
// 3. The pass finds which nodes can be empty and which can be read at all. The others are left out,
//    so that no way of reading leads to a place without an end.
// 4. Rules that begin with themselves, which the machine would enter forever, are rewritten by the
//    left-corner transform. For the rules A_1 ... A_n of a cycle let A_i be the choice of B_i,
//    texts that do not begin with one of these rules, and of A_j C for each pair (j, C) in P_i.
//    Then
//
//        A_i = B_1 T_1i | ... | B_n T_ni
//        T_ji = (empty, if j = i) | C T_ki for each (j, C) in P_k
//
//    where T_ji is what may follow an A_j to make an A_i of it. See M. Johnson, B. Roark, Compact
//    non-left-recursive grammars using the selective left-corner transform, COLING 2000. The
//    transform needs readings that are not empty; rules that can be empty are split first.

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tenon/grammar/machine/frames.h"
#include "tenon/grammar/machine/regex_scanner.h"
#include "tenon/grammar/rules/add_rules_parts.h"
#include "tenon/grammar/rules/cycles.h"
#include "tenon/grammar/rules/right_recursion.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/grammar/rules/spell.h"
#include "tenon/regex/language.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

namespace tenon::grammar {

namespace adding {

namespace {

constexpr std::uint32_t kNever = ~std::uint32_t{0};
// Derivatives of nested expressions need stack; deeper nodes are read by frames.
constexpr std::uint32_t kMaxLexemeHeight = 200;
// Rules that double each other are small as rules, but large as an expression.
constexpr std::uint64_t kMaxLexemeSize = 65'536;
// The left-corner transform multiplies rules; see is_too_large().
constexpr std::size_t kMaxItems = 2'000'000;

// Makes one callable of several lambdas, one for each kind of node, for std::visit.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

// The least set of numbers below `count` that contains every number for which at least needed(i)
// parts are in the set. for_each_part(i, f) calls f with the parts. enter(i) is called when enough
// parts are in the set, and may still refuse.
template <class ForEachPart, class Needed, class Enter>
void close(std::size_t count, ForEachPart for_each_part, Needed needed, Enter enter) {
  std::vector<std::uint32_t> first(count + 1, 0);  // the users of each part
  for (std::uint32_t i = 0; i < count; ++i) {
    for_each_part(i, [&](std::uint32_t part) { ++first[part + 1]; });
  }
  for (std::size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  std::vector<std::uint32_t> users(first[count]);
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  std::vector<std::uint32_t> missing(count);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < count; ++i) {
    for_each_part(i, [&](std::uint32_t part) { users[next[part]++] = i; });
    missing[i] = needed(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const std::uint32_t i = ready.back();
    ready.pop_back();
    if (!enter(i)) continue;
    for (std::uint32_t at = first[i]; at < first[i + 1]; ++at) {
      const std::uint32_t user = users[at];
      if (missing[user] == 0 || missing[user] == kNever) continue;
      --missing[user];
      if (missing[user] == 0) ready.push_back(user);
    }
  }
}

// Local: how many bytes of the first part have been read.
class LaterFrame final : public Frame {
 public:
  LaterFrame(node::Later later, const vocab::Vocab& vocab)
      : later_(std::move(later)), vocab_(vocab) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, 0, parent);
  }
  [[nodiscard]] regex::ByteSet readable(const Cell& cell) const override {
    return regex::ByteSet::of(static_cast<std::uint8_t>(later_.first[cell.local]));
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t) override {
    if (cell.local + 1 < later_.first.size()) {
      return machine.wait(cell.frame, cell.local + 1, cell.parent);
    }
    const Expected<FrameId>& rest = this->rest(machine);
    if (rest) {
      machine.enter(*rest, cell.parent);
    } else if (rest.error().code != Errc::unsatisfiable) {
      machine.fail(rest.error());
    }
  }
  // A search for an end asks for this; it fails if the frame then needs more bytes than it was
  // told.
  std::uint32_t least(Machine& machine) override { return left_behind(machine, 0); }
  std::uint32_t left(Machine& machine, const Cell& cell) override {
    return left_behind(machine, cell.local);
  }

 private:
  std::uint32_t left_behind(Machine& machine, std::size_t read) {
    const Expected<FrameId>& rest = this->rest(machine);
    const auto first = static_cast<std::uint32_t>(later_.first.size() - read);
    return rest ? std::min(first + machine.least(*rest), Machine::kFar) : Machine::kFar;
  }
  const Expected<FrameId>& rest(Machine& machine) {
    if (!rest_) rest_ = made(machine);
    return *rest_;
  }
  Expected<FrameId> made(Machine& machine) const {
    const auto rules = later_.make();
    if (!rules) return Unexpected(rules.error());
    return add_rules(machine, **rules, vocab_);
  }

  node::Later later_;
  const vocab::Vocab& vocab_;  // kept alive by the owner of the machine
  std::optional<Expected<FrameId>> rest_;
};

// How many parts must be readable (or able to be empty) for the item to be so.
std::uint32_t parts_needed(const Item& item) {
  switch (item.kind) {
    case Item::Kind::sequence:
      return static_cast<std::uint32_t>(item.parts.size());
    case Item::Kind::repeat:
      return item.min == 0 ? 0 : 1;
    case Item::Kind::choice:
      return item.parts.empty() ? kNever : 1;
    default:
      return 1;  // the rule's body decides
  }
}

}  // namespace

template <class F>
void Adder::for_each_part(const Node& node, F f) const {
  const auto each = [&](const std::vector<NodeId>& parts) {
    for (const NodeId part : parts) f(part);
  };
  std::visit(Overloaded{
                 [&](const node::Sequence& n) { each(n.parts); },
                 [&](const node::Choice& n) { each(n.parts); },
                 [&](const node::Both& n) { each(n.parts); },
                 [&](const node::Repeat& n) { f(n.part); },
                 [&](const node::Lexeme& n) { f(n.part); },
                 [&](const node::Complement& n) { f(n.part); },
                 [&](const node::Tokens& n) { f(n.part); },
                 [&](const node::Rule& n) { f(*rules_.rule(n.rule).body); },
                 [](const auto&) {},
             },
             node);
}

template <class F>
void Adder::for_each_part(const Item& item, F f) const {
  for (const ItemId part : item.parts) f(part);
  if (item.kind == Item::Kind::rule) f(bodies_[item.what]);
}

// The order matters: items are made from languages; what can be empty must be known before
// non-empty readings are made, and those before the left corners. What can be read is found twice,
// because the first pass needs it and the rewritten rules are new.
Expected<FrameId> Adder::add() {
  find_reachable();
  find_languages();
  if (const Status status = exprs_->status(); !status) return Unexpected(status.error());
  if (error_) return Unexpected(*error_);
  if (const Status checked = check_terminals(); !checked) return Unexpected(checked.error());
  find_read();
  make_items();
  leave_out_stops();
  if (error_) return Unexpected(*error_);
  find_what_can_be_empty();
  make_non_empty();
  find_what_can_be_read();
  remove_left_recursion();
  if (error_) return Unexpected(*error_);
  find_what_can_be_read();
  const ItemId root = kFirstNode + rules_.root();
  // After a limit every expression looks as if it could not be read.
  if (const Status status = exprs_->status(); !status) return Unexpected(status.error());
  if (machine_.error()) return Unexpected(*machine_.error());
  // A schema without a value explains more than the general sentence.
  if (!items_[root].can_be_read) {
    if (unsatisfiable_) return Unexpected(*unsatisfiable_);
    return Unexpected(Error{Errc::unsatisfiable, "nothing at all fits the grammar"});
  }
  frames_.resize(items_.size());
  const FrameId frame = frame_of(root);
  // By a list and not by recursion: rules may refer to each other in chains of any length.
  while (!frames_to_set_.empty() && !error_) {
    const ItemId item = frames_to_set_.back();
    frames_to_set_.pop_back();
    set_frame(item);
  }
  if (error_) return Unexpected(*error_);
  return frame;
}

void Adder::find_reachable() {
  is_reachable_.resize(rules_.node_count());
  std::vector<NodeId> todo{rules_.root()};
  is_reachable_[rules_.root()] = true;
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    for_each_part(rules_.node(id), [&](NodeId part) {
      if (is_reachable_[part]) return;
      is_reachable_[part] = true;
      todo.push_back(part);
    });
  }
}

// Finds the nodes that are read by themselves, not only as parts of a lexeme.
void Adder::find_read() {
  is_read_.resize(rules_.node_count());
  std::vector<NodeId> todo{rules_.root()};
  is_read_[rules_.root()] = true;
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    // Its parts are inside its automaton.
    if (languages_[id] && !languages_[id]->is_read_apart) continue;
    for_each_part(rules_.node(id), [&](NodeId part) {
      if (is_read_[part]) return;
      is_read_[part] = true;
      todo.push_back(part);
    });
  }
}

// ---- 1. Lexemes ---------------------------------------------------------------------------------

// A rule that contains itself never has all its parts, so it gets no language.
void Adder::find_languages() {
  exprs_->set_text(characters());
  languages_.resize(rules_.node_count());
  const auto parts = [&](NodeId id, auto f) {
    if (is_reachable_[id]) for_each_part(rules_.node(id), f);
  };
  const auto needed = [&](NodeId id) -> std::uint32_t {
    const Node& node = rules_.node(id);
    // Whole tokens, JSON and what is made later have no language of bytes, so nothing above them
    // has one.
    if (!is_reachable_[id] || std::holds_alternative<node::Token>(node) ||
        std::holds_alternative<node::Tokens>(node) || std::holds_alternative<node::Json>(node) ||
        std::holds_alternative<node::Later>(node)) {
      return kNever;
    }
    std::uint32_t count = 0;
    for_each_part(node, [&](NodeId) { ++count; });
    return count;
  };
  const auto enter = [&](NodeId id) {
    if (!error_ && exprs_->status()) languages_[id] = language_of(rules_.node(id));
    return languages_[id].has_value();
  };
  close(rules_.node_count(), parts, needed, enter);
}

std::optional<Adder::Language> Adder::language_of(const Node& node) {
  Language language;
  if (const auto* literal = std::get_if<node::Literal>(&node)) {
    language.size = literal->bytes.size();
  } else {
    std::size_t part_count = 0;
    std::uint64_t largest = 0;
    for_each_part(node, [&](NodeId part) {
      ++part_count;
      language.height = std::max(language.height, languages_[part]->height);
      language.size += languages_[part]->size;
      largest = std::max(largest, languages_[part]->size);
    });
    language.size += part_count;
    // Many small parts were written one by one, so they cannot double each other.
    const bool is_wide = largest <= kMaxLexemeSize / 64;
    if (language.size > kMaxLexemeSize && !(is_wide && language.size <= 64 * kMaxLexemeSize)) {
      return std::nullopt;
    }
    // A rule adds nothing to the expression of its body.
    if (part_count > 0 && !std::holds_alternative<node::Rule>(node)) ++language.height;
    if (language.height > kMaxLexemeHeight) return std::nullopt;
  }
  // A literal gets its expression where it is part of another one; by itself it needs none.
  if (!std::holds_alternative<node::Literal>(node)) language.expr = expr_of(node);
  count_states(node, language);
  return language;
}

// The automaton of a sequence has the states of all its parts, and many more if one of them may end
// at many places. To know whether it can end, all of it is visited, within the limits that it
// shares with others.
void Adder::count_states(const Node& node, Language& language) const {
  constexpr std::uint64_t kMany = 64;
  constexpr std::uint64_t kMost = 1'000'000;
  language.states = 1;
  std::size_t large_parts = 0;
  for_each_part(node, [&](NodeId part) {
    const Language& of = *languages_[part];
    language.states = std::min(language.states + of.states, kMost);
    large_parts += of.states >= kMany ? 1 : 0;
    language.is_read_apart = language.is_read_apart || of.is_read_apart;
  });
  if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
    const std::uint64_t times = repeat->max == node::kUnbounded ? repeat->min : repeat->max;
    language.states = std::min(language.states * std::max<std::uint64_t>(times, 1), kMost);
  } else if (const auto* literal = std::get_if<node::Literal>(&node)) {
    language.states = std::min<std::uint64_t>(literal->bytes.size(), kMost);
  } else if (std::holds_alternative<node::Sequence>(node)) {
    language.is_read_apart = language.is_read_apart || large_parts > 1;
  } else if (std::holds_alternative<node::Lexeme>(node) ||
             std::holds_alternative<node::Both>(node) ||
             std::holds_alternative<node::Complement>(node)) {
    language.is_read_apart = false;
  }
}

Expr Adder::expr_of(const Node& node) {
  const auto of = [&](NodeId part) {
    const auto* literal = std::get_if<node::Literal>(&rules_.node(part));
    return literal != nullptr ? exprs_->literal(literal->bytes) : languages_[part]->expr;
  };
  const auto all = [&](const std::vector<NodeId>& parts) {
    std::vector<Expr> exprs;
    exprs.reserve(parts.size());
    for (const NodeId part : parts) exprs.push_back(of(part));
    return exprs;
  };
  return std::visit(
      Overloaded{
          [](const node::Literal&) { return ExprSet::kNothing; },
          [&](const node::Characters& n) { return regex::utf8_spelling(*exprs_, n.set); },
          [&](const node::Bytes& n) { return exprs_->bytes(n.set); },
          [&](const node::Sequence& n) { return regex::concat_all(*exprs_, all(n.parts)); },
          [&](const node::Choice& n) { return exprs_->any_of(all(n.parts)); },
          [&](const node::Repeat& n) {
            return n.min <= n.max ? exprs_->repeat(of(n.part), n.min, n.max) : ExprSet::kNothing;
          },
          [&](const node::Rule& n) { return of(*rules_.rule(n.rule).body); },
          [&](const node::Pattern& n) { return expr_of_pattern(n); },
          [&](const node::Lexeme& n) { return of(n.part); },
          [&](const node::Both& n) { return exprs_->all_of(all(n.parts)); },
          [&](const node::Complement& n) {
            return exprs_->both(characters(), exprs_->complement(of(n.part)));
          },
          [&](const node::Text& n) {
            std::vector<Expr> stops;
            stops.reserve(n.stops.size());
            for (const std::string& stop : n.stops) stops.push_back(exprs_->literal(stop));
            const Expr found = exprs_->concat(
                ExprSet::kAnything, exprs_->concat(exprs_->any_of(stops), ExprSet::kAnything));
            return exprs_->both(characters(), exprs_->complement(found));
          },
          [](const node::Token&) { return ExprSet::kNothing; },
          [](const node::Tokens&) { return ExprSet::kNothing; },
          [](const node::Json&) { return ExprSet::kNothing; },
          [](const node::Forms&) { return ExprSet::kNothing; },
          [](const node::Later&) { return ExprSet::kNothing; },
      },
      node);
}

// Remembered, because a grammar of many tools has the same small patterns for each of them.
Expr Adder::expr_of_pattern(const node::Pattern& pattern) {
  const auto [known, is_new] = exprs_of_patterns_.try_emplace(
      {pattern.source, pattern.dialect, pattern.in_json}, ExprSet::kNothing);
  if (is_new) known->second = new_expr_of_pattern(pattern);
  return known->second;
}

Expr Adder::new_expr_of_pattern(const node::Pattern& pattern) {
  Budget budget("pattern", kExprLimits);
  const auto syntax = regex::parse(pattern.source, pattern.dialect, budget);
  if (!syntax) {
    fail(syntax.error());
    return ExprSet::kNothing;
  }
  const regex::Spelling spelling = pattern.in_json ? json_spelling : regex::utf8_spelling;
  const auto language = regex::language_of(*exprs_, *syntax, regex::Extent::whole, spelling);
  if (!language) {
    fail(language.error());
    return ExprSet::kNothing;
  }
  if (!syntax->nodes[syntax->root].has_position) return *language;
  // Looks are complements, which hold arbitrary bytes.
  const Expr character = spelling(*exprs_, CodePointSet::all());
  return exprs_->both(exprs_->repeat(character, 0, ExprSet::kUnbounded), *language);
}

Status Adder::check_terminals() const {
  for (NodeId id = 0; id < rules_.node_count(); ++id) {
    const Node& node = rules_.node(id);
    if (!is_reachable_[id] || languages_[id]) continue;
    const auto* const both = std::get_if<node::Both>(&node);
    const auto* const tokens = std::get_if<node::Tokens>(&node);
    if (tokens != nullptr && !languages_[tokens->part]) {
      return Unexpected(Error{Errc::unsupported,
                              "what max_tokens limits must be regular and small: no rule that "
                              "contains itself, no special token, no JSON schema"});
    }
    if ((both != nullptr && !is_text_of_rules(*both)) ||
        std::holds_alternative<node::Complement>(node)) {
      return Unexpected(Error{Errc::unsupported,
                              "what is read under & or ~, or lazily, must be regular and small: no "
                              "rule that contains itself, no special token, no JSON schema"});
    }
  }
  return {};
}

// ---- Items --------------------------------------------------------------------------------------

ItemId Adder::add_item(Item item) {
  items_.push_back(std::move(item));
  return static_cast<ItemId>(items_.size() - 1);
}

ItemId Adder::sequence(std::vector<ItemId> parts) {
  std::erase(parts, kEmpty);
  if (parts.empty()) return kEmpty;
  if (parts.size() == 1) return parts[0];
  return add_item({.kind = Item::Kind::sequence, .parts = std::move(parts)});
}

ItemId Adder::choice(std::vector<ItemId> parts) {
  if (parts.size() == 1) return parts[0];
  return add_item({.kind = Item::Kind::choice, .parts = std::move(parts)});
}

ItemId Adder::rule_item(RuleId rule) {
  return add_item({.kind = Item::Kind::rule, .what = rule});
}

RuleId Adder::add_rule() {
  bodies_.push_back(kNothing);
  return static_cast<RuleId>(bodies_.size() - 1);
}

// The items of nodes have the numbers of the nodes plus kFirstNode. The first two are kNothing, a
// choice without parts, and kEmpty, a sequence without parts.
void Adder::make_items() {
  items_.reserve(kFirstNode + rules_.node_count());
  items_.push_back({.kind = Item::Kind::choice});
  items_.push_back({.kind = Item::Kind::sequence});
  for (NodeId id = 0; id < rules_.node_count(); ++id) items_.push_back(item_of(id));
  for (RuleId rule = 0; rule < rules_.rule_count(); ++rule) {
    bodies_.push_back(kFirstNode + *rules_.rule(rule).body);
  }
  for (NodeId id = 0; id < rules_.node_count(); ++id) join_repetitions(id);
}

// x{1,3} x{2} is x{3,5}. Read apart, a text would have as many readings as there are ways to share
// the copies out, and each of them would be another place in an automaton.
void Adder::join_repetitions(NodeId id) {
  const auto* sequence = std::get_if<node::Sequence>(&rules_.node(id));
  if (sequence == nullptr || items_[kFirstNode + id].kind != Item::Kind::sequence) return;
  constexpr std::uint64_t kMost = node::kUnbounded;
  std::vector<ItemId> parts;
  std::optional<ExprSet::Counts> last;  // of what parts.back() repeats, if it is a lexeme
  Expr repeated = ExprSet::kNothing;
  for (const NodeId part : sequence->parts) {
    const std::optional<Expr> expr = expr_of_lexeme(part);
    const Expr before = std::exchange(repeated, expr ? expr_repeated_by(part) : ExprSet::kNothing);
    const auto counts = expr ? exprs_->as_repetition_of(repeated, *expr) : std::nullopt;
    if (!last || !counts || repeated != before) {
      parts.push_back(kFirstNode + part);
      last = counts;
      continue;
    }
    const std::uint64_t min = std::uint64_t{last->min} + counts->min;
    const std::uint64_t max = std::uint64_t{last->max} + counts->max;
    last = ExprSet::Counts{static_cast<std::uint32_t>(std::min(min, kMost - 1)),
                           static_cast<std::uint32_t>(std::min(max, kMost))};
    const Expr both = exprs_->repeat(repeated, last->min, last->max);
    parts.back() = add_item(
        {.kind = Item::Kind::lexeme, .can_be_empty = exprs_->is_nullable(both), .what = both});
  }
  items_[kFirstNode + id].parts = std::move(parts);
}

// Nothing: it is not read as a lexeme, or in its own way.
std::optional<Expr> Adder::expr_of_lexeme(NodeId id) const {
  const auto& language = languages_[id];
  const Item& item = items_[kFirstNode + id];
  if (!language || language->is_read_apart || item.kind != Item::Kind::lexeme || item.is_covered) {
    return std::nullopt;
  }
  return language->expr;
}

// The expression itself, if the node is no repetition. A repetition of repetitions repeats what the
// inner one repeats.
Expr Adder::expr_repeated_by(NodeId id) const {
  while (true) {  // a rule with a language does not contain itself
    if (const auto* rule = std::get_if<node::Rule>(&rules_.node(id))) {
      id = *rules_.rule(rule->rule).body;
    } else if (const auto* repeat = std::get_if<node::Repeat>(&rules_.node(id))) {
      id = repeat->part;
    } else {
      return languages_[id]->expr;
    }
  }
}

// What a node becomes: a lexeme if it has a language, a leaf if a frame reads it as a whole, else
// the structure of its parts.
Item Adder::item_of(NodeId id) {
  if (!is_reachable_[id]) return {};
  const Node& node = rules_.node(id);
  if (const auto& language = languages_[id]; language && !language->is_read_apart) {
    // Literals need no automaton.
    if (const auto* literal = std::get_if<node::Literal>(&node)) {
      return {.kind = Item::Kind::leaf,
              .can_be_empty = literal->bytes.empty(),
              .can_be_read = true,
              .what = id};
    }
    const auto* lexeme = std::get_if<node::Lexeme>(&node);
    return {.kind = Item::Kind::lexeme,
            .can_be_empty = exprs_->is_nullable(language->expr),
            .is_covered = lexeme != nullptr && lexeme->is_covered,
            .what = language->expr};
  }
  const auto items = [](const std::vector<NodeId>& parts) {
    std::vector<ItemId> list;
    list.reserve(parts.size());
    for (const NodeId part : parts) list.push_back(kFirstNode + part);
    return list;
  };
  using Kind = Item::Kind;
  return std::visit(
      Overloaded{
          [&](const node::Sequence& n) {
            return Item{.kind = Kind::sequence, .parts = items(n.parts)};
          },
          [&](const node::Choice& n) {
            return Item{.kind = Kind::choice, .parts = items(n.parts)};
          },
          [&](const node::Repeat& n) {
            if (n.max < n.min) return Item{};
            return Item{.kind = Kind::repeat, .min = n.min, .max = n.max, .parts = items({n.part})};
          },
          [&](const node::Rule& n) { return Item{.kind = Kind::rule, .what = n.rule}; },
          [&](const node::Lexeme& n) {
            return Item{.kind = Kind::sequence, .parts = items({n.part})};
          },
          [&](const node::Token& n) {
            const bool has_any = n.is_negated || !n.names.empty() || !n.ids.empty();
            return Item{.kind = Kind::leaf, .can_be_read = has_any, .what = id};
          },
          [&](const node::Tokens& n) {
            return Item{.kind = Kind::leaf, .can_be_read = has_text(text_of_tokens(n)), .what = id};
          },
          [&](const node::Json& n) { return json_item(id, n); },
          [&](const node::Both&) {
            // The rule gets its body in the second pass; leave_out_stops() adds the rules in this
            // order, so that their numbers are these.
            texts_.emplace_back(static_cast<RuleId>(rules_.rule_count() + texts_.size()), id);
            return Item{.kind = Kind::rule, .what = texts_.back().first};
          },
          [&](const auto&) { return Item{.kind = Kind::leaf, .can_be_read = true, .what = id}; },
      },
      node);
}

// A schema that no value fits cannot be read. That is an error only if nothing else can be read.
Item Adder::json_item(NodeId id, const node::Json& json) {
  if (error_) return {};
  if (json.may_wait) {
    json_frames_.emplace(id, add_known_json(machine_, json.schema, json.options));
    return {.kind = Item::Kind::leaf, .can_be_read = true, .what = id};
  }
  const auto frame = add_json(machine_, json.schema, json.options, relaxed_);
  if (frame) {
    json_frames_.emplace(id, *frame);
  } else if (frame.error().code == Errc::unsatisfiable) {
    if (!unsatisfiable_) unsatisfiable_ = frame.error();
  } else {
    fail(frame.error());
  }
  return {.kind = Item::Kind::leaf, .can_be_read = frame.has_value(), .what = id};
}

// ---- 2. Texts without stops ---------------------------------------------------------------------

// True if one part is made of rules and the others are free text.
bool Adder::is_text_of_rules(const node::Both& both) const {
  std::size_t count = 0;
  for (const NodeId part : both.parts) {
    if (!languages_[part]) {
      ++count;
    } else if (!std::holds_alternative<node::Text>(rules_.node(part))) {
      return false;
    }
  }
  return count == 1;
}

// ---- 3. What can be empty, what can be read -----------------------------------------------------

void Adder::find_what_can_be_empty() {
  const auto parts = [&](ItemId id, auto f) { for_each_part(items_[id], f); };
  const auto needed = [&](ItemId id) -> std::uint32_t {
    const Item& item = items_[id];
    if (item.kind == Item::Kind::lexeme || item.kind == Item::Kind::leaf) {
      return item.can_be_empty ? 0 : kNever;
    }
    return parts_needed(item);
  };
  close(items_.size(), parts, needed, [&](ItemId id) { return items_[id].can_be_empty = true; });
}

// For every node that can be empty, makes the same node without the empty text.
void Adder::make_non_empty() {
  non_empty_of_.resize(bodies_.size());
  for (RuleId rule = 0; rule < bodies_.size(); ++rule) base_.push_back(rule);
  const auto count = static_cast<ItemId>(items_.size());
  non_empty_.resize(count, kNothing);
  for (ItemId id = 0; id < count; ++id) non_empty_[id] = non_empty(id);
  for (RuleId rule = 0; rule < non_empty_of_.size(); ++rule) {
    if (non_empty_of_[rule]) bodies_[*non_empty_of_[rule]] = non_empty_[bodies_[rule]];
  }
}

// The item that has the texts of `id` except the empty one; `id` itself if it cannot be empty.
// Parts come before what they are in, so their results are known; a rule gets a second rule, whose
// body is set when all items are done.
ItemId Adder::non_empty(ItemId id) {
  // A repetition of a part that can be empty would repeat without reading anything.
  if (items_[id].kind == Item::Kind::repeat && items_[items_[id].parts[0]].can_be_empty) {
    items_[id].parts[0] = non_empty_[items_[id].parts[0]];
    items_[id].min = 0;
  }
  const Item item = items_[id];  // a copy: items_ grows
  if (!item.can_be_empty) return id;
  switch (item.kind) {
    case Item::Kind::lexeme:
      return add_item({.kind = Item::Kind::lexeme,
                       .is_covered = item.is_covered,
                       .what = exprs_->non_empty(item.what)});
    case Item::Kind::leaf:
      return kNothing;
    case Item::Kind::sequence:
      return non_empty_sequence(item.parts);
    case Item::Kind::choice: {
      std::vector<ItemId> parts;
      parts.reserve(item.parts.size());
      for (const ItemId part : item.parts) parts.push_back(non_empty_[part]);
      return choice(std::move(parts));
    }
    case Item::Kind::repeat:
      if (item.max == 0) return kNothing;
      return add_item({.kind = Item::Kind::repeat, .min = 1, .max = item.max, .parts = item.parts});
    case Item::Kind::rule: {
      auto& rule = non_empty_of_[item.what];
      if (!rule) {
        rule = add_rule();
        base_.push_back(item.what);
      }
      return rule_item(*rule);
    }
  }
  return kNothing;
}

// The first part that is not empty, and everything after it.
ItemId Adder::non_empty_sequence(const std::vector<ItemId>& parts) {
  ItemId rest = kEmpty;      // after part i
  ItemId result = kNothing;  // from part i on
  for (std::size_t i = parts.size(); i-- > 0;) {
    const ItemId here = sequence({non_empty_[parts[i]], rest});
    result = result == kNothing ? here : choice({here, result});
    rest = sequence({parts[i], rest});
  }
  return result;
}

// False if no text matches, or if a limit was reached, which the caller checks.
bool Adder::has_text(Expr expr) {
  // An automaton costs more than everything else here, and most texts have no stops.
  if (!exprs_->may_be_nothing(expr) || exprs_->is_nullable(expr)) return true;
  for (const char first : {'a', '\n', ' '}) {  // first characters of free text
    if (exprs_->is_nullable(exprs_->derivative(expr, static_cast<std::uint8_t>(first))))
      return true;
  }
  return make_regex_scanner(machine_, exprs_, expr)->start() != Scanner::kDead;
}

void Adder::find_what_can_be_read() {
  const auto parts = [&](ItemId id, auto f) { for_each_part(items_[id], f); };
  const auto needed = [&](ItemId id) -> std::uint32_t {
    const Item& item = items_[id];
    if (item.kind == Item::Kind::lexeme) {
      return is_part_of_lexeme(id) || has_text(item.what) ? 0 : kNever;
    }
    if (item.kind == Item::Kind::leaf) return item.can_be_read ? 0 : kNever;
    return parts_needed(item);
  };
  close(items_.size(), parts, needed, [&](ItemId id) { return items_[id].can_be_read = true; });
}

// ---- 4. Left recursion --------------------------------------------------------------------------

// For each rule, except rules for other readings: the rules with which its texts may begin.
std::vector<std::vector<RuleId>> Adder::first_rules() {
  std::vector<std::vector<RuleId>> result(non_empty_of_.size());
  std::vector<RuleId> seen_by(items_.size(), kNever);
  for (RuleId rule = 0; rule < result.size(); ++rule) {
    std::vector<ItemId> todo{bodies_[rule]};
    while (!todo.empty()) {
      const ItemId id = todo.back();
      todo.pop_back();
      if (seen_by[id] == rule || !items_[id].can_be_read) continue;
      seen_by[id] = rule;
      if (items_[id].kind == Item::Kind::rule) {
        result[rule].push_back(base_[items_[id].what]);
        continue;
      }
      for (const ItemId part : items_[id].parts) {
        todo.push_back(part);
        if (items_[id].kind == Item::Kind::sequence && !items_[part].can_be_empty) break;
      }
    }
  }
  return result;
}

void Adder::remove_left_recursion() {
  in_cycle_.resize(bodies_.size(), kNever);
  for (const std::vector<RuleId>& cycle : cycles_of(first_rules())) {
    if (error_) return;
    rewrite(cycle);
  }
}

// Gives each rule of the cycle a body by the equations of the opening: `steps` are the pairs C of
// P_k, `begins` the B_j, and `followers` the T_ji, of which only those that are used are made.
//
//     E ::= E "+" T | T    becomes    E ::= T F    F ::= (empty) | "+" T F
void Adder::rewrite(const std::vector<RuleId>& cycle) {
  const auto size = static_cast<std::uint32_t>(cycle.size());
  const auto set_members = [&](bool are_in) {
    for (std::uint32_t i = 0; i < size; ++i) {
      in_cycle_[cycle[i]] = are_in ? i : kNever;
      if (non_empty_of_[cycle[i]]) in_cycle_[*non_empty_of_[cycle[i]]] = are_in ? i : kNever;
    }
  };
  set_members(true);
  struct Step {
    std::uint32_t to;
    ItemId text;
  };
  std::vector<std::vector<Step>> steps(size);  // by the rule that was just read
  std::vector<ItemId> begins(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    Corners corners = corners_of(bodies_[cycle[i]]);
    for (const Pair& pair : corners.pairs) {
      // A ::= A adds no text.
      if (pair.begin != i || pair.rest != kEmpty) steps[pair.begin].push_back({i, pair.rest});
    }
    begins[i] = corners.others.empty() ? kNothing : choice(std::move(corners.others));
  }
  // A text after which any number of steps may follow needs no steps of its own at its end: E "+" E
  // becomes the texts with which E begins, and "+". So operators in a row do not nest.
  if (size == 1) {
    std::unordered_map<ItemId, ItemId> done;
    for (Step& step : steps[0]) step.text = without_steps(step.text, begins[0], done, 0);
  }
  set_members(false);

  std::map<std::pair<std::uint32_t, std::uint32_t>, RuleId> followers;  // T_ji
  std::vector<std::pair<std::uint32_t, std::uint32_t>> todo;
  const auto follower = [&](std::uint32_t from, std::uint32_t to) {
    const auto [place, is_new] = followers.try_emplace({from, to}, 0);
    if (is_new) {
      place->second = add_rule();
      todo.emplace_back(from, to);
    }
    return rule_item(place->second);
  };
  for (std::uint32_t i = 0; i < size && !is_too_large(); ++i) {
    std::vector<ItemId> ways;
    for (std::uint32_t j = 0; j < size; ++j) {
      if (begins[j] != kNothing) ways.push_back(sequence({begins[j], follower(j, i)}));
    }
    const ItemId body = choice(std::move(ways));
    // The transform has found the non-empty readings only, so the empty one is added again.
    if (const auto& without = non_empty_of_[cycle[i]]) {
      bodies_[*without] = body;
      bodies_[cycle[i]] = choice({kEmpty, rule_item(*without)});
    } else {
      bodies_[cycle[i]] = items_[bodies_[cycle[i]]].can_be_empty ? choice({kEmpty, body}) : body;
    }
  }
  while (!todo.empty() && !is_too_large()) {
    const auto [from, to] = todo.back();
    todo.pop_back();
    std::vector<ItemId> ways;
    if (from == to) ways.push_back(kEmpty);
    for (const Step& step : steps[from]) {
      ways.push_back(sequence({step.text, follower(step.to, to)}));
    }
    bodies_[followers.at({from, to})] = choice(std::move(ways));
  }
}

// `text` with `begin` in place of the rules of the cycle at its end. Texts share their ends, so
// results are kept in `done`.
ItemId Adder::without_steps(ItemId text, ItemId begin, std::unordered_map<ItemId, ItemId>& done,
                            int depth) {
  constexpr int kMaxDepth = 50;
  if (const auto known = done.find(text); known != done.end()) return known->second;
  Item item = items_[text];
  ItemId result = text;
  switch (item.kind) {
    case Item::Kind::rule:
      if (in_cycle_[item.what] == kNever) break;
      result = item.can_be_empty ? choice({kEmpty, begin}) : begin;
      break;
    case Item::Kind::sequence:
    case Item::Kind::choice: {
      if (depth == kMaxDepth || item.parts.empty()) return text;
      const bool is_sequence = item.kind == Item::Kind::sequence;
      for (std::size_t i = is_sequence ? item.parts.size() - 1 : 0; i < item.parts.size(); ++i) {
        item.parts[i] = without_steps(item.parts[i], begin, done, depth + 1);
      }
      result = add_item(std::move(item));
      break;
    }
    default:
      break;
  }
  done.emplace(text, result);
  return result;
}

// The non-empty readings of `body`, by the rule or text with which they begin.
Adder::Corners Adder::corners_of(ItemId body) {
  Corners corners;
  // An item that stands at the beginning, and what follows it.
  struct Place {
    ItemId item;
    ItemId rest;
  };
  std::vector<Place> todo{{body, kEmpty}};
  while (!todo.empty() && !is_too_large()) {
    const Place place = todo.back();
    todo.pop_back();
    const Item item = items_[place.item];  // a copy: items_ grows
    if (!item.can_be_read) continue;
    switch (item.kind) {
      case Item::Kind::lexeme:
      case Item::Kind::leaf:
        break;
      case Item::Kind::choice:
        for (const ItemId part : item.parts) todo.push_back({part, place.rest});
        continue;
      case Item::Kind::sequence: {
        // Only the parts up to the first that cannot be empty can begin a reading. What follows the
        // others is shared, so that the total size is that of the sequence.
        if (item.parts.empty()) continue;
        std::size_t i = 0;
        while (i + 1 < item.parts.size() && items_[item.parts[i]].can_be_empty) ++i;
        ItemId rest = rest_of(std::span(item.parts).subspan(i + 1), place.rest);
        todo.push_back({item.parts[i], rest});
        while (i-- > 0) {
          rest = sequence({item.parts[i + 1], rest});
          todo.push_back({item.parts[i], rest});
        }
        continue;
      }
      case Item::Kind::repeat: {
        if (item.max == 0) continue;
        // x{2,5} begins with an x, and x{1,4} follows.
        const std::uint32_t min = item.min - std::min(item.min, 1U);
        const std::uint32_t max = item.max == node::kUnbounded ? item.max : item.max - 1;
        const ItemId more = add_item({.kind = Item::Kind::repeat,
                                      .can_be_read = true,
                                      .min = min,
                                      .max = max,
                                      .parts = item.parts});
        todo.push_back({item.parts[0], sequence({more, place.rest})});
        continue;
      }
      case Item::Kind::rule:
        if (in_cycle_[item.what] == kNever) break;
        corners.pairs.push_back({in_cycle_[item.what], place.rest});
        continue;
    }
    const ItemId text = place.item < non_empty_.size() ? non_empty_[place.item] : place.item;
    if (text != kNothing) corners.others.push_back(sequence({text, place.rest}));
  }
  return corners;
}

ItemId Adder::rest_of(std::span<const ItemId> parts, ItemId rest) {
  std::vector<ItemId> all(parts.begin(), parts.end());
  all.push_back(rest);
  return sequence(std::move(all));
}

bool Adder::is_too_large() {
  if (items_.size() > kMaxItems) {
    fail({Errc::limit_exceeded,
          "grammar: too many rules begin with each other; begin their texts with something else"});
  }
  return error_.has_value();
}

// ---- Frames -------------------------------------------------------------------------------------

FrameId Adder::frame_of(ItemId id) {
  // A rule has no frame of its own. This ends, because no rule is left that begins with itself.
  while (items_[id].kind == Item::Kind::rule) id = bodies_[items_[id].what];
  if (frames_[id]) return *frames_[id];
  const Item& item = items_[id];
  FrameId frame = 0;
  if (item.kind == Item::Kind::leaf) {
    frame = frame_of_leaf(item.what);
  } else if (item.kind == Item::Kind::lexeme) {
    const auto [place, is_new] =
        frame_of_lexeme_.try_emplace({item.what, item.is_covered}, FrameId{0});
    if (is_new) {
      auto scanner = make_regex_scanner(machine_, exprs_, item.what, item.is_covered);
      place->second = machine_.add(make_lexeme(std::move(scanner)));
    }
    frame = place->second;
  } else {
    // The number now, the frame in set_frame(), so that rules can contain themselves.
    frame = machine_.reserve();
    frames_to_set_.push_back(id);
  }
  frames_[id] = frame;
  return frame;
}

void Adder::set_frame(ItemId id) {
  const Item& item = items_[id];
  std::vector<FrameId> parts;
  for (const ItemId part : item.parts) {
    if (items_[part].can_be_read) parts.push_back(frame_of(part));
  }
  std::unique_ptr<Frame> frame;
  if (item.kind == Item::Kind::sequence) {
    frame = make_sequence(std::move(parts));
  } else if (item.kind == Item::Kind::choice) {
    frame = make_choice(std::move(parts));
  } else if (parts.empty()) {
    frame = make_literal("");  // a repetition of nothing
  } else {
    frame = make_repeat(parts[0], item.min, item.max == node::kUnbounded ? kNoMaximum : item.max);
  }
  machine_.set(*frames_[id], std::move(frame));
}

FrameId Adder::frame_of_leaf(NodeId id) {
  const Node& node = rules_.node(id);
  if (const auto* literal = std::get_if<node::Literal>(&node)) {
    return machine_.add(make_literal(literal->bytes));
  }
  if (const auto* token = std::get_if<node::Token>(&node)) return frame_of_tokens(*token);
  if (const auto* tokens = std::get_if<node::Tokens>(&node)) {
    auto scanner = make_regex_scanner(machine_, exprs_, text_of_tokens(*tokens));
    return machine_.add(make_tokens(std::move(scanner), vocab_,
                                    tokens->max == node::kUnbounded ? kAnyTokens : tokens->max));
  }
  if (const auto* later = std::get_if<node::Later>(&node)) {
    return machine_.add(std::make_unique<LaterFrame>(*later, vocab_));
  }
  return json_frames_.at(id);
}

FrameId Adder::frame_of_tokens(const node::Token& token) {
  if (tokens_.empty()) {
    for (std::size_t i = 0; i < vocab_.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (vocab_.kind(id) != vocab::Token::Kind::unused) tokens_[vocab_.bytes(id)].push_back(id);
    }
  }
  std::vector<bool> is_named(vocab_.size());
  for (const std::string& name : token.names) {
    const auto found = tokens_.find(name);
    if (found == tokens_.end()) {
      fail({Errc::invalid, "the vocabulary has no token \"" + name + "\""});
      return 0;
    }
    // If there is a control token, text tokens with the same bytes are not meant.
    const auto is_control = [&](TokenId id) {
      return vocab_.kind(id) == vocab::Token::Kind::control;
    };
    const bool has_control = std::ranges::any_of(found->second, is_control);
    for (const TokenId id : found->second) {
      if (!has_control || is_control(id)) is_named[static_cast<std::size_t>(id)] = true;
    }
  }
  for (const auto& [first, last] : token.ids) {
    if (last >= vocab_.size() || first > last) {
      fail({Errc::invalid, "the vocabulary of " + std::to_string(vocab_.size()) +
                               " tokens has no token " + std::to_string(last)});
      return 0;
    }
    for (std::size_t id = first; id <= last; ++id) is_named[id] = true;
  }
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < vocab_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    // "Any other token" is not the end of the text, which only its name or number can allow.
    const bool is_other = token.is_negated && !is_named[i] &&
                          vocab_.kind(id) != vocab::Token::Kind::unused &&
                          std::ranges::find(vocab_.ends(), id) == vocab_.ends().end();
    if (token.is_negated ? is_other : is_named[i]) ids.push_back(id);
  }
  return machine_.add(make_token(TokenSet(ids, mask_words(vocab_.size()))));
}

}  // namespace adding

Expected<FrameId> add_rules(Machine& machine, const Rules& rules, const vocab::Vocab& vocab,
                            std::vector<Relaxed>* relaxed) {
  const std::optional<Rules> one_form = rules.with_one_form(&node::Forms::read);
  const Rules& read = one_form ? *one_form : rules;
  const std::optional<Rules> repeated = without_right_recursion(read);
  return adding::Adder(machine, repeated ? *repeated : read, vocab, relaxed).add();
}

}  // namespace tenon::grammar
