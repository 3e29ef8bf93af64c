#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/token_trie.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// What a token id stands for.
struct Token {
  enum class Kind : std::uint8_t {
    text,     ///< `bytes` are part of the text.
    control,  ///< Text cannot produce it; `bytes` is its name, such as "<|im_end|>".
    unused,   ///< Never chosen: it has no bytes, or bytes without meaning.
  };
  std::string bytes;
  Kind kind = Kind::text;
};

/// The bytes of each token id: all that grammars need to know of a tokenizer. Immutable, and shared
/// by threads and grammars.
///
///     Expected<std::shared_ptr<const Vocab>> vocab = Vocab::of(engine.tokenizer());
class Vocab {
 public:
  /// `ends`: the ids with which a model ends its turn. Fails with `invalid` if there are no tokens,
  /// an end is out of range, or a printable ASCII character or a continuation byte of UTF-8 is not
  /// a token by itself, because such a model could hardly write anything. Other bytes may be
  /// missing, as some control characters are in real vocabularies; then no mask leads to a text
  /// that contains them.
  [[nodiscard]] static Expected<std::shared_ptr<const Vocab>> make(std::vector<Token> tokens,
                                                                   std::vector<TokenId> ends);
  /// `more_ends` are added to the tokenizer's own.
  [[nodiscard]] static Expected<std::shared_ptr<const Vocab>> of(
      const Tokenizer& tokenizer, std::vector<TokenId> more_ends = {});

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    return tokens_[static_cast<std::size_t>(id)].bytes;
  }
  [[nodiscard]] Token::Kind kind(TokenId id) const {
    return tokens_[static_cast<std::size_t>(id)].kind;
  }
  [[nodiscard]] std::span<const TokenId> ends() const { return ends_; }
  /// The trie of all text tokens with bytes.
  [[nodiscard]] const TokenTrie& trie() const { return trie_; }

 private:
  Vocab(std::vector<Token> tokens, std::vector<TokenId> ends);

  std::vector<Token> tokens_;
  std::vector<TokenId> ends_;
  TokenTrie trie_;
};

}  // namespace tenon::vocab
