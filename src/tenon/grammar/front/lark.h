#pragma once

#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

/// Adds a grammar in Lark, in llguidance's dialect, and returns the node of its rule `start`:
///
///     start: "sum(" NUMBER ("," NUMBER)* ")"
///     NUMBER: /-?[0-9]+/
///     %ignore / +/
///
/// Unsupported features (%declare, priorities, %lark, ...) are refused by name. Rules with a
/// parameter are read once for each value with which they are used, at most 30,000 times. Lazy
/// texts end for good where they can first end: see commit_lazy.h. It differs from llguidance in
/// two points: texts that are not lazy are read in every way that the grammar allows, not only with
/// the longest text for each terminal, and ignored text may also come first. docs/grammars.md has
/// the syntax.
[[nodiscard]] Expected<NodeId> add_lark(Rules& rules, std::string_view source);

}  // namespace tenon::grammar
