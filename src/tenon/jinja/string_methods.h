#pragma once

#include "tenon/jinja/args.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"
#include "tenon/jinja/unicode.h"

/// Methods of Python's str, and what filters share with them.
namespace tenon::jinja {

[[nodiscard]] Value call_string_method(Runtime& rt, const Value& self, MethodId id,
                                       const Args& args);
[[nodiscard]] Value mapped_case(Runtime& rt, const Value& string, unicode::Case to);
/// jinja2's title filter: words begin after space and brackets, not after apostrophes.
[[nodiscard]] Value title_words(Runtime& rt, const Value& string);
[[nodiscard]] Value capitalized(Runtime& rt, const Value& string);

}  // namespace tenon::jinja
