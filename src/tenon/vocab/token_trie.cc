#include "tenon/vocab/token_trie.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

// A node is a prefix of tokens, and stands before the nodes below it (preorder), with the end of
// its subtree, so that a walk goes through the array from left to right and leaves out a subtree by
// a jump. Tokens stand in one list in the same order: those of a node lie between its first_token
// and that of the next node, and those of a subtree up to that of the node behind the subtree.
//
// quotient() makes the trie of another alphabet: where a grammar does not distinguish bytes, tokens
// that differ only in them fall together, and the mask is computed for one of them.
namespace tenon::vocab {

namespace {

// Longer tokens are left out, because a depth has 16 bits; no tokenizer has such tokens.
constexpr std::size_t kLongestToken = std::numeric_limits<std::uint16_t>::max();

}  // namespace

ByteClasses ByteClasses::identity() {
  ByteClasses classes;
  for (unsigned byte = 0; byte < 255; ++byte) classes.of[byte] = static_cast<std::uint8_t>(byte);
  classes.of[255] = kNone;
  classes.count = 255;
  return classes;
}

ByteClasses ByteClasses::canonical() const {
  ByteClasses result;
  std::array<std::uint8_t, 256> number{};
  number.fill(kNone);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (of[byte] != kNone && number[of[byte]] == kNone) {
      number[of[byte]] = static_cast<std::uint8_t>(result.count++);
    }
    result.of[byte] = of[byte] == kNone ? kNone : number[of[byte]];
  }
  return result;
}

bool ByteClasses::refines(const ByteClasses& coarser) const {
  std::array<int, 256> there{};  // our class -> their class; -1: not met yet
  there.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (of[byte] == kNone) {
      if (coarser.of[byte] != kNone) return false;
      continue;
    }
    int& seen = there[of[byte]];
    if (seen >= 0 && seen != coarser.of[byte]) return false;
    seen = coarser.of[byte];
  }
  return true;
}

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::erase_if(entries,
                [](const Entry& e) { return e.bytes.empty() || e.bytes.size() > kLongestToken; });
  const auto is_before = [](const Entry& a, const Entry& b) {
    const int order = a.bytes.compare(b.bytes);
    return order != 0 ? order < 0 : a.token < b.token;
  };
  // Entries out of another trie come in order.
  if (!std::is_sorted(entries.begin(), entries.end(), is_before)) {
    std::sort(entries.begin(), entries.end(), is_before);
  }
  nodes_.push_back({});
  tokens_.reserve(entries.size());
  std::vector<std::uint32_t> path{0};  // the nodes of the last entry's prefixes
  std::string_view last;
  for (const Entry& entry : entries) {
    // What this entry shares with the one before it is on the path already; the rest becomes new
    // nodes, and the nodes of the last entry beyond it are complete.
    const std::size_t shared = static_cast<std::size_t>(
        std::mismatch(last.begin(), last.end(), entry.bytes.begin(), entry.bytes.end()).first -
        last.begin());
    for (std::size_t depth = shared + 1; depth < path.size(); ++depth) {
      nodes_[path[depth]].end = static_cast<std::uint32_t>(nodes_.size());
    }
    path.resize(shared + 1);
    for (std::size_t depth = shared; depth < entry.bytes.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      // `end` is set when the subtree is complete.
      nodes_.push_back({.first_token = static_cast<std::uint32_t>(tokens_.size()),
                        .end = 0,
                        .depth = static_cast<std::uint16_t>(depth + 1),
                        .symbol = static_cast<std::uint8_t>(entry.bytes[depth])});
    }
    tokens_.push_back(entry.token);
    last = entry.bytes;
  }
  for (const std::uint32_t node : path)
    nodes_[node].end = static_cast<std::uint32_t>(nodes_.size());
  finish();
}

// A trie under construction, with linked nodes, because tokens with one class string come from many
// places of another trie.
struct TokenTrie::Linked {
  struct Node {
    std::uint32_t token_count = 0;
    std::uint8_t symbol = 0;
  };

  explicit Linked(const ByteClasses& partition)
      : classes(partition), children(partition.count, 0) {}

  // Finds or makes. Node 0 is the root, which is no child, so 0 stands for no child.
  std::uint32_t child(std::uint32_t node, std::uint8_t symbol) {
    const std::size_t slot = std::size_t{node} * classes.count + symbol;
    if (children[slot] == 0) {
      children[slot] = static_cast<std::uint32_t>(nodes.size());
      nodes.push_back({.token_count = 0, .symbol = symbol});
      children.resize(children.size() + classes.count, 0);
      return static_cast<std::uint32_t>(nodes.size() - 1);
    }
    return children[slot];
  }
  // The node of a text; 0: the text is left out.
  std::uint32_t find(std::string_view text, Unit unit) {
    std::uint32_t node = 0;
    while (!text.empty()) {
      const std::size_t length = unit(text);
      // A unit counts as the byte kUnit. That byte itself can then mean nothing else.
      const std::uint8_t byte = length != 0 ? kUnit : static_cast<std::uint8_t>(text[0]);
      const std::uint8_t symbol = classes.of[byte];
      if (symbol == ByteClasses::kNone || (byte == kUnit && length == 0)) return 0;
      node = child(node, symbol);
      text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return node;
  }

  const ByteClasses& classes;
  std::vector<Node> nodes{{}};
  std::vector<std::uint32_t> children;  // [nodes.size()][classes.count], 0: none
};

TokenTrie TokenTrie::quotient(const ByteClasses& classes, Unit unit) const {
  constexpr std::uint32_t kBeyondAscii = 0xFFFFFFFF;  // looked up from the root, by unit
  Linked linked(classes);
  // By depth: the node in the new trie of the prefix that is walked over now.
  std::vector<std::uint32_t> image(max_depth_ + 1, 0);
  std::vector<std::uint32_t> node_of_token(tokens_.size(), 0);  // by index in tokens_; 0: left out
  std::string text;                                             // the text that leads to a node
  for (std::uint32_t node = 1; node < node_count();) {
    const std::uint8_t byte = nodes_[node].symbol;
    const std::uint16_t depth = nodes_[node].depth;
    const std::uint32_t parent = image[depth - 1U];
    const bool is_beyond = unit != nullptr && (byte >= 0x80 || parent == kBeyondAscii);
    // No token below can be read: the subtree is left out.
    if (!is_beyond && classes.of[byte] == ByteClasses::kNone) {
      node = end_of(node);
      continue;
    }
    image[depth] = is_beyond ? kBeyondAscii : linked.child(parent, classes.of[byte]);
    if (unit != nullptr) {
      text.resize(depth - 1U);
      text += static_cast<char>(byte);
    }
    const std::uint32_t from = nodes_[node].first_token;
    const std::uint32_t to = nodes_[node + 1].first_token;
    // A unit is longer than one byte, so a text beyond ASCII is looked up as a whole, from the
    // root, where a token ends.
    if (from != to) {
      const std::uint32_t end = is_beyond ? linked.find(text, unit) : image[depth];
      linked.nodes[end].token_count += to - from;
      std::fill(node_of_token.begin() + from, node_of_token.begin() + to, end);
    }
    ++node;
  }
  // Tokens that were left out count for the root.
  linked.nodes[0].token_count = 0;
  return in_preorder(linked, node_of_token);
}

// Copies the linked nodes in order. `node_of_token`: by index in tokens_; 0: left out. The first
// pass counts tokens, so that each node knows where its tokens begin; then they are put there, in
// the order of this trie.
TokenTrie TokenTrie::in_preorder(const Linked& linked,
                                 std::span<const std::uint32_t> node_of_token) const {
  TokenTrie result;
  std::vector<std::uint32_t> next_token(linked.nodes.size(), 0);  // an index in the token list
  // A node whose children are being visited: in `linked`, in the result, and the next symbol to
  // try.
  struct Open {
    std::uint32_t source, node, next_symbol;
  };
  std::vector<Open> open;
  std::uint32_t token_count = 0;
  const auto enter = [&](std::uint32_t source, std::size_t depth) {
    open.push_back({source, static_cast<std::uint32_t>(result.nodes_.size()), 0});
    result.nodes_.push_back({.first_token = token_count,
                             .end = 0,
                             .depth = static_cast<std::uint16_t>(depth),
                             .symbol = linked.nodes[source].symbol});
    next_token[source] = token_count;
    token_count += linked.nodes[source].token_count;
  };
  enter(0, 0);
  const unsigned width = linked.classes.count;
  while (!open.empty()) {
    Open& top = open.back();
    std::uint32_t child = 0;
    while (child == 0 && top.next_symbol < width) {
      child = linked.children[std::size_t{top.source} * width + top.next_symbol++];
    }
    if (child != 0) {
      enter(child, open.size());
    } else {
      result.nodes_[top.node].end = static_cast<std::uint32_t>(result.nodes_.size());
      open.pop_back();
    }
  }
  result.tokens_.resize(token_count);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (node_of_token[i] != 0) result.tokens_[next_token[node_of_token[i]]++] = tokens_[i];
  }
  result.finish();
  return result;
}

// The last node has no next one; an extra one ends its tokens.
void TokenTrie::finish() {
  for (std::uint32_t node = 1; node < nodes_.size(); node = nodes_[node].end) {
    children_of_root_[nodes_[node].symbol] = node;
  }
  for (const Node& node : nodes_) max_depth_ = std::max<std::uint32_t>(max_depth_, node.depth);
  nodes_.push_back({.first_token = static_cast<std::uint32_t>(tokens_.size()), .end = 0});
}

}  // namespace tenon::vocab
