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
  // A place in the trie at which a lexeme may be over, within a token that goes on.
  struct Exit {
    std::uint32_t node;
    Scanner::State state;
  };
  struct LexemeMask {
    TokenSet inside;  // tokens after which the lexeme is not dead, by the scanner alone
    const vocab::TokenTrie* exits_in = nullptr;
    std::vector<Exit> exits;
  };
  struct CellMask {
    const TokenSet* inside = nullptr;  // shared by all cells in that state of the lexeme
    TokenSet others;
  };
  struct ScannerCache {
    Scanner* scanner;
    IntMap by_state;  // -> lexeme_masks_
  };

  const CellMask& cell_mask(CellId cell, std::string_view text);
  const LexemeMask& lexeme_mask(const Frame::Lexeme& lexeme);
  void add_inside(const Frame::Lexeme& lexeme);
  bool scan(const vocab::TokenTrie& trie, const Frame::Lexeme& lexeme,
            const std::uint8_t* byte_of_symbol, std::uint32_t max_nodes);
  void find_exits(const Frame::Lexeme& lexeme, LexemeMask& mask);
  void walk(const vocab::TokenTrie& trie, std::uint32_t root, StateId state);
  StateId answered(StateId state);
  void clear_scratch();

  Machine& machine_;
  std::shared_ptr<VocabIndex> index_;
  IntMap by_cell_;  // -> cell_masks_
  std::vector<std::unique_ptr<const CellMask>> cell_masks_;
  std::vector<std::unique_ptr<ScannerCache>> scanners_;
  std::vector<std::unique_ptr<const LexemeMask>> lexeme_masks_;
  std::size_t kept_bytes_ = 0;

  std::vector<std::uint32_t> scratch_;     // the mask under construction
  std::vector<std::uint32_t> path_;        // states by depth in the trie
  std::string walked_;                     // the text up to where a walk is
  std::size_t text_size_ = 0;              // without what is walked
  bool asked_ = false;                     // the mask under construction depends on the text
  std::unique_ptr<const CellMask> loose_;  // the last one that did
};

}  // namespace tenon::grammar
