#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "tenon/jinja/budget.h"

namespace tenon::jinja {

struct Keyword {
  Value key, value;
};

/// The arguments of a call.
struct Args {
  const Value* items = nullptr;
  std::uint32_t size = 0;
  const Keyword* keywords = nullptr;
  std::uint32_t keyword_count = 0;
};

/// Puts arguments into `out` in the order of `names`; absent ones are missing. Fails as Python does
/// if an argument is unknown, given twice or too much, or if one of the first `required` is absent.
void bind_arguments(const Budget& budget, const Args& args, std::string_view function,
                    std::span<const std::string_view> names, std::size_t required, Value* out);
inline void bind_arguments(const Budget& budget, const Args& args, std::string_view function,
                           std::initializer_list<std::string_view> names, std::size_t required,
                           Value* out) {
  bind_arguments(budget, args, function, std::span(names.begin(), names.size()), required, out);
}

/// Fails unless there are `least` to `most` arguments and no keywords.
void positional_only(const Budget& budget, const Args& args, std::string_view function,
                     std::size_t least, std::size_t most);

}  // namespace tenon::jinja
