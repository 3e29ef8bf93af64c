#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/regex/regex.h"

/// JSON Schema, drafts 4 to 2020-12.
///
///     const auto schema = schema::Schema::compile(parameters);
///     if (!schema) return Unexpected(schema.error());   // "/properties/a/type: 'text' is no type"
///     const auto violations = (*schema)->validate(arguments);
///     if (violations && violations->empty()) ...        // the arguments are valid
namespace tenon::schema {

enum class Draft : std::uint8_t { draft4, draft6, draft7, draft2019_09, draft2020_12 };

/// "draft4" ... "draft2020-12".
[[nodiscard]] std::string_view draft_name(Draft draft);
[[nodiscard]] std::optional<Draft> find_draft(std::string_view name);

// The canonical form ------------------------------------------------------------------------------
//
// A schema is a table of nodes with one representation for each concept, whatever the draft calls
// it. References, static and dynamic, are resolved and stand in `all_of`. A place whose meaning
// depends on where a dynamic reference comes from is a node for each meaning.

/// A kind of instance. `number` is both integer and fraction; 1.0 is an integer.
enum class Type : std::uint8_t { null, boolean, integer, fraction, string, array, object };

class Types {
 public:
  constexpr Types() = default;
  constexpr explicit Types(Type type) : bits_(bit(type)) {}
  static constexpr Types all() { return from_bits(0x7F); }
  static constexpr Types number() { return Types(Type::integer) | Types(Type::fraction); }

  [[nodiscard]] constexpr bool contains(Type type) const { return (bits_ & bit(type)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr Types operator|(Types a, Types b) { return from_bits(a.bits_ | b.bits_); }
  friend constexpr Types operator&(Types a, Types b) { return from_bits(a.bits_ & b.bits_); }
  bool operator==(const Types&) const = default;

 private:
  static constexpr std::uint8_t bit(Type type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  static constexpr Types from_bits(unsigned bits) {
    Types types;
    types.bits_ = static_cast<std::uint8_t>(bits);
    return types;
  }

  std::uint8_t bits_ = 0;
};

[[nodiscard]] Type type_of(const json::Value& instance);

using NodeId = std::uint32_t;  ///< An index in the schema's table.

/// A range of lengths or counts, both ends included.
struct Counts {
  static constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t least = 0;
  std::uint64_t most = kUnbounded;

  bool operator==(const Counts&) const = default;
};

/// The values of `enum` and `const` (those in both, where both are given).
class Enumeration {
 public:
  /// A violation names `keyword`.
  Enumeration(json::Array values, std::string_view keyword);

  [[nodiscard]] const json::Array& values() const { return values_; }
  [[nodiscard]] std::string_view keyword() const { return keyword_; }
  /// Whether a value is equal to `instance`, in time linear in the instance.
  [[nodiscard]] bool contains(const json::Value& instance) const;

 private:
  struct Slot {
    std::uint64_t hash;
    std::uint32_t index;
  };

  json::Array values_;
  std::string_view keyword_;
  std::vector<Slot> slots_;  // by hash
};

/// The tighter of `minimum` and `exclusiveMinimum`, or of the maxima.
struct Bound {
  json::Number value;
  bool exclusive = false;
};

struct NumberRules {
  std::optional<Bound> minimum;
  std::optional<Bound> maximum;
  std::optional<json::Number> multiple_of;  ///< Above zero.
};

struct Pattern {
  std::string text;
  std::shared_ptr<const regex::Regex> regex;
};

struct Format;  // formats.h

struct StringRules {
  Counts length;  ///< In code points.
  std::optional<Pattern> pattern;
  std::string format;  ///< "" if there is no `format`; it may be one that Tenon does not know.
  /// The meaning of `format`, if it is known and constrains. It lives as long as the program.
  const Format* asserted_format = nullptr;
};

struct ArrayRules {
  Counts length;
  bool unique = false;
  std::vector<NodeId> prefix;   ///< For the first items, one each.
  std::optional<NodeId> items;  ///< For those after them.
  std::optional<NodeId> contains;
  Counts contained{.least = 1};  ///< How many items must fit `contains`.
  /// From draft 2020-12 on, an item that fits `contains` counts as evaluated.
  bool contains_evaluates = false;
  std::optional<NodeId> unevaluated;
};

struct Property {
  std::string name;
  NodeId node;
};

struct PatternProperty {
  Pattern pattern;
  NodeId node;
};

/// If the instance has `name`, it must have `required`.
struct DependentNames {
  std::string name;
  std::vector<std::string> required;
  std::string_view keyword;  ///< `dependentRequired` or `dependencies`.
};

struct ObjectRules {
  Counts count;
  std::vector<std::string> required;
  std::vector<Property> properties;  ///< In the schema's order.
  bool has_properties = false;       ///< The keyword is there, perhaps without properties.
  std::vector<PatternProperty> pattern_properties;
  std::optional<NodeId> additional;  ///< For members that the two above do not name.
  std::optional<NodeId> names;       ///< For each name, as a string.
  std::vector<DependentNames> dependent_names;
  std::optional<NodeId> unevaluated;

  [[nodiscard]] const Property* find(std::string_view name) const;
  void index();  ///< Makes the properties known to `find`.

 private:
  std::vector<std::uint32_t> by_name_;  // indices in properties
};

struct Conditional {
  NodeId condition;
  std::optional<NodeId> then_node;
  std::optional<NodeId> else_node;
};

/// If the instance has `name`, the whole instance must fit `node`.
struct DependentNode {
  std::string name;
  NodeId node;
};

/// The rules of one place of a schema. Rules that are absent allow everything; all others apply,
/// each only to its own type of instance.
struct Node {
  /// Where it stands: a JSON pointer in the schema, after "address#" in another document.
  std::string location;
  Draft draft = Draft::draft2020_12;
  Types types = Types::all();  ///< Empty: the schema `false`.
  std::unique_ptr<const Enumeration> values;
  std::unique_ptr<const NumberRules> numbers;
  std::unique_ptr<const StringRules> strings;
  std::unique_ptr<const ArrayRules> arrays;
  std::unique_ptr<const ObjectRules> objects;
  std::vector<NodeId> all_of;  ///< `$ref` and similar references first, then `allOf`.
  std::vector<NodeId> any_of;  ///< Empty: no `anyOf`.
  std::vector<NodeId> one_of;
  std::optional<NodeId> negated;
  std::optional<Conditional> conditional;
  std::vector<DependentNode> dependents;
  bool is_shared = false;  ///< More than one node leads here, and this node leads on.

  /// In draft 4 the text decides whether a number is an integer: 1.0 is not one.
  [[nodiscard]] bool integers_are_spelled() const {
    return draft == Draft::draft4 && types.contains(Type::integer) &&
           !types.contains(Type::fraction);
  }
};

// Compiling ---------------------------------------------------------------------------------------

struct CompileOptions {
  Draft draft = Draft::draft2020_12;  ///< For schemas without `$schema`.
  /// {address: schema}: the documents that `$ref` may refer to, besides the schema itself and the
  /// meta-schemas of the drafts. They are read during compile only, and only where a reference
  /// leads.
  const json::Object* documents = nullptr;
  /// Makes `format` a constraint. Otherwise it is one only if the schema's own vocabulary says so.
  bool assert_format = false;
  Limits limits = {.max_steps = 20'000'000, .max_bytes = std::uint64_t{256} << 20};
};

// Validating --------------------------------------------------------------------------------------

struct Violation {
  std::string instance_path;  ///< JSON pointer.
  std::string schema_path;    ///< The violated keyword, written like Node::location.
  std::string message;        ///< A sentence about the instance: "is a string, must be a number".

  bool operator==(const Violation&) const = default;
};

struct ValidateOptions {
  std::size_t max_violations = 1000;  ///< Further violations are not listed.
  /// Depth counts nested nodes, references included.
  Limits limits = {.max_steps = 50'000'000, .max_depth = 1000};
};

/// A compiled schema. Immutable; may be shared between threads.
class Schema {
 public:
  /// Fails with Errc::invalid if a keyword has a value that it cannot have, a reference leads
  /// nowhere, or a schema refers to itself without going down into the instance; with
  /// Errc::unsupported at an address that is not among the documents (nothing is ever fetched), an
  /// unknown dialect, or a pattern that `regex` refuses; with Errc::limit_exceeded. Places that no
  /// reference reaches are not checked. Unknown keywords are ignored, as the standard wants.
  /// Besides the keywords of its draft a schema may use `nullable` of OpenAPI, `enum_values` for
  /// `enum`, boolean `exclusiveMinimum` and `exclusiveMaximum`, and `items` with a list.
  [[nodiscard]] static Expected<std::shared_ptr<const Schema>> compile(
      const json::Value& schema, const CompileOptions& options = {});

  [[nodiscard]] NodeId root() const { return 0; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  /// Returns every violation; none if the instance is valid. If no branch of `anyOf` or `oneOf`
  /// fits and only one is for this type of instance, the violations of that branch follow.
  /// Unevaluated items and members are reported only if all other rules are met. Fails with
  /// Errc::limit_exceeded, or Errc::unavailable if cancelled.
  [[nodiscard]] Expected<std::vector<Violation>> validate(
      const json::Value& instance, const ValidateOptions& options = {}) const;

  /// Only the verdict; stops at the first violation.
  [[nodiscard]] Expected<bool> is_valid(const json::Value& instance,
                                        const ValidateOptions& options = {}) const {
    return is_valid(root(), instance, options);
  }
  /// The verdict of one node.
  [[nodiscard]] Expected<bool> is_valid(NodeId node, const json::Value& instance,
                                        const ValidateOptions& options = {}) const;

 private:
  explicit Schema(std::vector<Node> nodes) : nodes_(std::move(nodes)) {}

  std::vector<Node> nodes_;
};

}  // namespace tenon::schema
