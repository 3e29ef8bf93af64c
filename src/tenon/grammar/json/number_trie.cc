#include "tenon/grammar/json/number_trie.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace tenon::grammar {

NumberTrie::NumberTrie() {
  entries_.emplace_back();
  entries_[kEmpty].fingerprint = regex::fingerprint_of("");
  ids_.emplace(entries_[kEmpty].fingerprint, kEmpty);
}

// Makes the nodes on the way to the text anew, from its end to its beginning, since a node is its
// contents and never changes. All other nodes are shared with `set`.
NumberTrie::Node NumberTrie::with(Node set, std::string_view text, End end) {
  std::vector<Node> way{set};
  for (const char symbol : text) way.push_back(after(way.back(), symbol));
  std::vector<End> ends = entries_[way.back()].ends;
  const auto place = std::ranges::lower_bound(ends, end);
  if (place != ends.end() && *place == end) return set;
  ends.insert(place, end);
  Node below = intern(entries_[way.back()].next, std::move(ends));
  for (std::size_t depth = text.size(); depth-- > 0;) {
    Next next = entries_[way[depth]].next;
    const auto at = std::ranges::lower_bound(next, text[depth], {}, &Next::value_type::first);
    if (at != next.end() && at->first == text[depth]) {
      at->second = below;
    } else {
      next.insert(at, {text[depth], below});
    }
    below = intern(std::move(next), entries_[way[depth]].ends);
  }
  return below;
}

// Linear: a node has the ten digits, a point and a sign at most.
NumberTrie::Node NumberTrie::after(Node set, char symbol) const {
  for (const auto& [at, below] : entries_[set].next) {
    if (at == symbol) return below;
  }
  return kEmpty;
}

// For a point and for zeros behind one: 137 is also 137. and 137.0, so it is still left out there.
NumberTrie::Node NumberTrie::after_or_here(Node set, char symbol) {
  const Node below = after(set, symbol);
  if (entries_[set].ends.empty()) return below;
  std::vector<End> ends;
  std::ranges::set_union(entries_[set].ends, entries_[below].ends, std::back_inserter(ends));
  return intern(entries_[below].next, std::move(ends));
}

// The node with this content, by a fingerprint of it. Those of the nodes below are part of it, so a
// whole subtrie is compared at once.
NumberTrie::Node NumberTrie::intern(Next next, std::vector<End> ends) {
  if (next.empty() && ends.empty()) return kEmpty;
  std::string described = std::to_string(ends.size());
  const auto describe = [&](const auto& value) {
    described.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const End end : ends) describe(end);
  std::uint64_t count = ends.size();
  for (const auto& [symbol, below] : next) {
    described += symbol;
    describe(entries_[below].fingerprint.high);
    describe(entries_[below].fingerprint.low);
    count += entries_[below].count;
  }
  const regex::Fingerprint fingerprint = regex::fingerprint_of(described);
  const auto [place, is_new] = ids_.try_emplace(fingerprint, static_cast<Node>(entries_.size()));
  if (!is_new) return place->second;
  next.shrink_to_fit();
  constexpr std::size_t kTreeBytes = 80;  // of the entry in ids_
  bytes_ += sizeof(Entry) + kTreeBytes + next.size() * sizeof(Next::value_type) +
            ends.size() * sizeof(End);
  entries_.push_back({std::move(next), std::move(ends), count, fingerprint});
  return place->second;
}

}  // namespace tenon::grammar
