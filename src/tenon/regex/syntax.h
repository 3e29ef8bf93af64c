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
  /// ECMA-262 in unicode mode (section 22.2.1), with what schemas take from Annex B: a punctuation
  /// character may be escaped without need, and "{", "}" and "]" stand for themselves where they
  /// begin nothing. Letters may not: "\Z" is refused, for those who write it mean Python's.
  ecma262,
  /// What tokenizer.json files have: "^" and "$" are ends of lines, "{2}+" repeats a repetition.
  oniguruma,
  /// What tiktoken patterns have (Rust's fancy-regex): "{2}+" is possessive.
  fancy_regex,
};

using NodeId = std::uint32_t;

/// A piece of a pattern. What has the same meaning has the same form: "\b", "(?m)^" and the like
/// are looks, capturing groups are what they hold.
struct Node {
  enum class Kind : std::uint8_t {
    set,       ///< One character of Syntax::sets[set].
    sequence,  ///< All parts, one after the other; none: the empty text.
    choice,    ///< One of the parts, the first that fits before the others.
    repeat,    ///< parts[0], `min` to `max` times.
    atomic,    ///< parts[0], as it fits first: no other way is tried.
    begin,     ///< The beginning of the text.
    end,       ///< The end of the text.
    look,      ///< Nothing, where parts[0] fits (`is_negative`: does not) ahead or behind.
  };

  Kind kind = Kind::sequence;
  bool is_negative = false;
  bool is_behind = false;
  bool is_lazy = false;
  bool has_position = false;  ///< It or a part of it is `begin`, `end` or `look`.
  bool is_ordered = false;    ///< It or a part of it is `atomic`: which way is taken matters.
  std::uint32_t set = 0;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::uint32_t depth = 1;  ///< Of the tree.
  std::vector<NodeId> parts;
};

struct Syntax {
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kMaxDepth = 250;

  std::vector<Node> nodes;  ///< Parts come before what they are parts of.
  std::vector<CodePointSet> sets;
  NodeId root = 0;
};

/// Fails with Errc::invalid ("pattern: nothing to repeat at byte 3"), Errc::unsupported (back
/// references, conditions) or Errc::limit_exceeded. Groups that hold one thing only do not count as
/// nesting.
[[nodiscard]] Expected<Syntax> parse(std::string_view pattern, Dialect dialect, Budget& budget);

}  // namespace tenon::regex
