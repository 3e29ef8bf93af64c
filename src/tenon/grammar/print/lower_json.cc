#include "tenon/grammar/print/lower_json.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/grammar/json/shapes.h"
#include "tenon/grammar/print/lower_automaton.h"
#include "tenon/json/decimal.h"
#include "tenon/json/value.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/formats.h"

namespace tenon::grammar {
// Writes the JSON values of a schema as plain nodes. Shapes (shape.h) says which values a term has,
// as for masks; here each shape becomes nodes. A term of arrays or objects gets a rule of its own,
// and pending_ holds the rules whose body is still to be written, so recursive schemas end and
// there is no recursion over the schema.
//
// A context-free grammar must be finite and cannot look back, so some things are written looser
// than a mask would be, and each is listed in `relaxed` by relax(): the order of properties is that
// of the schema, counts of members are exact only within limits, and uniqueItems, several
// `contains` and excluded arrays are left out.
//
// Numbers and strings are exact: their automata become rules, or one tree inside a lexeme. If a
// term has few values, all of them are written out (finite_values). Optional members are built from
// the end: for each number of members that have been written, members() keeps the ways in which the
// object may go on, and gives a rule to those that are used twice.

namespace {

using json::Value;
using regex::CodePointSet;
using regex::Expr;
using schema::Counts;

const CodePointSet kDigits{{'0', '9'}};
const CodePointSet kAnyCharacter{{1, 0xD7FF}, {0xE000, 0x10FFFF}};
/// The characters that stand for themselves in a string.
const CodePointSet kPlain{{0x20, '!'}, {'#', '['}, {']', 0xD7FF}, {0xE000, 0x10FFFF}};

using Parts = std::vector<NodeId>;

// The name of a rule for the values of a property.
std::string name_of_property(std::string_view property) {
  constexpr std::size_t kMaxName = 40;
  return std::string(property.empty() ? "value" : property.substr(0, kMaxName));
}
// "tags-item" for the items of "tags"; an item of "tags-item" is "tags-item" again, so that names
// do not grow with the depth.
std::string name_of_part(std::string_view whole, std::string_view part) {
  if (whole.ends_with(part)) return std::string(whole);
  return name_of_property(whole) + '-' + std::string(part);
}

class JsonLowering {
 public:
  JsonLowering(Rules& rules, const node::Json& json, const LowerOptions& options, Allowance& shared,
               std::vector<Relaxed>& relaxed)
      : rules_(rules),
        json_(json.options),
        options_(options),
        relaxed_(relaxed),
        shapes_(json.schema, {.max_bytes = std::uint64_t{64} << 20, .shared = &shared}, {}),
        exprs_(shapes_.work.shared_exprs()),
        any_text_(shapes_.strings.language(Terms::kAnything)),
        spelling_([this](const CodePointSet& set) { return characters(set); }) {
    using Whitespace = JsonOptions::Whitespace;
    shapes_.work.on_steps([&shared](std::uint64_t steps) { return shared.take_steps(steps); });
    if (json_.plain_integers) shapes_.number_rules.spell_integers();
    if (json_.declared_only) shapes_.names.declared_only();
    if (!json_.is_bounded) json_.max_whitespace = node::kUnbounded;
    if (json_.whitespace == Whitespace::pretty) {
      constexpr std::uint32_t kMaxIndent = 100;
      json_.max_whitespace = std::max(json_.max_whitespace, kMaxIndent);
      relax("", "whitespace", "how far a line is indented is not checked");
    }
    // `{"a": 1, "b": 2}`: a space behind each comma and colon of the structure, and nowhere else.
    if (json_.whitespace == Whitespace::spaced) {
      after_comma_ = after_colon_ = rules_.literal(" ");
    } else if (json_.whitespace != Whitespace::compact) {
      gap_ = whitespace();
      after_comma_ = after_colon_ = gap_;
    }
  }

  Expected<NodeId> run() {
    const Term term = shapes_.terms().node(shapes_.terms().schema().root());
    const bool satisfiable = shapes_.is_satisfiable(term);
    if (const auto error = first_error()) return Unexpected(*error);
    if (!satisfiable) return Unexpected(shapes_.satisfiable.error());
    const NodeId root = value(term, "root");
    while (!pending_.empty()) {
      const Pending next = std::move(pending_.back());
      pending_.pop_back();
      rules_.define(next.rule, composite(next.term, next.name));
      if (const auto error = first_error()) return Unexpected(*error);
    }
    return root;
  }

 private:
  // A term of arrays or objects whose rule has no body yet.
  struct Pending {
    Term term;
    RuleId rule;
    std::string name;
  };

  std::optional<Error> first_error() const {
    if (shapes_.error()) return shapes_.error();
    if (const Status status = exprs_->status(); !status) return status.error();
    return std::nullopt;
  }
  bool is_full() const { return rules_.node_count() > options_.max_nodes; }

  // ---- Nodes ------------------------------------------------------------------------------------

  NodeId characters_of(std::string_view all) {
    std::vector<CodePointSet::Range> ranges;
    for (const char c : all) {
      ranges.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
    }
    return rules_.add(node::Characters{CodePointSet(std::move(ranges))});
  }
  NodeId optional(NodeId node) { return rules_.repeat(node, 0, 1); }
  NodeId lexeme(NodeId node) {
    return options_.with_lexemes ? rules_.add(node::Lexeme{node}) : node;
  }
  NodeId rule(std::string name, NodeId body) {
    const RuleId rule = rules_.declare(std::move(name));
    rules_.define(rule, body);
    return rules_.add(node::Rule{rule});
  }
  void append_gap(Parts& parts, const std::optional<NodeId>& gap) {
    if (gap) parts.push_back(*gap);
  }

  NodeId whitespace() {
    const NodeId one = characters_of(" \t\n\r");
    if (!options_.with_lexemes) return rule("ws", rules_.repeat(one, 0, json_.max_whitespace));
    // The lexeme has a character at least; the whole is optional.
    return optional(rule("ws", lexeme(rules_.repeat(one, 1, json_.max_whitespace))));
  }

  /// One character of a string, or one of its escapes.
  NodeId characters(const CodePointSet& set) {
    const auto known = characters_.find(set);
    if (known != characters_.end()) return known->second;
    std::vector<NodeId> ways;
    const CodePointSet plain = set.intersected(kPlain);
    if (!plain.is_empty()) ways.push_back(rules_.add(node::Characters{plain}));
    constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    std::string letters;
    for (std::size_t i = 0; i < kEscaped.size(); ++i) {
      if (set.contains(static_cast<char32_t>(kEscaped[i]))) letters += kLetters[i];
    }
    std::string controls[2];  // the low digits of \u000x and \u001x
    for (char32_t control = 1; control < 0x20; ++control) {
      if (!set.contains(control)) continue;
      controls[control / 16] += "0123456789abcdef"[control % 16];
      if (control % 16 > 9) controls[control / 16] += "ABCDEF"[control % 16 - 10];
    }
    if (!letters.empty() || !controls[0].empty() || !controls[1].empty()) {
      ways.push_back(escapes(letters, controls));
    }
    NodeId node = rules_.choice(std::move(ways));
    // It is used by nearly every schema, and would be written out at each string.
    if (set == kAnyCharacter) node = rule("char", node);
    characters_.emplace(set, node);
    return node;
  }
  // A backslash and what follows it: one of `letters`, or "u000" and "u001" with one of their
  // digits.
  NodeId escapes(const std::string& letters, const std::string (&controls)[2]) {
    const std::string key = letters + ' ' + controls[0] + ' ' + controls[1];
    const auto known = escapes_.find(key);
    if (known != escapes_.end()) return known->second;
    Parts ways;
    if (!letters.empty()) ways.push_back(characters_of(letters));
    for (const int high : {0, 1}) {
      if (controls[high].empty()) continue;
      ways.push_back(rules_.sequence(
          {rules_.literal(high == 0 ? "u000" : "u001"), characters_of(controls[high])}));
    }
    const bool is_short = ways.size() == 1;
    NodeId node = rules_.sequence({rules_.literal("\\"), rules_.choice(std::move(ways))});
    if (!is_short) node = rule("escape", node);
    escapes_.emplace(key, node);
    return node;
  }
  NodeId any_character() { return characters(kAnyCharacter); }

  /// A string whose characters `content` reads.
  NodeId quoted(NodeId content) {
    return lexeme(rules_.sequence({rules_.literal("\""), content, rules_.literal("\"")}));
  }

  // Nodes that several places share.
  NodeId shared(const std::string& name, const std::function<NodeId()>& make) {
    const auto known = shared_.find(name);
    if (known != shared_.end()) return known->second;
    const NodeId node = rule(name, make());
    shared_.emplace(name, node);
    return node;
  }
  NodeId any_string() {
    return shared("string",
                  [&] { return quoted(rules_.repeat(any_character(), 0, node::kUnbounded)); });
  }
  NodeId digits() {
    const NodeId first = rules_.add(node::Characters{CodePointSet{{'1', '9'}}});
    const NodeId digit = rules_.add(node::Characters{kDigits});
    return rules_.choice(
        {rules_.literal("0"), rules_.sequence({first, rules_.repeat(digit, 0, node::kUnbounded)})});
  }
  NodeId any_integer(bool is_spelled) {
    return shared(is_spelled ? "integer-spelled" : "integer", [&] {
      Parts parts{optional(rules_.literal("-")), digits()};
      if (!is_spelled) parts.push_back(zeros());
      return lexeme(rules_.sequence(std::move(parts)));
    });
  }
  /// The zeros that may follow an integer.
  NodeId zeros() {
    if (!zeros_) {
      zeros_ = optional(rules_.sequence(
          {rules_.literal("."), rules_.repeat(rules_.literal("0"), 1, node::kUnbounded)}));
    }
    return *zeros_;
  }
  NodeId any_number() {
    return shared("number", [&] {
      const NodeId digit = rules_.add(node::Characters{kDigits});
      const NodeId fraction =
          rules_.sequence({rules_.literal("."), rules_.repeat(digit, 1, node::kUnbounded)});
      const NodeId exponent = rules_.sequence(
          {characters_of("eE"), optional(characters_of("+-")), rules_.repeat(digit, 1, 3)});
      return lexeme(rules_.sequence(
          {optional(rules_.literal("-")), digits(), optional(fraction), optional(exponent)}));
    });
  }
  // The rule is kept before its body is made, since the body refers to it.
  NodeId any_value() {
    const auto known = shared_.find("any-value");
    if (known != shared_.end()) return known->second;
    const RuleId value = rules_.declare("any-value");
    const NodeId node = rules_.add(node::Rule{value});
    shared_.emplace("any-value", node);
    const NodeId array = list_in("[", items({}, with_gap(node), {}), "]");
    Parts member{any_string()};
    append_colon(member);
    member.push_back(with_gap(node));
    const NodeId object = list_in("{", items({}, rules_.sequence(std::move(member)), {}), "}");
    rules_.define(value, rules_.choice({rule("any-object", object), rule("any-array", array),
                                        any_string(), any_number(), rules_.literal("true"),
                                        rules_.literal("false"), rules_.literal("null")}));
    return node;
  }

  // ---- Lists ------------------------------------------------------------------------------------

  void append_colon(Parts& parts) {
    append_gap(parts, gap_);
    parts.push_back(rules_.literal(":"));
    append_gap(parts, after_colon_);
  }
  /// A comma, and what follows it.
  NodeId next_item(NodeId item) {
    Parts parts{rules_.literal(",")};
    append_gap(parts, after_comma_);
    parts.push_back(item);
    return rules_.sequence(std::move(parts));
  }
  /// An item, and the whitespace after it.
  NodeId with_gap(NodeId item) {
    Parts parts{item};
    append_gap(parts, gap_);
    return rules_.sequence(std::move(parts));
  }
  NodeId list_in(const char* open, NodeId content, const char* close) {
    Parts parts{rules_.literal(open)};
    append_gap(parts, gap_);
    parts.push_back(content);
    parts.push_back(rules_.literal(close));
    return rules_.sequence(std::move(parts));
  }

  bool is_counted(std::uint64_t count) const {
    return count == Counts::kUnbounded || count <= options_.max_repeat;
  }
  /// Repeats `part` by `counts` as far as repetitions allow; sets `is_cut` if that is not exact.
  NodeId repeat(NodeId part, const Counts& counts, bool& is_cut) {
    is_cut |= !is_counted(counts.least) || !is_counted(counts.most);
    return add_repeat(rules_, part, counts.least, counts.most, options_);
  }

  /// Items between brackets: `prefix` first, then any number of `item`; `length` bounds the total.
  NodeId items(const std::vector<NodeId>& prefix, std::optional<NodeId> item, const Counts& length,
               bool* is_cut = nullptr) {
    bool ignored = false;
    if (is_cut == nullptr) is_cut = &ignored;
    const std::uint64_t known = prefix.size();
    std::optional<NodeId> rest;
    const auto less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
    if (item && length.most > known) {
      const std::uint64_t most =
          length.most == Counts::kUnbounded ? length.most : length.most - known;
      // The first item has no comma before it: `x (, x){least - 1, most - 1}`, or nothing.
      if (known == 0) {
        const Counts more{less(length.least, 1), most == Counts::kUnbounded ? most : most - 1};
        const NodeId list = rules_.sequence({*item, repeat(next_item(*item), more, *is_cut)});
        return length.least == 0 ? optional(list) : list;
      }
      rest = repeat(next_item(*item), {less(length.least, known), most}, *is_cut);
    }
    if (known == 0) return rules_.literal("");
    // Built from the end: what follows an item is there only if the item is.
    constexpr std::uint64_t kMaxNesting = 16;
    for (std::uint64_t i = known; i-- > 0;) {
      Parts parts{i == 0 ? prefix[i] : next_item(prefix[i])};
      if (rest) parts.push_back(*rest);
      NodeId node = rules_.sequence(std::move(parts));
      if (i >= length.least) node = optional(node);
      // Optional items nest, (a (b (c)?)?)?, and readers of grammars limit the depth of
      // parentheses.
      rest = i != 0 && i % kMaxNesting == 0 ? rule("items", node) : node;
    }
    return *rest;
  }

  // ---- What could not be said -------------------------------------------------------------------

  void relax(std::string path, std::string_view keyword, std::string message) {
    Relaxed relaxed{std::move(path), std::string(keyword), std::move(message)};
    if (std::ranges::find(relaxed_, relaxed) == relaxed_.end()) {
      relaxed_.push_back(std::move(relaxed));
    }
  }

  /// The nodes of the schema that apply to the values of a term themselves.
  std::vector<schema::NodeId> nodes_of(Term term) {
    std::vector<schema::NodeId> result;
    std::set<Term> seen;
    std::vector<Term> todo{term};
    while (!todo.empty()) {
      const Term next = todo.back();
      todo.pop_back();
      if (!seen.insert(next).second) continue;
      Terms& terms = shapes_.terms();
      if (terms.kind(next) == Terms::Kind::node) {
        result.push_back(terms.node_of(next));
        todo.push_back(terms.definition(terms.node_of(next)));
      }
      const auto parts = terms.parts_of(next);
      todo.insert(todo.end(), parts.begin(), parts.end());
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  enum class Subject : std::uint8_t { strings, lengths, numbers, arrays, objects };

  /// Names the keywords of a term that may be the cause.
  void relax(Term term, Subject subject, const std::string& message) {
    bool is_named = false;
    const auto name = [&](const schema::Node& node, bool applies, std::string_view keyword) {
      if (!applies) return;
      is_named = true;
      relax(node.location + "/" + std::string(keyword), keyword, message);
    };
    const std::vector<schema::NodeId> nodes = nodes_of(term);
    const schema::Schema& schema = shapes_.terms().schema();
    for (const schema::NodeId id : nodes) {
      const schema::Node& node = schema.node(id);
      switch (subject) {
        case Subject::strings:
          if (!node.strings) break;
          name(node, node.strings->pattern.has_value(), "pattern");
          name(node, node.strings->asserted_format != nullptr, "format");
          [[fallthrough]];
        case Subject::lengths:
          if (!node.strings) break;
          name(node, node.strings->length.least > 0, "minLength");
          name(node, node.strings->length.most != Counts::kUnbounded, "maxLength");
          break;
        case Subject::numbers:
          if (!node.numbers) break;
          name(node, node.numbers->multiple_of.has_value(), "multipleOf");
          name(node, node.numbers->minimum.has_value(), "minimum");
          name(node, node.numbers->maximum.has_value(), "maximum");
          break;
        case Subject::arrays:
          if (!node.arrays) break;
          name(node, node.arrays->unique, "uniqueItems");
          name(node, node.arrays->contains.has_value(), "contains");
          name(node, node.arrays->unevaluated.has_value(), "unevaluatedItems");
          break;
        case Subject::objects:
          name(node, !node.dependents.empty(), "dependentSchemas");
          if (!node.objects) break;
          name(node, node.objects->unevaluated.has_value(), "unevaluatedProperties");
          name(node, !node.objects->dependent_names.empty(), "dependentRequired");
          name(node, node.objects->pattern_properties.size() > 1, "patternProperties");
          break;
      }
    }
    for (const schema::NodeId id : nodes) {
      const schema::Node& node = schema.node(id);
      const bool is_last = !is_named;
      name(node, node.negated.has_value(), "not");
      name(node, node.conditional.has_value(), "if");
      name(node, is_last && !node.one_of.empty(), "oneOf");
      name(node, is_last && !node.any_of.empty(), "anyOf");
      name(node, is_last && node.values != nullptr, "enum");
    }
    if (!is_named) relax(nodes.empty() ? "" : schema.node(nodes[0]).location, "", message);
  }

  // ---- Values -----------------------------------------------------------------------------------

  bool is_anything(Term term) {
    Terms& terms = shapes_.terms();
    for (;;) {
      if (term == Terms::kAnything) return true;
      if (terms.kind(term) != Terms::Kind::node) break;
      term = terms.definition(terms.node_of(term));
    }
    if (terms.kind(term) != Terms::Kind::rules) return false;
    const schema::Node& node = terms.schema().node(terms.node_of(term));
    return node.types == schema::Types::all() && !node.values && !node.numbers && !node.strings &&
           !node.arrays && !node.objects && node.dependents.empty();
  }

  // The node that reads the values of a term; made once for each term. `name` is only for the rule,
  // if it gets one.
  NodeId value(Term term, const std::string& name) {
    const auto known = values_.find(term);
    if (known != values_.end()) return known->second;
    if (is_anything(term)) return any_value();
    if (is_full()) {
      const auto nodes = nodes_of(term);
      relax(nodes.empty() ? "" : shapes_.terms().schema().node(nodes[0]).location, "",
            "the grammar is too large: any JSON value is accepted here");
      return any_value();
    }
    NodeId node = 0;
    if (const auto values = finite_values(term, name)) {
      node = rules_.choice(*values);
      if (values->size() > 4) node = rule(name, node);
    } else if (shapes_.arrays.of(term).empty() && shapes_.objects.of(term).empty()) {
      node = rules_.choice(scalars(term, name));
    } else {
      const RuleId rule = rules_.declare(name);
      node = rules_.add(node::Rule{rule});
      pending_.push_back({term, rule, name});
    }
    values_.emplace(term, node);
    return node;
  }

  // The body of the rule of a term that has arrays or objects.
  NodeId composite(Term term, const std::string& name) {
    Parts ways;
    for (const ObjectShape& shape : shapes_.objects.of(term))
      ways.push_back(object(term, shape, name));
    for (const ArrayShape& shape : shapes_.arrays.of(term))
      ways.push_back(array(term, shape, name));
    for (const NodeId way : scalars(term, name)) ways.push_back(way);
    return rules_.choice(std::move(ways));
  }

  Parts scalars(Term term, const std::string& name) {
    Parts ways;
    const Constants constants = shapes_.constants.of(term);
    constexpr std::array<const char*, 3> kWords{"null", "false", "true"};
    for (const NodeId way : numbers(term, name)) ways.push_back(way);
    const StringShape& text = shapes_.strings.text(term);
    if (shapes_.is_satisfiable(text)) ways.push_back(string(term, text, name));
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      if (constants[i]) ways.push_back(rules_.literal(kWords[i]));
    }
    return ways;
  }

  // ---- Values that are listed -------------------------------------------------------------------

  /// The values of a term, written out, if they are few and known.
  std::optional<Parts> finite_values(Term term, const std::string& name) {
    constexpr int kMaxDepth = 50;
    const auto all = candidates(term, kMaxDepth);
    if (!all) return std::nullopt;
    // In draft 4, 1.0 is not an integer, although it is the same value as 1.
    const bool integers_are_spelled = std::ranges::any_of(
        shapes_.numbers.of(term), [](const auto& shape) { return shape.set.integers_are_spelled; });
    Parts result;
    if (integers_are_spelled) result = numbers(term, name);
    std::set<std::string> seen;
    for (const Value* value : *all) {
      if (integers_are_spelled && value->if_number() != nullptr) continue;
      // The candidates may be more than the values: of an intersection they are those of one part.
      if (!shapes_.work.fits(term, *value) || !seen.insert(json::to_string(*value)).second)
        continue;
      Parts parts;
      if (is_full() || !spell(*value, kMaxDepth, parts)) return std::nullopt;
      result.push_back(rules_.sequence(std::move(parts)));
    }
    return result;
  }

  /// A set of values that includes all values of the term; nothing: not known.
  std::optional<std::vector<const Value*>> candidates(Term term, int depth) {
    static const std::array<Value, 3> kConstants{Value(nullptr), Value(false), Value(true)};
    Terms& terms = shapes_.terms();
    if (depth == 0) return std::nullopt;
    std::vector<const Value*> result;
    switch (terms.kind(term)) {
      case Terms::Kind::nothing:
        return result;
      case Terms::Kind::value:
        return std::vector<const Value*>{&terms.value_of(term)};
      case Terms::Kind::node:
        return candidates(terms.definition(terms.node_of(term)), depth - 1);
      case Terms::Kind::rules: {
        const schema::Node& node = terms.schema().node(terms.node_of(term));
        using schema::Type;
        constexpr schema::Types kFinite = schema::Types(Type::null) | schema::Types(Type::boolean);
        if (node.values) {
          for (const Value& value : node.values->values()) result.push_back(&value);
          return result;
        }
        if ((node.types & kFinite) != node.types) return std::nullopt;
        for (const Value& value : kConstants) {
          if (node.types.contains(schema::type_of(value))) result.push_back(&value);
        }
        return result;
      }
      case Terms::Kind::all_of:
      case Terms::Kind::any_of:
        break;
      case Terms::Kind::anything:
      case Terms::Kind::negation:
        return std::nullopt;
    }
    const bool all = terms.kind(term) == Terms::Kind::all_of;
    const auto span = terms.parts_of(term);
    const std::vector<Term> parts(span.begin(), span.end());
    for (const Term part : parts) {
      auto some = candidates(part, depth - 1);
      // Those of any part include those of the whole.
      if (all && some) return some;
      if (all) continue;
      if (!some) return std::nullopt;
      result.insert(result.end(), some->begin(), some->end());
    }
    return all ? std::nullopt : std::optional(std::move(result));
  }

  /// Returns false if the value is too deep.
  bool spell(const Value& value, int depth, Parts& parts) {
    if (depth == 0) return false;
    if (const json::Number* number = value.if_number()) {
      parts.push_back(spell_number(*number));
      return true;
    }
    const json::Array* array = value.if_array();
    const json::Object* object = value.if_object();
    if (array == nullptr && object == nullptr) {
      parts.push_back(rules_.literal(json::to_string(value)));
      return true;
    }
    parts.push_back(rules_.literal(array != nullptr ? "[" : "{"));
    append_gap(parts, gap_);
    bool is_first = true;
    const auto begin_item = [&] {
      if (!is_first) {
        append_gap(parts, gap_);
        parts.push_back(rules_.literal(","));
        append_gap(parts, after_comma_);
      }
      is_first = false;
    };
    if (array != nullptr) {
      for (const Value& item : *array) {
        begin_item();
        if (!spell(item, depth - 1, parts)) return false;
      }
    } else {
      for (const json::Member& member : *object) {
        begin_item();
        parts.push_back(rules_.literal(json::to_string(Value(member.key))));
        append_colon(parts);
        if (!spell(member.value, depth - 1, parts)) return false;
      }
    }
    if (!is_first) append_gap(parts, gap_);
    parts.push_back(rules_.literal(array != nullptr ? "]" : "}"));
    return true;
  }

  /// By value: 1, 1.0 and 1.00 are the same, unless integers must be written as such.
  NodeId spell_number(const json::Number& number, bool integers_are_spelled = false) {
    const std::string& text = number.text;
    if (integers_are_spelled || text.find_first_of("eE") != std::string::npos) {
      NumberSet same{.minimum = NumberSet::Bound{text}, .maximum = NumberSet::Bound{text}};
      if (integers_are_spelled) same.multiples = {"1"};
      same.integers_are_spelled = integers_are_spelled;
      const auto numbers = automaton_of(same, options_.max_states);
      if (numbers) return regular(*numbers, "number", plain_spelling(), "");
      return rules_.literal(text);
    }
    const std::size_t point = text.find('.');
    // 1 may be 1.0 and 1.00; 1.50 is written 1.5, and then zeros may follow.
    const std::size_t last = text.find_last_not_of('0');
    if (point == std::string::npos) return lexeme(rules_.sequence({rules_.literal(text), zeros()}));
    if (last == point) {
      return lexeme(rules_.sequence({rules_.literal(text.substr(0, point)), zeros()}));
    }
    return lexeme(rules_.sequence({rules_.literal(text.substr(0, last + 1)),
                                   rules_.repeat(rules_.literal("0"), 0, node::kUnbounded)}));
  }

  // ---- Numbers ----------------------------------------------------------------------------------

  CharacterSpelling plain_spelling() {
    return [this](const CodePointSet& set) { return rules_.add(node::Characters{set}); };
  }

  /// The automaton's texts between two quotes.
  NodeId regular(const Automaton& automaton, const std::string& name,
                 const CharacterSpelling& spelling, const std::string& quote) {
    if (options_.with_lexemes) {
      const auto tree = add_as_tree(rules_, automaton, spelling, options_.max_tree_nodes);
      if (tree) return quote.empty() ? lexeme(*tree) : quoted(*tree);
      // Rules also work, but not as one lexeme.
    }
    if (quote.empty()) return add_as_rules(rules_, automaton, name, spelling, std::nullopt);
    const NodeId end = rules_.literal(quote);
    return rules_.sequence({end, add_as_rules(rules_, automaton, name, spelling, end)});
  }

  Parts numbers(Term term, const std::string& name) {
    Parts ways;
    for (const NumberShape& shape : shapes_.numbers.of(term)) {
      if (shape.needs_check) {
        relax(term, Subject::numbers,
              "there are too many alternatives for a number: not all of "
              "what they say of it is kept");
      }
      ways.push_back(number(term, shape.set, name));
    }
    return ways;
  }

  NodeId number(Term term, const NumberSet& set, const std::string& name) {
    if (set.values) {
      Parts ways;
      for (const std::string& text : *set.values) {
        ways.push_back(spell_number({text}, set.integers_are_spelled));
      }
      return rules_.choice(std::move(ways));
    }
    const bool is_bounded = set.minimum || set.maximum || !set.excluded.empty();
    const bool is_integer = set.multiples == std::vector<std::string>{"1"};
    if (!is_bounded && set.no_multiples.empty()) {
      if (set.multiples.empty() && !set.integers_are_spelled) return any_number();
      if (is_integer) return any_integer(set.integers_are_spelled);
    }
    auto automaton = automaton_of(set, kMaxNumberStates);
    if (!automaton || automaton->states.size() > options_.max_states) {
      relax(term, Subject::numbers,
            "the numbers have too many digits or multiples for a grammar: "
            "not all of what is said of them is kept");
      // Multiples are the costly part, so the first try is without them (integers stay integers),
      // and the second is any number.
      NumberSet less = set;
      const bool had_multiples =
          std::erase_if(less.multiples, [](const auto& m) { return m != "1"; }) > 0;
      if (!had_multiples) return is_integer ? any_integer(set.integers_are_spelled) : any_number();
      return number(term, less, name);
    }
    return regular(*automaton, name + "-number", plain_spelling(), "");
  }
  static constexpr std::size_t kMaxNumberStates = 30'000;

  // ---- Strings ----------------------------------------------------------------------------------

  // By the cheapest form that is exact: a list of values, any text of some length, the automaton,
  // the pattern's own tree. If none is small enough, lengths are left out first and the rest after
  // that, and relax() says so.
  NodeId string(Term term, const StringShape& shape, const std::string& name) {
    if (shapes_.strings.needs_check(term)) {
      relax(term, Subject::strings, "the format asks for more than a pattern can say");
    }
    if (shape.values) {
      Parts ways;
      for (const std::string& text : *shape.values) {
        ways.push_back(rules_.literal(json::to_string(Value(text))));
      }
      return rules_.choice(std::move(ways));
    }
    if (is_any_but_for_length(shape)) return string_of(term, shape.length);
    std::string reason;
    const std::optional<NodeId> tree = pattern_tree(term);
    if (is_countable(shape.length)) {
      // As a tree, a large automaton would be larger still.
      const std::size_t max_states =
          tree && options_.with_lexemes ? kMaxStatesBesideTree : options_.max_states;
      const auto automaton = automaton_of(*exprs_, shapes_.strings.language(term), max_states);
      if (automaton) return regular(*automaton, name + "-string", spelling_, "\"");
      reason = automaton.error().message;
    }
    if (tree) return quoted(*tree);
    if (shape.length != Counts{}) {
      const auto automaton =
          automaton_of(*exprs_, exprs_->both(any_text_, shape.language), options_.max_states);
      if (automaton) {
        relax(term, Subject::lengths, "lengths are not counted beside a pattern as large as this");
        return regular(*automaton, name + "-string", spelling_, "\"");
      }
      reason = automaton.error().message;
    }
    relax(term, Subject::strings, "the string " + reason + ": only its length is kept");
    return string_of(term, shape.length);
  }

  static constexpr std::size_t kMaxStatesBesideTree = 30;

  bool is_any_but_for_length(const StringShape& shape) const {
    return (shape.language == regex::ExprSet::kAnything || shape.language == any_text_) &&
           shape.excluded.empty() && !shape.values;
  }

  /// If a term says nothing of strings but one pattern: the pattern's own tree, in which
  /// repetitions are counted and not unrolled.
  std::optional<NodeId> pattern_tree(Term term) {
    const std::string* const pattern = only_pattern(term);
    if (pattern == nullptr) return std::nullopt;
    Budget budget("pattern", {.max_steps = 200'000});
    const auto syntax = regex::parse(*pattern, regex::Dialect::ecma262, budget);
    return syntax ? part_of_text(*syntax, syntax->root) : std::nullopt;
  }

  // Null: the term says something of strings besides one pattern, or has no pattern.
  const std::string* only_pattern(Term term) {
    Terms& terms = shapes_.terms();
    if (terms.kind(term) == Terms::Kind::node) {
      return only_pattern(terms.definition(terms.node_of(term)));
    }
    if (terms.kind(term) == Terms::Kind::rules) {
      const schema::Node& node = terms.schema().node(terms.node_of(term));
      if (node.values || !node.strings || node.strings->length != Counts{}) return nullptr;
      const schema::StringRules& rules = *node.strings;
      // One of the two must be there, and not both.
      if (rules.pattern.has_value() == (rules.asserted_format != nullptr)) return nullptr;
      return rules.pattern ? &rules.pattern->text : &rules.asserted_format->pattern.text;
    }
    const bool all = terms.kind(term) == Terms::Kind::all_of;
    if (!all && terms.kind(term) != Terms::Kind::any_of) return nullptr;
    const auto span = terms.parts_of(term);
    std::vector<Term> parts(span.begin(), span.end());
    std::erase_if(parts, [&](Term part) {
      const StringShape& text = shapes_.strings.text(part);
      return all ? is_any_but_for_length(text) && text.length == Counts{}
                 : !shapes_.is_satisfiable(text);
    });
    return parts.size() == 1 ? only_pattern(parts[0]) : nullptr;
  }

  /// Texts a part of which the pattern matches. Nothing: it has a look in the middle.
  std::optional<NodeId> part_of_text(const regex::Syntax& syntax, regex::NodeId id) {
    using Kind = regex::Node::Kind;
    const regex::Node& node = syntax.nodes[id];
    if (node.kind == Kind::choice) {
      Parts ways;
      for (const regex::NodeId part : node.parts) {
        const auto way = part_of_text(syntax, part);
        if (!way) return std::nullopt;
        ways.push_back(*way);
      }
      return rules_.choice(std::move(ways));
    }
    std::vector<regex::NodeId> parts{id};
    if (node.kind == Kind::sequence) parts = node.parts;
    const auto is_at = [&](regex::NodeId part, Kind kind) {
      return syntax.nodes[part].kind == kind;
    };
    // JSON Schema's patterns match anywhere, so any text may stand before one without ^ and behind
    // one without $.
    const bool is_begun = !parts.empty() && is_at(parts.front(), Kind::begin);
    if (is_begun) parts.erase(parts.begin());
    const bool is_ended = !parts.empty() && is_at(parts.back(), Kind::end);
    if (is_ended) parts.pop_back();
    const NodeId any = rules_.repeat(any_character(), 0, node::kUnbounded);
    Parts nodes;
    if (!is_begun) nodes.push_back(any);
    for (const regex::NodeId part : parts) {
      const auto read = pattern_part(syntax, part);
      if (!read) return std::nullopt;
      nodes.push_back(*read);
    }
    if (!is_ended) nodes.push_back(any);
    return rules_.sequence(std::move(nodes));
  }
  // Nothing: it looks at what surrounds it, or is counted too far.
  std::optional<NodeId> pattern_part(const regex::Syntax& syntax, regex::NodeId id) {
    using Kind = regex::Node::Kind;
    const regex::Node& node = syntax.nodes[id];
    if (node.has_position || node.is_ordered) return std::nullopt;
    if (node.kind == Kind::set) return characters(syntax.sets[node.set].intersected(kAnyCharacter));
    Parts parts;
    for (const regex::NodeId part : node.parts) {
      const auto read = pattern_part(syntax, part);
      if (!read) return std::nullopt;
      parts.push_back(*read);
    }
    if (node.kind == Kind::choice) return rules_.choice(std::move(parts));
    if (node.kind == Kind::sequence) return rules_.sequence(std::move(parts));
    const bool is_open = node.max == regex::Syntax::kUnbounded;
    if (!is_counted(node.min) || (!is_open && !is_counted(node.max))) return std::nullopt;
    return add_repeat(rules_, parts[0], node.min, is_open ? Counts::kUnbounded : node.max,
                      options_);
  }

  bool is_countable(const Counts& length) const {
    return length.least <= options_.max_states &&
           (length.most == Counts::kUnbounded || length.most <= options_.max_states);
  }

  NodeId string_of(Term term, const Counts& length) {
    if (length == Counts{}) return any_string();
    bool is_cut = false;
    const NodeId node = quoted(repeat(any_character(), length, is_cut));
    if (is_cut) {
      relax(term, Subject::lengths,
            "lengths are counted up to " + std::to_string(options_.max_repeat));
    }
    return node;
  }

  // ---- Arrays -----------------------------------------------------------------------------------

  NodeId array(Term term, const ArrayShape& shape, const std::string& name) {
    if (shape.unique && shape.length.most > 1) {
      relax(term, Subject::arrays, "that items differ is not checked");
    } else if (shape.needs_check || (!shape.contained.empty() && !asks_for_one(shape))) {
      relax(term, Subject::arrays, "it asks about the items together, which is not checked");
    }
    Counts length = shape.length;
    std::vector<NodeId> prefix;
    for (std::size_t i = 0; i < shape.prefix.size() && i < length.most; ++i) {
      if (!shapes_.is_satisfiable(shape.prefix[i])) {
        // No value fits here, so the array ends before this place.
        length.most = i;
        break;
      }
      prefix.push_back(with_gap(value(shape.prefix[i], name_of_part(name, "item"))));
    }
    std::optional<NodeId> item;
    if (length.most > prefix.size() && shapes_.is_satisfiable(shape.items)) {
      item = with_gap(value(shape.items, name_of_part(name, "item")));
    }
    if (item && asks_for_one(shape)) {
      const Term one = shapes_.terms().all_of({shape.items, shape.contained[0].term});
      return list_in("[", items_around(with_gap(value(one, name_of_part(name, "one"))), *item),
                     "]");
    }
    bool is_cut = false;
    const NodeId content = items(prefix, item, length, &is_cut);
    if (is_cut) {
      for (const schema::NodeId id : nodes_of(term)) {
        const schema::Node& node = shapes_.terms().schema().node(id);
        const std::string message =
            "items are counted up to " + std::to_string(options_.max_repeat);
        if (!node.arrays) continue;
        if (!is_counted(node.arrays->length.least)) {
          relax(node.location + "/minItems", "minItems", message);
        }
        if (!is_counted(node.arrays->length.most)) {
          relax(node.location + "/maxItems", "maxItems", message);
        }
      }
    }
    return list_in("[", content, "]");
  }

  /// True for a plain `contains`: at least one of any number of items.
  static bool asks_for_one(const ArrayShape& shape) {
    return shape.contained.size() == 1 && shape.contained[0].from == 0 &&
           shape.contained[0].counts == Counts{.least = 1} && shape.prefix.empty() &&
           shape.length.least <= 1 && shape.length.most == Counts::kUnbounded;
  }
  // Any items, one that fits `contains`, any items. A text may be read in several ways, if several
  // items fit.
  NodeId items_around(NodeId one, NodeId item) {
    Parts before{item, rules_.literal(",")};
    append_gap(before, after_comma_);
    return rules_.sequence({rules_.repeat(rules_.sequence(std::move(before)), 0, node::kUnbounded),
                            one, rules_.repeat(next_item(item), 0, node::kUnbounded)});
  }

  // ---- Objects ----------------------------------------------------------------------------------

  struct Property {
    NodeId node;
    bool is_required;
  };

  NodeId object(Term term, const ObjectShape& shape, const std::string& name) {
    bool needs_check = shape.needs_check || !shape.some.empty();
    std::vector<Property> properties;
    std::uint64_t required = 0;
    for (const auto& [property, child] : shapes_.names.named(shape)) {
      // No value fits, so the property cannot come.
      if (!shapes_.is_satisfiable(child)) continue;
      const bool is_required = std::ranges::binary_search(shape.required, property);
      if (is_required) ++required;
      Parts parts{rules_.literal(json::to_string(Value(property)))};
      append_colon(parts);
      parts.push_back(with_gap(value(child, name_of_property(property))));
      properties.push_back({rules_.sequence(std::move(parts)), is_required});
    }
    const std::optional<NodeId> other = other_property(term, shape, name, needs_check);
    if (needs_check) {
      relax(term, Subject::objects, "it asks about the properties together, which is not checked");
    }
    // Bounds that the declared properties meet in any case are not counted: each count multiplies
    // the rules.
    Counts count{shape.count.least > required ? shape.count.least : 0, shape.count.most};
    if (!other && count.most >= properties.size()) count.most = Counts::kUnbounded;
    return list_in("{", members(term, properties, other, count, name), "}");
  }

  /// One undeclared property, if there may be any.
  std::optional<NodeId> other_property(Term term, const ObjectShape& shape, const std::string& name,
                                       bool& needs_check) {
    Parts ways;
    for (const OtherNames& other : shapes_.names.others(shape, needs_check)) {
      Parts parts{other_name(term, other, name)};
      append_colon(parts);
      parts.push_back(with_gap(value(other.value, name_of_part(name, "other"))));
      ways.push_back(rules_.sequence(std::move(parts)));
    }
    if (ways.empty()) return std::nullopt;
    return rule(name_of_part(name, "others"), rules_.choice(std::move(ways)));
  }

  NodeId other_name(Term term, const OtherNames& other, const std::string& name) {
    constexpr std::size_t kMaxLength = 3'000;  // of all names together; each byte is a state
    std::size_t length = 0;
    for (const std::string& but : other.but) length += but.size();
    if (length <= kMaxLength) {
      std::vector<Expr> literals;
      for (const std::string& but : other.but) literals.push_back(exprs_->literal(but));
      const Expr language =
          literals.empty()
              ? other.names
              : exprs_->both(other.names, exprs_->complement(exprs_->any_of(literals)));
      if (language == any_text_) return any_string();
      auto automaton = automaton_of(*exprs_, language, std::max(kMaxLength, options_.max_states));
      if (automaton) return regular(*automaton, name + "-name", spelling_, "\"");
    }
    const auto nodes = nodes_of(term);
    relax(nodes.empty() ? "" : shapes_.terms().schema().node(nodes[0]).location,
          "additionalProperties",
          "there are too many names, or patterns of names are too large: properties that come "
          "after the declared ones may have any name");
    return any_string();
  }

  // The ways to continue after some of the properties; each is a sequence.
  using Ways = std::vector<Parts>;

  /// From the last property to the first: rest[c] is what may follow after c members have been
  /// written, as far as the number matters.
  NodeId members(Term term, const std::vector<Property>& properties,
                 const std::optional<NodeId>& other, Counts count, const std::string& name) {
    constexpr std::uint64_t kMaxStates = 4'000;
    std::uint64_t highest = count.most != Counts::kUnbounded ? count.most : count.least;
    highest = std::max<std::uint64_t>(highest, 1);
    if (highest > kMaxStates || (properties.size() + 1) * highest > kMaxStates) {
      if (count != Counts{}) relax_counts(term);
      count = {};
      highest = 1;
    }
    const bool is_exact = count.most != Counts::kUnbounded;
    const auto most = static_cast<std::size_t>(highest);
    // c + 1; nothing: that would be one too many.
    const auto after = [&](std::size_t c) -> std::optional<std::size_t> {
      if (c < most) return c + 1;
      return is_exact ? std::nullopt : std::optional(c);
    };
    std::size_t required_before = 0;
    for (const Property& property : properties) required_before += property.is_required ? 1 : 0;
    // Nothing at c: with c members written no valid object is left.
    std::vector<std::optional<Ways>> rest(most + 1);
    for (std::size_t c = 0; c <= most; ++c) rest[c] = rest_of_others(other, count, c);
    for (std::size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      if (property.is_required) --required_before;
      const std::size_t first = std::min(required_before, most);  // the counts that can occur
      const std::size_t last = std::min(i, most);
      // A continuation that is used twice becomes a rule.
      std::vector<std::size_t> uses(most + 1);
      for (std::size_t c = first; c <= last; ++c) {
        const auto taken = after(c);
        if (taken) ++uses[*taken];
        if (!property.is_required && taken != c) ++uses[c];
      }
      for (std::size_t c = 0; c <= most; ++c) {
        if (uses[c] < 2 || !rest[c] || is_short(*rest[c])) continue;
        const NodeId body = node_of(*std::move(rest[c]));
        rest[c] = Ways{{rule(name + "-rest", body)}};
      }
      const NodeId node =
          // It is written twice, with a comma and without.
          first == 0 && last > 0 ? rule(name + "-kv", property.node) : property.node;
      std::vector<std::optional<Ways>> before(most + 1);
      for (std::size_t c = first; c <= last; ++c) {
        const auto taken = after(c);
        Ways ways;
        if (taken && rest[*taken]) {
          Parts parts{c == 0 ? node : next_item(node)};
          // The number of members no longer matters, so one way with an optional property stands
          // for both.
          if (taken == c && !property.is_required) parts = {optional(parts[0])};
          append(parts, uses[*taken] > 1 ? *rest[*taken] : std::move(*rest[*taken]));
          ways.push_back(std::move(parts));
        }
        if (!property.is_required && taken != c && rest[c]) {
          for (Parts& way : *rest[c]) ways.push_back(uses[c] > 1 ? way : std::move(way));
        }
        if (!ways.empty()) before[c] = std::move(ways);
      }
      rest = std::move(before);
    }
    return rest[0] ? node_of(*std::move(rest[0])) : rules_.choice({});
  }

  std::optional<Ways> rest_of_others(const std::optional<NodeId>& other, const Counts& count,
                                     std::size_t written) {
    const std::uint64_t least = count.least > written ? count.least - written : 0;
    if (!other || count.most <= written) {
      return least == 0 ? std::optional(Ways{{}}) : std::nullopt;
    }
    const std::uint64_t most = count.most == Counts::kUnbounded ? count.most : count.most - written;
    bool is_cut = false;
    if (written > 0) return Ways{{repeat(next_item(*other), {least, most}, is_cut)}};
    const NodeId list = items({}, *other, {least, most}, &is_cut);
    return Ways{{list}};
  }

  void relax_counts(Term term) {
    for (const schema::NodeId id : nodes_of(term)) {
      const schema::Node& node = shapes_.terms().schema().node(id);
      if (!node.objects) continue;
      const std::string message = "there are too many properties for a grammar that counts them";
      if (node.objects->count.least > 0) {
        relax(node.location + "/minProperties", "minProperties", message);
      }
      if (node.objects->count.most != Counts::kUnbounded) {
        relax(node.location + "/maxProperties", "maxProperties", message);
      }
    }
  }

  static bool is_short(const Ways& ways) { return ways.size() == 1 && ways[0].size() <= 1; }
  NodeId node_of(Ways ways) {
    Parts nodes;
    for (Parts& way : ways) {
      nodes.push_back(way.empty() ? rules_.literal("") : rules_.sequence(std::move(way)));
    }
    return rules_.choice(std::move(nodes));
  }
  void append(Parts& parts, Ways ways) {
    if (ways.size() == 1) {
      parts.insert(parts.end(), ways[0].begin(), ways[0].end());
    } else {
      parts.push_back(node_of(std::move(ways)));
    }
  }

  Rules& rules_;
  JsonOptions json_;
  const LowerOptions& options_;
  std::vector<Relaxed>& relaxed_;
  Shapes shapes_;
  std::shared_ptr<regex::ExprSet> exprs_;
  Expr any_text_;  // any text of a string
  CharacterSpelling spelling_;
  std::optional<NodeId> gap_;  // for all places of whitespace except those after ',' and ':'
  std::optional<NodeId> after_comma_;
  std::optional<NodeId> after_colon_;
  std::map<CodePointSet, NodeId> characters_;
  std::map<std::string, NodeId> escapes_;
  std::optional<NodeId> zeros_;
  std::map<std::string, NodeId> shared_;
  std::map<Term, NodeId> values_;
  std::vector<Pending> pending_;
};

}  // namespace

Expected<NodeId> lower_json(Rules& rules, const node::Json& json, const LowerOptions& options,
                            Allowance& shared, std::vector<Relaxed>& relaxed) {
  auto root = JsonLowering(rules, json, options, shared, relaxed).run();
  if (root || root.error().code != Errc::unsatisfiable || !json.options.declared_only) return root;
  // Without undeclared properties nothing fits, so they are allowed after all.
  node::Json any_names = json;
  any_names.options.declared_only = false;
  return JsonLowering(rules, any_names, options, shared, relaxed).run();
}

}  // namespace tenon::grammar
