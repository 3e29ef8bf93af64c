#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"

/// Grammars that several front ends need: structural tags, xgrammar's EBNF, Lark.
namespace tenon::grammar {

/// Free text, and after each of its triggers the node to which the trigger leads:
///
///     add_dispatch(rules, {.ways = {{"<call>", body}}, .stops = {"<call>"}})
struct Dispatch {
  struct Way {
    std::string trigger;
    NodeId rest = 0;
  };
  std::vector<Way> ways;
  std::vector<std::string> stops;  ///< Free text has none of these: the triggers, and further
                                   ///< texts.
  bool at_least_one = false;       ///< A trigger must come first.
  bool only_first = false;         ///< The text ends after the first way.
};
/// What of it is more than add_dispatch() should be given, as a sentence; "": nothing is.
[[nodiscard]] std::string excess(const Dispatch& dispatch);
[[nodiscard]] NodeId add_dispatch(Rules& rules, Dispatch dispatch);

/// The same with any free `text`, and with `tag` for a trigger and its node.
[[nodiscard]] NodeId add_dispatch(Rules& rules, NodeId text, NodeId tag, bool at_least_one,
                                  bool only_first);

/// Texts of `part`, which must be regular, that have no shorter text of it as a prefix.
[[nodiscard]] NodeId add_shortest(Rules& rules, NodeId part);

/// Texts of `part`, which must be regular, of at most `most` characters. If it cannot end there,
/// texts that end as soon after it as possible.
[[nodiscard]] NodeId add_max_chars(Rules& rules, NodeId part, std::uint32_t most);

/// Texts of `part`, which must be regular, of at most `most` tokens; see node::Tokens.
[[nodiscard]] NodeId add_max_tokens(Rules& rules, NodeId part, std::uint32_t most);

/// A pattern that must match the whole text, as xgrammar reads it: ECMA-262, and Python's flags at
/// the beginning (`(?i)abc`) and named groups (`(?P<n>...)`). `flags` are further flags out of
/// "ims".
[[nodiscard]] Expected<NodeId> add_pattern(Rules& rules, std::string_view source,
                                           std::string flags = {});

/// Any run of consecutive `chunks`: "", "a", "ab", "b", ... of "a", "b". Needs about twice as many
/// rules as there are chunks.
[[nodiscard]] NodeId add_substring(Rules& rules, const std::vector<std::string>& chunks);

}  // namespace tenon::grammar
