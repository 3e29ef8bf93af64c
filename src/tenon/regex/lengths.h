#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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

 private:
  using Sets = std::vector<std::uint64_t>;  // bit i of row k: state i accepts after k characters
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();

  Status explore();
  [[nodiscard]] bool has(Dfa::State state, std::uint64_t length) const;

  Dfa* dfa_;
  std::vector<std::uint32_t> shortest_;  // by state; kUnknown
  bool is_explored_ = false;
  std::size_t words_ = 0;      // of one row
  std::vector<Sets> rows_;     // by length, until they repeat
  std::uint64_t repeats_ = 0;  // the row that follows the last one
};

}  // namespace tenon::regex
