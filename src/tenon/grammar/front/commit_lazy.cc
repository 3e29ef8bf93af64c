#include "tenon/grammar/front/commit_lazy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include "tenon/base/budget.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/language.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

namespace tenon::grammar {

namespace {

constexpr std::size_t kMaxWork = 4'000'000;
constexpr int kMaxGroups = 500;

// Sets of lazy lexemes. Each set has a number, under which results for it are found.
class LazySets {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;

  LazySets() { sets_.emplace_back(), ids_.emplace(std::vector<std::uint32_t>{}, kNone); }

  Id of(std::uint32_t lexeme) { return intern({lexeme}); }
  Id united(Id a, Id b) {
    if (a == b || b == kNone) return a;
    if (a == kNone) return b;
    const auto [known, is_new] = unions_.try_emplace(std::minmax(a, b), kNone);
    if (is_new) {
      std::vector<std::uint32_t> all;
      std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(all));
      known->second = intern(std::move(all));
    }
    return known->second;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& members(Id id) const { return sets_[id]; }

 private:
  Id intern(std::vector<std::uint32_t> set) {
    const auto [known, is_new] = ids_.try_emplace(set, static_cast<Id>(sets_.size()));
    if (is_new) sets_.push_back(std::move(set));
    return known->second;
  }

  std::vector<std::vector<std::uint32_t>> sets_;
  std::map<std::vector<std::uint32_t>, Id> ids_;
  std::map<std::pair<Id, Id>, Id> unions_;
};

class Committing {
 public:
  Committing(Rules& rules, const std::vector<LazyLexeme>& lazy)
      : rules_(rules), lazy_(lazy), parts_(rules.node_count()) {
    for (std::uint32_t i = 0; i < lazy.size(); ++i) lazy_index_.emplace(lazy[i].lexeme, i);
  }

  // First find_edges() finds by itself what each node begins and repeats. Then the grammar is
  // copied from the root down, a node once for each pair of sets around it. Rules are copied from a
  // list, since they may contain themselves.
  Expected<NodeId> run(NodeId root) {
    find_edges();
    const NodeId made = copy(root, {LazySets::kNone, LazySets::kNone}, 0);
    while (!todo_.empty() && !error_) {
      const auto [rule, from, edges] = todo_.back();
      todo_.pop_back();
      const NodeId body = copy(*rules_.rule(from).body, edges, 0);
      rules_.define(rule, body);
    }
    if (error_) return Unexpected(*error_);
    return made;
  }

 private:
  // For a node: which lazy lexemes may begin where it begins, and where it ends, as parts of it
  // that are repeated.
  struct Part {
    LazySets::Id first = LazySets::kNone;
    LazySets::Id again = LazySets::kNone;
    bool can_be_empty = false;
    bool operator==(const Part&) const = default;
  };
  // Which lazy lexemes may begin at the two ends of a node, because of what surrounds it.
  struct Edges {
    LazySets::Id begin = LazySets::kNone;
    LazySets::Id end = LazySets::kNone;
    auto operator<=>(const Edges&) const = default;
  };
  struct Todo {
    RuleId rule;
    RuleId from;
    Edges edges;
  };

  bool has_work() {
    if (++work_ <= kMaxWork) return !error_;
    fail("grammar: lazy rules stand in too many surroundings");
    return false;
  }
  void fail(std::string message) {
    if (!error_) error_ = Error{Errc::limit_exceeded, std::move(message)};
  }
  LazySets::Id united(LazySets::Id a, LazySets::Id b) { return sets_.united(a, b); }

  // ---- What begins and ends where ---------------------------------------------------------------

  // Finds the least sets in rounds. Only rules refer to later nodes; all other parts come before
  // their node.
  void find_edges() {
    const auto count = static_cast<NodeId>(parts_.size());
    for (bool changes = true; changes && !error_;) {
      changes = false;
      for (NodeId id = 0; id < count && has_work(); ++id) {
        Part part = part_of(id);
        if (part == parts_[id]) continue;
        parts_[id] = part;
        changes = true;
      }
    }
  }
  Part part_of(NodeId id) {
    const Node& node = rules_.node(id);
    if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
      Part all{.can_be_empty = true};
      for (const NodeId one : sequence->parts) {
        const Part& part = parts_[one];
        if (all.can_be_empty) all.first = united(all.first, part.first);
        all.again =
            part.can_be_empty ? united(united(all.again, part.first), part.again) : part.again;
        all.can_be_empty = all.can_be_empty && part.can_be_empty;
      }
      return all;
    }
    if (const auto* choice = std::get_if<node::Choice>(&node)) {
      Part all;
      for (const NodeId one : choice->parts) {
        all.first = united(all.first, parts_[one].first);
        all.again = united(all.again, parts_[one].again);
        all.can_be_empty = all.can_be_empty || parts_[one].can_be_empty;
      }
      return all;
    }
    if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
      Part part = parts_[repeat->part];
      // Behind one copy another may begin.
      if (repeat->max > 1) part.again = united(part.again, part.first);
      part.can_be_empty = part.can_be_empty || repeat->min == 0;
      return part;
    }
    if (const auto* rule = std::get_if<node::Rule>(&node)) {
      const auto body = rules_.rule(rule->rule).body;
      return body ? parts_[*body] : Part{};
    }
    Part part{.can_be_empty = is_nullable(id, node)};
    // A lazy lexeme that can be empty is always empty, and then it ends no text.
    const auto lazy = lazy_index_.find(id);
    if (lazy != lazy_index_.end() && !part.can_be_empty) {
      part.first = sets_.of(lazy->second);
    }
    return part;
  }

  // For a node other than a sequence, choice, repetition or rule.
  bool is_nullable(NodeId id, const Node& node) {
    if (const auto* literal = std::get_if<node::Literal>(&node)) return literal->bytes.empty();
    if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) {
      return parts_[lexeme->part].can_be_empty;
    }
    if (const auto* other = std::get_if<node::Complement>(&node)) {
      return !parts_[other->part].can_be_empty;
    }
    if (const auto* both = std::get_if<node::Both>(&node)) {
      return std::ranges::all_of(both->parts, [&](NodeId one) { return parts_[one].can_be_empty; });
    }
    if (const auto* pattern = std::get_if<node::Pattern>(&node)) {
      const auto [known, is_new] = nullable_patterns_.try_emplace(id, false);
      if (is_new) known->second = is_nullable(*pattern);
      return known->second;
    }
    return std::holds_alternative<node::Text>(node);
  }
  // An invalid pattern is refused later, when it is read.
  static bool is_nullable(const node::Pattern& pattern) {
    constexpr Limits kLimits{.max_steps = 200'000, .max_bytes = std::uint64_t{8} << 20U};
    Budget budget("pattern", kLimits);
    const auto syntax = regex::parse(pattern.source, pattern.dialect, budget);
    if (!syntax) return false;
    regex::ExprSet exprs(kLimits);
    const auto language =
        regex::language_of(exprs, *syntax, regex::Extent::whole, regex::utf8_spelling);
    return language && exprs.is_nullable(*language);
  }

  // ---- The copy ---------------------------------------------------------------------------------

  NodeId copy(NodeId id, Edges edges, int depth) {
    if (!has_work()) return 0;
    if (depth > kMaxGroups) {
      fail("grammar: too many groups in groups beside lazy rules");
      return 0;
    }
    const Part& part = parts_[id];
    // The lazy lexemes with which the node itself may begin count too: they exclude each other.
    edges.begin = united(edges.begin, part.first);
    if (part.can_be_empty) edges.begin = united(edges.begin, edges.end);
    const Node node = rules_.node(id);  // a copy: nodes are added
    if (std::holds_alternative<node::Rule>(node)) {
      return copy_of_rule(std::get<node::Rule>(node).rule, edges);
    }
    // No lazy lexeme is near, so the node stays as it is. Groups are copied always, as a rule in
    // them may lead to one.
    if (edges == Edges{} && part == Part{.can_be_empty = part.can_be_empty} && !has_rules(node)) {
      return id;
    }
    const auto known = copies_.find({id, edges});
    if (known != copies_.end()) return known->second;
    const NodeId made = make(id, node, edges, depth + 1);
    copies_.emplace(std::pair{id, edges}, made);
    return made;
  }
  static bool has_rules(const Node& node) {
    return std::holds_alternative<node::Sequence>(node) ||
           std::holds_alternative<node::Choice>(node) || std::holds_alternative<node::Repeat>(node);
  }
  NodeId make(NodeId id, const Node& node, Edges edges, int depth) {
    if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
      return copy_of_sequence(sequence->parts, edges, depth);
    }
    if (const auto* choice = std::get_if<node::Choice>(&node)) {
      std::vector<NodeId> ways;
      for (const NodeId one : choice->parts) ways.push_back(copy(one, edges, depth));
      return rules_.choice(std::move(ways));
    }
    if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
      if (repeat->max > 1) {
        const Part& one = parts_[repeat->part];
        edges.begin = united(united(edges.begin, edges.end), one.again);
        edges.end = united(edges.end, one.first);
      }
      const NodeId one = copy(repeat->part, edges, depth);
      return rules_.repeat(one, repeat->min, repeat->max);
    }
    return lexeme(id, node, edges.begin);
  }
  NodeId copy_of_sequence(const std::vector<NodeId>& parts, Edges edges, int depth) {
    std::vector<LazySets::Id> ends(parts.size(), edges.end);
    // From the back: what may begin behind part i - 1 is what begins part i, and further ones while
    // they can be empty.
    for (std::size_t i = parts.size(); i-- > 1;) {
      const Part& part = parts_[parts[i]];
      ends[i - 1] = part.can_be_empty ? united(part.first, ends[i]) : part.first;
    }
    std::vector<NodeId> copies;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts_[parts[i]];
      copies.push_back(copy(parts[i], {edges.begin, ends[i]}, depth));
      edges.begin =
          part.can_be_empty ? united(united(edges.begin, part.first), part.again) : part.again;
    }
    return rules_.sequence(std::move(copies));
  }
  NodeId copy_of_rule(RuleId rule, Edges edges) {
    const auto [known, is_new] = rule_copies_.try_emplace({rule, edges}, 0);
    if (is_new) {
      known->second = rules_.declare(rules_.rule(rule).name);
      todo_.push_back({known->second, rule, edges});
    }
    return rules_.add(node::Rule{known->second});
  }

  // The lexeme without the texts that begin with one of the lazy ones.
  NodeId lexeme(NodeId id, const Node& node, LazySets::Id beside) {
    if (std::holds_alternative<node::Token>(node) || std::holds_alternative<node::Json>(node) ||
        std::holds_alternative<node::Later>(node)) {
      return id;
    }
    if (const auto* tokens = std::get_if<node::Tokens>(&node)) {
      const NodeId part = lexeme(tokens->part, rules_.node(tokens->part), beside);
      return rules_.add(node::Tokens{part, tokens->max});
    }
    if (beside == LazySets::kNone) return id;
    // A text that begins with a text of a lazy lexeme also begins with one of its shortest texts.
    // So only those are excluded, which is simpler and the same for all lexemes at one place.
    const auto own = lazy_index_.find(id);
    const bool is_lazy = own != lazy_index_.end();
    // A lazy lexeme is among those that begin here. With one character more it keeps its own
    // shortest texts, and loses those that go on after it or another one has ended.
    const NodeId late = late_texts(beside, is_lazy ? 1 : 0);
    const NodeId part = is_lazy ? lazy_[own->second].part : id;
    return rules_.add(node::Lexeme{rules_.add(node::Both{{part, late}})});
  }
  // Texts that do not begin with a lazy text and `more` characters after it.
  NodeId late_texts(LazySets::Id lazy, std::uint32_t more) {
    const auto [known, is_new] = late_.try_emplace({lazy, more}, 0);
    if (is_new) {
      std::vector<NodeId> parts;
      for (const std::uint32_t one : sets_.members(lazy)) parts.push_back(lazy_[one].part);
      const NodeId any = rules_.add(node::Characters{regex::CodePointSet::all()});
      const NodeId rest = rules_.repeat(any, more, node::kUnbounded);
      known->second =
          rules_.add(node::Complement{rules_.sequence({rules_.choice(std::move(parts)), rest})});
    }
    return known->second;
  }

  Rules& rules_;
  const std::vector<LazyLexeme>& lazy_;
  std::unordered_map<NodeId, std::uint32_t> lazy_index_;
  LazySets sets_;
  std::vector<Part> parts_;  // by node, for the original nodes
  std::unordered_map<NodeId, bool> nullable_patterns_;
  std::map<std::pair<LazySets::Id, std::uint32_t>, NodeId> late_;
  std::map<std::pair<NodeId, Edges>, NodeId> copies_;
  std::map<std::pair<RuleId, Edges>, RuleId> rule_copies_;
  std::vector<Todo> todo_;
  std::size_t work_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> commit_lazy(Rules& rules, NodeId root, const std::vector<LazyLexeme>& lazy) {
  return Committing(rules, lazy).run(root);
}

}  // namespace tenon::grammar
