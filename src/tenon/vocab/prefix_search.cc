#include "tenon/vocab/prefix_search.h"

#include <utility>

namespace tenon::vocab {

PrefixSearch::PrefixSearch(std::vector<TokenTrie::Entry> entries) : trie_(std::move(entries)) {
  for (std::uint32_t node = 1; node < trie_.end_of(0); node = trie_.end_of(node)) {
    roots_[trie_.symbol(node)] = node;
  }
}

}  // namespace tenon::vocab
