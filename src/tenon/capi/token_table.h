#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/tokenizer.h"
#include "tenon/vocab/vocab.h"

namespace tenon::capi {

/// The tokens of an engine with a tokenizer of its own: they have bytes and names, but no text can
/// be encoded.
class TokenTable final : public vocab::Tokenizer {
 public:
  /// `tokens` that are unused have no bytes.
  TokenTable(std::vector<vocab::Token> tokens, std::vector<vocab::TokenId> ends);

  [[nodiscard]] std::size_t size() const override { return tokens_.size(); }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<vocab::TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(vocab::TokenId id) const override;
  [[nodiscard]] bool is_control(vocab::TokenId id) const override;
  [[nodiscard]] bool ends_generation(vocab::TokenId id) const override;
  [[nodiscard]] std::optional<vocab::TokenId> control_token(std::string_view text) const override;
  [[nodiscard]] std::optional<vocab::TokenId> bos() const override { return std::nullopt; }
  [[nodiscard]] std::optional<vocab::TokenId> eos() const override;
  [[nodiscard]] bool adds_bos() const override { return false; }

 private:
  [[nodiscard]] const vocab::Token* find(vocab::TokenId id) const;

  const std::vector<vocab::Token> tokens_;
  const std::vector<vocab::TokenId> ends_;
  std::map<std::string, vocab::TokenId, std::less<>> controls_;  // by name
};

}  // namespace tenon::capi
