#include "tenon/vocab/normalizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenon/base/utf8.h"

// Steps are applied to the whole text, one after the other. Each may make the text longer, and
// files come from outside, so the text may grow to kMostGrowth times its size, not more. Charsmap
// is the table of SentencePiece: a double array that maps byte strings to replacements, which is
// walked over byte by byte.
namespace tenon::vocab {
namespace {

constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kSlack = 4096;                  // beyond the growth, for short texts
constexpr std::size_t kMost = std::size_t{1} << 30U;  // ICU counts in 31 bits

// Without Unicode's white space at the ends.
std::string stripped(std::string_view text, bool left, bool right) {
  const auto space_at_start = [](std::string_view rest) -> std::size_t {
    const utf8::Decoded character = utf8::decode(rest);
    return is_space(character.code_point) ? character.length : 0;
  };
  while (left && !text.empty()) {
    const std::size_t space = space_at_start(text);
    if (space == 0) break;
    text.remove_prefix(space);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    // Goes back to the first byte of the last character.
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
    if (space_at_start(text.substr(begin)) == 0) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

Error grows_too_much() {
  return Error{Errc::limit_exceeded, "the tokenizer's normalizer makes the text more than " +
                                         std::to_string(kMostGrowth) + " times as long"};
}

// `most` is checked after each replacement, before the text has grown far beyond it.
Expected<std::string> replaced(const Normalizer::Step& step, std::string_view text,
                               std::size_t most) {
  std::vector<regex::Splitter::Piece> found;
  if (step.pattern) {
    if (Status all = step.pattern->find_all(text, found); !all) return Unexpected(all.error());
  } else {
    for (std::size_t at = text.find(step.text); at != std::string_view::npos;
         at = text.find(step.text, at + step.text.size())) {
      found.push_back({at, at + step.text.size()});
    }
  }
  std::string result;
  std::size_t at = 0;  // behind the last match
  for (const regex::Splitter::Piece& piece : found) {
    result += text.substr(at, piece.begin - at);
    result += step.with;
    if (result.size() > most) return Unexpected(grows_too_much());
    at = piece.end;
  }
  return result.append(text.substr(at));
}

}  // namespace

Expected<Charsmap> Charsmap::parse(std::string_view bytes, Unit unit) {
  std::uint32_t size = 0;
  // A length of 4 bytes, the double array, and the replacements up to the end.
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - std::min(bytes.size(), sizeof size)) {
    return Unexpected(Error{Errc::invalid, "the table of characters does not fit its own length"});
  }
  Charsmap map;
  map.nodes_.resize(size / 4);
  std::memcpy(map.nodes_.data(), bytes.data() + sizeof size, size);
  map.replacements_ = bytes.substr(sizeof size + size);
  map.unit_ = unit;
  return map;
}

// A damaged table may name a node out of range; such a node has no children and no value.
std::uint32_t Charsmap::node(std::size_t index) const {
  return index < nodes_.size() ? nodes_[index] : 0;
}

// Darts-clone: a unit has its label in bits 0-7 (bit 31 marks a value), in bit 8 whether it has a
// value below it, and in bits 10-30 the offset of its children, in steps of 256 if bit 9 is set.
// https://github.com/s-yata/darts-clone/blob/master/include/darts.h
Charsmap::Match Charsmap::match(std::string_view text) const {
  const auto offset = [](std::uint32_t unit) -> std::size_t {
    return static_cast<std::size_t>(unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  };
  Match best;
  std::size_t at = offset(node(0));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;  // the label of a value, not of a character
    at ^= byte;
    const std::uint32_t unit = node(at);
    // The label must be this byte, and the unit no value.
    if ((unit & ((1U << 31U) | 0xFFU)) != byte) break;
    at ^= offset(unit);
    if ((unit >> 8U & 1U) == 0) continue;  // no entry ends here
    const std::size_t value = node(at) & ((1U << 31U) - 1);
    if (value >= replacements_.size()) break;
    const std::string_view rest = std::string_view(replacements_).substr(value);
    best = {i + 1, rest.substr(0, rest.find('\0'))};
    if (unit_ == Unit::cluster) break;
  }
  return best;
}

std::string Charsmap::apply(std::string_view text) const {
  return unit_ == Unit::longest ? apply_longest(text) : apply_clusters(text);
}

std::string Charsmap::apply_longest(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    // Nothing matches: the character stays.
    const Match found = match(text);
    const std::size_t length =
        found.length > 0 ? found.length : std::max<std::size_t>(1, utf8::decode(text).length);
    result += found.length > 0 ? found.replacement : text.substr(0, length);
    text.remove_prefix(length);
  }
  return result;
}

std::string Charsmap::apply_clusters(std::string_view text) const {
  // The package looks up a whole cluster only if it has fewer bytes than this.
  constexpr std::size_t kLongCluster = 6;
  std::string result;
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() < kLongCluster) {
      if (const Match found = match(cluster); found.length > 0) {
        result += found.replacement;
        continue;
      }
    }
    // Else each character by itself.
    while (!cluster.empty()) {
      const std::size_t length = std::max<std::size_t>(1, utf8::decode(cluster).length);
      const Match found = match(cluster.substr(0, length));
      result += found.length > 0 ? found.replacement : cluster.substr(0, length);
      cluster.remove_prefix(length);
    }
  }
  return result;
}

Expected<std::string> Normalizer::apply(std::string_view text, Place place) const {
  // For the whole: steps could otherwise multiply each other's growth.
  const std::size_t most = std::min(text.size() * kMostGrowth + kSlack, kMost);
  std::string current(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::form:
        current = normalized(current, step.form);
        break;
      case Step::Kind::lowercase:
        current = lowercase(current);
        break;
      case Step::Kind::replace: {
        Expected<std::string> result = replaced(step, current, most);
        if (!result) return result;
        current = std::move(*result);
        break;
      }
      case Step::Kind::prepend:
        // Not before a text that goes on from another one.
        if (!current.empty() &&
            (place == Place::start || (place == Place::after_token && !step.once))) {
          current.insert(0, step.with);
        }
        break;
      case Step::Kind::strip:
        current = stripped(current, step.left, step.right);
        break;
      case Step::Kind::charsmap:
        current = step.charsmap->apply(current);
        break;
    }
    if (current.size() > most) return Unexpected(grows_too_much());
  }
  return current;
}

}  // namespace tenon::vocab
