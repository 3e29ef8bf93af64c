#include "mask_session.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "terminal.h"

#include "tenon/base/utf8.h"
#include "tenon/json/value.h"
#include "tenon/vocab/vocab.h"

namespace tenon::app {

using vocab::TokenId;

namespace {

std::string quoted(std::string_view bytes) {
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

Expected<bool> MaskSession::feed(std::string_view line, std::ostream& out) {
  constexpr std::string_view kWhy = ":why ";
  if (line.starts_with(kWhy)) {
    const std::string_view text = line.substr(kWhy.size());
    const bool allowed = read(text, out);
    if (allowed) {
      matcher_.rollback(text.size());
      out << quoted(text) << " may come next\n";
    }
    return allowed;
  }
  if (line == ":help") {
    out << kHelp;
    return true;
  }
  if (line == ":text") {
    out << text_ << '\n';
    return true;
  }
  if (line == ":back" || line == ":clear") {
    if (!lines_.empty()) {
      const std::size_t kept = line == ":back" ? lines_.back() : 0;
      matcher_.rollback(text_.size() - kept);
      text_.resize(kept);
      line == ":back" ? lines_.pop_back() : lines_.clear();
    }
  } else if (line != ":all") {
    if (!read(line, out)) return false;
    lines_.push_back(text_.size());
    text_ += line;
  }
  constexpr std::size_t kFew = 24;
  const Status shown = show(line == ":all" ? SIZE_MAX : kFew, out);
  if (!shown) return Unexpected(shown.error());
  return true;
}

// Byte by byte, so that each can be taken back; nothing is read where it is not all allowed.
bool MaskSession::read(std::string_view text, std::ostream& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (matcher_.accept_bytes(text.substr(i, 1))) continue;
    explain(text, i, out);
    matcher_.rollback(i);
    return false;
  }
  return true;
}

void MaskSession::explain(std::string_view text, std::size_t accepted, std::ostream& out) {
  out << quoted(text) << " may not come next: ";
  if (accepted > 0) {
    out << quoted(text.substr(0, accepted)) << " may, but its byte " << accepted;
  } else {
    out << "byte 0";
  }
  out << " (" << byte_name(static_cast<std::uint8_t>(text[accepted])) << ") is none of "
      << next_bytes();
  if (matcher_.is_accepting()) out << "; the text may also end there";
  out << '\n';
}

/// Runs of bytes, such as "space 0-9 a-f".
std::string MaskSession::next_bytes() {
  std::vector<bool> may(257);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
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
  return result.empty() ? "no byte at all" : result;
}

Status MaskSession::show(std::size_t max_tokens, std::ostream& out) {
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
  if (!forced.empty()) out << "  must go on with " << quoted(forced) << '\n';
  if (tokens.empty()) return {};
  // The longest first: they say the most.
  std::ranges::stable_sort(tokens, std::greater{},
                           [&](TokenId t) { return vocab.bytes(t).size(); });
  out << ' ';
  for (std::size_t i = 0; i < tokens.size() && i < max_tokens; ++i) {
    out << ' ' << quoted(vocab.bytes(tokens[i]));
  }
  if (tokens.size() > max_tokens) out << " and " << tokens.size() - max_tokens << " more";
  out << '\n';
  return {};
}

}  // namespace tenon::app
