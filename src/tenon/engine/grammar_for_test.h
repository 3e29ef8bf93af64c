#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/vocab/tokenizer.h"
#include "tenon/vocab/vocab.h"

namespace tenon::engine {

inline std::shared_ptr<grammar::Grammar> grammar_of(grammar::Rules rules,
                                                    const vocab::Tokenizer& tokenizer,
                                                    const grammar::Grammar::Limits& limits = {}) {
  auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(tokenizer));
  const auto build = [rules = std::move(rules), index](grammar::Machine& machine) {
    return grammar::add_rules(machine, rules, index->vocab());
  };
  return *grammar::Grammar::make(build, index, limits);
}

/// Whether `text` belongs to the grammar's language.
inline bool holds(const std::shared_ptr<grammar::Grammar>& grammar, std::string_view text) {
  grammar::Matcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.is_accepting();
}

/// A grammar of the texts that `pattern` matches as a whole.
inline std::shared_ptr<grammar::Grammar> grammar_of_pattern(std::string_view pattern,
                                                            const vocab::Tokenizer& tokenizer) {
  return grammar_of(*grammar::read_rules(pattern, grammar::Syntax::regex), tokenizer);
}

}  // namespace tenon::engine
