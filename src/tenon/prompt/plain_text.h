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

/// Prompts as text, for servers that accept only text and read a control token wherever its text
/// stands. If text from outside spells a control token, alone or together with the template's text
/// beside it, a zero width space (U+200B) is put behind its first character. A reader sees the same
/// text, and the tokenizer sees no control token. This protects less than token ids do: a server
/// may know control tokens that this tokenizer does not have.
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
  std::bitset<std::size_t{1} << 16> pairs_;  // the two bytes that each control begins with
};

}  // namespace tenon::prompt
