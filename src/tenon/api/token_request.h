#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

/// Decodes requests from text to tokens and back. Errors are those of decode_chat_completion.
namespace tenon::api {

/// POST /tokenize.
struct TokenizeRequest {
  std::string model;  ///< "": the only model.
  std::string content;
  bool parse_special = false;  ///< Texts of control tokens become control tokens.
};

/// POST /detokenize.
struct DetokenizeRequest {
  std::string model;
  std::vector<vocab::TokenId> tokens;
};

/// Tokenising takes about a second per megabyte.
inline constexpr std::size_t kMaxTokenizedBytes = std::size_t{2} << 20;
inline constexpr std::size_t kMaxDetokenized = std::size_t{1} << 18;

[[nodiscard]] Result<TokenizeRequest, ApiError> decode_tokenize(const json::Value& body);
[[nodiscard]] Result<DetokenizeRequest, ApiError> decode_detokenize(const json::Value& body);

}  // namespace tenon::api
