#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/jinja/big_int.h"
#include "tenon/jinja/value.h"

/// Numbers as Python reads and writes them.
namespace tenon::jinja {

/// Python reads and writes integers of at most so many digits
/// (sys.int_info.default_max_str_digits).
inline constexpr std::size_t kMaxIntegerDigits = 4300;

/// The double nearest to `text` (an optional sign, digits, fraction, exponent); infinite if the
/// number is out of range.
[[nodiscard]] double parse_double(std::string_view text);

/// float(text) and int(text, base) of a str: surrounding space, underscores and decimal digits of
/// any script are allowed. Nothing if Python raises ValueError.
[[nodiscard]] std::optional<double> float_of_text(std::string_view text);
[[nodiscard]] std::optional<BigInt> int_of_text(std::string_view text, unsigned base);

/// repr(float): the shortest text that reads back as `value`.
[[nodiscard]] std::string repr_of_double(double value);
/// format(value, '.{precision}{kind}') for kind e, f or g (or their capitals), `alternate` for '#'.
[[nodiscard]] std::string format_double(double value, char kind, int precision, bool alternate);

/// An integer or big_integer value, whichever fits.
[[nodiscard]] Value make_big(Arena& arena, const BigInt& value, bool is_data);
[[nodiscard]] BigInt big_of(const Value& value);  // of an integer, boolean or big_integer

}  // namespace tenon::jinja
