#include "tenon/api/auth.h"

#include <algorithm>
#include <cctype>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace tenon::api {
namespace {

constexpr std::size_t kMinKeyBytes = 8;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Reads every byte of `given` against `key`, wherever they differ; tells no more than the lengths.
bool equal_in_constant_time(std::string_view key, std::string_view given) {
  unsigned difference = key.size() == given.size() ? 0u : 1u;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto a = static_cast<unsigned char>(key[i % key.size()]);
    const auto b = static_cast<unsigned char>(given[i]);
    difference |= static_cast<unsigned>(a ^ b);
  }
  return difference == 0;
}

bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view key_of(const http::Request& request) {
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  const bool is_bearer =
      authorization.size() > kScheme.size() &&
      std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), [](char a, char b) {
        return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
      });
  if (is_bearer) return trimmed(authorization.substr(kScheme.size()));
  return trimmed(request.header("x-api-key"));
}

}  // namespace

Expected<ApiKeys> ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view key = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (key.empty() || key.front() == '#') continue;
    if (key.size() < kMinKeyBytes || key.find_first_of(" \t") != std::string_view::npos) {
      return Unexpected(
          Error{Errc::invalid, "line " + std::to_string(line) + ": a key has at least " +
                                   std::to_string(kMinKeyBytes) + " characters and no spaces"});
    }
    keys.keys_.emplace_back(key);
  }
  return keys;
}

bool is_loopback(std::string_view host) {
  const std::string name(host);  // inet_pton wants an end
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return is_same_name(host, "localhost");
}

bool admits_host(const http::Request& request, const std::vector<std::string>& allowed) {
  std::string_view host = request.header("host");
  // Without the port; an IPv6 address stands in brackets.
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  return host.empty() || is_loopback(host) ||
         std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
           return name == "*" || is_same_name(host, name);
         });
}

bool ApiKeys::admit(const http::Request& request) const {
  if (keys_.empty()) return true;
  const std::string_view given = key_of(request);
  bool is_known = false;
  for (const std::string& key : keys_) is_known |= equal_in_constant_time(key, given);
  return is_known;
}

}  // namespace tenon::api
