#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/vocab/prefix_search.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// A token that is searched for in the text itself, before the text reaches the model part of a
/// tokenizer.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool is_control = false;     ///< Found with Controls::on only.
  bool is_normalized = false;  ///< Found after the normalizer, not before.
  bool is_word = false;        ///< Not found as part of a word.
  bool strips_left = false;    ///< Takes the white space before it.
  bool strips_right = false;

  static constexpr std::size_t kLongest = 1024;  ///< The most bytes of `text`, which must not be
                                                 ///< empty.
};

/// True for a text such as `<tool_call>` or `[INST]`: markup by which a model recognises a part of
/// the prompt, even if its file does not call it special. Tenon treats such tokens as control
/// tokens, because a user who could write one could write a tool call. False for the tags of HTML's
/// text and tables, such as `<h1>` and `</td>`: vocabularies that have them (Gemma's has some 70)
/// have them for the texts of users.
[[nodiscard]] bool looks_like_marker(std::string_view text);

/// Finds added tokens: the leftmost one, and among those the longest. Immutable. Linear, apart from
/// the length of a token.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  struct Match {
    std::size_t begin;  ///< Includes the white space that the token takes.
    std::size_t end;
    TokenId id;
  };
  /// The first match that begins at `from` or later. Text before `from` counts as a neighbour of
  /// words, but is never part of a match.
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from,
                                          Controls controls) const;

 private:
  std::vector<AddedToken> tokens_;
  PrefixSearch search_;  // its tokens are indices in tokens_
};

}  // namespace tenon::vocab
