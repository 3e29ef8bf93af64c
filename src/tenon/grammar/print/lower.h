#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

struct LowerOptions {
  /// True: regular parts that need an automaton become lexemes, each with a tree. False: they
  /// become rules.
  bool with_lexemes = false;
  std::uint32_t max_repeat = 100'000;  ///< Repetitions beyond this number are not counted.
  /// The largest count that is written as one repetition, for engines that unroll repetitions.
  /// Larger ones are written as repetitions of repetitions.
  std::uint32_t max_block = 1'000;
  std::size_t max_states = 600;        ///< In one automaton.
  std::size_t max_tree_nodes = 8'000;  ///< In one lexeme.
  std::size_t max_nodes = 400'000;     ///< In the whole grammar; each needs about 10 bytes of text.
  /// The allowance for steps: those of expressions, and those of finding which values fit, at some
  /// 50 ns each. Null: the grammar has kLowerSteps of its own.
  Allowance* shared = nullptr;
};
inline constexpr std::uint64_t kLowerSteps = 16'000'000;

struct Lowered {
  Rules rules;
  std::vector<Relaxed> relaxed;  ///< Empty: the texts are exactly the same.
};

/// The grammar, written with nodes that every language has: literals, characters, sequences,
/// choices, repetitions, rules and tokens. With `with_lexemes` also lexemes made of these; only a
/// lexeme contains the nodes of its tree.
///
/// A JSON value becomes the tightest context-free grammar: properties in the schema's order, others
/// after them; numbers and strings exactly, as automata. `relaxed` lists what the schema requires
/// beyond that: members that must differ, checks that look back, and parts that would make the
/// grammar larger than the options allow.
///
/// Fails with `unsatisfiable` if no value fits a schema, with `unsupported`, naming it, for parts
/// that these nodes cannot express (bytes that are not UTF-8, a pattern that `regex` refuses), and
/// with `limit_exceeded`.
[[nodiscard]] Expected<Lowered> lower(const Rules& rules, const LowerOptions& options);

/// `min` to `max` texts of `part`, as far as they are counted.
[[nodiscard]] NodeId add_repeat(Rules& rules, NodeId part, std::uint64_t min, std::uint64_t max,
                                const LowerOptions& options);

/// A grammar that is one JSON value.
[[nodiscard]] Rules rules_of(std::shared_ptr<const schema::Schema> schema,
                             const JsonOptions& options);

}  // namespace tenon::grammar
