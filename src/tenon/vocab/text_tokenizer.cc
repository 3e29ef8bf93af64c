#include "tenon/vocab/text_tokenizer.h"

#include <utility>

#include "tenon/base/utf8.h"

namespace tenon::vocab {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 30U;

// Added tokens are searched for twice: in the text as it is, and in the normalised text.
std::vector<AddedToken> of_kind(const std::vector<AddedToken>& tokens, bool is_normalized) {
  std::vector<AddedToken> result;
  for (const AddedToken& token : tokens) {
    if (token.is_normalized == is_normalized) result.push_back(token);
  }
  return result;
}

/// Calls `token(id)` for each added token in `text`, and `plain(text, place)` for the text between.
template <typename Plain, typename Token>
Status at_added_tokens(const AddedTokens& added, std::string_view text, Controls controls,
                       Place place, const Plain& plain, const Token& token) {
  std::size_t at = 0;
  while (const auto match = added.find(text, at, controls)) {
    if (match->begin > at) {
      if (Status done = plain(text.substr(at, match->begin - at), place); !done) return done;
    }
    token(match->id);
    at = match->end;
    place = Place::after_token;
  }
  return at < text.size() ? plain(text.substr(at), place) : Status{};
}

}  // namespace

TextTokenizer::TextTokenizer(Parts parts)
    : bytes_(std::vector<std::string_view>(parts.bytes.begin(), parts.bytes.end()),
             parts.is_control),
      flags_(parts.bytes.size()),
      raw_(of_kind(parts.added, false)),
      normalized_(of_kind(parts.added, true)),
      normalizer_(std::move(parts.normalizer)),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      model_(std::move(parts.model)),
      bos_(parts.bos),
      eos_(parts.eos),
      adds_bos_(parts.adds_bos && parts.bos) {
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (parts.is_control[i]) flags_[i] |= kControl;
  }
  for (const TokenId id : parts.ends) flags_[static_cast<std::size_t>(id)] |= kEnds;
}

bool TextTokenizer::has_flag(TokenId id, std::uint8_t flag) const {
  return id >= 0 && static_cast<std::size_t>(id) < flags_.size() &&
         (flags_[static_cast<std::size_t>(id)] & flag) != 0;
}

std::string_view TextTokenizer::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= flags_.size()) return {};
  return bytes_[static_cast<std::size_t>(id)];
}

Status TextTokenizer::encode(std::string_view text, Controls controls, bool at_start,
                             std::vector<TokenId>& ids) const {
  if (text.size() > kMostText) {
    return Unexpected(Error{Errc::limit_exceeded, "a text of " + std::to_string(text.size()) +
                                                      " bytes is too long to tokenise"});
  }
  std::string valid;
  // The steps below, ICU among them, expect UTF-8.
  if (!utf8::is_valid(text)) {
    valid = utf8::sanitized(text);
    text = valid;
  }
  const std::size_t before = ids.size();
  Status done = encode_parts(text, controls, at_start, ids);
  // Half of a text would be worse than none of it.
  if (!done) ids.resize(before);
  return done;
}

Status TextTokenizer::encode_parts(std::string_view text, Controls controls, bool at_start,
                                   std::vector<TokenId>& ids) const {
  return at_added_tokens(
      raw_, text, controls, at_start ? Place::start : Place::continuation,
      [&](std::string_view part, Place place) {
        return encode_normalized(part, controls, place, ids);
      },
      [&](TokenId id) { ids.push_back(id); });
}

Status TextTokenizer::encode_normalized(std::string_view text, Controls controls, Place place,
                                        std::vector<TokenId>& ids) const {
  std::string normal;
  // Added tokens that are normalised are looked for in the text as it is now.
  if (!normalizer_.is_empty()) {
    Expected<std::string> applied = normalizer_.apply(text, place);
    if (!applied) return Unexpected(applied.error());
    normal = std::move(*applied);
    text = normal;
  }
  return at_added_tokens(
      normalized_, text, controls, place,
      [&](std::string_view part, Place there) { return encode_plain(part, there, ids); },
      [&](TokenId id) { ids.push_back(id); });
}

Status TextTokenizer::encode_plain(std::string_view text, Place place,
                                   std::vector<TokenId>& ids) const {
  const Expected<PreTokenizer::Pieces> cut = pre_tokenizer_.cut(std::string(text), place);
  if (!cut) return Unexpected(cut.error());
  const std::string_view whole(cut->text);
  for (const PreTokenizer::Piece& piece : cut->pieces) {
    const std::string_view part = whole.substr(piece.begin, piece.end - piece.begin);
    if (Status done = model_->encode(part, ids); !done) return done;
  }
  return {};
}

}  // namespace tenon::vocab
