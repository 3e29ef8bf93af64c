#pragma once

#include <optional>

#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

/// The same texts, with repetitions in place of rules that end with themselves (but do not begin
/// with themselves), and with the regular alternatives of a repetition separated from the others:
///
///     s ::= "" | [^"] s                         becomes    s ::= [^"]*
///     t ::= ">" | [a-z] t | list t              becomes    t ::= [a-z]* (list [a-z]*)* ">"
///
/// So the regular part is one automaton and costs as much as the same texts written with `*`.
/// Nothing: there is no such rule and no such repetition.
[[nodiscard]] std::optional<Rules> without_right_recursion(const Rules& rules);

}  // namespace tenon::grammar
