#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/mcp/servers.h"

/// A client of servers that speak the Model Context Protocol, revisions 2024-11-05 to 2025-06-18.
/// Source: modelcontextprotocol.io/specification/2025-06-18
namespace tenon::mcp {

struct Tool {
  std::string name;
  std::string description;
  json::Value input_schema;  ///< null: it told none.
};

struct CallResult {
  /// Its texts, a line each. Of pictures and other data it says what there is. Where there is no
  /// text, the structured content as JSON.
  std::string text;
  bool is_error = false;
  json::Value structured;  ///< null: it gave none.
};

struct Progress {
  double progress = 0.0;
  std::optional<double> total;
  std::string message;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{30'000};      ///< Of the handshake.
  std::chrono::milliseconds list_timeout{30'000};         ///< Of a whole list of tools.
  std::size_t max_message_bytes = std::size_t{16} << 20;  ///< And those of a whole list of tools.
  std::size_t max_tools = 1000;
  std::string version = "0";  ///< Of us, as servers are told.
};

struct CallOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  CancelToken cancel{};
  /// On the calling thread.
  std::function<void(const Progress&)> on_progress{};
};

/// A connection to one server. Thread-safe; calls of several threads are under way at a time.
///
///     auto client = mcp::Client::connect({.name = "files", .command = {"mcp-server-files"}});
///     auto tools = (*client)->list_tools();
///     auto result = (*client)->call_tool("read", {{"path", "a.txt"}}, {});
///
/// Nothing that the server sends is trusted: messages, their depth and their number are bounded,
/// answers to questions that nobody asked are dropped, and what it asks of us (but `ping`) is
/// refused. Errors: `unavailable` where the server is gone, is cancelled or answers with an error;
/// `limit_exceeded` where time or a bound is over; `unsupported` where its protocol is another;
/// `invalid` where it breaks it. A server that is told of cancellation need not heed it.
class Client {
 public:
  /// Starts the program or asks the address, and shakes hands; within connect_timeout, and within
  /// what `call` says. The error has the last words of a program that ended meanwhile, as far as
  /// log::content() shows them; those of later errors, which models read, have none.
  [[nodiscard]] static Expected<std::unique_ptr<Client>> connect(const ServerConfig& server,
                                                                 const ClientOptions& options = {},
                                                                 const CallOptions& call = {});
  /// Ends the connection, and the program with all of its group.
  virtual ~Client() = default;

  /// All pages of them; within list_timeout, and within what `options` say.
  [[nodiscard]] virtual Expected<std::vector<Tool>> list_tools(const CallOptions& options) = 0;
  [[nodiscard]] virtual Expected<CallResult> call_tool(const std::string& name,
                                                       const json::Object& arguments,
                                                       const CallOptions& options) = 0;
  /// Rises whenever the server says that its tools have changed.
  [[nodiscard]] virtual std::uint64_t tools_version() const = 0;
  /// False: it is gone, and every call fails.
  [[nodiscard]] virtual bool is_open() const = 0;
};

}  // namespace tenon::mcp
