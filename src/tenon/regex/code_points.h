#pragma once

#include <compare>
#include <initializer_list>
#include <span>
#include <vector>

namespace tenon::regex {

/// A set of code points, U+0000 to U+10FFFF, surrogates among them.
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
  /// In any order, touching or overlapping as they like.
  explicit CodePointSet(std::vector<Range> ranges);
  [[nodiscard]] static CodePointSet all() { return {{0, kLast}}; }

  /// Ascending, none touching the next.
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
