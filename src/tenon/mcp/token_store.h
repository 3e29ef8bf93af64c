#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"

namespace tenon::mcp {

/// What an authorization server gave for one server of tools. Its texts are secrets, except issuer,
/// scope and client_id.
struct Grant {
  std::string issuer;           ///< The authorization server that gave it.
  std::string client_id;        ///< Who Tenon is there.
  std::string client_secret;    ///< "": none.
  std::string client_auth;      ///< How it shows that: "none", "client_secret_basic" or "..._post".
  std::uint16_t redirect_port;  ///< The port of the address that it is registered with; 0: none.
  std::string scope;            ///< What was asked for.
  std::string access_token;
  std::string refresh_token;  ///< "": none.
};

/// The grants of a user, in a file that only they can read (mode 600), by the address of the server
/// of tools. Several processes may use the file at the same time.
///
///     TokenStore store(config::tokens_file());
///     auto grant = store.find("https://host/mcp");
///
/// No error of it contains a secret.
class TokenStore {
 public:
  /// "": nothing is kept, and keep() does nothing.
  explicit TokenStore(std::filesystem::path file) : file_(std::move(file)) {}

  /// Nothing: there is no grant. Fails with `unavailable` if the file cannot be read or others may
  /// read it, too, and with `invalid` if it is not such a file.
  [[nodiscard]] Expected<std::optional<Grant>> find(const std::string& url) const;
  /// These two are called within alone().
  [[nodiscard]] Status keep(const std::string& url, const Grant& grant) const;
  /// False: there was no grant.
  [[nodiscard]] Expected<bool> forget(const std::string& url) const;

  /// Holds the lock between processes while `work` runs, so that no other process uses the same
  /// refresh token. Fails if the lock is not free in time. Without a file it only calls `work`.
  [[nodiscard]] Status alone(std::chrono::steady_clock::time_point deadline,
                             const CancelToken& cancel, const std::function<Status()>& work) const;

 private:
  const std::filesystem::path file_;
};

}  // namespace tenon::mcp
