#include "tenon/mcp/allow_list.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include <arpa/inet.h>

namespace tenon::mcp {
namespace {

// The addresses that begin with the same `bits` as `first`.
struct Range {
  std::uint32_t first;
  unsigned bits;
};

// The IPv4 Special-Purpose Address Registry of IANA (RFC 6890), multicast and reserved addresses.
constexpr Range kSpecial[] = {
    {0x00000000, 8},   // 0.0.0.0/8: this network
    {0x0A000000, 8},   // 10.0.0.0/8
    {0x64400000, 10},  // 100.64.0.0/10: shared by carriers
    {0x7F000000, 8},   // 127.0.0.0/8
    {0xA9FE0000, 16},  // 169.254.0.0/16: link-local, and the metadata of clouds
    {0xAC100000, 12},  // 172.16.0.0/12
    {0xC0000000, 24},  // 192.0.0.0/24
    {0xC0000200, 24},  // 192.0.2.0/24: documentation
    {0xC0586300, 24},  // 192.88.99.0/24: relays of 6to4
    {0xC0A80000, 16},  // 192.168.0.0/16
    {0xC6120000, 15},  // 198.18.0.0/15: benchmarks
    {0xC6336400, 24},  // 198.51.100.0/24: documentation
    {0xCB007100, 24},  // 203.0.113.0/24: documentation
    {0xE0000000, 3},   // 224.0.0.0/4 and 240.0.0.0/4: multicast, reserved
};

bool is_public_v4(std::uint32_t address) {
  return std::ranges::none_of(kSpecial, [address](const Range& range) {
    return (address ^ range.first) >> (32U - range.bits) == 0;
  });
}

std::uint32_t number_of(std::span<const std::uint8_t> bytes) {
  std::uint32_t number = 0;
  for (const std::uint8_t byte : bytes.first(4)) number = number << 8U | byte;
  return number;
}

// Addresses of the global unicast range, without the parts of it that are tunnels (Teredo, 6to4),
// other protocols' or documentation. An IPv4 address in an IPv6 one counts as itself.
bool is_public_v6(const std::array<std::uint8_t, 16>& bytes) {
  const std::span<const std::uint8_t> all(bytes);
  const bool has_v4 = std::ranges::all_of(all.first(10), [](auto byte) { return byte == 0; }) &&
                      bytes[10] == 0xFF && bytes[11] == 0xFF;
  if (has_v4) return is_public_v4(number_of(all.subspan(12)));
  const std::uint32_t head = number_of(all);
  if (head >> 29U != 1) return false;                 // not in 2000::/3
  if (head >> 9U == 0x20010000U >> 9U) return false;  // 2001::/23
  if (head == 0x20010DB8U) return false;              // 2001:db8::/32
  if (head >> 16U == 0x2002U) return false;           // 2002::/16
  return head >> 12U != 0x3FFF0000U >> 12U;           // 3fff::/20
}

// Whether the operator has written an address instead of a name.
bool is_literal(const std::string& host) {
  std::array<std::uint8_t, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string_view path_of(const http::Url& url) {
  return std::string_view(url.target).substr(0, url.target.find('?'));
}

// Whether all servers and proxies read the path in the same way. If "/mcp/%2e%2e/admin" were
// compared as text, it would be below "/mcp".
bool has_plain_path(std::string_view path) {
  // A segment may have parameters behind ';', which servers cut off: "..;x" is ".." for them.
  if (path.find_first_of("\\;") != path.npos) return false;
  std::string all = lower(std::string(path));
  for (const std::string_view code : {"%2f", "%5c", "%2e", "%3b", "%25"}) {
    if (all.find(code) != all.npos) return false;
  }
  all += '/';
  return all.find("/./") == all.npos && all.find("/../") == all.npos;
}

// Whether `path` is `top` or below it.
bool is_within(std::string_view path, std::string_view top) {
  while (top.ends_with('/')) top.remove_suffix(1);
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

}  // namespace

Expected<AllowList> AllowList::read(const std::vector<std::string>& entries,
                                    bool names_may_be_private) {
  AllowList list;
  list.names_may_be_private_ = names_may_be_private;
  for (const std::string& entry : entries) {
    auto url = http::parse_url(entry);
    if (!url) {
      return Unexpected(Error{
          Errc::invalid, "\"" + http::without_secrets(entry) + "\" is " + url.error().message});
    }
    if (url->target.find('?') != url->target.npos || url->host.find('*') != url->host.npos ||
        !has_plain_path(path_of(*url))) {
      return Unexpected(Error{Errc::invalid, "\"" + http::without_secrets(entry) +
                                                 "\" must be an address with a plain path, like "
                                                 "\"https://tools.example/mcp\""});
    }
    url->host = lower(std::move(url->host));
    list.entries_.push_back(*std::move(url));
  }
  return list;
}

AllowList::Access AllowList::find(std::string_view text) const {
  auto url = http::parse_url(text);
  if (!url || !has_plain_path(path_of(*url))) return {};
  url->host = lower(std::move(url->host));
  Access access;
  for (const http::Url& entry : entries_) {
    if (entry.is_https != url->is_https || entry.host != url->host || entry.port != url->port ||
        !is_within(path_of(*url), path_of(entry))) {
      continue;
    }
    access.is_allowed = true;
    // An operator who writes 10.0.0.5 or localhost means a private address. The owner of a name may
    // let it lead to any address, so a name does not count.
    access.may_be_private =
        names_may_be_private_ || is_literal(entry.host) || entry.host == "localhost";
  }
  return access;
}

bool is_public_address(const std::string& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    return is_public_v4(number_of(bytes));
  }
  // A scope such as %eth0 is of link-local addresses alone, so it is not public.
  return inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 && is_public_v6(bytes);
}

}  // namespace tenon::mcp
