#include "tenon/mcp/request_state.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "tenon/base/ids.h"
#include "tenon/mcp/encoding.h"

// A sealed state is its code, a point, and the state as JSON. The code is HMAC-SHA256 (RFC 2104)
// over the length of the state, the state and the request: with the length no two pairs are the
// same bytes.
namespace tenon::mcp {

RequestStates::RequestStates() : key_{} {
  fill_random(key_.data(), key_.size());
}

std::string RequestStates::code(std::string_view state, std::string_view request) const {
  const std::string text =
      std::to_string(state.size()) + ":" + std::string(state) + std::string(request);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), bytes, text.size(),
           code.data(), &size) == nullptr) {
    return {};
  }
  return base64url({reinterpret_cast<const char*>(code.data()), size});
}

std::string RequestStates::seal(const json::Value& state, std::string_view request) const {
  const std::string text = json::to_string(state);
  return code(text, request) + "." + text;
}

std::optional<json::Value> RequestStates::open(std::string_view sealed,
                                               std::string_view request) const {
  const std::size_t point = sealed.find('.');
  if (point == std::string_view::npos) return std::nullopt;
  const std::string_view given = sealed.substr(0, point);
  const std::string_view state = sealed.substr(point + 1);
  const std::string right = code(state, request);
  // The time that this takes does not tell how much of a guess was right.
  if (right.empty() || given.size() != right.size() ||
      CRYPTO_memcmp(given.data(), right.data(), right.size()) != 0) {
    return std::nullopt;
  }
  auto value = json::parse(state);
  return value ? std::optional(*std::move(value)) : std::nullopt;
}

}  // namespace tenon::mcp
