#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenon/grammar/json/number_scanner.h"
#include "tenon/grammar/json/term.h"
#include "tenon/regex/expr.h"
#include "tenon/schema/schema.h"

/// What a term means for each type of value: docs/masks.md, "Types are taken apart first".
///
/// A term is a boolean expression over the nodes of a schema. What it allows is said one type at a
/// time. The answer for numbers, arrays and objects is a list of shapes, and a value fits the term
/// if it fits one of them. All conditions of one shape hold together, so json_frames.h can read a
/// value by a shape without any knowledge of the schema.
///
/// A shape may have more values than it stands for, because the exact alternatives would be too
/// many, or because a keyword cannot be followed while a value is read. Then `needs_check` is set,
/// and a finished value must be compared with its term (ShapeWork::fits). shapes.h computes shapes.
namespace tenon::grammar {

/// Strings: those of the language that have so many characters and are not excluded; or, if
/// `values` are given, exactly these.
struct StringShape {
  regex::Expr language = regex::ExprSet::kAnything;  ///< Over bytes; only valid UTF-8 counts.
  schema::Counts length;
  std::vector<std::string> excluded;               ///< In order, without duplicates.
  std::optional<std::vector<std::string>> values;  ///< In order, without duplicates.
  bool is_text = false;                            ///< The language has only such texts.
  /// It has texts that the term does not have, because a rule is left out or a format is more than
  /// its pattern. So nothing can be concluded for the negation.
  bool is_superset = false;
};

/// Arrays: all of these conditions hold.
struct ArrayShape {
  /// So many of the items from index `from` on fit the term.
  struct Contained {
    Term term;
    std::uint64_t from = 0;
    schema::Counts counts;
    bool operator==(const Contained&) const = default;
  };

  std::vector<Term> prefix;
  Term items = Terms::kAnything;
  schema::Counts length;
  std::vector<Contained> contained;
  std::vector<const json::Value*> excluded;  ///< Arrays to which it is not equal.
  bool unique = false;
  bool needs_check = false;
  // What counts as evaluated for an enclosing unevaluatedItems: the first so many items, the items
  // that fit one of the terms, and perhaps others.
  std::uint64_t evaluated = 0;
  std::vector<Term> evaluating;
  bool evaluates_more = false;

  bool operator==(const ArrayShape&) const = default;
};

/// Objects: all of these conditions hold.
struct ObjectShape {
  /// Some property has a name of the language and a value that fits the term.
  struct Some {
    regex::Expr names;
    Term value;
    bool operator==(const Some&) const = default;
  };

  /// For each name to which no rules of the nodes `by` apply, the value fits the term.
  struct Unevaluated {
    Term value;
    std::vector<schema::NodeId> by;
    auto operator<=>(const Unevaluated&) const = default;
  };

  std::vector<schema::NodeId> rules;     ///< All rules for properties of these nodes apply.
  std::vector<Unevaluated> unevaluated;  ///< All of these apply.
  std::map<std::string, Term, std::less<>> extra;  ///< These apply too, if the property is there.
  std::vector<std::string> required;               ///< In order, without duplicates.
  std::vector<Term> names;                         ///< Every name, as a string, fits all of these.
  std::vector<Some> some;                          ///< All of these hold.
  std::vector<const json::Value*> excluded;        ///< Objects to which it is not equal.
  schema::Counts count;
  bool needs_check = false;
  // What counts as evaluated for an enclosing unevaluatedProperties: the names to which these nodes
  // apply, and perhaps others.
  std::vector<schema::NodeId> evaluating;
  bool evaluates_more = false;

  bool operator==(const ObjectShape&) const = default;
};

struct NumberShape {
  NumberSet set;
  bool needs_check = false;
};

/// null, false, true: bits 0, 1, 2.
using Constants = std::bitset<3>;

}  // namespace tenon::grammar
