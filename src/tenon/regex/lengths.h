#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/regex/dfa.h"

namespace tenon::regex {

/// The possible lengths, in characters, of the texts of an automaton. Its language must be one of
/// valid UTF-8.
///
/// The numbers of characters that lead from a state to acceptance are a regular language over one
/// letter, so they become periodic: a length of a million is as cheap as one of ten. Most questions
/// are answered by the shortest text alone, without that.
class Lengths {
 public:
  static constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

  /// `dfa` must outlive it.
  explicit Lengths(Dfa& dfa) : dfa_(&dfa) {}

  /// Whether a text of `least` to `most` characters leads from `state` to acceptance. The answer is
  /// exact. Within a character, the rest of it does not count. Fails with limit_exceeded if the
  /// automaton is too large.
  [[nodiscard]] Expected<bool> is_live(Dfa::State state, std::uint64_t least, std::uint64_t most);
  /// The fewest characters that lead from `state`, which is live, to acceptance. The answer is
  /// kept.
  [[nodiscard]] Expected<std::uint32_t> shortest(Dfa::State state);
  /// True: texts of any number of characters lead from `state`, which is live, to acceptance; a
  /// short search has found a loop. False: not known.
  [[nodiscard]] bool is_endless(Dfa::State state) { return loop_of(state).has_value(); }

 private:
  // After `before` characters a state is reached to which `period` more of them lead back.
  struct Loop {
    Dfa::State at = Dfa::kFailed;
    std::uint32_t before = 0;
    std::uint32_t period = 0;
  };
  using Sets = std::vector<std::uint64_t>;  // bit i of row k: state i accepts after k characters
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();

  std::optional<Loop> loop_of(Dfa::State state);
  void keep(Dfa::State state, const Loop& loop);
  Status explore();
  [[nodiscard]] bool has(Dfa::State state, std::uint64_t length) const;

  Dfa* dfa_;
  std::vector<std::uint32_t> shortest_;  // by state; kUnknown
  std::vector<Loop> loops_;  // by state; with period 0: not known, or no loop (at == state)
  bool is_explored_ = false;
  std::size_t words_ = 0;      // of one row
  std::vector<Sets> rows_;     // by length, until they repeat
  std::uint64_t repeats_ = 0;  // the row that follows the last one
};

}  // namespace tenon::regex
