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

/// The tokenizer that a file describes, whatever the file's format: added tokens are found, what
/// lies between them is normalized, cut into pieces, and encoded piece by piece. load_tokenizer()
/// and its neighbours in tokenizer_file.h make one. Immutable, hence thread-safe.
///
/// It gives what the model's own tokenizer gives, but for this:
/// - With Controls::off no control token comes out, whatever the text: the model may not use them,
///   and where the vocabulary has a character as a control token only, it counts as unknown. (The
///   token for unknown characters itself does come out, where a vocabulary has no better.)
/// - The text "<0x41>" does not become the token of the byte 0x41.
/// - Text that is not UTF-8 has U+FFFD in place of what is not.
/// - The space that some tokenizers put before a text is put before its first word only where the
///   text is at the start.
class TextTokenizer final : public Tokenizer {
 public:
  /// What the file's reader found, each id within bounds.
  struct Parts {
    std::vector<std::string> bytes;  ///< By id: bytes(). Empty: the token is never chosen.
    std::vector<bool> is_control;    ///< By id.
    std::vector<TokenId> ends;       ///< End a generation.
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
  /// Fails with `invalid` at a character that the vocabulary lacks, with `limit_exceeded` at texts
  /// of more than 1 GiB and where the file's patterns take too long; `ids` is then as it was.
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
  AddedTokens raw_;         // looked for in the text
  AddedTokens normalized_;  // looked for in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<const Model> model_;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  bool adds_bos_ = false;
};

}  // namespace tenon::vocab
