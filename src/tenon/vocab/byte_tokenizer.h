#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// A tokenizer without a vocabulary: ids 0 to 255 are the bytes, and the given control tokens
/// follow in order from 256. It is for upstreams whose tokenizer is not available, and for tests.
///
///     const ByteTokenizer tokenizer({"<|im_start|>", "<|im_end|>"}, {.eos = "<|im_end|>"});
///     std::vector<TokenId> ids;
///     tokenizer.encode("hi<|im_end|>", Controls::on, true, ids);   // 'h', 'i', 257
///     tokenizer.encode("<|im_end|>", Controls::off, false, ids);   // ten bytes
///
/// encode() never fails and adds nothing. The ids do not depend on how the text is cut into pieces,
/// unless a cut goes through a control token's text. Immutable, hence thread-safe.
class ByteTokenizer final : public Tokenizer {
 public:
  /// The control tokens that have a role. Each is one of `controls`, or "".
  struct Roles {
    std::string bos;
    std::string eos;                ///< Also ends a generation.
    std::vector<std::string> ends;  ///< Further tokens that end a generation.
    bool adds_bos = false;
  };

  /// `controls` must not be empty and must differ from each other. If one begins with another, the
  /// longer one wins.
  ByteTokenizer(std::vector<std::string> controls, const Roles& roles);
  explicit ByteTokenizer(std::vector<std::string> controls = {});  ///< Without roles.

  [[nodiscard]] std::size_t size() const override { return kBytes + controls_.size(); }
  [[nodiscard]] Status encode(std::string_view text, Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  [[nodiscard]] std::size_t max_token_bytes() const override;
  [[nodiscard]] bool is_control(TokenId id) const override;
  [[nodiscard]] bool ends_generation(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> control_token(std::string_view text) const override;
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  [[nodiscard]] bool adds_bos() const override { return adds_bos_; }

 private:
  static constexpr std::size_t kBytes = 256;

  /// The longest control token at the beginning of `text`.
  std::optional<TokenId> control_at(std::string_view text) const;

  std::string all_bytes_;              // byte b is at index b; bytes() returns views of it
  std::vector<std::string> controls_;  // control token 256 + i
  std::vector<bool> ends_;             // control token 256 + i ends a generation
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  bool adds_bos_ = false;
};

}  // namespace tenon::vocab
