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
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/vocab.h"

/// Context-free grammars as data. The front ends make them (GBNF, Lark, regex, structural tags,
/// schemas), the machine reads them, and the printers write them. A grammar does not depend on a
/// vocabulary.
namespace tenon::grammar {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;
class Rules;

/// The kinds of nodes. "A text of a node" is a text that the node reads.
namespace node {

constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

/// These bytes, or the empty text.
struct Literal {
  std::string bytes;
};
/// One character of the set, in UTF-8. Surrogates cannot be encoded.
struct Characters {
  regex::CodePointSet set;
};
/// One byte of the set, which must not be empty.
struct Bytes {
  regex::ByteSet set;
};
/// The parts one after the other; without parts, the empty text.
struct Sequence {
  std::vector<NodeId> parts;
};
/// One of the parts; without parts, nothing can be read.
struct Choice {
  std::vector<NodeId> parts;
};
/// `min` to `max` (kUnbounded: any number) texts of `part`. If `max` is less than `min`, nothing
/// can be read.
struct Repeat {
  NodeId part = 0;
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;
};
/// A text of the rule's body. Only rules make a grammar recursive.
struct Rule {
  RuleId rule = 0;
};
/// The texts that a pattern matches from beginning to end. Flags are part of it: "(?i:...)".
struct Pattern {
  std::string source;
  regex::Dialect dialect = regex::Dialect::ecma262;
  bool in_json = false;  ///< Its texts are inside the quotes of a JSON string: see spell.h.
};
/// The texts of a regular node, read by one automaton.
struct Lexeme {
  NodeId part = 0;
  /// Wherever this lexeme can be read, another one can be read too, which continues with everything
  /// with which this one continues: free text beside the text before a call. Masks then need to
  /// know only how this one ends. Where the other one ends for good, this one must end too, by its
  /// structure (ExprSet), because no search is made.
  bool is_covered = false;
};
/// Texts of all parts at once. Only inside a lexeme.
struct Both {
  std::vector<NodeId> parts;
};
/// Valid UTF-8 that is not a text of `part`. Only inside a lexeme.
struct Complement {
  NodeId part = 0;
};
/// Free text: valid UTF-8 that contains none of `stops`, which must not be empty.
struct Text {
  std::vector<std::string> stops;
};
/// One token: one of those with these names or numbers, or with `is_negated` any other one. A
/// control token can be read in no other way.
struct Token {
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  std::vector<std::string> names;  ///< Names as in the vocabulary: "<|im_end|>".
  std::vector<Range> ids;
  bool is_negated = false;
};
/// A text of `part`, which must be regular, with one to `max` tokens, each of which is read as a
/// whole; so no token continues beyond it. If the part cannot end then, the fewest further tokens
/// that let it end. Bytes alone have no tokens: accept_bytes() cannot read any here.
struct Tokens {
  NodeId part = 0;
  std::uint32_t max = kUnbounded;
};
/// A text of `read`, which has the same texts as `printed`. Printers write `printed`, because other
/// engines take the longest text for a lexeme; everything else reads `read`.
struct Forms {
  NodeId read = 0;
  NodeId printed = 0;
};
/// A JSON value of the schema.
struct Json {
  std::shared_ptr<const schema::Schema> schema;
  JsonOptions options;
  bool may_wait = false;  ///< It may be added by add_known_json().
};
/// `first`, which must not be empty, followed by a text of the grammar that `make` returns. `make`
/// is called once, when `first` has been read or an end of the text is searched for, so a part that
/// few texts reach costs nothing until then. Its error becomes the machine's. `make` must own what
/// it needs. Printers cannot write this node.
struct Later {
  std::string first;
  std::function<Expected<std::shared_ptr<const Rules>>()> make;
};

}  // namespace node

using Node = std::variant<node::Literal, node::Characters, node::Bytes, node::Sequence,
                          node::Choice, node::Repeat, node::Rule, node::Pattern, node::Lexeme,
                          node::Both, node::Complement, node::Text, node::Token, node::Tokens,
                          node::Forms, node::Json, node::Later>;

/// A grammar that is being made; once made it is const and shared between threads.
///
///     Rules rules;
///     const RuleId list = rules.declare("list");
///     const NodeId items = rules.add(node::Repeat{rules.add(node::Rule{list})});
///     rules.define(list, rules.sequence({rules.literal("("), items, rules.literal(")")}));
///     rules.set_root(rules.add(node::Rule{list}));     // (), (()), (()()), ...
///
/// A node's parts are added before it, so code that visits nodes in the order of their numbers
/// needs no recursion. Parts may be shared.
class Rules {
 public:
  NodeId add(Node node);
  NodeId literal(std::string bytes) { return add(node::Literal{std::move(bytes)}); }
  NodeId sequence(std::vector<NodeId> parts);  ///< With one part: the part itself.
  NodeId choice(std::vector<NodeId> parts);    ///< The same.
  NodeId repeat(NodeId part, std::uint32_t min, std::uint32_t max);

  /// A rule without a body. Names are for people: two rules may have the same name.
  RuleId declare(std::string name);
  /// Every declared rule must be defined once.
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

  /// The grammar without node::Forms, which are replaced by this one of their two parts: what
  /// add_rules() and lower() begin with. Nothing: it has none.
  [[nodiscard]] std::optional<Rules> with_one_form(NodeId node::Forms::* part) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Definition> rules_;
  NodeId root_ = 0;
  bool has_forms_ = false;
};

/// Adds the grammar to a machine and returns the frame that reads a text of its root. Fails with
/// `unsatisfiable` if there is no text, with `invalid` if a token is not in the vocabulary, and
/// with `unsupported` and `limit_exceeded` as patterns and schemas do. What lenient schemas leave
/// out is appended to `relaxed`, if it is not null.
[[nodiscard]] Expected<FrameId> add_rules(Machine& machine, const Rules& rules,
                                          const vocab::Vocab& vocab,
                                          std::vector<Relaxed>* relaxed = nullptr);

}  // namespace tenon::grammar
