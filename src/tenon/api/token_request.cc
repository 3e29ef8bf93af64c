#include "tenon/api/token_request.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "tenon/api/fields.h"

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;

// Both requests are small, so they have no table of fields.
class TokenDecoder : private FieldReader {
 public:
  Result<TokenizeRequest, ApiError> tokenize(const Value& body) {
    TokenizeRequest out;
    if (read(body, out)) return out;
    return Failure<ApiError>(*std::move(error_));
  }
  Result<DetokenizeRequest, ApiError> detokenize(const Value& body) {
    DetokenizeRequest out;
    if (read(body, out)) return out;
    return Failure<ApiError>(*std::move(error_));
  }

 private:
  bool model(const Value& body, std::string& out) {
    const Value* name = present(body, "model");
    return name == nullptr || string(*name, "model", out);
  }

  bool read(const Value& body, TokenizeRequest& out) {
    if (!kind(body, Kind::object, "") || !only(body, "", {"model", "content", "parse_special"})) {
      return false;
    }
    if (!model(body, out.model)) return false;
    if (!required_string(body, "", "content", out.content)) return false;
    if (!at_most(kMaxTokenizedBytes, out.content.size(), "content", "bytes")) return false;
    const Value* special = present(body, "parse_special");
    return special == nullptr || boolean(*special, "parse_special", out.parse_special);
  }

  bool read(const Value& body, DetokenizeRequest& out) {
    if (!kind(body, Kind::object, "") || !only(body, "", {"model", "tokens"})) return false;
    if (!model(body, out.model)) return false;
    const Value* tokens = required(body, "", "tokens");
    if (tokens == nullptr || !kind(*tokens, Kind::array, "tokens")) return false;
    const json::Array& items = *tokens->if_array();
    if (!at_most(kMaxDetokenized, items.size(), "tokens", "ids")) return false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::int64_t id = 0;
      if (!integer(items[i], at("tokens", i), 0, std::numeric_limits<vocab::TokenId>::max(), id)) {
        return false;
      }
      out.tokens.push_back(static_cast<vocab::TokenId>(id));
    }
    return true;
  }
};

}  // namespace

Result<TokenizeRequest, ApiError> decode_tokenize(const Value& body) {
  return TokenDecoder().tokenize(body);
}

Result<DetokenizeRequest, ApiError> decode_detokenize(const Value& body) {
  return TokenDecoder().detokenize(body);
}

}  // namespace tenon::api
