#include "tenon/vocab/vocab.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::vocab {
namespace {

using ::testing::HasSubstr;

std::vector<Token> all_bytes() {
  std::vector<Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  return tokens;
}

TEST(Vocab, KnowsBytesKindsAndEnds) {
  std::vector<Token> tokens = all_bytes();
  tokens.push_back({"<|end|>", Token::Kind::control});
  tokens.push_back({"ab"});
  tokens.push_back({"", Token::Kind::unused});
  const auto vocab = Vocab::make(std::move(tokens), {256});
  ASSERT_TRUE(vocab) << vocab.error().message;
  EXPECT_EQ((*vocab)->size(), 259U);
  EXPECT_EQ((*vocab)->bytes(257), "ab");
  EXPECT_EQ((*vocab)->kind(256), Token::Kind::control);
  EXPECT_THAT((*vocab)->ends(), ::testing::ElementsAre(256));
  EXPECT_EQ((*vocab)->trie().tokens_below(0).size(), 257U);  // neither control nor unused
}

TEST(Vocab, OfATokenizer) {
  const ByteTokenizer tokenizer({"<|end|>", "<tool>"});
  const auto vocab = Vocab::of(tokenizer);
  ASSERT_TRUE(vocab) << vocab.error().message;
  ASSERT_EQ((*vocab)->size(), tokenizer.size());
  for (TokenId id = 0; std::cmp_less(id, tokenizer.size()); ++id) {
    EXPECT_EQ((*vocab)->bytes(id), tokenizer.bytes(id));
    EXPECT_EQ((*vocab)->kind(id) == Token::Kind::control, tokenizer.is_control(id));
  }
}

TEST(Vocab, RefusesWhatCannotWriteEveryText) {
  struct Row {
    const char* name;
    std::vector<Token> tokens;
    std::vector<TokenId> ends;
    const char* says;
  };
  std::vector<Token> without_quote = all_bytes();
  without_quote['"'].bytes = "\"\"";
  std::vector<Token> control_a = all_bytes();
  control_a['a'].kind = Token::Kind::control;
  std::vector<Token> without_middle = all_bytes();
  without_middle[0x9D].bytes = "abc";
  const Row rows[] = {
      {"NoTokens", {}, {}, "no tokens"},
      {"AByteWithoutToken", without_quote, {}, "0x22"},
      {"AByteThatIsAControlToken", control_a, {}, "0x61"},
      {"AByteThatContinuesACharacter", without_middle, {}, "0x9D"},
      {"AnEndOutOfRange", all_bytes(), {256}, "end token 256"},
      {"ANegativeEnd", all_bytes(), {-1}, "end token -1"},
  };
  for (const Row& row : rows) {
    const auto vocab = Vocab::make(row.tokens, row.ends);
    ASSERT_FALSE(vocab) << row.name;
    EXPECT_EQ(vocab.error().code, Errc::invalid) << row.name;
    EXPECT_THAT(vocab.error().message, HasSubstr(row.says)) << row.name;
  }
}

// A model can do without them: SmolLM2 has no token for 0x04, and UTF-8 has no byte 0xFF.
TEST(Vocab, MayLackBytesThatFewTextsHave) {
  for (const unsigned byte : {0x00, 0x04, 0x1F, 0x7F, 0xC0, 0xF1, 0xFF}) {
    std::vector<Token> tokens = all_bytes();
    tokens[byte].bytes = "abc";
    EXPECT_TRUE(Vocab::make(std::move(tokens), {})) << byte;
  }
}

}  // namespace
}  // namespace tenon::vocab
