#include <algorithm>
#include <cassert>

#include "tenon/format/definition.h"

namespace tenon::format {

Automaton::Automaton(const std::vector<std::string>& literals) {
  assert(literals.size() <= LiteralSet::kMax);
  for (const std::string& literal : literals) {
    for (const char c : literal) {
      // Bytes that are in no literal share class 0, so the table has a column for each byte that
      // occurs and not 256.
      std::uint8_t& klass = class_of_[static_cast<unsigned char>(c)];
      if (klass == 0) klass = static_cast<std::uint8_t>(class_count_++);
    }
  }
  const auto add_node = [this](Node parent, char byte, std::uint16_t depth) {
    next_.resize(next_.size() + class_count_, kRoot);
    parent_.push_back(parent);
    byte_.push_back(byte);
    depth_.push_back(depth);
    ends_.emplace_back();
    return static_cast<Node>(depth_.size() - 1);
  };
  add_node(kRoot, 0, 0);
  // First the trie of all literals, then (below) the edges that fall back to shorter suffixes.
  for (std::size_t id = 0; id < literals.size(); ++id) {
    Node node = kRoot;
    for (const char c : literals[id]) {
      const std::size_t edge = node * class_count_ + class_of_[static_cast<unsigned char>(c)];
      if (next_[edge] == kRoot) {
        const Node made = add_node(node, c, static_cast<std::uint16_t>(depth_[node] + 1));
        next_[edge] = made;
      }
      node = next_[edge];
    }
    ends_[node] |= LiteralSet::of(static_cast<LiteralId>(id));
  }
  // Breadth first, so that the shorter suffixes of a node are complete before it.
  std::vector<Node> order(depth_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Node>(i);
  std::stable_sort(order.begin(), order.end(),
                   [this](Node a, Node b) { return depth_[a] < depth_[b]; });
  // fail[n]: the node of the longest proper suffix of n's bytes that begins a literal. With the
  // fallback edges written into next_, reading takes one step for each byte.
  std::vector<Node> fail(depth_.size(), kRoot);
  for (const Node node : order) {
    if (node != kRoot) ends_[node] |= ends_[fail[node]];
    for (std::size_t klass = 1; klass < class_count_; ++klass) {
      Node& edge = next_[node * class_count_ + klass];
      const Node fallback = node == kRoot ? kRoot : next_[fail[node] * class_count_ + klass];
      if (edge == kRoot) {
        edge = fallback;
      } else {
        fail[edge] = fallback;
      }
    }
  }
}

std::string Automaton::held(Node node) const {
  std::string bytes;
  for (; node != kRoot; node = parent_[node]) bytes += byte_[node];
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

}  // namespace tenon::format
