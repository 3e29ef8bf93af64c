#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/client.h"

namespace tenon::mcp {

/// Which servers of tools a client of ours may name. It is a door to the network, so it is closed
/// unless the operator opens it.
///
///     auto allowed = AllowList::read({"https://tools.example", "http://127.0.0.1:8000/mcp"});
///     auto access = allowed->find("https://tools.example/mcp");   // no value: not allowed
///
/// An entry allows addresses with the same scheme, host and port whose path is the entry's or below
/// it. Immutable.
class AllowList {
 public:
  /// With `names_may_be_private` a host's name may be found in a private network. Fails with
  /// `invalid` at an entry that is not an http or https address, or has a query or a wildcard.
  [[nodiscard]] static Expected<AllowList> read(const std::vector<std::string>& entries,
                                                bool names_may_be_private = false);
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  struct Access {
    bool is_allowed = false;
    /// It may be connected to in a private network. True for an entry that has the address itself
    /// or `localhost`: a name could be made to point into the operator's network by the name
    /// server that answers for it.
    bool may_be_private = false;
  };
  /// A path with `.` or `..` as a segment, `\`, `;` or an encoded `/`, `\`, `.`, `;` or `%` is not
  /// allowed, since servers read such paths in different ways.
  [[nodiscard]] Access find(std::string_view url) const;

 private:
  std::vector<http::Url> entries_;
  bool names_may_be_private_ = false;
};

/// Whether the numeric address is one of the public internet: not of a private, local, shared,
/// documentation or multicast range, also where an IPv6 address contains the IPv4 address.
/// Source: the registries of special-purpose addresses of IANA (RFC 6890 and its updates).
[[nodiscard]] bool is_public_address(const std::string& address);

}  // namespace tenon::mcp
