#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_rules.h"
#include "tenon/grammar/json/shape_strings.h"
#include "tenon/grammar/json/shape_work.h"
#include "tenon/grammar/machine/relaxed.h"

/// Computes the shapes of terms (shape.h). Everything is computed when it is first asked for, and
/// kept. Not thread-safe.
///
/// The work is divided by concern, and each part has its own state:
///
///     ShapeWork       terms, limits, steps, the first error          shape_work.h
///     ConstantShapes  null, false, true                              shape_strings.h
///     StringShapes    strings, as languages and lists                shape_strings.h
///     NumberShapes, ArrayShapes, ObjectShapes                           shape_rules.h
///                     shapes of one rule of the schema, and how two of them are merged
///     TermShapes      the alternatives of a term, for one of these types
///     ObjectNames     the names of an object, and the term of each value
///     Satisfiability  whether there is any value
///     ShapeValues     examples of values, and questions that need examples
///
/// The parts above the last four know only parts above themselves. The last four ask each other:
/// alternatives without a value are dropped, and whether there is a value depends on the
/// alternatives of the parts. So they have the whole Shapes.
namespace tenon::grammar {

struct Shapes;

/// The shapes of terms for one type of value: a list of alternatives, each a conjunction.
template <class Rules>
class TermShapes {
 public:
  using Shape = typename Rules::Shape;
  /// Nothing: there are too many.
  using Alternatives = std::optional<std::vector<Shape>>;

  TermShapes(Shapes& shapes, Rules& rules) : shapes_(shapes), rules_(rules) {}

  /// The alternatives that have a value. If there are too many, one with a check.
  [[nodiscard]] const std::vector<Shape>& of(Term term);
  /// All alternatives, of which some may have no value.
  [[nodiscard]] const Alternatives& alternatives(Term term, bool negated = false);

 private:
  using Part = std::pair<Term, bool>;  // a term, and whether it is negated

  Alternatives compute(Term term, bool negated);
  Alternatives checked(schema::NodeId id, bool negated);
  Alternatives joined(const std::vector<Part>& parts);
  Alternatives conjunction(const std::vector<Part>& parts);
  Alternatives product(const std::vector<Part>& order, bool is_tidied, bool& is_large);
  void tidy(std::vector<Shape>& shapes);
  std::vector<Shape> uncovered(std::vector<Shape> shapes);
  bool is_negative(const Part& part);
  Shape without_values(std::vector<Part>& parts);
  bool is_surely_impossible(const Shape& shape);

  Shapes& shapes_;
  Rules& rules_;
  std::map<Part, Alternatives> alternatives_;
  std::map<Term, std::vector<Shape>> possible_;
};

/// All names of an object that no rule lists, grouped by the patterns that they match: a language
/// of names, and the term of the values.
struct OtherNames {
  regex::Expr names;
  std::vector<std::string> but;  ///< Names of `names` that do not count.
  Term value;
  std::uint32_t some = 0;  ///< Bit i: all these names are among the names of shape.some[i].
};

/// The names of objects.
class ObjectNames {
 public:
  explicit ObjectNames(Shapes& shapes);

  /// If an object declares properties, undeclared names do not come, unless it needs one. Call it
  /// first.
  void declared_only() { declared_only_ = true; }

  /// Whether it is because of declared_only() that others() is empty.
  [[nodiscard]] bool are_all_declared(const ObjectShape& shape) {
    return declared_only_ && is_complete(shape, named(shape));
  }
  /// The names that the shape declares, each with the term that its value must fit.
  [[nodiscard]] std::vector<std::pair<std::string, Term>> named(const ObjectShape& shape);
  /// The same for one name, whether it is declared or not.
  [[nodiscard]] Term term_of(const ObjectShape& shape, const std::string& name);
  /// All other names, in groups that have values; see also declared_only(). If there are too many
  /// patterns, one group has all names with any value, and `needs_check` is set.
  [[nodiscard]] std::vector<OtherNames> others(const ObjectShape& shape, bool& needs_check);
  /// The names without `used`; nothing if no name is left.
  [[nodiscard]] std::optional<OtherNames> without(const OtherNames& names,
                                                  const std::vector<std::string>& used);
  /// All of them, if there are at most `most`.
  [[nodiscard]] std::optional<std::vector<std::string>> few(const OtherNames& names,
                                                            std::size_t most);

 private:
  regex::Expr language(const ObjectShape& shape);
  std::vector<std::string> all_of(const ObjectShape& shape);
  std::optional<std::vector<std::string>> compute_few(const OtherNames& names, std::size_t most);
  std::vector<OtherNames> apart(const OtherNames& names, const std::vector<std::string>& known,
                                std::span<const ObjectShape::Some> some);
  bool is_complete(const ObjectShape& shape, std::span<const std::pair<std::string, Term>> named);
  std::vector<OtherNames> less(OtherNames names, const std::vector<std::string>& known);
  Term member(const schema::Node& node, std::string_view name);
  bool evaluates(schema::NodeId id, std::string_view name);

  Shapes& shapes_;
  ShapeWork& work_;
  Terms& terms_;
  StringShapes& strings_;
  bool declared_only_ = false;
  std::map<std::tuple<regex::Expr, std::vector<std::string>, std::size_t>,
           std::optional<std::vector<std::string>>>
      few_;
};

/// Whether terms and shapes have any value. Checks are assumed to hold.
class Satisfiability {
 public:
  explicit Satisfiability(Shapes& shapes);

  /// False: there is no value.
  [[nodiscard]] bool of(Term term);
  [[nodiscard]] bool of(const StringShape& shape);
  [[nodiscard]] bool of(const NumberShape& shape);
  [[nodiscard]] bool of(const ArrayShape& shape);
  [[nodiscard]] bool of(const ObjectShape& shape);
  /// The same, without a look at members that need not come. Their limits are not found then.
  [[nodiscard]] bool by_required(const ObjectShape& shape);
  template <class Shape>
  [[nodiscard]] bool by_required(const Shape& shape) {
    return of(shape);
  }
  /// The error of a schema that no value fits. It names the place that is the cause, as deep as
  /// there is a single one.
  [[nodiscard]] Error error();
  /// The largest number of items of an array, by the types of the items.
  [[nodiscard]] std::uint64_t most_items(const ArrayShape& shape);
  /// Whether an array of `count` items, `fitting` of which fit each of `contained`, can still come
  /// to an end.
  [[nodiscard]] bool can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                             std::span<const std::uint64_t> fitting);

 private:
  bool compute(Term term);
  std::uint64_t most_by_terms(const ArrayShape& shape);
  std::optional<schema::NodeId> blamed_within(const schema::Node& node);
  bool can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
               const ArrayShape::Contained& contained, std::uint64_t fitting);
  bool can_fit_all(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                   std::span<const std::uint64_t> fitting);
  std::vector<std::uint32_t> fits_of_item(const ArrayShape& shape, std::uint64_t index);
  bool has_enough_values(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                         std::span<const std::uint64_t> fitting);

  Shapes& shapes_;
  ShapeWork& work_;
  Terms& terms_;
  std::map<Term, bool> known_;
  std::map<Term, std::size_t> in_question_;  // -> depth
};

/// Examples of values, and questions that are answered by examples.
class ShapeValues {
 public:
  explicit ShapeValues(Shapes& shapes);

  /// Different values of a term. Unless `is_all` there may be more.
  struct Samples {
    std::vector<json::Value> values;
    bool is_all = false;
  };
  /// Up to `most` values; fewer if there are no more, or if it takes too long to find them.
  [[nodiscard]] Samples some(Term term, std::size_t most);
  /// The same, kept; nothing is said to be all if that rests on an assumption.
  [[nodiscard]] const Samples& of_items(Term term, std::size_t most);
  /// The number of values of the term, if there are few and none is an array or object.
  [[nodiscard]] std::optional<std::uint64_t> finite_size(Term term);
  /// True while values are looked for. Then questions that would look for values themselves are
  /// answered as if there were some.
  [[nodiscard]] bool is_searching() const { return is_searching_; }

  /// Whether the shape has a value beside the excluded ones.
  template <class Shape>
  [[nodiscard]] bool has_any_but_excluded(const Shape& shape);
  /// Every prefix of a value of the term can become infinitely many values, so excluding values
  /// never leaves none. False: not known.
  [[nodiscard]] bool is_boundless(Term term) { return is_boundless(term, true); }
  /// The same for the values that are not numbers.
  [[nodiscard]] bool is_boundless_but_for_numbers(Term term) { return is_boundless(term, false); }
  /// For an array whose items must differ, with `taken` so far: the values that the next item must
  /// not have, because later required items would not find a value each. Nothing: they will not,
  /// whatever the next item is.
  [[nodiscard]] std::optional<std::vector<json::Value>> spoilers(
      const ArrayShape& shape, std::uint64_t count, std::span<const json::Value* const> taken);

 private:
  struct Search;
  class Found;
  // What is known of a shape without exclusions.
  template <class Shape>
  struct KnownShape {
    Shape shape;
    Samples samples;
    std::size_t asked = 0;         // so many samples were looked for
    std::optional<bool> has_many;  // has_many()
  };
  template <class Shape>
  using Kept = std::vector<KnownShape<Shape>>;

  bool sample(Search& search, Term term, std::size_t most, int depth, Samples& into);
  bool sample(Search& search, const ArrayShape& shape, std::size_t most, int depth, Samples& into);
  bool sample(Search& search, const ObjectShape& shape, std::size_t most, int depth, Samples& into);
  bool add_numbers(Term term, std::size_t most, Found& found);
  template <class Shape>
  void add_shapes(Search& search, const std::optional<std::vector<Shape>>& shapes, std::size_t most,
                  int depth, Found& found);
  template <class Shape>
  KnownShape<Shape>* known(const Shape& shape);
  template <class Shape>
  const Samples& of_shape(const Shape& shape, std::size_t most);
  Kept<ArrayShape>& kept(const ArrayShape&) { return arrays_; }
  Kept<ObjectShape>& kept(const ObjectShape&) { return objects_; }
  bool has_many(const ArrayShape& shape);
  bool has_many(const ObjectShape& shape);
  bool has_more_names(const ObjectShape& shape, std::size_t than);
  static bool has_more_names(const ArrayShape& /*shape*/, std::size_t /*than*/) { return false; }
  bool is_boundless(Term term, bool with_numbers);
  std::vector<const std::vector<json::Value>*> scarce_items(const ArrayShape& shape,
                                                            std::uint64_t from);

  Shapes& shapes_;
  ShapeWork& work_;
  Terms& terms_;
  std::map<std::pair<Term, std::size_t>, Samples> of_items_;
  // For a few shapes.
  Kept<ArrayShape> arrays_;
  Kept<ObjectShape> objects_;
  Samples unkept_;
  std::map<std::pair<Term, bool>, bool> boundless_;  // bool: with numbers
  bool is_searching_ = false;
};

/// All parts. See the top of this file.
struct Shapes {
  /// `exprs`: the limits of the expressions that are made on the way.
  Shapes(std::shared_ptr<const schema::Schema> schema, const Limits& exprs,
         const ShapeWork::Limits& limits);
  Shapes(const Shapes&) = delete;
  Shapes& operator=(const Shapes&) = delete;

  [[nodiscard]] Terms& terms() { return work.terms(); }
  [[nodiscard]] const Terms& terms() const { return work.terms(); }
  bool spend(std::uint64_t steps) { return work.spend(steps); }
  [[nodiscard]] const std::optional<Error>& error() const { return work.error(); }
  /// False: the term or shape has no value.
  template <class TermOrShape>
  [[nodiscard]] bool is_satisfiable(const TermOrShape& what) {
    return satisfiable.of(what);
  }

  /// From now on a keyword that would be an error is left out. Returns each such keyword with the
  /// reason. It reads the whole schema, so call it first.
  [[nodiscard]] std::vector<Relaxed> relax();
  /// Fails (see error()) if the schema has a number that is too long to be written.
  void check();

  ShapeWork work;
  Assumptions assumptions;
  ConstantShapes constants;
  StringShapes strings;
  NumberShapes number_rules;
  ArrayShapes array_rules;
  ObjectShapes object_rules;
  TermShapes<NumberShapes> numbers;
  TermShapes<ArrayShapes> arrays;
  TermShapes<ObjectShapes> objects;
  ObjectNames names;
  Satisfiability satisfiable;
  ShapeValues values;
};

}  // namespace tenon::grammar
