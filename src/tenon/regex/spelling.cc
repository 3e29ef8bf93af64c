#include "tenon/regex/spelling.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <span>
#include <vector>

namespace tenon::regex {
namespace {

using Range = CodePointSet::Range;

// Any last bytes, which hold the `low_bits` of a code point, six in each byte.
Expr any_tail(ExprSet& exprs, unsigned low_bits) {
  if (low_bits == 0) return ExprSet::kEpsilon;
  return exprs.concat(exprs.bytes(ByteSet::range(0x80, 0xBF)), any_tail(exprs, low_bits - 6));
}

// A byte made of `mark` and the bits above the `low_bits`, and what follows it. `ranges` are
// ascending and do not touch. Bytes after which the same may follow share one expression, so this
// is a graph of few nodes, not a tree.
Expr spell(ExprSet& exprs, std::span<const Range> ranges, unsigned low_bits, unsigned mark) {
  if (ranges.empty()) return ExprSet::kNothing;
  std::map<Expr, ByteSet> bytes_before;
  const auto add = [&](char32_t first, char32_t last, Expr tail) {
    bytes_before[tail] |= ByteSet::range(static_cast<std::uint8_t>(mark | first),
                                         static_cast<std::uint8_t>(mark | last));
  };
  std::size_t i = 0;
  char32_t from = ranges[0].first;  // in ranges[i]
  // Everything up to `last` is written.
  const auto pass = [&](char32_t last) {
    from = last + 1;
    if (last == ranges[i].last) ++i;
    if (i < ranges.size()) from = std::max(from, ranges[i].first);
  };
  while (i < ranges.size()) {
    const char32_t high = from >> low_bits;
    const char32_t begin = high << low_bits;
    const char32_t end = begin + (1U << low_bits) - 1;
    // A whole block, or several: whatever the last bytes are, the character is in the set.
    if (from == begin && ranges[i].last >= end) {
      const char32_t last_high = ((ranges[i].last + 1) >> low_bits) - 1;
      add(high, last_high, any_tail(exprs, low_bits));
      pass((last_high << low_bits) + (1U << low_bits) - 1);
      continue;
    }
    assert(low_bits > 0);  // else each character is a whole block
    std::vector<Range> inside;
    while (i < ranges.size() && from <= end) {
      const char32_t last = std::min(ranges[i].last, end);
      inside.push_back({from - begin, last - begin});
      pass(last);
    }
    add(high, high, spell(exprs, inside, low_bits - 6, 0x80));
  }
  std::vector<Expr> choices;
  choices.reserve(bytes_before.size());
  for (const auto& [tail, bytes] : bytes_before) {
    choices.push_back(exprs.concat(exprs.bytes(bytes), tail));
  }
  return exprs.any_of(choices);
}

std::vector<Range> between(std::span<const Range> ranges, char32_t first, char32_t last) {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    const Range common{std::max(range.first, first), std::min(range.last, last)};
    if (common.first <= common.last) result.push_back(common);
  }
  return result;
}

}  // namespace

// By the number of bytes: 0xxxxxxx, 110xxxxx 10xxxxxx, and so on (RFC 3629). Surrogates are left
// out, because UTF-8 does not encode them.
Expr utf8_spelling(ExprSet& exprs, const CodePointSet& set) {
  std::vector<Range> three = between(set.ranges(), 0x800, 0xD7FF);
  const std::vector<Range> above = between(set.ranges(), 0xE000, 0xFFFF);
  three.insert(three.end(), above.begin(), above.end());
  const Expr lengths[] = {
      spell(exprs, between(set.ranges(), 0, 0x7F), 0, 0),
      spell(exprs, between(set.ranges(), 0x80, 0x7FF), 6, 0xC0),
      spell(exprs, three, 12, 0xE0),
      spell(exprs, between(set.ranges(), 0x10000, CodePointSet::kLast), 18, 0xF0),
  };
  return exprs.any_of(lengths);
}

}  // namespace tenon::regex
