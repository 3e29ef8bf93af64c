#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/number_scanner.h"
#include "tenon/grammar/rules.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"

/// Regular languages as plain nodes, for dialects that have neither intersection nor complement: a
/// language becomes an automaton over characters, and the automaton becomes rules or one tree.
namespace tenon::grammar {

/// A deterministic automaton over characters. State 0 is the first; every state can be reached and
/// leads to an accepting one, so that no states means no texts. The edges of a state are disjoint.
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

/// The valid UTF-8 of a language. Fails with limit_exceeded at more than `max_states`, and where
/// the limits of `exprs` are reached.
[[nodiscard]] Expected<Automaton> automaton_of(regex::ExprSet& exprs, regex::Expr language,
                                               std::size_t max_states);

/// The spellings of the numbers of a set, as make_number_scanner has them. Fails with
/// limit_exceeded where bounds have too many digits or the multiples too many remainders.
[[nodiscard]] Expected<Automaton> automaton_of(const NumberSet& set, std::size_t max_states);

/// Leaves out what is not reached or leads nowhere, and makes one of equal states.
void minimize(Automaton& automaton);

/// How a character of a set is written.
using CharacterSpelling = std::function<NodeId(const regex::CodePointSet&)>;

/// The automaton's texts, each followed by `end` if there is one, as rules that refer to each
/// other: one for each state where ways meet. A text is read in one way only. The names of rules
/// begin with `name`.
[[nodiscard]] NodeId add_as_rules(Rules& rules, const Automaton& automaton, const std::string& name,
                                  const CharacterSpelling& spelling, std::optional<NodeId> end);

/// The same as one node without rules, so that it can stand in a lexeme. Fails with limit_exceeded
/// where that takes more than `max_nodes`.
[[nodiscard]] Expected<NodeId> add_as_tree(Rules& rules, const Automaton& automaton,
                                           const CharacterSpelling& spelling,
                                           std::size_t max_nodes);

}  // namespace tenon::grammar
