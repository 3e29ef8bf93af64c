#include "tenon/api/auth.h"

#include <algorithm>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tenon/http/wire.h"

namespace tenon::api {

using http::equal_ignoring_case;

bool is_loopback(std::string_view host) {
  const std::string name(host);  // inet_pton needs a terminating zero
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return equal_ignoring_case(host, "localhost");
}

// A request without a Host header does not come from a browser, so it is admitted.
bool admits_host(const http::Request& request, const std::vector<std::string>& allowed) {
  std::string_view host = request.header("host");
  // Removes the port; an IPv6 address stands in brackets.
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  return host.empty() || is_loopback(host) ||
         std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
           return name == "*" || equal_ignoring_case(host, name);
         });
}

// A page of this server has the Origin of its own address.
bool admits_origin(const http::Request& request, const std::vector<std::string>& allowed) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return true;
  for (const std::string& known : allowed) {
    if (known == "*" || known == origin) return true;
  }
  const std::string_view host = request.header("host");
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() &&
         equal_ignoring_case(origin.substr(scheme + 3), host);
}

}  // namespace tenon::api
