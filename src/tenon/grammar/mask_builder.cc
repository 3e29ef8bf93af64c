#include "tenon/grammar/mask_builder.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {

using vocab::ByteClasses;
using vocab::TokenId;
using vocab::TokenTrie;

namespace {

// A walk by bytes that has not come to its end after so many nodes is left for one by classes:
// restrictive lexemes (dates, numbers) never get there, and quotients cost to make.
constexpr std::uint32_t kNodesByBytes = 4096;

}  // namespace

MaskBuilder::MaskBuilder(Machine& machine, std::shared_ptr<VocabIndex> index)
    : machine_(machine),
      index_(std::move(index)),
      scratch_(mask_words(index_->vocab().size()), 0),
      path_(index_->vocab().trie().max_depth() + 1, 0) {}

MaskBuilder::~MaskBuilder() = default;

void MaskBuilder::fill(StateId state, std::string_view text, std::span<std::uint32_t> mask) {
  std::ranges::fill(mask, 0U);
  // By index: cells_of() moves when masks make new states.
  const std::size_t count = machine_.cells_of(state).size();
  for (std::size_t i = 0; i < count; ++i) {
    const CellId cell = machine_.cells_of(state)[i];
    if (cell == 0) {
      for (const TokenId end : index_->vocab().ends()) set_bit(mask, end);
      continue;
    }
    const CellMask& part = cell_mask(cell, text);
    if (part.inside != nullptr) part.inside->add_to(mask);
    part.others.add_to(mask);
  }
}

const MaskBuilder::CellMask& MaskBuilder::cell_mask(CellId cell, std::string_view text) {
  const std::uint32_t known = by_cell_.find(cell);
  if (known != IntMap::kNone) return *cell_masks_[known];

  auto mask = std::make_unique<CellMask>();
  asked_ = false;
  walked_ = text;
  text_size_ = text.size();
  if (const auto lexeme = machine_.lexeme(cell)) {
    const LexemeMask& parts = lexeme_mask(*lexeme);
    mask->inside = &parts.inside;
    clear_scratch();
    for (const Exit& exit : parts.exits) {
      const TokenTrie& trie = *parts.exits_in;
      const TokenId token = trie.tokens_below(exit.node)[0];
      walked_.resize(text_size_);
      walked_ += index_->vocab().bytes(token).substr(0, trie.depth(exit.node));
      walk(trie, exit.node, answered(machine_.after_lexeme(cell, exit.state)));
    }
  } else {
    clear_scratch();
    walk(index_->vocab().trie(), 0, machine_.state_of(cell));
  }
  mask->others = TokenSet(scratch_);
  if (asked_) {
    loose_ = std::move(mask);
    return *loose_;
  }
  kept_bytes_ += sizeof(CellMask) + mask->others.memory_bytes();
  by_cell_.insert(cell, static_cast<std::uint32_t>(cell_masks_.size()));
  cell_masks_.push_back(std::move(mask));
  return *cell_masks_.back();
}

StateId MaskBuilder::answered(StateId state) {
  if (!machine_.has_questions(state)) return state;
  asked_ = true;
  return machine_.answer(state, walked_);
}

// Adds the tokens below `root` that the machine reads from `state` on.
void MaskBuilder::walk(const TokenTrie& trie, std::uint32_t root, StateId state) {
  if (state == 0) return;
  const std::uint32_t end = trie.end_of(root);
  path_[trie.depth(root)] = state;
  for (std::uint32_t node = root + 1; node < end;) {
    const std::uint16_t depth = trie.depth(node);
    walked_.resize(text_size_ + depth - 1U);
    walked_ += static_cast<char>(trie.symbol(node));
    const StateId next = answered(machine_.step(path_[depth - 1U], trie.symbol(node)));
    if (next == 0) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    for (const TokenId token : trie.tokens_at(node)) set_bit(scratch_, token);
    ++node;
  }
}

const MaskBuilder::LexemeMask& MaskBuilder::lexeme_mask(const Frame::Lexeme& lexeme) {
  auto cache =
      std::ranges::find(scanners_, lexeme.scanner, [](const auto& c) { return c->scanner; });
  if (cache == scanners_.end()) {
    scanners_.push_back(std::make_unique<ScannerCache>(ScannerCache{lexeme.scanner, {}}));
    cache = scanners_.end() - 1;
  }
  const std::uint32_t known = (*cache)->by_state.find(lexeme.state);
  if (known != IntMap::kNone) return *lexeme_masks_[known];

  auto mask = std::make_unique<LexemeMask>();
  clear_scratch();
  add_inside(lexeme);
  mask->inside = TokenSet(scratch_);
  find_exits(lexeme, *mask);
  kept_bytes_ +=
      sizeof(LexemeMask) + mask->inside.memory_bytes() + mask->exits.capacity() * sizeof(Exit);
  (*cache)->by_state.insert(lexeme.state, static_cast<std::uint32_t>(lexeme_masks_.size()));
  lexeme_masks_.push_back(std::move(mask));
  return *lexeme_masks_.back();
}

void MaskBuilder::add_inside(const Frame::Lexeme& lexeme) {
  constexpr std::uint32_t kAll = ~0U;
  const TokenTrie& whole = index_->vocab().trie();
  const ByteClasses* classes = lexeme.scanner->classes(lexeme.state);
  if (scan(whole, lexeme, nullptr, classes != nullptr ? kNodesByBytes : kAll)) return;
  const VocabIndex::Quotient& quotient = index_->quotient(*classes);
  scan(quotient.trie, lexeme, quotient.representative.data(), kAll);
  if (const int rare = lexeme.scanner->rare_byte(); rare >= 0) {
    scan(index_->containing(static_cast<std::uint8_t>(rare)), lexeme, nullptr, kAll);
  }
}

// Adds the tokens of `trie` after which the lexeme is not dead. False if it was given up.
bool MaskBuilder::scan(const TokenTrie& trie, const Frame::Lexeme& lexeme,
                       const std::uint8_t* byte_of_symbol, std::uint32_t max_nodes) {
  path_[0] = lexeme.state;
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    if (++visited > max_nodes) return false;
    const std::uint16_t depth = trie.depth(node);
    const std::uint8_t symbol = trie.symbol(node);
    const Scanner::State next = lexeme.scanner->step(
        path_[depth - 1U], byte_of_symbol != nullptr ? byte_of_symbol[symbol] : symbol);
    if (next == Scanner::kDead) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    for (const TokenId token : trie.tokens_at(node)) set_bit(scratch_, token);
    ++node;
  }
  return true;
}

void MaskBuilder::find_exits(const Frame::Lexeme& lexeme, LexemeMask& mask) {
  const int last = lexeme.scanner->last_byte();
  const TokenTrie& trie =
      last >= 0 ? index_->containing(static_cast<std::uint8_t>(last)) : index_->vocab().trie();
  mask.exits_in = &trie;
  path_[0] = lexeme.state;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    const std::uint16_t depth = trie.depth(node);
    const Scanner::State next = lexeme.scanner->step(path_[depth - 1U], trie.symbol(node));
    if (next == Scanner::kDead) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    // A token that ends here is inside already.
    if (lexeme.scanner->is_accepting(next) && trie.end_of(node) > node + 1) {
      mask.exits.push_back({node, next});
    }
    ++node;
  }
}

void MaskBuilder::clear_scratch() {
  std::ranges::fill(scratch_, 0U);
}

std::size_t MaskBuilder::memory_bytes() const {
  return kept_bytes_ + by_cell_.memory_bytes() + scratch_.capacity() * sizeof(std::uint32_t);
}

}  // namespace tenon::grammar
