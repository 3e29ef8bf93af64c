#include "tenon/vocab/vocab.h"

#include <array>
#include <utility>

namespace tenon::vocab {

namespace {

// The trie has what texts are made of: no control tokens and no unused ones.
std::vector<TokenTrie::Entry> text_entries(const std::vector<Token>& tokens) {
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].kind == Token::Kind::text) {
      entries.push_back({tokens[id].bytes, static_cast<TokenId>(id)});
    }
  }
  return entries;
}

// Without these bytes hardly any text can be written, or a character that a token has begun cannot
// be ended. Other bytes are missing in real vocabularies (SmolLM2 has no token for 0x04); then
// masks leave out the texts that need them.
bool is_needed(unsigned byte) {
  const bool is_printable = byte >= 0x20 && byte < 0x7F;
  const bool continues_character = byte >= 0x80 && byte < 0xC0;
  return is_printable || continues_character;
}

std::string hex(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'0', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
}

}  // namespace

Vocab::Vocab(std::vector<Token> tokens, std::vector<TokenId> ends)
    : tokens_(std::move(tokens)), ends_(std::move(ends)), trie_(text_entries(tokens_)) {}

Expected<std::shared_ptr<const Vocab>> Vocab::make(std::vector<Token> tokens,
                                                   std::vector<TokenId> ends) {
  if (tokens.empty()) return Unexpected(Error{Errc::invalid, "the vocabulary has no tokens"});
  for (const TokenId end : ends) {
    if (end < 0 || static_cast<std::size_t>(end) >= tokens.size()) {
      return Unexpected(Error{Errc::invalid, "the end token " + std::to_string(end) +
                                                 " is not in the vocabulary of " +
                                                 std::to_string(tokens.size()) + " tokens"});
    }
  }
  // Bytes that are a token by themselves.
  std::array<bool, 256> reached{};
  for (const Token& token : tokens) {
    if (token.kind == Token::Kind::text && token.bytes.size() == 1) {
      reached[static_cast<unsigned char>(token.bytes[0])] = true;
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!reached[byte] && is_needed(byte)) {
      return Unexpected(
          Error{Errc::invalid, "no token is the single byte " + hex(byte) +
                                   ", so the model cannot write every text: a vocabulary has one "
                                   "for each printable ASCII character and for each byte that "
                                   "continues a character of UTF-8"});
    }
  }
  return std::shared_ptr<const Vocab>(new Vocab(std::move(tokens), std::move(ends)));
}

Expected<std::shared_ptr<const Vocab>> Vocab::of(const Tokenizer& tokenizer,
                                                 std::vector<TokenId> more_ends) {
  std::vector<Token> tokens(tokenizer.size());
  std::vector<TokenId> ends = std::move(more_ends);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    tokens[i].bytes = tokenizer.bytes(id);
    if (tokenizer.is_control(id)) {
      tokens[i].kind = Token::Kind::control;
    } else if (tokens[i].bytes.empty()) {
      tokens[i].kind = Token::Kind::unused;
    }
    if (tokenizer.ends_generation(id)) ends.push_back(id);
  }
  return make(std::move(tokens), std::move(ends));
}

}  // namespace tenon::vocab
