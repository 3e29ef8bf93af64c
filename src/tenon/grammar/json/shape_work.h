#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/term.h"
#include "tenon/json/value.h"
#include "tenon/regex/expr.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

/// What all parts of Shapes share: the terms, the languages, the limits, the steps counted against
/// them, and the first error. After an error every answer is quick and meaningless.
class ShapeWork {
 public:
  struct Limits {
    std::size_t max_alternatives = 64;  ///< In a product of unions; more become a check.
    std::size_t max_tidied = 128;       ///< The same once they have been tidied up.
    std::size_t max_union = 1000;       ///< In a union alone; more become a check.
    /// How often two shapes are compared, for one term and in all; beyond that they become a check.
    /// A comparison counts once more for each steps_per_test that it takes.
    std::size_t max_tests = 300;
    std::size_t max_all_tests = 5000;
    std::uint64_t steps_per_test = 600;
    /// The cost of all questions together, at some 50 ns each; more is an error.
    std::uint64_t max_steps = 6'000'000;
    std::size_t max_counted = 3;  ///< The number of `contained` or `some` of one shape; more become
                                  ///< a check.
    std::size_t max_patterns = 5;  ///< For the names of one object; more become a check too.
    /// The values that are not equal to an array or object are one shape with `excluded`; otherwise
    /// a union of the values that differ from it in some place.
    bool excludes_values = false;
  };

  /// `exprs`: the limits of the expressions that are made on the way.
  ShapeWork(std::shared_ptr<const schema::Schema> schema, const tenon::Limits& exprs,
            const Limits& limits);

  [[nodiscard]] Terms& terms() { return terms_; }
  [[nodiscard]] const Terms& terms() const { return terms_; }
  [[nodiscard]] const schema::Node& node(schema::NodeId id) const {
    return terms_.schema().node(id);
  }
  [[nodiscard]] regex::ExprSet& exprs() { return *exprs_; }
  [[nodiscard]] const std::shared_ptr<regex::ExprSet>& shared_exprs() const { return exprs_; }
  /// The languages of one character of a string, and of all strings: valid UTF-8 without NUL.
  [[nodiscard]] regex::Expr any_character() const { return any_character_; }
  [[nodiscard]] regex::Expr any_text() const { return any_text_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

  /// The meaning of a term that is a node.
  Term definition(Term node);
  /// Whether `value` is in the term, a combination of nodes and values.
  [[nodiscard]] bool fits(Term term, const json::Value& value);
  /// Whether `value` fits the node, with all its references and rules.
  bool is_valid(schema::NodeId id, const json::Value& value);

  /// Counts work; false: there is an error. Code that walks over the contents of shapes must call
  /// it.
  bool spend(std::uint64_t steps);
  /// All steps so far.
  [[nodiscard]] std::uint64_t spent() const { return spent_; }
  /// Counts a comparison of two shapes that took so many steps, and returns what it counts as; see
  /// Limits::max_all_tests.
  std::size_t count_test(std::uint64_t steps) {
    const auto count = static_cast<std::size_t>(1 + steps / limits_.steps_per_test);
    tests_ += count;
    return count;
  }
  [[nodiscard]] bool may_test() const { return tests_ <= limits_.max_all_tests && !error_; }
  /// Calls `call` now and then with the steps since the last time; false: stop. It replaces
  /// Limits::max_steps.
  void on_steps(std::function<bool(std::uint64_t)> call) { on_steps_ = std::move(call); }

  /// A part of the schema that could not be understood (a pattern, an unknown format), or a limit.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// Calls `call` when the first error occurs.
  void on_error(std::function<void(const Error&)> call) { on_error_ = std::move(call); }
  void fail(Error error);
  /// Fails if the languages have reached their limit.
  void fail_by_limit();
  /// The error, which is forgotten: what caused it is left out of the grammar.
  std::optional<Error> take_error() { return std::exchange(error_, std::nullopt); }

  /// One question about a term that is asked while another one is being answered. Schemas may refer
  /// to each other in chains of any length, but the stack is limited, so more than kMost nested
  /// questions are an error.
  class Level {
   public:
    // A level takes up to 4 KB of stack, 10 KB with sanitizers.
    static constexpr std::size_t kMost = 600;

    explicit Level(ShapeWork& work);
    ~Level() { --work_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    /// False: there are too many.
    explicit operator bool() const { return work_.depth_ <= kMost; }

   private:
    ShapeWork& work_;
  };

 private:
  Terms terms_;
  std::shared_ptr<regex::ExprSet> exprs_;
  Limits limits_;
  regex::Expr any_character_;
  regex::Expr any_text_;
  std::size_t depth_ = 0;  // nested questions about terms
  std::size_t tests_ = 0;
  std::uint64_t spent_ = 0;
  std::optional<Error> error_;
  std::function<void(const Error&)> on_error_;
  std::uint64_t steps_ = 0;  // not yet reported to on_steps
  std::function<bool(std::uint64_t)> on_steps_;
};

/// What an answer rests on while other questions are still open.
///
/// Satisfiability is the least fixpoint: a term that is being asked for counts as unsatisfiable. A
/// negative answer that depends on that is kept only when no term above it is open.
class Assumptions {
 public:
  static constexpr std::size_t kNothing = ~std::size_t{0};

  /// Remembers what is assumed while it lives, and passes it on to what stands around it.
  class Watch {
   public:
    explicit Watch(Assumptions& of) : of_(of), before_(std::exchange(of.lowest_, kNothing)) {}
    ~Watch() { of_.lowest_ = of_.lowest_ < before_ ? of_.lowest_ : before_; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    /// Something was assumed.
    [[nodiscard]] bool has_some() const { return of_.lowest_ != kNothing; }
    /// It was about a question at a lower depth than `depth`.
    [[nodiscard]] bool is_below(std::size_t depth) const { return of_.lowest_ < depth; }
    /// What was assumed is settled.
    void forget() { of_.lowest_ = kNothing; }

   private:
    Assumptions& of_;
    std::size_t before_;
  };

  /// The question at this depth counts as answered with no.
  void assume(std::size_t depth) { lowest_ = depth < lowest_ ? depth : lowest_; }

  /// A positive answer depends on something that was not checked, so it is not kept.
  bool has_guessed = false;

 private:
  std::size_t lowest_ = kNothing;  // depth of the outermost question that was assumed
};

}  // namespace tenon::grammar
