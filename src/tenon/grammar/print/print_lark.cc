// Lark in llguidance's dialect: rules over lexemes, which are regular expressions. llguidance cuts
// a text into the longest possible lexemes, so a part that must be read as one is one terminal.
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/grammar/print/outline.h"
#include "tenon/grammar/print/print.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
char lower_case(char c) {
  if (!is_letter_or_digit(c)) return '\0';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
char upper_case(char c) {
  if (!is_letter_or_digit(c)) return '\0';
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// Writes "start" first and then rules and terminals in the order in which they are first referred
// to. A lexeme becomes a terminal with a name in capitals; what it is made of is written inside the
// terminal, or as further terminals.
class LarkPrinter {
 public:
  explicit LarkPrinter(const Rules& rules)
      : rules_(rules),
        is_productive_(productive_nodes(rules)),
        use_counts_(use_counts(rules, is_productive_)),
        rule_names_(lower_case, '_'),
        terminal_names_(upper_case, '_') {}

  Expected<std::string> print() {
    if (!is_productive_[rules_.root()]) {
      return Unexpected(Error{Errc::unsatisfiable, "no text fits the grammar"});
    }
    rule_names_.make("start");
    NodeId root = rules_.root();
    // A rule whose body is only another rule is written as that one. It ends when a rule comes
    // again.
    while (const auto* rule = std::get_if<node::Rule>(&rules_.node(root))) {
      if (!names_.try_emplace({Sort::rule, root_key(rule->rule)}, "start").second) break;
      root = *rules_.rule(rule->rule).body;
    }
    pending_.push_back({Sort::rule, "start", root});
    while (!pending_.empty() && !error_) {
      const Pending next = std::move(pending_.front());
      pending_.pop_front();
      text_ += next.name + ": " + node_text(next.sort, next.body, Place::choice, 0) + "\n";
    }
    if (error_) return Unexpected(*error_);
    return std::move(text_);
  }

 private:
  /// A rule is read by the parser, a terminal by one automaton.
  enum class Sort : std::uint8_t { rule, terminal };
  enum class Place : std::uint8_t { choice, sequence, repeated };
  struct Pending {
    Sort sort;
    std::string name;
    NodeId body;
  };

  // Rules and nodes have separate numbers; both are keys of one table.
  using Key = std::pair<Sort, std::uint64_t>;
  static std::uint64_t root_key(RuleId rule) { return std::uint64_t{rule} << 1U; }
  static std::uint64_t node_key(NodeId id) { return std::uint64_t{id} << 1U | 1U; }

  const std::string& name_of(Sort sort, std::uint64_t key, const std::string& wish, NodeId body) {
    const auto known = names_.find({sort, key});
    if (known != names_.end()) return known->second;
    std::string name = (sort == Sort::rule ? rule_names_ : terminal_names_).make(wish);
    pending_.push_back({sort, name, body});
    return names_.emplace(Key{sort, key}, std::move(name)).first->second;
  }

  // A node that is nested too deeply, or would be written twice and is long or deep, gets a name of
  // its own.
  bool is_apart(NodeId id, std::size_t depth) const {
    constexpr std::size_t kMaxDepth = 20;
    const std::vector<NodeId> parts = parts_of(rules_, id);
    if (parts.empty() || std::holds_alternative<node::Rule>(rules_.node(id))) return false;
    return depth > kMaxDepth || (use_counts_[id] > 1 && (parts.size() > 3 || depth > 3));
  }

  std::string node_text(Sort sort, NodeId id, Place place, std::size_t depth) {
    if (depth > 0 && is_apart(id, depth)) return name_of(sort, node_key(id), "part", id);
    return std::visit([&](const auto& node) { return text_of(sort, id, node, place, depth + 1); },
                      rules_.node(id));
  }

  static std::string in_parentheses(std::string text, bool are_needed) {
    return are_needed ? "(" + std::move(text) + ")" : std::move(text);
  }

  std::string text_of(Sort, NodeId, const node::Literal& node, Place, std::size_t) {
    return json::to_string(json::Value(node.bytes));
  }
  std::string text_of(Sort, NodeId, const node::Characters& node, Place, std::size_t) {
    const auto ranges = node.set.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last) {
      std::string bytes;
      utf8::append(bytes, ranges[0].first);
      return json::to_string(json::Value(bytes));
    }
    return "/" + class_text(node.set) + "/";
  }
  std::string text_of(Sort sort, NodeId, const node::Sequence& node, Place place,
                      std::size_t depth) {
    std::vector<std::string> texts;
    append_parts(sort, node, depth, texts);
    if (texts.size() > 1) std::erase(texts, "\"\"");
    if (texts.empty()) return "\"\"";
    std::string text;
    for (const std::string& part : texts) text += (text.empty() ? "" : " ") + part;
    return in_parentheses(std::move(text), place == Place::repeated && texts.size() > 1);
  }
  void append_parts(Sort sort, const node::Sequence& node, std::size_t depth,
                    std::vector<std::string>& texts) {
    for (const NodeId part : node.parts) {
      // Sequences in sequences are written as one: a (b c) is a b c.
      const auto* inner = std::get_if<node::Sequence>(&rules_.node(part));
      if (inner != nullptr && !is_apart(part, depth)) {
        append_parts(sort, *inner, depth + 1, texts);
      } else {
        texts.push_back(node_text(sort, part, Place::sequence, depth));
      }
    }
  }
  std::string text_of(Sort sort, NodeId, const node::Choice& node, Place place, std::size_t depth) {
    std::vector<NodeId> ways = node.parts;
    std::erase_if(ways, [&](NodeId part) { return !is_productive_[part]; });
    if (ways.size() == 1) return node_text(sort, ways[0], place, depth);
    std::string text;
    for (const NodeId way : ways) {
      text += (text.empty() ? "" : " | ") + node_text(sort, way, Place::choice, depth);
    }
    return in_parentheses(std::move(text), place != Place::choice);
  }
  std::string text_of(Sort sort, NodeId, const node::Repeat& node, Place, std::size_t depth) {
    if (!is_productive_[node.part] || node.max == 0) return "\"\"";
    return with_quantifier(node_text(sort, node.part, Place::repeated, depth), node.min, node.max);
  }
  std::string text_of(Sort sort, NodeId, const node::Rule& node, Place, std::size_t) {
    const auto& definition = rules_.rule(node.rule);
    // A rule that consists of one lexeme is that lexeme.
    const auto* lexeme = std::get_if<node::Lexeme>(&rules_.node(*definition.body));
    if (sort == Sort::rule && lexeme != nullptr) {
      return name_of(Sort::terminal, root_key(node.rule), definition.name, lexeme->part);
    }
    return name_of(sort, root_key(node.rule), definition.name, *definition.body);
  }
  std::string text_of(Sort sort, NodeId id, const node::Lexeme& node, Place place,
                      std::size_t depth) {
    if (sort == Sort::terminal) return node_text(sort, node.part, place, depth);
    if (const auto* rule = std::get_if<node::Rule>(&rules_.node(node.part))) {
      const auto& definition = rules_.rule(rule->rule);
      return name_of(Sort::terminal, root_key(rule->rule), definition.name, *definition.body);
    }
    return name_of(Sort::terminal, node_key(id), "text", node.part);
  }
  std::string text_of(Sort, NodeId, const node::Token& node, Place, std::size_t) {
    if (node.is_negated && node.names.empty() && node.ids.empty()) return "<[*]>";
    std::vector<std::string> ways;
    if (node.is_negated && !node.names.empty()) {
      error_ = Error{Errc::unsupported,
                     "Lark excludes tokens by number only: give the id of '" + node.names[0] + "'"};
    }
    for (const std::string& name : node.names) {
      if (!name.starts_with('<') || !name.ends_with('>')) {
        error_ = Error{Errc::unsupported,
                       "Lark has tokens by number, or by a name in '<' and '>': give the id of '" +
                           name + "'"};
      }
      ways.push_back(name);
    }
    std::string ids;
    for (const node::Token::Range& range : node.ids) {
      ids += (ids.empty() ? "" : ",") + std::to_string(range.first);
      if (range.last != range.first) ids += "-" + std::to_string(range.last);
    }
    if (!ids.empty()) ways.push_back(std::string(node.is_negated ? "<[^" : "<[") + ids + "]>");
    std::string text;
    for (const std::string& way : ways) text += (text.empty() ? "" : " | ") + way;
    return in_parentheses(std::move(text), ways.size() > 1);
  }
  template <class Other>
  std::string text_of(Sort, NodeId, const Other&, Place, std::size_t) {
    return "";  // lower() leaves no such nodes
  }

  // A character in /[...]/, as Rust's regex syntax has it: letters, digits and signs without a
  // meaning as they are, others as \xFF or \x{1F600}.
  static std::string class_character(char32_t c) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == ' ' || c == '_' || c == ':' || c == ',' ||
                          c == ';' || c == '"' || c == '%' || c == '@' || c == '=' || c == '\'';
    if (is_plain) return {static_cast<char>(c)};
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string digits;
    for (int i = 6; i-- > 0;) {
      const char digit = kHex[c >> 4 * i & 15U];
      if (!digits.empty() || digit != '0' || i < 2) digits += digit;
    }
    return digits.size() == 2 ? "\\x" + digits : "\\x{" + digits + "}";
  }
  // A class that includes the last character is shorter as the negation of the others.
  static std::string class_text(const CodePointSet& set) {
    const CodePointSet surrogates{{0xD800, 0xDFFF}};
    const CodePointSet rest = set.united(surrogates).complemented();
    const bool is_negated = set.contains(CodePointSet::kLast);
    if (is_negated && rest.is_empty()) return "(?s:.)";
    const CodePointSet& listed = is_negated ? rest : set;
    std::string text = is_negated ? "[^" : "[";
    // A negated class that includes the surrogates does not list them.
    append_ranges(text, listed, class_character);
    return text + "]";
  }

  const Rules& rules_;
  std::vector<bool> is_productive_;
  std::vector<std::uint32_t> use_counts_;
  Names rule_names_;
  Names terminal_names_;
  std::map<Key, std::string> names_;
  std::deque<Pending> pending_;  // what is still to be written
  std::string text_;
  std::optional<Error> error_;
};

}  // namespace

Expected<Printed> print_lark(const Rules& rules) {
  auto lowered = lower(rules, {.with_lexemes = true, .max_block = 100'000});
  if (!lowered) return Unexpected(lowered.error());
  auto text = LarkPrinter(lowered->rules).print();
  if (!text) return Unexpected(text.error());
  return Printed{*std::move(text), std::move(lowered->relaxed)};
}

}  // namespace tenon::grammar
