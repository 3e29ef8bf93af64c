#include "tenon/grammar/machine/vocab_index.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/regex/common_characters.h"

// A mask asks for each of 100,000 tokens whether its bytes can come next. The index keeps what
// makes that question cheap, for all grammars of a vocabulary:
// - Quotients: the trie of tokens in which bytes that a grammar does not distinguish are one
//   symbol. A partition that is asked for twice gets one of its own, up to a number of them.
// - Borders: tokens that cross the end of whitespace, of a number or of a string.
// - Heights and characters below each node, by which a subtree is allowed or refused as a whole.

namespace tenon::grammar {

using vocab::ByteClasses;
using vocab::TokenId;
using vocab::TokenTrie;

namespace {

// A partition that is asked for a second time gets a quotient of its own, if the best existing one
// has more nodes than this. So many are kept, because each has a list of nearly all tokens; the
// first ones always stay.
constexpr std::uint32_t kSmallQuotient = 3000;
constexpr unsigned kMostClasses = 32;  // with more classes a quotient is hardly smaller
constexpr std::size_t kMaxQuotients = 40;
constexpr std::ptrdiff_t kStandardQuotients = 5;
// The number of partitions that are remembered as asked for.
constexpr std::size_t kMaxAsked = 10'000;
constexpr regex::ByteSet kPlainCharacters = regex::plain_characters();
constexpr std::size_t kPartBytes = std::size_t{32} << 20U;

// The bytes of JSON strings, without quotes and escapes. For characters beyond ASCII, any pattern
// can distinguish where they begin and end, and which of them UTF-8 allows.
ByteClasses text_classes() {
  ByteClasses classes;
  classes.of.fill(ByteClasses::kNone);
  unsigned next = 0;
  const auto add = [&](unsigned first, unsigned last) {
    for (unsigned byte = first; byte <= last; ++byte)
      classes.of[byte] = static_cast<std::uint8_t>(next);
    ++next;
  };
  add(0x20, 0x7F);
  classes.of['"'] = classes.of['\\'] = ByteClasses::kNone;
  for (const auto& [first, last] :
       std::initializer_list<std::pair<unsigned, unsigned>>{{0x80, 0x8F},
                                                            {0x90, 0x9F},
                                                            {0xA0, 0xBF},
                                                            {0xC2, 0xDF},
                                                            {0xE0, 0xE0},
                                                            {0xE1, 0xEF},
                                                            {0xED, 0xED},
                                                            {0xF0, 0xF0},
                                                            {0xF1, 0xF3},
                                                            {0xF4, 0xF4}}) {
    add(first, last);
  }
  add(TokenTrie::kUnit, TokenTrie::kUnit);
  classes.count = next;
  return classes.canonical();
}

bool has_units(const ByteClasses& classes) {
  return classes.of[TokenTrie::kUnit] != ByteClasses::kNone;
}

ByteClasses without_units(ByteClasses classes) {
  classes.of[TokenTrie::kUnit] = ByteClasses::kNone;
  return classes.canonical();
}

// The same classes, with each of `singles` as a class of its own.
ByteClasses refined(ByteClasses classes, std::string_view singles) {
  for (const char byte : singles) {
    classes.of[static_cast<std::uint8_t>(byte)] = static_cast<std::uint8_t>(classes.count++);
  }
  return classes;
}

// What \s distinguishes, in ASCII and in the spaces beyond: U+00A0, 1680, 2000 to 200A, 2028, 2029,
// 202F, 205F, 3000, FEFF.
ByteClasses space_classes() {
  ByteClasses classes =
      refined(text_classes(), " \xC2\xE1\xE2\xE3\xEF\x80\x81\x9A\x9F\xA0\xA8\xA9\xAF\xBB\xBF");
  for (unsigned byte = 0x82; byte <= 0x8A; ++byte) {
    classes.of[byte] = static_cast<std::uint8_t>(classes.count);
  }
  ++classes.count;
  return classes.canonical();
}

// And what most patterns distinguish in ASCII; the digits are for IPv4 addresses, dates and times,
// and the v is for future address formats (RFC 3986).
ByteClasses rich_classes() {
  ByteClasses classes = space_classes();
  for (const std::string_view range : {"69", "af", "gz", "AF", "GZ"}) {
    for (char c = range[0]; c <= range[1]; ++c) {
      classes.of[static_cast<std::uint8_t>(c)] = static_cast<std::uint8_t>(classes.count);
    }
    ++classes.count;
  }
  return refined(classes, "012345vV!#$%&'()*+,-./:;<=>?@[]^_`{|}~").canonical();
}

// And what mail addresses distinguish in addition: the 6 and the letters of "[IPv6:" (RFC 5321).
ByteClasses mail_classes() {
  return refined(rich_classes(), "6IP").canonical();
}

// Where the string in which `bytes` begin ends; npos: it does not end.
std::size_t closing_quote(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\\') {
      ++i;
    } else if (bytes[i] == '"') {
      return i;
    }
  }
  return std::string_view::npos;
}

template <class Wanted>
TokenTrie trie_of(const vocab::Vocab& vocab, const Wanted& is_wanted) {
  std::vector<TokenTrie::Entry> entries;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (vocab.kind(id) == vocab::Token::Kind::text && is_wanted(vocab.bytes(id))) {
      entries.push_back({vocab.bytes(id), id});
    }
  }
  return TokenTrie(std::move(entries));
}

// The tokens with a byte that is wanted. The trie of all tokens has them in order and tells it
// without a look at their bytes, so nothing is sorted.
template <class Wanted>
TokenTrie trie_with(const vocab::Vocab& vocab, const Wanted& is_wanted) {
  const TokenTrie& all = vocab.trie();
  std::vector<TokenTrie::Entry> entries;
  std::uint16_t found_at = 0;  // the depth of the first such byte on the way to the node, or 0
  for (std::uint32_t node = 1; node < all.node_count(); ++node) {
    const std::uint16_t depth = all.depth(node);
    // The walk has left the subtree below that byte.
    if (found_at >= depth) found_at = 0;
    if (found_at == 0 && is_wanted(all.symbol(node))) found_at = depth;
    if (found_at == 0) continue;
    for (const TokenId token : all.tokens_at(node)) entries.push_back({vocab.bytes(token), token});
  }
  return TokenTrie(std::move(entries));
}

// By node: the number of symbols of the longest way down, or kOthers if a symbol below is not
// `wanted`.
template <class Wanted>
std::vector<std::uint16_t> heights_of(const TokenTrie& trie, const Wanted& is_wanted) {
  constexpr std::uint16_t kOthers = VocabIndex::kOthers;
  std::vector<std::uint16_t> heights(trie.node_count(), 0);
  std::vector<std::uint32_t> path(trie.max_depth() + 1, 0);
  std::vector<std::uint32_t> parents(trie.node_count(), 0);
  for (std::uint32_t node = 1; node < trie.node_count(); ++node) {
    parents[node] = path[trie.depth(node) - 1U];
    path[trie.depth(node)] = node;
  }
  for (std::uint32_t node = trie.node_count(); node-- > 1;) {
    std::uint16_t& above = heights[parents[node]];
    const bool is_plain = heights[node] < kOthers - 1 && is_wanted(trie.symbol(node));
    above = is_plain ? std::max<std::uint16_t>(above, heights[node] + 1) : kOthers;
  }
  return heights;
}

// ---- Characters ---------------------------------------------------------------------------------

constexpr unsigned kCommonBit = 62;
constexpr unsigned kOtherBit = 63;

// A bit for each character of ASCII. Small letters and frequent signs have one of their own, two
// capital letters share one, and all control characters but those of lines have that of everything
// else.
constexpr std::array<std::uint8_t, 128> character_bits() {
  std::array<std::uint8_t, 128> bits{};
  bits.fill(kOtherBit);
  std::uint8_t next = 0;
  for (unsigned c = 'a'; c <= 'z'; ++c) bits[c] = next++;
  for (unsigned c = 'A'; c <= 'Z'; ++c) bits[c] = static_cast<std::uint8_t>(next + (c - 'A') / 2);
  next += 13;
  for (const char c : std::string_view(" _-./:\"\\,{}<>()'=")) {
    bits[static_cast<std::uint8_t>(c)] = next++;
  }
  for (const std::string_view group : {"01", "23456789", "\t\n\r", "[]", "!?;", "#$%&*+@^`|~"}) {
    for (const char c : group) bits[static_cast<std::uint8_t>(c)] = next;
    ++next;
  }
  return bits;
}
constexpr std::array<std::uint8_t, 128> kCharacterBits = character_bits();

// The bit of the character at the beginning of `text`, of which the last bytes may be missing.
unsigned bit_of_character(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (first < 0x80) return kCharacterBits[first];
  const bool is_common =
      std::ranges::any_of(regex::common_characters(), [&](std::span<const regex::Utf8Range> bytes) {
        return text.size() <= bytes.size() &&
               std::ranges::equal(text, bytes.first(text.size()),
                                  [](char byte, regex::Utf8Range range) {
                                    const auto value = static_cast<std::uint8_t>(byte);
                                    return range.first <= value && value <= range.last;
                                  });
      });
  return is_common ? kCommonBit : kOtherBit;
}

// The number of bytes of a character by its first byte; 1 for bytes that begin none.
std::size_t character_length(std::uint8_t first) {
  if (first < 0xC2) return 1;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// A node within a character has all bits, because characters are followed from their first byte.
std::vector<VocabIndex::Characters> find_characters_below(const TokenTrie& trie) {
  using Characters = VocabIndex::Characters;
  std::vector<Characters> below(trie.node_count(), 0);
  std::vector<std::uint32_t> parents(trie.node_count(), 0);
  std::vector<Characters> own(trie.node_count(), 0);
  std::vector<bool> is_within(trie.node_count(), false);
  struct Place {
    std::uint32_t node = 0;
    std::uint32_t begin = 0;  // of the character, as a depth
    std::size_t left = 0;     // bytes of it that are missing
  };
  std::vector<Place> path(trie.max_depth() + 1);
  std::string text;
  for (std::uint32_t node = 1; node < trie.node_count(); ++node) {
    const std::uint32_t depth = trie.depth(node);
    const Place& above = path[depth - 1];
    text.resize(depth - 1);
    text += static_cast<char>(trie.symbol(node));
    const bool goes_on = above.left > 0;
    Place& here = path[depth];
    here = {.node = node,
            .begin = goes_on ? above.begin : depth - 1,
            .left = (goes_on ? above.left : character_length(trie.symbol(node))) - 1};
    parents[node] = above.node;
    own[node] = Characters{1} << bit_of_character(std::string_view(text).substr(here.begin));
    is_within[node] = here.left > 0;
  }
  for (std::uint32_t node = trie.node_count(); node-- > 1;) {
    below[parents[node]] |= below[node] | own[node];
    if (is_within[node]) below[node] = ~Characters{0};
  }
  return below;
}

// The border of the tokens for which `split` returns the end of the first part and the end of what
// is between the parts.
using Ends = std::optional<std::pair<std::size_t, std::size_t>>;
using Split = std::function<Ends(std::string_view)>;

VocabIndex::Border make_border(const vocab::Vocab& vocab, const Split& split) {
  std::vector<TokenId> tokens;
  std::vector<std::uint16_t> splits;
  std::vector<std::uint32_t> at_once;
  std::vector<TokenTrie::Entry> before;
  std::vector<TokenTrie::Entry> after;
  // Second parts by number. Number 0 is the empty one (Border::kNoRest), which is not in the trie
  // `after`.
  std::unordered_map<std::string_view, std::uint32_t> numbers{{"", 0}};
  std::vector<std::uint32_t> number_of;  // by index
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (vocab.kind(id) != vocab::Token::Kind::text) continue;
    const std::string_view bytes = vocab.bytes(id);
    const Ends ends = split(bytes);
    if (!ends || ends->second > std::numeric_limits<std::uint16_t>::max()) continue;
    const auto index = static_cast<std::uint32_t>(tokens.size());
    tokens.push_back(id);
    splits.push_back(static_cast<std::uint16_t>(ends->second));
    if (ends->first == 0) {
      at_once.push_back(index);
    } else {
      before.push_back({bytes.substr(0, ends->first), static_cast<TokenId>(index)});
    }
    const std::string_view rest = bytes.substr(ends->second);
    const auto [place, is_new] =
        numbers.try_emplace(rest, static_cast<std::uint32_t>(numbers.size()));
    if (is_new) after.push_back({rest, static_cast<TokenId>(place->second)});
    number_of.push_back(place->second);
  }
  std::vector<std::uint32_t> first(numbers.size() + 1, 0);
  for (const std::uint32_t number : number_of) ++first[number + 1];
  // A counting sort of the tokens by the number of their second part.
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> by_rest(number_of.size());
  std::vector<std::uint32_t> next = first;
  for (std::size_t i = 0; i < number_of.size(); ++i) {
    by_rest[next[number_of[i]]++] = static_cast<std::uint32_t>(i);
  }
  TokenTrie first_parts(std::move(before));
  std::vector<std::uint16_t> height = heights_of(first_parts, [](std::uint8_t) { return true; });
  return {.tokens = std::move(tokens),
          .split = std::move(splits),
          .before = std::move(first_parts),
          .height = std::move(height),
          .at_once = std::move(at_once),
          .after = TokenTrie(std::move(after)),
          .by_rest = std::move(by_rest),
          .first = std::move(first)};
}

VocabIndex::Border make_quotes(const vocab::Vocab& vocab) {
  return make_border(vocab, [](std::string_view bytes) -> Ends {
    const std::size_t quote = closing_quote(bytes);
    if (quote == std::string_view::npos) return std::nullopt;
    return std::pair(quote, quote + 1);
  });
}

}  // namespace

// What every grammar needs is made here, so that no request pays for it; the rest when it is asked
// for.
VocabIndex::VocabIndex(std::shared_ptr<const vocab::Vocab> vocab)
    : vocab_(std::move(vocab)),
      quotes_(make_quotes(*vocab_)),
      long_tokens_(trie_of(*vocab_, [](std::string_view bytes) { return bytes.size() > kShort; })),
      insides_(kPartBytes),
      closings_(kPartBytes / 4),
      openings_(kPartBytes / 4) {
  characters_below_ = find_characters_below(vocab_->trie());
  text_tokens_.resize(mask_words(vocab_->size()));
  for (const vocab::TokenId token : vocab_->trie().tokens_below(0)) {
    set_bit(text_tokens_, token);
    regex::ByteSet bytes;
    for (const char byte : vocab_->bytes(token)) {
      const auto each = static_cast<std::uint8_t>(byte);
      if (!bytes.contains(each)) ++counts_[each];
      bytes.insert(each);
    }
  }
  const ByteClasses mail = mail_classes();
  const ByteClasses rich_in_bytes = without_units(rich_classes());
  keep(make_quotient(vocab_->trie().quotient(mail, regex::common_character_length), mail));
  keep(make_quotient(vocab_->trie().quotient(rich_in_bytes), rich_in_bytes));
  // The classes of mail addresses refine all of the next three.
  const Quotient& finest = *quotients_.front().quotient;
  for (const ByteClasses& classes : {text_classes(), space_classes(), rich_classes()}) {
    keep(coarser(finest, classes));
  }
  // For JSON, which every server needs sooner or later: the borders of whitespace and of numbers.
  for (const std::string_view alphabet : {" \n\t\r", "0123456789+-.eE"}) {
    regex::ByteSet bytes;
    for (const char c : alphabet) bytes.insert(static_cast<std::uint8_t>(c));
    static_cast<void>(border(bytes));
  }
  // And of its strings.
  for (const std::uint8_t byte : {'"', '\\'}) static_cast<void>(containing(byte));
  static_cast<void>(plain_heights());
  static_cast<void>(beyond_ascii());
}

// A bit that several characters share is set only if all of them are in the set: the caller takes a
// whole subtree of the trie if its bits are among these.
VocabIndex::Characters VocabIndex::characters(const regex::ByteSet& ascii, bool has_common) {
  Characters result = 0;
  Characters without = 0;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    const bool is_there = ascii.contains(static_cast<std::uint8_t>(byte));
    (is_there ? result : without) |= Characters{1} << kCharacterBits[byte];
  }
  if (has_common) result |= Characters{1} << kCommonBit;
  return result & ~(without | Characters{1} << kOtherBit);
}

// The other way round: one character is enough, as the caller leaves a subtree out if it has none
// of these bits. A byte beyond ASCII may belong to any character beyond ASCII.
VocabIndex::Characters VocabIndex::characters_with(const regex::ByteSet& bytes) {
  constexpr Characters kBeyondAscii = Characters{1} << kCommonBit | Characters{1} << kOtherBit;
  Characters result = 0;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    if (bytes.contains(static_cast<std::uint8_t>(byte))) {
      result |= Characters{1} << kCharacterBits[byte];
    }
  }
  const bool has_others = !(bytes & regex::ByteSet::range(0x80, 0xFF)).is_empty();
  return has_others ? result | kBeyondAscii : result;
}

const VocabIndex::Border& VocabIndex::border(const regex::ByteSet& alphabet) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const Border>& slot = borders_[alphabet.words()];
  if (!slot) {
    slot = std::make_unique<const Border>(make_border(*vocab_, [&](std::string_view bytes) -> Ends {
      std::size_t end = 0;
      while (end < bytes.size() && alphabet.contains(static_cast<std::uint8_t>(bytes[end]))) {
        ++end;
      }
      // Such a token begins outside of the alphabet or stays within it, so it does not cross the
      // border.
      if (end == 0 || end == bytes.size()) return std::nullopt;
      return std::pair(end, end);
    }));
  }
  return *slot;
}

const TokenTrie& VocabIndex::containing(std::uint8_t byte) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const TokenTrie>& slot = containing_[byte];
  if (!slot) {
    slot = std::make_unique<const TokenTrie>(
        trie_with(*vocab_, [byte](std::uint8_t symbol) { return symbol == byte; }));
  }
  return *slot;
}

const TokenTrie& VocabIndex::beyond_ascii() {
  const std::lock_guard lock(mutex_);
  if (!beyond_ascii_) {
    beyond_ascii_ = std::make_unique<const TokenTrie>(
        trie_with(*vocab_, [](std::uint8_t symbol) { return symbol >= 0x80; }));
  }
  return *beyond_ascii_;
}

const VocabIndex::PlainHeights& VocabIndex::plain_heights() {
  const std::lock_guard lock(mutex_);
  if (!plain_heights_) {
    plain_heights_ = std::make_unique<const PlainHeights>(heights_of(
        vocab_->trie(), [](std::uint8_t byte) { return kPlainCharacters.contains(byte); }));
  }
  return *plain_heights_;
}

std::shared_ptr<const VocabIndex::Quotient> VocabIndex::quotient(const ByteClasses& classes) {
  const std::lock_guard lock(mutex_);
  Kept* best = nullptr;
  for (Kept& kept : quotients_) {
    if (has_units(kept.quotient->classes) == has_units(classes) &&
        kept.quotient->classes.refines(classes) &&
        (best == nullptr || kept.nodes() < best->nodes())) {
      best = &kept;
    }
  }
  // No existing partition tells apart what these classes do; the caller walks by bytes.
  if (best == nullptr) return nullptr;
  best->last_use = ++uses_;
  if (best->nodes() <= kSmallQuotient || classes.count > kMostClasses) return best->quotient;
  const ByteClasses canonical = classes.canonical();
  if (best->quotient->classes == canonical) return best->quotient;
  if (asked_.size() >= kMaxAsked) asked_.clear();
  // Most partitions are those of one pattern in one schema and are asked for once.
  if (++asked_[canonical.of] < 2) return best->quotient;
  return keep(coarser(*best->quotient, canonical));
}

std::shared_ptr<const VocabIndex::Quotient> VocabIndex::keep(
    std::shared_ptr<const Quotient> quotient) {
  if (quotients_.size() == kMaxQuotients) {
    // Not the first ones, because the others are made from them.
    const auto oldest = std::ranges::min_element(quotients_.begin() + kStandardQuotients,
                                                 quotients_.end(), {}, &Kept::last_use);
    *oldest = {std::move(quotient), ++uses_};
    return oldest->quotient;
  }
  quotients_.push_back({std::move(quotient), ++uses_});
  return quotients_.back().quotient;
}

// From the classes of the existing quotient, which is much faster than from bytes.
std::shared_ptr<const VocabIndex::Quotient> VocabIndex::coarser(const Quotient& from,
                                                                const ByteClasses& canonical) {
  ByteClasses of_symbols;
  of_symbols.of.fill(ByteClasses::kNone);
  of_symbols.count = canonical.count;
  for (unsigned symbol = 0; symbol < from.classes.count; ++symbol) {
    of_symbols.of[symbol] = canonical.of[from.representative[symbol]];
  }
  return make_quotient(from.trie.quotient(of_symbols), canonical);
}

// Completes a quotient: a byte for each class, bits for nodes with many tokens, and heights. A
// class counts as plain if all its bytes are plain characters.
std::shared_ptr<const VocabIndex::Quotient> VocabIndex::make_quotient(
    TokenTrie trie, const ByteClasses& canonical) {
  auto quotient = std::make_shared<Quotient>(Quotient{canonical, {}, std::move(trie), {}, {}});
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (canonical.of[byte] != ByteClasses::kNone) {
      quotient->representative[canonical.of[byte]] = static_cast<std::uint8_t>(byte);
    }
  }
  for (std::uint32_t node = 1; node < quotient->trie.node_count(); ++node) {
    const auto tokens = quotient->trie.tokens_at(node);
    if (tokens.size() < Quotient::kManyTokens) continue;
    std::vector<std::uint32_t> mask(mask_words(vocab_->size()), 0);
    for (const TokenId token : tokens) set_bit(mask, token);
    quotient->large.emplace(node, TokenSet::of_bits(std::move(mask)));
  }
  std::array<bool, 256> is_plain{};  // by class
  is_plain.fill(true);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_one = kPlainCharacters.contains(static_cast<std::uint8_t>(byte));
    if (!is_one) is_plain[canonical.of[byte]] = false;
  }
  quotient->plain_heights =
      heights_of(quotient->trie, [&](std::uint8_t symbol) { return is_plain[symbol]; });
  return quotient;
}

std::size_t VocabIndex::memory_bytes() const {
  const auto of_border = [](const Border& border) {
    return border.before.memory_bytes() + border.after.memory_bytes() +
           border.height.size() * sizeof(std::uint16_t) +
           border.tokens.size() * (3 * sizeof(std::uint32_t) + sizeof(std::uint16_t));
  };
  std::size_t bytes = of_border(quotes_) + characters_below_.size() * sizeof(Characters) +
                      insides_.memory_bytes() + closings_.memory_bytes() + openings_.memory_bytes();
  const std::lock_guard lock(mutex_);
  for (const auto& trie : containing_) bytes += trie ? trie->memory_bytes() : 0;
  if (beyond_ascii_) bytes += beyond_ascii_->memory_bytes();
  if (plain_heights_) bytes += plain_heights_->size() * sizeof(std::uint16_t);
  for (const auto& [alphabet, border] : borders_) bytes += of_border(*border);
  for (const auto& [quotient, last_use] : quotients_) {
    bytes += quotient->trie.memory_bytes() + quotient->plain_heights.size() * sizeof(std::uint16_t);
    for (const auto& [node, tokens] : quotient->large) bytes += tokens.memory_bytes();
  }
  return bytes;
}

}  // namespace tenon::grammar
