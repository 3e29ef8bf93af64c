#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/mcp/servers.h"

/// A client of servers that speak the Model Context Protocol, revisions 2024-11-05 to 2026-07-28.
/// Source: modelcontextprotocol.io/specification/2026-07-28 (without a handshake; each request
/// names its revision) and /2025-11-25 (which begins with `initialize`, like the revisions before
/// it).
namespace tenon::mcp {

struct Tool {
  std::string name;
  std::string title;  ///< For people; "": the server gave none.
  std::string description;
  json::Value input_schema;   ///< An object; null: the server gave none.
  json::Value output_schema;  ///< The schema of the structured content; null: the server gave none.
  json::Value annotations;    ///< Hints such as `readOnlyHint`, which may be false; null: no hints.
  /// Parameters that are also sent as headers (`x-mcp-header`): the path of each in the arguments.
  struct Header {
    std::string name;
    std::vector<std::string> path;
  };
  std::vector<Header> headers;
  bool is_task = false;  ///< It can only be called as a task (2025-11-25, `taskSupport`).
};

/// A text that a server offers for users, with places to fill in.
struct Prompt {
  struct Argument {
    std::string name;
    std::string description;
    bool is_required = false;
  };
  std::string name;
  std::string title;
  std::string description;
  std::vector<Argument> arguments;
};

struct PromptMessage {
  std::string role;  ///< "user" or "assistant".
  std::string text;  ///< As CallResult::text.
};

/// Something that a server lets read: a file, a page, a row.
struct Resource {
  std::string uri;
  std::string name;
  std::string title;
  std::string description;
  std::string mime_type;
};

struct CallResult {
  /// The texts of the result, one per line, with a description of pictures and other data. Without
  /// text: the structured content as JSON, or whatever else the server sent.
  std::string text;
  bool is_error = false;
  json::Value structured;  ///< null: the server gave none.
};

struct Progress {
  double progress = 0.0;
  std::optional<double> total;
  std::string message;
};

/// Why a call has no result.
struct CallFailure : Error {
  bool ran_nothing = false;  ///< The server has certainly not begun, so the call may be repeated.
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{30'000};  ///< For the handshake.
  /// After this time a server that does not answer `server/discover` is asked for a handshake,
  /// which servers from before 2026-07-28 expect. Over HTTP it is at least half of connect_timeout.
  std::chrono::milliseconds discover_timeout{3'000};
  bool expects_handshake = false;  ///< The server needs a handshake, so `server/discover` is not
                                   ///< asked.
  std::chrono::milliseconds list_timeout{30'000};         ///< For a whole list of tools.
  std::size_t max_message_bytes = std::size_t{16} << 20;  ///< Also for a whole list of tools.
  std::size_t max_tools = 1000;
  std::string version = "0";  ///< Our own version, which servers are told.
  std::string url;            ///< For spans; connect() sets it.
  /// A user can be asked (CallOptions::on_question). Servers learn this when the connection begins.
  bool asks_user = false;
  std::filesystem::path tokens;  ///< The file of logins (TokenStore); "": none are kept.
  /// Shows the user the address of a login; a call that needs one then waits for it. Called on the
  /// calling thread. Empty: such a call fails.
  std::function<void(const std::string& address)> on_login{};
  /// False: no token is looked for, read or asked for, whatever the server answers. The server's
  /// headers are all that it gets.
  bool gets_tokens = true;
  /// For servers with a url: the numeric addresses that may be connected to
  /// (http::ClientOptions::admits). Empty: all.
  std::function<bool(const std::string& address)> admits{};
};

struct CallOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  CancelToken cancel{};
  /// Called on the calling thread.
  std::function<void(const Progress&)> on_progress{};
  /// Answers a server that needs to know something before it can go on (`elicitation/create`: the
  /// message and the schema of a form). It runs on the calling thread and returns the members of
  /// the answer, or nothing, which declines; members that it leaves out get their defaults. Empty:
  /// there is no user to ask, and servers are told so.
  std::function<std::optional<json::Object>(const json::Value& params)> on_question{};
};

/// A connection to one server. Thread-safe; several threads may have calls under way at the same
/// time.
///
///     auto client = mcp::Client::connect({.name = "files", .command = {"mcp-server-files"}});
///     auto tools = (*client)->list_tools();
///     auto result = (*client)->call_tool("read", {{"path", "a.txt"}}, {});
///
/// Nothing that the server sends is trusted: messages, their depth and their number are bounded,
/// answers to questions that were not asked are dropped, and requests of the server other than
/// `ping` are refused. A message that cannot be read fails the call that it answers, as far as that
/// can be recognised. Errors: `unavailable` if the server is gone, the call is cancelled, or the
/// server answers with an error; `limit_exceeded` if the time or another limit is reached;
/// `unsupported` if the server speaks another protocol; `invalid` if it breaks the protocol. A
/// server may ignore that a call is cancelled.
class Client {
 public:
  /// Starts the program or opens the address, and agrees on a revision, within connect_timeout and
  /// within the limits of `call`. The error includes the last output of a program that has ended,
  /// as far as log::content() allows; later errors, which models read, do not include it.
  [[nodiscard]] static Expected<std::unique_ptr<Client>> connect(const ServerConfig& server,
                                                                 const ClientOptions& options = {},
                                                                 const CallOptions& call = {});
  /// Ends the connection, and the program with its whole process group.
  virtual ~Client() = default;

  /// Lists all pages of tools, each tool once, within list_timeout and within the limits of
  /// `options`. An entry that is not a tool, or whose schema is not an object, is left out with a
  /// warning in the log; so are entries beyond a limit or a page that fails, if there are tools
  /// before it.
  [[nodiscard]] virtual Expected<std::vector<Tool>> list_tools(const CallOptions& options) = 0;
  /// The entries that the latest list_tools() has left out because they are faulty: the name ("":
  /// it has none), and why.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> left_out() const = 0;
  [[nodiscard]] virtual Result<CallResult, CallFailure> call_tool(const std::string& name,
                                                                  const json::Object& arguments,
                                                                  const CallOptions& options) = 0;
  /// Lists all pages, as list_tools() does; empty if the server has none.
  [[nodiscard]] virtual Expected<std::vector<Prompt>> list_prompts(const CallOptions& options) = 0;
  [[nodiscard]] virtual Expected<std::vector<Resource>> list_resources(
      const CallOptions& options) = 0;
  /// The messages of a prompt; `arguments` are strings.
  [[nodiscard]] virtual Expected<std::vector<PromptMessage>> get_prompt(
      const std::string& name, const json::Object& arguments, const CallOptions& options) = 0;
  /// The text of a resource, which the server need not have listed; data is described as in
  /// CallResult::text.
  [[nodiscard]] virtual Expected<std::string> read_resource(const std::string& uri,
                                                            const CallOptions& options) = 0;
  /// A number that grows when the server says that its tools have changed, and when the time is
  /// over for which it said that they would stay the same (`ttlMs`; at least kMinFresh).
  [[nodiscard]] virtual std::uint64_t tools_version() const = 0;
  static constexpr std::chrono::seconds kMinFresh{10};
  /// The server's own instructions for its tools, which must not be trusted; at most
  /// kMaxInstructions bytes.
  [[nodiscard]] virtual std::string instructions() const = 0;
  static constexpr std::size_t kMaxInstructions = 8192;
  /// The revision that both sides speak: "2025-11-25".
  [[nodiscard]] virtual std::string revision() const = 0;
  /// True for revisions before 2026-07-28, which have a handshake.
  [[nodiscard]] virtual bool has_handshake() const = 0;
  /// False: the server is gone, and every call fails.
  [[nodiscard]] virtual bool is_open() const = 0;
};

}  // namespace tenon::mcp
