#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/mcp/servers.h"

/// Tokens for servers of tools, as the protocol asks for them: OAuth 2.1 with PKCE (RFC 7636),
/// discovery (RFC 9728, RFC 8414, OpenID Connect), dynamic registration (RFC 7591), client id
/// metadata documents, resource indicators (RFC 8707) and the issuer in answers (RFC 9207).
/// Source: modelcontextprotocol.io/specification/2026-07-28/basic/authorization.
///
/// The client library of Debian 12, libiddawc, is older than RFC 9728 and client id metadata
/// documents, and makes connections of its own, which no limit of ours holds. So the flow is
/// written here over http::Client and http::Server, with OpenSSL's SHA-256 and the system's random
/// numbers.
namespace tenon::mcp {

/// A server's refusal of a request that had no token, or one that is not enough.
struct Challenge {
  unsigned status = 0;
  std::string error;              ///< Such as "insufficient_scope"; "": not told.
  std::string scope;              ///< Scopes that the request needs; "": not told.
  std::string resource_metadata;  ///< Where the server describes itself; "": not told.
  std::string token;              ///< The token that was refused; "": the request had no token.

  /// No value: another token would not help.
  [[nodiscard]] static std::optional<Challenge> of(unsigned status,
                                                   const std::vector<http::Header>& headers,
                                                   std::string token);
};

struct AuthorizerOptions {
  std::string name;  ///< The name of the server, for errors.
  std::string url;   ///< The address of the server.
  OAuthConfig oauth;
  std::filesystem::path tokens;  ///< The file of TokenStore; "": nothing is kept.
  /// Shows the user the address at which they log in. Empty: there is no user.
  std::function<void(const std::string& address)> on_login;
};

/// Gets and renews the token of one server. Thread-safe.
///
/// A token comes, in this order: from the file, where another process may have put a newer one; by
/// the refresh token; by the client's own secret, if the configuration says so; by a login. The
/// answer to a login comes to a port of this machine. Addresses that servers name are only asked if
/// they are https, or if they are on this machine like the server itself. No error has a secret.
class Authorizer {
 public:
  explicit Authorizer(AuthorizerOptions options);
  ~Authorizer();
  Authorizer(const Authorizer&) = delete;
  Authorizer& operator=(const Authorizer&) = delete;

  /// "": there is no token yet.
  [[nodiscard]] std::string token() const;
  /// Gets a token that may do what the server refused, within the limits; waits for a login. Fails
  /// if there is no way to get one, or if the server has refused all that it asks for.
  [[nodiscard]] Status renew(const Challenge& challenge,
                             std::chrono::steady_clock::time_point deadline,
                             const CancelToken& cancel);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::mcp
