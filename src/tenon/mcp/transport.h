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
#include "tenon/mcp/client.h"
#include "tenon/mcp/servers.h"

namespace tenon::mcp {

/// Why nothing comes or goes any more.
struct Closing {
  Error why{};
  /// The last that a program wrote to its standard error, which may hold anything and is for those
  /// who run it.
  std::string said{};
  std::int64_t refused = 0;  ///< A request that surely was not run; 0: of none that is known.
};

/// Called on one thread of the transport, not after it is destroyed. They must return soon.
struct TransportHandlers {
  std::function<void(json::Value message)> on_message;
  /// The request `id` has no answer.
  std::function<void(std::int64_t id, Error why)> on_failed;
  /// `text` answers a request, and cannot be read.
  std::function<void(std::string_view text, Error why)> on_unreadable;
  std::function<void(Closing closing)> on_closed;
};

/// Carries messages of JSON-RPC 2.0 to a server and back. Thread-safe.
class Transport {
 public:
  /// Ends the connection: a program behind pipes is asked to end, and killed with its group if it
  /// does not.
  virtual ~Transport() = default;
  /// `id` is that of a request, or 0. Does not wait for the server. `headers` are those of this
  /// message; where there are no headers they are left out.
  [[nodiscard]] virtual Status send(const json::Value& message, std::int64_t id,
                                    const std::vector<http::Header>& headers) = 0;
  /// Abandoning a request tells the server that it is cancelled.
  [[nodiscard]] virtual bool cancels_by_abandoning() const { return false; }
  /// Nobody waits for the answer any more.
  virtual void abandon(std::int64_t id) = 0;
  /// Called now and then while somebody waits: does what is due.
  virtual void tend() {}
  /// Both sides have agreed on this version of the protocol. Tells the server so by `hello`, before
  /// all that is sent later, and waits for it to be taken within what `call` says.
  virtual void begin(const std::string& version, const json::Value& hello,
                     const CallOptions& call) = 0;
};

/// A program that reads and writes a line for each message.
[[nodiscard]] Expected<std::unique_ptr<Transport>> start_stdio(const ServerConfig& server,
                                                               std::size_t max_message_bytes,
                                                               TransportHandlers handlers);
/// "Streamable HTTP" of 2025-03-26 and later. A message that names its revision in `_meta` has the
/// headers of 2026-07-28.
[[nodiscard]] Expected<std::unique_ptr<Transport>> open_http(const ServerConfig& server,
                                                             std::size_t max_message_bytes,
                                                             TransportHandlers handlers);

/// Opens what carries the messages of a session, and hands those of the server to the handlers.
using OpenTransport = std::function<Expected<std::unique_ptr<Transport>>(TransportHandlers)>;
/// Client::connect() over a transport of another kind. `name` stands in errors.
[[nodiscard]] Expected<std::unique_ptr<Client>> connect_over(std::string name,
                                                             const OpenTransport& open,
                                                             const ClientOptions& options,
                                                             const CallOptions& call);

/// A message as bounded as what comes from outside must be. Half a surrogate pair is U+FFFD.
[[nodiscard]] Expected<json::Value> parse_message(std::string_view text);

/// What can be seen of a message that cannot be read.
struct Glance {
  bool is_answer = false;          ///< By its members, as far as they could be seen.
  std::optional<std::int64_t> id;  ///< Nothing: it was not seen.
};
[[nodiscard]] Glance glance_at(std::string_view text);

/// The request that `id` names: servers may spell ours as a string. Nothing: none of ours.
[[nodiscard]] std::optional<std::int64_t> own_id(const json::Value* id);

/// The text as the value of a header: as it is, or `=?base64?...?=` where that is not safe.
[[nodiscard]] std::string header_value(std::string_view text);

}  // namespace tenon::mcp
