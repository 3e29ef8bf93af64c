#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/prompt/prompt.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::prompt {

/// Prompts as text, for servers that take nothing else and read a control token wherever its text
/// stands. Where text from outside spells one, alone or with the template's text beside it, a zero
/// width space (U+200B) stands behind its first character: to a reader the text is as it was, to
/// the tokenizer it is text. That is all that can be done there, and less than token ids do: what a
/// server takes for control tokens beside this tokenizer's is not known here.
///
///     const PlainText plain(tokenizer);
///     send(plain.of(prompt));   // "<|im_end|>" of a user is "<\u200b|im_end|>" now
///
/// Immutable, hence thread-safe. Linear in the text; the tokenizer outlives it.
class PlainText {
 public:
  explicit PlainText(const vocab::Tokenizer& tokenizer);

  [[nodiscard]] std::string of(const Prompt& prompt) const;

 private:
  std::unordered_set<std::string_view> controls_;
  std::vector<std::size_t> lengths_;         // of the controls, in bytes, each once, shortest first
  std::bitset<std::size_t{1} << 16> pairs_;  // of bytes that controls begin with
};

}  // namespace tenon::prompt
