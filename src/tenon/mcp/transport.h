#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"
#include "tenon/mcp/authorization.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/servers.h"

namespace tenon::mcp {

/// Why the connection is closed.
struct Closing {
  Error why{};
  /// The last text that a program wrote to its standard error. It may hold anything and is for the
  /// operator.
  std::string said{};
  std::int64_t refused = 0;  ///< A request that was certainly not run; 0: no such request is known.
};

/// Called on one thread of the transport, and not after it is destroyed. They must return soon.
struct TransportHandlers {
  std::function<void(json::Value message)> on_message;
  /// The request `id` gets no answer.
  std::function<void(std::int64_t id, Error why)> on_failed;
  /// The server wants a token for the request `id`, or another one, and has not run it.
  std::function<void(std::int64_t id, Challenge challenge, Error why)> on_refused;
  /// `text` answers a request, but cannot be read.
  std::function<void(std::string_view text, Error why)> on_unreadable;
  std::function<void(Closing closing)> on_closed;
};

/// Carries messages of JSON-RPC 2.0 to a server and back. Thread-safe.
class Transport {
 public:
  /// Ends the connection. A program behind pipes is asked to end, and killed with its group if it
  /// does not.
  virtual ~Transport() = default;
  /// `id` is the id of a request, or 0. Does not wait for the server. `headers` are for this
  /// message; transports without headers ignore them.
  [[nodiscard]] virtual Status send(const json::Value& message, std::int64_t id,
                                    const std::vector<http::Header>& headers) = 0;
  /// True if abandoning a request tells the server that it is cancelled.
  [[nodiscard]] virtual bool cancels_by_abandoning() const { return false; }
  /// The caller no longer waits for the answer.
  virtual void abandon(std::int64_t id) = 0;
  /// Gets a token that may do what the server refused; waits for a login if there is a user.
  [[nodiscard]] virtual Status authorize(const Challenge& challenge, const CallOptions& call);
  /// Called now and then while a caller waits; does the work that is due.
  virtual void tend() {}
  /// Both sides have agreed on this version of the protocol. Tells the server so with `hello`,
  /// before everything that is sent later, and waits within the limits of `call` until it has been
  /// taken.
  virtual void begin(const std::string& version, const json::Value& hello,
                     const CallOptions& call) = 0;
};

/// Starts a program that reads and writes one line for each message.
[[nodiscard]] Expected<std::unique_ptr<Transport>> start_stdio(const ServerConfig& server,
                                                               const ClientOptions& options,
                                                               TransportHandlers handlers);
/// "Streamable HTTP" of 2025-03-26 and later. A message that names its revision in `_meta` gets the
/// headers of 2026-07-28.
[[nodiscard]] Expected<std::unique_ptr<Transport>> open_http(const ServerConfig& server,
                                                             const ClientOptions& options,
                                                             TransportHandlers handlers);

/// Opens the transport of a session, which gives the server's messages to the handlers.
using OpenTransport = std::function<Expected<std::unique_ptr<Transport>>(TransportHandlers)>;
/// Client::connect() over another kind of transport. Errors begin with `name`.
[[nodiscard]] Expected<std::unique_ptr<Client>> connect_over(std::string name,
                                                             const OpenTransport& open,
                                                             const ClientOptions& options,
                                                             const CallOptions& call);

/// Parses a message within the limits for text from outside. Half a surrogate pair becomes U+FFFD.
[[nodiscard]] Expected<json::Value> parse_message(std::string_view text);

/// What can be recognised in a message that cannot be read.
struct Glance {
  bool is_answer = false;          ///< Judged by the members that could be read.
  std::optional<std::int64_t> id;  ///< Nothing: no id was found.
};
[[nodiscard]] Glance glance_at(std::string_view text);

/// The request that `id` names. Servers may write our number as a string. Nothing: it is not one of
/// ours.
[[nodiscard]] std::optional<std::int64_t> own_id(const json::Value* id);

/// `text` as a header's value: unchanged, or as `=?base64?...?=` if it is not safe.
[[nodiscard]] std::string header_value(std::string_view text);

}  // namespace tenon::mcp
