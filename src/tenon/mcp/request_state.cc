#include "tenon/mcp/request_state.h"

#include <charconv>

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "tenon/base/ids.h"
#include "tenon/mcp/encoding.h"

// A sealed state is its code, a point, the second of its end, a point, and the state as JSON. The
// code is HMAC-SHA256 (RFC 2104) over end, state and request, where the length of each goes before
// it: no two lists of them are the same bytes.
namespace tenon::mcp {

RequestStates::RequestStates() : key_{} {
  fill_random(key_.data(), key_.size());
}

std::string RequestStates::code(std::string_view end, std::string_view state,
                                std::string_view request) const {
  std::string text;
  for (const std::string_view part : {end, state, request}) {
    text.append(std::to_string(part.size())).append(":").append(part);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), bytes, text.size(),
           code.data(), &size) == nullptr) {
    return {};
  }
  return base64url({reinterpret_cast<const char*>(code.data()), size});
}

std::string RequestStates::seal(const json::Value& state, std::string_view request,
                                Clock::time_point now) const {
  const std::string end = std::to_string(
      std::chrono::floor<std::chrono::seconds>(now + kLifetime).time_since_epoch().count());
  const std::string text = json::to_string(state);
  return code(end, text, request) + "." + end + "." + text;
}

std::optional<json::Value> RequestStates::open(std::string_view sealed, std::string_view request,
                                               Clock::time_point now) const {
  const std::size_t first = sealed.find('.');
  const std::size_t second = first == sealed.npos ? first : sealed.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view given = sealed.substr(0, first);
  const std::string_view end = sealed.substr(first + 1, second - first - 1);
  const std::string_view state = sealed.substr(second + 1);
  const std::string right = code(end, state, request);
  // The time that this takes does not tell how much of a guess was right.
  if (right.empty() || given.size() != right.size() ||
      CRYPTO_memcmp(given.data(), right.data(), right.size()) != 0) {
    return std::nullopt;
  }
  // The code is right, so this is a number that seal() wrote.
  std::int64_t seconds = 0;
  std::from_chars(end.data(), end.data() + end.size(), seconds);
  if (now >= Clock::time_point(std::chrono::seconds(seconds))) return std::nullopt;
  auto value = json::parse(state);
  return value ? std::optional(*std::move(value)) : std::nullopt;
}

}  // namespace tenon::mcp
