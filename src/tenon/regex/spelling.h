#pragma once

#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"

namespace tenon::regex {

/// One character of `set` in UTF-8. Surrogates are left out, because they have no such form.
[[nodiscard]] Expr utf8_spelling(ExprSet& exprs, const CodePointSet& set);

}  // namespace tenon::regex
