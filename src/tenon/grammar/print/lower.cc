#include "tenon/grammar/print/lower.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/grammar/print/lower_automaton.h"
#include "tenon/grammar/print/lower_json.h"
#include "tenon/grammar/print/outline.h"
#include "tenon/grammar/rules/spell.h"
#include "tenon/regex/language.h"
#include "tenon/regex/syntax.h"

namespace tenon::grammar {
// Rewrites a grammar with the few kinds of nodes that every other engine's language has. Nodes are
// visited in order, parts before the nodes that hold them, and each is translated once; rules keep
// their names.
//
// find_regular() marks the nodes that are made of characters only. Consecutive parts that one
// automaton can read are joined into one lexeme (or into rules, if the language has no lexemes),
// because engines that choose the longest text for a lexeme would otherwise let free text take the
// stop that ends it (text_and_stop). Patterns, intersections and complements become expressions of
// regex::ExprSet, then an automaton over characters (lower_automaton.h), and are then written as
// rules or as a tree.
//
// JSON values are translated by lower_json.cc. Long repetitions become repetitions of repetitions,
// for engines that unroll them (add_repeat). What the language cannot express is listed in
// `relaxed`.

namespace {

using regex::CodePointSet;
using regex::Expr;
using regex::ExprSet;

// All but the surrogates, which UTF-8 cannot encode.
const CodePointSet kCharacters{{0, 0xD7FF}, {0xE000, 0x10FFFF}};

Error unsupported(std::string what) {
  return {Errc::unsupported, std::move(what)};
}

class Lowering {
 public:
  Lowering(const Rules& from, const LowerOptions& options)
      : from_(from),
        options_(options),
        shared_(options.shared == nullptr ? own_ : *options.shared),
        exprs_(Limits{.max_bytes = std::uint64_t{64} << 20, .shared = &shared_}),
        spelling_([this](const CodePointSet& set) {
          return lowered_.rules.add(node::Characters{set});
        }) {}

  Expected<Lowered> run() {
    for (RuleId rule = 0; rule < from_.rule_count(); ++rule) {
      // In this order, so that a rule keeps its number and node::Rule can be copied as it is.
      lowered_.rules.declare(from_.rule(rule).name);
    }
    // Parts come before the nodes that hold them.
    nodes_.resize(from_.node_count());
    languages_.resize(from_.node_count());
    if (options_.with_lexemes) find_regular();
    for (NodeId id = 0; id < from_.node_count(); ++id) {
      nodes_[id] = std::visit([&](const auto& node) { return lower(id, node); }, from_.node(id));
      if (error_) return Unexpected(*error_);
    }
    for (RuleId rule = 0; rule < from_.rule_count(); ++rule) {
      if (from_.rule(rule).body) lowered_.rules.define(rule, nodes_[*from_.rule(rule).body]);
    }
    lowered_.rules.set_root(read_as_one(from_.root()));
    return std::move(lowered_);
  }

 private:
  NodeId fail(Error error) {
    if (!error_) error_ = std::move(error);
    return 0;
  }
  std::vector<NodeId> mapped(const std::vector<NodeId>& parts) const {
    std::vector<NodeId> result;
    result.reserve(parts.size());
    for (const NodeId part : parts) result.push_back(nodes_[part]);
    return result;
  }

  NodeId lower(NodeId, const node::Literal& node) {
    if (!utf8::is_valid(node.bytes)) return fail(unsupported("a literal that is no valid UTF-8"));
    return lowered_.rules.add(node);
  }
  NodeId lower(NodeId, const node::Characters& node) { return lowered_.rules.add(node); }
  NodeId lower(NodeId, const node::Bytes& node) {
    std::vector<CodePointSet::Range> ranges;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!node.set.contains(static_cast<std::uint8_t>(byte))) continue;
      if (byte >= 0x80) return fail(unsupported("a set of bytes that are no characters"));
      ranges.push_back({byte, byte});
    }
    return lowered_.rules.add(node::Characters{CodePointSet(std::move(ranges))});
  }
  NodeId lower(NodeId id, const node::Sequence& node) {
    if (!options_.with_lexemes || is_regular_[id]) {
      return lowered_.rules.sequence(mapped(node.parts));
    }
    // Consecutive parts that one automaton can read are one lexeme.
    std::vector<NodeId> parts;
    for (std::size_t i = 0; i < node.parts.size();) {
      if (const auto joined = text_and_stop(node.parts, i)) {
        parts.push_back(*joined);
        i += 2;
        continue;
      }
      std::vector<NodeId> run;
      while (i < node.parts.size() && is_regular_[node.parts[i]]) {
        run.push_back(nodes_[node.parts[i++]]);
      }
      if (!run.empty()) parts.push_back(lexeme(lowered_.rules.sequence(std::move(run))));
      if (i < node.parts.size()) parts.push_back(nodes_[node.parts[i++]]);
    }
    return lowered_.rules.sequence(std::move(parts));
  }
  NodeId lower(NodeId id, const node::Choice& node) {
    if (!options_.with_lexemes || is_regular_[id]) {
      return lowered_.rules.choice(mapped(node.parts));
    }
    std::vector<NodeId> regular;
    std::vector<NodeId> parts;
    for (const NodeId part : node.parts) {
      (is_regular_[part] ? regular : parts).push_back(nodes_[part]);
    }
    if (!regular.empty()) parts.push_back(lexeme(lowered_.rules.choice(std::move(regular))));
    return lowered_.rules.choice(std::move(parts));
  }
  NodeId lower(NodeId id, const node::Repeat& node) {
    const std::uint32_t limit = options_.max_repeat;
    if (node.min > limit || (node.max > limit && node.max != node::kUnbounded)) {
      const std::string most = node.max == node::kUnbounded ? "" : std::to_string(node.max);
      lowered_.relaxed.push_back({"", "{" + std::to_string(node.min) + "," + most + "}",
                                  "repetitions are counted up to " + std::to_string(limit)});
    }
    // The parts of a regular node stay open, since a node around them makes one lexeme of all.
    const bool is_inside = !options_.with_lexemes || is_regular_[id];
    const NodeId part = is_inside ? nodes_[node.part] : read_as_one(node.part);
    return add_repeat(lowered_.rules, part, node.min,
                      node.max == node::kUnbounded ? ~std::uint64_t{0} : node.max, options_);
  }
  NodeId lower(NodeId, const node::Rule& node) { return lowered_.rules.add(node); }
  NodeId lower(NodeId, const node::Token& node) { return lowered_.rules.add(node); }
  // Other engines do not count tokens, or count them differently.
  NodeId lower(NodeId, const node::Tokens& node) {
    lowered_.relaxed.push_back({"", "max_tokens", "tokens are not counted"});
    return read_as_one(node.part);
  }
  NodeId lower(NodeId id, const node::Pattern&) { return regular(id); }
  NodeId lower(NodeId id, const node::Text&) { return regular(id); }
  NodeId lower(NodeId id, const node::Lexeme& node) {
    if (needs_automaton(node.part, 0)) return regular(id);
    if (!options_.with_lexemes) return nodes_[node.part];
    return lowered_.rules.add(node::Lexeme{nodes_[node.part], node.is_covered});
  }
  // These two are read only as parts of a lexeme.
  NodeId lower(NodeId, const node::Both&) { return lowered_.rules.choice({}); }
  NodeId lower(NodeId, const node::Complement&) { return lowered_.rules.choice({}); }
  // with_one_form() has removed them from what is lowered.
  NodeId lower(NodeId, const node::Forms& node) { return nodes_[node.printed]; }
  NodeId lower(NodeId, const node::Later&) {
    fail({Errc::unsupported, "what is made later cannot be written down"});
    return 0;
  }
  NodeId lower(NodeId, const node::Json& node) {
    const auto value = lower_json(lowered_.rules, node, options_, shared_, lowered_.relaxed);
    return value ? *value : fail(value.error());
  }

  // ---- Lexemes ----------------------------------------------------------------------------------

  // Finds nodes that are made of characters only and do not contain themselves.
  void find_regular() {
    is_regular_ = settled_nodes(from_, [&](NodeId id, std::size_t parts) {
      const Node& node = from_.node(id);
      const bool is_plain = std::holds_alternative<node::Literal>(node) ||
                            std::holds_alternative<node::Characters>(node) ||
                            std::holds_alternative<node::Bytes>(node) ||
                            std::holds_alternative<node::Sequence>(node) ||
                            std::holds_alternative<node::Choice>(node) ||
                            std::holds_alternative<node::Repeat>(node) ||
                            std::holds_alternative<node::Rule>(node);
      return is_plain ? parts : kNever;
    });
  }
  // Engines read a lexeme as far as possible; a literal has one length.
  NodeId lexeme(NodeId node) {
    if (std::holds_alternative<node::Literal>(lowered_.rules.node(node))) return node;
    return lowered_.rules.add(node::Lexeme{node});
  }
  NodeId read_as_one(NodeId id) {
    return options_.with_lexemes && is_regular_[id] ? lexeme(nodes_[id]) : nodes_[id];
  }

  // Free text and the stop that ends it are one lexeme: by itself the text would also take the
  // parts of the stop that it may contain.
  std::optional<NodeId> text_and_stop(const std::vector<NodeId>& parts, std::size_t at) {
    const auto* text = std::get_if<node::Text>(&from_.node(parts[at]));
    if (text == nullptr || at + 1 == parts.size()) return std::nullopt;
    Rules& rules = lowered_.rules;
    // A copy, as nodes are added below.
    const Node lowered = rules.node(nodes_[parts[at]]);
    const auto* lexeme = std::get_if<node::Lexeme>(&lowered);
    if (lexeme == nullptr) return std::nullopt;
    const NodeId next = nodes_[parts[at + 1]];
    std::vector<NodeId> ways{next};
    if (const auto* choice = std::get_if<node::Choice>(&rules.node(next))) ways = choice->parts;
    // By stop: what may follow it. Each way on must begin with a stop; if one does not, the text is
    // left as a lexeme of its own.
    std::vector<std::vector<NodeId>> rests(text->stops.size());
    for (const NodeId way : ways) {
      std::optional<NodeId> rest;
      for (std::size_t i = 0; i < text->stops.size() && !rest; ++i) {
        rest = after(way, text->stops[i]);
        if (rest) rests[i].push_back(*rest);
      }
      if (!rest) return std::nullopt;
    }
    std::vector<NodeId> joined;
    for (std::size_t i = 0; i < rests.size(); ++i) {
      if (rests[i].empty()) continue;
      const NodeId begin =
          rules.add(node::Lexeme{rules.sequence({lexeme->part, rules.literal(text->stops[i])})});
      joined.push_back(rules.sequence({begin, rules.choice(std::move(rests[i]))}));
    }
    return rules.choice(std::move(joined));
  }
  /// What follows `begin` in the texts of a node, if it begins with that literal.
  std::optional<NodeId> after(NodeId id, const std::string& begin) {
    Rules& rules = lowered_.rules;
    const Node node = rules.node(id);
    if (const auto* literal = std::get_if<node::Literal>(&node)) {
      if (!literal->bytes.starts_with(begin)) return std::nullopt;
      return rules.literal(literal->bytes.substr(begin.size()));
    }
    if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
      if (sequence->parts.empty()) return std::nullopt;
      const auto rest = after(sequence->parts[0], begin);
      if (!rest) return std::nullopt;
      std::vector<NodeId> parts = sequence->parts;
      parts[0] = *rest;
      return rules.sequence(std::move(parts));
    }
    if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) {
      const auto rest = after(lexeme->part, begin);
      return rest ? std::optional(this->lexeme(*rest)) : std::nullopt;
    }
    return std::nullopt;
  }

  // ---- Regular nodes ----------------------------------------------------------------------------

  static constexpr std::size_t kMaxDepth = 500;

  // True for patterns, free text, intersections and complements: what is left can be written as it
  // is.
  bool needs_automaton(NodeId id, std::size_t depth) const {
    if (depth > kMaxDepth) return true;  // language() reports that it is too deep
    const auto any = [&](const std::vector<NodeId>& parts) {
      return std::ranges::any_of(parts, [&](NodeId p) { return needs_automaton(p, depth + 1); });
    };
    const Node& node = from_.node(id);
    if (const auto* sequence = std::get_if<node::Sequence>(&node)) return any(sequence->parts);
    if (const auto* choice = std::get_if<node::Choice>(&node)) return any(choice->parts);
    if (const auto* repeat = std::get_if<node::Repeat>(&node)) return any({repeat->part});
    if (const auto* rule = std::get_if<node::Rule>(&node)) {
      const auto body = from_.rule(rule->rule).body;
      return body && any({*body});
    }
    return !std::holds_alternative<node::Literal>(node) &&
           !std::holds_alternative<node::Characters>(node);
  }

  // The node as an automaton, and the automaton as a tree or as rules. A tree that would be too
  // large becomes rules, which are no single lexeme, but have the same texts.
  NodeId regular(NodeId id) {
    const Expr language = exprs_.both(any_text(), this->language(id, 0));
    if (error_) return 0;
    if (const Status status = exprs_.status(); !status) return fail(status.error());
    const auto automaton = automaton_of(exprs_, language, options_.max_states);
    if (!automaton) return fail(automaton.error());
    Rules& rules = lowered_.rules;
    if (options_.with_lexemes) {
      const auto tree = add_as_tree(rules, *automaton, spelling_, options_.max_tree_nodes);
      if (tree) return rules.add(node::Lexeme{*tree});
    }
    return add_as_rules(rules, *automaton, "text", spelling_, std::nullopt);
  }

  Expr any_text() {
    return exprs_.repeat(regex::utf8_spelling(exprs_, kCharacters), 0, ExprSet::kUnbounded);
  }

  // Once for each node, because rules may double each other.
  Expr language(NodeId id, std::size_t depth) {
    if (error_) return ExprSet::kNothing;
    if (depth > kMaxDepth) {
      fail({Errc::limit_exceeded,
            "a lexeme of more than 500 parts in each other, or one that "
            "contains itself"});
      return ExprSet::kNothing;
    }
    std::optional<Expr>& known = languages_[id];
    if (!known) {
      known =
          std::visit([&](const auto& node) { return language(node, depth + 1); }, from_.node(id));
    }
    return *known;
  }
  std::vector<Expr> languages(const std::vector<NodeId>& parts, std::size_t depth) {
    std::vector<Expr> result;
    for (const NodeId part : parts) result.push_back(language(part, depth));
    return result;
  }
  Expr language(const node::Literal& node, std::size_t) { return exprs_.literal(node.bytes); }
  Expr language(const node::Characters& node, std::size_t) {
    return regex::utf8_spelling(exprs_, node.set);
  }
  Expr language(const node::Bytes& node, std::size_t) { return exprs_.bytes(node.set); }
  Expr language(const node::Sequence& node, std::size_t depth) {
    const std::vector<Expr> parts = languages(node.parts, depth);
    Expr result = ExprSet::kEpsilon;
    for (std::size_t i = parts.size(); i-- > 0;) result = exprs_.concat(parts[i], result);
    return result;
  }
  Expr language(const node::Choice& node, std::size_t depth) {
    return exprs_.any_of(languages(node.parts, depth));
  }
  Expr language(const node::Repeat& node, std::size_t depth) {
    return exprs_.repeat(language(node.part, depth), node.min, node.max);
  }
  Expr language(const node::Rule& node, std::size_t depth) {
    const auto body = from_.rule(node.rule).body;
    return body ? language(*body, depth) : ExprSet::kNothing;
  }
  Expr language(const node::Pattern& node, std::size_t) {
    Budget budget("pattern", {.max_steps = 200'000});
    const auto syntax = regex::parse(node.source, node.dialect, budget);
    if (!syntax) {
      fail(syntax.error());
      return ExprSet::kNothing;
    }
    const regex::Spelling spelling = node.in_json ? json_spelling : regex::utf8_spelling;
    const auto result = regex::language_of(exprs_, *syntax, regex::Extent::whole, spelling);
    if (!result) {
      fail(result.error());
      return ExprSet::kNothing;
    }
    // regular() intersects all languages with valid text.
    if (!node.in_json) return *result;
    // Looks hold arbitrary bytes, and not all text is written as in JSON.
    const Expr character = spelling(exprs_, CodePointSet::all());
    return exprs_.both(exprs_.repeat(character, 0, ExprSet::kUnbounded), *result);
  }
  Expr language(const node::Lexeme& node, std::size_t depth) { return language(node.part, depth); }
  Expr language(const node::Both& node, std::size_t depth) {
    return exprs_.all_of(languages(node.parts, depth));
  }
  Expr language(const node::Complement& node, std::size_t depth) {
    return exprs_.both(any_text(), exprs_.complement(language(node.part, depth)));
  }
  Expr language(const node::Text& node, std::size_t) {
    std::vector<Expr> stops;
    for (const std::string& stop : node.stops) {
      stops.push_back(exprs_.concat(ExprSet::kAnything,
                                    exprs_.concat(exprs_.literal(stop), ExprSet::kAnything)));
    }
    return exprs_.both(any_text(), exprs_.complement(exprs_.any_of(stops)));
  }
  Expr language(const node::Forms& node, std::size_t depth) {
    return language(node.printed, depth);
  }
  Expr language(const node::Token&, std::size_t) {
    fail({Errc::invalid, "a token cannot be part of a lexeme"});
    return ExprSet::kNothing;
  }
  Expr language(const node::Tokens&, std::size_t) {
    fail({Errc::invalid, "a number of tokens cannot be part of a lexeme"});
    return ExprSet::kNothing;
  }
  Expr language(const node::Later&, std::size_t) {
    fail({Errc::invalid, "what is made later cannot be part of a lexeme"});
    return ExprSet::kNothing;
  }
  Expr language(const node::Json&, std::size_t) {
    fail({Errc::invalid, "a JSON value cannot be part of a lexeme"});
    return ExprSet::kNothing;
  }

  const Rules& from_;
  const LowerOptions& options_;
  Lowered lowered_;
  std::vector<NodeId> nodes_;                   // for each node of from_, the node in lowered_
  std::vector<std::optional<Expr>> languages_;  // for each node of from_, if it was needed
  std::vector<bool> is_regular_;
  Allowance own_{kLowerSteps, Limits::kUnlimited};
  Allowance& shared_;
  ExprSet exprs_;
  CharacterSpelling spelling_;
  std::optional<Error> error_;
};

}  // namespace

Expected<Lowered> lower(const Rules& rules, const LowerOptions& options) {
  const std::optional<Rules> one_form = rules.with_one_form(&node::Forms::printed);
  return Lowering(one_form ? *one_form : rules, options).run();
}

NodeId add_repeat(Rules& rules, NodeId part, std::uint64_t min, std::uint64_t max,
                  const LowerOptions& options) {
  const std::uint64_t limit = options.max_repeat;
  min = std::min(min, limit);
  const bool is_bounded = max <= limit;
  const auto narrow = [](std::uint64_t count) { return static_cast<std::uint32_t>(count); };
  // For `size` 1000, x{2500,6200} is block{2} x{500} and up to 3700 more: x{0,999}, or a block and
  // up to 2700 more, and so on. A block is x{1000}.
  const std::uint64_t size = options.max_block;
  if (min <= size && (!is_bounded || max <= size)) {
    return rules.repeat(part, narrow(min), is_bounded ? narrow(max) : node::kUnbounded);
  }
  // Blocks of one size are one rule. Each optional block follows the one before it, so a text is
  // read in at most two ways.
  const auto named = [&](NodeId body) {
    const RuleId rule = rules.declare("block");
    rules.define(rule, body);
    return rules.add(node::Rule{rule});
  };
  const NodeId block = named(rules.repeat(part, narrow(size), narrow(size)));
  std::vector<NodeId> parts;
  if (min >= size) parts.push_back(rules.repeat(block, narrow(min / size), narrow(min / size)));
  if (min % size != 0) {
    parts.push_back(rules.repeat(part, narrow(min % size), narrow(min % size)));
  }
  if (!is_bounded) {
    parts.push_back(rules.repeat(part, 0, node::kUnbounded));
  } else if (max > min) {
    NodeId rest = rules.repeat(part, 0, narrow((max - min) % size));
    const std::uint64_t blocks = (max - min) / size;
    const NodeId less = blocks == 0 ? rest : named(rules.repeat(part, 0, narrow(size - 1)));
    for (std::uint64_t i = 0; i < blocks; ++i) {
      rest = named(rules.choice({less, rules.sequence({block, rest})}));
    }
    parts.push_back(rest);
  }
  return rules.sequence(std::move(parts));
}

Rules rules_of(std::shared_ptr<const schema::Schema> schema, const JsonOptions& options) {
  Rules rules;
  rules.set_root(rules.add(node::Json{std::move(schema), options}));
  return rules;
}

}  // namespace tenon::grammar
