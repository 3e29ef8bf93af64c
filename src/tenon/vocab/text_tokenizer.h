#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/added_tokens.h"
#include "tenon/vocab/model.h"
#include "tenon/vocab/normalizer.h"
#include "tenon/vocab/pre_tokenizer.h"
#include "tenon/vocab/string_table.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// The tokenizer that a file describes, whatever the file's format. It finds added tokens; the text
/// between them is normalized, cut into pieces, and encoded piece by piece. load_tokenizer() and
/// the other functions of tokenizer_file.h make one. Immutable, hence thread-safe.
///
/// Its ids are those of the model's own tokenizer, with these differences:
/// - With Controls::off it never returns a control token: the model part may not use them, and a
///   character that the vocabulary has only as a control token counts as unknown. (The token for
///   unknown characters itself is returned if the vocabulary has no other.)
/// - The text "<0x41>" does not become the token of the byte 0x41.
/// - In text that is not UTF-8, U+FFFD replaces the invalid bytes.
/// - The space that some tokenizers put before a text is put only before the first word of a text
///   at the start.
class TextTokenizer final : public Tokenizer {
 public:
  /// What the reader of the file found. Each id is within bounds.
  struct Parts {
    std::vector<std::string> bytes;  ///< By id: bytes(). Empty: the token is never chosen.
    std::vector<bool> is_control;    ///< By id.
    std::vector<TokenId> ends;       ///< Tokens that end a generation.
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    std::unique_ptr<const Model> model;
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    bool adds_bos = false;
  };
  explicit TextTokenizer(Parts parts);

  [[nodiscard]] std::size_t size() const override { return flags_.size(); }
  /// Fails with `invalid` at a character that the vocabulary does not have, with `limit_exceeded`
  /// at texts of more than 1 GiB and if the file's patterns take too long; `ids` is then unchanged.
  [[nodiscard]] Status encode(std::string_view text, Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  [[nodiscard]] std::size_t max_token_bytes() const override { return bytes_.max_length(); }
  [[nodiscard]] bool is_control(TokenId id) const override { return has_flag(id, kControl); }
  [[nodiscard]] bool ends_generation(TokenId id) const override { return has_flag(id, kEnds); }
  [[nodiscard]] std::optional<TokenId> control_token(std::string_view text) const override {
    return bytes_.find(text);
  }
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  [[nodiscard]] bool adds_bos() const override { return adds_bos_; }

 private:
  static constexpr std::uint8_t kControl = 1;  // flags of a token
  static constexpr std::uint8_t kEnds = 2;

  [[nodiscard]] bool has_flag(TokenId id, std::uint8_t flag) const;
  [[nodiscard]] Status encode_parts(std::string_view text, Controls controls, bool at_start,
                                    std::vector<TokenId>& ids) const;
  [[nodiscard]] Status encode_normalized(std::string_view text, Controls controls, Place place,
                                         std::vector<TokenId>& ids) const;
  [[nodiscard]] Status encode_plain(std::string_view text, Place place,
                                    std::vector<TokenId>& ids) const;

  StringTable bytes_;  // finds control tokens only
  std::vector<std::uint8_t> flags_;
  AddedTokens raw_;         // found in the text
  AddedTokens normalized_;  // found in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<const Model> model_;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  bool adds_bos_ = false;
};

}  // namespace tenon::vocab
