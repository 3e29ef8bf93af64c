#include "tenon/engine/llama/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <llama.h>

#include "tenon/base/utf8.h"

namespace tenon::engine {
namespace {

using vocab::Controls;

/// A user-defined token that is a piece of markup, `<tool_call>` or `[INST]`, as against one that
/// is a piece of text, like the runs of spaces that some vocabularies list.
bool looks_like_marker(std::string_view text) {
  if (text.size() < 3) return false;
  const bool is_bracketed =
      (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
  return is_bracketed;
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// How much of `text` to tokenise in one go: at most kMostPiece bytes, if that does not cut a word.
/// Tokenizers of all kinds begin a token with the space before a word, and with the word after a
/// line's end.
std::size_t piece_length(std::string_view text, bool may_cut_words) {
  constexpr std::size_t kMostPiece = 4096;
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
    // Not within a character.
    while (at > kMostPiece - 3 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
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
  adds_bos_ = adds_bos_ && bos_;
  read_tokens();

  std::vector<bool> is_length;
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if ((flags_[i] & kControl) == 0) continue;
    const std::string_view text = bytes(id);
    if (text.empty()) continue;
    controls_.emplace(text, id);
    if ((llama_vocab_get_attr(vocab_, id) & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0) continue;
    markers_.emplace(text, id);
    begins_marker_[static_cast<unsigned char>(text.front())] = true;
    if (is_length.size() <= text.size()) is_length.resize(text.size() + 1);
    is_length[text.size()] = true;
  }
  for (std::size_t length = 0; length < is_length.size(); ++length) {
    if (is_length[length]) marker_lengths_.push_back(length);
  }
}

void LlamaTokenizer::read_tokens() {
  const auto count = static_cast<std::size_t>(llama_vocab_n_tokens(vocab_));
  flags_.resize(count);
  ends_at_.resize(count);
  arena_.reserve(count * 8);
  std::string piece(64, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto read = [&] {
      return llama_token_to_piece(vocab_, id, piece.data(), static_cast<std::int32_t>(piece.size()),
                                  /*lstrip=*/0, /*special=*/true);
    };
    std::int32_t length = read();
    if (length < 0) {
      piece.resize(static_cast<std::size_t>(-length));
      length = read();
    }
    arena_.append(piece, 0, static_cast<std::size_t>(std::max(length, 0)));
    ends_at_[i] = arena_.size();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab_, id));
    const bool is_user_defined = (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    const bool ends = llama_vocab_is_eog(vocab_, id);
    if ((attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0 || ends ||
        (is_user_defined && looks_like_marker(bytes(id)))) {
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
  if (!utf8::is_valid(text)) {  // libllama would take some of it as it is
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
  if (parse_controls || markers_.empty()) return encode_long(text, parse_controls, ids);

  // Cut every marker after its first byte: what libllama sees holds none.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_marker_[static_cast<unsigned char>(text[i])]) continue;
    if (!begins_with_marker(text.substr(i))) continue;
    if (Status piece = encode_long(text.substr(begin, i + 1 - begin), false, ids); !piece) {
      return piece;
    }
    begin = i + 1;
  }
  return encode_long(text.substr(begin), false, ids);
}

bool LlamaTokenizer::begins_with_marker(std::string_view text) const {
  return std::any_of(marker_lengths_.begin(), marker_lengths_.end(), [&](std::size_t length) {
    return length <= text.size() && markers_.contains(text.substr(0, length));
  });
}

bool LlamaTokenizer::begins_with_control(std::string_view text) const {
  return std::any_of(controls_.begin(), controls_.end(),
                     [&](const auto& control) { return text.starts_with(control.first); });
}

Status LlamaTokenizer::encode_long(std::string_view text, bool parse_controls,
                                   std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const std::size_t length = piece_length(text, /*may_cut_words=*/!parse_controls);
    if (Status piece = encode_piece(text.substr(0, length), parse_controls, ids); !piece) {
      return piece;
    }
    text.remove_prefix(length);
  }
  return {};
}

Status LlamaTokenizer::encode_piece(std::string_view text, bool parse_controls,
                                    std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  // No vocabulary needs more tokens than bytes; two more, so that a tokenizer which adds one fits.
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
      if (count >= 0 || count == std::numeric_limits<std::int32_t>::min()) break;
      room = static_cast<std::size_t>(-static_cast<std::int64_t>(count));
    }
  } catch (const std::exception& error) {  // a vocabulary without some byte, or no memory
    count = -1;
  }
  ids.resize(before + static_cast<std::size_t>(std::max(count, 0)));
  if (count < 0) {
    return Unexpected(Error{Errc::invalid, "the model's vocabulary cannot express this text"});
  }
  return {};
}

}  // namespace tenon::engine
