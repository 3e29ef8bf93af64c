#include "tenon/vocab/pre_tokenizer.h"

#include <algorithm>
#include <utility>

// The text and its pieces are kept apart: a split step only changes where the pieces end, and a
// step that changes the text (space, swap) writes the whole text anew with all pieces.
namespace tenon::vocab {
namespace {

using Behavior = PreTokenizer::Behavior;
using Piece = PreTokenizer::Piece;
using Pieces = PreTokenizer::Pieces;
using Step = PreTokenizer::Step;

// A part of a piece: a match, or the text between two matches.
struct Part {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

// The matches and what lies between them, in order and without gaps. `invert` swaps the two kinds.
Status find_parts(const Step& step, std::string_view text, std::vector<Part>& parts) {
  std::vector<Piece> matches;
  if (step.pattern) {
    if (Status found = step.pattern->find_all(text, matches); !found) return found;
  } else {
    for (std::size_t at = text.find(step.text); at != std::string_view::npos;
         at = text.find(step.text, at + step.text.size())) {
      matches.push_back({at, at + step.text.size()});
    }
  }
  std::size_t at = 0;
  for (const Piece& match : matches) {
    if (match.begin > at) parts.push_back({at, match.begin, step.invert});
    parts.push_back({match.begin, match.end, !step.invert});
    at = match.end;
  }
  if (at < text.size()) parts.push_back({at, text.size(), step.invert});
  return {};
}

// Joins neighbours for which `joins(before, here)` is true, from the first part to the last.
template <typename Joins>
void join(std::vector<Part>& parts, const Joins& joins) {
  std::size_t kept = 0;
  bool before_is_match = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    if (kept > 0 && joins(before_is_match, part.is_match)) {
      parts[kept - 1].begin = std::min(parts[kept - 1].begin, part.begin);
      parts[kept - 1].end = std::max(parts[kept - 1].end, part.end);
    } else {
      parts[kept++] = part;
    }
    before_is_match = part.is_match;
  }
  parts.resize(kept);
}

// The behaviours of the `tokenizers` package, for the pattern "-" and the text "a-b":
// removed: a, b            isolated: a, -, b
// merged_with_previous: a-, b    merged_with_next: a, -b
// contiguous: as isolated, but "--" is one part
void arrange(Behavior behavior, std::vector<Part>& parts) {
  const auto is_new_match = [](bool before, bool here) { return here && !before; };
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      return;
    case Behavior::isolated:
      return;
    case Behavior::merged_with_previous:
      return join(parts, is_new_match);
    case Behavior::merged_with_next:
      // Seen from the right, it is the same as merging with the previous one.
      std::reverse(parts.begin(), parts.end());
      join(parts, is_new_match);
      std::reverse(parts.begin(), parts.end());
      return;
    case Behavior::contiguous:
      return join(parts, [](bool before, bool here) { return before == here; });
  }
}

// Cuts each piece. Places in `parts` count from the beginning of the piece.
Status split(const Step& step, Pieces& pieces) {
  std::vector<Piece> result;
  std::vector<Part> parts;
  for (const Piece& piece : pieces.pieces) {
    parts.clear();
    const std::string_view text(pieces.text);
    if (Status found = find_parts(step, text.substr(piece.begin, piece.end - piece.begin), parts);
        !found) {
      return found;
    }
    arrange(step.behavior, parts);
    for (const Part& part : parts) {
      result.push_back({piece.begin + part.begin, piece.begin + part.end});
    }
  }
  pieces.pieces = std::move(result);
  return {};
}

// Rewrites the pieces, each by `write(piece, is_first, out)`.
template <typename Write>
void rewrite(Pieces& pieces, const Write& write) {
  Pieces result;
  result.text.reserve(pieces.text.size() + 16);
  for (const Piece& piece : pieces.pieces) {
    const std::size_t begin = result.text.size();
    const std::string_view text(pieces.text);
    write(text.substr(piece.begin, piece.end - piece.begin), piece.begin == 0, result.text);
    result.pieces.push_back({begin, result.text.size()});
  }
  pieces = std::move(result);
}

// A piece gets the prefix if it begins the whole text, or, with Prefix::always, in any other place.
// It is not put before a text that continues another one, or twice.
void put_before(const Step& step, Place place, Pieces& pieces) {
  rewrite(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool is_wanted = is_first && place != Place::after_token
                               ? place == Place::start
                               : step.prefix == Step::Prefix::always;
    if (is_wanted && !piece.starts_with(step.text)) out += step.text;
    out += piece;
  });
}

void swap_spaces(const Step& step, Pieces& pieces) {
  rewrite(pieces, [&](std::string_view piece, bool /*is_first*/, std::string& out) {
    for (std::size_t at = piece.find(' '); at != std::string_view::npos; at = piece.find(' ')) {
      out.append(piece.substr(0, at)).append(step.text);
      piece.remove_prefix(at + 1);
    }
    out += piece;
  });
}

}  // namespace

Expected<Pieces> PreTokenizer::cut(std::string text, Place place) const {
  Pieces pieces{std::move(text), {}};
  if (!pieces.text.empty()) pieces.pieces.push_back({0, pieces.text.size()});
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::split:
        if (Status done = split(step, pieces); !done) return Unexpected(done.error());
        break;
      case Step::Kind::space:
        put_before(step, place, pieces);
        break;
      case Step::Kind::swap:
        swap_spaces(step, pieces);
        break;
    }
  }
  return pieces;
}

}  // namespace tenon::vocab
