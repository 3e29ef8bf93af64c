#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/vocab.h"

namespace tenon::grammar {

/// A tree of tokens that a smaller model has guessed, for Matcher::fill_draft_masks. Node 0 is the
/// text so far; each other node is a token behind its parent. Nodes may come in any order.
///
///       0 ── 1 "a" ── 3 "c"        tokens  {any, a, b, c}
///       └─── 2 "b"                 parents {-1, 0, 0, 1}
struct DraftTree {
  std::span<const vocab::TokenId> tokens;  ///< that of node 0 is not read
  std::span<const std::int32_t> parents;   ///< as many; -1 for node 0
};

/// All nodes, each behind its parent and before its siblings' descendants. Fails with `invalid` if
/// node 0 is missing or has a parent, if a parent does not exist, and if nodes are in a circle.
[[nodiscard]] Expected<std::vector<std::int32_t>> preorder(const DraftTree& tree);

}  // namespace tenon::grammar
