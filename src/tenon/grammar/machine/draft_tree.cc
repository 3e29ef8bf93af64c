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
  // Children as linked lists: the first child of each node, and the sibling after each. Nodes are
  // put in front of their siblings from the last to the first, so siblings stay in the order of
  // their numbers.
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
  // Down to the first child, else up until a node has a sibling. There is no recursion, because a
  // draft may be a chain of any length.
  for (std::int32_t node = 0; node != kNone;) {
    order.push_back(node);
    std::int32_t next = first_child[static_cast<std::size_t>(node)];
    while (next == kNone && node > 0) {
      next = next_sibling[static_cast<std::size_t>(node)];
      node = parents[static_cast<std::size_t>(node)];
    }
    node = next;
  }
  // Nodes of a circle are reached from no other node, so they were never visited.
  if (order.size() != parents.size()) {
    return Unexpected(
        Error{Errc::invalid, "parents: " + std::to_string(parents.size() - order.size()) +
                                 " nodes have a circle of parents, which does not end at node 0"});
  }
  return order;
}

}  // namespace tenon::grammar
