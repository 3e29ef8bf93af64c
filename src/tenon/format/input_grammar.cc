#include "tenon/format/input_grammar.h"

#include "tenon/grammar/read_rules.h"
#include "tenon/grammar/spell.h"
#include "tenon/regex/syntax.h"

namespace tenon::format {
namespace {

Expected<grammar::Rules> read_regex(const std::string& source) {
  Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
  const auto parsed = regex::parse(source, regex::Dialect::fancy_regex, budget);
  if (!parsed) return Unexpected(parsed.error());
  grammar::Rules rules;
  rules.set_root(rules.add(grammar::node::Pattern{source, regex::Dialect::fancy_regex}));
  return rules;
}

}  // namespace

Expected<grammar::Rules> read_input_grammar(const message::TextGrammar& grammar) {
  auto rules = grammar.syntax == message::TextGrammar::Syntax::lark
                   ? grammar::read_rules(grammar.definition, grammar::Syntax::lark)
                   : read_regex(grammar.definition);
  if (!rules) return rules;
  grammar::Rules copy;
  const auto root = grammar::add_spelled(copy, *rules, grammar::Spelling::plain);
  if (!root) return Unexpected(root.error());
  return rules;
}

}  // namespace tenon::format
