#include "tenon/engine/upstream/remote_tokenizer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/vocab/added_tokens.h"

// create() reads the texts of all tokens (read_pieces). encode() answers from `known_`, or asks:
// text of the template with control tokens on (encode_template), data with them off (encode_data).
// The server does not say what a control token is, so learn_kinds() finds out by asking for the
// token's own text both ways. What comes out of data is checked against that knowledge, and text
// that spells a control token is sent in parts.
//
// Keys of `known_` begin with '+' for the template, '-' for data, and '?' for a text that was asked
// for because it may be a marker. Entries of data are dropped when a new control token is found
// (set_kind), because they were made without that knowledge.

namespace tenon::engine {
namespace {

using json::Value;
using vocab::Controls;
using vocab::TokenId;

constexpr std::size_t kMaxVocabulary = std::size_t{1} << 22;  // the largest known has 2^18
constexpr std::size_t kPiecesPerQuestion = 8192;              // an answer of about 300 KB
constexpr std::size_t kMaxKnownText = 2048;                   // longer ones seldom come again
constexpr std::size_t kEntryBytes = 128;                      // for map and allocator, about
constexpr std::size_t kMaxParts = 64;     // questions for one text, if the server refuses lists
constexpr std::size_t kMaxMarkers = 256;  // possible markers in one text that are asked for
constexpr std::size_t kMaxMarkerBytes = 64;
constexpr std::size_t kMaxPieceBytes = 4096;  // some have lines of white space
constexpr std::size_t kMaxPiecesBytes = std::size_t{64} << 20;

Unexpected no_answer(std::string_view what) {
  return Unexpected(Error{Errc::unavailable, "/tokenize answered " + std::string(what)});
}

std::string key_of(std::string_view text, Controls controls) {
  return (controls == Controls::on ? '+' : '-') + std::string(text);
}

// The size of an entry of known_.
std::size_t bytes_of(const std::string& key, const std::vector<TokenId>& ids) {
  return key.size() + ids.size() * sizeof(TokenId) + kEntryBytes;
}

// A whole number from 0 to `size` - 1; nullopt for anything else that a server may send.
std::optional<TokenId> id_in(const Value& value, std::size_t size) {
  const auto id = value.if_number() == nullptr ? std::nullopt : value.if_number()->to_int64();
  if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= size) return {};
  return static_cast<TokenId>(*id);
}

// A token's text is a string, or a list of bytes if it is not UTF-8.
std::optional<std::string> piece_in(const Value& token) {
  const Value* piece = token.find("piece");
  if (piece == nullptr) return {};
  if (piece->if_string() != nullptr) return *piece->if_string();
  if (piece->if_array() == nullptr) return {};
  std::string bytes;
  for (const Value& byte : *piece->if_array()) {
    const auto number = id_in(byte, 256);
    if (!number) return {};
    bytes += static_cast<char>(*number);
  }
  return bytes;
}

// Texts that look like markers, each once: on one line, with nothing inside that opens another one.
std::set<std::string_view> markers_by_looks(std::string_view text) {
  std::set<std::string_view> markers;
  for (std::size_t at = text.find_first_of("<["); at != std::string_view::npos;
       at = text.find_first_of("<[", at + 1)) {
    const std::string_view line = text.substr(at, kMaxMarkerBytes);
    const std::string_view stops = line.front() == '<' ? "<>\n" : "[]\n";
    const std::size_t end = line.find_first_of(stops, 1);
    if (end == std::string_view::npos || line[end] != stops[1]) continue;
    if (const auto marker = line.substr(0, end + 1); vocab::looks_like_marker(marker)) {
      markers.insert(marker);
    }
  }
  return markers;
}

// {"tokens": [...]}: ids, or objects {"id", "piece"} if `with_pieces` was asked for.
Expected<json::Array> tokens_in(Value answer) {
  Value* tokens = answer.find("tokens");
  if (tokens == nullptr || tokens->if_array() == nullptr) return no_answer("without tokens");
  return std::move(*tokens->if_array());
}

}  // namespace

Expected<std::unique_ptr<RemoteTokenizer>> RemoteTokenizer::create(Options options, Post post) {
  std::unique_ptr<RemoteTokenizer> made(new RemoteTokenizer(std::move(options), std::move(post)));
  if (Status read = made->read_pieces(); !read) {
    return Unexpected(std::move(read.error()));
  }
  auto bos = made->id_of(made->options_.bos);
  if (!bos) return Unexpected(std::move(bos.error()));
  auto eos = made->id_of(made->options_.eos);
  if (!eos) return Unexpected(std::move(eos.error()));
  made->bos_ = *bos;
  made->eos_ = *eos;
  if (*bos) made->asked_pieces_.emplace(**bos, made->options_.bos);
  if (*eos) made->asked_pieces_.emplace(**eos, made->options_.eos);
  if (*bos) made->is_control_.emplace(**bos, true);
  if (*eos) made->is_control_.emplace(**eos, true);
  return made;
}

// The server answers ids in a question with their texts. Not all servers can do that: one that
// refuses the first question, or breaks off and then answers a question about text, is asked for
// single tokens later on.
Status RemoteTokenizer::read_pieces() {
  const std::size_t size = options_.size;
  if (size == 0 || size > kMaxVocabulary) {
    return Unexpected(Error{Errc::unavailable, "/v1/models does not tell the vocabulary's size"});
  }
  std::size_t bytes = 0;
  while (pieces_.size() < size) {
    const std::size_t begin = pieces_.size();
    const std::size_t end = std::min(size, begin + kPiecesPerQuestion);
    json::Array ids;
    for (std::size_t id = begin; id < end; ++id) ids.emplace_back(std::uint64_t{id});
    auto answer =
        post_("/tokenize", json::Object{{"content", std::move(ids)}, {"with_pieces", true}});
    const bool is_refused =
        !answer && begin == 0 && (answer.error().code == Errc::invalid || ask("a", Controls::off));
    if (is_refused) {
      log::warn("lists of token ids are refused (" +
                std::string(log::content(answer.error().message)) +
                "): tokens and markers are asked for one by one, which is slow");
      return {};
    }
    if (!answer) return Unexpected(std::move(answer.error()));
    const auto tokens = tokens_in(*std::move(answer));
    if (!tokens) return Unexpected(tokens.error());
    if (tokens->size() != end - begin) return no_answer("with fewer tokens than it was asked for");
    for (const Value& token : *tokens) {
      auto piece = piece_in(token);
      if (!piece) return no_answer("without the text of a token");
      bytes += piece->size();
      if (piece->size() > kMaxPieceBytes || bytes > kMaxPiecesBytes) {
        return no_answer("with the text of a token that is too long");
      }
      max_token_bytes_ = std::max(max_token_bytes_, piece->size());
      pieces_.push_back(*std::move(piece));
    }
  }
  return {};
}

Expected<std::optional<TokenId>> RemoteTokenizer::id_of(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const auto ids = ask(text, Controls::on);
  if (!ids) return Unexpected(ids.error());
  if (ids->size() != 1) return std::nullopt;  // the text is not one token after all
  return ids->front();
}

// `parse_special` is how llama-server calls reading control tokens in a text; `add_special` would
// add the token that begins a prompt.
Expected<RemoteTokenizer::Ids> RemoteTokenizer::ask(Value content, Controls controls) const {
  auto answer = post_("/tokenize", json::Object{{"content", std::move(content)},
                                                {"add_special", false},
                                                {"parse_special", controls == Controls::on}});
  if (!answer) return Unexpected(std::move(answer.error()));
  const auto tokens = tokens_in(*std::move(answer));
  if (!tokens) return Unexpected(tokens.error());
  std::vector<TokenId> ids;
  ids.reserve(tokens->size());
  for (const Value& token : *tokens) {
    const auto id = id_in(token, size());
    if (!id) return no_answer("with a token that is no id of its vocabulary");
    ids.push_back(*id);
  }
  return ids;
}

bool RemoteTokenizer::is_control(TokenId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = is_control_.find(id);
  return found != is_control_.end() && found->second;
}

bool RemoteTokenizer::knows_kind(TokenId id) const {
  const std::lock_guard lock(mutex_);
  return is_control_.contains(id);
}

// Drops kept ids of data that were made before this token was known to be a control token.
void RemoteTokenizer::set_kind(TokenId id, bool is_control) const {
  const std::lock_guard lock(mutex_);
  if (!is_control_.emplace(id, is_control).second || !is_control) return;
  ++controls_;
  std::erase_if(known_, [this](const auto& entry) {
    const bool is_data = entry.first.front() == '-';
    if (is_data) known_bytes_ -= bytes_of(entry.first, entry.second);
    return is_data;
  });
}

std::uint64_t RemoteTokenizer::controls() const {
  const std::lock_guard lock(mutex_);
  return controls_;
}

// Finds out which of `ids` are control tokens. `spelled` are the ids of the same text as data.
Status RemoteTokenizer::learn_kinds(const Ids& ids, const Ids& spelled) const {
  // A token that also comes from the same text as data is an ordinary one, unless it is a marker. A
  // control token then has a text that gives exactly this token with controls on, and with controls
  // off something else, or it looks like a marker.
  const std::set<TokenId> plain(spelled.begin(), spelled.end());
  for (const TokenId id : std::set(ids.begin(), ids.end())) {
    if (knows_kind(id)) continue;
    const std::string_view piece = bytes(id);
    const bool is_marker = vocab::looks_like_marker(piece);
    bool is_control = (is_marker || !plain.contains(id)) && !piece.empty() && utf8::is_valid(piece);
    if (is_control) {
      const auto written = ask(piece, Controls::on);
      if (!written) return Unexpected(written.error());
      is_control = *written == Ids{id};
    }
    if (is_control && !is_marker) {
      const auto written = ask(piece, Controls::off);
      if (!written) return Unexpected(written.error());
      is_control = *written != Ids{id};
    }
    set_kind(id, is_control);
  }
  return {};
}

// Finds the markers in data, if the texts of all tokens are not known.
Status RemoteTokenizer::learn_markers(std::string_view text) const {
  if (!pieces_.empty()) return {};
  const auto markers = markers_by_looks(text);
  if (markers.size() > kMaxMarkers) {
    return Unexpected(
        Error{Errc::limit_exceeded, "a text has " + std::to_string(markers.size()) +
                                        " words in brackets, more than the upstream's "
                                        "tokenizer can be asked for"});
  }
  for (const std::string_view marker : markers) {
    const std::string key = "?" + std::string(marker);
    {
      const std::lock_guard lock(mutex_);
      if (known_.contains(key)) continue;
    }
    auto ids = ask(marker, Controls::off);
    if (!ids) return Unexpected(std::move(ids.error()));
    if (ids->size() == 1) set_kind(ids->front(), true);
    keep(key, *ids, controls());
  }
  return {};
}

Expected<RemoteTokenizer::Ids> RemoteTokenizer::encode_template(std::string_view text) const {
  auto ids = ask(text, Controls::on);
  if (!ids) return ids;
  if (std::ranges::all_of(*ids, [this](TokenId id) { return knows_kind(id); })) return ids;
  const auto spelled = ask(text, Controls::off);
  if (!spelled) return spelled;
  if (Status learnt = learn_kinds(*ids, *spelled); !learnt) return Unexpected(learnt.error());
  return ids;
}

// The texts of the control tokens among `ids`, which were made from data. If the texts of all
// tokens are known, new ones are found, too: a marker is a token whatever the text around it.
Expected<std::vector<std::string_view>> RemoteTokenizer::controls_among(const Ids& ids) const {
  Ids markers;
  for (const TokenId id : std::set(ids.begin(), ids.end())) {
    if (is_control(id) || (!pieces_.empty() && vocab::looks_like_marker(bytes(id)))) {
      markers.push_back(id);
    }
  }
  if (Status learnt = learn_kinds(markers, markers); !learnt) return Unexpected(learnt.error());
  std::vector<std::string_view> controls;
  for (const TokenId id : markers) {
    if (is_control(id)) controls.push_back(bytes(id));
  }
  return controls;
}

// A list of texts is one question, whose ids the server does not merge across the texts. A server
// that refuses lists is asked for each part.
Expected<RemoteTokenizer::Ids> RemoteTokenizer::ask_parts(
    const std::vector<std::string_view>& parts) const {
  if (!pieces_.empty()) {
    return ask(json::Array(parts.begin(), parts.end()), Controls::off);
  }
  if (parts.size() > kMaxParts) {
    return Unexpected(Error{Errc::limit_exceeded, "a text spells " +
                                                      std::to_string(parts.size() - 1) +
                                                      " control tokens, more than the upstream's "
                                                      "tokenizer can be asked to leave alone"});
  }
  Ids ids;
  for (const std::string_view part : parts) {
    const auto some = ask(part, Controls::off);
    if (!some) return some;
    ids.insert(ids.end(), some->begin(), some->end());
  }
  return ids;
}

// The ids that the server makes from data may still contain markers, and control tokens that merges
// happen to spell. Then the text is cut after the first character of each of those.
Expected<RemoteTokenizer::Ids> RemoteTokenizer::encode_data(std::string_view text) const {
  if (Status learnt = learn_markers(text); !learnt) return Unexpected(std::move(learnt.error()));
  auto ids = ask(text, Controls::off);
  if (!ids) return ids;
  const auto controls = controls_among(*ids);
  if (!controls) return Unexpected(controls.error());
  if (controls->empty()) return ids;
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  // "a<tool_call>b" becomes the parts "a<" and "tool_call>b".
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (std::ranges::none_of(*controls,
                             [&](auto name) { return text.substr(at).starts_with(name); })) {
      continue;
    }
    std::size_t cut = at + 1;
    // Not within a character, which would change the bytes on their way through JSON.
    while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80) ++cut;
    parts.push_back(text.substr(begin, cut - begin));
    begin = cut;
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  ids = ask_parts(parts);
  if (!ids) return ids;
  const auto left = controls_among(*ids);
  if (!left) return Unexpected(left.error());
  if (left->empty()) return ids;
  return Unexpected(Error{
      Errc::invalid,
      "the model's vocabulary has '" + std::string(left->front()) + "' as a control token only"});
}

Status RemoteTokenizer::encode(std::string_view text, Controls controls, bool,
                               std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  const std::string key = key_of(text, controls);
  std::uint64_t controls_before = 0;
  {
    const std::lock_guard lock(mutex_);
    controls_before = controls_;
    if (const auto found = known_.find(key); found != known_.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
      return {};
    }
  }
  auto made = controls == Controls::on ? encode_template(text) : encode_data(text);
  if (!made) return Unexpected(std::move(made.error()));
  ids.insert(ids.end(), made->begin(), made->end());
  keep(key, *made, controls_before);
  return {};
}

// Ids of data are not kept if a control token has become known since they were made (`controls` was
// the count then), because they were not checked for it.
void RemoteTokenizer::keep(const std::string& key, const Ids& ids, std::uint64_t controls) const {
  if (key.size() > kMaxKnownText) return;
  const std::size_t bytes = bytes_of(key, ids);
  const std::lock_guard lock(mutex_);
  if (key.front() == '-' && controls != controls_) return;
  if (known_bytes_ + bytes > options_.max_known_bytes) {
    // All at once: the texts of a template come again with the next request, and fill it anew.
    known_.clear();
    known_bytes_ = 0;
  }
  if (known_.emplace(key, ids).second) known_bytes_ += bytes;
}

// Views stay valid: pieces_ never changes, and entries of asked_pieces_ are never erased.
std::string_view RemoteTokenizer::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) return {};
  if (!pieces_.empty()) return pieces_[static_cast<std::size_t>(id)];
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = asked_pieces_.find(id); found != asked_pieces_.end()) {
      return found->second;
    }
  }
  auto answer = post_("/detokenize", json::Object{{"tokens", json::Array{id}}});
  const Value* text = answer ? answer->find("content") : nullptr;
  if (text == nullptr || text->if_string() == nullptr) return {};
  const std::size_t size = text->if_string()->size();
  const std::lock_guard lock(mutex_);
  if (size > kMaxPieceBytes || asked_bytes_ + size > kMaxPiecesBytes) return {};
  const auto [kept, is_new] = asked_pieces_.emplace(id, *text->if_string());
  if (is_new) asked_bytes_ += size;
  return kept->second;
}

}  // namespace tenon::engine
