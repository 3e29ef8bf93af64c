#pragma once

#include <string_view>

#include "tenon/jinja/args.h"
#include "tenon/jinja/runtime.h"

/// One use of a filter, and what the filters' functions share.
namespace tenon::jinja {

/// What the function of a filter gets.
struct FilterInput {
  const Value& value;  // to the left of the bar
  const Args& args;    // as they were written
  const Value* bound;  // in the order of the row's parameters; null if it takes any

  /// Argument number `i` of the row's parameters; missing if it was not given.
  const Value& operator[](std::size_t i) const { return bound[i]; }
};

inline Value or_default(const Value& value, const Value& otherwise) {
  return value.is(Tag::missing) ? otherwise : value;
}
inline bool is_absent(const Value& value) {  // not given, or None
  return value.is(Tag::missing) || value.is(Tag::none);
}
inline bool flag(Values& values, const Value& value, bool otherwise = false) {
  return value.is(Tag::missing) ? otherwise : values.truth(value);
}
inline Value markup(Value value) {
  value.flags |= kMarkup;
  return value;
}
[[noreturn]] inline void lacks(const Budget& budget, const Value& value,
                               std::string_view attribute) {
  budget.fail("AttributeError", "'" + std::string(type_name(value)) +
                                    "' object has no attribute '" + std::string(attribute) + "'");
}

}  // namespace tenon::jinja
