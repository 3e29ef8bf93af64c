#include "tenon/grammar/print/lower_automaton.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tenon/regex/dfa.h"

// Automata over characters, and their texts as nodes.
//
// automaton_of() walks the byte automaton of a language (regex::Dfa) from each state over all
// characters at once: ranges of lead bytes, then of the bytes after them, are combined into ranges
// of code points, so the result has one edge per target state. minimize() drops states that lead
// nowhere and merges equivalent states by Moore's algorithm, with a bound on its work.
//
// Two writers make nodes. RuleWriter makes one rule for each state where ways meet or part, and
// writes other states in place, so a text has one reading and the grammar has the size of the
// automaton. TreeWriter makes a single expression without rules, for lexemes: it removes states one
// by one, those with the fewest ways through them first, and writes what could be read through a
// state on the edges between its neighbours. That can grow exponentially, so it has a limit on
// nodes.
namespace tenon::grammar {

using regex::CodePointSet;

namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFF;

// ---- From bytes to characters -------------------------------------------------------------------

// A range of values of the bytes after a lead byte, and the state to which they lead.
struct Span {
  char32_t first;
  char32_t last;
  regex::Dfa::State to;
};

class CharacterSteps {
 public:
  CharacterSteps(regex::ExprSet& exprs, regex::Expr language) : dfa_(exprs, language) {}

  // The states to which characters lead from `state`.
  std::map<regex::Dfa::State, std::vector<CodePointSet::Range>> from(regex::Dfa::State state) {
    std::map<regex::Dfa::State, std::vector<CodePointSet::Range>> result;
    const auto add = [&](char32_t first, char32_t last, regex::Dfa::State to) {
      if (!is_dead(to)) result[to].push_back({first, last});
    };
    for (char32_t c = 0; c < 0x80; ++c) add(c, c, dfa_.step(state, static_cast<std::uint8_t>(c)));
    // The lead bytes of UTF-8 (RFC 3629). Surrogates, which have a form in bytes and are no
    // characters, are cut out of the ranges below.
    for (unsigned lead = 0xC2; lead <= 0xF4; ++lead) {
      const regex::Dfa::State next = dfa_.step(state, static_cast<std::uint8_t>(lead));
      if (is_dead(next)) continue;
      const unsigned more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
      const char32_t base = (lead & (0x3FU >> more)) << 6 * more;
      // Byte sequences that are not the shortest form of a character are left out here.
      const char32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
      for (const Span& span : after(next, more)) {
        const auto first = std::max<char32_t>(base + span.first, least);
        const auto last = std::min<char32_t>(base + span.last, CodePointSet::kLast);
        if (first < 0xD800 && last > 0xDFFF) {
          add(first, 0xD7FF, span.to);
          add(0xE000, last, span.to);
        } else if (first >= 0xD800 && last <= 0xDFFF) {
          continue;
        } else if (first <= last) {
          add(first >= 0xD800 && first <= 0xDFFF ? 0xE000 : first,
              last >= 0xD800 && last <= 0xDFFF ? 0xD7FF : last, span.to);
        }
      }
    }
    return result;
  }

  [[nodiscard]] bool is_accepting(regex::Dfa::State state) const {
    return dfa_.is_accepting(state);
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  // Only what its expression says is dead; minimize() removes the other states that lead nowhere.
  bool is_dead(regex::Dfa::State state) {
    if (state == regex::Dfa::kFailed) has_failed_ = true;
    return state == regex::Dfa::kFailed || dfa_.language(state) == regex::ExprSet::kNothing;
  }

  // The states to which `more` continuation bytes lead.
  const std::vector<Span>& after(regex::Dfa::State state, unsigned more) {
    const auto known = known_.find({state, more});
    if (known != known_.end()) return known->second;
    std::vector<Span> spans;
    const auto add = [&](char32_t first, char32_t last, regex::Dfa::State to) {
      if (!spans.empty() && spans.back().to == to && spans.back().last + 1 == first) {
        spans.back().last = last;
      } else {
        spans.push_back({first, last, to});
      }
    };
    for (char32_t byte = 0; byte < 64; ++byte) {
      const regex::Dfa::State next = dfa_.step(state, static_cast<std::uint8_t>(0x80 | byte));
      if (is_dead(next)) continue;
      if (more == 1) {
        add(byte, byte, next);
        continue;
      }
      const char32_t base = byte << 6 * (more - 1);
      for (const Span& span : after(next, more - 1)) {
        add(base + span.first, base + span.last, span.to);
      }
    }
    return known_.emplace(std::pair(state, more), std::move(spans)).first->second;
  }

  regex::Dfa dfa_;
  std::map<std::pair<regex::Dfa::State, unsigned>, std::vector<Span>> known_;
  bool has_failed_ = false;
};

// Keeps the states that `keep` marks, in their order.
void keep_only(Automaton& automaton, const std::vector<bool>& keep) {
  std::vector<std::uint32_t> number(automaton.states.size(), kNone);
  std::vector<Automaton::State> kept;
  for (std::uint32_t i = 0; i < automaton.states.size(); ++i) {
    if (!keep[i]) continue;
    number[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(automaton.states[i]));
  }
  for (Automaton::State& state : kept) {
    std::erase_if(state.edges, [&](const auto& edge) { return number[edge.to] == kNone; });
    for (Automaton::Edge& edge : state.edges) edge.to = number[edge.to];
  }
  automaton.states = std::move(kept);
}

// Drops the states from which no accepting state is reached, by a search backwards from those.
void trim(Automaton& automaton) {
  if (automaton.states.empty()) return;
  std::vector<std::vector<std::uint32_t>> back(automaton.states.size());
  std::vector<bool> live(automaton.states.size());
  std::vector<std::uint32_t> todo;
  for (std::uint32_t i = 0; i < automaton.states.size(); ++i) {
    for (const Automaton::Edge& edge : automaton.states[i].edges) back[edge.to].push_back(i);
    if (automaton.states[i].is_accepting) {
      live[i] = true;
      todo.push_back(i);
    }
  }
  while (!todo.empty()) {
    const std::uint32_t state = todo.back();
    todo.pop_back();
    for (const std::uint32_t from : back[state]) {
      if (!live[from]) {
        live[from] = true;
        todo.push_back(from);
      }
    }
  }
  if (!live[0]) {
    automaton.states.clear();
  } else {
    keep_only(automaton, live);
  }
}

// Joins edges to the same state; sorts by their first characters.
void join_edges(Automaton::State& state) {
  std::map<std::uint32_t, CodePointSet> by_target;
  for (const Automaton::Edge& edge : state.edges) {
    CodePointSet& on = by_target[edge.to];
    on = on.united(edge.on);
  }
  state.edges.clear();
  for (auto& [to, on] : by_target) state.edges.push_back({std::move(on), to});
  std::ranges::sort(state.edges, {}, [](const auto& e) { return e.on.ranges()[0].first; });
}

}  // namespace

Expected<Automaton> automaton_of(regex::ExprSet& exprs, regex::Expr language,
                                 std::size_t max_states) {
  CharacterSteps steps(exprs, language);
  Automaton automaton;
  std::map<regex::Dfa::State, std::uint32_t> numbers;
  std::vector<regex::Dfa::State> met;
  const auto number = [&](regex::Dfa::State state) {
    const auto [place, is_new] = numbers.try_emplace(state, static_cast<std::uint32_t>(met.size()));
    if (is_new) met.push_back(state);
    return place->second;
  };
  number(regex::Dfa::kStart);
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (met.size() > max_states || steps.has_failed()) {
      return Unexpected(Error{Errc::limit_exceeded, "needs an automaton of more than " +
                                                        std::to_string(max_states) + " states"});
    }
    Automaton::State& state = automaton.states.emplace_back();
    state.is_accepting = steps.is_accepting(met[i]);
    for (auto& [to, ranges] : steps.from(met[i])) {
      state.edges.push_back({CodePointSet(std::move(ranges)), number(to)});
    }
  }
  if (steps.has_failed()) return Unexpected(exprs.status().error());
  minimize(automaton);
  return automaton;
}

void minimize(Automaton& automaton) {
  trim(automaton);
  // Moore's algorithm: classes of states are split until all states of a class are equivalent.
  constexpr std::size_t kMaxWork = 2'000'000;
  std::vector<Automaton::State>& states = automaton.states;
  std::vector<std::uint32_t> class_of(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) class_of[i] = states[i].is_accepting ? 1 : 0;
  std::size_t classes = 0;
  std::size_t work = 0;
  for (;;) {
    // The class of a state, and on which characters it goes to each class.
    using Signature = std::pair<std::uint32_t, std::map<std::uint32_t, CodePointSet>>;
    std::map<Signature, std::uint32_t> found;
    std::vector<std::uint32_t> next(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      Signature signature{class_of[i], {}};
      for (const Automaton::Edge& edge : states[i].edges) {
        CodePointSet& on = signature.second[class_of[edge.to]];
        on = on.is_empty() ? edge.on : on.united(edge.on);
        work += edge.on.ranges().size() + 1;
      }
      next[i] = found.try_emplace(std::move(signature), static_cast<std::uint32_t>(found.size()))
                    .first->second;
    }
    class_of = std::move(next);
    // A round that splits no class is the last.
    if (found.size() == classes) break;
    classes = found.size();
    if (work > kMaxWork) return;  // the automaton is correct, only larger than necessary
  }
  std::vector<bool> keep(states.size());
  std::vector<std::uint32_t> first(classes, kNone);
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    if (first[class_of[i]] == kNone) {
      // The first state of a class stays for all; state 0 is first in its class, so it stays the
      // beginning.
      first[class_of[i]] = i;
      keep[i] = true;
    }
  }
  for (Automaton::State& state : states) {
    for (Automaton::Edge& edge : state.edges) edge.to = first[class_of[edge.to]];
    join_edges(state);
  }
  keep_only(automaton, keep);
}

// ---- As rules -----------------------------------------------------------------------------------

namespace {

// Makes one rule for each state where ways meet or part; other states are written where they are
// reached.
class RuleWriter {
 public:
  RuleWriter(Rules& rules, const Automaton& automaton, const std::string& name,
             const CharacterSpelling& spelling, std::optional<NodeId> end)
      : rules_(rules), automaton_(automaton), spelling_(spelling), end_(end) {
    std::vector<std::uint32_t> ways_in(automaton.states.size());
    for (std::uint32_t i = 0; i < automaton.states.size(); ++i) {
      for (const Automaton::Edge& edge : automaton.states[i].edges) {
        if (edge.to != i) ++ways_in[edge.to];
      }
    }
    rule_of_.resize(automaton.states.size());
    for (std::uint32_t i = 0; i < automaton.states.size(); ++i) {
      const bool returns_to_start = i == 0 && ways_in[0] > 0;
      // Its rest is only the end, which is as short as a rule's name.
      const bool is_last = automaton.states[i].edges.empty();
      if (returns_to_start || (ways_in[i] > 1 && !is_last)) rule_of_[i] = rules_.declare(name);
    }
    set_rules_where_deep(name);
  }

  NodeId write() {
    for (std::uint32_t i = 0; i < automaton_.states.size(); ++i) {
      if (rule_of_[i]) rules_.define(*rule_of_[i], body(i));
    }
    return rest(0);
  }

 private:
  // The number of edges to other states and to the end.
  [[nodiscard]] std::size_t ways_on(std::uint32_t state) const {
    const auto& edges = automaton_.states[state].edges;
    return static_cast<std::size_t>(
               std::ranges::count_if(edges, [&](const auto& edge) { return edge.to != state; })) +
           (automaton_.states[state].is_accepting ? 1 : 0);
  }

  // A state that is reached in one way is written there, unless that nests too many parentheses.
  void set_rules_where_deep(const std::string& name) {
    constexpr std::uint32_t kMaxDepth = 6;
    struct Visit {
      std::uint32_t state;
      std::uint32_t depth;
    };
    std::vector<Visit> todo{{0, 0}};
    for (std::uint32_t i = 0; i < rule_of_.size(); ++i) {
      if (rule_of_[i]) todo.push_back({i, 0});
    }
    while (!todo.empty()) {
      const Visit visit = todo.back();
      todo.pop_back();
      const bool parts = ways_on(visit.state) > 1;
      for (const Automaton::Edge& edge : automaton_.states[visit.state].edges) {
        if (edge.to == visit.state || rule_of_[edge.to]) continue;
        const std::uint32_t depth = visit.depth + (parts ? 1 : 0);
        if (depth > kMaxDepth && ways_on(edge.to) > 1) {
          rule_of_[edge.to] = rules_.declare(name);
          todo.push_back({edge.to, 0});
        } else {
          todo.push_back({edge.to, depth});
        }
      }
    }
  }

  NodeId rest(std::uint32_t state) {
    return rule_of_[state] ? rules_.add(node::Rule{*rule_of_[state]}) : body(state);
  }
  // States in a chain become one sequence.
  NodeId body(std::uint32_t state) {
    std::vector<NodeId> line;
    for (std::uint32_t at = state;;) {
      const Automaton::Edge* loop = nullptr;
      std::vector<NodeId> ways;
      const Automaton::Edge* only = nullptr;
      for (const Automaton::Edge& edge : automaton_.states[at].edges) {
        if (edge.to == at) {
          loop = &edge;
        } else {
          only = &edge;
        }
      }
      if (loop != nullptr) line.push_back(rules_.repeat(spelling_(loop->on), 0, node::kUnbounded));
      if (ways_on(at) == 1 && only != nullptr && !rule_of_[only->to]) {
        line.push_back(spelling_(only->on));
        at = only->to;
        continue;
      }
      for (const Automaton::Edge& edge : automaton_.states[at].edges) {
        if (&edge == loop) continue;
        std::vector<NodeId> way{spelling_(edge.on)};
        const bool is_end = !end_ && automaton_.states[edge.to].edges.empty();
        if (!is_end) way.push_back(rest(edge.to));
        ways.push_back(rules_.sequence(std::move(way)));
      }
      const bool may_end = automaton_.states[at].is_accepting;
      if (may_end && end_) ways.push_back(*end_);
      if (!ways.empty()) {
        const NodeId all = rules_.choice(std::move(ways));
        line.push_back(may_end && !end_ ? rules_.repeat(all, 0, 1) : all);
      }
      return rules_.sequence(std::move(line));
    }
  }

  Rules& rules_;
  const Automaton& automaton_;
  const CharacterSpelling& spelling_;
  std::optional<NodeId> end_;
  std::vector<std::optional<RuleId>> rule_of_;
};

}  // namespace

NodeId add_as_rules(Rules& rules, const Automaton& automaton, const std::string& name,
                    const CharacterSpelling& spelling, std::optional<NodeId> end) {
  if (automaton.states.empty()) return rules.choice({});
  return RuleWriter(rules, automaton, name, spelling, end).write();
}

// ---- As a tree ----------------------------------------------------------------------------------

namespace {

// Removes states one by one, those with the fewest ways through them first. What could be read
// through a state is written on the edges between its neighbours (Kleene; Brzozowski and McCluskey,
// Signal Flow Graph Techniques for Sequential Circuit State Diagrams, 1963).
class TreeWriter {
 public:
  TreeWriter(Rules& rules, const Automaton& automaton, const CharacterSpelling& spelling)
      // Two further states: one before the first, and one behind all accepting ones. When all
      // others are gone, the edge between these two is the result.
      : rules_(rules), edges_(automaton.states.size() + 2), back_(edges_.size()) {
    const auto start = static_cast<std::uint32_t>(automaton.states.size());
    const std::uint32_t end = start + 1;
    connect(start, 0, std::nullopt);
    for (std::uint32_t i = 0; i < start; ++i) {
      for (const Automaton::Edge& edge : automaton.states[i].edges) {
        connect(i, edge.to, spelling(edge.on));
      }
      if (automaton.states[i].is_accepting) connect(i, end, std::nullopt);
    }
  }

  Expected<NodeId> write(std::size_t max_nodes) {
    const std::size_t first_node = rules_.node_count();
    const auto start = static_cast<std::uint32_t>(edges_.size() - 2);
    std::vector<bool> is_gone(start);
    for (std::uint32_t done = 0; done < start; ++done) {
      // Each way in is joined with each way out, so the product of their numbers is what a removal
      // adds.
      std::uint32_t best = kNone;
      std::size_t best_ways = 0;
      for (std::uint32_t i = 0; i < start; ++i) {
        if (is_gone[i]) continue;
        const std::size_t ways = edges_[i].size() * back_[i].size();
        if (best == kNone || ways < best_ways) {
          best = i;
          best_ways = ways;
        }
      }
      is_gone[best] = true;
      remove(best);
      if (rules_.node_count() - first_node > max_nodes) {
        return Unexpected(Error{Errc::limit_exceeded, "needs an expression of more than " +
                                                          std::to_string(max_nodes) + " parts"});
      }
    }
    return node_of(edges_[start].begin()->second);
  }

 private:
  // The node that an edge reads; nothing: the empty text.
  using Label = std::optional<NodeId>;
  struct Edge {
    std::vector<NodeId> ways;
    bool may_be_empty = false;
  };

  void connect(std::uint32_t from, std::uint32_t to, Label label) {
    Edge& edge = edges_[from][to];
    if (label) {
      edge.ways.push_back(*label);
    } else {
      edge.may_be_empty = true;
    }
    back_[to][from] = true;
  }

  NodeId node_of(const Edge& edge) {
    if (edge.ways.empty()) return rules_.literal("");
    const NodeId ways = rules_.choice(edge.ways);
    return edge.may_be_empty ? rules_.repeat(ways, 0, 1) : ways;
  }
  Label label_of(const Edge& edge) {
    return edge.ways.empty() ? std::nullopt : Label(node_of(edge));
  }

  // A way a, a loop b and a way c through the state become an edge a b* c.
  void remove(std::uint32_t state) {
    Label loop;
    if (const auto self = edges_[state].find(state); self != edges_[state].end()) {
      if (!self->second.ways.empty()) {
        loop = rules_.repeat(rules_.choice(self->second.ways), 0, node::kUnbounded);
      }
      edges_[state].erase(state);
      back_[state].erase(state);
    }
    std::vector<std::pair<std::uint32_t, Label>> onward;
    for (const auto& [to, edge] : edges_[state]) {
      Label label = label_of(edge);
      onward.emplace_back(to, join(loop, label));
      back_[to].erase(state);
    }
    for (const auto& [from, there] : back_[state]) {
      const Label before = label_of(edges_[from][state]);
      edges_[from].erase(state);
      for (const auto& [to, label] : onward) connect(from, to, join(before, label));
    }
    edges_[state].clear();
  }
  Label join(const Label& first, const Label& second) {
    if (!first || !second) return first ? first : second;
    return rules_.sequence({*first, *second});
  }

  Rules& rules_;
  std::vector<std::map<std::uint32_t, Edge>> edges_;
  std::vector<std::map<std::uint32_t, bool>> back_;
};

}  // namespace

Expected<NodeId> add_as_tree(Rules& rules, const Automaton& automaton,
                             const CharacterSpelling& spelling, std::size_t max_nodes) {
  if (automaton.states.empty()) return rules.choice({});
  return TreeWriter(rules, automaton, spelling).write(max_nodes);
}

}  // namespace tenon::grammar
