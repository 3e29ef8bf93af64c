#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/grammar/rules/rules.h"
#include "tenon/regex/code_points.h"

/// Questions that lower() and the printers ask about a grammar.
namespace tenon::grammar {

/// Appends the inside of a character class; `character` returns how one character is written in it.
/// Two characters in a row are shorter without a dash.
template <class F>
void append_ranges(std::string& text, const regex::CodePointSet& set, F character) {
  for (const regex::CodePointSet::Range& range : set.ranges()) {
    text += character(range.first);
    if (range.last == range.first) continue;
    if (range.last > range.first + 1) text += '-';
    text += character(range.last);
  }
}

/// The parts of a node; for a rule, its body.
[[nodiscard]] std::vector<NodeId> parts_of(const Rules& rules, NodeId id);

/// The least set that includes a node once it includes as many of the node's parts as `needed` says
/// (kNever: never).
[[nodiscard]] std::vector<bool> settled_nodes(
    const Rules& rules, const std::function<std::size_t(NodeId id, std::size_t parts)>& needed);
constexpr std::size_t kNever = ~std::size_t{0};

/// By node: whether it reads some text.
[[nodiscard]] std::vector<bool> productive_nodes(const Rules& rules);
/// By node: whether it reads the empty text.
[[nodiscard]] std::vector<bool> nullable_nodes(const Rules& rules);
/// By node: how often it is written if each node is written once; 0 if the root does not reach it,
/// or if it reads nothing.
[[nodiscard]] std::vector<std::uint32_t> use_counts(const Rules& rules,
                                                    const std::vector<bool>& is_productive);

/// Makes names that are all different.
class Names {
 public:
  /// `spelling` returns how a character is written in a name, or 0 for a character to leave out, in
  /// whose place a `filler` is written.
  Names(std::function<char(char)> spelling, char filler)
      : spelling_(std::move(spelling)), filler_(filler) {}

  std::string make(std::string_view wish);

 private:
  std::function<char(char)> spelling_;
  char filler_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::size_t> last_;  // the last number appended to a name
};

/// `text` so many times: `x{2,5}`, `x*`, `x?`, `(x+)?`. `text` must be one unit, or end in a
/// repetition.
[[nodiscard]] std::string with_quantifier(std::string text, std::uint32_t min, std::uint32_t max);

}  // namespace tenon::grammar
