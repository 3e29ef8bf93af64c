#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/grammar/matcher.h"
#include "tenon/grammar/rules.h"

/// What the tests of the front ends share.
namespace tenon::grammar {

/// A vocabulary of all bytes, a few longer texts, an end token and two control tokens.
inline std::shared_ptr<VocabIndex> index_for_test() {
  using vocab::Token;
  std::vector<Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  for (const char* text : {"ab", "ba", "aa", "abab", "bb", "<think>"}) tokens.push_back({text});
  tokens.push_back({"<|end|>", Token::Kind::control});
  tokens.push_back({"<|call|>", Token::Kind::control});
  tokens.push_back({"<|done|>", Token::Kind::control});
  const auto end = static_cast<vocab::TokenId>(tokens.size()) - 3;
  return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {end}));
}

inline Expected<std::shared_ptr<Grammar>> grammar_for_test(const Rules& rules,
                                                           MachineLimits limits = {}) {
  auto index = index_for_test();
  auto machine = std::make_unique<Machine>(limits);
  const auto root = add_rules(*machine, rules, index->vocab());
  if (!root) return Unexpected(root.error());
  return Grammar::make(std::move(machine), *root, std::move(index));
}

/// Whether the grammar reads `text`, in which the names of control tokens and of <think> are these
/// tokens, and ends there.
inline bool reads(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  const auto vocab = index_for_test();
  Matcher matcher(grammar);
  while (!text.empty()) {
    vocab::TokenId token = static_cast<unsigned char>(text[0]);
    for (vocab::TokenId id = 261; std::cmp_less(id, vocab->vocab().size()); ++id) {
      if (text.starts_with(vocab->vocab().bytes(id))) token = id;
    }
    if (!matcher.accept(token)) return false;
    text.remove_prefix(vocab->vocab().bytes(token).size());
  }
  return matcher.is_accepting();
}

}  // namespace tenon::grammar
