#pragma once

#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/print/lower.h"
#include "tenon/grammar/rules/rules.h"

/// Grammars in the languages of other engines. docs/printing.md says what each cannot express.
///
///     const auto printed = print_gbnf(rules_of(schema, {.whitespace = Whitespace::spaced}));
///     if (!printed) return Unexpected(printed.error());
///     if (!printed->relaxed.empty()) ...    // what comes back must be validated
namespace tenon::grammar {

struct Printed {
  std::string text;
  std::vector<Relaxed> relaxed;  ///< What the text allows beyond the grammar; see lower().
};

/// GBNF, as llama.cpp and llama-server read it. Fails as lower() does, and with `unsupported` at a
/// rule that begins with itself, which llama.cpp refuses.
[[nodiscard]] Expected<Printed> print_gbnf(const Rules& rules);
/// EBNF, as xgrammar, vLLM and SGLang read it. Tokens must be given by number.
[[nodiscard]] Expected<Printed> print_ebnf(const Rules& rules);
/// Lark, as llguidance reads it.
[[nodiscard]] Expected<Printed> print_lark(const Rules& rules);

/// The same for one of several grammars that share their steps: LowerOptions::shared.
[[nodiscard]] Expected<Printed> print_gbnf(const Rules& rules, Allowance& shared);
[[nodiscard]] Expected<Printed> print_ebnf(const Rules& rules, Allowance& shared);

}  // namespace tenon::grammar
