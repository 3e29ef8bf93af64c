#pragma once

#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

struct LazyLexeme {
  NodeId lexeme = 0;
  NodeId part = 0;
};

/// Makes lazy lexemes end a text for good, like a lexer that takes the first match. In
///
///     start: call* rest       call: head arguments       head[lazy]: ANY "<call>"       rest: ANY
///
/// a `rest` has no "<call>": where it may begin a `head` may begin too, and would have ended there.
/// So each lexeme that may begin at a place loses the texts that begin with a text of a lazy lexeme
/// there, and a lazy lexeme loses those that another lazy text ends before it.
///
/// `lazy` are lexemes of the grammar below `root`, each with the node whose shortest texts it
/// reads. Returns the root of a copy. Lexemes are all nodes except sequences, choices, repetitions
/// and rules. Fails with `limit_exceeded` if places differ in too many ways.
[[nodiscard]] Expected<NodeId> commit_lazy(Rules& rules, NodeId root,
                                           const std::vector<LazyLexeme>& lazy);

}  // namespace tenon::grammar
