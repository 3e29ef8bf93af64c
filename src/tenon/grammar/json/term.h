#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

/// A set of JSON values: the index of a boolean expression in its Terms. Equal expressions have
/// equal indices.
using Term = std::uint32_t;

/// Boolean expressions over the nodes of a schema, hash-consed. A node is expanded only when it is
/// asked for, so recursion costs nothing.
class Terms {
 public:
  enum class Kind : std::uint8_t {
    nothing,
    anything,
    node,      ///< All rules and references of a node.
    rules,     ///< Its own rules: types, values and the rules for each type.
    value,     ///< The values that are equal to one value.
    all_of,    ///< Its parts, all together.
    any_of,    ///< Its parts, any of them.
    negation,  ///< Its only part, negated.
  };
  static constexpr Term kNothing = 0;
  static constexpr Term kAnything = 1;

  explicit Terms(std::shared_ptr<const schema::Schema> schema);

  [[nodiscard]] Term node(schema::NodeId id);
  [[nodiscard]] Term rules(schema::NodeId id);
  /// `value` must belong to the schema.
  [[nodiscard]] Term value(const json::Value& value);
  [[nodiscard]] Term all_of(std::vector<Term> parts);
  [[nodiscard]] Term any_of(std::vector<Term> parts);
  [[nodiscard]] Term negation(Term term);
  /// The meaning of a node, in terms of its own rules and of the nodes to which it refers.
  [[nodiscard]] Term definition(schema::NodeId id);
  /// The node and all nodes that apply to the same value, whether they hold or not.
  [[nodiscard]] std::vector<schema::NodeId> in_place(schema::NodeId id) const;
  /// Some unevaluatedProperties or unevaluatedItems needs to know what the node evaluates.
  [[nodiscard]] bool is_asked(schema::NodeId id) const { return is_asked_[id]; }
  /// The definition of a node for which this is needed does not distinguish all `anyOf` branches
  /// that hold, because there are too many sets of them.
  [[nodiscard]] bool evaluates_more(schema::NodeId id) const {
    return evaluates_more_.contains(id);
  }
  /// Set if a definition was too large to be made.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  [[nodiscard]] Kind kind(Term term) const { return entries_[term].kind; }
  [[nodiscard]] schema::NodeId node_of(Term term) const { return entries_[term].node; }
  [[nodiscard]] const json::Value& value_of(Term term) const { return *entries_[term].value; }
  /// Valid until the next term is made.
  [[nodiscard]] std::span<const Term> parts_of(Term term) const {
    return std::span(parts_).subspan(entries_[term].first, entries_[term].count);
  }
  [[nodiscard]] const schema::Schema& schema() const { return *schema_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// The number of parts looked at since the last call.
  [[nodiscard]] std::uint64_t take_steps() { return std::exchange(steps_, 0); }

 private:
  struct Entry {
    Kind kind = Kind::nothing;
    schema::NodeId node = 0;
    const json::Value* value = nullptr;
    std::uint32_t first = 0;  // in parts_
    std::uint32_t count = 0;
  };
  using Keys = std::vector<std::string>;  // of values, sorted; equal for equal values
  struct Facts;

  Term intern(Entry entry, std::uint64_t what, std::span<const Term> parts);
  Term combine(Kind kind, std::vector<Term> parts);
  Term define(schema::NodeId id, Term own);
  Term one_of(const schema::Node& node);
  Term any_of_evaluating(schema::NodeId id);
  Term either(Term a, Term b);
  [[nodiscard]] bool evaluates(schema::NodeId id) const;
  const Keys* keys_of(schema::NodeId id);
  void collect(schema::NodeId id, int depth, int& visits, Facts& facts);
  bool may_compare(std::size_t keys);
  bool are_disjoint(const Keys& a, const Keys& b);
  bool are_disjoint(const Facts& a, const Facts& b);
  bool are_all_disjoint(std::vector<const Keys*> lists);
  bool are_all_disjoint(const std::vector<Facts>& branches);

  std::shared_ptr<const schema::Schema> schema_;
  std::vector<Entry> entries_;
  std::vector<Term> parts_;
  IdIndex ids_;  // of entries_
  std::map<schema::NodeId, Term> definitions_;
  std::vector<bool> is_asked_;  // by node
  std::set<schema::NodeId> evaluates_more_;
  std::map<schema::NodeId, std::optional<Keys>> keys_;
  std::uint64_t compared_ = 0;  // keys
  std::optional<Error> error_;
  std::uint64_t steps_ = 0;
};

}  // namespace tenon::grammar
