#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/tokenizer.h"

struct llama_vocab;

namespace tenon::engine {

using vocab::TokenId;

/// The tokenizer of a GGUF file, by libllama. Immutable, so thread-safe.
///
/// Four things differ from what libllama does by itself:
/// - With Controls::off no control token comes out, for any text and vocabulary. libllama would
///   still make one of the text of a *user defined* token (`<tool_call>` in many files;
///   is_control() is true for these, too), or of a word that is also a control token, so a user
///   could write a call into the prompt. Such a text is written in other, more tokens. A single
///   character for which the vocabulary has only a control token is refused as `invalid`. The one
///   exception is the token for unknown characters, if a vocabulary has it.
/// - The space that SentencePiece models expect before the first word is added once, at the start
///   of the prompt, and not after every control token. The model is loaded with libllama's own
///   adding switched off; `adds_space` says what the file asked for.
/// - Long texts are cut where no token can span the cut (before a word), because libllama's regular
///   expressions recurse per character and its search for user-defined tokens is quadratic. Only a
///   word of more than 4 KiB is cut inside; its tokens may then differ.
/// - The bytes of all tokens are in one block, so bytes() is an array access.
class LlamaTokenizer final : public vocab::Tokenizer {
 public:
  /// `vocab` outlives this.
  LlamaTokenizer(const llama_vocab* vocab, bool adds_space);

  [[nodiscard]] std::size_t size() const override { return flags_.size(); }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  [[nodiscard]] std::size_t max_token_bytes() const override { return max_token_bytes_; }
  [[nodiscard]] bool is_control(TokenId id) const override;
  [[nodiscard]] bool ends_generation(TokenId id) const override;
  [[nodiscard]] std::optional<TokenId> control_token(std::string_view text) const override;
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  [[nodiscard]] bool adds_bos() const override { return adds_bos_; }

 private:
  enum Flag : std::uint8_t { kControl = 1, kEnds = 2 };

  bool has_flag(TokenId id, Flag flag) const;
  void read_tokens();
  Status encode_long(std::string_view text, bool parse_controls, std::vector<TokenId>& ids) const;
  Status encode_data(std::string_view text, std::vector<TokenId>& ids) const;
  Status encode_piece(std::string_view text, bool parse_controls, std::vector<TokenId>& ids) const;
  bool begins_with_control(std::string_view text) const;

  const llama_vocab* vocab_;
  bool adds_space_;
  bool adds_bos_ = false;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  std::string arena_;                 // the bytes of all tokens, one after the other
  std::vector<std::size_t> ends_at_;  // token i is arena_[ends_at_[i - 1], ends_at_[i])
  std::size_t max_token_bytes_ = 0;
  std::vector<std::uint8_t> flags_;                         // per token; bits of Flag
  std::unordered_map<std::string_view, TokenId> controls_;  // views into arena_
  std::vector<std::size_t> control_lengths_;                // each length once, ascending
  bool begins_control_[256] = {};                           // by first byte
};

}  // namespace tenon::engine
