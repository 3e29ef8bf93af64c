#pragma once

#include "tenon/base/budget.h"
#include "tenon/json/decimal.h"

/// Arithmetic for `multipleOf`.
namespace tenon::schema {

/// Whether `value` is an integer times `divisor`, which must be above zero. Exact at any size. The
/// work grows with the product of their lengths. Once `budget` is spent the result is not valid.
[[nodiscard]] bool is_multiple_of(const json::Decimal& value, const json::Decimal& divisor,
                                  Budget& budget);

}  // namespace tenon::schema
