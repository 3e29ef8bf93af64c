#include "tenon/api/token_request.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

json::Value token_request_parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  return value.value_or(json::Value());
}

struct TokenRequestRefused {
  std::string_view name;
  std::string_view body;
  std::string_view param;
  std::string_view code;
};

const std::string kLongText = "{\"content\": \"" + std::string(kMaxTokenizedBytes + 1, 'x') + "\"}";

const TokenRequestRefused kRefusedTexts[] = {
    {"TooLong", kLongText, "content", "invalid_value"},
    {"List", "[]", "", "invalid_type"},
    {"NoContent", "{}", "content", "missing_required_parameter"},
    {"NullContent", R"({"content": null})", "content", "missing_required_parameter"},
    {"ContentOfOtherType", R"({"content": 1})", "content", "invalid_type"},
    {"ModelOfOtherType", R"({"content": "", "model": 1})", "model", "invalid_type"},
    {"SpecialOfOtherType", R"({"content": "", "parse_special": "yes"})", "parse_special",
     "invalid_type"},
    {"UnknownField", R"({"content": "", "add_special": true})", "add_special", "unknown_parameter"},
    {"OtherServersName", R"({"prompt": "x"})", "prompt", "unknown_parameter"},
};

const TokenRequestRefused kRefusedTokens[] = {
    {"String", "\"x\"", "", "invalid_type"},
    {"NoTokens", "{}", "tokens", "missing_required_parameter"},
    {"NullTokens", R"({"tokens": null})", "tokens", "missing_required_parameter"},
    {"TokensOfOtherType", R"({"tokens": 1})", "tokens", "invalid_type"},
    {"TokenOfOtherType", R"({"tokens": [1, "2"]})", "tokens[1]", "invalid_type"},
    {"NegativeToken", R"({"tokens": [-1]})", "tokens[0]", "invalid_value"},
    {"FractionOfAToken", R"({"tokens": [1.5]})", "tokens[0]", "invalid_value"},
    {"UnknownField", R"({"tokens": [], "skip_special": true})", "skip_special",
     "unknown_parameter"},
};

TEST(TokenRequest, RefusesWhatIsWrongByItsPath) {
  for (const TokenRequestRefused& test : kRefusedTexts) {
    SCOPED_TRACE(test.name);
    const auto decoded = decode_tokenize(token_request_parsed(test.body));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().param, test.param);
    EXPECT_EQ(decoded.error().code.name(), test.code);
  }
  for (const TokenRequestRefused& test : kRefusedTokens) {
    SCOPED_TRACE(test.name);
    const auto decoded = decode_detokenize(token_request_parsed(test.body));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().param, test.param);
    EXPECT_EQ(decoded.error().code.name(), test.code);
  }
}

TEST(TokenRequest, NullIsAsGoodAsAbsent) {
  const auto text = decode_tokenize(token_request_parsed(
      R"({"content": "x", "model": null, "parse_special": null, "other": null})"));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->model, "");
  EXPECT_FALSE(text->parse_special);
  const auto tokens =
      decode_detokenize(token_request_parsed(R"({"tokens": [1, 2], "model": null})"));
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->tokens, (std::vector<vocab::TokenId>{1, 2}));
}

}  // namespace
}  // namespace tenon::api
