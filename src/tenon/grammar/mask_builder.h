#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/grammar/int_map.h"
#include "tenon/grammar/machine.h"
#include "tenon/grammar/token_set.h"
#include "tenon/grammar/vocab_index.h"

namespace tenon::grammar {

/// Token masks of a machine's states: which tokens some continuation begins with. Masks are kept by
/// cell, and the insides of lexemes by scanner state, so that what comes again costs a copy. The
/// algorithm is in docs/masks.md. Not thread-safe, like its machine.
class MaskBuilder {
 public:
  MaskBuilder(Machine& machine, std::shared_ptr<VocabIndex> index);
  ~MaskBuilder();

  /// Writes the mask of `state`, which `text` led to, the end tokens in it where the text may end.
  /// `mask` has mask_words(vocabulary size) words.
  void fill(StateId state, std::string_view text, std::span<std::uint32_t> mask);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using Bits = std::vector<std::uint64_t>;  // over the tokens of VocabIndex::Quotes, by index

  struct LexemeMask {
    // Tokens after which the lexeme may go on, by the scanner alone; perhaps of another state.
    std::shared_ptr<const TokenSet> inside;
    // In a string: tokens that close it, as far as their first part goes.
    Bits closing;
  };
  struct CellMask {
    const TokenSet* inside = nullptr;  // the lexeme's, or the frame's own
    TokenSet others;
  };
  struct ScannerCache {
    Scanner* scanner;
    IntMap by_state;  // -> lexeme_masks_
  };

  const CellMask& cell_mask(CellId cell, std::string_view text);
  LexemeMask& lexeme_mask(const Frame::Lexeme& lexeme);
  void find_inside(const Frame::Lexeme& lexeme, LexemeMask& mask);
  void add_inside(const Frame::Lexeme& lexeme);
  bool scan(const vocab::TokenTrie& trie, const Frame::Lexeme& lexeme,
            const std::uint8_t* byte_of_symbol, std::uint32_t max_nodes);
  Bits find_closing(const Frame::Lexeme& lexeme);
  const Bits* remainders(StateId state);
  std::unique_ptr<const Bits> find_remainders(StateId state);
  void walk(const vocab::TokenTrie& trie, std::uint32_t root, StateId state);
  void walk_lexeme(const vocab::TokenTrie& trie, std::uint32_t root, CellId cell,
                   const Frame::Lexeme& lexeme);
  bool has_lexeme(StateId state);
  StateId answered(StateId state, const vocab::TokenTrie& trie, std::uint32_t node);
  void add(std::span<const vocab::TokenId> tokens) {
    found_.insert(found_.end(), tokens.begin(), tokens.end());
  }
  bool add_closing(const LexemeMask& mask, const Frame::Lexeme& lexeme, CellId cell);
  void clear_scratch();

  Machine& machine_;
  std::shared_ptr<VocabIndex> index_;
  IntMap by_cell_;  // -> cell_masks_
  std::vector<std::unique_ptr<const CellMask>> cell_masks_;
  std::vector<std::unique_ptr<ScannerCache>> scanners_;
  std::vector<std::unique_ptr<LexemeMask>> lexeme_masks_;
  IntMap by_remainder_state_;  // -> remainders_
  std::vector<std::unique_ptr<const Bits>> remainders_;
  std::size_t kept_bytes_ = 0;

  std::vector<std::uint32_t> scratch_;     // the inside of a lexeme under construction
  std::vector<vocab::TokenId> found_;      // the rest of a mask under construction
  std::vector<std::uint32_t> path_;        // states by depth in the trie
  std::string_view text_;                  // what led to the state under construction
  std::string walked_;                     // and what a walk has read since
  bool asked_ = false;                     // the mask under construction depends on the text
  std::unique_ptr<const CellMask> loose_;  // the last one that did
};

}  // namespace tenon::grammar
