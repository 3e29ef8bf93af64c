#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/grammar/rules.h"

namespace tenon::grammar {

struct LowerOptions {
  /// True: regular parts that need an automaton become lexemes, which hold a tree. False: they
  /// become rules.
  bool with_lexemes = false;
  std::uint32_t max_repeat = 100'000;  ///< What is repeated more often is not counted.
  /// The largest count that is written as one repetition, for engines that unroll them; larger ones
  /// are written as repetitions of repetitions.
  std::uint32_t max_block = 1'000;
  std::size_t max_states = 600;        ///< Of one automaton.
  std::size_t max_tree_nodes = 8'000;  ///< Of one lexeme.
  std::size_t max_nodes = 400'000;     ///< Of the whole; about 10 bytes of text each.
  /// What steps count against: those of expressions, and what it takes to find out which values
  /// fit, at some 50 ns each. Null: the grammar has kLowerSteps of its own.
  Allowance* shared = nullptr;
};
inline constexpr std::uint64_t kLowerSteps = 16'000'000;

struct Lowered {
  Rules rules;
  std::vector<Relaxed> relaxed;  ///< Empty: the texts are the same.
};

/// The grammar in nodes that every dialect has: literals, characters, sequences, choices,
/// repetitions, rules and tokens; with `with_lexemes` lexemes of these too, which nothing but a
/// lexeme has as a part.
///
/// A JSON value becomes the tightest grammar that is context-free: properties in the schema's
/// order, others after them; numbers and strings exactly, as automata. What a schema says beyond
/// that is in `relaxed`: members that must differ, checks that look back, and what would make the
/// grammar larger than the options allow.
///
/// Fails with `unsatisfiable` where no value fits a schema, with `unsupported` naming what nothing
/// plain stands for (bytes that are no UTF-8, a pattern that `regex` refuses), and with
/// `limit_exceeded`.
[[nodiscard]] Expected<Lowered> lower(const Rules& rules, const LowerOptions& options);

/// `min` to `max` texts of `part`, as far as they are counted.
[[nodiscard]] NodeId add_repeat(Rules& rules, NodeId part, std::uint64_t min, std::uint64_t max,
                                const LowerOptions& options);

/// A grammar that is one JSON value.
[[nodiscard]] Rules rules_of(std::shared_ptr<const schema::Schema> schema,
                             const JsonOptions& options);

}  // namespace tenon::grammar
