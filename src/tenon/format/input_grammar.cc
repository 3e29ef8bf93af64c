#include "tenon/format/input_grammar.h"

#include <utility>
#include <vector>

#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/rules/spell.h"
#include "tenon/json/value.h"
#include "tenon/regex/syntax.h"

namespace tenon::format {
namespace {

// Parsed here only to refuse what is wrong with a good message; the grammar compiles the pattern
// itself.
Expected<grammar::Rules> read_regex(const std::string& source) {
  Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
  const auto parsed = regex::parse(source, regex::Dialect::fancy_regex, budget);
  if (!parsed) return Unexpected(parsed.error());
  grammar::Rules rules;
  rules.set_root(rules.add(grammar::node::Pattern{source, regex::Dialect::fancy_regex}));
  return rules;
}

// ["yes", "no"] allows exactly one of these texts.
Expected<grammar::Rules> read_choice(const std::string& source) {
  const auto list = json::parse(source);
  if (!list) return Unexpected(list.error());
  const json::Array* const texts = list->if_array();
  grammar::Rules rules;
  std::vector<grammar::NodeId> ways;
  for (const json::Value& text : texts != nullptr ? *texts : json::Array()) {
    if (text.if_string() != nullptr) ways.push_back(rules.literal(*text.if_string()));
  }
  if (ways.empty() || ways.size() != texts->size()) {
    return Unexpected(Error{Errc::invalid, "a choice is a list of strings that is not empty"});
  }
  rules.set_root(rules.choice(std::move(ways)));
  return rules;
}

}  // namespace

Expected<grammar::Rules> read_text_grammar(const message::TextGrammar& grammar) {
  using Syntax = message::TextGrammar::Syntax;
  switch (grammar.syntax) {
    case Syntax::lark:
      return grammar::read_rules(grammar.definition, grammar::Syntax::lark);
    case Syntax::regex:
      return read_regex(grammar.definition);
    case Syntax::gbnf:
      return grammar::read_rules(grammar.definition, grammar::Syntax::gbnf);
    case Syntax::structural_tag:
      return grammar::read_rules(grammar.definition, grammar::Syntax::structural_tag);
    case Syntax::choice:
      break;
  }
  return read_choice(grammar.definition);
}

Expected<grammar::Rules> read_input_grammar(const message::TextGrammar& grammar) {
  auto rules = read_text_grammar(grammar);
  if (!rules) return rules;
  // Spelled once into rules that are thrown away, so that a grammar that cannot be part of a call
  // is refused here.
  grammar::Rules copy;
  const auto root = grammar::add_spelled(copy, *rules, grammar::Spelling::plain);
  if (!root) return Unexpected(root.error());
  return rules;
}

}  // namespace tenon::format
