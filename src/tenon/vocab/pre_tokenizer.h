#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/regex/splitter.h"
#include "tenon/vocab/normalizer.h"

namespace tenon::vocab {

/// Cuts a text into the pieces that a model encodes one by one: a list of steps, each of which cuts
/// the pieces of the step before it. Immutable, hence thread-safe.
class PreTokenizer {
 public:
  /// What happens to a match and to the text between matches.
  enum class Behavior : std::uint8_t {
    removed,
    isolated,
    merged_with_previous,
    merged_with_next,
    contiguous,
  };

  struct Step {
    enum class Kind : std::uint8_t {
      split,  ///< Cuts at the matches of `pattern`, or of `text` if there is no pattern.
      space,  ///< Puts `text` before a piece that does not begin with it (as `prefix` says).
      swap,   ///< Each space becomes `text`.
    };
    enum class Prefix : std::uint8_t { first, always };

    Kind kind = Kind::split;
    std::string text = {};
    std::shared_ptr<const regex::Splitter> pattern = nullptr;
    Behavior behavior = Behavior::isolated;
    bool invert = false;  ///< The text between the matches counts as match, and the matches do not.
    Prefix prefix = Prefix::always;
  };

  using Piece = regex::Splitter::Piece;
  /// Pieces are not empty. They are ranges of `text`, in order.
  struct Pieces {
    std::string text;
    std::vector<Piece> pieces;
  };

  explicit PreTokenizer(std::vector<Step> steps = {}) : steps_(std::move(steps)) {}

  [[nodiscard]] Expected<Pieces> cut(std::string text, Place place) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace tenon::vocab
