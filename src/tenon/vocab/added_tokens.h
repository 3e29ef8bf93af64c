#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/vocab/prefix_search.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// A token that is looked for in the text itself, before a model sees it.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool is_control = false;     ///< Looked for with Controls::on only.
  bool is_normalized = false;  ///< Looked for after the normalizer, not before.
  bool is_word = false;        ///< Not as part of a word.
  bool strips_left = false;    ///< Takes the white space before it.
  bool strips_right = false;

  static constexpr std::size_t kLongest = 1024;  ///< Bytes of `text`, which is not empty.
};

/// True for a text such as `<tool_call>` or `[INST]`: markup by which a model knows a part of the
/// prompt, also where its file does not call it special. Such tokens are control tokens to us,
/// since a user who could write one could write a call. False for the tags of HTML's text and
/// tables, such as `<h1>` and `</td>`: where a vocabulary has them (Gemma's has some 70), they are
/// how its model reads a user's text.
[[nodiscard]] bool looks_like_marker(std::string_view text);

/// Finds added tokens, the leftmost and of these the longest. Immutable; linear but for the length
/// of a token.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  struct Match {
    std::size_t begin;  ///< With the white space that the token takes.
    std::size_t end;
    TokenId id;
  };
  /// The first that begins at `from` or later; what stands before `from` bounds words, but is not
  /// taken.
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from,
                                          Controls controls) const;

 private:
  std::vector<AddedToken> tokens_;
  PrefixSearch search_;  // its tokens are places in tokens_
};

}  // namespace tenon::vocab
