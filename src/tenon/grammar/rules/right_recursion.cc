// Rules that end with themselves are equations: A_i is the choice of X A_j, for some X and j, and
// of some texts Y. The least solution of A = X A | Y is X* Y (D. Arden, Delayed-logic and
// finite-state machines, 1961), also if X and Y are not regular. Several equations are solved one
// by one, like linear ones: the last is solved, and its solution is put into the others. That can
// multiply the terms, so large sets are left as they are.
//
// First the rules on a cycle are found that are referred to at the end of a rule (cycles.h). A
// cycle is not solved if its rules also begin with each other, because the left-corner transform of
// add_rules.cc is for those. expand() writes a rule as an equation, and close() solves it.
//
// A second pass (with_regular_parts_apart) separates the regular alternatives of a repetition from
// the others, (R | N)* = R* (N R*)*, so that R* becomes one automaton.

#include "tenon/grammar/rules/right_recursion.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/grammar/rules/cycles.h"

namespace tenon::grammar {

namespace {

constexpr std::size_t kMaxEquations = 12;  // solved together
constexpr std::size_t kMaxTerms = 400;     // in these equations
constexpr std::size_t kMaxVisits = 100'000;
constexpr int kMaxEndDepth = 500;  // of nested groups at the end of a rule

template <class F>
void for_each_part_of(const Node& node, F f) {
  const auto each = [&](const std::vector<NodeId>& parts) {
    for (const NodeId part : parts) f(part);
  };
  if (const auto* sequence = std::get_if<node::Sequence>(&node)) each(sequence->parts);
  if (const auto* choice = std::get_if<node::Choice>(&node)) each(choice->parts);
  if (const auto* both = std::get_if<node::Both>(&node)) each(both->parts);
  if (const auto* repeat = std::get_if<node::Repeat>(&node)) f(repeat->part);
  if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) f(lexeme->part);
  if (const auto* complement = std::get_if<node::Complement>(&node)) f(complement->part);
  if (const auto* tokens = std::get_if<node::Tokens>(&node)) f(tokens->part);
}

// Calls `f` with the parts with which a text of the node may end.
template <class F>
void for_each_end(const Node& node, F f) {
  if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
    if (!sequence->parts.empty()) f(sequence->parts.back());
  } else if (const auto* choice = std::get_if<node::Choice>(&node)) {
    for (const NodeId part : choice->parts) f(part);
  } else if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
    if (repeat->min == 0 && repeat->max == 1) f(repeat->part);
  }
}

// Nodes of the solution are added to result_, a copy of the rules, so that ids of rules_ stay valid
// in it. Bodies are exchanged only in take(), because until then other cycles are still read from
// the rules as they came.
class Solver {
 public:
  explicit Solver(const Rules& rules) : rules_(rules) {}

  // False: there is nothing to solve.
  bool solve() {
    std::vector<std::vector<RuleId>> ends(rules_.rule_count());
    seen_by_.assign(rules_.node_count(), kNoRule);
    for (RuleId rule = 0; rule < rules_.rule_count(); ++rule) {
      if (rules_.rule(rule).body) ends[rule] = rules_at_end(rule);
    }
    bool is_changed = false;
    const std::vector<std::vector<RuleId>> cycles = cycles_of(ends);
    if (cycles.empty()) return false;
    result_ = rules_;
    for (const std::vector<RuleId>& cycle : cycles) {
      if (cycle.size() <= kMaxEquations && solve(cycle)) is_changed = true;
    }
    return is_changed;
  }
  Rules take() const {
    Rules taken;
    for (NodeId id = 0; id < result_.node_count(); ++id) taken.add(result_.node(id));
    for (RuleId rule = 0; rule < rules_.rule_count(); ++rule) {
      const auto body = bodies_.find(rule);
      taken.define(taken.declare(rules_.rule(rule).name),
                   body != bodies_.end() ? body->second : *rules_.rule(rule).body);
    }
    taken.set_root(rules_.root());
    return taken;
  }

 private:
  static constexpr RuleId kNoRule = ~RuleId{0};
  // Texts of `text` (nothing: the empty text), followed by the rule if there is one.
  struct Term {
    std::optional<NodeId> text;
    RuleId then = kNoRule;
  };
  using Equation = std::vector<Term>;

  std::vector<RuleId> rules_at_end(RuleId rule) {
    std::vector<RuleId> result;
    std::vector<NodeId> todo{*rules_.rule(rule).body};
    while (!todo.empty()) {
      const NodeId id = todo.back();
      todo.pop_back();
      if (seen_by_[id] == rule) continue;
      seen_by_[id] = rule;
      if (const auto* other = std::get_if<node::Rule>(&rules_.node(id))) {
        result.push_back(other->rule);
      }
      for_each_end(rules_.node(id), [&](NodeId end) { todo.push_back(end); });
    }
    return result;
  }

  // A cycle whose rules also begin with each other is left to the left-corner transform.
  bool solve(const std::vector<RuleId>& cycle) {
    cycle_ = &cycle;
    leads_.clear();
    is_too_deep_ = false;
    term_count_ = 0;
    std::map<RuleId, Equation> equations;
    for (const RuleId rule : cycle) {
      Equation& equation = equations[rule];
      if (!expand(*rules_.rule(rule).body, std::nullopt, equation) || is_too_deep_) return false;
    }
    for (const auto& [rule, equation] : equations) {
      for (const Term& term : equation) {
        if (term.then != kNoRule && term.text && begins_with_cycle(*term.text)) return false;
      }
    }
    // Elimination: once its own loop is closed, a rule is put into those after it, so each of them
    // only refers to itself and to later ones.
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      Equation& own = equations[cycle[i]];
      close(own, cycle[i]);
      for (std::size_t j = i + 1; j < cycle.size(); ++j) {
        if (!substitute(cycle[i], own, equations[cycle[j]])) return false;
      }
    }
    // The last equation is solved, and each one before it then depends only on solved ones.
    for (std::size_t i = cycle.size(); i-- > 0;) {
      std::vector<NodeId> ways;
      for (const Term& term : equations[cycle[i]]) {
        const auto rest =
            term.then == kNoRule ? std::optional<NodeId>() : result_.add(node::Rule{term.then});
        ways.push_back(node_of(both(term.text, rest)));
      }
      bodies_[cycle[i]] = result_.choice(std::move(ways));
    }
    return true;
  }

  // The readings of a node after `before`, by the rule of the cycle with which they end.
  bool expand(NodeId id, std::optional<NodeId> before, Equation& into) {
    if (++term_count_ > kMaxTerms) return false;
    const Node& node = rules_.node(id);
    if (const auto* other = std::get_if<node::Rule>(&node);
        other != nullptr && is_in_cycle(*other)) {
      into.push_back({before, other->rule});
      return true;
    }
    if (!leads_to_cycle(id)) {
      into.push_back({both(before, id), kNoRule});
      return true;
    }
    if (const auto* choice = std::get_if<node::Choice>(&node)) {
      return std::ranges::all_of(choice->parts,
                                 [&](NodeId part) { return expand(part, before, into); });
    }
    if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
      into.push_back({before, kNoRule});
      return expand(repeat->part, before, into);
    }
    std::vector<NodeId> parts = std::get<node::Sequence>(node).parts;
    const NodeId last = parts.back();
    parts.pop_back();
    if (parts.empty()) return expand(last, before, into);
    return expand(last, both(before, result_.sequence(std::move(parts))), into);
  }
  // Whether a text of the node may end with a rule of the cycle.
  bool leads_to_cycle(NodeId id, int depth = 0) {
    const auto [known, is_new] = leads_.try_emplace(id, false);
    if (!is_new) return known->second;
    bool leads = false;
    is_too_deep_ = is_too_deep_ || depth > kMaxEndDepth;
    if (is_too_deep_) return false;
    const auto* other = std::get_if<node::Rule>(&rules_.node(id));
    if (other != nullptr) leads = is_in_cycle(*other);
    for_each_end(rules_.node(id),
                 [&](NodeId end) { leads = leads_to_cycle(end, depth + 1) || leads; });
    leads_[id] = leads;
    return leads;
  }
  [[nodiscard]] bool is_in_cycle(const node::Rule& rule) const {
    return std::ranges::find(*cycle_, rule.rule) != cycle_->end();
  }

  // Whether a text may begin with a rule of the cycle. It does not look at which parts can be
  // empty, so all parts up to a literal or a character count as possible beginnings.
  bool begins_with_cycle(NodeId from) {
    std::unordered_set<NodeId> seen;
    std::vector<NodeId> todo{from};
    while (!todo.empty()) {
      const NodeId id = todo.back();
      todo.pop_back();
      if (!seen.insert(id).second) continue;
      if (++visits_ > kMaxVisits) return true;
      const Node& node = result_.node(id);
      if (const auto* rule = std::get_if<node::Rule>(&node)) {
        if (is_in_cycle(*rule)) return true;
        if (const auto body = rules_.rule(rule->rule).body) todo.push_back(*body);
      } else if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
        for (const NodeId part : sequence->parts) {
          todo.push_back(part);
          if (is_never_empty(part)) break;
        }
      } else {
        for_each_part_of(node, [&](NodeId part) { todo.push_back(part); });
      }
    }
    return false;
  }
  [[nodiscard]] bool is_never_empty(NodeId id) const {
    for (int depth = 0; depth < 50; ++depth) {
      const Node& node = result_.node(id);
      if (const auto* literal = std::get_if<node::Literal>(&node)) return !literal->bytes.empty();
      if (const auto* rule = std::get_if<node::Rule>(&node)) {
        if (!result_.rule(rule->rule).body) return false;
        id = *result_.rule(rule->rule).body;
      } else if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
        if (repeat->min == 0) return false;
        id = repeat->part;
      } else if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) {
        id = lexeme->part;
      } else if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
        if (sequence->parts.empty()) return false;
        id = sequence->parts.front();
      } else {
        return std::holds_alternative<node::Characters>(node) ||
               std::holds_alternative<node::Bytes>(node) ||
               std::holds_alternative<node::Token>(node) ||
               std::holds_alternative<node::Json>(node) ||
               std::holds_alternative<node::Later>(node);
      }
    }
    return false;
  }

  // A = X A | Y becomes X* Y.
  void close(Equation& equation, RuleId rule) {
    std::vector<NodeId> steps;
    for (const Term& term : equation) {
      if (term.then == rule && term.text) steps.push_back(*term.text);
    }
    std::erase_if(equation, [&](const Term& term) { return term.then == rule; });
    if (steps.empty() || close_behind_first(equation, steps) || close_between(equation, steps)) {
      return;
    }
    const NodeId loop = result_.repeat(result_.choice(std::move(steps)), 0, node::kUnbounded);
    for (Term& term : equation) term.text = both(loop, term.text);
  }
  // If all steps and one end begin with the same W: A = W Z A | W V | Y becomes W (Z W)* (V | Z Y)
  // | Y. So W, which may be nested, is not read in two ways at once.
  bool close_behind_first(Equation& equation, const std::vector<NodeId>& steps) {
    const NodeId first = parts_of(steps[0]).front();
    const auto behind_first = [&](NodeId text) {
      std::vector<NodeId> parts = parts_of(text);
      parts.erase(parts.begin());
      return result_.sequence(std::move(parts));
    };
    const auto begins_so = [&](const std::optional<NodeId>& text) {
      return text && are_same(parts_of(*text).front(), first);
    };
    const bool all_begin_so = std::ranges::all_of(steps, begins_so);
    const bool has_end = std::ranges::any_of(equation, begins_so, &Term::text);
    const auto ends = [](const Term& term) { return term.then == kNoRule; };
    if (!all_begin_so || !has_end || !std::ranges::all_of(equation, ends)) return false;
    std::vector<NodeId> between;
    for (const NodeId step : steps) between.push_back(behind_first(step));
    const NodeId z = result_.choice(std::move(between));
    std::vector<NodeId> tails;
    std::vector<NodeId> others;
    for (const Term& term : equation) {
      if (begins_so(term.text)) {
        tails.push_back(behind_first(*term.text));
      } else {
        others.push_back(node_of(term.text));
      }
    }
    std::erase_if(equation, [&](const Term& term) { return begins_so(term.text); });
    if (!others.empty()) tails.push_back(result_.sequence({z, result_.choice(std::move(others))}));
    const NodeId loop = result_.repeat(result_.sequence({z, first}), 0, node::kUnbounded);
    equation.push_back({result_.sequence({first, loop, result_.choice(std::move(tails))})});
    return true;
  }
  // If each step is one of the ends W and then the same Z: A = W Z A | W | Y becomes
  // W (Z W)* (Z Y)? | Y. So a list of items of several kinds, some of which may be nested, is not
  // read in two ways at once.
  bool close_between(Equation& equation, const std::vector<NodeId>& steps) {
    const auto ends = [](const Term& term) { return term.then == kNoRule; };
    if (!std::ranges::all_of(equation, ends)) return false;
    const auto behind = [&](const std::vector<NodeId>& step, const Term& end) {
      const std::vector<NodeId> item = end.text ? parts_of(*end.text) : std::vector<NodeId>{};
      const bool begins_so = !item.empty() && item.size() < step.size() &&
                             std::equal(
                                 item.begin(), item.end(), step.begin(),
                                 [&](NodeId a, NodeId b) { return are_same(a, b); });
      return begins_so ? std::span(step).subspan(item.size()) : std::span<const NodeId>();
    };
    std::vector<NodeId> separator;
    std::vector<bool> is_item(equation.size());
    for (const NodeId step : steps) {
      const std::vector<NodeId> parts = parts_of(step);
      bool is_known = false;
      for (std::size_t i = 0; i < equation.size() && !is_known; ++i) {
        const std::span<const NodeId> rest = behind(parts, equation[i]);
        if (rest.empty()) continue;
        if (separator.empty()) separator.assign(rest.begin(), rest.end());
        is_known =
            std::ranges::equal(rest, separator, [&](NodeId a, NodeId b) { return are_same(a, b); });
        if (is_known) is_item[i] = true;
      }
      if (!is_known) return false;
    }
    std::vector<NodeId> items;
    std::vector<NodeId> others;
    for (std::size_t i = 0; i < equation.size(); ++i) {
      (is_item[i] ? items : others).push_back(node_of(equation[i].text));
    }
    const NodeId item = result_.choice(std::move(items));
    const NodeId z = result_.sequence(std::move(separator));
    const NodeId loop = result_.repeat(result_.sequence({z, item}), 0, node::kUnbounded);
    std::vector<NodeId> list{item, loop};
    equation.clear();
    for (const NodeId other : others) equation.push_back({other});
    if (!others.empty()) {
      const NodeId last = result_.sequence({z, result_.choice(std::move(others))});
      list.push_back(result_.repeat(last, 0, 1));
    }
    equation.push_back({result_.sequence(std::move(list))});
    return true;
  }
  // The node as a list of parts, with nested sequences opened: (a (b c)) is a, b, c.
  [[nodiscard]] std::vector<NodeId> parts_of(NodeId id) const {
    std::vector<NodeId> parts{id};
    for (std::size_t at = 0; at < parts.size();) {
      const auto* sequence = std::get_if<node::Sequence>(&result_.node(parts[at]));
      if (sequence == nullptr || sequence->parts.empty() || parts.size() > kMaxTerms) {
        ++at;
        continue;
      }
      const auto place = parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
      parts.insert(place, sequence->parts.begin(), sequence->parts.end());
    }
    return parts;
  }
  // Whether two nodes are written alike. False is always safe: then the plain X* Y is made. So
  // kinds that a notation seldom repeats are not compared.
  [[nodiscard]] bool are_same(NodeId a, NodeId b) const {
    if (a == b) return true;
    const Node& one = result_.node(a);
    const Node& other = result_.node(b);
    if (one.index() != other.index()) return false;
    if (const auto* rule = std::get_if<node::Rule>(&one)) {
      return rule->rule == std::get<node::Rule>(other).rule;
    }
    if (const auto* literal = std::get_if<node::Literal>(&one)) {
      return literal->bytes == std::get<node::Literal>(other).bytes;
    }
    const auto* characters = std::get_if<node::Characters>(&one);
    return characters != nullptr && characters->set == std::get<node::Characters>(other).set;
  }
  // Puts the equation of `rule` in place of `rule` at the ends of another equation. False: there
  // are too many terms, as each substitution may multiply them.
  bool substitute(RuleId rule, const Equation& by, Equation& into) {
    Equation next;
    for (const Term& term : into) {
      if (term.then != rule) {
        next.push_back(term);
        continue;
      }
      for (const Term& one : by) next.push_back({both(term.text, one.text), one.then});
    }
    into = std::move(next);
    return (term_count_ += into.size()) <= kMaxTerms;
  }

  std::optional<NodeId> both(std::optional<NodeId> first, std::optional<NodeId> second) {
    if (!first) return second;
    if (!second) return first;
    return result_.sequence({*first, *second});
  }
  NodeId node_of(std::optional<NodeId> text) { return text ? *text : result_.literal(""); }

  const Rules& rules_;
  Rules result_;  // the original nodes, then new ones
  std::map<RuleId, NodeId> bodies_;
  std::vector<RuleId> seen_by_;  // by node
  const std::vector<RuleId>* cycle_ = nullptr;
  std::unordered_map<NodeId, bool> leads_;
  bool is_too_deep_ = false;
  std::size_t term_count_ = 0;
  std::size_t visits_ = 0;
};

// The nodes that are certainly regular: those without a rule that contains itself and without parts
// that are read as wholes.
std::vector<bool> regular_nodes(const Rules& rules) {
  const std::size_t count = rules.node_count();
  const auto for_each_need = [&](NodeId id, auto f) {
    for_each_part_of(rules.node(id), f);
    if (const auto* rule = std::get_if<node::Rule>(&rules.node(id)))
      f(*rules.rule(rule->rule).body);
  };
  std::vector<std::uint32_t> first(count + 1, 0);  // the users of each part
  for (NodeId id = 0; id < count; ++id) for_each_need(id, [&](NodeId part) { ++first[part + 1]; });
  for (std::size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  std::vector<NodeId> users(first[count]);
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  std::vector<std::size_t> missing(count);
  std::vector<NodeId> ready;
  for (NodeId id = 0; id < count; ++id) {
    for_each_need(id, [&](NodeId part) {
      users[next[part]++] = id;
      ++missing[id];
    });
    const Node& node = rules.node(id);
    const auto* lexeme = std::get_if<node::Lexeme>(&node);
    const bool is_whole =
        std::holds_alternative<node::Token>(node) || std::holds_alternative<node::Tokens>(node) ||
        std::holds_alternative<node::Json>(node) || std::holds_alternative<node::Later>(node);
    // A need that is never met. A covered lexeme must stay a lexeme of its own.
    if (is_whole || (lexeme != nullptr && lexeme->is_covered)) ++missing[id];
    if (missing[id] == 0) ready.push_back(id);
  }
  std::vector<bool> result(rules.node_count());
  while (!ready.empty()) {
    const NodeId id = ready.back();
    ready.pop_back();
    result[id] = true;
    for (std::uint32_t at = first[id]; at < first[id + 1]; ++at) {
      if (--missing[users[at]] == 0) ready.push_back(users[at]);
    }
  }
  return result;
}

// The alternatives of a repeated node, as one list.
std::vector<NodeId> alternatives_of(const Rules& rules, NodeId id) {
  std::vector<NodeId> result;
  std::vector<NodeId> todo{id};
  for (std::size_t visits = 0; !todo.empty(); ++visits) {
    const NodeId one = todo.back();
    todo.pop_back();
    const auto* choice = std::get_if<node::Choice>(&rules.node(one));
    if (choice == nullptr || visits > 2 * kMaxTerms) {
      result.push_back(one);
    } else {
      todo.insert(todo.end(), choice->parts.rbegin(), choice->parts.rend());
    }
  }
  return result;
}

// (R | N)* becomes R* (N R*)*, where R are the regular alternatives. Nothing: there is no such
// repetition.
std::optional<Rules> with_regular_parts_apart(const Rules& rules) {
  std::vector<NodeId> mixed;
  for (NodeId id = 0; id < rules.node_count(); ++id) {
    const auto* repeat = std::get_if<node::Repeat>(&rules.node(id));
    if (repeat == nullptr || repeat->min != 0 || repeat->max != node::kUnbounded) continue;
    if (std::holds_alternative<node::Choice>(rules.node(repeat->part))) mixed.push_back(id);
  }
  if (mixed.empty()) return std::nullopt;
  const std::vector<bool> is_regular = regular_nodes(rules);
  std::erase_if(mixed, [&](NodeId id) {
    const NodeId part = std::get<node::Repeat>(rules.node(id)).part;
    if (is_regular[part]) return true;
    const std::vector<NodeId> parts = alternatives_of(rules, part);
    return std::ranges::none_of(parts, [&](NodeId one) { return is_regular[one]; });
  });
  if (mixed.empty()) return std::nullopt;

  Rules result;
  // By node of `rules`: the same node in `result`.
  std::vector<NodeId> at(rules.node_count());
  const auto moved = [&](const std::vector<NodeId>& parts) {
    std::vector<NodeId> list;
    list.reserve(parts.size());
    for (const NodeId part : parts) list.push_back(at[part]);
    return list;
  };
  for (NodeId id = 0; id < rules.node_count(); ++id) {
    Node node = rules.node(id);
    if (std::ranges::binary_search(mixed, id)) {
      std::vector<NodeId> regular;
      std::vector<NodeId> others;
      for (const NodeId part : alternatives_of(rules, std::get<node::Repeat>(node).part)) {
        (is_regular[part] ? regular : others).push_back(at[part]);
      }
      const NodeId loop = result.repeat(result.choice(std::move(regular)), 0, node::kUnbounded);
      const NodeId step = result.sequence({result.choice(std::move(others)), loop});
      at[id] = result.sequence({loop, result.repeat(step, 0, node::kUnbounded)});
      continue;
    }
    if (auto* sequence = std::get_if<node::Sequence>(&node))
      sequence->parts = moved(sequence->parts);
    if (auto* choice = std::get_if<node::Choice>(&node)) choice->parts = moved(choice->parts);
    if (auto* both = std::get_if<node::Both>(&node)) both->parts = moved(both->parts);
    if (auto* repeat = std::get_if<node::Repeat>(&node)) repeat->part = at[repeat->part];
    if (auto* lexeme = std::get_if<node::Lexeme>(&node)) lexeme->part = at[lexeme->part];
    if (auto* complement = std::get_if<node::Complement>(&node)) {
      complement->part = at[complement->part];
    }
    if (auto* tokens = std::get_if<node::Tokens>(&node)) tokens->part = at[tokens->part];
    at[id] = result.add(std::move(node));
  }
  for (RuleId rule = 0; rule < rules.rule_count(); ++rule) {
    result.define(result.declare(rules.rule(rule).name), at[*rules.rule(rule).body]);
  }
  result.set_root(at[rules.root()]);
  return result;
}

}  // namespace

std::optional<Rules> without_right_recursion(const Rules& rules) {
  Solver solver(rules);
  std::optional<Rules> solved;
  if (solver.solve()) solved = solver.take();
  auto apart = with_regular_parts_apart(solved ? *solved : rules);
  return apart ? std::move(apart) : std::move(solved);
}

}  // namespace tenon::grammar
