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

}  // namespace tenon::api
