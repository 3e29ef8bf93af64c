#include "tenon/grammar/machine/mask_builder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

namespace tenon::grammar {
// Makes the mask of a state as the union of the masks of its cells, each of which is kept
// (docs/masks.md, "From cells to masks").
//
// A cell inside a lexeme has a mask of two parts. The inside part has the tokens that stay within
// the lexeme; it depends only on the scanner's state, and VocabIndex shares it between grammars by
// the state's fingerprint. It is found by walking the trie of all tokens with the scanner. Several
// ways of walking are tried, the cheap ones first (add_inside): only tokens with certain bytes
// (scan_all_but), a trie of byte classes (a Quotient), the tokens of any text without exceptions
// (scan_exceptions), and the whole trie by bytes. The rest part has the tokens that leave the
// lexeme, put together from the part before the border and the part after it (add_border), or found
// by a walk that only follows tokens with a byte that can come after (walk_beyond).
//
// All other cells are walked with the machine itself (walk). What is found is kept by cell, by
// state of the lexeme or by its fingerprint, unless it depends on the text or a limit was reached.

using vocab::ByteClasses;
using vocab::TokenId;
using vocab::TokenTrie;

namespace {

// A walk by bytes that has not ended after so many nodes is replaced by one by classes; restrictive
// lexemes (dates, hexadecimal digits) rarely reach it.
constexpr std::uint32_t kNodesByBytes = 4096;
// If so many lower-case letters are readable at once, the walk by classes is tried first.
constexpr int kManyLetters = 8;
constexpr std::uint32_t kAllNodes = ~0U;
// How many nodes of a walk by bytes count as one step, in addition to the calls of frames.
constexpr std::uint32_t kNodesPerStep = 4;
constexpr std::uint32_t kNodesPerLook = 64;
constexpr std::uint32_t kNodesPerLexeme = 8;  // as which it counts to begin one behind another
// Below a node with fewer nodes a lexeme is walked again each time.
constexpr std::uint32_t kLargeSubtree = 24;

// Visits the nodes of a trie from `begin` to `end`, parents first, with the state to which each
// leads. Children of nodes for which step() returns kDead or visit() returns false are skipped.
// `path` has the state above `begin`.
template <class Step, class Visit>
void descend(const TokenTrie& trie, std::uint32_t begin, std::uint32_t end,
             std::vector<Scanner::State>& path, const Step& step, const Visit& visit) {
  for (std::uint32_t node = begin; node < end;) {
    const std::uint16_t depth = trie.depth(node);
    const Scanner::State next = step(path[depth - 1U], trie.symbol(node));
    if (next == Scanner::kDead || !visit(node, next)) {
      node = trie.end_of(node);
    } else {
      path[depth] = next;
      ++node;
    }
  }
}

// Visits below `root`, whose children are read only if they are in `first`.
template <class Step, class Visit>
void descend_from(const TokenTrie& trie, std::uint32_t root, const regex::ByteSet& first,
                  std::vector<Scanner::State>& path, const Step& step, const Visit& visit) {
  if (root != 0) {
    descend(trie, root + 1, trie.end_of(root), path, step, visit);
    return;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!first.contains(static_cast<std::uint8_t>(byte))) continue;
    const std::uint32_t child = trie.child_of_root(static_cast<std::uint8_t>(byte));
    if (child != 0) descend(trie, child, trie.end_of(child), path, step, visit);
  }
}

// The steps of a scanner during a walk in which no other code makes steps.
class Steps {
 public:
  explicit Steps(Scanner& scanner) : scanner_(scanner), table_(scanner.table()) {}

  Scanner::State operator()(Scanner::State from, std::uint8_t byte) {
    const Scanner::State known =
        from < table_.states ? in_table(from, table_.column_of[byte]) : Scanner::kUnknown;
    if (known != Scanner::kUnknown) return known;
    const Scanner::State next = scanner_.step(from, byte);
    table_ = scanner_.table();
    return next;
  }
  std::optional<Scanner::State> common(Scanner::State from) {
    const Scanner::State known =
        from < table_.states ? in_table(from, table_.columns - 1) : Scanner::kUnknown;
    if (known != Scanner::kUnknown) return known;
    const std::optional<Scanner::State> next = scanner_.step_common(from);
    table_ = scanner_.table();
    return next;
  }
  [[nodiscard]] const Scanner::Table& table() const { return table_; }

 private:
  [[nodiscard]] Scanner::State in_table(Scanner::State from, std::uint32_t column) const {
    return table_.next[std::size_t{from} * table_.columns + column];
  }

  Scanner& scanner_;
  Scanner::Table table_;
};

// Whether a scanner continues with whatever comes below a node, as far as it is known.
class Absorbing {
 public:
  explicit Absorbing(Scanner& scanner) : scanner_(scanner) {}

  bool operator()(Scanner::State state, std::uint16_t plain_height) {
    if (plain_height == 0 || plain_height == VocabIndex::kOthers) return false;
    if (state >= kMostKept) return scanner_.absorbs(state) >= plain_height;
    if (state >= known_.size()) known_.resize(2 * state + 64, kUnknown);
    std::uint32_t& known = known_[state];
    if (known == kUnknown) known = std::min(scanner_.absorbs(state), kUnknown - 1);
    return known >= plain_height;
  }

 private:
  static constexpr Scanner::State kMostKept = 100'000;
  static constexpr std::uint32_t kUnknown = ~0U;

  Scanner& scanner_;
  std::vector<std::uint32_t> known_;  // by state
};

// Whether a scanner continues with all tokens below a node of the vocabulary's own trie, by their
// characters.
class FreeBelow {
 public:
  FreeBelow(Scanner& scanner, VocabIndex& index, const TokenTrie& trie)
      : scanner_(scanner),
        absorbs_all_(scanner),
        is_own_(&trie == &index.vocab().trie()),
        below_(index.characters_below().data()),
        heights_(index.plain_heights().data()) {}

  // `nodes`: how many there are below the node.
  bool operator()(Scanner::State state, std::uint32_t node, std::uint32_t nodes) {
    constexpr std::uint32_t kFewNodes = 4;
    if (!is_own_ || nodes < kFewNodes || state >= kMostKept) return false;
    if (absorbs_all_(state, heights_[node])) return true;
    if (state >= known_.size()) known_.resize(2 * std::size_t{state} + 64, kUnknown);
    if (known_[state] == kUnknown) {
      const regex::Dfa::FreeText free = scanner_.free_text(state);
      known_[state] = VocabIndex::characters(free.ascii, free.has_common);
    }
    return (below_[node] & ~known_[state]) == 0;
  }
  // Whether a token has one of `characters` below the node.
  [[nodiscard]] bool has_below(std::uint32_t node, VocabIndex::Characters characters) const {
    return !is_own_ || (below_[node] & characters) != 0;
  }

 private:
  static constexpr Scanner::State kMostKept = 100'000;
  static constexpr VocabIndex::Characters kUnknown = ~VocabIndex::Characters{0};

  Scanner& scanner_;
  Absorbing absorbs_all_;
  bool is_own_;  // the trie is the vocabulary's own
  const VocabIndex::Characters* below_;
  const std::uint16_t* heights_;
  std::vector<VocabIndex::Characters> known_;  // by state
};

}  // namespace

MaskBuilder::MaskBuilder(Machine& machine, std::shared_ptr<VocabIndex> index)
    : machine_(machine),
      index_(std::move(index)),
      words_(mask_words(index_->vocab().size())),
      path_(index_->vocab().trie().max_depth() + 1, 0),
      places_(index_->vocab().trie().max_depth() + 1) {}

MaskBuilder::~MaskBuilder() = default;

void MaskBuilder::fill(StateId state, std::string_view text, std::span<std::uint32_t> mask) {
  bool is_first = true;
  const auto add = [&](const TokenSet& part) {
    if (is_first) {
      part.copy_to(mask);
    } else {
      part.add_to(mask);
    }
    is_first = false;
  };
  // By index, because cells_of() moves when masks make new states.
  const std::size_t count = machine_.cells_of(state).size();
  constexpr std::size_t kWordsPerStep = 256;
  bool has_covered = false;
  bool depends_on_text = false;
  for (std::size_t i = 0; i < count && !machine_.error(); ++i) {
    machine_.add_work(1 + words_ / kWordsPerStep);
    const CellId cell = machine_.cells_of(state)[i];
    if (cell == 0) continue;
    if (is_covered(cell)) {
      has_covered = true;
      continue;
    }
    const CellMask& part = cell_mask(cell, text);
    depends_on_text = depends_on_text || &part == loose_.get();
    if (part.inside != nullptr) add(*part.inside);
    add(part.others);
  }
  if (is_first) std::ranges::fill(mask, 0U);
  if (has_covered && !machine_.error()) add_covered(state, text, mask, !depends_on_text);
  if (machine_.is_accepting(state)) {
    for (const TokenId end : index_->vocab().ends()) set_bit(mask, end);
  }
}

bool MaskBuilder::is_covered(CellId cell) const {
  const auto lexeme = machine_.lexeme(cell);
  return lexeme && lexeme->scanner->is_covered();
}

// Adds the tokens that lead out of covered lexemes. Nearly all tokens can be read in the covering
// one and are in `mask`, so few are left to look at: 0.1 to 0.6 ms for the four lexemes of 100
// tools in other forms, where each walked all tokens before (Llama-3, a load of 14, 2026-11-30).
// They are kept for the state if `mask` would be the same after any text.
void MaskBuilder::add_covered(StateId state, std::string_view text, std::span<std::uint32_t> mask,
                              bool is_kept) {
  const std::uint32_t known = covered_by_state_.find(state);
  if (known != IntMap::kNone) return covered_[known].add_to(mask);
  const auto span = machine_.cells_of(state);
  std::vector<CellId> cells(span.begin(), span.end());
  std::erase_if(cells, [&](CellId cell) { return cell == 0 || !is_covered(cell); });
  regex::ByteSet bytes;
  for (const CellId cell : cells) bytes |= bytes_of_way_out(cell, *machine_.lexeme(cell));
  const std::optional<TokenTrie> beside = tokens_beside(mask, bytes);
  if (!beside) {
    for (const CellId cell : cells) {
      if (!machine_.error()) cell_mask(cell, text).others.add_to(mask);
    }
    return;
  }
  begin_walks(text);
  Walk walk{*beside, found_, true};
  walk.is_kept = false;
  for (const CellId cell : cells) walk_lexeme(walk, 0, cell, *machine_.lexeme(cell), false);
  TokenSet found(found_, words_);
  found.add_to(mask);
  if (!is_kept || walk.asked || machine_.error()) return;
  kept_bytes_ += sizeof(TokenSet) + found.memory_bytes();
  covered_by_state_.insert(state, static_cast<std::uint32_t>(covered_.size()));
  covered_.push_back(std::move(found));
}

// The trie of the text tokens that are not in `mask` and have one of `bytes`. Nothing if there are
// more than kMost: walking all tokens then costs no more.
std::optional<TokenTrie> MaskBuilder::tokens_beside(std::span<const std::uint32_t> mask,
                                                    const regex::ByteSet& bytes) {
  constexpr int kMost = 4096;
  const std::vector<std::uint32_t>& texts = index_->text_tokens();
  int count = 0;
  for (std::size_t word = 0; word < words_; ++word)
    count += std::popcount(texts[word] & ~mask[word]);
  if (count > kMost) return std::nullopt;
  std::vector<TokenTrie::Entry> entries;
  for (std::size_t word = 0; word < words_; ++word) {
    for (std::uint32_t left = texts[word] & ~mask[word]; left != 0; left &= left - 1) {
      const auto token =
          static_cast<TokenId>(32 * word + static_cast<std::size_t>(std::countr_zero(left)));
      const std::string_view text = index_->vocab().bytes(token);
      const bool has_one = std::ranges::any_of(
          text, [&](char byte) { return bytes.contains(static_cast<std::uint8_t>(byte)); });
      if (has_one) entries.push_back({text, token});
    }
  }
  machine_.add_walked(entries.size());
  return TokenTrie(std::move(entries));
}

// `text` led to the cells that are walked from now on.
void MaskBuilder::begin_walks(std::string_view text) {
  text_ = text;
  walked_has_text_ = false;
  found_.clear();
}

const MaskBuilder::CellMask& MaskBuilder::cell_mask(CellId cell, std::string_view text) {
  const std::uint32_t known = by_cell_.find(cell);
  if (known != IntMap::kNone) return *cell_masks_[known];

  auto mask = std::make_unique<CellMask>();
  begin_walks(text);
  Walk whole{index_->vocab().trie(), found_, true};
  bool asked = false;
  if (const TokenSet* const tokens = machine_.tokens(cell)) {
    mask->inside = tokens;
  } else if (const auto lexeme = machine_.lexeme(cell); lexeme && lexeme->scanner->is_covered()) {
    asked = walk_out(cell, *lexeme);
  } else if (lexeme) {
    const LexemeMask& parts = lexeme_mask(*lexeme);
    const StateId after = machine_.resumed(machine_.cell(cell).parent);
    const Scanner::Border border = lexeme->scanner->border(lexeme->state);
    // Then each token that ends the lexeme is checked by itself.
    const bool must_ask = border == Scanner::Border::none && machine_.has_questions(after);
    if (after != 0 && !must_ask) mask->inside = parts.inside.get();
    if (after != 0 && !add_border(parts, *lexeme, cell)) {
      asked = walk_beyond(parts, after, cell, *lexeme, must_ask);
    }
  } else {
    const StateId state = machine_.state_of(cell);
    walk_untangled(whole, state, [&] { walk(whole, 0, state); });
    asked = whole.asked;
  }
  mask->others = TokenSet(found_, words_);
  if (asked) {
    loose_ = std::move(mask);
    return *loose_;
  }
  kept_bytes_ += sizeof(CellMask) + mask->others.memory_bytes();
  by_cell_.insert(cell, static_cast<std::uint32_t>(cell_masks_.size()));
  cell_masks_.push_back(std::move(mask));
  return *cell_masks_.back();
}

// ---- Within a lexeme ----------------------------------------------------------------------------

// Adds the tokens that leave the lexeme for what comes `after` it. Tokens that stay within it are
// known, so only tokens with a byte that can come after matter: those with a quote, for example.
bool MaskBuilder::walk_beyond(const LexemeMask& mask, StateId after, CellId cell,
                              const Frame::Lexeme& lexeme, bool with_inside) {
  regex::ByteSet bytes = regex::ByteSet::all();
  if (lexeme.scanner->border(lexeme.state) == Scanner::Border::quote) {
    bytes = regex::ByteSet::of('"');
  } else if (!with_inside && !machine_.has_questions(after)) {
    bytes = machine_.readable(after);
  }
  if (!with_inside) {
    scratch_.assign(words_, 0);
    mask.inside->add_to(scratch_);
    const std::optional<TokenTrie> beside = tokens_beside(scratch_, bytes);
    std::vector<std::uint32_t>().swap(scratch_);
    if (beside) {
      Walk walk{*beside, found_, true};
      walk.is_kept = false;
      walk_untangled(walk, machine_.state_of(cell),
                     [&] { walk_lexeme(walk, 0, cell, lexeme, false); });
      return walk.asked;
    }
  }
  return walk_with(bytes, cell, lexeme, with_inside);
}

// The bytes of which a token has one if it leads out of a lexeme whose inside is not needed: all
// that end it, or all that can come after.
regex::ByteSet MaskBuilder::bytes_of_way_out(CellId cell, const Frame::Lexeme& lexeme) {
  const StateId after = machine_.resumed(machine_.cell(cell).parent);
  if (after == 0) return {};
  const regex::ByteSet bytes = lexeme.scanner->last_bytes();
  if (machine_.has_questions(after)) return bytes;
  const regex::ByteSet next = machine_.readable(after);
  return next.size() < bytes.size() ? next : bytes;
}

bool MaskBuilder::walk_out(CellId cell, const Frame::Lexeme& lexeme) {
  return walk_with(bytes_of_way_out(cell, lexeme), cell, lexeme, false);
}

// Searches the tokens with one of `bytes`, which must include all tokens that are wanted.
bool MaskBuilder::walk_with(const regex::ByteSet& bytes, CellId cell, const Frame::Lexeme& lexeme,
                            bool with_inside) {
  constexpr std::size_t kFewBytes = 4;
  const auto walk_one = [&](Walk& walk) {
    walk_untangled(walk, machine_.state_of(cell),
                   [&] { walk_lexeme(walk, 0, cell, lexeme, with_inside); });
  };
  if (bytes.size() > kFewBytes) {
    Walk whole{index_->vocab().trie(), found_, true};
    walk_one(whole);
    return whole.asked;
  }
  bool asked = false;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!bytes.contains(static_cast<std::uint8_t>(byte))) continue;
    Walk part{index_->containing(static_cast<std::uint8_t>(byte)), found_, true};
    walk_one(part);
    asked = asked || part.asked;
  }
  return asked;
}

const MaskBuilder::LexemeMask& MaskBuilder::lexeme_mask(const Frame::Lexeme& lexeme) {
  ScannerCache& cache = scanners_[lexeme.scanner];
  const std::uint32_t known = cache.by_state.find(lexeme.state);
  if (known != IntMap::kNone) return *lexeme_masks_[known];

  const Scanner::State base = lexeme.scanner->without_exclusions(lexeme.state);
  LexemeMask mask;
  if (base != lexeme.state) {
    mask = lexeme_mask({lexeme.scanner, base});
    mask.has_exclusions = true;
  } else {
    mask.inside = find_inside(lexeme);
    switch (lexeme.scanner->border(base)) {
      case Scanner::Border::none:
        break;
      case Scanner::Border::quote:
        mask.border = &index_->quotes();
        break;
      case Scanner::Border::alphabet:
        if (cache.alphabet == nullptr) cache.alphabet = &index_->border(lexeme.scanner->alphabet());
        mask.border = cache.alphabet;
        break;
    }
    if (mask.border != nullptr) mask.closing = find_closing(lexeme, *mask.border);
  }
  kept_bytes_ += sizeof(LexemeMask);
  scanners_[lexeme.scanner].by_state.insert(lexeme.state,
                                            static_cast<std::uint32_t>(lexeme_masks_.size()));
  lexeme_masks_.push_back(std::make_unique<const LexemeMask>(std::move(mask)));
  return *lexeme_masks_.back();
}

Scanner::Ways MaskBuilder::ways_of(const Frame::Lexeme& lexeme, bool may_guess) const {
  return lexeme.scanner->ways(lexeme.state, index_->vocab().trie().max_depth(), may_guess);
}

// A guess may be refused after the walk; the second way is not a guess.
std::shared_ptr<const TokenSet> MaskBuilder::find_inside(const Frame::Lexeme& lexeme) {
  if (auto guessed = try_inside(lexeme, ways_of(lexeme, true).inside)) return guessed;
  return try_inside(lexeme, ways_of(lexeme, false).inside);
}

// Null: the way was a guess, and it was wrong.
std::shared_ptr<const TokenSet> MaskBuilder::try_inside(const Frame::Lexeme& lexeme,
                                                        const Scanner::Way& way) {
  if (auto known = known_inside(way.key)) return known;
  const std::shared_ptr<const TokenSet> short_tokens = find_inside_of_short(lexeme, way);
  scratch_.assign(words_, 0);
  if (short_tokens != nullptr) {
    const TokenTrie& others = index_->long_tokens();
    short_tokens->add_to(scratch_);
    for (const TokenId token : others.tokens_below(0)) clear_bit(scratch_, token);
    scan(others, lexeme, kAllNodes);
  } else if (!walk_inside(lexeme, way)) {
    return nullptr;
  }
  return take_inside(way.key);
}

std::shared_ptr<const TokenSet> MaskBuilder::known_inside(const regex::Fingerprint& key) {
  return key == regex::Fingerprint{} ? nullptr : index_->insides().find(key);
}

// Adds all tokens of the way to scratch_. False: it was a guess, and it was wrong.
bool MaskBuilder::walk_inside(const Frame::Lexeme& lexeme, const Scanner::Way& way) {
  const auto at = lexeme.scanner->begin(way);
  if (!at) return true;  // a limit was reached; the result does not matter
  // A guess is judged by the states that its walk meets, so it needs a whole one.
  const bool has_others = at->scanner == lexeme.scanner && !way.is_guess;
  if (has_others && scan_difference({at->scanner, at->state})) return true;
  add_inside({at->scanner, at->state});
  if (has_others && is_whole()) {
    ScannerCache& cache = scanners_[at->scanner];
    cache.walked = at->state;
    cache.inside_of_walked = std::make_shared<const TokenSet>(scratch_);
    kept_bytes_ += sizeof(TokenSet) + cache.inside_of_walked->memory_bytes();
  }
  return lexeme.scanner->confirms(way, *at);
}

// Where two states of a lexeme are equal after a byte or two, as in free text with stops, their
// tokens differ little. Adds those of another state of which they are known, and walks only as far
// as the two differ. False: there is no such state, or they differ for too long.
bool MaskBuilder::scan_difference(const Frame::Lexeme& lexeme) {
  // A walk over all tokens of a large vocabulary has hundreds of thousands of nodes.
  constexpr std::uint32_t kMostNodes = 4096;
  constexpr int kMostFailures = 2;  // after which the scanner's states are taken for too different
  ScannerCache& cache = scanners_[lexeme.scanner];
  if (cache.inside_of_walked == nullptr || cache.failures == kMostFailures) return false;
  Scanner& scanner = *lexeme.scanner;
  // A border decides which tokens are inside, so equal states say nothing under another one.
  if (scanner.border(cache.walked) != scanner.border(lexeme.state)) return false;
  const TokenTrie& trie = index_->vocab().trie();
  const bool ends_inside = scanner.border(lexeme.state) != Scanner::Border::quote;
  cache.inside_of_walked->copy_to(scratch_);
  std::vector<std::pair<Scanner::State, Scanner::State>> path(trie.max_depth() + 1);
  path[0] = {lexeme.state, cache.walked};
  Steps steps(scanner);
  const auto stepped = [&](Scanner::State from, std::uint8_t byte) {
    return from == Scanner::kDead ? Scanner::kDead : steps(from, byte);
  };
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.node_count() && visited <= kMostNodes; ++visited) {
    const std::uint16_t depth = trie.depth(node);
    const auto [here, there] = path[depth - 1U];
    const Scanner::State state = stepped(here, trie.symbol(node));
    const Scanner::State known = stepped(there, trie.symbol(node));
    if (state == known) {
      node = trie.end_of(node);
    } else if (state == Scanner::kDead) {
      for (const TokenId token : trie.tokens_below(node)) clear_bit(scratch_, token);
      node = trie.end_of(node);
    } else {
      const bool is_inside = ends_inside || !scanner.is_final(state);
      for (const TokenId token : trie.tokens_at(node)) {
        if (is_inside) {
          set_bit(scratch_, token);
        } else {
          clear_bit(scratch_, token);
        }
      }
      path[depth] = {state, known};
      ++node;
    }
  }
  machine_.add_walked(visited);
  if (visited <= kMostNodes) {
    cache.failures = 0;
    return true;
  }
  ++cache.failures;
  std::ranges::fill(scratch_, 0U);
  return false;
}

// The set in scratch_; kept for all grammars if it has a key.
std::shared_ptr<const TokenSet> MaskBuilder::take_inside(const regex::Fingerprint& key) {
  auto inside = std::make_shared<const TokenSet>(scratch_);
  std::vector<std::uint32_t>().swap(scratch_);  // so that small grammars stay small
  if (key != regex::Fingerprint{} && is_whole()) {
    index_->insides().keep(key, inside, inside->memory_bytes());
  } else {
    kept_bytes_ += inside->memory_bytes();
  }
  return inside;
}

// Near the upper limit of a count only long tokens reach that limit; the mask of short tokens is
// known from another state, or soon will be. Null if it is not so here.
std::shared_ptr<const TokenSet> MaskBuilder::find_inside_of_short(const Frame::Lexeme& lexeme,
                                                                  const Scanner::Way& of_all) {
  constexpr std::uint32_t kShort = VocabIndex::kShort;
  if (index_->vocab().trie().max_depth() <= kShort) return nullptr;
  const Scanner::Way of_short = lexeme.scanner->ways(lexeme.state, kShort, true).inside;
  if (!of_short.instead || of_short.key == of_all.key || of_short.key == regex::Fingerprint{}) {
    return nullptr;
  }
  if (auto known = known_inside(of_short.key)) return known;
  scratch_.assign(words_, 0);
  return walk_inside(lexeme, of_short) ? take_inside(of_short.key) : nullptr;
}

// Adds the tokens after which the lexeme may continue.
void MaskBuilder::add_inside(const Frame::Lexeme& lexeme) {
  if (scan_all_but(lexeme)) return;
  Scanner& scanner = *lexeme.scanner;
  const TokenTrie& whole = index_->vocab().trie();
  const auto classes = scanner.classes(lexeme.state);
  int letters = 0;
  if (classes) {
    for (std::uint8_t c = 'a'; c <= 'z'; ++c) {
      if (scanner.step(lexeme.state, c) != Scanner::kDead) ++letters;
    }
  }
  if (!classes || letters < kManyLetters) {
    if (scan(whole, lexeme, classes ? kNodesByBytes : kAllNodes)) return;
    std::ranges::fill(scratch_, 0U);
  }
  const auto scan_by = [&](const ByteClasses& by) {
    const auto quotient = index_->quotient(by);
    return quotient != nullptr && scan(*quotient, lexeme);
  };
  bool is_done = scan_by(*classes);
  if (!is_done && classes->of[TokenTrie::kUnit] != ByteClasses::kNone) {
    // Common characters make a difference here.
    std::ranges::fill(scratch_, 0U);
    ByteClasses by_bytes = *classes;
    by_bytes.of[TokenTrie::kUnit] = ByteClasses::kNone;
    is_done = scan_by(by_bytes);
  }
  if (!is_done && refuses_most(lexeme)) {
    std::ranges::fill(scratch_, 0U);
    scan(whole, lexeme, kAllNodes);
    return;
  }
  if (!is_done && !scan_ascii_apart(lexeme, *classes)) {
    if (!scan_exceptions(lexeme, whole)) scan(whole, lexeme, kAllNodes);
    return;
  }
  if (const int rare = scanner.rare_byte(); rare >= 0) {
    scan(index_->containing(static_cast<std::uint8_t>(rare)), lexeme, kAllNodes);
  }
}

// Adds the tokens of `trie` after which the lexeme may continue. False if the walk was given up.
bool MaskBuilder::scan(const TokenTrie& trie, const Frame::Lexeme& lexeme,
                       std::uint32_t max_nodes) {
  Scanner& scanner = *lexeme.scanner;
  path_[0] = lexeme.state;
  Steps steps(scanner);
  std::uint32_t visited = 0;
  // For other borders, a token that is the rest of the lexeme leaves nothing for what comes after.
  const bool ends_inside = scanner.border(lexeme.state) != Scanner::Border::quote;
  FreeBelow is_free(scanner, *index_, trie);
  const auto visit = [&](std::uint32_t node, Scanner::State state) {
    ++visited;
    if (is_free(state, node, trie.end_of(node) - node - 1)) {
      for (const TokenId token : trie.tokens_below(node)) set_bit(scratch_, token);
      return false;
    }
    if (ends_inside || !scanner.is_final(state)) {
      for (const TokenId token : trie.tokens_at(node)) set_bit(scratch_, token);
    }
    return true;
  };
  descend_from(
      trie, 0, scanner.alphabet(), path_,
      [&](Scanner::State from, std::uint8_t byte) {
        return visited <= max_nodes ? steps(from, byte) : Scanner::kDead;
      },
      visit);
  machine_.add_walked(visited);
  return visited <= max_nodes;
}

// If every text continues unless it has one of a few bytes, only tokens with these bytes are looked
// at.
bool MaskBuilder::scan_all_but(const Frame::Lexeme& lexeme) {
  constexpr std::size_t kFewBytes = 16;
  const auto all_but = lexeme.scanner->as_all_but(lexeme.state);
  if (!all_but || all_but->signs.size() > kFewBytes) return false;
  // Letters are in too many tokens.
  std::size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto each = static_cast<std::uint8_t>(byte);
    if (all_but->signs.contains(each)) count += index_->count_with(each);
  }
  if (count > index_->vocab().trie().tokens_below(0).size() / 4) return false;
  const auto all = lexeme_mask({all_but->text.scanner, all_but->text.state}).inside;
  scratch_.assign(words_, 0);
  all->add_to(scratch_);
  const auto for_each_trie = [&](auto f) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto each = static_cast<std::uint8_t>(byte);
      if (all_but->signs.contains(each)) f(index_->containing(each));
    }
  };
  for_each_trie([&](const TokenTrie& trie) {
    for (const TokenId token : trie.tokens_below(0)) clear_bit(scratch_, token);
  });
  for_each_trie([&](const TokenTrie& trie) { scan(trie, lexeme, kAllNodes); });
  return true;
}

// Characters beyond ASCII make a difference here, and so do their bytes: tokens with such bytes are
// looked at one by one, all others by classes. \p{L}{1,40}(?: \p{L}{1,40}){0,5} on Llama-3's
// vocabulary: 10.6 ms a mask by the bytes of all tokens, 8.2 ms this way (release, 2 cores,
// 2026-11-29). False: the ASCII bytes that make a difference have no classes.
bool MaskBuilder::scan_ascii_apart(const Frame::Lexeme& lexeme, const ByteClasses& classes) {
  ByteClasses ascii = classes;
  for (std::size_t byte = 0x80; byte < ascii.of.size(); ++byte) ascii.of[byte] = ByteClasses::kNone;
  const auto quotient = index_->quotient(ascii);
  if (quotient == nullptr) return false;
  const TokenTrie& beyond = index_->beyond_ascii();
  std::ranges::fill(scratch_, 0U);
  if (!scan_exceptions(lexeme, beyond)) scan(beyond, lexeme, kAllNodes);
  return scan(*quotient, lexeme, &ascii);
}

// Decided by the first byte.
bool MaskBuilder::refuses_most(const Frame::Lexeme& lexeme) {
  const TokenTrie& trie = index_->vocab().trie();
  std::size_t refused = 0;
  for (std::uint32_t child = 1; child < trie.node_count(); child = trie.end_of(child)) {
    if (lexeme.scanner->step(lexeme.state, trie.symbol(child)) == Scanner::kDead) {
      refused += trie.tokens_below(child).size();
    }
  }
  return refused > trie.tokens_below(0).size() / 2;
}

// The same from the other side: the tokens of any text without those that do not continue here.
// Where anything may follow, nothing is looked at. False: this is not a string, or it is one of any
// text.
bool MaskBuilder::scan_exceptions(const Frame::Lexeme& lexeme, const TokenTrie& trie) {
  Scanner& scanner = *lexeme.scanner;
  if (scanner.is_any_text(lexeme.state)) return false;
  const auto any_text = scanner.any_text();
  if (!any_text) return false;
  const auto all = lexeme_mask({any_text->scanner, any_text->state}).inside;
  scratch_.assign(words_, 0);
  all->add_to(scratch_);
  const bool is_whole_trie = &trie == &index_->vocab().trie();
  if (!is_whole_trie) {
    const std::vector<std::uint32_t> of_any_text =
        std::exchange(scratch_, std::vector<std::uint32_t>(words_));
    for (const TokenId token : trie.tokens_below(0)) {
      if ((of_any_text[static_cast<std::size_t>(token) / 32] >> token % 32 & 1U) != 0)
        set_bit(scratch_, token);
    }
  }
  enum class Fate : std::uint8_t { unknown, settled, open };
  std::vector<Fate> fates;  // by state of the table
  Steps steps(scanner);
  FreeBelow is_free(scanner, *index_, trie);
  const auto is_settled = [&](Scanner::State state) {
    if (state >= steps.table().states) return scanner.is_final(state);
    if (state >= fates.size()) fates.resize(steps.table().states, Fate::unknown);
    Fate& fate = fates[state];
    if (fate == Fate::unknown) fate = scanner.is_any_text(state) ? Fate::settled : Fate::open;
    return fate == Fate::settled;
  };
  path_[0] = lexeme.state;
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.node_count(); ++visited) {
    const std::uint16_t depth = trie.depth(node);
    const Scanner::State state = steps(path_[depth - 1U], trie.symbol(node));
    if (state == Scanner::kDead) {
      for (const TokenId token : trie.tokens_below(node)) clear_bit(scratch_, token);
      node = trie.end_of(node);
    } else {
      path_[depth] = state;
      const bool is_skipped =
          is_settled(state) || is_free(state, node, trie.end_of(node) - node - 1);
      node = is_skipped ? trie.end_of(node) : node + 1;
    }
  }
  machine_.add_walked(visited);
  return true;
}

// The same by classes of bytes. False: characters that are one unit in the classes make a
// difference here. `only`: only tokens that have a class there.
bool MaskBuilder::scan(const VocabIndex::Quotient& quotient, const Frame::Lexeme& lexeme,
                       const ByteClasses* only) {
  Scanner& scanner = *lexeme.scanner;
  const TokenTrie& trie = quotient.trie;
  const bool ends_inside = scanner.border(lexeme.state) != Scanner::Border::quote;
  path_[0] = lexeme.state;
  Steps steps(scanner);
  Absorbing absorbs_all(scanner);
  bool is_told_apart = false;
  std::uint32_t visited = 0;
  descend(
      trie, 1, trie.node_count(), path_,
      [&](Scanner::State from, std::uint8_t symbol) {
        const std::uint8_t byte = quotient.representative[symbol];
        if (only != nullptr && only->of[byte] == ByteClasses::kNone) return Scanner::kDead;
        if (byte != TokenTrie::kUnit) return steps(from, byte);
        const auto next = steps.common(from);
        is_told_apart = is_told_apart || !next;
        return next.value_or(Scanner::kDead);
      },
      [&](std::uint32_t node, Scanner::State state) {
        ++visited;
        if (scanner.is_final(state) && !ends_inside) return true;
        if (absorbs_all(state, quotient.plain_heights[node])) {
          for (const TokenId token : trie.tokens_below(node)) set_bit(scratch_, token);
          return false;
        }
        const auto tokens = trie.tokens_at(node);
        if (tokens.size() >= VocabIndex::Quotient::kManyTokens) {
          quotient.large.at(node).add_to(scratch_);
        } else {
          for (const TokenId token : tokens) set_bit(scratch_, token);
        }
        return true;
      });
  machine_.add_walked(visited);
  return !is_told_apart;
}

// ---- Where a lexeme ends ------------------------------------------------------------------------

// The tokens of the border whose first part ends the lexeme. As in find_inside(), the second way is
// not a guess.
std::shared_ptr<const MaskBuilder::Bits> MaskBuilder::find_closing(const Frame::Lexeme& lexeme,
                                                                   const Border& border) {
  if (auto guessed = try_closing(lexeme, border, ways_of(lexeme, true).whole)) return guessed;
  return try_closing(lexeme, border, ways_of(lexeme, false).whole);
}

// Null: the way was a guess, and it was wrong.
std::shared_ptr<const MaskBuilder::Bits> MaskBuilder::try_closing(const Frame::Lexeme& lexeme,
                                                                  const Border& border,
                                                                  const Scanner::Way& way) {
  const bool has_key = way.key != regex::Fingerprint{};
  if (has_key) {
    if (auto known = index_->closings().find({way.key, &border})) return known;
  }
  auto bits = std::make_shared<Bits>((border.tokens.size() + 63) / 64, 0);
  const auto add = [&](std::uint32_t i) { (*bits)[i / 64] |= std::uint64_t{1} << i % 64; };
  const auto begun = lexeme.scanner->begin(way);
  if (!begun) return bits;  // a limit was reached; the result does not matter
  const Scanner::At at = *begun;
  Scanner& scanner = *at.scanner;
  const bool at_quote = scanner.border(at.state) == Scanner::Border::quote;
  Steps steps(scanner);
  const auto closes = [&](Scanner::State state) {
    return at_quote ? steps(state, '"') != Scanner::kDead : scanner.is_accepting(state);
  };
  if (!border.at_once.empty() && closes(at.state)) std::ranges::for_each(border.at_once, add);
  // The rest of an escape may stand for so many bytes more than it has.
  constexpr std::uint32_t kMostInEscape = 4;
  path_[0] = at.state;
  std::uint32_t visited = 0;
  descend(
      border.before, 1, border.before.node_count(), path_,
      [&](Scanner::State from, std::uint8_t byte) { return steps(from, byte); },
      [&](std::uint32_t node, Scanner::State state) {
        ++visited;
        // No text below is long enough to reach the end.
        if (scanner.least(state) > border.height[node] + kMostInEscape) return false;
        const auto tokens = border.before.tokens_at(node);
        if (!tokens.empty() && closes(state)) {
          for (const TokenId i : tokens) add(static_cast<std::uint32_t>(i));
        }
        return true;
      });
  machine_.add_walked(visited);
  if (!lexeme.scanner->confirms(way, at)) return nullptr;
  const std::size_t bytes = bits->capacity() * sizeof(std::uint64_t);
  if (has_key && is_whole()) {
    index_->closings().keep({way.key, &border}, bits, bytes);
  } else {
    kept_bytes_ += bytes;
  }
  return bits;
}

// Adds the tokens that leave the lexeme, put together from their two parts. False: this method does
// not work here.
bool MaskBuilder::add_border(const LexemeMask& mask, const Frame::Lexeme& lexeme, CellId cell) {
  if (mask.border == nullptr) return false;
  const StateId after = machine_.resumed(machine_.cell(cell).parent);
  const Rests& second = rests(*mask.border, *lexeme.scanner, after);
  if (!second.is_known) return false;
  Scanner& scanner = *lexeme.scanner;
  const bool at_quote = scanner.border(lexeme.state) == Scanner::Border::quote;
  const auto is_excluded = [&](std::uint32_t i) {
    Scanner::State state = lexeme.state;
    const std::string_view bytes = index_->vocab().bytes(mask.border->tokens[i]);
    for (const char byte : bytes.substr(0, mask.border->split[i])) {
      state = scanner.step(state, static_cast<std::uint8_t>(byte));
      if (state == Scanner::kDead) return true;
    }
    return !at_quote && !scanner.is_accepting(state);
  };
  // A token is allowed if both of its parts are: the list says it of the second part, and the bits
  // say it of the first.
  for (const std::uint32_t i : second.tokens) {
    if (((*mask.closing)[i / 64] >> i % 64 & 1U) == 0) continue;
    if (mask.has_exclusions && is_excluded(i)) continue;
    found_.push_back(mask.border->tokens[i]);
  }
  return true;
}

// The tokens whose second part can come in `state`, whatever lexeme was before it. Kept by border
// and state, so all strings that are followed by the same share them.
const MaskBuilder::Rests& MaskBuilder::rests(const Border& border, const Scanner& scanner,
                                             StateId state) {
  IntMap& by_state = by_rest_state_[&border];
  const std::uint32_t known = by_state.find(state);
  if (known != IntMap::kNone) return *rests_[known];
  by_state.insert(state, static_cast<std::uint32_t>(rests_.size()));

  auto result = std::make_unique<Rests>();
  if (machine_.has_questions(state)) {
    result->is_known = false;
  } else if (&border != &index_->quotes()) {
    // If the second part may begin like the first, more than one place may be the border.
    const regex::ByteSet alphabet = scanner.alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (alphabet.contains(static_cast<std::uint8_t>(byte)) &&
          machine_.step(state, static_cast<std::uint8_t>(byte)) != 0) {
        result->is_known = false;
      }
    }
  }
  if (result->is_known) {
    std::vector<TokenId> numbers;
    Walk second{border.after, numbers, false};
    walk(second, 0, state);
    result->is_known = !second.asked;
    const auto add = [&](std::size_t number) {
      const auto indices = border.with_rest(number);
      result->tokens.insert(result->tokens.end(), indices.begin(), indices.end());
    };
    add(Border::kNoRest);
    for (const TokenId number : numbers) add(static_cast<std::size_t>(number));
    std::ranges::sort(result->tokens);
    const auto repeated = std::ranges::unique(result->tokens);
    result->tokens.erase(repeated.begin(), repeated.end());
    result->tokens.shrink_to_fit();
  }
  kept_bytes_ += sizeof(Rests) + result->tokens.capacity() * sizeof(std::uint32_t);
  rests_.push_back(std::move(result));
  return *rests_.back();
}

// ---- By the machine -----------------------------------------------------------------------------

StateId MaskBuilder::answered(Walk& walk, StateId state, std::uint32_t node) {
  if (!machine_.has_questions(state)) return state;
  walk.asked = true;
  if (!walk.may_ask) return 0;
  if (!std::exchange(walked_has_text_, true)) walked_ = text_;
  walked_.resize(text_.size());
  const TokenId token = walk.trie.tokens_below(node)[0];
  walked_ += index_->vocab().bytes(token).substr(0, walk.trie.depth(node));
  return machine_.answer(state, walked_);
}

// Finds the tokens below `root` that the machine reads from `state` on. Lexemes are read by their
// scanners, whose states other cells share, everything else by the machine. True: these are all
// tokens below `root`, so there is nothing more to find there.
bool MaskBuilder::walk(Walk& walk, std::uint32_t root, StateId state) {
  const TokenTrie& trie = walk.trie;
  if (state == 0 || trie.end_of(root) == root + 1) return false;
  if (machine_.has_lexeme(state)) {
    const auto span = machine_.cells_of(state);
    const std::vector<CellId> cells(span.begin(), span.end());
    std::vector<CellId> rest;
    machine_.add_work(cells.size());
    for (const CellId cell : cells) {
      if (is_stopped(walk)) return false;
      if (const auto lexeme = machine_.lexeme(cell)) {
        if (walk_lexeme(walk, root, cell, *lexeme, true)) return true;
      } else if (cell != 0) {
        rest.push_back(cell);
      }
    }
    if (rest.empty()) return false;
    state = machine_.state_of(rest);
  }
  Place& place = places_[trie.depth(root)];
  place = {state, machine_.readable(state)};
  if (root != 0) {
    walk_nodes(walk, root + 1, trie.end_of(root));
    return false;
  }
  const regex::ByteSet readable = place.readable;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!readable.contains(static_cast<std::uint8_t>(byte))) continue;
    const std::uint32_t child = trie.child_of_root(static_cast<std::uint8_t>(byte));
    if (child != 0) walk_nodes(walk, child, trie.end_of(child));
  }
  return false;
}

void MaskBuilder::walk_nodes(Walk& walk, std::uint32_t begin, std::uint32_t end) {
  const TokenTrie& trie = walk.trie;
  for (std::uint32_t node = begin; node < end && !is_stopped(walk);) {
    const std::uint16_t depth = trie.depth(node);
    const Place& from = places_[depth - 1U];
    const std::uint8_t byte = trie.symbol(node);
    const StateId next = from.readable.contains(byte)
                             ? answered(walk, machine_.step(from.state, byte), node)
                             : StateId{0};
    if (next == 0) {
      node = trie.end_of(node);
      continue;
    }
    const auto tokens = trie.tokens_at(node);
    walk.found.insert(walk.found.end(), tokens.begin(), tokens.end());
    if (trie.end_of(node) == node + 1) {
      ++node;
    } else if (machine_.has_lexeme(next)) {
      this->walk(walk, node, next);
      node = trie.end_of(node);
    } else {
      places_[depth] = {next, machine_.readable(next)};
      ++node;
    }
  }
}

// The same from inside the lexeme of `cell`. `with_inside`: also the tokens that stay inside it.
// Without, these are known to be in the mask, so a subtree in which all do is left out.
bool MaskBuilder::walk_lexeme(Walk& walk, std::uint32_t root, CellId cell,
                              const Frame::Lexeme& lexeme, bool with_inside) {
  const TokenTrie& trie = walk.trie;
  Scanner& scanner = *lexeme.scanner;
  const CellId parent = machine_.cell(cell).parent;
  const bool is_large = trie.end_of(root) - root > kLargeSubtree;
  if (with_inside && is_large && scanner.border(lexeme.state) == Scanner::Border::quote) {
    const Scanner::State base = scanner.without_exclusions(lexeme.state);
    const auto known = opening(trie, root, {&scanner, base}, walk.is_kept);
    walk.found.insert(walk.found.end(), known->inside.begin(), known->inside.end());
    machine_.add_work(1 + known->ends.size());
    for (const Opening::End& end : known->ends) {
      if (is_stopped(walk)) return false;
      Scanner::State state = lexeme.state;
      for (std::size_t i = 0; base != lexeme.state && i < end.text.size(); ++i) {
        if (state != Scanner::kDead) {
          state = scanner.step(state, static_cast<std::uint8_t>(end.text[i]));
        }
      }
      if (state == Scanner::kDead) continue;
      const StateId after = answered(walk, machine_.resumed(parent), end.node);
      if (after == 0) continue;
      const auto tokens = trie.tokens_at(end.node);
      walk.found.insert(walk.found.end(), tokens.begin(), tokens.end());
      this->walk(walk, end.node, after);
    }
    return false;
  }
  path_[trie.depth(root)] = lexeme.state;
  const regex::ByteSet alphabet = scanner.alphabet();
  machine_.add_work(1);
  std::uint32_t visited = 0;
  bool has_stopped = false;
  std::optional<FreeBelow> is_free;
  VocabIndex::Characters next = 0;  // one of these is in every token that ends the lexeme
  std::optional<Place> behind;      // what comes after, unless it depends on the text
  if (is_large) {
    const StateId after = machine_.resumed(parent);
    if (after != 0 && !machine_.has_questions(after)) {
      behind = {after, machine_.readable(after)};
      if (&trie == &index_->vocab().trie()) {
        is_free.emplace(scanner, *index_, trie);
        next = VocabIndex::characters_with(behind->readable);
      }
    }
  }
  // Whether all tokens below a node stay inside the lexeme.
  const auto finds_all = [&](std::uint32_t node, Scanner::State state) {
    if (!is_free || !(*is_free)(state, node, trie.end_of(node) - node - 1)) return false;
    if (with_inside) {
      const auto tokens = trie.tokens_below(node);
      walk.found.insert(walk.found.end(), tokens.begin(), tokens.end());
    }
    return true;
  };
  if (root != 0 && finds_all(root, lexeme.state)) return true;
  descend_from(
      trie, root, alphabet, path_,
      [&](Scanner::State from, std::uint8_t byte) {
        if (++visited % kNodesPerLook == 0) {
          machine_.add_work(kNodesPerLook / kNodesPerStep);
          if (walk.lexemes_ended > 0) walk.again += kNodesPerLook;
          has_stopped = is_stopped(walk);
        }
        return !has_stopped && alphabet.contains(byte) ? scanner.step(from, byte) : Scanner::kDead;
      },
      [&](std::uint32_t node, Scanner::State state) {
        const auto add = [&] {
          const auto tokens = trie.tokens_at(node);
          walk.found.insert(walk.found.end(), tokens.begin(), tokens.end());
        };
        if (finds_all(node, state)) return false;
        const bool is_final = scanner.is_final(state);
        if (with_inside && !is_final && !scanner.is_covered()) add();
        if (scanner.is_accepting(state)) {
          if (behind && !machine_.has_lexeme(behind->state)) {
            if (is_final) add();
            const bool may_end_below = !is_free || is_free->has_below(node, next);
            for (std::uint32_t child = node + 1; may_end_below && child < trie.end_of(node);
                 child = trie.end_of(child)) {
              if (!behind->readable.contains(trie.symbol(child))) continue;
              places_[trie.depth(node)] = *behind;
              walk_nodes(walk, child, trie.end_of(child));
            }
          } else if (const StateId after = answered(walk, machine_.resumed(parent), node)) {
            if (is_final) add();
            ++walk.lexemes_ended;
            walk.again += kNodesPerLexeme;
            const bool finds_rest = this->walk(walk, node, after);
            --walk.lexemes_ended;
            if (finds_rest) return false;
          }
        }
        return !is_final;
      });
  return false;
}

// A walk that follows each lexeme by itself goes over the same nodes again and again where one
// lexeme may end behind every character and another one begins there: that makes it tangled. All of
// them are then followed at once, as states of the machine, so that a node is visited once.
template <class ByLexemes>
void MaskBuilder::walk_untangled(Walk& walk, StateId state, const ByLexemes& by_lexemes) {
  const std::size_t before = walk.found.size();
  walk.may_tangle = true;
  by_lexemes();
  if (!walk.is_tangled()) return;
  walk.found.resize(before);
  if (walk_by_states(walk, state)) return;
  walk.found.resize(before);
  walk.may_tangle = false;
  by_lexemes();
}

// Finds the tokens that the machine reads from `start` on, by a table of its steps. False: the
// walk was given up, because lexemes have so many states that to make their sets costs too much.
bool MaskBuilder::walk_by_states(Walk& walk, StateId start) {
  constexpr std::uint32_t kDead = 0;
  constexpr std::uint32_t kUnknown = ~0U;
  constexpr std::uint32_t kMostSteps = 4096;
  struct Row {
    StateId state = 0;
    std::vector<std::pair<FreeBelow*, Scanner::State>> lexemes;  // that the state is in
    std::array<std::uint32_t, 256> next{};                       // rows, by byte
  };
  const TokenTrie& trie = walk.trie;
  std::unordered_map<const Scanner*, FreeBelow> free_below;
  std::vector<Row> rows(1);
  IntMap row_of_state;
  const auto row_of = [&](StateId state) {
    if (state == 0) return kDead;
    if (const auto known = row_of_state.find(state); known != IntMap::kNone) return known;
    const auto number = static_cast<std::uint32_t>(rows.size());
    row_of_state.insert(state, number);
    Row& row = rows.emplace_back();
    row.state = state;
    row.next.fill(kUnknown);
    for (const CellId cell : machine_.cells_of(state)) {
      const auto lexeme = machine_.lexeme(cell);
      if (!lexeme) continue;
      FreeBelow& is_free =
          free_below.try_emplace(lexeme->scanner, *lexeme->scanner, *index_, trie).first->second;
      row.lexemes.emplace_back(&is_free, lexeme->state);
    }
    return number;
  };
  std::vector<std::uint32_t> path(trie.max_depth() + 1U, kDead);
  path[0] = row_of(start);
  std::uint32_t steps = 0;
  std::uint32_t visited = 0;
  for (std::uint32_t node = 1; node < trie.node_count() && !machine_.error(); ++visited) {
    const std::uint16_t depth = trie.depth(node);
    const std::uint8_t byte = trie.symbol(node);
    const std::uint32_t from = path[depth - 1U];
    std::uint32_t to = rows[from].next[byte];
    if (to == kUnknown) {
      if (++steps > kMostSteps) return false;
      const StateId next = machine_.step(rows[from].state, byte);
      to = row_of(answered(walk, next, node));
      if (!machine_.has_questions(next)) rows[from].next[byte] = to;
    }
    const std::uint32_t end = trie.end_of(node);
    const bool finds_all = std::ranges::any_of(rows[to].lexemes, [&](const auto& lexeme) {
      return (*lexeme.first)(lexeme.second, node, end - node - 1);
    });
    const auto tokens = finds_all     ? trie.tokens_below(node)
                        : to != kDead ? trie.tokens_at(node)
                                      : std::span<const TokenId>();
    walk.found.insert(walk.found.end(), tokens.begin(), tokens.end());
    path[depth] = to;
    node = finds_all || to == kDead ? end : node + 1;
  }
  machine_.add_walked(visited);
  return true;
}

// In a string that begins at a node.
std::shared_ptr<const VocabIndex::Opening> MaskBuilder::opening(const TokenTrie& trie,
                                                                std::uint32_t root,
                                                                const Frame::Lexeme& lexeme,
                                                                bool is_kept) {
  Scanner& scanner = *lexeme.scanner;
  const VocabIndex::OpeningKey key{ways_of(lexeme, true).exact, &trie, root};
  const bool has_key = is_kept && key.language != regex::Fingerprint{};
  if (has_key) {
    if (auto known = index_->openings().find(key)) return known;
  }
  auto found = std::make_shared<Opening>();
  Steps steps(scanner);
  std::string text;
  path_[trie.depth(root)] = lexeme.state;
  std::uint32_t visited = 0;
  descend(
      trie, root + 1, trie.end_of(root), path_,
      [&](Scanner::State from, std::uint8_t byte) { return steps(from, byte); },
      [&](std::uint32_t node, Scanner::State state) {
        text.resize(trie.depth(node) - trie.depth(root) - 1U);
        text += static_cast<char>(trie.symbol(node));
        ++visited;
        if (scanner.is_final(state)) {
          found->ends.push_back({node, text});
          return false;
        }
        const auto tokens = trie.tokens_at(node);
        found->inside.insert(found->inside.end(), tokens.begin(), tokens.end());
        return true;
      });
  machine_.add_walked(visited);
  if (has_key && is_whole()) index_->openings().keep(key, found, found->memory_bytes());
  return found;
}

std::size_t MaskBuilder::memory_bytes() const {
  return kept_bytes_ + by_cell_.memory_bytes() + covered_by_state_.memory_bytes();
}

}  // namespace tenon::grammar
