#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/rules/rules.h"

/// Functions that the tests of the front ends share.
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

inline Expected<std::shared_ptr<Grammar>> grammar_for_test(std::string_view source, Syntax syntax,
                                                           MachineLimits limits = {}) {
  const auto rules = read_rules(source, syntax);
  if (!rules) return Unexpected(rules.error());
  return grammar_for_test(*rules, limits);
}

/// Whether the grammar reads all of `text`, in which the names of control tokens and <think> stand
/// for these tokens.
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

/// A grammar, with texts that it reads and texts that it does not.
struct ReadRow {
  const char* name;
  std::string source;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};
inline void expect_read(const ReadRow& row, Syntax syntax) {
  SCOPED_TRACE(row.name);
  const auto grammar = grammar_for_test(row.source, syntax);
  ASSERT_TRUE(grammar) << grammar.error().message;
  for (const std::string& text : row.yes) EXPECT_TRUE(reads(*grammar, text)) << text;
  for (const std::string& text : row.no) EXPECT_FALSE(reads(*grammar, text)) << text;
}

/// A grammar that is refused.
struct RefusedRow {
  const char* name;
  std::string source;
  Errc code;
  std::string message;
};
inline void expect_refused(const RefusedRow& row, Syntax syntax) {
  SCOPED_TRACE(row.name);
  const auto grammar = grammar_for_test(row.source, syntax);
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, row.code);
  EXPECT_EQ(grammar.error().message, row.message);
}

}  // namespace tenon::grammar
