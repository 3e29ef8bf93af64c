#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/grammar/rules.h"

/// What lower() and the printers ask of a grammar.
namespace tenon::grammar {

/// The nodes that a node is made of; for a rule, its body.
[[nodiscard]] std::vector<NodeId> parts_of(const Rules& rules, NodeId id);

/// The least set of nodes that holds a node once it holds as many of its parts as `needed` says
/// (kNever: it never does).
[[nodiscard]] std::vector<bool> settled_nodes(
    const Rules& rules, const std::function<std::size_t(NodeId id, std::size_t parts)>& needed);
constexpr std::size_t kNever = ~std::size_t{0};

/// By node: it reads some text.
[[nodiscard]] std::vector<bool> productive_nodes(const Rules& rules);
/// By node: it reads the empty text.
[[nodiscard]] std::vector<bool> nullable_nodes(const Rules& rules);
/// By node: how often it is written where each node is written once; 0: it is not reached from the
/// root, or reads nothing.
[[nodiscard]] std::vector<std::uint32_t> use_counts(const Rules& rules,
                                                    const std::vector<bool>& is_productive);

/// Names that were not given out before.
class Names {
 public:
  /// `spelling` is how a character is written in a name; 0: not at all. What is left out leaves a
  /// `filler` behind.
  Names(std::function<char(char)> spelling, char filler)
      : spelling_(std::move(spelling)), filler_(filler) {}

  std::string make(std::string_view wish);

 private:
  std::function<char(char)> spelling_;
  char filler_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::size_t> last_;  // number behind a name
};

/// `text` so many times: `x{2,5}`, `x*`, `x?`, `(x+)?`. It holds together by itself, or ends in a
/// repetition.
[[nodiscard]] std::string with_quantifier(std::string text, std::uint32_t min, std::uint32_t max);

}  // namespace tenon::grammar
