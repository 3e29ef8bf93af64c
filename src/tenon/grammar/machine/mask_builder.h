#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/grammar/machine/int_map.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/grammar/machine/vocab_index.h"

namespace tenon::grammar {

/// Token masks of a machine's states: the tokens with which some continuation begins. Masks are
/// kept by cell, and the insides of lexemes by scanner state, so a repeated mask costs a copy. The
/// algorithm is in docs/masks.md. Not thread-safe, like its machine.
class MaskBuilder {
 public:
  MaskBuilder(Machine& machine, std::shared_ptr<VocabIndex> index);
  ~MaskBuilder();

  /// Writes the mask of `state`, to which `text` led. It includes the end tokens if the text may
  /// end. `mask` has mask_words(vocabulary size) words.
  void fill(StateId state, std::string_view text, std::span<std::uint32_t> mask);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using Bits = VocabIndex::Bits;
  using Border = VocabIndex::Border;
  using Opening = VocabIndex::Opening;

  // What is known of a lexeme's state, whatever comes after the lexeme, without exclusions.
  struct LexemeMask {
    bool has_exclusions = false;
    std::shared_ptr<const TokenSet>
        inside;  // tokens that stay inside it; except for strings, also those that end it
    const Border* border = nullptr;       // null: it has no border
    std::shared_ptr<const Bits> closing;  // tokens of the border whose first part ends it
  };
  struct CellMask {
    const TokenSet* inside = nullptr;  // shared by all cells in this state of the lexeme
    TokenSet others;
  };
  struct ScannerCache {
    const Border* alphabet = nullptr;
    IntMap by_state;  // -> lexeme_masks_
    // The last state of which all tokens were walked; null: no state was.
    Scanner::State walked = 0;
    std::shared_ptr<const TokenSet> inside_of_walked;
    int failures = 0;  // of scan_difference(), one after the other
  };
  // The second parts of a border that a state can read, as indices of tokens.
  struct Rests {
    bool is_known = true;  // false: depends on the text, or on where the first part ends
    std::vector<std::uint32_t> tokens;
  };
  // A walk down a trie, by bytes.
  struct Walk {
    const vocab::TokenTrie& trie;
    std::vector<vocab::TokenId>& found;
    bool may_ask;  // the trie has the tokens of the vocabulary, which come after text_
    bool asked = false;
    bool is_kept = true;              // the trie lives as long as the index
    std::uint32_t lexemes_ended = 0;  // on the way to the place where it is
    std::uint32_t again = 0;          // nodes that were visited in a lexeme behind another one
    bool may_tangle = false;          // it can be done in another way: walk_untangled()

    [[nodiscard]] bool is_tangled() const { return may_tangle && again > kMostAgain; }
    static constexpr std::uint32_t kMostAgain = 16'384;
  };
  struct Place {
    StateId state = 0;
    regex::ByteSet readable;
  };

  /// True if results may be shared with other grammars, because no limit cut the walk short.
  [[nodiscard]] bool is_whole() const { return !machine_.error(); }
  const CellMask& cell_mask(CellId cell, std::string_view text);
  [[nodiscard]] bool is_stopped(const Walk& walk) const {
    return machine_.error() || walk.is_tangled();
  }
  [[nodiscard]] bool is_covered(CellId cell) const;
  void add_covered(StateId state, std::string_view text, std::span<std::uint32_t> mask,
                   bool is_kept);
  [[nodiscard]] std::optional<vocab::TokenTrie> tokens_beside(std::span<const std::uint32_t> mask,
                                                              const regex::ByteSet& bytes);
  void begin_walks(std::string_view text);
  const LexemeMask& lexeme_mask(const Frame::Lexeme& lexeme);
  bool walk_beyond(const LexemeMask& mask, StateId after, CellId cell, const Frame::Lexeme& lexeme,
                   bool with_inside);
  [[nodiscard]] regex::ByteSet bytes_of_way_out(CellId cell, const Frame::Lexeme& lexeme);
  bool walk_out(CellId cell, const Frame::Lexeme& lexeme);
  bool walk_with(const regex::ByteSet& bytes, CellId cell, const Frame::Lexeme& lexeme,
                 bool with_inside);
  [[nodiscard]] Scanner::Ways ways_of(const Frame::Lexeme& lexeme, bool may_guess) const;
  std::shared_ptr<const TokenSet> find_inside(const Frame::Lexeme& lexeme);
  std::shared_ptr<const TokenSet> try_inside(const Frame::Lexeme& lexeme, const Scanner::Way& way);
  std::shared_ptr<const TokenSet> known_inside(const regex::Fingerprint& key);
  bool walk_inside(const Frame::Lexeme& lexeme, const Scanner::Way& way);
  std::shared_ptr<const TokenSet> find_inside_of_short(const Frame::Lexeme& lexeme,
                                                       const Scanner::Way& of_all);
  std::shared_ptr<const TokenSet> take_inside(const regex::Fingerprint& key);
  bool scan_difference(const Frame::Lexeme& lexeme);
  void add_inside(const Frame::Lexeme& lexeme);
  bool scan(const vocab::TokenTrie& trie, const Frame::Lexeme& lexeme, std::uint32_t max_nodes);
  bool scan_all_but(const Frame::Lexeme& lexeme);
  bool refuses_most(const Frame::Lexeme& lexeme);
  bool scan_exceptions(const Frame::Lexeme& lexeme, const vocab::TokenTrie& trie);
  bool scan_ascii_apart(const Frame::Lexeme& lexeme, const vocab::ByteClasses& classes);
  bool scan(const VocabIndex::Quotient& quotient, const Frame::Lexeme& lexeme,
            const vocab::ByteClasses* only = nullptr);
  std::shared_ptr<const Bits> find_closing(const Frame::Lexeme& lexeme, const Border& border);
  std::shared_ptr<const Bits> try_closing(const Frame::Lexeme& lexeme, const Border& border,
                                          const Scanner::Way& way);
  bool add_border(const LexemeMask& mask, const Frame::Lexeme& lexeme, CellId cell);
  const Rests& rests(const Border& border, const Scanner& scanner, StateId state);
  std::shared_ptr<const Opening> opening(const vocab::TokenTrie& trie, std::uint32_t root,
                                         const Frame::Lexeme& lexeme, bool is_kept);
  bool walk(Walk& walk, std::uint32_t root, StateId state);
  template <class ByLexemes>
  void walk_untangled(Walk& walk, StateId state, const ByLexemes& by_lexemes);
  bool walk_by_states(Walk& walk, StateId start);
  void walk_nodes(Walk& walk, std::uint32_t begin, std::uint32_t end);
  bool walk_lexeme(Walk& walk, std::uint32_t root, CellId cell, const Frame::Lexeme& lexeme,
                   bool with_inside);
  StateId answered(Walk& walk, StateId state, std::uint32_t node);

  Machine& machine_;
  std::shared_ptr<VocabIndex> index_;
  IntMap by_cell_;  // -> cell_masks_
  std::vector<std::unique_ptr<const CellMask>> cell_masks_;
  IntMap covered_by_state_;  // -> covered_
  std::vector<TokenSet> covered_;
  std::unordered_map<const Scanner*, ScannerCache> scanners_;
  std::vector<std::unique_ptr<const LexemeMask>> lexeme_masks_;
  std::unordered_map<const Border*, IntMap> by_rest_state_;  // -> rests_
  std::vector<std::unique_ptr<const Rests>> rests_;
  std::size_t kept_bytes_ = 0;

  std::size_t words_;                      // of a mask
  std::vector<std::uint32_t> scratch_;     // the inside of a lexeme that is being made
  std::vector<vocab::TokenId> found_;      // the rest of a mask that is being made
  std::vector<Scanner::State> path_;       // scanner states by depth in the trie
  std::vector<Place> places_;              // and of the machine
  std::string_view text_;                  // the text that led to the state
  std::string walked_;                     // and the text that a walk has read since
  bool walked_has_text_ = false;           // it begins with text_
  std::unique_ptr<const CellMask> loose_;  // the last one that depended on the text
};

}  // namespace tenon::grammar
