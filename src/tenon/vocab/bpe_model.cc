#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <utility>

#include "tenon/base/hash.h"
#include "tenon/base/utf8.h"
#include "tenon/vocab/model.h"
#include "tenon/vocab/spelling.h"

// A piece becomes symbols (begin), and neighbours are merged until no pair of them has a rank. What
// a pair becomes is found in an open hash table of all merges, with a key of the process, because
// files and texts come from outside. Few symbols are merged in an array, by looking for the least
// rank each time; many are a linked list with a queue, which is O(n log n) for any input. Both give
// the same tokens.
namespace tenon::vocab {
namespace {

// For an error: the character, or the byte if it is part of one.
std::string shown_byte(std::string_view bytes) {
  if (utf8::is_valid(bytes)) return "'" + std::string(bytes) + "'";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text = "the byte 0x";
  text += kDigits[static_cast<unsigned char>(bytes[0]) >> 4U];
  text += kDigits[static_cast<unsigned char>(bytes[0]) & 15U];
  return text;
}

// A byte that begins no character counts as one.
std::size_t character_length(std::string_view text) {
  return std::max<std::size_t>(1, utf8::decode(text).length);
}

}  // namespace

BpeModel::BpeModel(StringTable texts, const std::vector<Merge>& merges, const Options& options)
    : texts_(std::move(texts)),
      options_(options),
      seed_(keyed_hash("pairs of tokens: seed")),
      factor_(keyed_hash("pairs of tokens: factor") | 1U) {
  // At least a quarter stays free, so searches for pairs that do not exist are short.
  const std::size_t slots = std::bit_ceil(merges.size() + merges.size() / 3 + 2);
  slots_.resize(slots);
  // slot_of() takes the upper bits of a product, which depend on all bits of the pair.
  shift_ = 64U - static_cast<unsigned>(std::bit_width(slots - 1));
  for (const Merge& merge : merges) {
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t at = slot_of(pair);
    while (slots_[at].pair != kNoPair && slots_[at].pair != pair) at = (at + 1) & (slots - 1);
    slots_[at] = {pair, merge.rank, merge.result};
  }
  // The tokens of single bytes are found without hashing, since every piece begins with them.
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    ascii_[byte] = texts_.find({&text, 1}).value_or(kGone);
  }
}

const BpeModel::Slot& BpeModel::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = slot_of(pair);
  while (slots_[at].pair != pair && slots_[at].pair != kNoPair) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];  // a free slot has no rank
}

Status BpeModel::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (options_.prefers_whole) {
    if (const std::optional<TokenId> whole = texts_.find(piece)) {
      ids.push_back(*whole);
      return {};
    }
  }
  const std::size_t first = ids.size();
  if (Status begun = begin(piece, ids); !begun) return begun;
  // For few symbols, looking at every pair for every merge is faster than a queue:
  // vocab_bench/prose/qwen2, 9.5 -> 13.5 MB/s, AMD EPYC (virtual machine), 2026-11-21.
  if (ids.size() - first <= kFew) {
    merge_few(ids, first);
  } else {
    merge_many(ids, first);
  }
  return {};
}

Status BpeModel::begin(std::string_view piece, std::vector<TokenId>& ids) const {
  bool after_unknown = false;
  while (!piece.empty()) {
    const auto byte = static_cast<unsigned char>(piece[0]);
    const std::size_t length = options_.of_bytes ? 1 : character_length(piece);
    // One byte is a byte, or a character of ASCII.
    const TokenId id =
        length == 1 ? ascii_[byte] : texts_.find(piece.substr(0, length)).value_or(kGone);
    const Fallback& fallback = options_.fallback;
    if (id != kGone) {
      ids.push_back(id);
    } else if (fallback.bytes) {
      for (const char each : piece.substr(0, length)) {
        ids.push_back((*fallback.bytes)[static_cast<unsigned char>(each)]);
      }
    } else if (!fallback.unknown && is_rare_control(byte)) {
      // The character is left out, as llama.cpp and the tokenizers package do.
    } else if (!fallback.unknown) {
      return Unexpected(Error{
          Errc::invalid, "the vocabulary has no token for " + shown_byte(piece.substr(0, length))});
    } else if (!(after_unknown && fallback.fuses_unknown)) {
      ids.push_back(*fallback.unknown);
    }
    // Bytes are known tokens, so they end a run of unknown characters.
    after_unknown = id == kGone && !fallback.bytes;
    piece.remove_prefix(length);
  }
  return {};
}

void BpeModel::merge_few(std::vector<TokenId>& ids, std::size_t begin) const {
  std::array<Slot, kFew> pairs;  // [i]: the pair of ids[begin + i] and the next
  std::size_t count = ids.size() - begin;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    pairs[i] = merge_of(ids[begin + i], ids[begin + i + 1]);
  }
  while (count > 1) {
    const auto last = pairs.begin() + static_cast<std::ptrdiff_t>(count - 1);
    // The first of equal ones: the leftmost pair.
    const auto least = std::min_element(
        pairs.begin(), last, [](const Slot& a, const Slot& b) { return a.rank < b.rank; });
    if (least->rank == kNoRank) break;
    const auto i = static_cast<std::size_t>(least - pairs.begin());
    ids[begin + i] = least->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(begin + i + 1));
    std::move(least + 1, last, least);
    --count;
    // The new token has two new pairs, with its neighbours; all others stay.
    if (i + 1 < count) pairs[i] = merge_of(ids[begin + i], ids[begin + i + 1]);
    if (i > 0) pairs[i - 1] = merge_of(ids[begin + i - 1], ids[begin + i]);
  }
}

void BpeModel::merge_many(std::vector<TokenId>& ids, std::size_t begin) const {
  const std::size_t count = ids.size() - begin;
  std::vector<Symbol> symbols(count + 1);  // the last one is a sentinel, which is part of no merge
  std::vector<std::uint64_t> queue;        // rank, then place; the least comes first
  // std::make_heap keeps the greatest first, so the comparison is turned round. A rank in the upper
  // half and a place in the lower one make the least rank first, and the leftmost of equal ones.
  const std::greater<> later;
  // Looks up the pair that begins at `at` and puts it into the queue. True if it can be merged.
  const auto look = [&](std::uint32_t at) {
    Symbol& symbol = symbols[at];
    const TokenId right = symbols[symbol.next].id;
    const Slot& merge = right == kGone ? Slot{} : merge_of(symbol.id, right);
    symbol.rank = merge.rank;
    symbol.result = merge.result;
    if (symbol.rank != kNoRank) queue.push_back(std::uint64_t{symbol.rank} << 32U | at);
    return symbol.rank != kNoRank;
  };
  // A linked list in an array; `previous` of the first one is never used.
  for (std::uint32_t i = 0; i < count; ++i) symbols[i] = {ids[begin + i], i - 1, i + 1, kNoRank, 0};
  symbols[count] = {kGone, 0, 0, kNoRank, 0};
  for (std::uint32_t i = 0; i < count; ++i) look(i);
  std::make_heap(queue.begin(), queue.end(), later);

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), later);
    const auto at = static_cast<std::uint32_t>(queue.back());
    const auto rank = static_cast<std::uint32_t>(queue.back() >> 32U);
    queue.pop_back();
    Symbol& symbol = symbols[at];
    // This pair no longer exists. The token at one place only grows, so the pair cannot come again.
    if (symbol.id == kGone || symbol.rank != rank) continue;
    Symbol& right = symbols[symbol.next];
    symbol.id = symbol.result;
    symbol.next = right.next;
    // The entries of `right` in the queue are recognised by this.
    right.id = kGone;
    if (symbol.next < count) symbols[symbol.next].previous = at;
    if (look(at)) std::push_heap(queue.begin(), queue.end(), later);
    if (at > 0 && look(symbol.previous)) std::push_heap(queue.begin(), queue.end(), later);
  }

  ids.resize(begin);
  for (std::uint32_t i = 0; i < count; i = symbols[i].next) ids.push_back(symbols[i].id);
}

Expected<std::vector<BpeModel::Merge>> merges_by_text(
    const StringTable& texts, bool whole_characters,
    const std::function<std::uint32_t(TokenId)>& rank) {
  constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 32U;
  std::uint64_t steps = 0;
  std::vector<BpeModel::Merge> merges;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    // Among equal texts only the one that find() returns can be a result.
    const std::string_view text = texts[i];
    const auto result = static_cast<TokenId>(i);
    if (text.size() < 2 || texts.find(text) != result) continue;
    // Each cut hashes both parts.
    steps += std::uint64_t{text.size()} * text.size();
    if (steps > kMostSteps) {
      return Unexpected(Error{Errc::limit_exceeded, "the tokens are too long"});
    }
    const std::uint32_t place = rank(result);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (whole_characters && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80) continue;
      const std::optional<TokenId> left = texts.find(text.substr(0, cut));
      if (!left) continue;
      const std::optional<TokenId> right = texts.find(text.substr(cut));
      if (right) merges.push_back({*left, *right, result, place});
    }
  }
  return merges;
}

}  // namespace tenon::vocab
