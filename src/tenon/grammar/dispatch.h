#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules.h"

/// Grammars of parts that several front ends write: structural tags, xgrammar's EBNF, Lark.
namespace tenon::grammar {

/// Free text, and behind each of its triggers what this one leads to:
///
///     add_dispatch(rules, {.ways = {{"<call>", body}}, .stops = {"<call>"}})
struct Dispatch {
  struct Way {
    std::string trigger;
    NodeId rest = 0;
  };
  std::vector<Way> ways;
  std::vector<std::string> stops;  ///< In no free text: the triggers, and what else is not.
  bool at_least_one = false;       ///< A trigger comes first.
  bool only_first = false;         ///< The text ends behind the first way.
};
[[nodiscard]] NodeId add_dispatch(Rules& rules, Dispatch dispatch);

/// The same with any free `text`, and `tag`, a trigger and what it leads to.
[[nodiscard]] NodeId add_dispatch(Rules& rules, NodeId text, NodeId tag, bool at_least_one,
                                  bool only_first);

/// Texts of `part`, which is regular, that no shorter one begins.
[[nodiscard]] NodeId add_shortest(Rules& rules, NodeId part);

/// Texts of `part`, which is regular, of at most `most` characters; where it cannot end there,
/// those that end as soon after it as they can.
[[nodiscard]] NodeId add_max_chars(Rules& rules, NodeId part, std::uint32_t most);

/// Texts of `part`, which is regular, of at most `most` tokens, as node::Tokens has it.
[[nodiscard]] NodeId add_max_tokens(Rules& rules, NodeId part, std::uint32_t most);

/// A pattern that the whole text matches, as xgrammar takes them: ECMA-262, and what people write
/// in Python: flags before all (`(?i)abc`), named groups (`(?P<n>...)`). `flags` of "ims" hold,
/// too.
[[nodiscard]] Expected<NodeId> add_pattern(Rules& rules, std::string_view source,
                                           std::string flags = {});

/// What some of `chunks`, side by side, say: "", "a", "ab", "b", ... of "a", "b". Rules of some
/// twice as many states as there are chunks.
[[nodiscard]] NodeId add_substring(Rules& rules, const std::vector<std::string>& chunks);

}  // namespace tenon::grammar
