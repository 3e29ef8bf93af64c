#pragma once

#include <optional>

#include "tenon/grammar/rules.h"

namespace tenon::grammar {

/// The same texts with repetitions instead of rules that end with themselves and are not begun with
/// themselves, and with what is regular in a repetition apart from what is not:
///
///     s ::= "" | [^"] s                         becomes    s ::= [^"]*
///     t ::= ">" | [a-z] t | list t              becomes    t ::= [a-z]* (list [a-z]*)* ">"
///
/// So what is regular is one automaton, and costs what the same costs that is written with `*`.
/// Nothing: there is no such rule and no such repetition.
[[nodiscard]] std::optional<Rules> without_right_recursion(const Rules& rules);

}  // namespace tenon::grammar
