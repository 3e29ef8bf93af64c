#pragma once

#include <memory>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/grammar/print/lower.h"

namespace tenon::grammar {

/// Adds the JSON values of a schema to `rules` as plain nodes, and what they cannot express to
/// `relaxed`. Steps also count against `shared`. See lower().
[[nodiscard]] Expected<NodeId> lower_json(Rules& rules, const node::Json& json,
                                          const LowerOptions& options, Allowance& shared,
                                          std::vector<Relaxed>& relaxed);

}  // namespace tenon::grammar
