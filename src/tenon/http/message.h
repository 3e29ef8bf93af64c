#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Requests and responses as values.
namespace tenon::http {

struct Header {
  std::string name;
  std::string value;
};

/// A whole request. The case of header names does not matter.
struct Request {
  std::string method;
  std::string target;  ///< As sent, with the query.
  std::string path;    ///< Percent-decoded, without the query.
  std::string query;   ///< As sent, without '?'.
  std::vector<Header> headers;
  std::string body;
  std::string peer;  ///< "127.0.0.1:51234"

  /// The value of the first header `name`, or "".
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;
  std::string body;
};

/// The value of the first header `name`, or "". The case of the name does not matter.
[[nodiscard]] std::string_view find_header(const std::vector<Header>& headers,
                                           std::string_view name);

}  // namespace tenon::http
