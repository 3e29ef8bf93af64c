#include "tenon/grammar/rules/spell.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/regex/spelling.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

// The characters that stand for themselves in a JSON string.
const CodePointSet kPlainText{
    {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, CodePointSet::kLast}};

// The text between the quotes; `text` must not contain NUL.
std::string escaped(std::string_view text) {
  std::string out;
  json::append_escaped(out, text);
  return out;
}

// The other characters of `set`, as they are written.
std::vector<std::string> escapes_of(const CodePointSet& set) {
  std::vector<std::string> escapes;
  // NUL has no notation (spell.h), and behind the backslash no character needs an escape.
  for (char32_t c = 1; c <= U'\\'; ++c) {
    if (set.contains(c) && !kPlainText.contains(c)) {
      escapes.push_back(escaped(std::string(1, static_cast<char>(c))));
    }
  }
  return escapes;
}

// Copies a grammar into another one, node by node. Within JSON each character is written as it is
// inside a string: `a"b` becomes `a\"b`.
class Speller {
 public:
  Speller(Rules& to, const Rules& from, Spelling spelling)
      : to_(to),
        from_(from),
        in_json_(spelling == Spelling::in_json),
        takes_all_(spelling == Spelling::copied) {}

  // Parts have smaller ids than the nodes that they are in, so one pass in the order of the ids
  // finds each part already copied. Rules are declared before, since nodes refer to them in cycles.
  Expected<NodeId> run() {
    for (RuleId rule = 0; rule < from_.rule_count(); ++rule) {
      rules_.push_back(to_.declare(from_.rule(rule).name));
    }
    for (NodeId id = 0; id < from_.node_count() && !error_; ++id) {
      nodes_.push_back(std::visit([this](const auto& node) { return copy(node); }, from_.node(id)));
    }
    if (error_) return Unexpected(*error_);
    for (RuleId rule = 0; rule < from_.rule_count(); ++rule) {
      if (const auto body = from_.rule(rule).body) to_.define(rules_[rule], nodes_[*body]);
    }
    return nodes_[from_.root()];
  }

 private:
  std::vector<NodeId> copied(const std::vector<NodeId>& parts) const {
    std::vector<NodeId> copies;
    copies.reserve(parts.size());
    for (const NodeId part : parts) copies.push_back(nodes_[part]);
    return copies;
  }
  NodeId fail(std::string_view what) {
    error_ = Error{Errc::unsupported, std::string(what) + " cannot be part of a text's grammar"};
    return 0;
  }

  NodeId copy(const node::Literal& node) {
    if (!in_json_) return to_.add(node);
    if (node.bytes.find('\0') != std::string::npos) return to_.choice({});
    return to_.literal(escaped(node.bytes));
  }
  NodeId copy(const node::Characters& node) { return characters(node.set); }
  NodeId characters(const CodePointSet& set) {
    if (!in_json_) return to_.add(node::Characters{set});
    const NodeId plain = to_.add(node::Characters{set.intersected(kPlainText)});
    std::vector<std::string> escapes = escapes_of(set);
    if (escapes.empty()) return plain;
    const auto [known, is_new] = escapes_.try_emplace(escapes, 0);
    if (is_new) {
      std::vector<NodeId> ways;
      for (std::string& escape : escapes) ways.push_back(to_.literal(std::move(escape)));
      known->second = to_.choice(std::move(ways));
    }
    return to_.choice({plain, known->second});
  }
  // A byte below 0x80 is a character and may need an escape. Others are parts of a character, which
  // JSON never escapes.
  NodeId copy(const node::Bytes& node) {
    if (!in_json_) return to_.add(node);
    std::vector<CodePointSet::Range> ascii;
    regex::ByteSet others;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto one = static_cast<std::uint8_t>(byte);
      if (!node.set.contains(one)) continue;
      if (byte < 0x80) {
        ascii.push_back({byte, byte});
      } else {
        others |= regex::ByteSet::of(one);
      }
    }
    const NodeId spelled = characters(CodePointSet(std::move(ascii)));
    return others.size() == 0 ? spelled : to_.choice({spelled, to_.add(node::Bytes{others})});
  }
  NodeId copy(const node::Sequence& node) { return to_.sequence(copied(node.parts)); }
  NodeId copy(const node::Choice& node) { return to_.choice(copied(node.parts)); }
  NodeId copy(const node::Repeat& node) {
    return to_.repeat(nodes_[node.part], node.min, node.max);
  }
  NodeId copy(const node::Rule& node) { return to_.add(node::Rule{rules_[node.rule]}); }
  // The pattern keeps its source: its characters are spelled when an automaton is made of it
  // (json_spelling).
  NodeId copy(const node::Pattern& node) {
    node::Pattern pattern = node;
    pattern.in_json = pattern.in_json || in_json_;
    return to_.add(std::move(pattern));
  }
  NodeId copy(const node::Lexeme& node) {
    return to_.add(node::Lexeme{nodes_[node.part], node.is_covered});
  }
  NodeId copy(const node::Both& node) { return to_.add(node::Both{copied(node.parts)}); }
  NodeId copy(const node::Complement& node) { return but(nodes_[node.part]); }
  NodeId copy(const node::Text& node) {
    if (!in_json_) return to_.add(node);
    std::vector<NodeId> stops;
    for (const std::string& stop : node.stops) stops.push_back(copy(node::Literal{stop}));
    return but(to_.sequence({any_text(), to_.choice(std::move(stops)), any_text()}));
  }
  NodeId copy(const node::Token& node) { return takes_all_ ? to_.add(node) : fail("a token"); }
  NodeId copy(const node::Tokens& node) {
    return takes_all_ ? to_.add(node::Tokens{nodes_[node.part], node.max})
                      : fail("a number of tokens");
  }
  NodeId copy(const node::Forms& node) {
    return to_.add(node::Forms{nodes_[node.read], nodes_[node.printed]});
  }
  NodeId copy(const node::Json& node) { return takes_all_ ? to_.add(node) : fail("%json"); }
  NodeId copy(const node::Later&) { return fail("what is made later"); }

  NodeId any_text() { return to_.repeat(characters(CodePointSet::all()), 0, node::kUnbounded); }
  // Every text except those of `part`. In a string the complement alone would also have texts that
  // are no inside of a string, such as a quotation mark without its backslash.
  NodeId but(NodeId part) {
    const NodeId others = to_.add(node::Complement{part});
    return in_json_ ? to_.add(node::Both{{any_text(), others}}) : others;
  }

  Rules& to_;
  const Rules& from_;
  const bool in_json_;
  const bool takes_all_;
  std::vector<NodeId> nodes_;  // by the nodes of from_
  std::vector<RuleId> rules_;
  std::map<std::vector<std::string>, NodeId> escapes_;  // shared by ranges of characters
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> add_spelled(Rules& rules, const Rules& grammar, Spelling spelling) {
  return Speller(rules, grammar, spelling).run();
}

regex::Expr json_spelling(regex::ExprSet& exprs, const CodePointSet& set) {
  std::vector<regex::Expr> ways{regex::utf8_spelling(exprs, set.intersected(kPlainText))};
  for (const std::string& escape : escapes_of(set)) ways.push_back(exprs.literal(escape));
  return exprs.any_of(ways);
}

}  // namespace tenon::grammar
