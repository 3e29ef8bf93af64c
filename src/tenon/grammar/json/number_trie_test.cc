#include "tenon/grammar/json/number_trie.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::grammar {
namespace {

using NamedEnds = std::set<std::pair<std::string, NumberTrie::End>>;

NamedEnds rests_of(const NamedEnds& set, char symbol, bool with_here) {
  NamedEnds rests;
  for (const auto& [text, end] : set) {
    if (!text.empty() && text[0] == symbol) rests.emplace(text.substr(1), end);
    if (text.empty() && with_here) rests.emplace("", end);
  }
  return rests;
}

NumberTrie::Node node_of(NumberTrie& trie, const NamedEnds& set) {
  NumberTrie::Node node = NumberTrie::kEmpty;
  for (const auto& [text, end] : set) node = trie.with(node, text, end);
  return node;
}

// A set is one node however it was made, and it contains what was put into it.
TEST(NumberTrie, EqualSetsAreOneNode) {
  NumberTrie trie;
  NumberTrie other;
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<std::string, NumberTrie::End>> texts(1 + random() % 12);
    for (auto& [text, end] : texts) {
      text.resize(random() % 4);
      for (char& symbol : text) symbol = "01."[random() % 3];
      end = static_cast<NumberTrie::End>(static_cast<int>(random() % 5) - 2);
    }
    NumberTrie::Node node = NumberTrie::kEmpty;
    for (const auto& [text, end] : texts) node = trie.with(node, text, end);
    const NamedEnds set(texts.begin(), texts.end());
    ASSERT_EQ(node, node_of(trie, set));
    ASSERT_EQ(trie.count(node), set.size());
    ASSERT_EQ(trie.fingerprint(node), other.fingerprint(node_of(other, set)));
    for (const char symbol : {'0', '1', '.'}) {
      ASSERT_EQ(trie.after(node, symbol), node_of(trie, rests_of(set, symbol, false)));
      ASSERT_EQ(trie.after_or_here(node, symbol), node_of(trie, rests_of(set, symbol, true)));
    }
    std::vector<NumberTrie::End> here;
    for (const auto& [text, end] : set) {
      if (text.empty()) here.push_back(end);
    }
    const auto ends = trie.ends_of(node);
    ASSERT_TRUE(std::ranges::equal(ends, here));
    const auto is_positive = [](NumberTrie::End end) { return end > 0; };
    NamedEnds positive;
    for (const NumberTrie::End end : here) {
      if (is_positive(end)) positive.emplace("", end);
    }
    ASSERT_EQ(trie.here(node, is_positive), node_of(trie, positive));
  }
}

}  // namespace
}  // namespace tenon::grammar
