#pragma once

#include "tenon/base/budget.h"
#include "tenon/json/decimal.h"

/// Arithmetic for `multipleOf`.
namespace tenon::schema {

/// Whether `value` is an integer times `divisor`, which is above zero; exact at any size. The work
/// grows with the digits of one times those of the other. Once `budget` is spent the answer means
/// nothing.
[[nodiscard]] bool is_multiple_of(const json::Decimal& value, const json::Decimal& divisor,
                                  Budget& budget);

}  // namespace tenon::schema
