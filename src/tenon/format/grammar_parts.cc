// Markers are tokens of the model where its tokenizer has them as control tokens, and text where it
// has not. Everything that comes from a definition passes through marker(); names, schemas and
// values of the client never do, so that they cannot become control tokens.

#include "tenon/format/grammar_parts.h"

#include <algorithm>

#include "tenon/regex/byte_set.h"

namespace tenon::format {

// The model's turn ends inside the marker, so nothing can come behind it.
bool GrammarParts::ends_turn(std::string_view marker) const {
  std::vector<vocab::TokenId> ids;
  const vocab::Tokenizer* const tokenizer = options_.tokenizer;
  return tokenizer != nullptr && tokenizer->encode(marker, vocab::Controls::on, false, ids) &&
         std::ranges::any_of(ids, [&](vocab::TokenId id) {
           return tokenizer->is_control(id) && tokenizer->ends_generation(id);
         });
}

// A text of the definition; parts that are control tokens of the model are read as tokens.
NodeId GrammarParts::marker(std::string_view text) {
  std::vector<vocab::TokenId> ids;
  const vocab::Tokenizer* const tokenizer = options_.tokenizer;
  if (tokenizer == nullptr || !tokenizer->encode(text, vocab::Controls::on, false, ids)) {
    return rules_.literal(std::string(text));
  }
  std::vector<NodeId> parts;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) parts.push_back(rules_.literal(std::exchange(plain, {})));
  };
  // By the text, because a tokenizer may add a space of its own.
  for (const vocab::TokenId id : ids) {
    if (!tokenizer->is_control(id)) continue;
    const std::string_view name = tokenizer->bytes(id);
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos) continue;
    plain += text.substr(0, at);
    text.remove_prefix(at + name.size());
    end_plain();
    const auto number = static_cast<std::uint32_t>(id);
    parts.push_back(rules_.add(node::Token{{}, {{number, number}}, false}));
  }
  plain += text;
  end_plain();
  return rules_.sequence(std::move(parts));
}

// Without NUL, which JSON strings cannot contain either.
NodeId GrammarParts::text_until(std::vector<std::string> stops) {
  stops.emplace_back(1, '\0');
  return rules_.add(node::Text{std::move(stops)});
}

// The text with which `pattern` begins, after white space; empty: a slot.
std::string GrammarParts::first_literal(const Pattern& pattern) {
  for (const Piece& piece : pattern) {
    if (piece.kind == Piece::Kind::literal) return piece.text;
    if (piece.kind != Piece::Kind::space) break;
  }
  return {};
}

NodeId GrammarParts::spaces() {
  if (!spaces_) {
    spaces_ = rules_.add(node::Pattern{"[ \\t\\r\\n]{0," + std::to_string(kMaxSpaces) + "}"});
  }
  return *spaces_;
}

bool GrammarParts::has_control(std::string_view text) const {
  std::vector<vocab::TokenId> ids;
  const vocab::Tokenizer* const tokenizer = options_.tokenizer;
  return tokenizer != nullptr && tokenizer->encode(text, vocab::Controls::on, false, ids) &&
         std::ranges::any_of(ids, [&](vocab::TokenId id) { return tokenizer->is_control(id); });
}

std::string GrammarParts::within(std::string_view quote, std::string_view text) {
  return std::string(quote).append(text).append(quote);
}

NodeId GrammarParts::both(NodeId one, NodeId other) {
  return rules_.add(node::Lexeme{rules_.add(node::Both{{one, other}})});
}

// `text` without the part with which the prompt ends.
std::string GrammarParts::behind_prompt(const std::string& text) const {
  const std::string& end = format_.prompt_end;
  return !end.empty() && text.starts_with(end) ? text.substr(end.size()) : text;
}

NodeId GrammarParts::without(NodeId text, std::vector<NodeId> barred) {
  if (barred.empty()) return text;
  return both(text, rules_.add(node::Complement{
                        rules_.sequence({rules_.choice(std::move(barred)), anything()})}));
}

// Any bytes, also invalid characters. So after an excluded text the state is dead at once,
// without a search. Grammars that are printed have characters only.
NodeId GrammarParts::anything() {
  if (options_.tokenizer == nullptr) return rules_.add(node::Text{});
  return any_number(rules_.add(node::Bytes{regex::ByteSet::all()}));
}

void GrammarParts::add_new(std::vector<std::string>& texts, std::string text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
}

void GrammarParts::begin_form(const Syntax& form) {
  syntax_ = &form;
  json_ = options_.json;
  if (form.layout == Layout::compact) json_.whitespace = JsonOptions::Whitespace::compact;
  if (form.layout != Layout::any) return;
  json_.whitespace = JsonOptions::Whitespace::any;
  json_.max_whitespace = kMaxSpaces;  // a line break, and four spaces for each level
}

NodeId GrammarParts::any_marker(const std::vector<std::string>& texts) {
  std::vector<NodeId> ways;
  for (const std::string& text : texts) ways.push_back(marker(text));
  return rules_.choice(std::move(ways));
}

// The text of a pattern without slots.
std::string GrammarParts::text_of(const Pattern& pattern) {
  std::string text;
  for (const Piece& piece : pattern) text += piece.text;
  return text;
}

void GrammarParts::fail(const Error& error) {
  if (error_) return;
  const std::string where = tool_ != nullptr ? "tool '" + tool_->name + "': " : "";
  error_ = Error{error.code, where + error.message};
}

NodeId GrammarParts::bracketed(const char* open, NodeId body, const char* close) {
  return rules_.sequence({rules_.literal(open), body, rules_.literal(close)});
}

NodeId GrammarParts::either(std::string_view a, std::string_view b) {
  return rules_.choice({rules_.literal(std::string(a)), rules_.literal(std::string(b))});
}

}  // namespace tenon::format
