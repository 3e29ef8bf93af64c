#include "tenon/engine/llama/tokenizer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <llama.h>

#include "tenon/base/utf8.h"
#include "tenon/vocab/added_tokens.h"

// encode() prepares the text (UTF-8, the first space), cuts it where data spells a control token,
// and cuts long stretches into pieces (encode_long). encode_piece() has libllama make the ids. With
// controls off the result is checked again (encode_data), because what counts is which ids come
// out, not which texts went in. For the reasons see tokenizer.h.

namespace tenon::engine {
namespace {

using vocab::Controls;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Whether text[at] continues a character.
bool is_within_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

/// Where the character after the one at `at` begins.
std::size_t next_character(std::string_view text, std::size_t at) {
  do ++at;
  while (is_within_character(text, at));
  return at;
}

// Bytes. A cut inside a word may change its tokens, so a piece is long enough for any real word.
constexpr std::size_t kMostPiece = 4096;

/// How much of `text` to tokenise in one go: at most kMostPiece bytes, if that does not cut a word.
/// All kinds of tokenizers begin a token with the space before a word, or with the word after the
/// end of a line.
std::size_t piece_length(std::string_view text, bool may_cut_words) {
  if (text.size() <= kMostPiece) return text.size();
  const auto is_boundary = [text](std::size_t at) {
    const char before = text[at - 1];
    const char here = text[at];
    return (!is_space(before) && here == ' ') || (before == '\n' && !is_space(here));
  };
  for (std::size_t at = kMostPiece; at > 0; --at) {
    if (is_boundary(at)) return at;
  }
  std::size_t at = kMostPiece;
  if (may_cut_words) {
    while (is_within_character(text, at)) --at;
    return at;
  }
  while (at < text.size() && !is_boundary(at)) ++at;
  return at;
}

std::optional<TokenId> if_there(llama_token token) {
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional<TokenId>(token);
}

}  // namespace

LlamaTokenizer::LlamaTokenizer(const llama_vocab* vocab, bool adds_space)
    : vocab_(vocab),
      adds_space_(adds_space),
      adds_bos_(llama_vocab_get_add_bos(vocab)),
      bos_(if_there(llama_vocab_bos(vocab))),
      eos_(if_there(llama_vocab_eos(vocab))) {
  // Some files ask for a token that they do not have.
  adds_bos_ = adds_bos_ && bos_;
  read_tokens();

  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = bytes(id);
    if ((flags_[i] & kControl) == 0 || text.empty()) continue;
    controls_.emplace(text, id);
    begins_control_[static_cast<unsigned char>(text.front())] = true;
    lengths.insert(text.size());
  }
  control_lengths_.assign(lengths.begin(), lengths.end());
}

void LlamaTokenizer::read_tokens() {
  const auto count = static_cast<std::size_t>(llama_vocab_n_tokens(vocab_));
  flags_.resize(count);
  ends_at_.resize(count);
  arena_.reserve(count * 8);
  std::string piece(64, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    // A negative length is the size that is needed, with its sign turned.
    const auto read = [&] {
      return llama_token_to_piece(vocab_, id, piece.data(), static_cast<std::int32_t>(piece.size()),
                                  /*lstrip=*/0, /*special=*/true);
    };
    std::int32_t length = read();
    if (length < 0) {
      piece.resize(static_cast<std::size_t>(-length));
      length = read();
    }
    const auto size = static_cast<std::size_t>(std::max(length, 0));
    arena_.append(piece, 0, size);
    ends_at_[i] = arena_.size();
    max_token_bytes_ = std::max(max_token_bytes_, size);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab_, id));
    const bool is_user_defined = (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    const bool ends = llama_vocab_is_eog(vocab_, id);
    // Tokens that end generation count as control tokens, whatever the file says of them, and so do
    // user-defined ones that look like a marker ("<tool_call>").
    if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0 || ends ||
        (is_user_defined && vocab::looks_like_marker(bytes(id)))) {
      flags_[i] |= kControl;
    }
    if (ends) flags_[i] |= kEnds;
  }
}

bool LlamaTokenizer::has_flag(TokenId id, Flag flag) const {
  return id >= 0 && static_cast<std::size_t>(id) < flags_.size() &&
         (flags_[static_cast<std::size_t>(id)] & flag) != 0;
}

std::string_view LlamaTokenizer::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= ends_at_.size()) return {};
  const auto index = static_cast<std::size_t>(id);
  const std::size_t begin = index == 0 ? 0 : ends_at_[index - 1];
  return std::string_view(arena_).substr(begin, ends_at_[index] - begin);
}

bool LlamaTokenizer::is_control(TokenId id) const {
  return has_flag(id, kControl);
}
bool LlamaTokenizer::ends_generation(TokenId id) const {
  return has_flag(id, kEnds);
}

std::optional<TokenId> LlamaTokenizer::control_token(std::string_view text) const {
  const auto found = controls_.find(text);
  return found == controls_.end() ? std::nullopt : std::optional(found->second);
}

Status LlamaTokenizer::encode(std::string_view text, Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  std::string valid;
  if (!utf8::is_valid(text)) {  // libllama would pass some invalid bytes through
    valid = utf8::sanitized(text);
    text = valid;
  }
  const bool parse_controls = controls == Controls::on;
  std::string with_space;
  if (adds_space_ && at_start && !(parse_controls && begins_with_control(text))) {
    with_space.reserve(text.size() + 1);
    with_space.append(1, ' ').append(text);
    text = with_space;
  }
  if (parse_controls) return encode_long(text, true, ids);

  // Cuts each control token's text after its first character, so that libllama sees none of them.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_with_control(text.substr(i))) continue;
    const std::size_t cut = next_character(text, i);
    if (Status part = encode_long(text.substr(begin, cut - begin), false, ids); !part) return part;
    begin = cut;
  }
  return encode_long(text.substr(begin), false, ids);
}

bool LlamaTokenizer::begins_with_control(std::string_view text) const {
  if (text.empty() || !begins_control_[static_cast<unsigned char>(text.front())]) return false;
  return std::any_of(control_lengths_.begin(), control_lengths_.end(), [&](std::size_t length) {
    return length <= text.size() && controls_.contains(text.substr(0, length));
  });
}

Status LlamaTokenizer::encode_long(std::string_view text, bool parse_controls,
                                   std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const std::size_t length = piece_length(text, /*may_cut_words=*/!parse_controls);
    const std::string_view part = text.substr(0, length);
    Status encoded = parse_controls ? encode_piece(part, true, ids) : encode_data(part, ids);
    if (!encoded) return encoded;
    text.remove_prefix(length);
  }
  return {};
}

/// Encodes a piece that spells no control token. If the tokenizer makes one all the same (from a
/// word that is one, or from bytes that the file spells in another way), the piece is halved until
/// it cannot. That is at most kMostPiece * log(kMostPiece) bytes of work for any text.
Status LlamaTokenizer::encode_data(std::string_view text, std::vector<TokenId>& ids) const {
  const std::size_t before = ids.size();
  if (Status piece = encode_piece(text, false, ids); !piece) return piece;
  const bool is_data =
      std::none_of(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), [this](auto id) {
        // The token for unknown characters is a control token by its kind, but data may become one:
        // nothing can be made of it.
        return is_control(id) && (llama_vocab_get_attr(vocab_, id) & LLAMA_TOKEN_ATTR_UNKNOWN) == 0;
      });
  if (is_data) return {};
  ids.resize(before);
  std::size_t half = text.size() / 2;
  while (half > 0 && is_within_character(text, half)) --half;
  if (half == 0) half = next_character(text, 0);
  if (half == text.size()) {
    return Unexpected(Error{Errc::invalid, "the model's vocabulary has '" + std::string(text) +
                                               "' as a control token only"});
  }
  if (Status first = encode_data(text.substr(0, half), ids); !first) return first;
  return encode_data(text.substr(half), ids);
}

Status LlamaTokenizer::encode_piece(std::string_view text, bool parse_controls,
                                    std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  // No vocabulary needs more tokens than bytes; two more leave room for tokens that are added.
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - 2) {
    return Unexpected(Error{Errc::limit_exceeded, "a text of " + std::to_string(text.size()) +
                                                      " bytes is too long to tokenise"});
  }
  const std::size_t before = ids.size();
  std::size_t room = text.size() + 2;
  std::int32_t count = 0;
  try {
    for (int attempt = 0; attempt < 2; ++attempt) {
      ids.resize(before + room);
      count = llama_tokenize(vocab_, text.data(), static_cast<std::int32_t>(text.size()),
                             ids.data() + before, static_cast<std::int32_t>(room),
                             /*add_special=*/false, parse_controls);
      // A negative count is the number of tokens that are needed; the least number says that they
      // are too many for 32 bits.
      if (count >= 0 || count == std::numeric_limits<std::int32_t>::min()) break;
      room = static_cast<std::size_t>(-static_cast<std::int64_t>(count));
    }
  } catch (const std::exception& error) {  // the vocabulary lacks some byte, or out of memory
    count = -1;
  }
  ids.resize(before + static_cast<std::size_t>(std::max(count, 0)));
  if (count < 0) {
    return Unexpected(Error{Errc::invalid, "the model's vocabulary cannot express this text"});
  }
  return {};
}

}  // namespace tenon::engine
