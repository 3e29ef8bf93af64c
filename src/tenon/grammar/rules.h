#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json_frames.h"
#include "tenon/grammar/machine.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/vocab.h"

/// Context-free grammars as data: what the front ends make (GBNF, Lark, regex, structural tags,
/// schemas), what the machine reads and the printers write. A grammar knows no vocabulary.
namespace tenon::grammar {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;
class Rules;

/// The kinds of nodes. A text that a node reads is called a text of it.
namespace node {

constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

/// These bytes; perhaps none.
struct Literal {
  std::string bytes;
};
/// One character of the set, in UTF-8. Surrogates have no such form.
struct Characters {
  regex::CodePointSet set;
};
/// One byte of the set, which is not empty.
struct Bytes {
  regex::ByteSet set;
};
/// One after the other; none: the empty text.
struct Sequence {
  std::vector<NodeId> parts;
};
/// One of them; none: nothing can be read.
struct Choice {
  std::vector<NodeId> parts;
};
/// `min` to `max` (kUnbounded: any number) texts of `part`; nothing can be read if `max` is less.
struct Repeat {
  NodeId part = 0;
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;
};
/// What the rule says; the only way in which a grammar can be recursive.
struct Rule {
  RuleId rule = 0;
};
/// The texts that a pattern matches from beginning to end. Flags are written in it: "(?i:...)".
struct Pattern {
  std::string source;
  regex::Dialect dialect = regex::Dialect::ecma262;
  bool in_json = false;  ///< Its texts stand between the quotes of a JSON string: see spell.h.
};
/// The texts of a regular node, read by one automaton.
struct Lexeme {
  NodeId part = 0;
  /// Wherever it can be read something else can be too, which goes on with all that it goes on
  /// with: free text beside what comes before a call. Masks then ask it only how it ends. Where the
  /// other one ends for good, so must this one, by its structure (ExprSet): no search is made.
  bool is_covered = false;
};
/// Texts of all parts at once. Only in a lexeme.
struct Both {
  std::vector<NodeId> parts;
};
/// Valid UTF-8 that is no text of `part`. Only in a lexeme.
struct Complement {
  NodeId part = 0;
};
/// Free text: valid UTF-8 that contains none of `stops`, which are not empty.
struct Text {
  std::vector<std::string> stops;
};
/// One token: one of those named or numbered, or (`is_negated`) any other one. A control token can
/// be read in no other way.
struct Token {
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  std::vector<std::string> names;  ///< As the vocabulary spells them: "<|im_end|>".
  std::vector<Range> ids;
  bool is_negated = false;
};
/// A text of `part`, which is regular, of one to `max` tokens, each of them read as a whole; so no
/// token leads beyond it. Where the part cannot end then, the fewest more that let it end. Bytes
/// alone have no tokens: accept_bytes() reads none of them here.
struct Tokens {
  NodeId part = 0;
  std::uint32_t max = kUnbounded;
};
/// A JSON value of the schema.
struct Json {
  std::shared_ptr<const schema::Schema> schema;
  JsonOptions options;
};
/// `first`, which is not empty, and behind it a text of the grammar that `make` answers. It is
/// asked once, when `first` has been read or an end of the text is looked for: what few texts come
/// to costs nothing until then. An error is the machine's. `make` keeps what it needs. No printer
/// writes it.
struct Later {
  std::string first;
  std::function<Expected<std::shared_ptr<const Rules>>()> make;
};

}  // namespace node

using Node =
    std::variant<node::Literal, node::Characters, node::Bytes, node::Sequence, node::Choice,
                 node::Repeat, node::Rule, node::Pattern, node::Lexeme, node::Both,
                 node::Complement, node::Text, node::Token, node::Tokens, node::Json, node::Later>;

/// A grammar under construction, and afterwards const and shared between threads.
///
///     Rules rules;
///     const RuleId list = rules.declare("list");
///     const NodeId items = rules.add(node::Repeat{rules.add(node::Rule{list})});
///     rules.define(list, rules.sequence({rules.literal("("), items, rules.literal(")")}));
///     rules.set_root(rules.add(node::Rule{list}));     // (), (()), (()()), ...
///
/// A node's parts have been added before it, so that what visits nodes in the order of their
/// numbers needs no recursion. Parts may be shared.
class Rules {
 public:
  NodeId add(Node node);
  NodeId literal(std::string bytes) { return add(node::Literal{std::move(bytes)}); }
  NodeId sequence(std::vector<NodeId> parts);  ///< One part: the part itself.
  NodeId choice(std::vector<NodeId> parts);    ///< The same.
  NodeId repeat(NodeId part, std::uint32_t min, std::uint32_t max);

  /// A rule without a body yet. Names are for people: two rules may have one name.
  RuleId declare(std::string name);
  /// Every declared rule is defined, once.
  void define(RuleId rule, NodeId body);
  void set_root(NodeId root) { root_ = root; }

  struct Definition {
    std::string name;
    std::optional<NodeId> body;
  };
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] const Definition& rule(RuleId id) const { return rules_[id]; }
  [[nodiscard]] std::size_t rule_count() const { return rules_.size(); }
  [[nodiscard]] NodeId root() const { return root_; }

 private:
  std::vector<Node> nodes_;
  std::vector<Definition> rules_;
  NodeId root_ = 0;
};

/// Adds the grammar to a machine; the frame reads a text of its root. Fails with `unsatisfiable`
/// where there is none, with `invalid` where a token is not in the vocabulary, with `unsupported`
/// and `limit_exceeded` as patterns and schemas do; what lenient schemas leave out is appended to
/// `relaxed`, where there is one.
[[nodiscard]] Expected<FrameId> add_rules(Machine& machine, const Rules& rules,
                                          const vocab::Vocab& vocab,
                                          std::vector<Relaxed>* relaxed = nullptr);

}  // namespace tenon::grammar
