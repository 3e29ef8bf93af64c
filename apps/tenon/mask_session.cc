#include "mask_session.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "terminal.h"

#include "tenon/base/utf8.h"
#include "tenon/json/value.h"
#include "tenon/vocab/vocab.h"

// A dialogue about a grammar. Each line is text that is to come next, byte by byte; `:put` lets a
// line have control tokens and escapes. The session remembers where each line began (lines_), so
// `:back` can take it back, since the matcher counts what it has accepted.

namespace tenon::app {

using vocab::TokenId;

namespace {

std::string in_quotes(std::string_view bytes) {
  return printable(json::to_string(json::Value(utf8::sanitized(bytes))));
}

std::string byte_name(unsigned byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  if (byte > 0x20 && byte < 0x7F) return {static_cast<char>(byte)};
  if (byte == ' ') return "space";
  if (byte == '\n') return "line end";
  if (byte == '\t') return "tab";
  return std::string("0x") + kHex[byte >> 4U] + kHex[byte & 15U];
}

}  // namespace

// A line is a command (:why, :text, :back, :clear, :all, :help), or text. False: the text cannot
// come, and nothing has changed.
Expected<bool> MaskSession::feed(std::string_view line, std::ostream& out) {
  constexpr std::string_view kWhy = ":why ";
  if (line.starts_with(kWhy)) return ask(pieces_of(line.substr(kWhy.size())), out);
  if (line == ":help") {
    out << kHelp;
    return true;
  }
  if (line == ":text") {
    out << text_ << '\n';
    return true;
  }
  if (line == ":back" && !lines_.empty()) {
    take_back(lines_.back());
    lines_.pop_back();
  } else if (line == ":clear") {
    take_back({});
    lines_.clear();
  } else if (line != ":all" && line != ":back") {
    const Point before{matcher_.accepted_count(), text_.size()};
    const std::vector<Piece> pieces = pieces_of(line);
    const auto allowed = read(pieces, out);
    if (!allowed || !*allowed) return allowed;
    lines_.push_back(before);
    text_ += text_of(pieces);
  }
  constexpr std::size_t kFew = 24;
  const Status shown = show(line == ":all" ? SIZE_MAX : kFew, out);
  if (!shown) return Unexpected(shown.error());
  return true;
}

std::vector<MaskSession::Piece> MaskSession::pieces_of(std::string_view line) const {
  constexpr std::string_view kPut = ":put ";
  std::vector<Piece> pieces;
  if (!line.starts_with(kPut)) {
    for (const char byte : line) pieces.push_back({std::string(1, byte), std::nullopt});
    return pieces;
  }
  line.remove_prefix(kPut.size());
  while (!line.empty()) pieces.push_back(take_piece(line));
  return pieces;
}

// Takes one byte, an escape (\n, \t, \\) or a control token off `line`.
MaskSession::Piece MaskSession::take_piece(std::string_view& line) const {
  if (const auto token = control_token_at(line)) {
    const std::string_view name = grammar_->index().vocab().bytes(*token);
    line.remove_prefix(name.size());
    return {std::string(name), token};
  }
  constexpr std::string_view kLetters = "nt\\";
  constexpr std::string_view kMeanings = "\n\t\\";
  const std::size_t escape =
      line.size() > 1 && line[0] == '\\' ? kLetters.find(line[1]) : std::string_view::npos;
  const bool is_escape = escape != std::string_view::npos;
  const char byte = is_escape ? kMeanings[escape] : line[0];
  line.remove_prefix(is_escape ? 2 : 1);
  return {std::string(1, byte), std::nullopt};
}

// The control token with the longest name at the beginning of `text`.
std::optional<TokenId> MaskSession::control_token_at(std::string_view text) const {
  const vocab::Vocab& vocab = grammar_->index().vocab();
  std::optional<TokenId> longest;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocab.kind(id) != vocab::Token::Kind::control) continue;
    const std::size_t least = longest ? vocab.bytes(*longest).size() : 0;
    if (vocab.bytes(id).size() > least && text.starts_with(vocab.bytes(id))) longest = id;
  }
  return longest;
}

std::string MaskSession::text_of(std::span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.bytes;
  return text;
}

// Reads all pieces, or none if one of them is not allowed.
Expected<bool> MaskSession::read(const std::vector<Piece>& pieces, std::ostream& out) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.token ? matcher_.accept(*piece.token) : matcher_.accept_bytes(piece.bytes)) continue;
    if (matcher_.error()) return Unexpected(*matcher_.error());
    explain(pieces, i, out);
    matcher_.rollback(i);
    return false;
  }
  return true;
}

// `:why TEXT`: reads the text and takes it back again.
Expected<bool> MaskSession::ask(const std::vector<Piece>& pieces, std::ostream& out) {
  const auto allowed = read(pieces, out);
  if (allowed && *allowed) {
    matcher_.rollback(pieces.size());
    out << in_quotes(text_of(pieces)) << " may come next\n";
  }
  return allowed;
}

void MaskSession::take_back(const Point& point) {
  matcher_.rollback(matcher_.accepted_count() - point.accepted);
  text_.resize(point.text_size);
}

// Says why `pieces` cannot come, at the first one that is refused, while the matcher stands before
// it.
void MaskSession::explain(const std::vector<Piece>& pieces, std::size_t accepted,
                          std::ostream& out) {
  const std::string before = text_of(std::span(pieces).first(accepted));
  const Piece& refused = pieces[accepted];
  out << in_quotes(text_of(pieces)) << " may not come next: ";
  if (!before.empty()) out << in_quotes(before) << " may, but ";
  if (matcher_.is_finished()) {
    out << "the text has ended";
  } else if (refused.token) {
    out << "the token " << in_quotes(refused.bytes) << " is not one of those that may";
  } else {
    const std::string next = next_bytes();
    out << (before.empty() ? "" : "its ") << "byte " << before.size() << " ("
        << byte_name(static_cast<std::uint8_t>(refused.bytes[0])) << ") is not one of "
        << (next.empty() ? "those that may, for no byte may" : next);
  }
  if (matcher_.is_accepting()) out << "; the text may also end there";
  out << '\n';
}

// Runs of bytes, such as "space 0-9 a-f".
std::string MaskSession::next_bytes() {
  // One more than there are bytes: the run that ends with byte 255 needs an end.
  std::vector<bool> may(257);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    // Asked by trying: each byte that is accepted is taken back.
    if (!matcher_.accept_bytes({&c, 1})) continue;
    may[byte] = true;
    matcher_.rollback(1);
  }
  std::string result;
  for (unsigned first = 0; first < 256; ++first) {
    if (!may[first]) continue;
    unsigned last = first;
    while (may[last + 1]) ++last;
    result += (result.empty() ? "" : "  ") + byte_name(first);
    if (last > first) result += (last > first + 1 ? ".." : "  ") + byte_name(last);
    first = last;
  }
  return result;
}

// What may come next: how many tokens, what must come in any case, and the first few tokens.
Status MaskSession::show(std::size_t max_tokens, std::ostream& out) {
  if (matcher_.is_finished()) {
    out << "the text has ended\n";
    return {};
  }
  const vocab::Vocab& vocab = grammar_->index().vocab();
  std::vector<std::uint32_t> mask(grammar::mask_words(vocab.size()));
  if (Status filled = matcher_.fill_mask(mask); !filled) return filled;
  std::vector<TokenId> tokens;
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    if ((mask[id / 32] >> id % 32 & 1U) != 0) tokens.push_back(static_cast<TokenId>(id));
  }
  out << tokens.size() << " of " << vocab.size() << " tokens may come next";
  if (matcher_.is_accepting()) out << "; the text may end here";
  out << '\n';
  constexpr std::size_t kMostForced = 200;
  const std::string forced = matcher_.forced_bytes(kMostForced);
  if (!forced.empty()) out << "  must go on with " << in_quotes(forced) << '\n';
  if (tokens.empty()) return {};
  // The longest first, because they are the most telling.
  std::ranges::stable_sort(tokens, std::greater{},
                           [&](TokenId t) { return vocab.bytes(t).size(); });
  out << ' ';
  for (std::size_t i = 0; i < tokens.size() && i < max_tokens; ++i) {
    out << ' ' << in_quotes(vocab.bytes(tokens[i]));
  }
  if (tokens.size() > max_tokens) out << " and " << tokens.size() - max_tokens << " more";
  out << '\n';
  return {};
}

}  // namespace tenon::app
