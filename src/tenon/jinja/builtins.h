#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/jinja/name_index.h"

/// The names that every template can use: methods of values and global functions. Filters and tests
/// are rows of their own tables (filters.cc, tests.cc).
namespace tenon::jinja {

// clang-format off: it does not finish when it fills these lines.
// Each list is written once: the enumerators are made here, the texts in builtins.cc.
#define TENON_JINJA_METHODS(X) \
  X(append) X(as_integer_ratio) X(bit_count) X(bit_length) X(capitalize) X(casefold) X(center) \
  X(clear) X(conjugate) X(copy) X(count) X(current) X(cycle) X(changed) X(decode) X(denominator) \
  X(depth) X(depth0) X(encode) X(endswith) X(expandtabs) X(extend) X(find) X(first) X(format) \
  X(format_map) X(fromhex) X(fromkeys) X(get) X(grouper) X(hex) X(imag) X(index) X(index0) \
  X(insert) X(is_integer) X(isalnum) X(isalpha) X(isascii) X(isdecimal) X(isdigit) X(isdisjoint) \
  X(isidentifier) X(islower) X(isnumeric) X(isprintable) X(isspace) X(istitle) X(isupper) \
  X(items) X(join) X(keys) X(last) X(length) X(list) X(ljust) X(lower) X(lstrip) X(maketrans) \
  X(next) X(nextitem) X(numerator) X(partition) X(pop) X(popitem) X(previtem) X(real) X(remove) \
  X(removeprefix) X(removesuffix) X(replace) X(reset) X(reverse) X(revindex) X(revindex0) \
  X(rfind) X(rindex) X(rjust) X(rpartition) X(rsplit) X(rstrip) X(setdefault) X(sort) X(split) \
  X(splitlines) X(start) X(startswith) X(step) X(stop) X(strip) X(swapcase) X(title) X(to_bytes) \
  X(translate) X(unescape) X(striptags) X(update) X(upper) X(values) X(zfill) X(name) \
  X(arguments) X(catch_kwargs) X(catch_varargs) X(caller)

#define TENON_JINJA_FUNCTIONS(X) \
  X(range) X(dict) X(lipsum) X(cycler) X(joiner) X(namespace_) X(raise_exception) \
  X(strftime_now)
// clang-format on

// NOLINTBEGIN(performance-enum-size): as wide as kNoBuiltin, which differs from all of them.
// NOLINTBEGIN(readability-identifier-naming): keywords of C++ get an underscore at the end.
#define TENON_JINJA_ENUMERATOR(name) name,
enum class MethodId : std::uint32_t { TENON_JINJA_METHODS(TENON_JINJA_ENUMERATOR) };
enum class FunctionId : std::uint32_t { TENON_JINJA_FUNCTIONS(TENON_JINJA_ENUMERATOR) };
#undef TENON_JINJA_ENUMERATOR
// NOLINTEND(readability-identifier-naming)
// NOLINTEND(performance-enum-size)

/// The number of a name, or kNoBuiltin.
[[nodiscard]] std::uint32_t method_of_name(std::string_view name);
[[nodiscard]] std::uint32_t function_of_name(std::string_view name);

[[nodiscard]] std::string_view method_name(MethodId id);
[[nodiscard]] std::string_view function_name(FunctionId id);

}  // namespace tenon::jinja
