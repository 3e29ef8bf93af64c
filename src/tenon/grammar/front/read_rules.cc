#include "tenon/grammar/front/read_rules.h"

#include <string>

#include "tenon/grammar/front/gbnf.h"
#include "tenon/grammar/front/lark.h"
#include "tenon/grammar/front/structural_tag.h"
#include "tenon/json/value.h"
#include "tenon/regex/syntax.h"

namespace tenon::grammar {

namespace {

// Parsed here too, so that a mistake is found when the grammar is read; the node keeps the source
// and is parsed again when an automaton is made of it.
Expected<NodeId> add_regex(Rules& rules, std::string_view source) {
  Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
  const auto parsed = regex::parse(source, regex::Dialect::ecma262, budget);
  if (!parsed) return Unexpected(parsed.error());
  return rules.add(node::Pattern{std::string(source)});
}

Expected<NodeId> add(Rules& rules, std::string_view source, Syntax syntax) {
  switch (syntax) {
    case Syntax::gbnf:
      return add_gbnf(rules, source);
    case Syntax::lark:
      return add_lark(rules, source);
    case Syntax::regex:
      return add_regex(rules, source);
    case Syntax::structural_tag:
      break;
  }
  const auto tag = json::parse(source);
  if (!tag) return Unexpected(tag.error());
  return add_structural_tag(rules, *tag);
}

}  // namespace

std::optional<Syntax> syntax_named(std::string_view name) {
  if (name == "gbnf" || name == "ebnf") return Syntax::gbnf;
  if (name == "lark") return Syntax::lark;
  if (name == "regex") return Syntax::regex;
  if (name == "structural_tag") return Syntax::structural_tag;
  return std::nullopt;
}

Expected<Rules> read_rules(std::string_view source, Syntax syntax) {
  Rules rules;
  const auto root = add(rules, source, syntax);
  if (!root) return Unexpected(root.error());
  rules.set_root(*root);
  return rules;
}

}  // namespace tenon::grammar
