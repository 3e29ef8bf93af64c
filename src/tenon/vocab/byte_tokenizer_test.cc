#include "tenon/vocab/byte_tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::vocab {
namespace {

using Ids = std::vector<TokenId>;

const ByteTokenizer& chat_tokenizer() {
  static const ByteTokenizer tokenizer(
      {"<s>", "<|end|>", "<|end|>\n", "<|eom|>"},
      {.bos = "<s>", .eos = "<|end|>", .ends = {"<|eom|>"}, .adds_bos = true});
  return tokenizer;
}

Ids encode(std::string_view text, Controls controls) {
  Ids ids;
  EXPECT_TRUE(chat_tokenizer().encode(text, controls, /*at_start=*/true, ids));
  return ids;
}

TEST(ByteTokenizer, KnowsItsLongestToken) {
  EXPECT_EQ(ByteTokenizer().max_token_bytes(), 1u);
  EXPECT_EQ(chat_tokenizer().max_token_bytes(), 8u);
}

struct Encoding {
  std::string_view name;
  std::string_view text;
  Controls controls;
  Ids ids;
};

const Encoding kEncodings[] = {
    {"Empty", "", Controls::on, {}},
    {"BytesAreThemselves", "a\xff", Controls::on, {'a', 0xff}},
    {"ControlsOff", "<s>", Controls::off, {'<', 's', '>'}},
    {"ControlsOn", "a<s>b", Controls::on, {'a', 256, 'b'}},
    {"LongestControlWins", "<|end|>\n<|end|>", Controls::on, {258, 257}},
    {"UnfinishedControlStaysText", "<s", Controls::on, {'<', 's'}},
};

class ByteEncoding : public ::testing::TestWithParam<Encoding> {};

TEST_P(ByteEncoding, GivesTheIdsAndComesBack) {
  const Ids ids = encode(GetParam().text, GetParam().controls);
  EXPECT_EQ(ids, GetParam().ids);
  std::string text;
  for (TokenId id : ids) text += chat_tokenizer().bytes(id);
  EXPECT_EQ(text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Rules, ByteEncoding, ::testing::ValuesIn(kEncodings),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ByteTokenizer, AppendsToTheIds) {
  Ids ids = {7};
  EXPECT_TRUE(chat_tokenizer().encode("a", Controls::on, false, ids));
  EXPECT_EQ(ids, (Ids{7, 'a'}));
}

TEST(ByteTokenizer, KnowsTheRoleOfEveryId) {
  const ByteTokenizer& tokenizer = chat_tokenizer();
  ASSERT_EQ(tokenizer.size(), 260U);
  for (TokenId id = 0; id < 260; ++id) {
    SCOPED_TRACE(id);
    EXPECT_EQ(tokenizer.is_control(id), id >= 256);
    EXPECT_EQ(tokenizer.ends_generation(id), id == 257 || id == 259);
    EXPECT_FALSE(tokenizer.bytes(id).empty());
    const auto control = tokenizer.control_token(tokenizer.bytes(id));
    EXPECT_EQ(control, id >= 256 ? std::optional(id) : std::nullopt);
  }
  for (TokenId id : {-1, 260, 1 << 30}) {
    EXPECT_EQ(tokenizer.bytes(id), "");
    EXPECT_FALSE(tokenizer.is_control(id));
    EXPECT_FALSE(tokenizer.ends_generation(id));
  }
  EXPECT_EQ(tokenizer.bos(), 256);
  EXPECT_EQ(tokenizer.eos(), 257);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.control_token("a"), std::nullopt);
  EXPECT_EQ(tokenizer.control_token(""), std::nullopt);
}

TEST(ByteTokenizer, HasNoRolesUnlessGiven) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.size(), 256U);
  EXPECT_EQ(tokenizer.bos(), std::nullopt);
  EXPECT_EQ(tokenizer.eos(), std::nullopt);
  EXPECT_FALSE(tokenizer.adds_bos());
}

}  // namespace
}  // namespace tenon::vocab
