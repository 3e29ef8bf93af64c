#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_strings.h"
#include "tenon/grammar/json/shape_work.h"

/// Three classes that make the shapes of one type of value from one rule of the schema, and merge
/// them. They have the same interface, so that TermShapes can combine them for a whole term.
namespace tenon::grammar {

template <class Rules>
class TermShapes;

class NumberShapes {
 public:
  using Shape = NumberShape;

  explicit NumberShapes(ShapeWork& work) : work_(work), terms_(work.terms()) {}

  /// The alternatives that the node's own rules allow, or that break one of them.
  std::vector<NumberShape> rules_of(schema::NodeId id, bool negated);
  /// The number that is equal to `value`, or all others.
  std::vector<NumberShape> value_of(const json::Value& value, bool negated);
  /// What fits both; nothing if nothing can.
  std::optional<NumberShape> meet(const NumberShape& a, const NumberShape& b);
  /// Joins lists of values to one list, which does not change their meaning.
  void unite(std::vector<NumberShape>& shapes);
  /// Makes lists of shapes with few values.
  void list_few(std::vector<NumberShape>& shapes);
  static void join_checked(std::vector<NumberShape>&) {}
  /// All values of `b` fit `a`; false if that is not plain from the rules.
  static bool covers(const NumberShape& a, const NumberShape& b);
  /// False: no number fits the shape. A check is assumed to hold.
  bool is_possible(const NumberShape& shape);

  static void add_unevaluated(schema::NodeId, std::vector<NumberShape>&) {}
  static void forget_evaluated(NumberShape&) {}

  /// The keywords whose numbers are too long to be written, with the errors.
  static std::vector<std::pair<const char*, Error>> too_long(const schema::NumberRules& rules);
  /// Fails if the node has such a keyword.
  void check_places(const schema::Node& node);
  /// From now on such keywords are left out.
  void relax() { is_relaxed_ = true; }
  /// From now on values that must be integers have no ".0".
  void spell_integers() { spells_integers_ = true; }

 private:
  NumberSet of_values(std::vector<std::string> values);
  std::optional<NumberShape> settled(NumberShape shape);

  ShapeWork& work_;
  Terms& terms_;
  bool is_relaxed_ = false;
  bool spells_integers_ = false;
};

class ArrayShapes {
 public:
  using Shape = ArrayShape;

  explicit ArrayShapes(ShapeWork& work) : work_(work), terms_(work.terms()) {}

  std::vector<ArrayShape> rules_of(schema::NodeId id, bool negated);
  std::vector<ArrayShape> value_of(const json::Value& value, bool negated);
  /// One shape that all `values` fit, with a check.
  ArrayShape superset_of(const std::vector<const json::Value*>& values);
  std::optional<ArrayShape> meet(const ArrayShape& a, const ArrayShape& b);
  static void unite(std::vector<ArrayShape>&) {}
  static void list_few(std::vector<ArrayShape>&) {}
  static void join_checked(std::vector<ArrayShape>&) {}
  static bool covers(const ArrayShape& a, const ArrayShape& b);
  /// Adds what the node's unevaluatedItems requires.
  void add_unevaluated(schema::NodeId id, std::vector<ArrayShape>& shapes);
  /// Under `not` nothing counts as evaluated.
  static void forget_evaluated(ArrayShape& shape);

 private:
  ShapeWork& work_;
  Terms& terms_;
};

class ObjectShapes {
 public:
  using Shape = ObjectShape;

  /// `shapes` answers what the schemas of `dependentSchemas` allow.
  ObjectShapes(ShapeWork& work, StringShapes& strings, TermShapes<ObjectShapes>& shapes)
      : work_(work), terms_(work.terms()), strings_(strings), shapes_(shapes) {}

  std::vector<ObjectShape> rules_of(schema::NodeId id, bool negated);
  std::vector<ObjectShape> value_of(const json::Value& value, bool negated);
  ObjectShape superset_of(const std::vector<const json::Value*>& values);
  std::optional<ObjectShape> meet(const ObjectShape& a, const ObjectShape& b);
  static void unite(std::vector<ObjectShape>&) {}
  static void list_few(std::vector<ObjectShape>&) {}
  /// Where many shapes need a check, makes one of those with the same rules. It allows more until
  /// the check.
  static void join_checked(std::vector<ObjectShape>& shapes);
  static bool covers(const ObjectShape& a, const ObjectShape& b);
  void add_unevaluated(schema::NodeId id, std::vector<ObjectShape>& shapes);
  static void forget_evaluated(ObjectShape& shape);

 private:
  std::vector<ObjectShape> broken_rules_of(schema::NodeId id);

  ShapeWork& work_;
  Terms& terms_;
  StringShapes& strings_;
  TermShapes<ObjectShapes>& shapes_;
};

}  // namespace tenon::grammar
