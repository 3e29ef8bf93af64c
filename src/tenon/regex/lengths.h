#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/regex/dfa.h"

namespace tenon::regex {

/// How many characters the texts of an automaton have. Its language is one of valid UTF-8.
///
/// Which numbers of characters lead from a state to acceptance is a regular language over one
/// letter, so it repeats itself from some number on: that makes a length of a million as cheap as
/// one of ten. Most questions are answered by the shortest text alone, without that.
class Lengths {
 public:
  static constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

  /// `dfa` outlives it.
  explicit Lengths(Dfa& dfa) : dfa_(&dfa) {}

  /// Whether a text of `least` to `most` characters leads from `state` to acceptance, exactly.
  /// Within a character, the rest of it counts for nothing. Fails with limit_exceeded where the
  /// automaton is too large.
  [[nodiscard]] Expected<bool> is_live(Dfa::State state, std::uint64_t least, std::uint64_t most);

 private:
  using Sets = std::vector<std::uint64_t>;  // bit i of row k: state i accepts after k characters
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();

  Expected<std::uint32_t> shortest(Dfa::State state);
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
