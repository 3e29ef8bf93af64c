#include "tenon/regex/code_points.h"

#include <algorithm>
#include <utility>

namespace tenon::regex {

// The one normal form: ascending ranges that do not touch. So equal sets compare equal, and
// contains() can search.
CodePointSet::CodePointSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
  std::ranges::sort(ranges_, {}, &Range::first);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    const Range next = ranges_[i];
    if (next.first <= ranges_[kept].last + 1) {
      ranges_[kept].last = std::max(ranges_[kept].last, next.last);
    } else {
      ranges_[++kept] = next;
    }
  }
  if (!ranges_.empty()) ranges_.resize(kept + 1);
}

bool CodePointSet::contains(char32_t code_point) const {
  const auto after = std::ranges::upper_bound(ranges_, code_point, {}, &Range::first);
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

CodePointSet CodePointSet::united(const CodePointSet& other) const {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(both));
}

// De Morgan: what is in both is what is missing in neither. Linear but for the sort.
CodePointSet CodePointSet::intersected(const CodePointSet& other) const {
  return complemented().united(other.complemented()).complemented();
}

CodePointSet CodePointSet::complemented() const {
  CodePointSet result;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (next < range.first) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) result.ranges_.push_back({next, kLast});
  return result;
}

}  // namespace tenon::regex
