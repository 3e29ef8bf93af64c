#pragma once

#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules.h"

namespace tenon::grammar {

struct LazyLexeme {
  NodeId lexeme = 0;
  NodeId part = 0;
};

/// Makes lazy lexemes end a text for good, as a lexer does that takes the first of them: with
///
///     start: call* rest       call: head arguments       head[lazy]: ANY "<call>"       rest: ANY
///
/// a `rest` holds no "<call>", for where it may begin a `head` may begin, too, and would have ended
/// there. So of the lexemes that may begin at a place, each loses the texts that begin with a text
/// of a lazy one there, and a lazy one those that another lazy text ends before it.
///
/// `lazy` are lexemes of the grammar below `root`, each with the node whose shortest texts it
/// reads. Returns the root of a copy. Lexemes are all nodes but sequences, choices, repetitions and
/// rules. Fails with `limit_exceeded` where places differ in too many ways.
[[nodiscard]] Expected<NodeId> commit_lazy(Rules& rules, NodeId root,
                                           const std::vector<LazyLexeme>& lazy);

}  // namespace tenon::grammar
