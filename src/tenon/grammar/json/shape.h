#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/number_scanner.h"
#include "tenon/grammar/json/term.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/regex/expr.h"
#include "tenon/schema/schema.h"

/// What a term means for each type of value: docs/masks.md, "Types are taken apart first".
///
/// A term is a boolean expression over the nodes of a schema. Shapes answers what it allows, one
/// type at a time: constants(), text(), numbers(), arrays() and objects(). The answer for numbers,
/// arrays and objects is a list of shapes, and a value fits the term if it fits one of them. All
/// conditions of one shape hold together, so json_frames.h can read a value by a shape without any
/// knowledge of the schema.
///
/// A shape may have more values than it stands for, because the exact alternatives would be too
/// many, or because a keyword cannot be followed while a value is read. Then `needs_check` is set,
/// and a finished value must be compared with its term (Shapes::fits).
///
/// Shapes also says whether a term has any value at all (is_satisfiable), how many it has
/// (finite_size), and gives examples (some_values). shape.cc describes how all this is computed.
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

/// Computes the shapes of terms. Everything is computed when it is first asked for, and kept. Not
/// thread-safe.
class Shapes {
 public:
  struct Limits {
    std::size_t max_alternatives = 64;  ///< In a product of unions; more become a check.
    std::size_t max_union = 1000;       ///< In a union alone; more become a check.
    /// How often two shapes are compared, for one term and in all; beyond that they become a check.
    std::size_t max_tests = 300;
    std::size_t max_all_tests = 5000;
    /// The cost of all questions together, at some 50 ns each; more is an error.
    std::uint64_t max_steps = 6'000'000;
    std::size_t max_counted = 3;  ///< The number of `contained` or `some` of one shape; more become
                                  ///< a check.
    std::size_t max_patterns = 5;  ///< For the names of one object; more become a check too.
    /// The values that are not equal to an array or object are one shape with `excluded`; otherwise
    /// a union of the values that differ from it in some place.
    bool excludes_values = false;
  };

  Shapes(std::shared_ptr<const schema::Schema> schema, std::shared_ptr<regex::ExprSet> exprs,
         Limits limits);
  ~Shapes();

  [[nodiscard]] Terms& terms() { return terms_; }
  [[nodiscard]] std::size_t term_count() const { return terms_.size(); }
  /// The size of the lists of strings that texts can make longer: as they are, as text() returns
  /// them, and in the scanners made from them.
  [[nodiscard]] std::size_t bytes_of_words() const { return bytes_of_words_; }
  [[nodiscard]] const std::shared_ptr<regex::ExprSet>& shared_exprs() const { return exprs_; }

  [[nodiscard]] Constants constants(Term term);
  /// The contents of strings, as valid UTF-8 without NUL: as one language, which lengths and long
  /// lists make large; and for scanners, where `excluded` are only prefixes of other texts.
  [[nodiscard]] regex::Expr strings(Term term);
  [[nodiscard]] const StringShape& text(Term term);
  [[nodiscard]] regex::Expr any_character() const { return any_character_; }
  /// Strings also need a check, because a format is more than its pattern.
  [[nodiscard]] bool strings_need_check(Term term);
  [[nodiscard]] const std::vector<NumberShape>& numbers(Term term);
  [[nodiscard]] const std::vector<ArrayShape>& arrays(Term term);
  [[nodiscard]] const std::vector<ObjectShape>& objects(Term term);

  /// Whether `value` is in the term, a combination of nodes and values.
  [[nodiscard]] bool fits(Term term, const json::Value& value);
  /// The number of values of the term, if there are few and none is an array or object.
  [[nodiscard]] std::optional<std::uint64_t> finite_size(Term term);

  /// Different values of a term. Unless `is_all` there may be more.
  struct Samples {
    std::vector<json::Value> values;
    bool is_all = false;
  };
  /// Up to `most` values; fewer if there are no more, or if it takes too long to find them.
  [[nodiscard]] Samples some_values(Term term, std::size_t most);
  /// Every prefix of a value of the term can become infinitely many values, so excluding values
  /// never leaves none. False: not known.
  [[nodiscard]] bool is_boundless(Term term) { return is_boundless(term, true); }
  /// The same for the values that are not numbers.
  [[nodiscard]] bool is_boundless_but_for_numbers(Term term) { return is_boundless(term, false); }

  /// False: the term has no value. Checks are assumed to hold.
  [[nodiscard]] bool is_satisfiable(Term term);
  [[nodiscard]] bool is_satisfiable(const ArrayShape& shape);
  [[nodiscard]] bool is_satisfiable(const ObjectShape& shape);
  [[nodiscard]] bool is_satisfiable(const StringShape& shape);
  /// The error of a schema that no value fits. It names the place that is the cause, as deep as
  /// there is a single one.
  [[nodiscard]] Error unsatisfiable();
  /// The largest number of items of an array, by the types of the items.
  [[nodiscard]] std::uint64_t most_items(const ArrayShape& shape);
  /// Whether an array of `count` items, `fitting` of which fit each of `contained`, can still come
  /// to an end. Each of `contained` is considered by itself.
  [[nodiscard]] bool can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                             std::span<const std::uint64_t> fitting);
  /// For an array whose items must differ, with `taken` so far: the values that the next item must
  /// not have, because later required items would not find a value each. Nothing: they will not,
  /// whatever the next item is.
  [[nodiscard]] std::optional<std::vector<json::Value>> spoilers(
      const ArrayShape& shape, std::uint64_t count, std::span<const json::Value* const> taken);
  /// The text is not a string of the term, or is a prefix of very many of them.
  [[nodiscard]] bool has_many_longer(Term term, std::string_view text);
  /// True if `text` is in the language.
  [[nodiscard]] bool holds(regex::Expr language, std::string_view text);
  [[nodiscard]] bool holds(const StringShape& shape, std::string_view text);
  [[nodiscard]] bool is_live(regex::Expr language);

  /// The names that the shape declares, each with the term that its value must fit.
  [[nodiscard]] std::vector<std::pair<std::string, Term>> named(const ObjectShape& shape);
  /// All other names, grouped by the patterns that they match: a language of names, and the term of
  /// the values. Only groups with values; see also name_declared_only().
  struct OtherNames {
    regex::Expr names;
    std::vector<std::string> but;  ///< Names of `names` that do not count.
    Term value;
    std::uint32_t some = 0;  ///< Bit i: all these names are among the names of shape.some[i].
  };
  /// If there are too many patterns, one group has all names with any value, and `needs_check` is
  /// set.
  [[nodiscard]] std::vector<OtherNames> others(const ObjectShape& shape, bool& needs_check);
  /// The names without `used`; nothing if no name is left.
  [[nodiscard]] std::optional<OtherNames> without(const OtherNames& names,
                                                  const std::vector<std::string>& used);
  /// All of them, if there are at most `most`.
  [[nodiscard]] std::optional<std::vector<std::string>> few_names(const OtherNames& names,
                                                                  std::size_t most);
  /// The language that every name must fit.
  [[nodiscard]] regex::Expr name_language(const ObjectShape& shape);

  /// From now on a keyword that would be an error is left out. Returns each such keyword with the
  /// reason. It reads the whole schema, so call it first.
  [[nodiscard]] std::vector<Relaxed> relax();

  /// Values that must be integers have no ".0". Call it first.
  void spell_integers() { spells_integers_ = true; }

  /// If an object declares properties, undeclared names do not come, unless it needs one. Call it
  /// first.
  void name_declared_only() { names_declared_only_ = true; }

  /// Fails (see error()) if the schema has a number that is too long to be written.
  void check();

  /// A part of the schema that could not be understood (a pattern, an unknown format), or a limit.
  /// After that, answers are quick and meaningless.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// Calls `call` when the first error occurs.
  void on_error(std::function<void(const Error&)> call) { on_error_ = std::move(call); }

  /// Counts work; false: there is an error. Code that walks over the contents of shapes must call
  /// it.
  bool spend(std::uint64_t steps);
  /// Calls `call` now and then with the steps since the last time; false: stop. It replaces
  /// Limits::max_steps.
  void on_steps(std::function<bool(std::uint64_t)> call) { on_steps_ = std::move(call); }

 private:
  template <class Shape>
  struct Memo;
  template <class Shape>
  Memo<Shape>& memo();

  struct Automaton;
  Automaton& automaton(regex::Expr language);
  const StringShape& string_shape(Term term);
  StringShape compute_string_shape(Term term);
  StringShape narrowed(std::vector<std::string> values, std::span<const StringShape> by);
  StringShape all_of(std::vector<StringShape> shapes);
  StringShape any_of(std::vector<StringShape> shapes);
  StringShape negation(const StringShape& shape);
  StringShape string_rules(schema::NodeId id);
  regex::Expr string_language(Term term) { return language_of(string_shape(term)); }
  bool can_count(const StringShape& shape);
  regex::Expr language_of(regex::Expr language, const schema::Counts& length);
  regex::Expr language_of(const StringShape& shape);
  regex::Expr language_of(std::span<const std::string> words);
  bool goes_on(const StringShape& shape, std::string_view text);
  bool has_many_texts(Automaton& of, std::uint32_t state, std::uint64_t least, std::uint64_t most);
  bool compute_strings_need_check(Term term);
  regex::Expr pattern_language(const std::string& pattern);

  // The alternatives of a term for one type; nothing: too many.
  template <class Shape>
  using Alternatives = std::optional<std::vector<Shape>>;
  template <class Shape>
  const std::vector<Shape>& settled(Term term);
  template <class Shape>
  const Alternatives<Shape>& alternatives(Term term, bool negated);
  template <class Shape>
  Alternatives<Shape> compute(Term term, bool negated);
  template <class Shape>
  Alternatives<Shape> conjunction(const std::vector<std::pair<Term, bool>>& parts);
  template <class Shape>
  Alternatives<Shape> checked(schema::NodeId id, bool negated);

  std::vector<NumberShape> rules_of(schema::NodeId id, bool negated, NumberShape*);
  std::vector<ArrayShape> rules_of(schema::NodeId id, bool negated, ArrayShape*);
  std::vector<ObjectShape> rules_of(schema::NodeId id, bool negated, ObjectShape*);
  std::vector<NumberShape> value_of(const json::Value& value, bool negated, NumberShape*);
  std::vector<ArrayShape> value_of(const json::Value& value, bool negated, ArrayShape*);
  std::vector<ObjectShape> value_of(const json::Value& value, bool negated, ObjectShape*);
  std::optional<NumberShape> meet(const NumberShape& a, const NumberShape& b);
  std::optional<ArrayShape> meet(const ArrayShape& a, const ArrayShape& b);
  std::optional<ObjectShape> meet(const ObjectShape& a, const ObjectShape& b);
  std::optional<NumberShape> settled(NumberShape shape);
  // Adds what the node's unevaluated* keywords require.
  static void add_unevaluated(schema::NodeId, std::vector<NumberShape>&) {}
  void add_unevaluated(schema::NodeId id, std::vector<ArrayShape>& shapes);
  void add_unevaluated(schema::NodeId id, std::vector<ObjectShape>& shapes);
  // Under `not` nothing counts as evaluated.
  static void forget_evaluated(NumberShape&) {}
  static void forget_evaluated(ArrayShape& shape);
  static void forget_evaluated(ObjectShape& shape);
  // The keywords whose numbers are too long to be written, with the errors.
  static std::vector<std::pair<const char*, Error>> too_long(const schema::NumberRules& rules);
  void check_places(const schema::Node& node);
  NumberSet of_values(std::vector<std::string> values);
  // Reduces the alternatives without changing their meaning.
  void unite(std::vector<NumberShape>& shapes);
  static void unite(std::vector<ArrayShape>&) {}
  static void unite(std::vector<ObjectShape>&) {}
  bool is_possible(const NumberShape& shape);
  bool is_possible(const ArrayShape& shape) { return is_satisfiable(shape); }
  bool is_possible(const ObjectShape& shape) { return is_satisfiable(shape); }

  template <class Shape>
  bool is_surely_impossible(const Shape& shape);

  template <class Shape>
  std::vector<Shape> values_of(schema::NodeId id);
  template <class Shape>
  std::vector<Shape> no_values_of(schema::NodeId id, bool has_rules);
  template <class Shape>
  Shape without_values(std::vector<std::pair<Term, bool>>& parts, Shape*);
  ArrayShape superset_of(const std::vector<const json::Value*>& values, ArrayShape*);
  ObjectShape superset_of(const std::vector<const json::Value*>& values, ObjectShape*);
  bool can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
               const ArrayShape::Contained& contained, std::uint64_t fitting);
  bool has_enough_values(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                         std::span<const std::uint64_t> fitting);
  template <class Shape>
  const Samples& values_of_shape(const Shape& shape, std::size_t most);
  std::vector<std::pair<ArrayShape, Samples>>& values_of_shapes(ArrayShape*);
  std::vector<std::pair<ObjectShape, Samples>>& values_of_shapes(ObjectShape*);
  template <class Shape>
  bool has_value_but_excluded(const Shape& shape);
  bool is_boundless(Term term, bool with_numbers);
  bool has_more_names(const ObjectShape& shape, std::size_t than);
  bool has_more_names(const ArrayShape& /*shape*/, std::size_t /*than*/) { return false; }
  struct Sampling;
  bool sample(Sampling& sampling, Term term, std::size_t most, int depth, Samples& into);
  bool sample(Sampling& sampling, const StringShape& shape, std::size_t most, Samples& into);
  bool sample(Sampling& sampling, const ArrayShape& shape, std::size_t most, int depth,
              Samples& into);
  bool sample(Sampling& sampling, const ObjectShape& shape, std::size_t most, int depth,
              Samples& into);
  std::vector<const std::vector<json::Value>*> scarce_items(const ArrayShape& shape,
                                                            std::uint64_t from);
  const Samples& values_of_items(Term term, std::size_t most);
  std::vector<std::string> all_names(const ObjectShape& shape);
  std::optional<std::vector<std::string>> compute_few_names(const OtherNames& names,
                                                            std::size_t most);
  std::vector<OtherNames> apart(const OtherNames& names, const std::vector<std::string>& known,
                                std::span<const ObjectShape::Some> some);
  bool is_complete(const ObjectShape& shape, std::span<const std::pair<std::string, Term>> named);
  std::vector<OtherNames> less(OtherNames names, const std::vector<std::string>& known);
  Term member(const schema::Node& node, std::string_view name);
  bool evaluates(schema::NodeId id, std::string_view name);
  Term definition(Term node);
  bool compute_satisfiable(Term term);
  std::optional<schema::NodeId> blamed_within(const schema::Node& node);
  bool is_valid(schema::NodeId id, const json::Value& value);
  void fail(Error error);
  void fail_by_limit();
  class Level;

  Terms terms_;
  std::shared_ptr<regex::ExprSet> exprs_;
  Limits limits_;
  regex::Expr any_character_;
  regex::Expr any_text_;
  std::map<Term, Constants> constants_;
  std::map<Term, StringShape> string_shapes_;
  std::map<Term, StringShape> texts_;
  std::size_t bytes_of_words_ = 0;
  std::map<Term, bool> strings_need_check_;
  std::map<std::string, regex::Expr, std::less<>> patterns_;
  std::map<regex::Expr, std::unique_ptr<Automaton>> automata_;
  std::unique_ptr<Memo<NumberShape>> number_memo_;
  std::unique_ptr<Memo<ArrayShape>> array_memo_;
  std::unique_ptr<Memo<ObjectShape>> object_memo_;

  // Satisfiability is the least fixpoint: a term that is being asked for counts as unsatisfiable. A
  // negative answer that depends on that is kept only when no term above it is open.
  std::map<Term, bool> satisfiable_;
  std::size_t depth_ = 0;                    // nested questions about terms
  std::map<Term, std::size_t> in_question_;  // -> depth
  static constexpr std::size_t kNothingAssumed = ~std::size_t{0};
  std::size_t lowest_assumed_ = kNothingAssumed;
  std::size_t tests_ = 0;
  std::map<std::pair<Term, std::size_t>, Samples> values_of_items_;
  std::map<std::tuple<regex::Expr, std::vector<std::string>, std::size_t>,
           std::optional<std::vector<std::string>>>
      few_names_;
  // For a few shapes without exclusions.
  std::vector<std::pair<ArrayShape, Samples>> arrays_of_shapes_;
  std::vector<std::pair<ObjectShape, Samples>> objects_of_shapes_;
  Samples unkept_samples_;
  std::map<std::tuple<regex::Expr, std::uint32_t, std::uint64_t, std::uint64_t>, bool> many_texts_;
  std::map<std::pair<Term, bool>, bool> boundless_;  // bool: with numbers
  bool is_sampling_ = false;
  bool has_guessed_ = false;  // a positive answer depends on something that was not checked, so it
                              // is not kept
  bool is_relaxed_ = false;
  bool spells_integers_ = false;
  bool names_declared_only_ = false;
  std::set<std::string, std::less<>> relaxed_patterns_;
  std::optional<Error> error_;
  std::function<void(const Error&)> on_error_;
  std::uint64_t steps_ = 0;  // not yet reported to on_steps
  std::function<bool(std::uint64_t)> on_steps_;
};

}  // namespace tenon::grammar
