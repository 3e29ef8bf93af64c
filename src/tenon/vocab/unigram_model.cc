#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/vocab/model.h"

namespace tenon::vocab {
namespace {

constexpr double kUnknownPenalty = 10;  // as in SentencePiece

// Only tokens that `texts` finds: among equal texts the first one.
std::vector<TokenTrie::Entry> findable(const StringTable& texts) {
  std::vector<TokenTrie::Entry> entries;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!texts[i].empty() && texts.find(texts[i]) == id) entries.push_back({texts[i], id});
  }
  return entries;
}

}  // namespace

UnigramModel::UnigramModel(StringTable texts, std::vector<double> scores, const Fallback& fallback)
    : texts_(std::move(texts)),
      scores_(std::move(scores)),
      fallback_(fallback),
      search_(findable(texts_)) {
  const auto least = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = (least == scores_.end() ? 0 : *least) - kUnknownPenalty;
}

// best[i]: the best way to cut the first i bytes. An unknown character is a token with a score of
// its own; unknown neighbours are joined at the end.
Status UnigramModel::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  constexpr TokenId kUnknown = -1;
  struct Best {
    // The sum along the best way to this place.
    double score = -std::numeric_limits<double>::infinity();
    std::uint32_t begin = 0;  // where its last token begins
    TokenId token = kUnknown;
    bool is_reached = false;
  };
  std::vector<Best> best(piece.size() + 1);
  best[0] = {0, 0, kUnknown, true};
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view rest = piece.substr(at);
    const std::size_t character = std::max<std::size_t>(1, utf8::decode(rest).length);
    const auto offer = [&](TokenId token, std::size_t length, double score) {
      Best& there = best[at + length];
      const double sum = best[at].score + score;
      // Among equal sums the first one counts.
      if (there.is_reached && sum <= there.score) return;
      there = {sum, static_cast<std::uint32_t>(at), token, true};
    };
    bool has_single = false;
    search_.each(rest, [&](TokenId token, std::size_t length) {
      offer(token, length, scores_[static_cast<std::size_t>(token)]);
      has_single |= length == character;
    });
    // SentencePiece allows an unknown character only where no token is this one character.
    if (!has_single) offer(kUnknown, character, unknown_score_);
    at += character;
  }

  struct Part {
    std::size_t begin;
    std::size_t end;
    TokenId token;
  };
  std::vector<Part> parts;  // in reverse order
  // The best way, followed back from the end. Unknown neighbours become one part.
  for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
    const Best& here = best[end];
    if (here.token == kUnknown && !parts.empty() && parts.back().token == kUnknown) {
      parts.back().begin = here.begin;
    } else {
      parts.push_back({here.begin, end, here.token});
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->token != kUnknown) {
      ids.push_back(part->token);
      continue;
    }
    const std::string_view text = piece.substr(part->begin, part->end - part->begin);
    if (Status unknown = append_unknown(text, ids); !unknown) return unknown;
  }
  return {};
}

Status UnigramModel::append_unknown(std::string_view text, std::vector<TokenId>& ids) const {
  if (fallback_.bytes) {
    for (const char each : text) {
      ids.push_back((*fallback_.bytes)[static_cast<unsigned char>(each)]);
    }
    return {};
  }
  if (!fallback_.unknown) {
    return Unexpected(
        Error{Errc::invalid, "the vocabulary has no tokens for '" + std::string(text) + "'"});
  }
  ids.push_back(*fallback_.unknown);
  return {};
}

}  // namespace tenon::vocab
