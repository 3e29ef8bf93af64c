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

/// A client of servers that speak the Model Context Protocol, revisions 2024-11-05 to 2026-07-28.
/// Source: modelcontextprotocol.io/specification/2026-07-28 (without a handshake; each request says
/// its revision) and /2025-11-25 (which begins with `initialize`, as those before it).
namespace tenon::mcp {

struct Tool {
  std::string name;
  std::string title;  ///< For people; "": it told none.
  std::string description;
  json::Value input_schema;   ///< An object; null: it told none.
  json::Value output_schema;  ///< Of the structured content; null: it told none.
  json::Value annotations;    ///< Hints such as `readOnlyHint`, which may be false; null: none.
  /// Parameters that go into headers, too (`x-mcp-header`): the path of each in the arguments.
  struct Header {
    std::string name;
    std::vector<std::string> path;
  };
  std::vector<Header> headers;
  bool is_task = false;  ///< It is only called as a task (2025-11-25, `taskSupport`).
};

struct CallResult {
  /// Its texts, a line each. Of pictures and other data it says what there is. Where there is no
  /// text, the structured content as JSON, or what else the server said instead.
  std::string text;
  bool is_error = false;
  json::Value structured;  ///< null: it gave none.
};

struct Progress {
  double progress = 0.0;
  std::optional<double> total;
  std::string message;
};

/// Why there is no result of a call.
struct CallFailure : Error {
  bool ran_nothing = false;  ///< The server has surely not begun: the call may be made again.
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{30'000};  ///< Of the handshake.
  /// After which a server that does not answer `server/discover` is asked to shake hands, as those
  /// from before 2026-07-28 want it.
  std::chrono::milliseconds discover_timeout{3'000};
  bool expects_handshake = false;  ///< It is one of those: the question is left out.
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
  /// Answers what a server needs to know before it can go on (`elicitation/create`: the message and
  /// the schema of a form), on the calling thread: the members of the answer, or nothing, which
  /// declines. Empty: there is nobody to be asked, and servers are told so.
  std::function<std::optional<json::Object>(const json::Value& params)> on_question{};
};

/// A connection to one server. Thread-safe; calls of several threads are under way at a time.
///
///     auto client = mcp::Client::connect({.name = "files", .command = {"mcp-server-files"}});
///     auto tools = (*client)->list_tools();
///     auto result = (*client)->call_tool("read", {{"path", "a.txt"}}, {});
///
/// Nothing that the server sends is trusted: messages, their depth and their number are bounded,
/// answers to questions that nobody asked are dropped, and what it asks of us (but `ping`) is
/// refused. A message that cannot be read fails the call that it answers, as far as that can be
/// told. Errors: `unavailable` where the server is gone, is cancelled or answers with an error;
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

  /// All pages of them, each tool once; within list_timeout, and within what `options` say. What is
  /// no tool, or has a schema that is no object, is left out with a warning in the log; so is what
  /// comes behind a bound or a page that fails, where there are tools before it.
  [[nodiscard]] virtual Expected<std::vector<Tool>> list_tools(const CallOptions& options) = 0;
  [[nodiscard]] virtual Result<CallResult, CallFailure> call_tool(const std::string& name,
                                                                  const json::Object& arguments,
                                                                  const CallOptions& options) = 0;
  /// Rises whenever the server says that its tools have changed, and when the time is over for
  /// which it said that they would be the same (`ttlMs`; at least kMinFresh).
  [[nodiscard]] virtual std::uint64_t tools_version() const = 0;
  static constexpr std::chrono::seconds kMinFresh{10};
  /// How its tools are to be used, by its own words, which are not to be trusted; at most
  /// kMaxInstructions bytes of them.
  [[nodiscard]] virtual std::string instructions() const = 0;
  static constexpr std::size_t kMaxInstructions = 8192;
  /// That both speak: "2025-11-25".
  [[nodiscard]] virtual std::string revision() const = 0;
  /// It shakes hands, as the revisions before 2026-07-28 do.
  [[nodiscard]] virtual bool has_handshake() const = 0;
  /// False: it is gone, and every call fails.
  [[nodiscard]] virtual bool is_open() const = 0;
};

}  // namespace tenon::mcp
