#pragma once

#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

/// Adds a grammar in llama.cpp's GBNF and returns the node of its rule `root`:
///
///     Rules rules;
///     const auto root = add_gbnf(rules, "root ::= \"yes\" | [0-9]{1,3} # or a number");
///     if (!root) return Unexpected(root.error());   // "line 1, column 9: ..."
///     rules.set_root(*root);
///
/// It also understands rules that begin with themselves, any number of repetitions, and xgrammar's
/// EBNF as people write it and as str(grammar) prints it. There a rule continues over line ends
/// until the next one begins, may have options (`name[lazy, max_tokens=9] ::= ...`), names with
/// dots, macros (Regex, Substring, Token, ExcludeToken, TagDispatch, TokenTagDispatch), and a
/// look-ahead `(=...)` at its end, which is read and ignored, because the rules that follow decide
/// what follows. Names of tokens (`<think>`) are looked up when the vocabulary is known.
/// docs/grammars.md has the syntax.
[[nodiscard]] Expected<NodeId> add_gbnf(Rules& rules, std::string_view source);

}  // namespace tenon::grammar
