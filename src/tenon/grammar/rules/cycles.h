#pragma once

#include <vector>

#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

/// The strongly connected components of rules that have more than one rule or lead to themselves.
/// `next[r]` are the rules to which `r` leads. A component comes after those to which it leads. The
/// time is linear in the edges, and the stack is on the heap (R. Tarjan, SIAM J. Comput. 1, 1972).
[[nodiscard]] std::vector<std::vector<RuleId>> cycles_of(
    const std::vector<std::vector<RuleId>>& next);

}  // namespace tenon::grammar
