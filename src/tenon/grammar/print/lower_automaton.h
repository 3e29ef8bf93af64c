#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/number_scanner.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"

/// Regular languages as plain nodes, for languages that have neither intersection nor complement:
/// an expression becomes an automaton over characters, and the automaton becomes rules or one tree.
namespace tenon::grammar {

/// A deterministic automaton over characters. State 0 is the first. Every state can be reached and
/// leads to an accepting one, so an automaton without states has no texts. The edges of a state are
/// disjoint.
struct Automaton {
  struct Edge {
    regex::CodePointSet on;
    std::uint32_t to = 0;
    bool operator==(const Edge&) const = default;
  };
  struct State {
    bool is_accepting = false;
    std::vector<Edge> edges;
  };
  std::vector<State> states;
};

/// The valid UTF-8 texts of a language. Fails with limit_exceeded at more than `max_states`, and if
/// the limits of `exprs` are reached.
[[nodiscard]] Expected<Automaton> automaton_of(regex::ExprSet& exprs, regex::Expr language,
                                               std::size_t max_states);

/// The texts of the numbers of a set, as make_number_scanner reads them. Fails with limit_exceeded
/// if bounds have too many digits or the multiples have too many remainders.
[[nodiscard]] Expected<Automaton> automaton_of(const NumberSet& set, std::size_t max_states);

/// Removes states that are not reached or lead nowhere, and merges equivalent states.
void minimize(Automaton& automaton);

/// How a character of a set is written.
using CharacterSpelling = std::function<NodeId(const regex::CodePointSet&)>;

/// The automaton's texts, each followed by `end` if there is one, as rules that refer to each
/// other, one for each state where ways meet. Each text is read in one way only. The names of the
/// rules begin with `name`.
[[nodiscard]] NodeId add_as_rules(Rules& rules, const Automaton& automaton, const std::string& name,
                                  const CharacterSpelling& spelling, std::optional<NodeId> end);

/// The same as one node without rules, so that it can be part of a lexeme. Fails with
/// limit_exceeded if that takes more than `max_nodes`.
[[nodiscard]] Expected<NodeId> add_as_tree(Rules& rules, const Automaton& automaton,
                                           const CharacterSpelling& spelling,
                                           std::size_t max_nodes);

}  // namespace tenon::grammar
