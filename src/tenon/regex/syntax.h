#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/regex/code_points.h"

/// Patterns as text and as trees.
namespace tenon::regex {

enum class Dialect : std::uint8_t {
  /// ECMA-262 in unicode mode (section 22.2.1), with the parts of Annex B that schemas use: a
  /// punctuation character may be escaped without need, and "{", "}" and "]" are literals where
  /// they begin nothing. Letters may not be escaped without need: "\Z" is refused, because people
  /// who write it mean Python's.
  ecma262,
  /// The patterns of tokenizer.json files: "^" and "$" match at ends of lines, "{2}+" repeats a
  /// repetition.
  oniguruma,
  /// The patterns of tiktoken (Rust's fancy-regex): "{2}+" is possessive.
  fancy_regex,
};

using NodeId = std::uint32_t;

/// A piece of a pattern. Constructs with the same meaning have the same nodes: "\b", "(?m)^" and
/// the like are looks, and a capturing group is the node of its content.
struct Node {
  enum class Kind : std::uint8_t {
    set,       ///< One character of Syntax::sets[set].
    sequence,  ///< All parts, one after the other; without parts: the empty text.
    choice,    ///< One of the parts; earlier parts are tried first.
    repeat,    ///< parts[0], `min` to `max` times.
    atomic,    ///< parts[0] in the first way that fits; no other way is tried.
    begin,     ///< The beginning of the text.
    end,       ///< The end of the text.
    look,  ///< Matches the empty text where parts[0] fits (`is_negative`: does not fit) ahead or
           ///< behind.
  };

  Kind kind = Kind::sequence;
  bool is_negative = false;
  bool is_behind = false;
  bool is_lazy = false;
  bool has_position = false;  ///< It or a part of it is `begin`, `end` or `look`.
  bool is_ordered = false;    ///< It or a part of it is `atomic`: it matters which way is taken.
  std::uint32_t set = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::uint32_t depth = 1;  ///< The depth of the tree.
  std::vector<NodeId> parts;
};

struct Syntax {
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kMaxDepth = 250;

  std::vector<Node> nodes;  ///< Parts come before the nodes that hold them.
  std::vector<CodePointSet> sets;
  NodeId root = 0;
};

/// Fails with Errc::invalid ("pattern: nothing to repeat at byte 3"), Errc::unsupported (back
/// references, conditions) or Errc::limit_exceeded. A group with only one part does not count as
/// nesting.
[[nodiscard]] Expected<Syntax> parse(std::string_view pattern, Dialect dialect, Budget& budget);

}  // namespace tenon::regex
