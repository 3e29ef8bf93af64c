#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"

namespace tenon::api {

/// The keys that open the server. Empty: it is open to all. Immutable, thread-safe.
class ApiKeys {
 public:
  ApiKeys() = default;
  /// From the text of a key file: one key per line; blank lines and lines that begin with '#' are
  /// left out. Fails with `invalid` naming the line at a key with spaces or of less than 8 bytes.
  [[nodiscard]] static Expected<ApiKeys> parse(std::string_view text);

  [[nodiscard]] bool empty() const { return keys_.empty(); }
  /// True if the request carries a key, as `Authorization: Bearer KEY` or `x-api-key: KEY`, or if
  /// none is needed. Takes the same time whatever the key and wherever it differs.
  [[nodiscard]] bool admit(const http::Request& request) const;

 private:
  std::vector<std::string> keys_;
};

/// True for what only this machine can reach: 127.0.0.0/8, ::1 and the name "localhost".
[[nodiscard]] bool is_loopback(std::string_view host);

/// True if the request was sent to a loopback name, to one of `allowed` ("*": any), or to none.
/// A server that needs no key asks: a browser lets any page talk to this machine under a name that
/// the page's owner points here (DNS rebinding), and sends that name as Host.
[[nodiscard]] bool admits_host(const http::Request& request,
                               const std::vector<std::string>& allowed);

}  // namespace tenon::api
