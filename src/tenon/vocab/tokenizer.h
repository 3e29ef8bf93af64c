#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::vocab {

using TokenId = std::int32_t;

/// Whether text may become control tokens. It is always `off` for text from users, tools and
/// schemas.
enum class Controls : std::uint8_t { off, on };

/// A model's tokenizer: text to token ids and back. Each engine has one. Its methods are const and
/// may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The number of token ids; every id is in [0, size()).
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// Appends the ids of `text` (UTF-8) to `ids`, without a begin-of-text token. With Controls::on
  /// the texts of control tokens in `text` become these tokens; with Controls::off they stay text.
  /// `at_start` is false for a piece that continues an earlier one, so that tokenizers that prepend
  /// a space do so only once. A control character without a token is left out, as the reference
  /// tokenizers do; fails with `invalid` at another character without a token.
  [[nodiscard]] virtual Status encode(std::string_view text, Controls controls, bool at_start,
                                      std::vector<TokenId>& ids) const = 0;

  /// The bytes that `id` stands for, which may be part of a character; for a control token, its
  /// text. The view lives as long as the tokenizer. Empty for an id out of range.
  [[nodiscard]] virtual std::string_view bytes(TokenId id) const = 0;

  /// The length of the longest token in bytes, so a text of n tokens has at most n times as many
  /// bytes; 0: unknown.
  [[nodiscard]] virtual std::size_t max_token_bytes() const { return 0; }

  /// True for tokens that text cannot produce (`<|im_end|>`); false for byte tokens.
  [[nodiscard]] virtual bool is_control(TokenId id) const = 0;

  /// True if the model ends its turn with `id` (eos, eot, eom).
  [[nodiscard]] virtual bool ends_generation(TokenId id) const = 0;

  /// The control token with exactly this text.
  [[nodiscard]] virtual std::optional<TokenId> control_token(std::string_view text) const = 0;

  [[nodiscard]] virtual std::optional<TokenId> bos() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> eos() const = 0;
  /// True if the model was trained with bos before every text, so prompts must begin with it.
  [[nodiscard]] virtual bool adds_bos() const = 0;
};

}  // namespace tenon::vocab
