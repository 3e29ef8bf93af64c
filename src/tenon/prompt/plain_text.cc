#include "tenon/prompt/plain_text.h"

#include <algorithm>
#include <set>

namespace tenon::prompt {
namespace {

constexpr std::string_view kBreak = "\u200b";

// Two bytes as an index into pairs_.
std::size_t pair_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  return std::size_t{byte(at)} << 8U | byte(at + 1);
}

// The length in bytes of the character that begins at `at`.
std::size_t character_end(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end;
}

// Tells template from data. The places that are asked for must only grow.
class Origins {
 public:
  explicit Origins(const std::vector<jinja::Span>& spans) : spans_(spans) {}

  struct Stretch {
    bool has_data = false;
    std::size_t border = 0;  // the first border between template and data inside; 0: no border
  };
  Stretch of(std::size_t begin, std::size_t end) {
    while (next_ < spans_.size() && spans_[next_].end <= begin) ++next_;
    Stretch found;
    for (std::size_t i = next_; i < spans_.size() && spans_[i].begin < end; ++i) {
      found.has_data = found.has_data || spans_[i].is_data;
      const bool is_border =
          spans_[i].begin > begin && i > 0 && spans_[i].is_data != spans_[i - 1].is_data;
      if (found.border == 0 && is_border) found.border = spans_[i].begin;
    }
    return found;
  }

 private:
  const std::vector<jinja::Span>& spans_;
  std::size_t next_ = 0;
};

}  // namespace

PlainText::PlainText(const vocab::Tokenizer& tokenizer) {
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto id = static_cast<vocab::TokenId>(i);
    if (!tokenizer.is_control(id)) continue;
    const std::string_view text = tokenizer.bytes(id);
    // A single character cannot be cut in two, and is not a marker.
    if (text.empty() || character_end(text, 0) == text.size()) continue;
    controls_.insert(text);
    lengths.insert(text.size());
    pairs_.set(pair_at(text, 0));
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

std::string PlainText::of(const Prompt& prompt) const {
  const std::string_view text = prompt.text;
  std::vector<std::size_t> cuts;  // ascending
  Origins origins(prompt.spans);
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    // Most places are passed by this one look-up.
    if (!pairs_.test(pair_at(text, at))) continue;
    for (const std::size_t length : lengths_) {
      if (length > text.size() - at) break;
      if (!controls_.contains(text.substr(at, length))) continue;
      const Origins::Stretch stretch = origins.of(at, at + length);
      if (!stretch.has_data) continue;  // the template's own
      const auto before = std::ranges::upper_bound(cuts, at);
      if (before != cuts.end() && *before < at + length) continue;  // a cut lies inside it already
      // Where template and data meet, if they do inside, so that the template's own text stays
      // whole.
      const std::size_t cut = stretch.border > 0 ? stretch.border : character_end(text, at);
      cuts.insert(std::ranges::upper_bound(cuts, cut), cut);
    }
  }
  std::string out;
  out.reserve(text.size() + cuts.size() * kBreak.size());
  std::size_t written = 0;
  for (const std::size_t cut : cuts) {
    out.append(text.substr(written, cut - written)).append(kBreak);
    written = cut;
  }
  return out.append(text.substr(written));
}

}  // namespace tenon::prompt
