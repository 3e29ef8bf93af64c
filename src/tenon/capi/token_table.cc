#include "tenon/capi/token_table.h"

#include <algorithm>

namespace tenon::capi {

using vocab::TokenId;

// If two control tokens have the same name, the first one counts.
TokenTable::TokenTable(std::vector<vocab::Token> tokens, std::vector<TokenId> ends)
    : tokens_(std::move(tokens)), ends_(std::move(ends)) {
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].kind != vocab::Token::Kind::control) continue;
    controls_.emplace(tokens_[id].bytes, static_cast<TokenId>(id));
  }
}

const vocab::Token* TokenTable::find(TokenId id) const {
  const auto at = static_cast<std::size_t>(id);
  return id < 0 || at >= tokens_.size() ? nullptr : &tokens_[at];
}

Status TokenTable::encode(std::string_view /*text*/, vocab::Controls /*controls*/,
                          bool /*at_start*/, std::vector<TokenId>& /*ids*/) const {
  return Unexpected(Error{Errc::unsupported,
                          "the vocabulary was made of tokens alone, and has no tokenizer that "
                          "could encode a text"});
}

std::string_view TokenTable::bytes(TokenId id) const {
  const vocab::Token* const token = find(id);
  return token == nullptr ? std::string_view() : token->bytes;
}

bool TokenTable::is_control(TokenId id) const {
  const vocab::Token* const token = find(id);
  return token != nullptr && token->kind == vocab::Token::Kind::control;
}

bool TokenTable::ends_generation(TokenId id) const {
  return std::ranges::find(ends_, id) != ends_.end();
}

std::optional<TokenId> TokenTable::control_token(std::string_view text) const {
  const auto found = controls_.find(text);
  if (found == controls_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> TokenTable::eos() const {
  if (ends_.empty()) return std::nullopt;
  return ends_.front();
}

}  // namespace tenon::capi
