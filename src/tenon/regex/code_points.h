#pragma once

#include <compare>
#include <initializer_list>
#include <span>
#include <vector>

namespace tenon::regex {

/// A set of code points from U+0000 to U+10FFFF, surrogates included.
class CodePointSet {
 public:
  static constexpr char32_t kLast = 0x10FFFF;

  struct Range {
    char32_t first;
    char32_t last;
    auto operator<=>(const Range&) const = default;
  };

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges) : CodePointSet(std::vector<Range>(ranges)) {}
  /// The ranges may come in any order and may touch or overlap.
  explicit CodePointSet(std::vector<Range> ranges);
  [[nodiscard]] static CodePointSet all() { return {{0, kLast}}; }

  /// The ranges in ascending order; none touches the next.
  [[nodiscard]] std::span<const Range> ranges() const { return ranges_; }
  [[nodiscard]] bool is_empty() const { return ranges_.empty(); }
  [[nodiscard]] bool contains(char32_t code_point) const;

  [[nodiscard]] CodePointSet united(const CodePointSet& other) const;
  [[nodiscard]] CodePointSet intersected(const CodePointSet& other) const;
  [[nodiscard]] CodePointSet complemented() const;

  auto operator<=>(const CodePointSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace tenon::regex
