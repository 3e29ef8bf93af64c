// GBNF and EBNF: rules over characters, in two notations.
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/grammar/print/outline.h"
#include "tenon/grammar/print/print.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

enum class Dialect : std::uint8_t { gbnf, ebnf };

// xgrammar reads all hexadecimal digits after "\x": first two, then some of the text.
std::string hex(char32_t c, Dialect dialect) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  const int digits = c < 0x100 && dialect == Dialect::gbnf ? 2 : c < 0x10000 ? 4 : 8;
  for (int i = digits; i-- > 0;) result += kHex[c >> 4 * i & 15U];
  return (digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U") + result;
}

char name_character(char c) {
  const bool is_allowed =
      (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return is_allowed ? c : '\0';
}

// Writes the root first and then the rules in the order in which they are first referred to. A node
// is written where it stands, unless is_apart() makes a rule of it; what reads nothing is left out.
class BnfPrinter {
 public:
  BnfPrinter(const Rules& rules, Dialect dialect)
      : rules_(rules),
        dialect_(dialect),
        is_productive_(productive_nodes(rules)),
        use_counts_(use_counts(rules, is_productive_)),
        names_(name_character, '-') {}

  Expected<std::string> print() {
    if (!is_productive_[rules_.root()]) {
      return Unexpected(Error{Errc::unsatisfiable, "no text fits the grammar"});
    }
    if (dialect_ == Dialect::gbnf) {
      if (const auto rule = left_recursion()) {
        return Unexpected(Error{Errc::unsupported,
                                "the rule '" + rules_.rule(*rule).name +
                                    "' begins with itself, which llama.cpp refuses: write it as a "
                                    "repetition"});
      }
    }
    // The root is a rule with a name of its own.
    names_.make("root");
    NodeId root = rules_.root();
    // A rule whose body is only another rule is written as that one. It ends when a rule comes
    // again.
    while (const auto* rule = std::get_if<node::Rule>(&rules_.node(root))) {
      if (!rule_names_.try_emplace(rule->rule, "root").second) break;
      root = *rules_.rule(rule->rule).body;
    }
    write_rule("root", root);
    while (!pending_.empty() && !error_) {
      const auto [name, body] = std::move(pending_.front());
      pending_.pop_front();
      write_rule(name, body);
    }
    if (error_) return Unexpected(*error_);
    return std::move(text_);
  }

 private:
  // How tightly a text must hold together at its place.
  enum class Place : std::uint8_t { choice, sequence, repeated };

  void write_rule(const std::string& name, NodeId body) {
    text_ += name + " ::= " + node_text(body, Place::choice, 0) + "\n";
  }

  // ---- Which rules there are --------------------------------------------------------------------

  const std::string& name_of(RuleId rule) {
    const auto known = rule_names_.find(rule);
    if (known != rule_names_.end()) return known->second;
    std::string name = names_.make(rules_.rule(rule).name);
    pending_.emplace_back(name, *rules_.rule(rule).body);
    return rule_names_.emplace(rule, std::move(name)).first->second;
  }
  const std::string& name_of_node(NodeId id) {
    const auto known = node_names_.find(id);
    if (known != node_names_.end()) return known->second;
    std::string name = names_.make("part");
    pending_.emplace_back(name, id);
    return node_names_.emplace(id, std::move(name)).first->second;
  }
  // A node that would be written twice and is long, or is nested too deeply, becomes a rule.
  bool is_apart(NodeId id, std::size_t depth) const {
    constexpr std::size_t kMaxDepth = 30;
    const std::vector<NodeId> parts = parts_of(rules_, id);
    if (parts.empty() || std::holds_alternative<node::Rule>(rules_.node(id))) return false;
    return depth > kMaxDepth || (use_counts_[id] > 1 && parts.size() > 3);
  }

  /// A rule that can come back to itself before it has read a character.
  std::optional<RuleId> left_recursion() const {
    const std::vector<bool> is_nullable = nullable_nodes(rules_);
    enum class Mark : std::uint8_t { unseen, open, done };
    std::vector<Mark> marks(rules_.node_count(), Mark::unseen);
    for (NodeId start = 0; start < rules_.node_count(); ++start) {
      if (use_counts_[start] == 0 || marks[start] != Mark::unseen) continue;
      std::vector<std::pair<NodeId, std::vector<NodeId>>> stack{{start, heads(start, is_nullable)}};
      marks[start] = Mark::open;
      while (!stack.empty()) {
        auto& [id, todo] = stack.back();
        if (todo.empty()) {
          marks[id] = Mark::done;
          stack.pop_back();
          continue;
        }
        const NodeId next = todo.back();
        todo.pop_back();
        // Only rules make circles, so there is one on the way to here.
        if (marks[next] == Mark::open) {
          for (const auto& [on_way, rest] : stack) {
            const auto* rule = std::get_if<node::Rule>(&rules_.node(on_way));
            if (rule != nullptr) return rule->rule;
          }
        } else if (marks[next] == Mark::unseen) {
          marks[next] = Mark::open;
          stack.emplace_back(next, heads(next, is_nullable));
        }
      }
    }
    return std::nullopt;
  }
  // The nodes with which a text of the node can begin.
  std::vector<NodeId> heads(NodeId id, const std::vector<bool>& is_nullable) const {
    const auto* sequence = std::get_if<node::Sequence>(&rules_.node(id));
    if (sequence == nullptr) return parts_of(rules_, id);
    std::vector<NodeId> result;
    for (const NodeId part : sequence->parts) {
      result.push_back(part);
      if (!is_nullable[part]) break;
    }
    return result;
  }

  // ---- Nodes ------------------------------------------------------------------------------------

  std::string node_text(NodeId id, Place place, std::size_t depth) {
    if (depth > 0 && is_apart(id, depth)) return name_of_node(id);
    return std::visit([&](const auto& node) { return text_of(node, place, depth + 1); },
                      rules_.node(id));
  }

  static std::string in_parentheses(std::string text, bool are_needed) {
    return are_needed ? "(" + std::move(text) + ")" : std::move(text);
  }

  std::string text_of(const node::Literal& node, Place, std::size_t) {
    return literal_text(node.bytes);
  }
  std::string text_of(const node::Characters& node, Place, std::size_t) {
    if (const auto one = only_character(node.set)) return literal_text(*one);
    return class_text(node.set);
  }
  std::string text_of(const node::Sequence& node, Place place, std::size_t depth) {
    std::vector<std::string> texts;
    std::string bytes;
    // An empty literal is one too, which `bytes` alone would not show.
    bool is_literal = false;
    append_parts(node, depth, texts, bytes, is_literal);
    if (is_literal) texts.push_back(literal_text(bytes));
    // An empty text among others says nothing.
    if (texts.size() > 1) std::erase(texts, "\"\"");
    if (texts.empty()) return "\"\"";
    std::string text;
    for (const std::string& part : texts) text += (text.empty() ? "" : " ") + part;
    return in_parentheses(std::move(text), place == Place::repeated && texts.size() > 1);
  }
  // Joins sequences in sequences, and consecutive literals.
  void append_parts(const node::Sequence& node, std::size_t depth, std::vector<std::string>& texts,
                    std::string& bytes, bool& is_literal) {
    for (const NodeId part : node.parts) {
      if (const auto literal = literal_of(part)) {
        bytes += *literal;
        is_literal = true;
        continue;
      }
      const auto* inner = std::get_if<node::Sequence>(&rules_.node(part));
      if (inner != nullptr && !is_apart(part, depth)) {
        append_parts(*inner, depth + 1, texts, bytes, is_literal);
        continue;
      }
      if (is_literal) texts.push_back(literal_text(bytes));
      bytes.clear();
      is_literal = false;
      texts.push_back(node_text(part, Place::sequence, depth));
    }
  }
  std::optional<std::string> literal_of(NodeId id) const {
    if (const auto* literal = std::get_if<node::Literal>(&rules_.node(id))) return literal->bytes;
    if (const auto* set = std::get_if<node::Characters>(&rules_.node(id))) {
      return only_character(set->set);
    }
    return std::nullopt;
  }
  std::string text_of(const node::Choice& node, Place place, std::size_t depth) {
    std::vector<NodeId> ways = node.parts;
    std::erase_if(ways, [&](NodeId part) { return !is_productive_[part]; });
    if (ways.size() == 1) return node_text(ways[0], place, depth);
    std::string text;
    for (const NodeId way : ways) {
      text += (text.empty() ? "" : " | ") + node_text(way, Place::choice, depth);
    }
    return in_parentheses(std::move(text), place != Place::choice);
  }
  std::string text_of(const node::Repeat& node, Place, std::size_t depth) {
    if (!is_productive_[node.part] || node.max == 0) return "\"\"";
    return with_quantifier(repeated_text(node, depth), node.min, node.max);
  }
  // llama.cpp counts the rules that it must make for a repeated part, including those inside it,
  // and refuses too many. A rule counts as one.
  std::string repeated_text(const node::Repeat& node, std::size_t depth) {
    const bool is_often = node.min > 1 || (node.max > 1 && node.max != node::kUnbounded);
    if (is_often && !parts_of(rules_, node.part).empty() &&
        !std::holds_alternative<node::Rule>(rules_.node(node.part))) {
      return name_of_node(node.part);
    }
    return node_text(node.part, Place::repeated, depth);
  }
  std::string text_of(const node::Rule& node, Place, std::size_t) { return name_of(node.rule); }
  std::string text_of(const node::Lexeme& node, Place place, std::size_t depth) {
    return node_text(node.part, place, depth);
  }
  std::string text_of(const node::Token& node, Place, std::size_t) {
    if (node.names.empty() && node.ids.empty()) {
      error_ = Error{Errc::unsupported, std::string(dialect_ == Dialect::gbnf ? "GBNF" : "EBNF") +
                                            " cannot say that any token may come"};
    }
    return dialect_ == Dialect::gbnf ? gbnf_token(node) : ebnf_token(node);
  }
  template <class Other>
  std::string text_of(const Other&, Place, std::size_t) {
    return "";  // lower() leaves no such nodes
  }

  // ---- Tokens -----------------------------------------------------------------------------------

  static constexpr std::uint32_t kMaxRange = 256;  // tokens written one by one

  template <class Each>
  // Neither language has ranges of tokens, so they are written one by one.
  void each_id(const node::Token& node, const Each& each) {
    for (const node::Token::Range& range : node.ids) {
      if (range.last - range.first >= kMaxRange) {
        error_ = Error{Errc::unsupported,
                       "a range of more than " + std::to_string(kMaxRange) + " token ids"};
        return;
      }
      for (std::uint64_t id = range.first; id <= range.last; ++id) each(id);
    }
  }
  std::string gbnf_token(const node::Token& node) {
    std::vector<std::string> ways;
    for (const std::string& name : node.names) {
      ways.push_back(name.starts_with('<') && name.ends_with('>') ? name : "<" + name + ">");
    }
    each_id(node, [&](std::uint64_t id) { ways.push_back("<[" + std::to_string(id) + "]>"); });
    if (node.is_negated && ways.size() > 1) {
      error_ = Error{Errc::unsupported, "GBNF cannot exclude more than one token at a place"};
    }
    std::string text;
    for (const std::string& way : ways) {
      text += (text.empty() ? "" : " | ") + std::string(node.is_negated ? "!" : "") + way;
    }
    return ways.size() == 1 ? text : "(" + text + ")";
  }
  std::string ebnf_token(const node::Token& node) {
    if (!node.names.empty()) {
      error_ = Error{Errc::unsupported,
                     "EBNF has tokens by number only: give the id of '" + node.names[0] + "'"};
      return "";
    }
    std::string text;
    each_id(node,
            [&](std::uint64_t id) { text += (text.empty() ? "" : ", ") + std::to_string(id); });
    return (node.is_negated ? "ExcludeToken(" : "Token(") + text + ")";
  }

  // ---- Characters -------------------------------------------------------------------------------

  static std::optional<std::string> only_character(const CodePointSet& set) {
    if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last) {
      return std::nullopt;
    }
    std::string bytes;
    utf8::append(bytes, set.ranges()[0].first);
    return bytes;
  }

  [[nodiscard]] std::string literal_text(std::string_view bytes) const {
    std::string text = "\"";
    for (const char c : bytes) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (c == '"' || c == '\\') {
        text += std::string("\\") + c;
      } else if (c == '\n') {
        text += "\\n";
      } else if (c == '\r') {
        text += "\\r";
      } else if (c == '\t') {
        text += "\\t";
      } else if (byte < 0x20 || byte == 0x7F) {
        text += hex(byte, dialect_);
      } else {
        text += c;
      }
    }
    return text + "\"";
  }

  // The signs of a class are escaped: in GBNF by their number, since \- and \^ are no escapes
  // there.
  [[nodiscard]] std::string class_character(char32_t c) const {
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (c == '\\') return "\\\\";
    if (c == '-' || c == ']' || c == '^' || c == '[') {
      if (dialect_ == Dialect::gbnf || c == '[') return hex(c, dialect_);
      return std::string("\\") + static_cast<char>(c);
    }
    if (c < 0x20 || c >= 0x7F) return hex(c, dialect_);
    return {static_cast<char>(c)};
  }
  [[nodiscard]] std::string class_text(const CodePointSet& set) const {
    constexpr CodePointSet::Range kSurrogates{0xD800, 0xDFFF};
    const CodePointSet surrogates{kSurrogates};
    const CodePointSet rest = set.united(surrogates).complemented();
    // "[^" stands for all characters that are not listed; surrogates are not characters. llama.cpp
    // mistakes a character for a listed one if it begins with the same byte, so only ASCII may be
    // listed.
    const bool is_negated =
        set.contains(CodePointSet::kLast) && !rest.is_empty() && rest.ranges().back().last < 0x80;
    CodePointSet listed = is_negated ? rest : set;
    // xgrammar reads "-" as the sign of a range, even if it is escaped, unless it comes last.
    const CodePointSet dash{{'-', '-'}};
    const bool is_last = dialect_ == Dialect::ebnf && listed.contains('-');
    if (is_last) listed = listed.intersected(dash.complemented());
    std::string text = is_negated ? "[^" : "[";
    append_ranges(text, listed, [this](char32_t c) { return class_character(c); });
    return text + (is_last ? "-]" : "]");
  }

  const Rules& rules_;
  Dialect dialect_;
  std::vector<bool> is_productive_;
  std::vector<std::uint32_t> use_counts_;
  Names names_;
  std::map<RuleId, std::string> rule_names_;
  std::map<NodeId, std::string> node_names_;
  std::deque<std::pair<std::string, NodeId>> pending_;  // rules to be written
  std::string text_;
  std::optional<Error> error_;
};

Expected<Printed> print_bnf(const Rules& rules, Dialect dialect, Allowance* shared) {
  auto lowered = lower(rules, {.shared = shared});
  if (!lowered) return Unexpected(lowered.error());
  auto text = BnfPrinter(lowered->rules, dialect).print();
  if (!text) return Unexpected(text.error());
  return Printed{*std::move(text), std::move(lowered->relaxed)};
}

}  // namespace

Expected<Printed> print_gbnf(const Rules& rules) {
  return print_bnf(rules, Dialect::gbnf, nullptr);
}
Expected<Printed> print_ebnf(const Rules& rules) {
  return print_bnf(rules, Dialect::ebnf, nullptr);
}
Expected<Printed> print_gbnf(const Rules& rules, Allowance& shared) {
  return print_bnf(rules, Dialect::gbnf, &shared);
}
Expected<Printed> print_ebnf(const Rules& rules, Allowance& shared) {
  return print_bnf(rules, Dialect::ebnf, &shared);
}

}  // namespace tenon::grammar
