#include "tenon/grammar/rules/cycles.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon::grammar {

// The strongly connected components of R. Tarjan (Depth-first search and linear graph algorithms,
// SIAM Journal on Computing 1, 1972), with a stack of visits in place of recursion, as grammars may
// have chains of many thousand rules. A rule that refers to no other rule is in no cycle.
std::vector<std::vector<RuleId>> cycles_of(const std::vector<std::vector<RuleId>>& next) {
  constexpr std::uint32_t kUnseen = ~std::uint32_t{0};
  struct Visit {
    RuleId rule;
    std::size_t at;
  };
  // order: when each rule was first seen. low: the earliest rule of `open` to which it leads. open:
  // rules that are seen and whose component is not complete.
  std::vector<std::uint32_t> order(next.size(), kUnseen);
  std::vector<std::uint32_t> low(next.size(), 0);
  std::vector<bool> is_open(next.size());
  std::vector<RuleId> open;
  std::vector<Visit> visits;
  std::vector<std::vector<RuleId>> result;
  std::uint32_t count = 0;
  const auto begin = [&](RuleId rule) {
    order[rule] = low[rule] = count++;
    is_open[rule] = true;
    open.push_back(rule);
    visits.push_back({rule, 0});
  };
  for (RuleId root = 0; root < next.size(); ++root) {
    if (order[root] == kUnseen && !next[root].empty()) begin(root);
    while (!visits.empty()) {
      const RuleId rule = visits.back().rule;
      if (visits.back().at < next[rule].size()) {
        const RuleId to = next[rule][visits.back().at++];
        if (order[to] == kUnseen) {
          begin(to);
        } else if (is_open[to]) {
          low[rule] = std::min(low[rule], order[to]);
        }
        continue;
      }
      visits.pop_back();
      if (!visits.empty()) {
        low[visits.back().rule] = std::min(low[visits.back().rule], low[rule]);
      }
      // It leads to no earlier rule, so it is the first of its component, which is on top of
      // `open`.
      if (low[rule] != order[rule]) continue;
      std::vector<RuleId> component;
      do {
        component.push_back(open.back());
        is_open[open.back()] = false;
        open.pop_back();
      } while (component.back() != rule);
      const bool is_cycle = component.size() > 1 || std::ranges::count(next[rule], rule) > 0;
      if (is_cycle) result.push_back(std::move(component));
    }
  }
  return result;
}

}  // namespace tenon::grammar
