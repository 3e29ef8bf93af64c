#include "tenon/grammar/mask_builder.h"

#include <algorithm>
#include <bit>
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
  text_ = text;
  found_.clear();
  if (const TokenSet* const tokens = machine_.tokens(cell)) {
    mask->inside = tokens;
  } else if (const auto lexeme = machine_.lexeme(cell)) {
    const LexemeMask& parts = lexeme_mask(*lexeme);
    mask->inside = parts.inside.get();
    if (!add_closing(parts, *lexeme, cell)) {
      // What stays within the lexeme is known, so of strings only what has a quote is of interest.
      const bool is_string = lexeme->scanner->is_in_string(lexeme->state);
      walk_lexeme(is_string ? index_->containing('"') : index_->vocab().trie(), 0, cell, *lexeme);
    }
  } else {
    walk(index_->vocab().trie(), 0, machine_.state_of(cell));
  }
  mask->others = TokenSet(found_, scratch_.size());
  if (asked_) {
    loose_ = std::move(mask);
    return *loose_;
  }
  kept_bytes_ += sizeof(CellMask) + mask->others.memory_bytes();
  by_cell_.insert(cell, static_cast<std::uint32_t>(cell_masks_.size()));
  cell_masks_.push_back(std::move(mask));
  return *cell_masks_.back();
}

// In a string, the tokens that close it, put together from their two parts. False: this is none, or
// the machine wants to see the text on the way.
bool MaskBuilder::add_closing(const LexemeMask& mask, const Frame::Lexeme& lexeme, CellId cell) {
  if (!lexeme.scanner->is_in_string(lexeme.state)) return false;
  const StateId state = machine_.resumed(machine_.cell(cell).parent);
  if (state == 0) return true;
  if (machine_.has_questions(state)) return false;
  const Bits* rest = remainders(state);
  if (rest == nullptr) return false;
  const std::vector<TokenId>& tokens = index_->quotes().tokens;
  for (std::size_t i = 0; i < rest->size(); ++i) {
    for (std::uint64_t word = (*rest)[i] & mask.closing[i]; word != 0; word &= word - 1) {
      found_.push_back(tokens[i * 64 + static_cast<std::size_t>(std::countr_zero(word))]);
    }
  }
  return true;
}

// The tokens whose part after the quote can follow in `state`; null if that depends on the text.
const MaskBuilder::Bits* MaskBuilder::remainders(StateId state) {
  const std::uint32_t known = by_remainder_state_.find(state);
  if (known != IntMap::kNone) return remainders_[known].get();
  by_remainder_state_.insert(state, static_cast<std::uint32_t>(remainders_.size()));
  remainders_.push_back(find_remainders(state));
  return remainders_.back().get();
}

std::unique_ptr<const MaskBuilder::Bits> MaskBuilder::find_remainders(StateId state) {
  const VocabIndex::Quotes& quotes = index_->quotes();
  auto bits = std::make_unique<Bits>((quotes.tokens.size() + 63) / 64, 0);
  kept_bytes_ += bits->capacity() * sizeof(std::uint64_t);
  const auto add_remainder = [&](std::size_t remainder) {
    for (const std::uint32_t i : quotes.by_remainder[remainder]) {
      (*bits)[i / 64] |= std::uint64_t{1} << i % 64;
    }
  };
  add_remainder(0);
  path_[0] = state;
  const TokenTrie& trie = quotes.after;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    const std::uint16_t depth = trie.depth(node);
    const StateId next = machine_.step(path_[depth - 1U], trie.symbol(node));
    if (machine_.has_questions(next)) return nullptr;
    if (next == 0) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    for (const TokenId remainder : trie.tokens_at(node)) {
      add_remainder(static_cast<std::size_t>(remainder));
    }
    ++node;
  }
  return bits;
}

StateId MaskBuilder::answered(StateId state, const TokenTrie& trie, std::uint32_t node) {
  if (!machine_.has_questions(state)) return state;
  asked_ = true;
  walked_ = text_;
  const TokenId token = trie.tokens_below(node)[0];
  walked_ += index_->vocab().bytes(token).substr(0, trie.depth(node));
  return machine_.answer(state, walked_);
}

bool MaskBuilder::has_lexeme(StateId state) {
  return std::ranges::any_of(machine_.cells_of(state),
                             [&](CellId cell) { return machine_.lexeme(cell).has_value(); });
}

// Adds the tokens below `root` that the machine reads from `state` on. Lexemes are read by their
// scanners, whose states other cells share, the rest by the machine.
void MaskBuilder::walk(const TokenTrie& trie, std::uint32_t root, StateId state) {
  const std::uint32_t end = trie.end_of(root);
  if (state == 0 || end == root + 1) return;
  if (has_lexeme(state)) {
    const auto span = machine_.cells_of(state);
    const std::vector<CellId> cells(span.begin(), span.end());
    std::vector<CellId> rest;
    for (const CellId cell : cells) {
      if (const auto lexeme = machine_.lexeme(cell)) {
        walk_lexeme(trie, root, cell, *lexeme);
      } else if (cell != 0) {
        rest.push_back(cell);
      }
    }
    if (rest.empty()) return;
    state = machine_.state_of(rest);
  }
  path_[trie.depth(root)] = state;
  for (std::uint32_t node = root + 1; node < end;) {
    const std::uint16_t depth = trie.depth(node);
    const StateId next = answered(machine_.step(path_[depth - 1U], trie.symbol(node)), trie, node);
    if (next == 0) {
      node = trie.end_of(node);
      continue;
    }
    add(trie.tokens_at(node));
    if (has_lexeme(next)) {
      walk(trie, node, next);
      node = trie.end_of(node);
    } else {
      path_[depth] = next;
      ++node;
    }
  }
}

// The same from within the lexeme of `cell`, the tokens that stay within it left out at the root of
// the trie, where LexemeMask::inside has them.
void MaskBuilder::walk_lexeme(const TokenTrie& trie, std::uint32_t root, CellId cell,
                              const Frame::Lexeme& lexeme) {
  Scanner& scanner = *lexeme.scanner;
  const CellId parent = machine_.cell(cell).parent;
  const std::uint32_t end = trie.end_of(root);
  path_[trie.depth(root)] = lexeme.state;
  for (std::uint32_t node = root + 1; node < end;) {
    const std::uint16_t depth = trie.depth(node);
    const Scanner::State next = scanner.step(path_[depth - 1U], trie.symbol(node));
    if (next == Scanner::kDead) {
      node = trie.end_of(node);
      continue;
    }
    if (root != 0 && !scanner.is_final(next)) add(trie.tokens_at(node));
    if (scanner.is_accepting(next)) {
      const StateId after = answered(machine_.resumed(parent), trie, node);
      if (after != 0) {
        if (scanner.is_final(next)) add(trie.tokens_at(node));
        walk(trie, node, after);
      }
      if (scanner.is_final(next)) {
        node = trie.end_of(node);
        continue;
      }
    }
    path_[depth] = next;
    ++node;
  }
}

MaskBuilder::LexemeMask& MaskBuilder::lexeme_mask(const Frame::Lexeme& lexeme) {
  auto cache =
      std::ranges::find(scanners_, lexeme.scanner, [](const auto& c) { return c->scanner; });
  if (cache == scanners_.end()) {
    scanners_.push_back(std::make_unique<ScannerCache>(ScannerCache{lexeme.scanner, {}}));
    cache = scanners_.end() - 1;
  }
  const std::uint32_t known = (*cache)->by_state.find(lexeme.state);
  if (known != IntMap::kNone) return *lexeme_masks_[known];
  (*cache)->by_state.insert(lexeme.state, static_cast<std::uint32_t>(lexeme_masks_.size()));
  lexeme_masks_.push_back(std::make_unique<LexemeMask>());
  LexemeMask& mask = *lexeme_masks_.back();

  const Scanner::State same = lexeme.scanner->same_inside(lexeme.state);
  if (same != lexeme.state) {
    mask.inside = lexeme_mask({lexeme.scanner, same}).inside;
    if (lexeme.scanner->is_in_string(lexeme.state)) mask.closing = find_closing(lexeme);
  } else if (const int common = lexeme.scanner->common_state(lexeme.state); common > 0) {
    auto shared = index_->common(common);
    if (!shared) {
      find_inside(lexeme, mask);
      shared =
          std::make_shared<const VocabIndex::Common>(VocabIndex::Common{mask.inside, mask.closing});
      index_->keep_common(common, shared);
    }
    mask.inside = shared->inside;
    mask.closing = shared->closing;
  } else {
    find_inside(lexeme, mask);
    kept_bytes_ += mask.inside->memory_bytes();
  }
  kept_bytes_ += sizeof(LexemeMask) + mask.closing.capacity() * sizeof(std::uint64_t);
  return mask;
}

void MaskBuilder::find_inside(const Frame::Lexeme& lexeme, LexemeMask& mask) {
  clear_scratch();
  add_inside(lexeme);
  mask.inside = std::make_shared<const TokenSet>(scratch_);
  if (lexeme.scanner->is_in_string(lexeme.state)) mask.closing = find_closing(lexeme);
}

// Tokens after which the lexeme may go on.
void MaskBuilder::add_inside(const Frame::Lexeme& lexeme) {
  constexpr std::uint32_t kAll = ~0U;
  const TokenTrie& whole = index_->vocab().trie();
  const auto classes = lexeme.scanner->classes(lexeme.state);
  if (scan(whole, lexeme, nullptr, classes ? kNodesByBytes : kAll)) return;
  const VocabIndex::Quotient* quotient = index_->quotient(*classes);
  clear_scratch();
  if (quotient == nullptr) {
    scan(whole, lexeme, nullptr, kAll);
    return;
  }
  scan(quotient->trie, lexeme, quotient->representative.data(), kAll);
  if (const int rare = lexeme.scanner->rare_byte(); rare >= 0) {
    scan(index_->containing(static_cast<std::uint8_t>(rare)), lexeme, nullptr, kAll);
  }
}

// Adds the tokens of `trie` after which the lexeme may go on. False if it was given up.
bool MaskBuilder::scan(const TokenTrie& trie, const Frame::Lexeme& lexeme,
                       const std::uint8_t* byte_of_symbol, std::uint32_t max_nodes) {
  Scanner& scanner = *lexeme.scanner;
  path_[0] = lexeme.state;
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    if (++visited > max_nodes) return false;
    const std::uint16_t depth = trie.depth(node);
    const std::uint8_t symbol = trie.symbol(node);
    const Scanner::State next = scanner.step(
        path_[depth - 1U], byte_of_symbol != nullptr ? byte_of_symbol[symbol] : symbol);
    if (next == Scanner::kDead) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    if (!scanner.is_final(next)) {
      for (const TokenId token : trie.tokens_at(node)) set_bit(scratch_, token);
    }
    ++node;
  }
  return true;
}

// In a string: the tokens that close it and whose part before the quote fits.
MaskBuilder::Bits MaskBuilder::find_closing(const Frame::Lexeme& lexeme) {
  const VocabIndex::Quotes& quotes = index_->quotes();
  Scanner& scanner = *lexeme.scanner;
  Bits bits((quotes.tokens.size() + 63) / 64, 0);
  const auto add = [&](std::uint32_t i) { bits[i / 64] |= std::uint64_t{1} << i % 64; };
  const auto closes = [&](Scanner::State state) {
    return scanner.step(state, '"') != Scanner::kDead;
  };
  if (closes(lexeme.state)) std::ranges::for_each(quotes.at_once, add);
  const TokenTrie& trie = quotes.before;
  path_[0] = lexeme.state;
  for (std::uint32_t node = 1; node < trie.node_count();) {
    const std::uint16_t depth = trie.depth(node);
    const Scanner::State next = scanner.step(path_[depth - 1U], trie.symbol(node));
    if (next == Scanner::kDead) {
      node = trie.end_of(node);
      continue;
    }
    path_[depth] = next;
    const auto tokens = trie.tokens_at(node);
    if (!tokens.empty() && closes(next)) {
      for (const TokenId i : tokens) add(static_cast<std::uint32_t>(i));
    }
    ++node;
  }
  return bits;
}

void MaskBuilder::clear_scratch() {
  std::ranges::fill(scratch_, 0U);
}

std::size_t MaskBuilder::memory_bytes() const {
  return kept_bytes_ + by_cell_.memory_bytes() + scratch_.capacity() * sizeof(std::uint32_t);
}

}  // namespace tenon::grammar
