#pragma once

#include <string>

#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/mask_walks.h"

namespace tenon::grammar {

[[nodiscard]] Syntax syntax_of(Dialect dialect);

/// For tests and fuzzers: a grammar in `dialect` with a preference for what has been difficult:
/// alternatives that begin alike, rules that contain themselves, free text with triggers and stops,
/// lexemes that end early. Not every one can be read, or has a text.
[[nodiscard]] std::string chosen_grammar(Choices& choices, Dialect dialect);

}  // namespace tenon::grammar
