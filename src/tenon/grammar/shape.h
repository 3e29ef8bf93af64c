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
#include "tenon/grammar/number_scanner.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/grammar/term.h"
#include "tenon/regex/expr.h"
#include "tenon/schema/schema.h"

/// What a term means for each type of value: docs/masks.md, "Types are taken apart first".
namespace tenon::grammar {

/// Each shape may be a superset of what it stands for: `needs_check` says that a whole value must
/// be held against its term (Shapes::fits).

/// Strings: what is in the language, has so many characters and is not excluded; or, if `values`
/// are given, one of these and nothing else.
struct StringShape {
  regex::Expr language = regex::ExprSet::kAnything;  ///< Of bytes; only valid UTF-8 counts.
  schema::Counts length;
  std::vector<std::string> excluded;               ///< In order, without doubles.
  std::optional<std::vector<std::string>> values;  ///< The same.
  bool is_text = false;                            ///< The language has no other texts.
  /// It has texts that the term does not have: a rule is left out, or a format is more than its
  /// pattern. So nothing follows for the negation.
  bool is_superset = false;
};

/// Arrays: a conjunction.
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
  std::vector<const json::Value*> excluded;  ///< Arrays that it is not equal to.
  bool unique = false;
  bool needs_check = false;
  // What has been looked at, for an unevaluatedItems around it: the first so many items, those that
  // fit one of the terms, and perhaps others.
  std::uint64_t evaluated = 0;
  std::vector<Term> evaluating;
  bool evaluates_more = false;

  bool operator==(const ArrayShape&) const = default;
};

/// Objects: a conjunction.
struct ObjectShape {
  /// Some property has a name of the language and a value that fits the term.
  struct Some {
    regex::Expr names;
    Term value;
    bool operator==(const Some&) const = default;
  };

  /// The value of each name that no rules of the nodes `by` concern fits the term.
  struct Unevaluated {
    Term value;
    std::vector<schema::NodeId> by;
    auto operator<=>(const Unevaluated&) const = default;
  };

  std::vector<schema::NodeId> rules;               ///< Nodes whose rules for properties all apply.
  std::vector<Unevaluated> unevaluated;            ///< All of these apply.
  std::map<std::string, Term, std::less<>> extra;  ///< And these, where the property is there.
  std::vector<std::string> required;               ///< In order, without doubles.
  std::vector<Term> names;                         ///< Every name, as a string, fits all of these.
  std::vector<Some> some;                          ///< All of these hold.
  std::vector<const json::Value*> excluded;        ///< Objects that it is not equal to.
  schema::Counts count;
  bool needs_check = false;
  // What has been looked at, for an unevaluatedProperties around it: the names that these nodes
  // concern, and perhaps others.
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

/// Takes terms apart. Everything is computed when first asked for and kept. Not thread-safe.
class Shapes {
 public:
  struct Limits {
    std::size_t max_alternatives = 64;  ///< That a product of unions has; more become a check.
    std::size_t max_union = 1000;       ///< The same of a union alone.
    /// How often two shapes are held against each other, for one term and in all; what takes more
    /// becomes a check.
    std::size_t max_tests = 300;
    std::size_t max_all_tests = 5000;
    /// What all questions together may cost, at some 50 ns each; more is an error.
    std::uint64_t max_steps = 6'000'000;
    std::size_t max_counted = 3;   ///< `contained` or `some` of one shape; more become a check.
    std::size_t max_patterns = 5;  ///< Of the names of one object; more become a check too.
    /// What is not equal to an array or object is one shape, with `excluded`; else a union of those
    /// that differ from it somewhere.
    bool excludes_values = false;
  };

  Shapes(std::shared_ptr<const schema::Schema> schema, std::shared_ptr<regex::ExprSet> exprs,
         Limits limits);
  ~Shapes();

  [[nodiscard]] Terms& terms() { return terms_; }
  [[nodiscard]] std::size_t term_count() const { return terms_.size(); }
  /// Of the lists of strings that texts may make new ones of: as they are, as text() has them, and
  /// in the scanner made of that.
  [[nodiscard]] std::size_t bytes_of_words() const { return bytes_of_words_; }
  [[nodiscard]] const std::shared_ptr<regex::ExprSet>& shared_exprs() const { return exprs_; }

  [[nodiscard]] Constants constants(Term term);
  /// The content of strings, valid UTF-8 without NUL: as one language, which lengths and long lists
  /// make large, and for scanners, where `excluded` are only beginnings of other texts.
  [[nodiscard]] regex::Expr strings(Term term);
  [[nodiscard]] const StringShape& text(Term term);
  [[nodiscard]] regex::Expr any_character() const { return any_character_; }
  /// Strings need a check too: there is a format that no pattern covers.
  [[nodiscard]] bool strings_need_check(Term term);
  [[nodiscard]] const std::vector<NumberShape>& numbers(Term term);
  [[nodiscard]] const std::vector<ArrayShape>& arrays(Term term);
  [[nodiscard]] const std::vector<ObjectShape>& objects(Term term);

  /// Whether `value` is in the term, a combination of nodes and values.
  [[nodiscard]] bool fits(Term term, const json::Value& value);
  /// How many values are in the term, where they are few and none is an array or object.
  [[nodiscard]] std::optional<std::uint64_t> finite_size(Term term);

  /// Values of a term, all of them different. Unless `is_all` there may be others.
  struct Samples {
    std::vector<json::Value> values;
    bool is_all = false;
  };
  /// Up to `most` of them; fewer if there are no more, or if it takes too long to find them.
  [[nodiscard]] Samples some_values(Term term, std::size_t most);
  /// Whatever has been read of a value of the term can go on to values without end, so that no
  /// number of values that it must differ from leaves nothing. False: not known.
  [[nodiscard]] bool is_boundless(Term term) { return is_boundless(term, true); }
  /// The same of the values that are no numbers.
  [[nodiscard]] bool is_boundless_but_for_numbers(Term term) { return is_boundless(term, false); }

  /// False: no value is in the term. Checks are taken to hold.
  [[nodiscard]] bool is_satisfiable(Term term);
  [[nodiscard]] bool is_satisfiable(const ArrayShape& shape);
  [[nodiscard]] bool is_satisfiable(const ObjectShape& shape);
  [[nodiscard]] bool is_satisfiable(const StringShape& shape);
  /// The error of a schema that no value fits: with the place that is to blame, as far down as
  /// there is one alone.
  [[nodiscard]] Error unsatisfiable();
  /// How many items an array can have, by the types of the items.
  [[nodiscard]] std::uint64_t most_items(const ArrayShape& shape);
  /// Whether an array of `count` items, `fitting` of which fit each of `contained`, can go on to
  /// its end, each of `contained` looked at by itself.
  [[nodiscard]] bool can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                             std::span<const std::uint64_t> fitting);
  /// Of an array of items that differ, `taken` so far: values that the next one must not have
  /// because those that have to come after it would not find one each. Nothing: they will not,
  /// whatever the next one is.
  [[nodiscard]] std::optional<std::vector<json::Value>> spoilers(
      const ArrayShape& shape, std::uint64_t count, std::span<const json::Value* const> taken);
  /// The text is no string of the term, or begins very many of them.
  [[nodiscard]] bool has_many_longer(Term term, std::string_view text);
  /// True if `text` is in the language.
  [[nodiscard]] bool holds(regex::Expr language, std::string_view text);
  [[nodiscard]] bool holds(const StringShape& shape, std::string_view text);
  [[nodiscard]] bool is_live(regex::Expr language);

  /// The names that the shape knows, and what each one's value must fit.
  [[nodiscard]] std::vector<std::pair<std::string, Term>> named(const ObjectShape& shape);
  /// All other names, by the patterns they match: a language of names, and what the values must
  /// fit. Only what is satisfiable, and see name_declared_only().
  struct OtherNames {
    regex::Expr names;
    std::vector<std::string> but;  ///< Names that are in `names` and do not count.
    Term value;
    std::uint32_t some = 0;  ///< Bit i: all of them are in the names of shape.some[i].
  };
  /// With too many patterns it is all names with any value, and `needs_check` is set.
  [[nodiscard]] std::vector<OtherNames> others(const ObjectShape& shape, bool& needs_check);
  /// Such names without `used`; nothing: none is left.
  [[nodiscard]] std::optional<OtherNames> without(const OtherNames& names,
                                                  const std::vector<std::string>& used);
  /// All of them, if they are `most` or fewer.
  [[nodiscard]] std::optional<std::vector<std::string>> few_names(const OtherNames& names,
                                                                  std::size_t most);
  /// What every name must fit: a language.
  [[nodiscard]] regex::Expr name_language(const ObjectShape& shape);

  /// From now on, what would be an error of one keyword is left out. Returns each such keyword
  /// and why. Looks at all of the schema, so call it before anything else.
  [[nodiscard]] std::vector<Relaxed> relax();

  /// Where only integers fit they have no ".0". Call it before anything else.
  void spell_integers() { spells_integers_ = true; }

  /// Where an object declares properties, names of which the schema says nothing do not come,
  /// unless it needs one. Call it before anything else.
  void name_declared_only() { names_declared_only_ = true; }

  /// Fails, see error(), where some place of the schema has a number that is too long to be
  /// written.
  void check();

  /// What could not be understood (a pattern, an open format), or a limit. Answers from then on are
  /// quick and say nothing.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// Called with the first error, when it comes up.
  void on_error(std::function<void(const Error&)> call) { on_error_ = std::move(call); }

  /// Counts work; false: there is an error. Whoever walks over what the shapes hold says so here.
  bool spend(std::uint64_t steps);
  /// Called with the steps since the last time, now and then; false: it has been enough. Counts
  /// them instead of Limits::max_steps.
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

  // Alternatives of a term for one type; nothing: too many of them.
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
  // What the node says of what is evaluated within it.
  static void add_unevaluated(schema::NodeId, std::vector<NumberShape>&) {}
  void add_unevaluated(schema::NodeId id, std::vector<ArrayShape>& shapes);
  void add_unevaluated(schema::NodeId id, std::vector<ObjectShape>& shapes);
  // What `not` holds against a value evaluates nothing.
  static void forget_evaluated(NumberShape&) {}
  static void forget_evaluated(ArrayShape& shape);
  static void forget_evaluated(ObjectShape& shape);
  // The keywords whose numbers are too long to be written, and why.
  static std::vector<std::pair<const char*, Error>> too_long(const schema::NumberRules& rules);
  void check_places(const schema::Node& node);
  NumberSet of_values(std::vector<std::string> values);
  // Fewer alternatives that mean the same.
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

  // Satisfiability is the least fixpoint: a term under question counts as unsatisfiable. A `no`
  // that rests on that is kept only once nothing above it is under question.
  std::map<Term, bool> satisfiable_;
  std::size_t depth_ = 0;  // questions about terms, each asked while another one is answered
  std::map<Term, std::size_t> in_question_;  // -> depth
  static constexpr std::size_t kNothingAssumed = ~std::size_t{0};
  std::size_t lowest_assumed_ = kNothingAssumed;
  std::size_t tests_ = 0;
  std::map<std::pair<Term, std::size_t>, Samples> values_of_items_;
  std::map<std::tuple<regex::Expr, std::vector<std::string>, std::size_t>,
           std::optional<std::vector<std::string>>>
      few_names_;
  // For a few shapes that exclude nothing.
  std::vector<std::pair<ArrayShape, Samples>> arrays_of_shapes_;
  std::vector<std::pair<ObjectShape, Samples>> objects_of_shapes_;
  Samples unkept_samples_;
  std::map<std::tuple<regex::Expr, std::uint32_t, std::uint64_t, std::uint64_t>, bool> many_texts_;
  std::map<std::pair<Term, bool>, bool> boundless_;  // bool: with numbers
  bool is_sampling_ = false;
  bool has_guessed_ = false;  // a yes rests on what was not looked at: it is not kept
  bool is_relaxed_ = false;
  bool spells_integers_ = false;
  bool names_declared_only_ = false;
  std::set<std::string, std::less<>> relaxed_patterns_;
  std::optional<Error> error_;
  std::function<void(const Error&)> on_error_;
  std::uint64_t steps_ = 0;  // that nobody has been told of
  std::function<bool(std::uint64_t)> on_steps_;
};

}  // namespace tenon::grammar
