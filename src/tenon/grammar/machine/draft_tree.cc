#include "tenon/grammar/machine/draft_tree.h"

#include <cstddef>
#include <string>
#include <utility>

namespace tenon::grammar {

Expected<std::vector<std::int32_t>> preorder(const DraftTree& tree) {
  const std::span<const std::int32_t> parents = tree.parents;
  if (tree.tokens.size() != parents.size()) {
    return Unexpected(Error{Errc::invalid, "parents: there are " + std::to_string(parents.size()) +
                                               " of them, and " +
                                               std::to_string(tree.tokens.size()) + " tokens"});
  }
  if (parents.empty() || parents[0] != -1) {
    return Unexpected(
        Error{Errc::invalid, "parents: the first must be -1, since node 0 is the text so far"});
  }
  constexpr std::int32_t kNone = -1;
  std::vector<std::int32_t> first_child(parents.size(), kNone);
  std::vector<std::int32_t> next_sibling(parents.size(), kNone);
  for (std::size_t node = parents.size() - 1; node > 0; --node) {
    const std::int32_t parent = parents[node];
    if (parent < 0 || std::cmp_greater_equal(parent, parents.size())) {
      return Unexpected(Error{Errc::invalid, "parents[" + std::to_string(node) +
                                                 "]: there is no node " + std::to_string(parent)});
    }
    std::int32_t& first = first_child[static_cast<std::size_t>(parent)];
    next_sibling[node] = std::exchange(first, static_cast<std::int32_t>(node));
  }
  std::vector<std::int32_t> order;
  order.reserve(parents.size());
  for (std::int32_t node = 0; node != kNone;) {
    order.push_back(node);
    std::int32_t next = first_child[static_cast<std::size_t>(node)];
    while (next == kNone && node > 0) {
      next = next_sibling[static_cast<std::size_t>(node)];
      node = parents[static_cast<std::size_t>(node)];
    }
    node = next;
  }
  if (order.size() != parents.size()) {
    return Unexpected(
        Error{Errc::invalid, "parents: " + std::to_string(parents.size() - order.size()) +
                                 " nodes have a circle of parents, which does not end at node 0"});
  }
  return order;
}

}  // namespace tenon::grammar
