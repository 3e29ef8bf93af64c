#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Sets of short texts; each text has some small numbers. Equal sets are one node, so a set that
/// differs from another by one text shares everything except the way to that text.
///
///     NumberTrie trie;
///     const auto set = trie.with(trie.with(NumberTrie::kEmpty, "137", 0), "12.5", 0);
///     trie.count(trie.after(set, '1'));   // 2: "37" and "2.5"
///
/// Not thread-safe. Nodes live as long as the trie.
class NumberTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kEmpty = 0;
  using End = std::int16_t;

  NumberTrie();

  [[nodiscard]] Node with(Node set, std::string_view text, End end);
  /// The remainders of the texts that begin with `symbol`.
  [[nodiscard]] Node after(Node set, char symbol) const;
  /// The same, and the empty text with the numbers that it has in `set`.
  [[nodiscard]] Node after_or_here(Node set, char symbol);
  /// The empty text with those of its numbers for which `keeps(end)` is true.
  template <class Keeps>
  [[nodiscard]] Node here(Node set, const Keeps& keeps) {
    std::vector<End> ends;
    for (const End end : ends_of(set)) {
      if (keeps(end)) ends.push_back(end);
    }
    return intern({}, std::move(ends));
  }

  /// The numbers of the empty text, ascending.
  [[nodiscard]] std::span<const End> ends_of(Node set) const { return entries_[set].ends; }
  /// The number of numbers of all texts.
  [[nodiscard]] std::uint64_t count(Node set) const { return entries_[set].count; }
  /// Equal for equal sets, also of other tries.
  [[nodiscard]] const regex::Fingerprint& fingerprint(Node set) const {
    return entries_[set].fingerprint;
  }
  [[nodiscard]] std::size_t memory_bytes() const { return bytes_; }

 private:
  using Next = std::vector<std::pair<char, Node>>;  // ascending
  struct Entry {
    Next next;
    std::vector<End> ends;
    std::uint64_t count = 0;
    regex::Fingerprint fingerprint;
  };

  Node intern(Next next, std::vector<End> ends);

  std::vector<Entry> entries_;
  std::map<regex::Fingerprint, Node> ids_;
  std::size_t bytes_ = 0;
};

}  // namespace tenon::grammar
