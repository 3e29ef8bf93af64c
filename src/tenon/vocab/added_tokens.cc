#include "tenon/vocab/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/vocab/unicode.h"

namespace tenon::vocab {
namespace {

// The search gives places in `tokens`, where the flags of a token are.
std::vector<TokenTrie::Entry> entries_of(const std::vector<AddedToken>& tokens) {
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    entries.push_back({tokens[i].text, static_cast<TokenId>(i)});
  }
  return entries;
}

// Where the character before text[at] begins; `at` must be above 0.
std::size_t before(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80);
  return at;
}

// No letter, digit or mark touches it.
bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(utf8::decode(text.substr(before(text, begin))).code_point)) return false;
  return end == text.size() || !is_word(utf8::decode(text.substr(end)).code_point);
}

// Elements of HTML for text, lists and tables. The list leaves out words that formats use for their
// markers (`output`, `object`), and `s`, because many models have `<s>` as the token that begins a
// text.
constexpr std::string_view kHtmlElements[] = {
    "a",     "abbr",   "b",        "blockquote", "body", "br",    "caption", "cite",
    "code",  "col",    "colgroup", "dd",         "del",  "div",   "dl",      "dt",
    "em",    "footer", "h1",       "h2",         "h3",   "h4",    "h5",      "h6",
    "head",  "header", "hr",       "html",       "i",    "img",   "ins",     "kbd",
    "li",    "mark",   "ol",       "p",          "pre",  "q",     "samp",    "small",
    "span",  "strike", "strong",   "sub",        "sup",  "table", "tbody",   "td",
    "tfoot", "th",     "thead",    "tr",         "tt",   "u",     "ul",      "var"};

// True for `<td>`, `</td>` or `<br/>`.
bool is_html_tag(std::string_view text) {
  if (text.size() < 3 || !text.starts_with('<') || !text.ends_with('>')) return false;
  std::string_view name = text.substr(1, text.size() - 2);
  if (name.starts_with('/')) {
    name.remove_prefix(1);
  } else if (name.ends_with('/')) {
    name.remove_suffix(1);
  }
  return std::ranges::binary_search(kHtmlElements, name);
}

}  // namespace

bool looks_like_marker(std::string_view text) {
  return text.size() >= 3 && !is_html_tag(text) &&
         ((text.front() == '<' && text.back() == '>') ||
          (text.front() == '[' && text.back() == ']'));
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), search_(entries_of(tokens_)) {}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from,
                                                    Controls controls) const {
  for (std::size_t at = from; at < text.size();) {
    if (!search_.can_begin(text[at])) {
      ++at;
      continue;
    }
    const AddedToken* found = nullptr;
    // The shortest comes first, so the longest one that is allowed is left in `found`.
    search_.each(text.substr(at), [&](TokenId place, std::size_t /*length*/) {
      const AddedToken& token = tokens_[static_cast<std::size_t>(place)];
      if (!token.is_control || controls == Controls::on) found = &token;
    });
    if (found == nullptr) {
      ++at;
      continue;
    }
    Match match{at, at + found->text.size(), found->id};
    at = match.end;
    // As in the `tokenizers` package, the search goes on behind the whole match, not behind its
    // first byte.
    if (found->is_word && !is_whole_word(text, match.begin, match.end)) continue;
    while (found->strips_left && match.begin > from) {
      const std::size_t begin = before(text, match.begin);
      if (!is_space(utf8::decode(text.substr(begin)).code_point)) break;
      match.begin = begin;
    }
    while (found->strips_right && match.end < text.size()) {
      const utf8::Decoded next = utf8::decode(text.substr(match.end));
      if (!is_space(next.code_point)) break;
      match.end += next.length;
    }
    return match;
  }
  return std::nullopt;
}

}  // namespace tenon::vocab
